"""The answers of the server, in OpenAI's form: whole, or piece by piece."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from typing import Any

from minnow.llm.generation import Answer
from minnow.llm.llm import LLM
from minnow.llm.request import Request, Sampled
from minnow.llm.server.asked import Asked
from minnow.llm.server.refusal import RequestError, answer_to
from minnow.llm.server.tool import Call, calls_in, may_begin
from minnow.llm.server.worker import Piece


class Reply:
    """Makes the JSON of the answers to one request.

    Args:
        asked: the request.
        llm: whose tokens these are.
        name: what the model is called.
    """

    def __init__(self, asked: Asked, llm: LLM, name: str) -> None:
        self._asked, self._llm = asked, llm
        kind = "chat.completion" if asked.chat else "text_completion"
        mark = "chatcmpl" if asked.chat else "cmpl"
        self._head = {"id": f"{mark}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": name}
        self._begun: set[int] = set()
        self._sent: set[int] = set()
        self._unsent: dict[int, str] = {}
        self._kept: dict[int, list[Sampled]] = {}

    # --- whole ---

    def whole(self, answers: Sequence[Answer], requests: Sequence[Request]) -> dict[str, Any]:
        """The one answer.

        Raises:
            RequestError: one of the answers has failed.
        """
        choices = []
        for choice, answer in enumerate(answers):
            check(answer)
            text, calls = self._parts(answer.text.text)
            made: dict[str, Any] = {"index": choice, "finish_reason": self._reason(answer, calls)}
            made["logprobs"] = self._logprobs(answer.sampled)
            if self._asked.chat:
                made["message"] = {"role": "assistant", "content": text if text or not calls else None, "refusal": None}
                if calls:
                    made["message"]["tool_calls"] = [_call(call) for call in calls]
            else:
                made["text"] = self._echo(choice) + text
            choices.append(made)
        return {**self._head, "choices": choices, "usage": usage(answers, requests)}

    # --- piece by piece ---

    def events(self, piece: Piece) -> list[str]:
        """The events that a piece of an answer gives."""
        out = []
        choice = piece.choice
        if choice not in self._begun:
            self._begun.add(choice)
            if self._asked.chat:
                out.append(self._event(choice, {"role": "assistant", "content": ""}))
            elif echo := self._echo(choice):
                out.append(self._event(choice, {"content": echo}))
        text = self._unsent.pop(choice, "") + piece.text
        sampled = self._kept.pop(choice, []) + ([piece.sampled] if piece.sampled else [])
        if piece.ended is not None:
            check(piece.ended)
            rest, calls = self._parts(text)
            if rest or (sampled and self._asked.options.get("logprobs") is not None):
                out.append(self._event(choice, {"content": rest}, sampled))
            for place, call in enumerate(calls):
                out.append(self._event(choice, {"tool_calls": [{"index": place, **_call(call)}]}))
            out.append(self._event(choice, {}, reason=self._reason(piece.ended, calls)))
        elif self._asked.tools and may_begin(text, first=choice not in self._sent):
            self._unsent[choice], self._kept[choice] = text, sampled
        elif text or self._asked.options.get("logprobs") is not None:
            self._sent.add(choice)
            out.append(self._event(choice, {"content": text}, sampled))
        return out

    def last_events(self, answers: Sequence[Answer], requests: Sequence[Request]) -> list[str]:
        """The events after all pieces."""
        out = []
        if self._asked.usage:
            out.append(_line({**self._chunk_head(), "choices": [], "usage": usage(answers, requests)}))
        return [*out, "data: [DONE]\n\n"]

    @staticmethod
    def error_event(error: BaseException) -> str:
        """The event that an error gives, when a part of the answer has been sent."""
        return _line(answer_to(error).as_dict())

    def _chunk_head(self) -> dict[str, Any]:
        return self._head | ({"object": "chat.completion.chunk"} if self._asked.chat else {})

    def _event(
        self, choice: int, delta: dict[str, Any], sampled: Sequence[Sampled] = (), reason: str | None = None
    ) -> str:
        body = {"delta": delta} if self._asked.chat else {"text": delta.get("content", "")}
        made = {"index": choice, **body, "logprobs": self._logprobs(sampled), "finish_reason": reason}
        return _line({**self._chunk_head(), "choices": [made]})

    # --- parts of both ---

    def _parts(self, text: str) -> tuple[str, list[Call]]:
        return calls_in(text, self._asked.tools) if self._asked.tools else (text, [])

    def _reason(self, answer: Answer, calls: Sequence[Call]) -> str:
        return "tool_calls" if calls else "length" if answer.reason == "length" else "stop"

    def _echo(self, choice: int) -> str:
        return self._asked.echo[choice // self._asked.choices] if self._asked.echo else ""

    def _logprobs(self, sampled: Sequence[Sampled]) -> dict[str, Any] | None:
        if self._asked.options.get("logprobs") is None or not sampled:
            return None
        if self._asked.chat:
            rows = [{**self._one(s.token, s.logprob), "top_logprobs": [self._one(*t) for t in s.top]} for s in sampled]
            return {"content": rows, "refusal": None}
        texts = [self._bytes(s.token).decode(errors="replace") for s in sampled]
        return {
            "tokens": texts,
            "token_logprobs": [s.logprob for s in sampled],
            "top_logprobs": [{self._bytes(t).decode(errors="replace"): p for t, p in s.top} for s in sampled],
            "text_offset": [sum(map(len, texts[:i])) for i in range(len(texts))],
        }

    def _one(self, token: int, logprob: float | None) -> dict[str, Any]:
        data = self._bytes(token)
        return {"token": data.decode(errors="replace"), "logprob": logprob, "bytes": list(data)}

    def _bytes(self, token: int) -> bytes:
        data: bytes = self._llm.tokenizer.token_bytes(token)
        return data


def usage(answers: Sequence[Answer], requests: Sequence[Request]) -> dict[str, Any]:
    """The numbers of tokens. The prompt of several choices counts once."""
    prompts = {id(r.tokens): r for r in requests}.values()
    prompt, completion = sum(len(r.tokens) for r in prompts), sum(len(a.sampled) for a in answers)
    details = {"cached_tokens": sum(r.cached for r in prompts)}
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**counts, "prompt_tokens_details": details}


def check(answer: Answer) -> None:
    """Raises a RequestError if an answer has failed."""
    if answer.error is not None:
        raise answer_to(answer.error) from answer.error
    if answer.reason == "cancelled":
        raise RequestError(503, "the server is being stopped", "server_error", "stopped")


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


def _line(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"
