"""A Slurm cluster whose nodes are network namespaces of this machine."""

import contextlib
import os
import subprocess
from pathlib import Path

from multiprocess.launching import wait_until

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "munged")

CONFIG = """
ClusterName={name}
SlurmctldHost={control}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
KillWait=5
MessageTimeout=30
JobRequeue=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
{nodes}
PartitionName=main Nodes={names} Default=YES State=UP OverSubscribe=NO
"""


@contextlib.contextmanager
def slurm_cluster(folder, hosts, *, cpus=4):
    """Run Slurm on hosts while the block lasts, and let the commands of this process find it.

    The controller is on the first host; commands must be called on a host, too.
    """
    cores = f"CPUs={cpus} Sockets={cpus} CoresPerSocket=1 ThreadsPerCore=1"
    nodes = [
        f"NodeName={name} NodeAddr={address} {cores} RealMemory=4000"
        for name, address in zip(hosts.names, hosts.addresses, strict=True)
    ]
    folder.mkdir()
    (folder / "state").mkdir()
    config = folder / "slurm.conf"
    text = CONFIG.format(
        name=f"test{os.getpid()}",
        control=f"{hosts.names[0]}({hosts.addresses[0]})",
        folder=folder,
        nodes="\n".join(nodes),
        names=",".join(hosts.names),
    )
    config.write_text(text)
    variables = ("env", f"SLURM_CONF={config}")
    with contextlib.ExitStack() as stack:
        _start_munge(stack, folder)
        control = ("slurmctld", "-D", "-f", str(config))
        _start(stack, hosts.on(hosts.names[0], *variables, *control), folder / "control.out")
        for name in hosts.names:
            node = ("slurmd", "-D", "-N", name, "-f", str(config))
            _start(stack, hosts.on(name, *variables, *node), folder / f"{name}.out")
        ask = hosts.on(hosts.names[0], *variables, "sinfo", "-h", "-o", "%T")

        def all_idle():
            done = subprocess.run(ask, capture_output=True, text=True)
            return done.stdout.split() == ["idle"]

        wait_until(all_idle, "the nodes of Slurm")
        yield variables


def _start_munge(stack, folder):
    """Run munged with a key and a socket of its own."""
    key, socket = folder / "munge.key", folder / "munge.socket"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    _start(
        stack,
        [
            *("munged", "--foreground", "--force"),
            *(f"--socket={socket}", f"--key-file={key}", f"--pid-file={folder}/munge.pid"),
            *(f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log"),
        ],
        folder / "munge.out",
    )
    wait_until(socket.exists, "munged")


def _start(stack, command, output: Path):
    stream = stack.enter_context(output.open("wb"))
    process = stack.enter_context(
        subprocess.Popen(command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL)
    )
    stack.callback(process.kill)
