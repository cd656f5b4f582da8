"""From what the user typed to a checked job."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fleetrec.config.job import Job
from fleetrec.config.load import Components, JobRequest
from fleetrec.config.load import load_job as load
from fleetrec.config.options import Options
from fleetrec.config.pipeline_dialect.decode import ModelClass


def load_job(source: str, *, overrides: Sequence[str] = ()) -> Job:
    """Find, read and check a job file of either dialect, or raise ConfigError with all problems."""
    return load_requested(JobRequest(source=source, overrides=overrides))


def load_requested(request: JobRequest) -> Job:
    """Find, read and check a job file as the command line asks for it."""
    components = Components(
        model_options=_model_options, pipeline_classes=_pipeline_classes, num_gpus=_num_gpus
    )
    return load(request, components=components)


def _model_options(path: Path) -> type[Options]:
    from fleetrec.models.load import model_options  # loads torch: not for a misspelt name

    return model_options(path)


def _pipeline_classes() -> Mapping[str, ModelClass]:
    from fleetrec.models.pipeline_classes import pipeline_classes

    return pipeline_classes()


def _num_gpus() -> int:
    from fleetrec.parallel.device import num_gpus

    return num_gpus()
