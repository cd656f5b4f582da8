"""The files of a PaddleCloud job: hooks, settings of the nodes, and the call of the client."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fleetrec.core.env import TOKEN

if TYPE_CHECKING:
    from fleetrec.config.cluster.paddlecloud import PaddleCloudOptions

CREDENTIALS = ".paddlecloud"  # hidden, so that --files ./* leaves it here
JOB_VERSION = "paddle-fluid-v1.7.1"  # an image of the platform; the hook installs FleetRec in it
WALL_TIME = "2000:00:00"
PACKAGES = ("*.whl", "fleetrec-*.tar.gz")


def before_hook(options: PaddleCloudOptions, folder: Path) -> str:
    """Return the script that installs FleetRec on a node: from the job folder, or by pip."""
    packages = sorted(path.name for pattern in PACKAGES for path in folder.glob(pattern))
    wanted = [f"./{name}" for name in packages] or [options.install]
    python = "python3" if options.use_python3 else "python"
    return _script(
        'echo "Run before_hook.sh ..."',
        f"{python} -m pip install {shlex.join(wanted)}",
        'echo "End before_hook.sh ..."',
    )


def end_hook() -> str:
    """Return the script that runs after a job; it is for the user's own commands."""
    return _script('echo "End of the job: add commands here, e.g. to copy results"')


def config_ini(options: PaddleCloudOptions, token: str | None) -> str:
    """Return the variables of the nodes; ``token`` is the secret of servers and workers."""
    lines = ["# Settings of PaddleCloud and environment of the nodes."]
    lines += _assignments(options.storage)
    variables = {
        "PADDLE_PADDLEREC_ROLE": "WORKER",
        "PADDLEREC_CLUSTER_TYPE": options.cluster.upper(),
        "use_python3": str(options.use_python3),
        "CPU_NUM": str(options.num_threads),
        "GLOG_v": "0",
        **options.flags,
        **({TOKEN: token} if token else {}),
        **options.env,
    }
    return "\n".join([*lines, *_assignments(variables)]) + "\n"


def credentials(options: PaddleCloudOptions) -> str:
    """Return the file that ``job.sh`` reads; only its owner may."""
    return f"ak={shlex.quote(options.ak)}\nsk={shlex.quote(options.sk)}\n"


def job_script(options: PaddleCloudOptions, start_command: str) -> str:
    """Return the script that calls the client."""
    arguments: list[str | tuple[str, str]] = [
        ("--job-name", options.job_name),
        ("--group-name", options.group),
        ("--job-conf", "config.ini"),
        ("--start-cmd", start_command),
        ("--job-version", JOB_VERSION),
        *_resources(options),
    ]
    words = [
        argument if isinstance(argument, str) else " ".join((argument[0], shlex.quote(argument[1])))
        for argument in arguments
    ]
    call = " \\\n  ".join(
        ['paddlecloud job --ak "$ak" --sk "$sk" train', *words, "--files ./*", "--json"]
    )
    return _script(
        'cd "$(dirname "$0")" || exit 1',
        "ak='' sk=''",
        "# The keys are in a file that only you can read.",
        f"# shellcheck source=/dev/null\n. ./{CREDENTIALS}",
        "# shellcheck disable=SC2016  # what is in single quotes is for the nodes",
        call,
    )


def _resources(options: PaddleCloudOptions) -> list[str | tuple[str, str]]:
    if options.cluster == "mpi":
        return [
            ("--mpi-priority", options.priority),
            ("--mpi-wall-time", WALL_TIME),
            ("--mpi-nodes", str(options.nodes)),
            ("--is-standalone", "0"),
            ("--permission", "group"),
        ]
    found: list[str | tuple[str, str]] = [
        ("--k8s-priority", options.priority),
        ("--wall-time", WALL_TIME),
        ("--k8s-trainers", str(options.trainers)),
        ("--k8s-cpu-cores", str(options.cpu_cores)),
    ]
    if options.has_gpus:
        found.append(("--k8s-gpu-cards", str(options.gpu_cards)))
    if options.mode == "PS_CPU_K8S":
        return [
            *found,
            ("--k8s-ps-num", str(options.servers)),
            ("--k8s-ps-cores", str(options.server_cores)),
            ("--is-standalone", "0"),
            ("--distribute-job-type", "PSERVER"),
        ]
    if options.trainers == 1:
        return [*found, ("--is-standalone", "1"), ("--job-remark", "one trainer")]
    return [*found, ("--is-standalone", "0"), ("--distribute-job-type", "NCCL2")]


def _assignments(values: Mapping[str, str]) -> list[str]:
    """Return lines that a shell reads as they are meant."""
    return [f"{name}={_quoted(value)}" for name, value in values.items()]


def _quoted(value: str) -> str:
    return f'"{value}"' if value == "true" else shlex.quote(value) if value else '""'


def _script(*lines: str) -> str:
    return "\n".join(("#!/bin/sh", "set -e", *lines)) + "\n"
