"""PaddleCloud: a job folder with its four files, submitted by the client of the platform."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Never

from fleetrec.core.env import TOKEN, environment_with
from fleetrec.core.errors import UnavailableError
from fleetrec.launch.engine import Engine, JobStatus, SubmittedJob
from fleetrec.launch.job_files import write_private
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.paddlecloud_files import (
    CREDENTIALS,
    before_hook,
    config_ini,
    credentials,
    end_hook,
    job_script,
)

if TYPE_CHECKING:
    from fleetrec.config.cluster.paddlecloud import PaddleCloudOptions

CLIENT = "paddlecloud"
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")


class PaddleCloudEngine(Engine):
    """Submits jobs by the ``paddlecloud`` client."""

    def __init__(self, options: PaddleCloudOptions) -> None:
        self._options = options

    def announcements(self) -> tuple[str, ...]:
        """Return the lines that PaddleRec prints while it makes the files."""
        options = self._options
        return (
            "before_submit",
            f"gen {'gpu' if options.has_gpus else 'cpu'} before_hook.sh",
            f"gen {options.cluster}_config.ini",
            f"gen {options.cluster}_job.sh",
            "gen end_hook.sh",
        )

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the four files, and the credentials that ``job.sh`` reads."""
        options = self._options
        command = _start_command(job)
        files = {
            "before_hook.sh": before_hook(options, folder),
            "job.sh": job_script(options, command),
            "end_hook.sh": end_hook(),
        }
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        # It holds fs_ugi; the client reads it as this user.
        write_private(folder / "config.ini", config_ini(options, job.env.get(TOKEN)).encode())
        write_private(folder / CREDENTIALS, credentials(options).encode())
        return [folder / name for name in ("before_hook.sh", "config.ini", "job.sh", "end_hook.sh")]

    def submit(self, folder: Path) -> SubmittedJob:
        """Run ``job.sh``, and read the id of the job from what the client prints."""
        if shutil.which(CLIENT) is None:
            raise UnavailableError(
                f"the client of PaddleCloud, {CLIENT}, is not on PATH; install it, then run: "
                f"cd {shlex.quote(str(folder))} && sh job.sh"
            )
        done = subprocess.run(
            ["sh", "job.sh"],
            cwd=folder,
            env=environment_with(dict.fromkeys(PROXIES, ""), unless_set={}),
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        if done.returncode != 0:
            raise UnavailableError(
                f"{CLIENT} ended with status {done.returncode}: {self._masked(output.strip())}"
            )
        found = re.search(r'"?jobId"?\s*[:=]\s*"?([\w.-]+)', output)
        if found is None:
            raise UnavailableError(
                f"{CLIENT} has printed no jobId: {self._masked(output.strip()) or 'nothing'}"
            )
        return SubmittedJob(job_id=found[1], output=self._masked(done.stdout))

    def status(self, folder: Path, job_id: str) -> JobStatus:
        """Refuse: the client has no documented command for it."""
        self._refuse(folder, job_id)

    def logs(self, folder: Path, job_id: str) -> Iterator[str]:
        """Refuse: the client has no documented command for it."""
        self._refuse(folder, job_id)

    def cancel(self, folder: Path, job_id: str) -> None:
        """Refuse: the client has no documented command for it."""
        self._refuse(folder, job_id)

    def _refuse(self, folder: Path, job_id: str) -> Never:
        raise UnavailableError(
            f"{folder.name}, {job_id}: see the pages of PaddleCloud for state and logs, and to end "
            "the job; its client documents no command for that"
        )

    def _masked(self, text: str) -> str:
        options = self._options
        for secret in (options.ak, options.sk, options.storage["fs_ugi"]):
            text = text.replace(secret, "***") if secret else text
        return text


def _start_command(job: JobSpec) -> str:
    """Return the user's command: hooks and platform do what the node entry does elsewhere."""
    words = job.workers.command
    inner = words[words.index("--") + 1 :]
    if inner[:2] == ("sh", "-c"):
        return inner[2]
    return shlex.join(inner)
