"""Start Python processes that have torch imported: forked from a template, not executed.

A fresh interpreter needs seconds of CPU time to import torch, and tests start hundreds of them.
``WarmPopen`` takes the place of ``subprocess.Popen`` and starts Python commands as forks of one
template process that has made the imports. A fork is a process of its own, with its own pid, and a
child of the process that asked for it. Other commands, and tests marked ``cold`` or ``slow``, start
as always.
"""

import atexit
import ctypes
import dataclasses
import functools
import gc
import importlib
import inspect
import io
import json
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from fleetrec.core.env import environment_with
from fleetrec.launch.child import EXEC

PRELOADED = (
    "fleetrec.cli.process",
    "fleetrec.cli.run",
    "fleetrec.cli.table",
    "fleetrec.cli.train_eval",
    "fleetrec.fleet",
    "fleetrec.server.process",
    "grpc",
    "onnxscript.function_libs.torch_lib.ops",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "torch._dynamo",
    "torch.distributed.nn",
    "torch.export._trace",
    "torch.onnx._internal.exporter._core",
)
PYTHONS = {str(Path(sys.executable).with_name(name)) for name in ("python", "python3")}
SCRIPTS = {str(Path(sys.executable).with_name("fleetrec"))}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MAX_REQUEST = 1 << 20
PARENT_TIMEOUT_S = 10.0

Streams = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """One process to start: what ``subprocess.Popen`` was asked for."""

    command: list[str]
    cwd: str
    env: dict[str, str]
    parent: int
    new_session: bool
    dies_with_parent: bool


class WarmPopen(subprocess.Popen):
    """A ``subprocess.Popen`` that forks Python commands from a process with torch imported."""

    fork: Callable[[Request, Streams], int | None]

    def _execute_child(self, *positional):
        call = _SIGNATURE.bind(self, *positional).arguments
        request = _request(call)
        pid = None if request is None else type(self).fork(request, _streams(call))
        if pid is None:
            super()._execute_child(*positional)
            return
        self.pid = pid
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(call[end] for end in ends))


_SIGNATURE = inspect.signature(subprocess.Popen._execute_child)


def _streams(call: dict) -> Streams:
    given = (call["p2cread"], call["c2pwrite"], call["errwrite"])
    return tuple(number if fd == -1 else fd for number, fd in enumerate(given))


def _request(call: dict) -> Request | None:
    """Return what to fork, or None for a command that has to be executed."""
    if isinstance(call["args"], str | bytes | os.PathLike):
        return None
    command = [os.fsdecode(word) for word in call["args"]]
    is_plain = not (call["shell"] or call["preexec_fn"] or call["pass_fds"])
    dies_with_parent = command[1:4] == ["-I", "-S", str(EXEC)]
    if dies_with_parent:
        command = command[5:]
    if command[0] in SCRIPTS:
        command = [sys.executable, *command]
    cwd = os.fsdecode(call["cwd"] or Path.cwd())
    is_python = command[0] in PYTHONS and len(command) > 1
    if not (is_plain and is_python and _is_supported(command[1]) and Path(cwd).is_dir()):
        return None
    return Request(
        command=command,
        cwd=cwd,
        env=environment_with({}, unless_set={}) if call["env"] is None else dict(call["env"]),
        parent=os.getpid(),
        new_session=call["start_new_session"],
        dies_with_parent=dies_with_parent,
    )


def _is_supported(word: str) -> bool:
    return word == "-m" or not word.startswith("-")  # a program for -c is small


def keep_onnx_registry() -> None:
    """Let torch's exporter list its functions once in a process, not for every export."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    listed = functools.cache(ONNXRegistry.from_torchlib.__func__)
    ONNXRegistry.from_torchlib = classmethod(
        lambda cls, *given, **named: listed(cls, *given, **named)
    )
    ONNXRegistry.from_torchlib()


# --- in the process that asks ----------------------------------------------------------------


class Template:
    """The process that is forked, and the connection to it."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="fleetrec-tests-")
        self.environments = Path(self._folder.name)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), self._folder.name],
                pass_fds=[theirs.fileno()],
                env=environment_with(ONE_THREAD, unless_set={}),
            )
        atexit.register(self.close)

    def fork(self, request: Request, streams: Streams) -> int | None:
        """Return the pid of a new process, which is a child of this process.

        The template's own child ends at once, and its child is given to the nearest ancestor that
        adopts orphans: this process.
        """
        message = json.dumps(dataclasses.asdict(request)).encode()
        if len(message) > MAX_REQUEST // 8:
            return None
        with self._lock:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
            try:
                socket.send_fds(self._ours, [message], streams)
                return int(self._ours.recv(64))
            finally:
                _prctl(PR_SET_CHILD_SUBREAPER, 0)

    def close(self) -> None:
        """End the template."""
        self._ours.close()
        self._process.wait()
        self._folder.cleanup()


@functools.cache
def template() -> Template:
    """Return the template of this process; it is started by the first call."""
    return Template()


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment of a process; the kernel shows that of the template for a fork."""
    file = template().environments / _file_name(pid)
    if file.exists():
        return json.loads(file.read_text())
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def _file_name(pid: int) -> str:
    """Return a name that no other process has, even if it is given the same pid later."""
    start_time = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{pid}-{start_time}"


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)


# --- in the template and its forks -----------------------------------------------------------


def serve(connection: socket.socket) -> None:
    """Fork as asked until the other end is closed."""
    while True:
        message, streams, *_ = socket.recv_fds(connection, MAX_REQUEST, 3)
        if not message:
            return
        request = Request(**json.loads(message))
        read_end, write_end = os.pipe()
        middle = os.fork()
        if middle == 0:
            pid = os.fork()
            if pid == 0:
                become(request, tuple(streams))
            os.write(write_end, str(pid).encode())
            os._exit(0)
        os.waitpid(middle, 0)
        connection.send(os.read(read_end, 64))
        for fd in (read_end, write_end, *streams):
            os.close(fd)


def fork_here(request: Request, streams: Streams) -> int | None:
    """Fork this process, which has torch imported; None if its threads forbid that."""
    if _other_threads():
        return None
    pid = os.fork()
    if pid == 0:
        become(request, streams)
    return pid


def _other_threads() -> list[str]:
    """Return the names of threads that a fork would miss; jemalloc starts its own again."""
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    names.remove(Path(f"/proc/self/task/{os.getpid()}/comm").read_text().strip())
    return [name for name in names if name != "jemalloc_bg_thd"]


def become(request: Request, streams: Streams) -> NoReturn:
    """Turn this fork into the process that was asked for, and end with its status."""
    try:
        _take_place(request, streams)
        status = _run(request)
    except BaseException:  # noqa: BLE001 (what an interpreter does)
        traceback.print_exc()
        status = 1
    os._exit(status)


def _take_place(request: Request, streams: Streams) -> None:
    if request.new_session:
        os.setsid()
    spare = [os.dup(fd) for fd in streams]  # so that no stream is overwritten before it is moved
    for number, fd in enumerate(spare):
        os.dup2(fd, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request.cwd)
    os.environ.clear()  # noqa: TID251
    os.environ.update(request.env)  # noqa: TID251
    signal.set_wakeup_fd(-1)
    for name in ("SIGTERM", "SIGHUP", "SIGCHLD", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    deadline = time.monotonic() + PARENT_TIMEOUT_S
    while os.getppid() != request.parent and time.monotonic() < deadline:
        time.sleep(0.001)  # until the process in between has ended
    if request.dies_with_parent:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    record = _fresh.environments / _file_name(os.getpid())
    record.with_suffix(".part").write_text(json.dumps(request.env))
    record.with_suffix(".part").rename(record)
    _forget_log_handlers()
    _open_streams(is_unbuffered=bool(request.env.get("PYTHONUNBUFFERED")))
    WarmPopen.fork = fork_here
    subprocess.Popen = WarmPopen
    import torch

    torch.set_num_threads(int(request.env.get("OMP_NUM_THREADS", os.cpu_count() or 1)))


def _forget_log_handlers() -> None:
    """Remove what the forked process has set up for its own log."""
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    for logger in [logging.root, *loggers]:
        logger.handlers.clear()
    logging.root.setLevel(logging.WARNING)


def _open_streams(*, is_unbuffered: bool) -> None:
    def text(number: int, mode: str, **options) -> io.TextIOWrapper:
        return io.TextIOWrapper(open(number, mode, closefd=False), encoding="utf-8", **options)

    sys.stdin = text(0, "rb")
    sys.stdout = text(1, "wb", line_buffering=os.isatty(1), write_through=is_unbuffered)
    if is_unbuffered:
        sys.stdout.reconfigure(line_buffering=True)
    sys.stderr = text(2, "wb", errors="backslashreplace", line_buffering=True)


def _run(request: Request) -> int:
    """Do what ``python`` does with these arguments; return the status."""
    status = 0
    try:
        _execute(request)
    except SystemExit as end:
        status = _status(end)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 (what an interpreter does)
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status


def _status(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    sys.stderr.write(f"{end.code}\n")
    return 1


def _execute(request: Request) -> None:
    kind, *rest = request.command[1:]
    added = filter(None, request.env.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [*added, *_fresh.path]
    if kind == "-m":
        sys.argv = rest
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *rest]
        sys.path.insert(0, str(Path(kind).resolve().parent))
        runpy.run_path(kind, run_name="__main__")


class _Fresh:
    """What every fork begins with."""

    path: list[str] = list(sys.path)
    environments = Path()  # where each writes its own


_fresh = _Fresh()


def main() -> None:
    """Import, then serve."""
    _fresh.environments = Path(sys.argv[2])
    _fresh.path = sys.path[1:]  # without the folder of this file
    for name in PRELOADED:
        importlib.import_module(name)
    keep_onnx_registry()
    gc.collect()
    gc.freeze()  # a fork that collects garbage would copy every page
    assert not _other_threads(), "an import has started a thread, which forks would not have"
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
