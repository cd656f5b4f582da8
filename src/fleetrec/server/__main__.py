"""``python -m fleetrec.server``: run one parameter server."""

import argparse
import logging
import signal
import sys
import threading
from pathlib import Path

from fleetrec.core.env import read_token
from fleetrec.core.errors import FleetRecError
from fleetrec.core.exit import exit_now
from fleetrec.server.endpoint import Security
from fleetrec.server.serve import SNAPSHOT_BYTES, ServerOptions, serve


def main() -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    given = _parser().parse_args()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    is_stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_stopped.set())
    options = ServerOptions(
        index=given.index,
        num_servers=given.num_servers,
        num_workers=given.num_workers,
        endpoint=given.endpoint,
        directory=given.directory,
        durability=given.durability,
        snapshot_bytes=given.snapshot_bytes,
        metrics_port=given.metrics_port,
        security=Security(token=read_token(), certificate=given.tls_certificate, key=given.tls_key),
    )
    try:
        serve(options, is_stopped=is_stopped)
    except FleetRecError as error:
        logging.getLogger(__name__).error("%s", error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fleetrec.server",
        description="Run one parameter server. Restarted with the same folder, it continues where "
        "it stopped. Workers must send the token in FLEETREC_TOKEN, if it is set.",
    )
    parser.add_argument("--index", type=int, required=True, help="index of this server, from 0")
    parser.add_argument("--num-servers", type=int, required=True)
    parser.add_argument("--num-workers", type=int, required=True)
    parser.add_argument("--endpoint", required=True, help="host:port to listen on")
    parser.add_argument(
        "--directory", type=Path, required=True, help="state of the server: journal and snapshots"
    )
    parser.add_argument(
        "--durability",
        choices=["process", "disk"],
        default="process",
        help="what an acknowledged request survives: a crash of the process, or of the machine",
    )
    parser.add_argument(
        "--snapshot-bytes",
        type=int,
        default=SNAPSHOT_BYTES,
        help="journal size above which a snapshot replaces it",
    )
    parser.add_argument(
        "--metrics-port", type=int, help="serve Prometheus metrics on this port of 127.0.0.1"
    )
    parser.add_argument("--tls-certificate", type=Path, help="serve with TLS (PEM)")
    parser.add_argument("--tls-key", type=Path, help="key of the certificate (PEM)")
    return parser


if __name__ == "__main__":
    exit_now(main())
