"""A language model of bytes, without weights: to test what is around a model. `python fake_llm.py` serves it."""

from __future__ import annotations

import codecs
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from fake_model import FakeModel, FakeSampler

from minnow.llm.description import Description
from minnow.llm.llm import LLM
from minnow.options.generate import BatchOptions, ServerOptions

EOS = 256


class ByteStream:
    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, *ids: int) -> str:
        return self._text.decode(bytes(i for i in ids if i < 256))

    def finish(self) -> str:
        return self._text.decode(b"", final=True)


class ByteTokenizer:
    """A token for each byte, and one that ends a text."""

    size = 257

    def encode(self, text: str, pair: str | None = None, *, special: bool = True, parse: bool = True) -> list[int]:
        return list(text.encode())

    def encode_pair(self, text: str, pair: str) -> tuple[list[int], list[int]]:
        return [*text.encode(), *pair.encode()], [0] * len(text.encode()) + [1] * len(pair.encode())

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        return bytes(i for i in ids if i < 256).decode(errors="replace")

    def stream(self) -> ByteStream:
        return ByteStream()

    def token_bytes(self, id: int) -> bytes:
        return bytes([id]) if id < 256 else b""


class Letters(FakeModel):
    """Writes small letters and spaces, or what it is told to: "say TEXT;" in the prompt.

    Args:
        pause: seconds of a step. gate: steps wait for it, if it is set.
    """

    def __init__(self, pause: float = 0.0) -> None:
        super().__init__(vocabulary=257)
        self.pause = pause
        self.gate: threading.Event | None = None

    def step(self, work: Any) -> Any:
        time.sleep(self.pause)
        if self.gate is not None:
            self.gate.wait()
        return super().step(work)

    def logits(self, tokens: Sequence[int]) -> Any:
        out = super().logits(tokens) - 50
        out[ord("a") : ord("z") + 1] += 50
        out[ord(" ")] += 51
        _, said, after = bytes(t for t in tokens if t < 256).rpartition(b"say ")
        wanted, end, written = after.partition(b";")
        if said and end:
            written = written.rpartition(b"assistant\n")[2]
            out[wanted[len(written)] if len(written) < len(wanted) else EOS] += 200
        return out


def template(messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
    """ChatML, with tools as JSON in front."""
    parts = [json.dumps(variables["tools"]) + "\n"] if variables.get("tools") else []
    parts += [f"{m['role']}\n{m['content']}\n" for m in messages]
    return "".join(parts) + "assistant\n" * bool(variables["add_generation_prompt"])


def sampler(options: Any, tokens: Sequence[int]) -> FakeSampler:
    return FakeSampler(options.temperature, options.seed or 0)


def fake_llm(pause: float = 0.0, kind: str = "generate", context: int = 400, **options: Any) -> LLM:
    about: dict[str, Any] = {"heads": 1, "kv_heads": 1, "head_size": 1, "layers": 1, "hidden_size": 8}
    description = Description("fake", "letters", 257, context=context, eos=[EOS], kind=kind, **about)
    model: Any = Letters(pause) if kind == "generate" else Vectors()
    return LLM(description, model, ByteTokenizer(), sampler, template, options=BatchOptions(**options))


class Vectors:
    """Embeds a text by the counts of its bytes."""

    def embed(self, rows: Sequence[Sequence[int]]) -> Any:
        return np.array([np.bincount(np.array(row) % 8, minlength=8) for row in rows], np.float32)

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float]:
        return [float(len(ids)) for ids, _ in pairs]

    def sequence(self, tokens: Sequence[int] = ()) -> None:
        raise AssertionError

    step = sequence


@contextmanager
def served(llm: LLM, **options: Any) -> Iterator[str]:
    """A server in a thread of this process; gives its address."""
    import socket

    import uvicorn

    from minnow.llm.server.app import Server
    from minnow.llm.server.connection import connection_type

    server = Server(llm, ServerOptions(port=0, **options))
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        server.app(), http=connection_type(), log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(timeout=30)
        server.close()
        assert not thread.is_alive()
