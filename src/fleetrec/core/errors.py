"""Exceptions a user of the framework may meet; each message stands without a traceback."""

from collections.abc import Sequence


class FleetRecError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(FleetRecError):
    """A job says something the schema does not allow; carries all problems at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class DataError(FleetRecError):
    """A data file does not hold what the job says it does."""


class ModelError(FleetRecError):
    """A model file cannot be loaded, or breaks the contract of a model."""


class CheckpointError(FleetRecError):
    """A checkpoint is missing, damaged, or does not fit the model."""


class MissingFileError(CheckpointError):
    """A file or folder that was to be read is not there."""


class MismatchError(CheckpointError):
    """A checkpoint is sound, but of something else than what is to go on from it."""


class LostRankError(FleetRecError):
    """Another process that makes every step together with this one is gone, or does not answer."""


class UnavailableError(FleetRecError):
    """The job asks for something this machine or this installation does not have."""
