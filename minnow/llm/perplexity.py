"""How well a language model predicts a text."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minnow.llm.llm import LLM
from minnow.schema.errors import FormatError, UsageError

_ROWS = 128
"""Tokens whose logits are in memory at a time."""
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Perplexity:
    """How well a text was predicted.

    Attributes:
        perplexity: exp of the mean of -log p.
        error: its standard error, from how much -log p varies.
        tokens: of the text, with the one that begins it, if there is one. predicted: how many of them were predicted.
        windows: into which it was cut. seconds: for all of it.
    """

    perplexity: float
    error: float
    tokens: int
    predicted: int
    windows: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def text_of(path: str) -> str:
    """The text of a file. Raises FormatError if it cannot be read, or is no UTF-8."""
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise FormatError("the file is too large", where=path)
        return Path(path).read_bytes().decode()
    except OSError as e:
        raise FormatError("cannot read the text", where=path, why=e.strerror or str(e)) from None
    except UnicodeDecodeError as e:
        raise FormatError("the text is no UTF-8", where=path, why=f"byte {e.start}") from None


def windows(tokens: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Begin, end, and the first token to predict, of each window."""
    seen = 1  # the first token has nothing before it
    for begin in range(0, max(tokens - 1, 0), stride):
        end = min(begin + window, tokens)
        first = max(seen, begin + 1)
        if first < end:
            yield begin, end, first
        seen = end
        if end == tokens:
            return


def perplexity(
    llm: LLM,
    text: str,
    *,
    window: int = 512,
    stride: int | None = None,
    limit: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Perplexity:
    """Measures how well a model predicts a text.

    Args:
        llm: the model.
        text: is taken as it is: texts of special tokens in it are ordinary text.
        window: tokens of a window.
        stride: how many tokens further the next window begins; None: a window.
        limit: look only at this many tokens.
        progress: is told the windows.

    Raises:
        UsageError: the text has less than two tokens, or the window is longer than the context.
    """
    if window > llm.description.context:
        why = f"the model's context is {llm.description.context:,}"
        raise UsageError(f"the window has {window:,} tokens", why=why)
    begun = time.perf_counter()
    tokens = llm.encode(text, parse=False)[:limit]
    cut = list(windows(len(tokens), window, stride or window))
    if not cut:
        raise UsageError("the text has less than two tokens")
    losses = []
    for number, (begin, end, first) in enumerate(cut):
        if progress is not None:
            progress(f"window {number + 1} of {len(cut)}")
        losses.append(window_losses(llm, tokens[begin:end], first - begin))
    loss = np.concatenate(losses)
    found = math.exp(loss.mean())
    error = found * float(loss.std(ddof=1)) / math.sqrt(len(loss)) if len(loss) > 1 else 0.0
    return Perplexity(found, error, len(tokens), len(loss), len(cut), time.perf_counter() - begun)


def window_losses(llm: LLM, tokens: Sequence[int], first: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """-log p of the tokens of a window from the one of index `first` on."""
    sequence = llm.model.sequence()
    out = []
    try:
        for begin in range(0, len(tokens) - 1, _ROWS):
            piece = tokens[begin : min(begin + _ROWS, len(tokens) - 1)]
            wanted = max(0, min(len(piece), begin + len(piece) - (first - 1)))
            logits = llm.model.step([(piece, sequence, wanted)]).astype(np.float64)
            if wanted:
                next_ = np.array(tokens[begin + len(piece) - wanted + 1 : begin + len(piece) + 1])
                high = logits.max(1)
                total = high + np.log(np.exp(logits - high[:, None]).sum(1))
                out.append(total - logits[np.arange(wanted), next_])
    finally:
        sequence.close()
    return np.concatenate(out)
