"""An answer as it is written: an iterator of its pieces, and afterwards what there is to know of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast

from minnow.llm.batch import Batch
from minnow.llm.request import Reason, Request, Sampled
from minnow.llm.text import Text


@dataclass(frozen=True)
class Usage:
    """Tokens of an answer.

    Attributes:
        prompt: tokens of the prompt; cached: how many of them were computed for an earlier one.
        answer: tokens that were written, without the one that ended it.
        drafted, accepted: tokens that a draft guessed, and how many of them rightly.
    """

    prompt: int
    cached: int
    answer: int
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class Times:
    """Seconds of an answer.

    Attributes:
        waiting: in the queue. first: from the request to its first token, with waiting. total: to the end.
        prefill_rate: tokens per second of the prompt, without those that were cached.
        decode_rate: tokens per second of the answer, from the first one on; 0 if there is one only.
    """

    waiting: float
    first: float
    total: float
    prefill_rate: float
    decode_rate: float


@dataclass(frozen=True)
class Result:
    """An answer that has ended.

    Attributes:
        text: all of it. tokens: its tokens.
        reason: "stop", by a stop token, a stop string, or a complete JSON value; "length", by a limit; "cancelled".
        stop: the stop string that ended it, or None.
        sampled: each token with its probability, if `logprobs` was given.
    """

    text: str
    tokens: list[int]
    reason: Reason
    stop: str | None
    usage: Usage
    times: Times
    sampled: list[Sampled]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"sampled": [s._asdict() for s in self.sampled]}


class Answer:
    """Listens to the tokens of one request, and makes text of them.

    Args:
        text: makes text of tokens.
        complete: whether the answer is complete, asked after each token.
        heard: called with each token and the text that it made certain.
        ended: called at the end with the rest of the text, and the error if there is one.
    """

    def __init__(
        self,
        text: Text,
        heard: Callable[[Sampled, str], None],
        ended: Callable[[str, BaseException | None], None],
        complete: Callable[[], bool] | None = None,
    ) -> None:
        self.text, self._heard, self._ended, self._complete = text, heard, ended, complete
        self.sampled: list[Sampled] = []
        self.reason: Reason | None = None
        self.error: BaseException | None = None

    def take(self, sampled: Sampled) -> bool:
        self.sampled.append(sampled)
        piece = self.text.put(sampled.token)
        self._heard(sampled, piece)
        return self.text.stopped is None and not (self._complete is not None and self._complete())

    def end(self, reason: Reason, error: BaseException | None) -> None:
        self.reason, self.error = reason, error
        self._ended(self.text.end(), error)

    def usage(self, request: Request) -> Usage:
        """Its tokens."""
        return Usage(len(request.tokens), request.cached, len(self.sampled), request.drafted, request.accepted)

    def result(self, request: Request) -> Result:
        """The answer, after its end."""
        assert self.reason is not None
        tokens, usage = [s.token for s in self.sampled], self.usage(request)
        sampled = self.sampled if request.logprobs is not None else []
        return Result(self.text.text, tokens, self.reason, self.text.stopped, usage, times(request, usage), sampled)


def times(request: Request, usage: Usage) -> Times:
    """The times of a request that has ended."""
    at = request.timing
    admitted, first = at.admitted or at.ended, at.first or at.ended
    reading, writing = first - admitted, at.ended - first
    return Times(
        waiting=admitted - at.added,
        first=first - at.added,
        total=at.ended - at.added,
        prefill_rate=(usage.prompt - usage.cached) / reading if at.first and reading > 0 else 0.0,
        decode_rate=(usage.answer - 1) / writing if usage.answer > 1 and writing > 0 else 0.0,
    )


class Pieces:
    """The pieces of an answer that were not read yet. The batch knows it, and not the `Generation`, which may go."""

    def __init__(self) -> None:
        self.texts: deque[str] = deque()
        self.ended = False

    def heard(self, sampled: Sampled, text: str) -> None:
        """Takes a piece."""
        if text:
            self.texts.append(text)

    def end(self, text: str, error: BaseException | None) -> None:
        """Takes the last piece."""
        if text:
            self.texts.append(text)
        self.ended = True


class Generation:
    """The pieces of an answer, as they are written. Iterating computes them; other answers are written meanwhile.

    Args:
        batch: writes the answer.
        request: what was asked for.
        pieces: where its listener puts the pieces.
    """

    def __init__(self, batch: Batch, request: Request, pieces: Pieces) -> None:
        self._batch, self._request, self._pieces = batch, request, pieces

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while not self._pieces.texts:
            if self._pieces.ended:
                self._raise()
                raise StopIteration
            self._batch.step()
        return self._pieces.texts.popleft()

    def close(self) -> None:
        """Ends the answer; its result is what there is."""
        if not self._pieces.ended:
            self._batch.cancel(self._request)

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @property
    def result(self) -> Result:
        """The whole answer; computes what is missing of it."""
        while not self._pieces.ended:
            self._batch.step()
        self._raise()
        return self._answer.result(self._request)

    @property
    def _answer(self) -> Answer:
        return cast(Answer, self._request.listener)

    def _raise(self) -> None:
        if self._answer.error is not None:
            raise self._answer.error
