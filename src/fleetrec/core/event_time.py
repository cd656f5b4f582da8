"""When samples happened, in whole seconds; never the clock of this machine."""

SECONDS_PER_DAY = 86_400


def event_time_of(epoch: int) -> int:
    """Return the time of samples that carry none: every epoch counts as a day."""
    return epoch * SECONDS_PER_DAY
