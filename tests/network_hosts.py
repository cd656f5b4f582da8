"""Hosts on one machine: network namespaces on a bridge, each with a name and an address."""

import contextlib
import dataclasses
import os
import shlex
import shutil
import subprocess
from pathlib import Path

NEEDS = ("ip", "nsenter", "unshare")
INTERFACE = "eth0"


def missing_programs(*names):
    """Return the reason why hosts cannot be made here, or an empty text."""
    missing = [name for name in (*NEEDS, *names) if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}: make engines"
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    return ""


@dataclasses.dataclass(frozen=True)
class Hosts:
    """Names and addresses of hosts. A program runs on one of them by ``on``."""

    folder: Path  # with the program ``shell``, in place of ssh: shell HOST COMMAND...
    prefix: str
    names: tuple[str, ...]
    addresses: tuple[str, ...]

    @property
    def shell(self):
        return self.folder / "shell"

    def on(self, name, *command):
        """Return the command that runs another one on a host."""
        return [str(self.shell), name, shlex.join(map(str, command))]

    def cut(self, name):
        """Take the link of a host down."""
        _ip("-n", f"{self.prefix}{name}", "link", "set", INTERFACE, "down")

    def restore(self, name):
        _ip("-n", f"{self.prefix}{name}", "link", "set", INTERFACE, "up")

    def pids(self, name):
        done = subprocess.run(
            ["ip", "netns", "pids", f"{self.prefix}{name}"], capture_output=True, text=True
        )
        return [int(pid) for pid in done.stdout.split()]


@contextlib.contextmanager
def network_hosts(folder, *names):
    """Make hosts while the block runs; what still runs on them at its end is killed.

    As on Debian, the name of a host is an address of its own loopback for itself.
    """
    number = os.getpid() % 250 + 1
    hosts = Hosts(
        folder=folder,
        prefix=f"fr{os.getpid()}-",
        names=names,
        addresses=tuple(f"10.77.{number}.{i}" for i in range(1, len(names) + 1)),
    )
    with contextlib.ExitStack() as stack:
        bridge = f"{hosts.prefix}bridge"
        _add_namespace(stack, bridge)
        _ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        _ip("-n", bridge, "link", "set", "br0", "up")
        for i, (name, address) in enumerate(zip(names, hosts.addresses, strict=True)):
            _add_host(stack, hosts, name, address, bridge=bridge, port=f"port{i}")
        _write_shell(hosts)
        yield hosts


def _add_host(stack, hosts, name, address, *, bridge, port):
    namespace = f"{hosts.prefix}{name}"
    _add_namespace(stack, namespace)
    stack.callback(_kill_all, hosts, name)
    end = ("type", "veth", "peer", "name", port, "netns", bridge)
    _ip("-n", namespace, "link", "add", INTERFACE, *end)
    _ip("-n", bridge, "link", "set", port, "master", "br0", "up")
    _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", INTERFACE)
    _ip("-n", namespace, "link", "set", INTERFACE, "up")
    _ip("-n", namespace, "link", "set", "lo", "up")
    known = dict(zip(hosts.names, hosts.addresses, strict=True)) | {name: "127.0.1.1"}
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in known.items())]
    (hosts.folder / f"hosts.{name}").write_text("\n".join([*lines, ""]))


def _write_shell(hosts):
    """A command on a host has its network, host name and table of hosts."""
    hosts.shell.write_text(
        "#!/bin/sh\n"
        "host=$1; shift\n"
        f'mount="mount --bind {hosts.folder}/hosts.$host /etc/hosts"\n'
        f'exec nsenter --net="/run/netns/{hosts.prefix}$host" unshare --uts --mount '
        'sh -c "hostname $host && $mount && $*"\n'
    )
    hosts.shell.chmod(0o755)


def _add_namespace(stack, name):
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "del", name)


def _kill_all(hosts, name):
    while pids := hosts.pids(name):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)
