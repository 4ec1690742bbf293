"""Continuous batching: requests join a running batch at any step, and leave it at any step.

A step of the model takes the next token of each answer that is being written, the guesses of drafts, and pieces of the
prompts that have just come. Pieces share the room of a step, so that a short prompt does not wait for a long one.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from typing import Any

import numpy as np

from minnow.llm.request import Array, Reason, Request, Sampled, Steps
from minnow.llm.speculative import Draft, Proposal, checked, stream
from minnow.schema.errors import MinnowError, UsageError


class QueueFullError(UsageError):
    """There are too many requests; try again later."""


class _Answer:
    """An answer that is being written."""

    __slots__ = ("proposal", "random", "request", "reserved", "sequence", "tokens")

    def __init__(self, request: Request, sequence: Any, reserved: int) -> None:
        self.request, self.sequence, self.reserved = request, sequence, reserved
        self.tokens = list(request.tokens)
        self.proposal = Proposal([])
        self.random = stream(request.seed, 2)

    @property
    def pending(self) -> int:
        """How many tokens are not in the cache yet: one while an answer is written, more of a prompt."""
        return len(self.tokens) - len(self.sequence)

    @property
    def left(self) -> int:
        """How many tokens the answer may still get."""
        return self.request.max_tokens - (len(self.tokens) - len(self.request.tokens))


class Batch:
    """Fulfils requests together. `add` and `cancel` may be called from any thread, also during a step.

    Args:
        model: appends tokens to sequences.
        context: the most tokens of a sequence.
        sequences: how many answers are written at a time; other requests wait.
        chunk: how many tokens of prompts a step takes at most.
        queue: how many requests may wait.
        cached: how many tokens all sequences together may have in the cache; a request is let in when there is room for
            its longest answer.
    """

    def __init__(
        self,
        model: Steps,
        *,
        context: int,
        sequences: int = 16,
        chunk: int = 512,
        queue: int = 256,
        cached: int | None = None,
    ) -> None:
        self._model = model
        self.context, self._sequences, self._chunk, self._queue = context, sequences, chunk, queue
        self._cached = cached or sequences * context
        self._lock = threading.Lock()  # of what add and cancel change
        self._stepping = threading.Lock()
        self._waiting: OrderedDict[str, deque[Request]] = OrderedDict()
        self._cancelled: set[Request] = set()
        self._running: list[_Answer] = []
        self.steps = 0

    @property
    def longest(self) -> int:
        """The most tokens of a prompt with its answer."""
        return min(self.context, self._cached)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    @property
    def running(self) -> int:
        """How many answers are being written."""
        return len(self._running)

    def add(self, *requests: Request) -> None:
        """Puts requests into the queue, all or none.

        Raises:
            UsageError: a prompt is empty, or too long for the context or the cache.
            QueueFullError: too many requests wait.
        """
        for request in requests:
            self._check(request)
        with self._lock:
            if sum(map(len, self._waiting.values())) + len(requests) > self._queue + self._sequences - self.running:
                raise QueueFullError("too many requests wait", hint="try again later")
            for request in requests:
                self._waiting.setdefault(request.client, deque()).append(request)

    def cancel(self, request: Request) -> None:
        """Ends a request: at once, or with the step that is running; one that has ended is left alone."""
        with self._lock:
            self._cancelled.add(request)
        if self._stepping.acquire(blocking=False):
            try:
                self._drop_cancelled()
            finally:
                self._stepping.release()

    def step(self) -> bool:
        """One step of the model; False if there was nothing to do."""
        with self._stepping:
            self._drop_cancelled()
            self._admit()
            answers = self._guess()
            work, counts, members = [], [], []
            for answer, new, wanted in self._shares(answers):
                work.append((new, answer.sequence, wanted))
                counts.append(wanted)
                members.append(answer)
            if not work:
                return False
            self.steps += 1
            try:
                logits = self._model.step(work)
            except Exception as e:  # noqa: BLE001  (it is told to those whose answers end by it)
                for answer in members:
                    self._end(answer, "error", e)
                return True
            first = 0
            for answer, wanted in zip(members, counts, strict=True):
                if wanted:
                    self._advance(answer, logits[first : first + wanted])
                first += wanted
            return True

    def run(self) -> None:
        """Steps until nothing is left to do."""
        while self.step():
            pass

    def close(self) -> None:
        """Ends all requests."""
        with self._lock:
            self._cancelled.update(request for queue in self._waiting.values() for request in queue)
            self._cancelled.update(answer.request for answer in self._running)
        with self._stepping:
            self._drop_cancelled()

    # --- the parts of a step ---

    def _check(self, request: Request) -> None:
        number = len(request.tokens)
        if not number:
            raise UsageError("the prompt has no tokens", hint="give at least one character")
        if number >= self.context:
            why = f"it has {number:,} tokens, and the model's context is {self.context:,}, with the answer"
            raise UsageError("the prompt is too long", why=why)
        if self._reserve(request) > self._cached:
            why = f"prompt and answer may need {self._reserve(request):,} tokens, and the cache has {self._cached:,}"
            raise UsageError("the request is too long", why=why, hint="ask for fewer tokens")
        if request.max_tokens < 1:
            raise UsageError("max_tokens is less than 1")

    def _reserve(self, request: Request) -> int:
        return min(len(request.tokens) + request.max_tokens, self.context)

    def _drop_cancelled(self) -> None:
        with self._lock:
            if not self._cancelled:
                return
            gone, self._cancelled = self._cancelled, set()
            waiting = [request for queue in self._waiting.values() for request in queue if request in gone]
            for client, queue in list(self._waiting.items()):
                left = deque(request for request in queue if request not in gone)
                self._waiting[client] = left
                if not left:
                    del self._waiting[client]
        for request in waiting:
            request.timing.ended = time.perf_counter()
            request.listener.end("cancelled", None)
        for answer in [answer for answer in self._running if answer.request in gone]:
            self._end(answer, "cancelled", None)

    def _admit(self) -> None:
        """Lets requests in, clients in turns, while there is room. None overtakes one that waits for room."""
        while len(self._running) < self._sequences:
            with self._lock:
                request = self._next()
                if request is None:
                    return
                reserved = self._reserve(request)
                if self._running and reserved + sum(a.reserved for a in self._running) > self._cached:
                    return
                queue = self._waiting[request.client]
                queue.remove(request)
                self._waiting.move_to_end(request.client)
                if not queue:
                    del self._waiting[request.client]
            request.timing.admitted = time.perf_counter()
            try:
                sequence = self._model.sequence(request.tokens)
            except Exception as e:  # noqa: BLE001  (it is told to the one whose answer ends by it)
                request.timing.ended = time.perf_counter()
                request.listener.end("error", e)
                continue
            request.cached = len(sequence)
            self._running.append(_Answer(request, sequence, reserved))

    def _next(self) -> Request | None:
        for queue in self._waiting.values():
            for request in queue:
                before = request.after
                if before is None or before.timing.first or before.timing.ended:
                    return request
        return None

    def _guess(self) -> list[_Answer]:
        """Has drafts guess, all answers of a draft at once; the answers in their order."""
        asked: dict[Draft, list[_Answer]] = {}
        for answer in self._running:
            answer.proposal = Proposal([])
            most = min(answer.left, self.context - len(answer.tokens)) - 1
            if answer.request.draft is not None and answer.pending == 1 and most > 0:
                asked.setdefault(answer.request.draft, []).append(answer)
        for draft, answers in asked.items():
            wanted = [(a.request, a.tokens, min(a.left, self.context - len(a.tokens)) - 1) for a in answers]
            try:
                found = draft.propose(wanted)
            except MinnowError:  # the draft's context is shorter, or it has no memory left: it is only a help
                continue
            for answer, proposal in zip(answers, found, strict=True):
                answer.proposal = proposal
                answer.request.drafted += len(proposal.tokens)
        return list(self._running)

    def _shares(self, answers: list[_Answer]) -> list[tuple[_Answer, list[int], int]]:
        """For each answer that takes part in the step its new tokens, and of how many of them logits are wanted."""
        out = []
        prompts = [a for a in answers if a.pending > 1]
        room = self._chunk
        for place, answer in enumerate(sorted(prompts, key=lambda a: a.pending)):
            take = min(answer.pending, room // (len(prompts) - place))
            room -= take
            if take:
                start = len(answer.sequence)
                out.append((answer, answer.tokens[start : start + take], int(take == answer.pending)))
        for answer in answers:
            if answer.pending == 1:
                guesses = answer.proposal.tokens
                out.append((answer, [answer.tokens[-1], *guesses], 1 + len(guesses)))
        return out

    def _advance(self, answer: _Answer, rows: Array) -> None:
        """Takes the tokens that the logits of a step give."""
        request, proposal = answer.request, answer.proposal
        done = False
        try:
            for place, token in enumerate(checked(rows, proposal, request.sampler, answer.random)):
                request.accepted += proposal.tokens[place : place + 1] == [token]
                if self._take(answer, token, rows[place]):
                    done = True
                    break
        except Exception as e:  # noqa: BLE001  (a sampler or listener that fails ends its own answer only)
            self._end(answer, "error", e)
            return
        if proposal.tokens and not done:
            answer.sequence.rewind(len(answer.tokens) - 1)

    def _take(self, answer: _Answer, token: int, logits: Array) -> bool:
        """Takes a token; True if the answer has ended."""
        request = answer.request
        if not request.timing.first:
            request.timing.first = time.perf_counter()
        if token in request.stop:
            self._end(answer, "stop", None)
            return True
        request.sampler.accept(token)
        answer.tokens.append(token)
        if not request.listener.take(_sampled(token, logits, request.logprobs)):
            self._end(answer, "stop", None)
            return True
        if answer.left <= 0 or len(answer.tokens) >= self.context:
            self._end(answer, "length", None)
            return True
        return False

    def _end(self, answer: _Answer, reason: Reason, error: BaseException | None) -> None:
        self._running.remove(answer)
        answer.request.timing.ended = time.perf_counter()
        try:
            if answer.proposal.tokens and reason != "error":  # guesses behind the end are no prefix of anything
                answer.sequence.rewind(min(len(answer.sequence), len(answer.tokens)))
            answer.sequence.close()
            if answer.request.draft is not None:
                answer.request.draft.forget(answer.request)
        finally:
            answer.request.listener.end(reason, error)


def _sampled(token: int, logits: Array, top: int | None) -> Sampled:
    """A token with the probabilities that were asked for."""
    if top is None:
        return Sampled(token)
    high = logits.max()
    logprobs = logits - (high + np.log(np.exp(logits - high).sum()))
    if not top:
        return Sampled(token, float(logprobs[token]))
    top = min(top, len(logits))
    best = np.argpartition(-logprobs, top - 1)[:top]
    best = best[np.lexsort((best, -logprobs[best]))]
    return Sampled(token, float(logprobs[token]), tuple((int(i), float(logprobs[i])) for i in best))
