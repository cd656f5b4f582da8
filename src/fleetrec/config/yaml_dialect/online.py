"""The keys of a runner that trains online: which data it follows, and what it saves."""

import datetime
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from fleetrec.config.online import MINUTES_PER_DAY, FollowOptions, OnlineOptions, StreamOptions
from fleetrec.config.options import Url
from fleetrec.config.rules import ResumeOptions, Rule, ServingRule
from fleetrec.config.yaml_dialect.section import Int, MaybePath, MaybeUrl, forward_slashes
from fleetrec.config.yaml_dialect.watching import WatchKeys, watch_options, watch_problems
from fleetrec.core.errors import DataError
from fleetrec.core.stream_start import parse_start
from fleetrec.core.stream_url import is_stream, parse_url

DAY = re.compile(r"\d{8}")
DAY_RANGE = re.compile(r"\{(\d{8})\.\.(\d{8})\}")
ONLINE_CLASSES = ("online", "online_train")


def _folders(value: Any) -> Any:
    """Accept one folder or a list of them."""
    listed = [value] if isinstance(value, str) else value
    return [forward_slashes(one) for one in listed] if isinstance(listed, list) else listed


def _day(value: Any) -> Any:
    """Accept 20261118 and "20261118"."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return None if text == "" else text


Folders = Annotated[tuple[Url, ...], BeforeValidator(_folders)]
Day = Annotated[str | None, BeforeValidator(_day)]


class OnlineKeys(WatchKeys):
    """Keys of a runner that follows its data."""

    train_data_dir: Folders = ()
    infer_data_dir: Folders = ()
    model_save_path: MaybeUrl = None
    start_day: Day = None
    end_day: Day = None
    days: str | tuple[Day, ...] | None = None
    pass_per_day: Int | None = Field(default=None, gt=0)
    split_interval: Int | None = Field(default=None, gt=0)
    split_per_pass: Int = Field(default=1, gt=0)
    checkpoint_per_pass: Int = Field(default=6, gt=0)
    save_delta_frequency: Int = Field(default=6, gt=0)
    save_first_base: bool = False
    data_donefile: str | None = None
    data_sleep_second: float = Field(default=10, gt=0)
    data_timeout_second: float = Field(default=0, ge=0)
    on_data_timeout: Literal["fail", "skip"] = "fail"
    late_files: Literal["train", "skip"] = "train"
    late_minutes: Int = Field(default=60, ge=0)
    evaluate_first: bool = True
    gauc_slot: str | None = None
    prefetch: bool = True
    keep_days: Int = Field(default=0, ge=0)
    runner_class_path: MaybePath = None
    pass_messages: Int = Field(default=100_000, gt=0)
    pass_seconds: float = Field(default=60, ge=0)
    num_passes: Int | None = Field(default=None, gt=0)

    @field_validator("data_donefile")
    @classmethod
    def _check_done_file(cls, value: str | None) -> str | None:
        if value and "/" in value:
            raise ValueError(f"expected the name of a file, not {value!r}")
        return value or None


ONLINE_KEYS = frozenset(OnlineKeys.model_fields)


def is_online(runner: OnlineKeys, runner_class: str) -> bool:
    """Return whether a runner follows its data: by its class, or by where the data is."""
    return runner_class in ONLINE_CLASSES or bool(runner.train_data_dir or runner.runner_class_path)


def online_problems(runner: OnlineKeys) -> dict[str, str]:
    """Return what is wrong with the keys of an online runner, by key."""
    problems = watch_problems(
        runner, evaluates=runner.evaluate_first, waits=runner.runner_class_path is None
    )
    if not runner.model_save_path:
        problems["model_save_path"] = "required for online training, but missing"
    if runner.runner_class_path is not None:
        return problems | _runner_file_problems(runner)
    if not runner.train_data_dir:
        problems["train_data_dir"] = "required for online training, but missing"
    if _has_stream(runner):
        return problems | _stream_problems(runner)
    for key in sorted(STREAM_KEYS & runner.model_fields_set):
        problems[key] = "is for a train_data_dir that is a stream, such as kafka://host:9092/topic"
    return problems | _day_problems(runner) | _length_problems(runner)


def _day_problems(runner: OnlineKeys) -> dict[str, str]:
    """Check which days a runner follows."""
    problems = {}
    if runner.days is not None and (runner.start_day or runner.end_day):
        problems["days"] = "given together with start_day or end_day"
    elif runner.days is None and runner.start_day is None:
        problems["start_day"] = "required for online training, but missing (or days)"
    if runner.pass_per_day is not None and runner.split_interval is not None:
        problems["pass_per_day"] = "given together with split_interval"
    try:
        start, end = _first_and_last_day(runner)
        if start is not None and end is not None and end < start:
            problems["end_day"] = f"{end} is before start_day, {start}"
    except ValueError as error:
        problems["days" if runner.days is not None else "start_day"] = str(error)
    return problems


FOLDER_KEYS = (
    "infer_data_dir",
    "start_day",
    "end_day",
    "days",
    "pass_per_day",
    "split_interval",
    "split_per_pass",
    "save_first_base",
    "data_donefile",
    "data_timeout_second",
    "on_data_timeout",
    "late_files",
    "late_minutes",
    "prefetch",
)
STREAM_KEYS = frozenset({"pass_messages", "pass_seconds", "num_passes"})


def _has_stream(runner: OnlineKeys) -> bool:
    return any(map(is_stream, runner.train_data_dir))


def _given(runner: OnlineKeys, keys: Iterable[str]) -> list[str]:
    return [key for key in keys if key in runner.model_fields_set and getattr(runner, key)]


def _stream_problems(runner: OnlineKeys) -> dict[str, str]:
    """Check a runner whose data is a stream."""
    problems = dict.fromkeys(
        _given(runner, FOLDER_KEYS), "is for folders of days, not for a stream"
    )
    if len(runner.train_data_dir) > 1:
        problems["train_data_dir"] = "expected one stream"
        return problems
    try:
        url = parse_url(runner.train_data_dir[0])
        parse_start(url.start or "earliest", where="start")
        if url.is_range:
            problems["train_data_dir"] = "expected a stream without partition, begin and end"
    except DataError as error:
        problems["train_data_dir"] = str(error)
    return problems


def _runner_file_problems(runner: OnlineKeys) -> dict[str, str]:
    """Check a runner whose passes a class of the user asks for."""
    text = "is not for a runner with runner_class_path, which names the data of every pass"
    keys = ("train_data_dir", "data_sleep_second", *FOLDER_KEYS, *STREAM_KEYS)
    problems = dict.fromkeys(_given(runner, keys), text)
    if not Path(str(runner.runner_class_path)).is_file():
        problems["runner_class_path"] = f"no such file: {runner.runner_class_path}"
    return problems


def _length_problems(runner: OnlineKeys) -> dict[str, str]:
    """Check that passes fill a day."""
    if runner.pass_per_day is not None and MINUTES_PER_DAY % runner.pass_per_day:
        return {"pass_per_day": f"expected a divisor of {MINUTES_PER_DAY}"}
    minutes = _split_minutes(runner)
    if MINUTES_PER_DAY % minutes:
        return {"split_interval": f"expected minutes that divide a day, got {minutes}"}
    num_splits = MINUTES_PER_DAY // minutes
    if num_splits % runner.split_per_pass:
        return {
            "split_per_pass": f"a day has {num_splits} folders of {minutes} minutes; expected a "
            f"divisor of that, got {runner.split_per_pass}"
        }
    return {}


def online_options(runner: OnlineKeys, *, settings: Mapping[str, Any]) -> OnlineOptions:
    """Translate the keys of an online runner that has no problems.

    ``settings`` is the whole job file, for a class of the user.
    """
    assert runner.model_save_path is not None
    path = runner.runner_class_path
    return OnlineOptions(
        follow=None if path is not None else _follow_options(runner),
        runner_path=None if path is None else Path(path),
        settings={} if path is None else settings,
        save_path=runner.model_save_path,
        evaluate_first=runner.evaluate_first,
        group_by=runner.gauc_slot,
        read_ahead=runner.prefetch,
        keep_days=runner.keep_days,
        watch=watch_options(runner),
    )


def _follow_options(runner: OnlineKeys) -> FollowOptions | StreamOptions:
    if _has_stream(runner):
        return StreamOptions(
            url=runner.train_data_dir[0],
            messages=runner.pass_messages,
            seconds=runner.pass_seconds,
            num_passes=runner.num_passes,
            poll_s=runner.data_sleep_second,
        )
    start, end = _first_and_last_day(runner)
    assert start is not None
    return FollowOptions(
        folders=runner.train_data_dir,
        evaluation_folders=runner.infer_data_dir,
        start_day=start,
        end_day=end,
        split_minutes=_split_minutes(runner),
        splits_per_pass=runner.split_per_pass,
        done_file=runner.data_donefile,
        poll_s=runner.data_sleep_second,
        timeout_s=runner.data_timeout_second,
        on_timeout=runner.on_data_timeout,
        late_files=runner.late_files,
        late_minutes=runner.late_minutes,
    )


def online_rules(runner: OnlineKeys) -> tuple[Rule, ...]:
    """Return what an online runner saves.

    Within a day checkpoints hold what has changed; the one at the end of a day holds everything.
    """
    save = runner.model_save_path or ""
    within, day_end = f"{save}/{{day}}/{{number}}", f"{save}/{{next_day}}/0"
    base = ServingRule(path=f"{save}/{{next_day}}/base", folder=save, kind="base")
    delta = ServingRule(
        path=f"{save}/{{day}}/delta-{{number}}", base_path=f"{save}/{{day}}/base", folder=save
    )
    every_pass = {"when": "day_passes", "path": within, "done_folder": save}
    every_day = {"when": "days", "path": day_end, "done_folder": save}
    rules = [
        Rule(**every_pass, every=runner.checkpoint_per_pass, do="delta"),
        Rule(**every_pass, every=runner.save_delta_frequency, do="serving", serving=delta),
        Rule(**every_day, do="checkpoint"),
        Rule(**every_day, do="serving", serving=base, keep_days=runner.keep_days),
        Rule(when="stop", do="delta", path=f"{save}/{{day}}/stop-{{step}}"),
    ]
    if runner.save_first_base:
        start, _ = _first_and_last_day(runner)
        first = ServingRule(path=f"{save}/{start}/base", folder=save, kind="base")
        path = f"{save}/{start}/0"
        rules.insert(0, Rule(when="begin", do="checkpoint", path=path))
        rules.insert(1, Rule(when="begin", do="serving", path=path, serving=first))
    return tuple(rules)


def online_resume(runner: OnlineKeys) -> ResumeOptions:
    """Return where an online runner continues: below model_save_path, whatever machine wrote it."""
    return ResumeOptions(folders=(runner.model_save_path or "",), layout="days")


def _split_minutes(runner: OnlineKeys) -> int:
    if runner.pass_per_day is not None:
        return max(1, MINUTES_PER_DAY // (runner.pass_per_day * runner.split_per_pass))
    return runner.split_interval or 5


def _first_and_last_day(runner: OnlineKeys) -> tuple[str | None, str | None]:
    """Return the days; raises ValueError for what is no day."""
    if runner.days is None:
        return _checked(runner.start_day), _checked(runner.end_day)
    if isinstance(runner.days, str):
        found = DAY_RANGE.fullmatch(runner.days.strip())
        listed = list(found.groups()) if found else runner.days.split()
    else:
        listed = [day for day in runner.days if day is not None]
        found = None
    days = [_checked(day) for day in listed]
    if not days:
        raise ValueError("expected days such as {20261116..20261118}")
    if found is None and [str(day) for day in days] != _days_between(str(days[0]), len(days)):
        raise ValueError(f"expected days that follow each other, got {' '.join(map(str, days))}")
    return days[0], days[-1]


def _days_between(first: str, count: int) -> list[str]:
    begin = datetime.datetime.strptime(first, "%Y%m%d")
    return [f"{begin + datetime.timedelta(days=i):%Y%m%d}" for i in range(count)]


def _checked(day: str | None) -> str | None:
    if day is None:
        return None
    try:
        if DAY.fullmatch(day):
            datetime.datetime.strptime(day, "%Y%m%d")
            return day
    except ValueError:
        pass
    raise ValueError(f"expected a day such as 20261118, got {day!r}")
