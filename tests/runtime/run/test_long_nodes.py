"""Limits hold within a node, too: a single one that takes minutes ends about when it is told to."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

import numpy as np
import pytest
from engine_oracle import f32, model_of

import minnow
from minnow.schema.errors import CancelledError, DeadlineError, ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

SECONDS = 0.3
LATE = 1.5  # on a machine that others use, too


def boxes(n):
    """None of them overlaps another, so each is compared with all before it."""
    corner = np.arange(n, dtype=np.float32)[None, :, None] * np.float32(2)
    return np.concatenate([corner, corner, corner + 1, corner + 1], axis=2)


def ones(*shape):
    return np.ones(shape, np.float32)


# Each takes minutes by itself on one thread. A name, the node, and what makes its inputs: together they are gigabytes,
# which no process should have that only collects tests.
LONG = {
    "MatMul": (lambda b, x, y: b.MatMul(x, y), lambda: [ones(6000, 20000), ones(20000, 6000)]),
    "Conv": (
        lambda b, x, w: b.Conv(x, w, strides=(1, 1), pads=(7, 7, 7, 7), dilations=(1, 1)),
        lambda: [ones(1, 512, 128, 128), ones(512, 512, 15, 15)],
    ),
    "Conv in one line": (
        lambda b, x, w: b.Conv(x, w, strides=(1,), pads=(0, 0), dilations=(1,)),
        lambda: [ones(1, 1, 2_000_000), ones(1, 1, 1_000_000)],
    ),
    "MaxPool in one line": (
        lambda b, x: b.MaxPool(x, kernel=(2_000_000,), strides=(1,), pads=(0, 0), dilations=(1,)),
        lambda: [ones(1, 1, 4_000_000)],
    ),
    "NonMaxSuppression": (
        lambda b, x, s: b.NonMaxSuppression(x, s, np.int64(10**9), np.float32(0.5), np.float32(0)),
        lambda: [boxes(1_000_000), ones(1, 1, 1_000_000)],
    ),
    "Unique": (lambda b, x: b.Unique(x, axis=0)[0], lambda: [ones(20_000, 5_000)]),
    "Det": (lambda b, x: b.Det(x), lambda: [np.eye(6_000, dtype=np.float32) + 1]),
    "LpPool": (
        lambda b, x: b.LpPool(x, kernel=(200_000,), strides=(1,), pads=(0, 0), dilations=(1,)),
        lambda: [ones(1, 1, 1_000_000)],
    ),
    "LRN": (lambda b, x: b.LRN(x, size=1 << 21), lambda: [ones(1, 1 << 20, 1, 1)]),
    "LRN in doubles": (
        lambda b, x: b.LRN(b.Cast(x, to=DType.F64), size=1 << 21),
        lambda: [ones(1, 1 << 20, 1, 1)],
    ),
    "RoiAlign of few regions": (
        lambda b, x, r: b.RoiAlign(x, r, np.array([0]), output_height=1 << 16, output_width=1, sampling_ratio=1 << 16),
        lambda: [ones(1, 1, 4, 4), ones(1, 4) * np.float32(3)],
    ),
    "TfIdf of few words": (
        lambda b, x: b.TfIdf(
            b.Cast(x, to=DType.I32),
            np.array([1, 1]),
            np.array([0, 0]),
            np.array([0]),
            shortest=2,
            longest=2,
            most_skipped=1 << 40,
            mode="TF",
        ),
        lambda: [ones(100_000)],
    ),
    "Conv of each channel": (
        lambda b, x, w: b.Conv(x, w, strides=(1,), pads=(0, 0), dilations=(1,), group=16),
        lambda: [ones(1, 16, 2_000_000), ones(16, 1, 1_000_000)],
    ),
    "Conv of each channel at borders": (
        lambda b, x, w: b.Conv(x, w, strides=(1,), pads=(700_000, 700_000), dilations=(1,), group=16),
        lambda: [ones(1, 16, 1_000_000), ones(16, 1, 1_000_000)],
    ),
    "DeformConv": (
        lambda b, x, w, o: b.DeformConv(x, w, o, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)),
        lambda: [ones(1, 256, 70, 70), ones(256, 256, 64, 64), np.zeros((1, 2 * 64 * 64, 7, 7), np.float32)],
    ),
    "ConvInteger": (
        lambda b, x, w: b.ConvInteger(
            b.Cast(x, to=DType.U8), b.Cast(w, to=DType.U8), strides=(1,), pads=(0, 0), dilations=(1,)
        ),
        lambda: [ones(1, 16, 2_000_000), ones(64, 16, 100_000)],
    ),
    "ConvInteger of each channel": (
        lambda b, x, w: b.ConvInteger(
            b.Cast(x, to=DType.U8), b.Cast(w, to=DType.U8), strides=(1,), pads=(0, 0), dilations=(1,), group=4
        ),
        lambda: [ones(1, 4, 4_000_000), ones(4, 1, 2_000_000)],
    ),
    "ConvInteger of each channel by known weights": (
        lambda b, x: b.ConvInteger(
            b.Cast(x, to=DType.U8),
            np.ones((4, 1, 2000, 3), np.uint8),
            strides=(1, 1),
            pads=(0,) * 4,
            dilations=(1, 1),
            group=4,
        ),
        lambda: [ones(1, 4, 6000, 6000)],
    ),
    "LSTM": (
        lambda b, x, w, r: b.LSTM(x, w, r, hidden=512)[0],
        lambda: [ones(20_000, 4, 64), ones(1, 2048, 64), ones(1, 2048, 512)],
    ),
}


def session_of(make, inputs, threads):
    graph = Graph()
    params = [graph.add_param(f32(*a.shape)) for a in inputs]
    graph.outputs = [make(Builder(graph), *params)]
    return minnow.load(encode(model_of(graph)), threads=threads)


def lateness(session, inputs, cancel):
    """Seconds after the moment at which the run was to end."""
    feeds = {f"in{i}": a for i, a in enumerate(inputs)}
    timer = threading.Timer(SECONDS, session.cancel)
    start = time.monotonic()
    if cancel:
        timer.start()
    with pytest.raises(CancelledError if cancel else DeadlineError):
        session.run(feeds, timeout=100 if cancel else SECONDS)
    timer.cancel()
    return time.monotonic() - start - SECONDS


@pytest.mark.sampled(len(LONG))
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LONG)
def test_a_long_node_ends_in_time(name, threads):
    make, made = LONG[name]
    inputs = made()
    session = session_of(make, inputs, threads)
    for kind in ("timeout", "cancel"):
        # Where others use all processors, a single run says little.
        late = [lateness(session, inputs, kind == "cancel")]
        while late[-1] > LATE and len(late) < 3:
            late.append(lateness(session, inputs, kind == "cancel"))
        sys.stdout.write(f"{name}, {threads} threads, {kind}: {late}\n")
        assert min(late) < LATE


def test_half_done_results_are_not_kept():
    """What is folded into a constant while the time passes is computed again."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(f32(1))
    rows = np.random.default_rng(0).standard_normal((700, 700)).astype(np.float32)
    product = b.MatMul(b.MatMul(rows, rows), rows)
    graph.outputs = [b.Add(b.ReduceSum(product, np.array([0, 1])), x)]
    model = minnow.Model(encode(model_of(graph)))
    want = np.asarray(model.session(threads=1).run({"in0": ones(1)})["out0"])
    for k in range(12):
        try:
            got = model.session(threads=2, timeout=0.002 * (k + 1)).run({"in0": ones(1)})["out0"]
        except DeadlineError:
            continue
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(model.session(threads=2).run({"in0": ones(1)})["out0"], want)


BIG = 2**31 - 1
# Files of some hundred bytes whose attributes and dimensions ask for loops of 2^28 and more steps, and give nothing.
EMPTY = {
    "MaxPool": (lambda b, x: b.MaxPool(x, kernel=(1,), strides=(1,), pads=(BIG // 8, 0), dilations=(1,)), (0, 1, 5)),
    "AveragePool": (
        lambda b, x: b.AveragePool(x, kernel=(1,), strides=(1,), pads=(BIG // 8, 0), dilations=(1,)), (0, 1, 5),
    ),
    "ConvTranspose": (
        lambda b, x: b.ConvTranspose(
            x, ones(1, 1, 1), strides=(BIG // 8,), pads=(0, 0), dilations=(1,), output_padding=(0,)
        ), (1, 1, 1),
    ),
    "ConvTranspose of many taps": (
        lambda b, x: b.ConvTranspose(
            x, ones(1, 1, 1 << 19), strides=(1 << 20,), pads=(1 << 18, 1 << 18), dilations=(1,), output_padding=(0,)
        ), (1, 1, 1),
    ),
    "ConvTranspose of many groups": (
        lambda b, x: b.ConvTranspose(
            x, ones(4096, 2, 1), strides=(1 << 20,), pads=(0, 0), dilations=(1,), output_padding=(0,), group=2048
        ), (1, 4096, 1),
    ),
    "SplitToSequence": (lambda b, x: b.SequenceLength(b.SplitToSequence(x, axis=0)), (BIG, 0)),
    "ReduceSum": (lambda b, x: b.ReduceSum(x, np.array([1])), (BIG, 0)),
    "Unique": (lambda b, x: b.Unique(x, axis=0)[0], (BIG, 0)),
    "CumSum": (lambda b, x: b.CumSum(x, np.int64(0)), (BIG, 0)),
    "Softmax": (lambda b, x: b.Softmax(x, axis=0), (BIG, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_sizes_that_lead_to_nothing_take_no_time(name):
    make, shape = EMPTY[name]
    start = time.monotonic()
    with contextlib.suppress(UnsupportedError, DeadlineError, ModelError):
        session_of(make, [np.zeros(shape, np.float32)], 1).run({"in0": np.zeros(shape, np.float32)}, timeout=1)
    assert time.monotonic() - start < 1 + LATE
