"""From what the user typed to a checked job."""

from collections.abc import Sequence

from fleetrec.config.document import read_document
from fleetrec.config.job import Job
from fleetrec.config.yaml_dialect.decode import decode
from fleetrec.config.yaml_dialect.locate import locate_job


def load_job(text: str, *, overrides: Sequence[str]) -> Job:
    """Find, read and check a job file, or raise ConfigError with all problems."""
    located = locate_job(text)
    document = read_document(located.path)
    from fleetrec.models.load import model_options  # brings torch: not for a misspelt name

    job = decode(document, assignments=overrides, model_options=model_options)
    return job.model_copy(update={"notices": (*located.notices, *job.notices)})
