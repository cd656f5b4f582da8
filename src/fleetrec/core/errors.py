"""Exceptions for users of the framework; messages are shown without a traceback."""

from collections.abc import Sequence


class FleetRecError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(FleetRecError):
    """A job is invalid; contains all problems at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[Sequence[str]]]:
        """Pickle the error for another process."""
        return type(self), (self.problems,)


class DataError(FleetRecError):
    """A data file does not match the job."""


class ModelError(FleetRecError):
    """A model file cannot be loaded, or breaks the contract of a model."""


class CheckpointError(FleetRecError):
    """A checkpoint is missing, damaged, or does not fit the model."""


class MissingFileError(CheckpointError):
    """A file or folder does not exist."""


class MismatchError(CheckpointError):
    """A valid checkpoint does not match the run that is to resume from it."""


class LostRankError(FleetRecError):
    """Another rank of this run has exited, or does not respond."""


class UnavailableError(FleetRecError):
    """The job needs something that this machine or installation does not have."""
