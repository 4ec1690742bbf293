"""A server with OpenAI's interface: `serve`. It needs the extra `minnow[serve]`."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from minnow.schema.errors import UsageError
from minnow.schema.extra import install

if TYPE_CHECKING:
    from minnow.llm.llm import LLM
    from minnow.options.generate import ServerOptions

_CONNECTIONS = 1000
_GRACE = 5
"""Seconds that answers may go on after Ctrl-C."""


def serve(llm: LLM, options: ServerOptions, started: Callable[[str], None] = lambda url: None) -> None:
    """Answers requests until it is interrupted.

    Args:
        llm: the model.
        options: where to listen, and what is let in.
        started: called with the address when it listens.

    Raises:
        UsageError: the address cannot be used, or a package is not installed.
        KeyboardInterrupt: it was interrupted.
    """
    check_packages()
    import uvicorn

    from minnow.llm.server.app import Server
    from minnow.llm.server.connection import connection_type

    listening = _listening(options.host, options.port)
    host = f"[{options.host}]" if ":" in options.host else options.host
    server = Server(llm, options)
    config = uvicorn.Config(
        server.app(),
        http=connection_type(),
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE,
    )
    started(f"http://{host}:{listening.getsockname()[1]}")
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        server.close()


def check_packages() -> None:
    """Raises UsageError if a package that the server needs is not installed."""
    for name in ("starlette", "uvicorn", "prometheus_client"):
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"the server needs the package {name}", hint=install(name))


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as e:
        hint = "--port 0 takes a free port"
        raise UsageError(f"cannot listen at {host}:{port}", why=e.strerror or str(e), hint=hint) from None
