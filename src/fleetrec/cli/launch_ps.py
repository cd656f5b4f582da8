"""``fleetrec launch-ps``: run a user's program as servers and workers."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from fleetrec.core.errors import ConfigError
from fleetrec.launch.placement import Placement, assign_replicas

launch_app = typer.Typer()

Script = Annotated[Path, typer.Argument(help="A Python program that uses the Fleet API.")]
Arguments = Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")]
WorkerNum = Annotated[
    int, typer.Option("--worker_num", min=1, help="Number of workers of the whole job.")
]
ServerNum = Annotated[
    int | None,
    typer.Option("--server_num", min=1, help="Number of servers of the whole job; by default 1."),
]
StartPort = Annotated[
    int | None,
    typer.Option(
        "--start_port",
        min=1,
        max=65535,
        help="Port of a machine's first server. Free ports if left out; 6170 on several machines.",
    ),
]
Endpoints = Annotated[
    str, typer.Option("--endpoints", help="ip:port of all servers, with commas between.")
]
NodeIp = Annotated[str, typer.Option("--node_ip", help="The address of this machine.")]
NodeIps = Annotated[
    str,
    typer.Option("--cluster_node_ips", help="The addresses of all machines, with commas between."),
]
LogDir = Annotated[Path, typer.Option("--log_dir", help="The folder of serverlog.N, workerlog.N.")]
MaxRestart = Annotated[
    int, typer.Option("--max_restart", min=0, help="How often a killed process is restarted.")
]
PrintConfig = Annotated[
    bool, typer.Option("--print_config", help="Print which process runs where.")
]


@launch_app.command("launch-ps", context_settings={"allow_interspersed_args": False})
def launch_ps(  # noqa: PLR0913 (the flags of the launcher that users know)
    script: Script,
    arguments: Arguments = None,
    *,
    worker_num: WorkerNum = 1,
    server_num: ServerNum = None,
    start_port: StartPort = None,
    endpoints: Endpoints = "",
    node_ip: NodeIp = "127.0.0.1",
    cluster_node_ips: NodeIps = "",
    log_dir: LogDir = Path("logs"),
    max_restart: MaxRestart = 3,
    print_config: PrintConfig = False,
) -> None:
    """Run your program as the servers and workers of one job.

    Example: fleetrec launch-ps --worker_num 2 --server_num 2 train.py
    """
    if not script.is_file():
        raise ConfigError([f"{script}: no such file"])
    given = _split(endpoints)
    if server_num is not None and given and server_num != len(given):
        raise ConfigError([f"--server_num {server_num}: but --endpoints has {len(given)} servers"])
    placement = assign_replicas(
        num_workers=worker_num,
        num_servers=server_num or 1,
        endpoints=given,
        node_ip=node_ip,
        node_ips=_split(cluster_node_ips) or (node_ip,),
        start_port=start_port,
    )
    command = (sys.executable, str(script), *(arguments or ()))
    _launch(command, placement, log_dir=log_dir, max_restarts=max_restart, prints=print_config)


def _launch(
    command: tuple[str, ...],
    placement: Placement,
    *,
    log_dir: Path,
    max_restarts: int,
    prints: bool,
) -> None:
    from fleetrec.cli.cluster import exit_on_failure, print_config, server_job, supervise
    from fleetrec.cli.logs import console_logging
    from fleetrec.launch.local import LocalJob, LocalLauncher
    from fleetrec.launch.supervisor import Policy

    state_dir = log_dir / "servers"
    shutil.rmtree(state_dir, ignore_errors=True)
    job = server_job(command, placement, state_dir=state_dir, log_suffix="log")
    launcher = LocalLauncher(policy=Policy(max_restarts=max_restarts), placement=placement)

    def on_start(running: LocalJob) -> None:
        if prints:
            print_config(job, running.server_endpoints, placement.local, log_dir)

    with console_logging():
        outcome = supervise(launcher, job, log_dir, on_start=on_start)
    shutil.rmtree(state_dir, ignore_errors=True)
    exit_on_failure(outcome, log_dir)
    print(f"all workers completed; logs: {log_dir}")


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
