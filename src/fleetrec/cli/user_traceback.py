"""The part of a traceback that is in the user's own files."""

import site
import sysconfig
import traceback
from pathlib import Path

import fleetrec

PACKAGE = Path(fleetrec.__file__).parent


def user_traceback(error: BaseException) -> list[str]:
    """Return the lines of a traceback that has only frames of the user's files.

    Empty if no frame is in such a file: then the error is not the user's.
    """
    installed = [
        PACKAGE,
        Path(sysconfig.get_path("stdlib")),
        *map(Path, {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}),
        *map(Path, site.getsitepackages()),
    ]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_file()
        and not any(Path(frame.filename).is_relative_to(folder) for folder in installed)
        and not _is_entry(frame)
    ]
    if not frames:
        return []
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    return ["Traceback (frames of your own files):", *"".join(lines).rstrip().splitlines()]


def _is_entry(frame: traceback.FrameSummary) -> bool:
    """Return whether a frame is in the script ``fleetrec`` that pip writes."""
    return Path(frame.filename).stem == "fleetrec" and Path(frame.filename).suffix == ""
