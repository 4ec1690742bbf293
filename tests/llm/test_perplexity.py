"""Perplexity, against its definition."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from fake_llm import fake_llm

from minnow.llm.perplexity import perplexity, text_of, windows
from minnow.schema.errors import FormatError, UsageError


@pytest.mark.parametrize(
    ("tokens", "window", "stride", "expected"),
    [
        (10, 4, 4, [(0, 4, 1), (4, 8, 5), (8, 10, 9)]),
        (9, 4, 4, [(0, 4, 1), (4, 8, 5)]),
        (7, 4, 2, [(0, 4, 1), (2, 6, 4), (4, 7, 6)]),
        (6, 4, 2, [(0, 4, 1), (2, 6, 4)]),
        (3, 8, 8, [(0, 3, 1)]),
        (1, 4, 4, []),
        (0, 4, 4, []),
    ],
)
def test_windows(tokens: int, window: int, stride: int, expected: list[tuple[int, int, int]]) -> None:
    assert list(windows(tokens, window, stride)) == expected


@pytest.mark.parametrize("window", [2, 5, 50, 129, 130, 300])
@pytest.mark.parametrize("overlap", [0, 1, 2])
def test_the_mean_of_all_losses(window: int, overlap: int) -> None:
    llm = fake_llm()
    text = "".join("the quick brown fox "[i * 7 % 20] for i in range(280))
    stride = max(window - overlap, 1)
    found = perplexity(llm, text, window=window, stride=stride)
    ids, losses = list(text.encode()), {}
    for begin in range(0, len(ids), stride):
        for place in range(begin + 1, min(begin + window, len(ids))):
            if place not in losses:
                x = llm.model.logits(ids[begin:place]).astype(np.float64)
                losses[place] = np.log(np.exp(x - x.max()).sum()) + x.max() - x[ids[place]]
    assert found.predicted == len(losses)
    assert found.perplexity == pytest.approx(math.exp(np.mean(list(losses.values()))), rel=1e-9)
    assert found.error == pytest.approx(
        found.perplexity * np.std(list(losses.values()), ddof=1) / math.sqrt(len(losses)), rel=1e-9
    )
    assert not llm.model.sequences


def test_limits(tmp_path: Path) -> None:
    assert perplexity(fake_llm(), "abcdefgh", window=8, limit=4).tokens == 4
    with pytest.raises(UsageError, match="less than two"):
        perplexity(fake_llm(), "a", window=8)
    with pytest.raises(UsageError, match="context is 400"):
        perplexity(fake_llm(), "abc", window=401)
    with pytest.raises(FormatError, match="cannot read"):
        text_of(str(tmp_path / "missing"))
    (tmp_path / "latin").write_bytes(b"\xe4")
    with pytest.raises(FormatError, match="UTF-8"):
        text_of(str(tmp_path / "latin"))
