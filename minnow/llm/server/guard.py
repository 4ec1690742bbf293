"""Who and what is let in: the key, the host, the size of a body."""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING

from minnow.llm.server.refusal import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

_SLOWEST = 60.0
"""Seconds that a body may take."""
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
OPEN = ("/health",)
"""Paths that need no key."""


def check_key(request: Request, key: str) -> None:
    """Checks the key of a request, in a time that does not depend on it."""
    if not key or request.url.path in OPEN:
        return
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), key.encode()):
        message = "the key is missing or wrong; send it as 'Authorization: Bearer KEY'"
        headers = {"WWW-Authenticate": "Bearer"}
        raise RequestError(401, message, "authentication_error", "invalid_api_key", headers=headers)


def check_host(request: Request) -> None:
    """Checks that a request was for this machine by name: a page of another site has that site's."""
    host = request.headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name not in _LOCAL:
        message = "the server answers for localhost only; start it with --host to let others in"
        raise RequestError(403, message, "permission_error", "wrong_host")


async def body_of(request: Request, most: int) -> bytes:
    """The body of a request, of JSON.

    Raises:
        RequestError: it is too large, too slow, or of another type.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"the body has the type {kind[:50]!r}, and not application/json"
        raise RequestError(415, message, code="unsupported_media_type")
    large = RequestError(413, f"the body has more than {most} bytes", code="body_too_large")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise large
    body = bytearray()

    async def read() -> None:
        async for part in request.stream():
            body.extend(part)
            if len(body) > most:
                raise large

    try:
        await asyncio.wait_for(read(), _SLOWEST)
    except asyncio.TimeoutError:
        raise RequestError(408, f"the body took more than {_SLOWEST:g} seconds", code="timeout") from None
    return bytes(body)
