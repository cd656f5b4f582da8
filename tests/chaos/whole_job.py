"""Faults from outside: stopped processes, a dead supervisor, a full disk, damaged files."""

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

from chaos.kills import Injected, at_work
from chaos.running import RunningJob, StuckError, processes_with
from chaos.workspace import RUNNER

STOP_S = 10.0
FULL_S = 2.0
DISK_MB = 6
# The folder of servers becomes a small disk that only this job sees.
SMALL_DISK = (
    *("unshare", "--map-root-user", "--mount", "sh", "-c"),
    'mkdir -p "$1" && mount -t tmpfs -o size="$2"m tmpfs "$1" && shift 2 && exec "$@"',
    "sh",
)


def stop_and_go_on(job, rng, *, seconds=STOP_S):
    """Stop a server, then a worker, and let each go on: slow is not dead."""
    injected = []
    for role in ("server", "worker"):
        process = f"{role}.{rng.integers(2)}"
        if not some_steps(job, rng):
            break
        pid = job.pids()[process]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        assert not job.is_over(), job.tails()
        os.kill(pid, signal.SIGCONT)
        begin = time.monotonic()
        back = at_work(job, process)
        assert not back or job.pids().get(process, pid) == pid, f"{process} was replaced"
        injected.append(
            Injected(
                name=f"{role}: SIGSTOP for {seconds:g} s",
                seconds=time.monotonic() - begin if back else None,
            )
        )
    return injected


def kill_supervisor(job, rng):
    """Kill the supervisor in the middle; returns when no process is left."""
    assert some_steps(job, rng), job.tails()
    job.supervisor.kill()
    job.supervisor.wait()
    deadline = time.monotonic() + 20
    while left := processes_with(job.folder):
        if time.monotonic() > deadline:
            raise StuckError(f"processes outlive their supervisor: {left}")
        time.sleep(0.01)


def fill_disk(job, rng, *, kills=False):
    """Let the disk of servers be full for a while; with ``kills`` a server starts meanwhile."""
    assert some_steps(job, rng), job.tails()
    disk = Path(f"/proc/{job.supervisor.pid}/root{servers_of(job.folder).resolve()}")
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(b"x" * 4096)
    words = ("cannot write", "no snapshot could be written", "cannot serve yet")
    logs = [job.folder / f"logs/server.{index}" for index in range(2)]
    before = [log.stat().st_size for log in logs]

    def has_complained():
        news = [log.read_bytes()[size:].decode() for log, size in zip(logs, before, strict=True)]
        return any(word in text for word in words for text in news)

    process = f"server.{rng.integers(2)}"
    if kills:
        job.kill(process)
    job.wait_for(has_complained, "a server that notices the full disk")
    time.sleep(FULL_S)
    assert not job.is_over(), job.tails()
    ballast.unlink()
    begin = time.monotonic()
    back = at_work(job, process) and at_work(job, "worker.0")
    name = "server: killed while the disk is full" if kills else "server: full disk"
    return Injected(name=name, seconds=time.monotonic() - begin if back else None)


def tear_journal(job, rng):
    """Leave a record at the end of a journal that was never finished."""
    index = int(rng.integers(2))

    def tear(folder):
        journal = newest_journal(folder)
        content = journal.read_bytes()
        with journal.open("ab") as stream:
            stream.write(content[8 : 8 + int(rng.integers(1, 60))])

    begin = time.monotonic()
    if not with_dead_server(job, index, tear):
        return []
    back = at_work(job, f"server.{index}")
    seconds = time.monotonic() - begin if back else None
    return [Injected(name="server: torn last record of the log", seconds=seconds)]


def damage_journal(folder):
    """Change a byte in the middle of the newest journal."""
    path = newest_journal(folder)
    change_byte(path, path.stat().st_size // 2)
    return path


def damage_snapshot(pattern):
    """Return what changes a byte of a file of the newest snapshot."""

    def damage(folder):
        snapshot = sorted(folder.glob("snapshot-*"))[-1]
        path = next(iter(sorted(snapshot.glob(pattern))))
        change_byte(path, path.stat().st_size * 2 // 3)
        return path

    return damage


def run_until_refused(folder, rng, damage, *arguments):
    """Run a job until a server has a snapshot and some steps behind it, and damage its folder.

    Returns what is wrong: the job has to end, and to name the file.
    """
    index = int(rng.integers(2))
    damaged = []
    with RunningJob(folder, *arguments) as job:
        state = job.server_folder(index)
        job.wait_for(lambda: any(state.glob("snapshot-*")), "a snapshot")
        if not with_dead_server(job, index, lambda its: damaged.append(damage(its))):
            return ["the job ended before it could be damaged"]
        status = job.wait()
        text = job.output.read_text()
    if status == 0:
        return [f"{damaged[0]}: was damaged, and the job ended well"]
    name = damaged[0].name
    told = [line for line in text.splitlines() if line.startswith("error: ") and "damaged" in line]
    if not any(name in line or damaged[0].parent.name in line for line in told):
        return [f"{damaged[0]}: was damaged, and the job said {text[-800:]!r}"]
    return []


def with_dead_server(job, index, change):
    """Change the folder of a server while it is dead and its supervisor looks away."""
    process = f"server.{index}"
    order = job.order(process, "push", count=12)
    if not job.wait_for(lambda: not order.exists(), "a push"):
        return False
    os.kill(job.supervisor.pid, signal.SIGSTOP)
    try:
        job.wait_for(lambda: process not in job.pids(), f"the death of {process}")
        change(job.server_folder(index))
    finally:
        os.kill(job.supervisor.pid, signal.SIGCONT)
    return True


def some_steps(job, rng):
    """Let a worker make some steps; returns whether it did."""
    process = f"worker.{rng.integers(2)}"
    order = job.order(process, "compute", count=int(rng.integers(3, 15)), word="note")
    return job.wait_for(lambda: not order.exists(), f"steps of {process}")


def servers_of(folder):
    return folder / f"logs/{folder.name}.{RUNNER}/servers"


def forget_servers(folder):
    """Do what the error says."""
    shutil.rmtree(servers_of(folder) / "2x2")


def newest_journal(folder):
    return sorted(folder.glob("*.journal"))[-1]


def change_byte(path, place):
    with path.open("r+b") as stream:
        stream.seek(place)
        byte = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([byte ^ 0x55]))


def small_disk(folder):
    """Return what to put in front of a job's command."""
    return (*SMALL_DISK, str(servers_of(folder).resolve()), str(DISK_MB))
