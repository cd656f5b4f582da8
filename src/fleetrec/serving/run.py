"""Runs the server of an inference model until a signal stops it."""

import gc
import logging
import socket
import ssl
import sys
from typing import Any

from fleetrec._native import keep_freed_memory
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.export.predictor import Predictor
from fleetrec.serving.model_source import FolderModel, FollowedModel, LoadedModel, ModelSource
from fleetrec.serving.options import ServeOptions
from fleetrec.serving.recall import RecallModel
from fleetrec.serving.signature import Signature

logger = logging.getLogger(__name__)

BACKLOG = 1024
KEEP_ALIVE_S = 75
SWITCH_S = 50e-6


def serve(options: ServeOptions) -> None:
    """Load the model and serve it until SIGINT or SIGTERM; requests in progress are finished."""
    options.check()
    keep_freed_memory()
    # By default a thread that has computed waits up to 5 ms while another request is decoded.
    sys.setswitchinterval(SWITCH_S)
    try:
        import uvicorn

        from fleetrec.serving.app import ServingApp
        from fleetrec.serving.joined_writes import JoiningProtocol
    except ImportError as error:
        raise UnavailableError(
            f"serving needs {error.name}: pip install 'fleetrec[serve]'"
        ) from error
    with _listen(options) as listening:
        source = _open_source(options)
        app = ServingApp(
            source, name=options.name, limits=options.limits, batching=options.batching
        )
        config = uvicorn.Config(
            app.build(
                token=options.token,
                access_log=options.access_log,
                on_start=lambda: _report(options, listening),
            ),
            loop="asyncio",
            http=JoiningProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(options.limits.timeout_s) + 1,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        )
        try:
            _load_tls(config, options)
            gc.collect()
            gc.freeze()  # the model stays; later collections need not look at it
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            source.close()
    logger.info("stopped")


def _open_source(options: ServeOptions) -> ModelSource:
    def load(predictor: Predictor) -> LoadedModel:
        limits = options.limits
        signature = Signature(predictor, max_samples=limits.max_samples, max_list=limits.max_list)
        recall = None if predictor.items is None else RecallModel(predictor, limits)
        return LoadedModel(predictor=predictor, signature=signature, recall=recall)

    # Several requests are computed at a time, each by one thread.
    if options.follow is not None:
        return FollowedModel(options.follow, load, num_threads=1, poll_s=options.poll_s)
    assert options.model is not None
    return FolderModel(options.model, load, num_threads=1)


def _listen(options: ServeOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # With the protocol left open, asyncio would not set TCP_NODELAY: answers would take 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((options.host, options.port))
        listening.listen(BACKLOG)
        return listening
    except OSError as error:
        listening.close()
        raise ConfigError(
            [f"--host {options.host} --port {options.port}: cannot listen: {error.strerror}"]
        ) from error


def _report(options: ServeOptions, listening: socket.socket) -> None:
    scheme = "http" if options.certificate is None else "https"
    host = f"[{options.host}]" if ":" in options.host else options.host
    port = listening.getsockname()[1]
    logger.info("%s is served on %s://%s:%d", options.name, scheme, host, port)


def _load_tls(config: Any, options: ServeOptions) -> None:
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            [
                f"--tls-certificate {options.certificate}, --tls-key {options.key}: expected a PEM "
                f"certificate and its key: {error}"
            ]
        ) from error
