"""The thread that steps the batch, and the way of the answers to the event loop of the server."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from typing import NamedTuple

from minnow.llm.generation import Answer
from minnow.llm.llm import LLM
from minnow.llm.request import Request, Sampled

_log = logging.getLogger("minnow.llm.server")


class Piece(NamedTuple):
    """A piece of an answer: its number among those of a request, its text, its token; at the end the answer."""

    choice: int
    text: str
    sampled: Sampled | None = None
    ended: Answer | None = None


class Stream:
    """The pieces of the answers to one request, for the event loop. The thread of the worker puts them in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Piece] = asyncio.Queue()
        self.requests: list[Request] = []

    def put(self, piece: Piece) -> None:
        """Called by the worker. A loop that is closed has no clients any more."""
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, piece)
        except RuntimeError:
            pass

    async def pieces(self) -> AsyncIterator[Piece]:
        """All pieces, until all answers have ended."""
        left = len(self.requests)
        while left:
            piece = await self._queue.get()
            left -= piece.ended is not None
            yield piece


class Worker:
    """Steps the batch of a language model while there is something to do."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self._wake = threading.Condition()
        self._work = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="minnow-llm", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def add(self, requests: list[Request]) -> None:
        """Puts requests into the queue.

        Raises:
            UsageError: as `Batch.add`.
        """
        self.llm.batch.add(*requests)
        self._notify()

    def cancel(self, requests: list[Request]) -> None:
        """Ends requests whose client has gone."""
        for request in requests:
            self.llm.batch.cancel(request)
        self._notify()

    def close(self) -> None:
        """Ends all requests, and the thread."""
        self._closed = True
        self._notify()
        self._thread.join(timeout=60)
        self.llm.close()

    def _notify(self) -> None:
        with self._wake:
            self._work = True
            self._wake.notify()

    def _run(self) -> None:
        while not self._closed:
            with self._wake:
                while not (self._work or self._closed):
                    self._wake.wait()
                self._work = False
            try:
                while not self._closed and self.llm.batch.step():
                    pass
            except Exception:  # noqa: BLE001  (the thread is needed for the next requests)
                _log.exception("a step of the batch has failed")
                self.llm.batch.close()
