"""Connections whose clients have to say soon what they want: uvicorn has no limit on the time that headers take."""

from __future__ import annotations

import asyncio
from typing import Any

SLOWEST_HEADERS = 20.0
"""Seconds from the first byte of a request, or from the beginning of a connection, to the end of its headers."""


def connection_type() -> type[asyncio.Protocol]:
    """The class of connections of uvicorn that end when the headers of a request are not complete in time."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    return type("Connection", (TimedHeaders, H11Protocol), {})


class TimedHeaders(asyncio.Protocol):
    """What limits the time of headers, to be put before uvicorn's protocol among the bases of a class."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._late is None and not self._answering:
            self._wait()
        super().data_received(data)
        if self._answering:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _answering(self) -> bool:
        """Whether the headers of a request have come, and its answer is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._late = self.loop.call_later(SLOWEST_HEADERS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
