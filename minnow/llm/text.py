"""The text of an answer while its tokens come, up to a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Decoder(Protocol):
    """Makes text of tokens, and never splits a character."""

    def push(self, *ids: int) -> str:
        """The text that is complete with these tokens; "" if there is none."""

    def finish(self) -> str:
        """What is left."""


class Text:
    """Text that grows by tokens. What may be the beginning of a stop string is kept until that is clear.

    Attributes:
        text: all that was given out.
        stopped: the stop string that was found, or None.
    """

    def __init__(self, decoder: Decoder, stop: Sequence[str] = ()) -> None:
        self._decoder, self._stop = decoder, tuple(filter(None, stop))
        self._kept = ""
        self._parts: list[str] = []
        self.stopped: str | None = None

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def put(self, token: int) -> str:
        """The text that is certain with this token."""
        return self._given(self._decoder.push(token), last=False)

    def end(self) -> str:
        """What is left, when there are no more tokens."""
        return "" if self.stopped is not None else self._given(self._decoder.finish(), last=True)

    def _given(self, piece: str, last: bool) -> str:
        self._kept += piece
        places = [(place, stop) for stop in self._stop if (place := self._kept.find(stop)) >= 0]
        if places:
            size, self.stopped = min(places, key=lambda found: (found[0], -len(found[1])))
        else:
            size = len(self._kept) - (0 if last else self._begun())
        out, self._kept = self._kept[:size], self._kept[size:]
        self._parts.append(out)
        return out

    def _begun(self) -> int:
        """How many of the last characters are the beginning of a stop string."""
        longest = max(map(len, self._stop), default=1) - 1
        ends = range(min(longest, len(self._kept)), 0, -1)
        return next((n for n in ends if any(stop.startswith(self._kept[-n:]) for stop in self._stop)), 0)
