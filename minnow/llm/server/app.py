"""The server: OpenAI's paths, as an ASGI application."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from minnow.llm.generation import Answer
from minnow.llm.llm import LLM
from minnow.llm.server.asked import Asked, asked, check_model
from minnow.llm.server.field import Body, parsed
from minnow.llm.server.guard import body_of, check_host, check_key
from minnow.llm.server.metric import Metrics
from minnow.llm.server.refusal import RequestError, answer_to, invalid
from minnow.llm.server.reply import Reply
from minnow.llm.server.worker import Piece, Stream, Worker
from minnow.options.generate import ServerOptions

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    Handler = Callable[[Request], Awaitable[Response]]

_TEXTS = 2048
"""Texts of one request for embeddings, or for ranking."""


class Server:
    """The handlers of the paths.

    Args:
        llm: answers.
        options: what is let in.
    """

    def __init__(self, llm: LLM, options: ServerOptions) -> None:
        self._llm, self._options = llm, options
        self._name = options.model_name or llm.description.name
        self._metrics = Metrics(llm.batch)
        self._worker = Worker(llm)
        self._started = int(time.time())

    def app(self) -> Starlette:
        """The application. It ends the model's thread when it is shut down."""
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route

        paths: dict[str, tuple[str, Handler]] = {
            "/v1/chat/completions": ("POST", lambda request: self._answer(request, chat=True)),
            "/v1/completions": ("POST", lambda request: self._answer(request, chat=False)),
            "/v1/embeddings": ("POST", self._embeddings),
            "/v1/rerank": ("POST", self._rerank),
            "/v1/models": ("GET", self._models),
            "/v1/models/{name:path}": ("GET", self._model),
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._numbers),
        }
        routes = [Route(path, self._guarded(path, do), methods=[method]) for path, (method, do) in paths.items()]

        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            yield
            await asyncio.to_thread(self.close)

        handlers: Any = {HTTPException: self._unknown, Exception: self._failed}
        return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)

    def close(self) -> None:
        """Ends all answers, and the thread."""
        self._worker.close()

    # --- every path ---

    def _guarded(self, path: str, handle: Handler) -> Handler:
        """A handler that is called for those who are let in only, and whose errors are answers."""

        from starlette.requests import ClientDisconnect
        from starlette.responses import Response

        async def handled(request: Request) -> Response:
            try:
                if self._options.host in ("127.0.0.1", "localhost", "::1"):
                    check_host(request)
                check_key(request, self._options.api_key)
                response = await handle(request)
            except ClientDisconnect:
                response = Response(status_code=499)
            except Exception as e:  # noqa: BLE001
                problem = answer_to(e)
                response = _error(problem)
                if problem.status >= 500:
                    _log_error(e)
            self._metrics.requests.labels(path, response.status_code).inc()
            return response

        return handled

    @staticmethod
    async def _unknown(request: Request, error: Any) -> Response:
        what = {404: "there is no such path", 405: "the path has another method"}.get(error.status_code, error.detail)
        return _error(RequestError(error.status_code, what, code="not_found", headers=dict(error.headers or {})))

    @staticmethod
    async def _failed(request: Request, error: Exception) -> Response:
        return _error(answer_to(error))

    # --- paths ---

    async def _answer(self, request: Request, chat: bool) -> Response:
        body = parsed(await body_of(request, self._options.max_body))
        check_model(body, self._name)
        wanted = await asyncio.to_thread(asked, body, self._llm, self._options, chat)
        wanted.client = wanted.client or (request.client.host if request.client else "")
        stream = Stream()
        answers = await asyncio.to_thread(self._requests, wanted, stream)
        self._worker.add(stream.requests)
        reply = Reply(wanted, self._llm, self._name)
        if wanted.stream:
            from starlette.responses import StreamingResponse

            events = self._events(stream, answers, reply)
            return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        try:
            await _while_connected(request, _ended(stream))
        finally:
            self._done(stream, answers)
        return _json(reply.whole(answers, stream.requests))

    def _requests(self, wanted: Asked, stream: Stream) -> list[Answer]:
        """Fills the stream with the requests for all choices. All choices of a prompt wait for the first one's."""
        answers = []
        for tokens in wanted.prompts:
            first = None
            for number in range(wanted.choices):
                choice = len(stream.requests)
                made = self._request(wanted, stream, tokens, choice, number, first)
                first = first or made
                stream.requests.append(made)
                answers.append(made.listener)
        return answers

    def _request(self, wanted: Asked, stream: Stream, tokens: list[int], choice: int, number: int, first: Any) -> Any:
        made = self._llm.request(
            tokens,
            wanted.answer_options(number),
            lambda sampled, text: stream.put(Piece(choice, text, sampled)),
            lambda text, error: stream.put(Piece(choice, text, ended=cast(Answer, made.listener))),
            client=wanted.client,
            after=first,
        )
        return made

    async def _events(self, stream: Stream, answers: list[Answer], reply: Reply) -> AsyncIterator[str]:
        try:
            async for piece in stream.pieces():
                for event in reply.events(piece):
                    yield event
            for event in reply.last_events(answers, stream.requests):
                yield event
        except Exception as e:  # noqa: BLE001  (a part of the answer has been sent: the rest is the error)
            _log_error(e)
            yield reply.error_event(e)
        finally:
            self._done(stream, answers)

    def _done(self, stream: Stream, answers: list[Answer]) -> None:
        """Ends what has not ended, and counts."""
        left = [r for r, answer in zip(stream.requests, answers, strict=True) if answer.reason is None]
        if left:
            self._worker.cancel(left)
        ended = [(a, r) for a, r in zip(answers, stream.requests, strict=True) if a.reason is not None]
        self._metrics.count([a for a, _ in ended], [r for _, r in ended])

    async def _embeddings(self, request: Request) -> Response:
        body = parsed(await body_of(request, self._options.max_body))
        check_model(body, self._name)
        texts = body.texts("input", _TEXTS)
        if not texts:
            raise invalid("'input' has no text", "input")
        form = body.text("encoding_format", "float")
        if form not in ("float", "base64"):
            raise invalid("'encoding_format' is neither float nor base64", "encoding_format")
        if "dimensions" in body:
            raise invalid("'dimensions' is not supported", "dimensions", "unsupported")
        rows = await asyncio.to_thread(self._llm.embed, texts)
        tokens = await asyncio.to_thread(lambda: sum(len(self._llm.tokenizer.encode(text)) for text in texts))
        data = [
            {"object": "embedding", "index": i, "embedding": _base64(row) if form == "base64" else row.tolist()}
            for i, row in enumerate(rows)
        ]
        counts = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _json({"object": "list", "data": data, "model": self._name, "usage": counts})

    async def _rerank(self, request: Request) -> Response:
        body = parsed(await body_of(request, self._options.max_body))
        check_model(body, self._name)
        query, texts = body.text("query"), body.documents("documents", _TEXTS)
        if not query or not texts:
            name = "documents" if query else "query"
            raise invalid(f"'{name}' has no text", name)
        most = body.whole("top_n", 1, 2**31) or len(texts)
        with_texts = body.flag("return_documents")
        scores = await asyncio.to_thread(self._llm.rerank, query, texts)
        tokens = await asyncio.to_thread(lambda: sum(len(self._llm.tokenizer.encode(query, text)) for text in texts))
        order = sorted(range(len(texts)), key=lambda i: -scores[i])[:most]
        results = [
            {"index": i, "relevance_score": scores[i], **({"document": {"text": texts[i]}} if with_texts else {})}
            for i in order
        ]
        counts = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _json({"model": self._name, "results": results, "usage": counts})

    async def _models(self, request: Request) -> Response:
        return _json({"object": "list", "data": [self._card()]})

    async def _model(self, request: Request) -> Response:
        check_model(Body({"model": request.path_params["name"]}), self._name)
        return _json(self._card())

    def _card(self) -> dict[str, Any]:
        about = self._llm.description
        more = {"context": about.context, "architecture": about.architecture, "kind": about.kind}
        return {"id": self._name, "object": "model", "created": self._started, "owned_by": "minnow", **more}

    async def _health(self, request: Request) -> Response:
        good = self._worker.alive
        return _json({"status": "ok" if good else "stopped"}, status_code=200 if good else 503)

    async def _numbers(self, request: Request) -> Response:
        from starlette.responses import Response

        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")


async def _ended(stream: Stream) -> None:
    async for _ in stream.pieces():
        pass


async def _while_connected(request: Request, work: Any) -> None:
    """Waits for work, until the client goes away."""
    from starlette.requests import ClientDisconnect

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(gone())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    if tasks[0] not in done:
        raise ClientDisconnect
    tasks[0].result()


def _json(value: Any, status_code: int = 200, headers: dict[str, str] | None = None) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(value, status_code, headers)


def _base64(row: Any) -> str:
    return base64.b64encode(np.asarray(row, "<f4").tobytes()).decode()


def _error(problem: RequestError) -> Response:
    return _json(problem.as_dict(), status_code=problem.status, headers=problem.headers)


def _log_error(error: BaseException) -> None:
    import logging

    logging.getLogger("minnow.llm.server").error("a request has failed", exc_info=error)
