"""What `/metrics` tells: requests, tokens, times, in the text form of Prometheus."""

from __future__ import annotations

from collections.abc import Sequence

from minnow.llm.batch import Batch
from minnow.llm.generation import Answer, times
from minnow.llm.request import Request

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_RATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Metrics:
    """The numbers of one server."""

    def __init__(self, batch: Batch) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "minnow_requests", "Requests that were answered.", ["path", "status"], registry=registry
        )
        self._tokens = Counter("minnow_tokens", "Tokens, by kind.", ["kind"], registry=registry)
        self._answers = Counter("minnow_answers", "Answers, by why they ended.", ["reason"], registry=registry)
        self._first = Histogram(
            "minnow_first_token_seconds", "From the request to its first token.", buckets=_SECONDS, registry=registry
        )
        self._total = Histogram(
            "minnow_answer_seconds", "From the request to its end.", buckets=_SECONDS, registry=registry
        )
        self._rate = Histogram(
            "minnow_decode_tokens_per_second", "Speed of single answers.", buckets=_RATES, registry=registry
        )
        for name, doc, value in (
            ("minnow_answers_running", "Answers that are being written.", lambda: batch.running),
            ("minnow_requests_waiting", "Requests in the queue.", lambda: batch.waiting),
        ):
            Gauge(name, doc, registry=registry).set_function(value)

    def count(self, answers: Sequence[Answer], requests: Sequence[Request]) -> None:
        """Counts answers that have ended."""
        for answer, request in zip(answers, requests, strict=True):
            usage = answer.usage(request)
            for kind in ("prompt", "cached", "answer", "drafted", "accepted"):
                self._tokens.labels(kind).inc(getattr(usage, kind))
            self._answers.labels(answer.reason).inc()
            found = times(request, usage)
            if request.timing.first:
                self._first.observe(found.first)
            if found.decode_rate:
                self._rate.observe(found.decode_rate)
            self._total.observe(found.total)

    def text(self) -> bytes:
        """All of it."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
