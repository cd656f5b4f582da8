"""``python -m fleetrec.node``: fetch the data, run the command of a process, upload its results."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

from fleetrec.cli.logs import console_logging
from fleetrec.core.env import OWN_DATA, environment_with, read_place
from fleetrec.core.errors import ConfigError, FleetRecError
from fleetrec.core.place import Place
from fleetrec.launch import node_data
from fleetrec.launch.cluster_job import NODE_FILE

logger = logging.getLogger(__name__)

NOTHING: Mapping[str, Any] = MappingProxyType(
    {"fetch": {}, "output": "", "shared_folder": True, "splits_data": False}
)


def run_node(command: Sequence[str]) -> int:
    """Return the exit status of the command, or 1 if its results could not be uploaded."""
    if not command:
        raise ConfigError(["node: expected a command after --"])
    plan = _read_plan(Path(NODE_FILE))
    place = read_place() or Place()
    with console_logging():
        folder, own_data = _fetch(plan, place)
        env = environment_with(own_data, unless_set={})
        words = _with_own_python(command)
        uploads = plan["output"] and _owns_results(plan, place)
        if not uploads:
            os.chdir(folder)
            _become(words, env)
        before = node_data.snapshot(folder, without=tuple(plan["fetch"]))
        status = _run(words, env, folder)
        return _upload(plan, folder, before) or status


def _read_plan(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return dict(NOTHING)
    try:
        return {**NOTHING, **json.loads(path.read_text(encoding="utf-8"))}
    except ValueError as error:
        raise ConfigError([f"{path}: not valid JSON: {error}"]) from error


def _fetch(plan: dict[str, Any], place: Place) -> tuple[Path, dict[str, str]]:
    """Fetch what this process needs; returns where it runs, and a variable about its data."""
    if place.role == "server" or not plan["fetch"]:
        return Path.cwd(), {}
    if plan["shared_folder"]:
        for name, url in plan["fetch"].items():
            count = node_data.fetch_together(url, Path(name), place)
            logger.info("./%s: %d files", name, count)
        return Path.cwd(), {}
    folder = node_data.own_folder(place) if plan["splits_data"] else Path.cwd()
    own: dict[str, str] = {}
    for name, url in plan["fetch"].items():
        is_split = plan["splits_data"] and name == node_data.TRAIN_DATA
        part = node_data.share_of(url, place) if is_split else None
        count = node_data.fetch(url, folder / name, part=part)
        logger.info("./%s: %d files%s", name, count, "" if part is None else " of this worker")
        if part is not None:
            own = {OWN_DATA: str(folder / name)}
    return folder, own


def _owns_results(plan: dict[str, Any], place: Place) -> bool:
    """Return whether this process uploads what is in its folder: one of those that share it."""
    if plan["shared_folder"]:
        return place.role == "worker" and place.rank == 0
    return bool(plan["splits_data"]) or place.local_rank == 0


def _with_own_python(command: Sequence[str]) -> list[str]:
    """Return a command in which ``python`` is the interpreter of this process."""
    first = command[0]
    is_python = re.fullmatch(r"python[\d.]*", first) is not None
    if first == "fleetrec" and shutil.which(first) is None:
        return [sys.executable, "-m", "fleetrec", *command[1:]]
    return [sys.executable if is_python else first, *command[1:]]


def _become(words: list[str], env: dict[str, str]) -> None:
    try:
        os.execvpe(words[0], words, env)
    except OSError as error:
        raise ConfigError([f"start_cmd: {words[0]}: {error.strerror}"]) from error


def _run(words: list[str], env: dict[str, str], folder: Path) -> int:
    """Run a command to its end; it gets the signals that this process gets."""
    try:
        child = subprocess.Popen(words, env=env, cwd=folder, close_fds=False)
    except OSError as error:
        raise ConfigError([f"start_cmd: {words[0]}: {error.strerror}"]) from error

    def forward(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    status = child.wait()
    return status if status >= 0 else 128 - status


def _upload(plan: dict[str, Any], folder: Path, before: dict[str, tuple[float, int]]) -> int:
    try:
        count = node_data.upload_new(
            folder, plan["output"], before=before, without=tuple(plan["fetch"])
        )
    except (FleetRecError, OSError) as error:
        host = os.uname().nodename
        logger.error("%s; the results are still in %s on %s", error, folder, host)
        return 1
    logger.info("%d files uploaded to %s", count, plan["output"])
    return 0
