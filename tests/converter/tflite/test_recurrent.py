"""Recurrent operators against LiteRT's own kernels, several runs in a row: their states are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_float import Row, compare, f, state, weight
from tflite_one import Tensor

NONE, RELU, RELU6, TANH = 0, 1, 3, 4
T, N, X, H, P = 5, 2, 3, 7, 4


def _lstm(
    rng: Any, cifg: bool = False, peep: bool = False, project: bool = False, norm: bool = False, bias: bool = True
) -> list[Tensor | None]:
    """Operands 1 to 17, and the coefficients of the normalization."""
    outputs = P if project else H
    gates = [None if cifg and i == 0 else i for i in range(4)]
    rows: list[Tensor | None] = [None if g is None else weight(rng, H, X) for g in gates]
    rows += [None if g is None else weight(rng, H, outputs) for g in gates]
    rows += [weight(rng, H) if peep and g is not None else None for g in (gates[0], 1, 3)]
    rows += [None if g is None else weight(rng, H) for g in gates]
    rows += [weight(rng, P, H), weight(rng, P)] if project else [None, None]
    return [*rows, *([None if g is None or not norm else weight(rng, H) for g in gates])]


def _states(project: bool = False, n: int = N) -> list[Tensor]:
    return [state(n, P if project else H), state(n, H)]


def layers() -> Iterator[Row]:
    rng = np.random.default_rng(5)
    for kinds in (
        "", "cell_clip", "cifg", "peep", "project", "peep project", "norm", "cifg peep project norm", "relu",
    ):  # fmt: skip
        words = kinds.split()
        flags = {w: True for w in words if w not in ("cell_clip", "relu")}
        for major in (False, True):
            w = _lstm(rng, **flags)
            x = f(T, N, X) if major else f(N, T, X)
            size = P if "project" in words else H
            y = Tensor((T, N, size) if major else (N, T, size))
            o = {"time_major": major, "fused_activation_function": RELU if "relu" in words else TANH}
            o |= {"cell_clip": 0.4} if "cell_clip" in words else {}
            o |= {"proj_clip": 0.3} if "project" in words else {}
            operands = [x, *w[:17], *_states("project" in words), *w[17:]]
            kind = "UnidirectionalSequenceLSTMOptions"
            yield f"{kinds} {major}", "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], kind, o
    for kinds in ("", "peep project"):
        flags = dict.fromkeys(kinds.split(), True)
        w = _lstm(rng, **flags)
        operands = [f(N, X), *w[:17], *_states("project" in flags)]
        o = {"fused_activation_function": TANH}
        yield kinds, "LSTM", operands, [Tensor((N, P if flags else H))], "LSTMOptions", o
    for merge in (True, False):
        for major in (True, False):
            forward, backward = _lstm(rng), _lstm(rng)
            # LiteRT finds the states of the second sequence in the wrong place where it merges, batch first.
            n = 1 if merge and not major else N
            operands = [f(*((T, n) if major else (n, T)), X), *forward[:17], *backward[:17], *_states(n=n),
                        *_states(n=n), *[None] * 9]  # fmt: skip
            o = {"time_major": major, "merge_outputs": merge, "fused_activation_function": TANH}
            lead = (T, n) if major else (n, T)
            outs = [Tensor((*lead, 2 * H))] if merge else [Tensor((*lead, H)), Tensor((*lead, H))]
            kind = "BidirectionalSequenceLSTMOptions"
            yield f"{merge}{major}", "BIDIRECTIONAL_SEQUENCE_LSTM", operands, outs, kind, o
    for major in (True, False):
        lead = (T, N) if major else (N, T)
        o = {"time_major": major, "fused_activation_function": TANH}
        operands = [f(*lead, X), weight(rng, H, X), weight(rng, H, H), weight(rng, H), state(N, H)]
        y = [Tensor((*lead, H))]
        yield str(major), "UNIDIRECTIONAL_SEQUENCE_RNN", operands, y, "SequenceRNNOptions", o
        two = [*operands, weight(rng, H, X), weight(rng, H, H), weight(rng, H), state(N, H), None, None, None]
        for merge in (True, False):
            outs = [Tensor((*lead, 2 * H))] if merge else [*y, Tensor((*lead, H))]
            kind = "BidirectionalSequenceRNNOptions"
            yield f"{merge}{major}", "BIDIRECTIONAL_SEQUENCE_RNN", two, outs, kind, {**o, "merge_outputs": merge}
    operands = [f(N, X), weight(rng, H, X), weight(rng, H, H), weight(rng, H), state(N, H)]
    yield "", "RNN", operands, [Tensor((N, H))], "RNNOptions", {"fused_activation_function": RELU}
    for rank in (1, 2):
        operands = [f(N, X), weight(rng, 6, X), weight(rng, 6, 5), weight(rng, 6 // rank), state(N, 30)]
        o = {"rank": rank, "fused_activation_function": NONE}
        yield f"rank{rank}", "SVDF", operands, [Tensor((N, 6 // rank))], "SVDFOptions", o


ROWS = list(layers())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("row", ROWS, ids=[f"{r[1]}-{r[0]}" if r[0] else r[1] for r in ROWS])
def test_equals_litert(row: Row, runs: int, tmp_path: Path) -> None:
    _, op, operands, results, kind, options = row
    compare(op, operands, results, kind, options, tmp_path, runs=runs, tolerance=2e-5)
