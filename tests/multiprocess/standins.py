"""Programs in place of the clients of engines: they start real processes on this machine."""

import os
import sys
from pathlib import Path

# Runs the contexts of ``mpirun ... -host A:1 -np 1 -wdir DIR COMMAND : ...`` as processes here.
MPIRUN = f"""#!{sys.executable}
import os, signal, subprocess, sys
words = sys.argv[1:]
words = words[words.index("-host"):]
contexts = " \\0".join(words).split(" \\0: \\0")
children = []
def end(*_):
    for child in children:
        child.terminate()
signal.signal(signal.SIGTERM, end)
for rank, context in enumerate(contexts):
    host, slots, np, one, wdir, folder, *command = [w.strip() for w in context.split(" \\0")]
    assert [host, np, one, wdir] == ["-host", "-np", "1", "-wdir"], context
    env = dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE=str(len(contexts)))
    children.append(subprocess.Popen(command, cwd=folder, env=env))
status = 0
while children and not status:
    pid, found = os.wait()
    status = os.waitstatus_to_exitcode(found)
    children = [child for child in children if child.pid != pid]
end()
for child in children:
    child.wait()
sys.exit(abs(status))
"""


def install(folder: Path, monkeypatch, **programs):
    """Put programs first on PATH, each given as the text of a script."""
    folder.mkdir(exist_ok=True)
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
