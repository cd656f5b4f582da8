"""``fleetrec launch-ps``: servers and workers for a program of the user's own."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from fleetrec.core.errors import ConfigError
from fleetrec.launch.machines import Machines, place

launch_app = typer.Typer()

Script = Annotated[Path, typer.Argument(help="A Python program that asks fleet for its role.")]
Arguments = Annotated[list[str] | None, typer.Argument(help="Passed on to the program.")]
WorkerNum = Annotated[int, typer.Option("--worker_num", min=1, help="Workers of the whole job.")]
ServerNum = Annotated[
    int | None,
    typer.Option("--server_num", min=1, help="Servers of the whole job; 1 if left out."),
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
    int, typer.Option("--max_restart", min=0, help="How often a killed process is started again.")
]
PrintConfig = Annotated[bool, typer.Option("--print_config", help="Print what runs where.")]


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
    """Run a program of your own as the servers and workers of one job.

    Example: fleetrec launch-ps --worker_num 2 --server_num 2 train.py
    """
    if not script.is_file():
        raise ConfigError([f"{script}: no such file"])
    given = _split(endpoints)
    if server_num is not None and given and server_num != len(given):
        raise ConfigError([f"--server_num {server_num}: but --endpoints has {len(given)} servers"])
    machines = place(
        worker_num=worker_num,
        server_num=server_num or 1,
        endpoints=given,
        node_ip=node_ip,
        node_ips=_split(cluster_node_ips) or (node_ip,),
        start_port=start_port,
    )
    command = (sys.executable, str(script), *(arguments or ()))
    _launch(command, machines, log_dir=log_dir, max_restarts=max_restart, tells=print_config)


def _launch(
    command: tuple[str, ...], machines: Machines, *, log_dir: Path, max_restarts: int, tells: bool
) -> None:
    from fleetrec.cli.cluster import end_unless_well, job_of, print_config, supervise
    from fleetrec.cli.logs import console_logging
    from fleetrec.launch.local import Policy

    policy = Policy(max_restarts=max_restarts)
    state_dir = log_dir / "servers"
    shutil.rmtree(state_dir, ignore_errors=True)
    with (
        console_logging(),
        job_of(command, machines, state_dir=state_dir, log_suffix="log") as job,
    ):
        if tells:
            print_config(job, machines.part, log_dir)
        outcome = supervise(job, machines.part, log_dir=log_dir, policy=policy)
    shutil.rmtree(state_dir, ignore_errors=True)
    end_unless_well(outcome, log_dir)
    print(f"all workers completed; logs: {log_dir}")


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
