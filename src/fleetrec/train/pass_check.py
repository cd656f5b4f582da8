"""Whether the passes that a run has begun mean the same with the options of now. No torch."""

from fleetrec.config.online import FollowOptions
from fleetrec.core import storage
from fleetrec.core.errors import ConfigError
from fleetrec.core.event_time import day_after, days_between
from fleetrec.train.pass_log import PassLog
from fleetrec.train.pass_plan import PassSpec

NEW_RUN = "or start a new run with another model_save_path; init_model_path keeps the weights"


def check_passes(options: FollowOptions, *, save_path: str) -> None:
    """Refuse options with which the passes below ``save_path`` would have other numbers."""
    last = PassLog(save_path).last()
    if last is None or not last.spec.day:
        return
    problem = _problem(last.spec, options)
    if problem is not None:
        raise ConfigError([f"model_save_path {storage.shown(save_path)}: {problem}"])


def _problem(spec: PassSpec, options: FollowOptions) -> str | None:
    minutes = (spec.end_time - spec.event_time) // 60
    if minutes != options.pass_minutes:
        return (
            f"its pass {spec.name} has {minutes} minutes, but split_interval and split_per_pass "
            f"(or pass_per_day) now make passes of {options.pass_minutes} minutes; set them back, "
            f"{NEW_RUN}"
        )
    expected = days_between(options.start_day, spec.day) * options.passes_per_day + spec.number - 1
    if spec.index != expected:
        before = day_after(spec.day, days=-(spec.index // options.passes_per_day))
        return (
            f"its passes, of which {spec.name} is the last, count from start_day {before}, but "
            f"start_day is now {options.start_day}; set it back to continue (end_day may change), "
            f"{NEW_RUN}"
        )
    return None
