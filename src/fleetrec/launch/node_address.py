"""Prints the address of this node, at which the other nodes of a job reach it.

Run on every node before the processes of a job are started; standard library only.
"""

import argparse
import fcntl
import ipaddress
import re
import socket
import struct
import sys
from collections.abc import Sequence

from fleetrec.core.env import read_launch_address, read_task_number
from fleetrec.core.errors import ConfigError, FleetRecError
from fleetrec.core.launchers.values import LOOPBACK

GET_ADDRESS = 0x8915  # SIOCGIFADDR of Linux
ANY_PORT = 9
LINE = re.compile(r"^fleetrec-node (\d+) (\S+)\s*$", re.MULTILINE)


def address_of_interface(name: str) -> str:
    """Return the IPv4 address of a network interface of this machine."""
    names = [known for _, known in socket.if_nameindex()]
    if name not in names:
        raise ConfigError([f"interface {name}: this machine has {', '.join(names)}"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", name.encode()[:15])
        try:
            answer = fcntl.ioctl(probe.fileno(), GET_ADDRESS, request)
        except OSError as error:
            raise ConfigError([f"interface {name}: has no IPv4 address"]) from error
    return socket.inet_ntoa(answer[20:24])


def interface_of_address(address: str) -> str | None:
    """Return the network interface of this machine that has an address."""
    for _, name in socket.if_nameindex():
        try:
            if address_of_interface(name) == address:
                return name
        except ConfigError:
            continue  # it has no IPv4 address
    return None


def address_on_route(peers: Sequence[str]) -> str:
    """Return the address that this machine has on the route to the first of other hosts.

    A machine's own name often resolves to its loopback, so peers that do are left out. No packet
    is sent.
    """
    for peer in peers:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((peer, ANY_PORT))
            except OSError:
                continue
            found: str = probe.getsockname()[0]
        if not ipaddress.ip_address(found).is_loopback:
            return found
    if len(peers) < 2:
        return LOOPBACK
    raise ConfigError(
        [
            f"{socket.gethostname()}: no route to any of {', '.join(peers)}; "
            "name the network of the nodes by the key interface"
        ]
    )


def read_addresses(text: str, *, num_tasks: int) -> list[str]:
    """Return the addresses of all tasks, from what the nodes have printed."""
    found = {int(task): address for task, address in LINE.findall(text)}
    missing = [str(task) for task in range(num_tasks) if task not in found]
    if missing:
        raise ConfigError(
            [f"no address of task {', '.join(missing)}; {len(found)} of {num_tasks} have one"]
        )
    return [found[task] for task in range(num_tasks)]


def main() -> int:
    """Print the number of this task and the address of its node."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--interface", help="name of a network interface")
    parser.add_argument("--peers", default="", help="hosts of the job, with commas between")
    parser.add_argument("--first-task", type=int, default=0)
    given = parser.parse_args()
    peers = [peer for peer in given.peers.split(",") if peer] or read_launch_address()
    try:
        address = (
            address_of_interface(given.interface) if given.interface else address_on_route(peers)
        )
        task = given.first_task + read_task_number()
    except FleetRecError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"fleetrec-node {task} {address}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
