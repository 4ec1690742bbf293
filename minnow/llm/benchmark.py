"""How fast a language model reads prompts and writes answers."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from minnow.options.generate import BenchLanguageCommand, LanguageOptions

_CHUNK = 512
"""Tokens of a prompt that are read in one step."""


@dataclass(frozen=True)
class Speed:
    """The speed of one test.

    Attributes:
        test: "pp512", "tg128", "tg128 x8".
        tokens: of a prompt or an answer. batch: how many at a time.
        rate: tokens per second, the mean over runs; all sequences are added up. deviation: its standard deviation.
        seconds: of each run.
    """

    test: str
    tokens: int
    batch: int
    rate: float
    deviation: float
    seconds: list[float]


@dataclass(frozen=True)
class Speeds:
    """The speeds of a model.

    Attributes:
        model: its name. bytes: of its files. device, threads, cache, precision: how it ran.
        load_s: seconds to load it. peak_bytes: the most memory of the process, with the cache of the longest test.
    """

    model: str
    bytes: int
    device: str
    threads: int
    cache: str
    precision: str
    load_s: float
    peak_bytes: int
    tests: list[Speed]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def benchmark(
    folder: str,
    options: BenchLanguageCommand,
    *,
    prefill: Sequence[int],
    decode: Sequence[int],
    batch: Sequence[int],
    progress: Callable[[str], None] | None = None,
) -> Speeds:
    """Measures a model.

    Args:
        folder: of the model.
        options: how it runs, and how often.
        prefill, decode: lengths of prompts and of answers. batch: how many answers at a time.
        progress: is told the tests.

    Raises:
        UsageError: a length does not fit into the context.
    """
    import minnow.llm
    from minnow.schema.errors import UsageError

    begun = time.perf_counter()
    # No room for the texts of runs before.
    room = max(*prefill, *(size * count for size in decode for count in batch), 16)
    running = replace(options.only(LanguageOptions), cached_tokens=room)
    llm = minnow.llm.load(folder, **vars(running))
    load = time.perf_counter() - begun
    about = llm.description
    if longest := [n for n in (*prefill, *decode) if n >= about.context]:
        raise UsageError(f"{longest[0]} tokens are too many", why=f"the model's context is {about.context:,}")
    tests = []
    for kind, sizes, counts in (("pp", prefill, (1,)), ("tg", decode, batch)):
        for size in sizes:
            for count in counts:
                name = f"{kind}{size}" + (f" x{count}" if count > 1 else "")
                if progress is not None:
                    progress(name)
                tests.append(_speed(llm, name, size, count, options.runs, reads=kind == "pp"))
    files = sum(path.stat().st_size for path in Path(folder).iterdir() if path.suffix in (".mnn", ".weight", ".bin"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    threads = options.threads or len(os.sched_getaffinity(0))
    return Speeds(about.name, files, options.device, threads, options.cache, options.precision, load, peak, tests)


def _speed(llm: Any, name: str, size: int, batch: int, runs: int, reads: bool) -> Speed:
    random = np.random.default_rng(size)
    run = _read if reads else _write
    run(llm.model, random.integers(0, llm.description.vocab_size, (batch, size)).tolist())  # plans and warms up
    seconds = []
    for _ in range(runs):
        tokens = random.integers(0, llm.description.vocab_size, (batch, size)).tolist()
        seconds.append(run(llm.model, tokens))
    rates = [batch * size / s for s in seconds]
    return Speed(name, size, batch, float(np.mean(rates)), float(np.std(rates, ddof=1)) if runs > 1 else 0.0, seconds)


def _read(model: Any, tokens: Sequence[list[int]]) -> float:
    """Seconds to read a prompt up to the logits after its last token."""
    (row,) = tokens
    sequence = model.sequence()
    begun = time.perf_counter()
    for begin in range(0, len(row), _CHUNK):
        piece = row[begin : begin + _CHUNK]
        model.step([(piece, sequence, int(begin + len(piece) == len(row)))])
    seconds = time.perf_counter() - begun
    sequence.close()
    return seconds


def _write(model: Any, tokens: Sequence[list[int]]) -> float:
    """Seconds to write answers of given tokens, with the logits after each."""
    sequences = [model.sequence() for _ in tokens]
    begun = time.perf_counter()
    for place in range(len(tokens[0])):
        model.step([([row[place]], sequence, 1) for row, sequence in zip(tokens, sequences, strict=True)])
    seconds = time.perf_counter() - begun
    for sequence in sequences:
        sequence.close()
    return seconds
