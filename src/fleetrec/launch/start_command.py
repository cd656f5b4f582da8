"""``submit.start_cmd``: the command that trains on the nodes."""

import dataclasses
import re
import shlex
from collections.abc import Sequence

from fleetrec.core.errors import ConfigError

_PADDLE_RUN = re.compile(r"(\bpython[\d.]*\s+-m\s+)paddlerec\.run\b")
_OWN_RUN = re.compile(
    r"(python[\d.]*\s+-m\s+)?fleetrec(\.run|\s+run|\.train_eval|\s+train-eval)(?=\s|$)"
)
_JOB_OPTIONS = ("-m", "--model", "--pipeline_config_path")
_NEEDS_SHELL = re.compile(r"[|&;<>()$`*?\[\]~\n{}]|^\s*\w+=")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StartCommand:
    """A command as a line of a shell. ``words`` is None if it needs a shell to run."""

    line: str
    words: tuple[str, ...] | None
    notices: tuple[str, ...] = ()


def start_command(text: str, *, arguments: Sequence[str] = ()) -> StartCommand:
    """Read a command; those of PaddleRec start FleetRec.

    ``arguments`` of the command that submits are added, if the command runs a job of FleetRec.
    """
    line, num_changes = _PADDLE_RUN.subn(r"\1fleetrec.run", text.strip())
    notices = ("start_cmd: paddlerec.run is read as fleetrec.run",) if num_changes else ()
    if arguments:
        if not _OWN_RUN.match(line) or _needs_shell(line):
            raise ConfigError(
                [
                    f"submit.start_cmd: {line!r} cannot be given {shlex.join(arguments)}; "
                    "write it there"
                ]
            )
        line = f"{line} {shlex.join(arguments)}"
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ConfigError([f"submit.start_cmd: {line!r}: {error}"]) from error
    return StartCommand(
        line=line, words=None if _needs_shell(line) else tuple(words), notices=notices
    )


def job_argument(command: StartCommand) -> str | None:
    """Return the job file that a command of FleetRec names; None if that is not known."""
    words = command.words or ()
    if not _OWN_RUN.match(command.line):
        return None
    for index, word in enumerate(words[:-1]):
        is_module = word == "-m" and words[index + 1].partition(".")[0] == "fleetrec"
        if word in _JOB_OPTIONS and not is_module:
            return words[index + 1]
    return None


def node_command(command: StartCommand, *, python: str) -> tuple[str, ...]:
    """Return what a node runs: it gets the data, runs the command, and uploads the results."""
    inner = ("sh", "-c", command.line) if command.words is None else command.words
    return (python, "-m", "fleetrec.node", "--", *inner)


def _needs_shell(line: str) -> bool:
    """Return whether something outside of quotes is for a shell; ``"$X"`` is, too."""
    unquoted = re.sub(r"'[^']*'", "", line)
    return _NEEDS_SHELL.search(re.sub(r'"[^"$`]*"', "", unquoted)) is not None
