"""Event time of samples in whole seconds; independent of the clock of this machine."""

import datetime

SECONDS_PER_DAY = 86_400


def event_time_of(epoch: int) -> int:
    """Return the event time of samples without one: every epoch counts as a day."""
    return epoch * SECONDS_PER_DAY


def day_time(day: str) -> int:
    """Return the event time at which a day such as 20261118 begins."""
    begin = datetime.datetime.strptime(day, "%Y%m%d").replace(tzinfo=datetime.UTC)
    return int(begin.timestamp())


def day_of(event_time: float) -> str:
    """Return the day of an event time, such as 20261118."""
    return f"{datetime.datetime.fromtimestamp(event_time, tz=datetime.UTC):%Y%m%d}"


def day_after(day: str, *, days: int = 1) -> str:
    """Return the day that comes ``days`` days after another; negative: before."""
    begin = datetime.datetime.strptime(day, "%Y%m%d").replace(tzinfo=datetime.UTC)
    return f"{begin + datetime.timedelta(days=days):%Y%m%d}"


def days_between(first: str, last: str) -> int:
    """Return how many days ``last`` is after ``first``."""
    return (day_time(last) - day_time(first)) // SECONDS_PER_DAY
