"""Folders of data by day and time: which files are there, and whether they are complete."""

import dataclasses
import time
from collections.abc import Callable, Sequence

from fleetrec.config.online import FollowOptions
from fleetrec.core import storage
from fleetrec.data.files import DataFile, files_below


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The part of a day that one folder holds."""

    day: str
    minute: int  # of the day
    event_time: int

    @property
    def name(self) -> str:
        """Return day and time of day, such as 20261118/0005."""
        return f"{self.day}/{self.minute // 60:02d}{self.minute % 60:02d}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arrival:
    """What is there of some folders; ``missing`` says in words what is not.

    ``arrived_at`` is when the last file was written, in seconds since 1970.
    """

    files: tuple[DataFile, ...]
    evaluation_files: tuple[DataFile, ...] = ()
    missing: str = ""
    arrived_at: float | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is missing."""
        return not self.missing


class DataFolders:
    """Looks into the folders of passes. Without a done file it remembers what was there before."""

    def __init__(self, options: FollowOptions, *, now: Callable[[], float] = time.time) -> None:
        self._options = options
        self._now = now
        self._unchanged_since: dict[str, tuple[tuple[DataFile, ...], float]] = {}

    def look(self, splits: Sequence[Split]) -> Arrival:
        """Return the files of some folders, in the order of time."""
        files: list[DataFile] = []
        evaluated: list[DataFile] = []
        missing: list[str] = []
        times: list[float] = []
        roots = [*self._options.folders, *self._options.evaluation_folders]
        for split in splits:
            for place, root in enumerate(roots):
                found, lack = self._look_into(root, split)
                is_training = place < len(self._options.folders)
                (files if is_training else evaluated).extend(found)
                times += filter(None, (file.modified_at() for file in found))
                if lack:
                    missing.append(lack)
        return Arrival(
            files=tuple(files),
            evaluation_files=tuple(evaluated),
            missing=missing[0] if missing else "",
            arrived_at=max(times, default=None),
        )

    def _look_into(self, root: str, split: Split) -> tuple[list[DataFile], str]:
        """Return the files of one folder, and what it lacks."""
        folder = self._folder(root, split)
        done = self._options.done_file
        # The done file first: files that are listed after it are all there.
        is_done = done is not None and storage.exists(storage.join(folder, done))
        files = self._files(folder, split)
        if done is not None:
            if is_done:
                return files, ""
            return files, f"{storage.shown(folder)} has {len(files)} files, but no {done} yet"
        if not files:
            return [], f"{storage.shown(folder)} holds no file yet"
        if not self._is_quiet(folder, tuple(files)):
            return files, f"{storage.shown(folder)} still changes"
        return files, ""

    def _folder(self, root: str, split: Split) -> str:
        """Return the folder of a split; folders of whole hours may be named by the hour alone."""
        day = storage.join(root, split.day)
        by_hour = storage.join(day, f"{split.minute // 60:02d}")
        if self._options.split_minutes % 60 == 0 and storage.exists(by_hour):
            return by_hour
        return storage.join(day, storage.name_of(split.name))

    def _files(self, folder: str, split: Split) -> list[DataFile]:
        return [
            dataclasses.replace(file, name=f"{split.name}/{file.name}")
            for file in files_below(folder)
            if file.name != self._options.done_file
        ]

    def _is_quiet(self, folder: str, files: tuple[DataFile, ...]) -> bool:
        """Return whether files have not changed for a while: by their times, or as seen here."""
        quiet_s, now = self._options.poll_s, self._now()
        times = [file.modified_at() for file in files]
        if all(at is not None and now - at >= quiet_s for at in times):
            return True
        before = self._unchanged_since.get(folder)
        if before is None or before[0] != files:
            self._unchanged_since[folder] = (files, now)
            return False
        return now - before[1] >= quiet_s
