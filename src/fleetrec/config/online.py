"""Options of a run that follows data which arrives while it trains."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from fleetrec.config.options import Options, Url

MINUTES_PER_DAY = 24 * 60


class FollowOptions(Options):
    """Folders ``<folder>/<YYYYMMDD>/<HHMM>`` of data, one for every ``split_minutes`` of a day.

    A pass is ``splits_per_pass`` of them. Without ``end_day`` there is no end. A folder is complete
    when ``done_file`` is in it, or, without that name, when its files have not changed for
    ``poll_s`` seconds. After ``timeout_s`` (0: never) a folder that is not complete is skipped, or
    ends the run. Files that appear in a folder whose pass has begun are trained with the next pass
    or skipped; folders of the last ``late_minutes`` are looked into.
    """

    folders: tuple[Url, ...] = Field(min_length=1)
    evaluation_folders: tuple[Url, ...] = ()
    start_day: str
    end_day: str | None = None
    split_minutes: int = Field(default=5, gt=0, le=MINUTES_PER_DAY)
    splits_per_pass: int = Field(default=1, gt=0)
    done_file: str | None = None
    poll_s: float = Field(default=10, gt=0)
    timeout_s: float = Field(default=0, ge=0)
    on_timeout: Literal["fail", "skip"] = "fail"
    late_files: Literal["train", "skip"] = "train"
    late_minutes: int = Field(default=60, ge=0)

    @property
    def pass_minutes(self) -> int:
        """Return how much of a day a pass is."""
        return self.split_minutes * self.splits_per_pass

    @property
    def passes_per_day(self) -> int:
        """Return how many passes a day has."""
        return MINUTES_PER_DAY // self.pass_minutes


class StreamOptions(Options):
    """A message stream: ``kafka://host:9092/topic`` or ``nats://host:4222/STREAM``.

    A new run begins at ``start``: ``earliest``, ``latest``, seconds since 1970, a local time such
    as ``20220907 12:00:00``, or offsets by partition such as ``0:5,1:7``; by default at the
    ``start`` in the URL. A pass has at most ``messages``; it begins when that number is there, or,
    ``seconds`` after the last pass began, with those that are there, at least one. So does the
    first pass of a process. The run ends after ``num_passes``, or with the last message before
    ``until`` (seconds since 1970) once there is a later one; else never. ``client`` has options of
    the client library, such as passwords, which are written nowhere.
    """

    url: str
    start: str | None = None
    messages: int = Field(default=100_000, gt=0)
    seconds: float = Field(default=60, ge=0)
    num_passes: int | None = Field(default=None, gt=0)
    until: int | None = Field(default=None, ge=0)
    poll_s: float = Field(default=1, gt=0)
    client: tuple[tuple[str, str], ...] = Field(default=(), exclude=True, repr=False)


class AlarmOptions(Options):
    """When an online run raises alarms; None switches an alarm off.

    ``auc_drop``: the AUC of a pass, evaluated before training, is below the mean of the last 24
    hours of event time by more than this. ``copc``: COPC is outside of this range.
    ``no_data_minutes``: the run waits for data for this long. ``max_delay_minutes``: a pass ends
    this long after its data has arrived. When an alarm begins, ``command`` is run, without a shell.
    """

    auc_drop: float | None = Field(default=None, gt=0, lt=1)
    copc: tuple[float, float] | None = None
    no_data_minutes: float | None = Field(default=None, gt=0)
    max_delay_minutes: float | None = Field(default=None, gt=0)
    command: tuple[str, ...] = ()


class WatchOptions(Options):
    """How an online run is watched: alarms, and a page of metrics for Prometheus.

    The page is served on ``metrics_port`` of ``metrics_host``; None: there is no page; 0: the
    system chooses a port.
    """

    alarms: AlarmOptions = AlarmOptions()
    metrics_port: int | None = Field(default=None, ge=0, lt=1 << 16)
    metrics_host: str = "127.0.0.1"


class OnlineOptions(Options):
    """How a run follows its data, and what it does in every pass.

    The data is folders of days or a stream (``follow``), or what a class Runner in the file
    ``runner_path`` asks for, which reads the ``settings``. Everything that outlives the run is
    below ``save_path``. With ``evaluate_first`` the samples of a pass are evaluated before they are
    trained on; ``group_by`` names the feature of GAUC. With ``read_ahead`` the next pass is read
    into memory while this one trains, if the data set is kept in memory. Days before the last
    ``keep_days`` are deleted; 0: none.
    """

    follow: FollowOptions | StreamOptions | None = None
    runner_path: Path | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict)
    save_path: Url
    evaluate_first: bool = True
    group_by: str | None = None
    read_ahead: bool = True
    keep_days: int = Field(default=0, ge=0)
    watch: WatchOptions = WatchOptions()
