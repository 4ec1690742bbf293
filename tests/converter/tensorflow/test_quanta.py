"""Quanta of TensorFlow's three modes, of all types and ranges, beside TensorFlow itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorflow_oracle import run

import minnow
from minnow.schema.errors import ModelError

tf = pytest.importorskip("tensorflow")

Array = np.ndarray[Any, Any]

TYPES = {"quint8": np.uint8, "qint8": np.int8, "quint16": np.uint16, "qint16": np.int16, "qint32": np.int32}
RANGES = [(0.0, 6.0), (-1.0, 1.0), (-3.7, 2.1), (0.5, 0.5), (0.0, 0.0), (1.3, 7.9), (-9.1, -2.2), (-1e-3, 1e4),
          (-5.0, 0.0), (0.1, 255.3), (-0.0137, 0.0211), (-2.0, -2.0)]  # fmt: skip
MODES = ["MIN_COMBINED", "MIN_FIRST", "SCALED"]


def every(kind: str) -> Array:
    """All quanta of a type, or of 32 bits some, whose greatest would not be a whole number in float."""
    info = np.iinfo(TYPES[kind])
    some = [info.min, info.min + 1, -1000003, -1, 0, 1, 5, (1 << 24) + 1, 1 << 30, info.max - 1000]
    return np.array(some if info.bits == 32 else np.arange(info.min, info.max + 1), TYPES[kind])


def both(graph: Any, results: list[Any], feed: dict[str, Array], folder: Path) -> list[tuple[Array, Array]]:
    """What the engine and TensorFlow give."""
    with tf.compat.v1.Session(graph=graph) as session:
        wanted = session.run(results, {f"{k}:0": v for k, v in feed.items()})
    (folder / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    return list(zip(run(folder / "graph.pb", [r.name for r in results], feed, 2), wanted, strict=True))


WORKER = """
import sys, numpy, tensorflow
graph = tensorflow.compat.v1.GraphDef.FromString(open("graph.pb", "rb").read())
with tensorflow.Graph().as_default() as made:
    tensorflow.import_graph_def(graph, name="")
    with tensorflow.compat.v1.Session(graph=made) as session:
        feed = {f"{k}:0": v for k, v in numpy.load("feed.npz").items()}
        numpy.savez("results.npz", *session.run(open("names").read().split(), feed))
"""


def exactly(graph: Any, results: list[Any], feed: dict[str, Array], folder: Path) -> list[tuple[Array, Array]]:
    """The same with TensorFlow's own kernels, in a process without those of oneDNN, which round otherwise."""
    (folder / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    names = [r.name for r in results]
    (folder / "names").write_text("\n".join(names))
    np.savez(folder / "feed.npz", **feed)
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    subprocess.run([sys.executable, "-c", WORKER], cwd=folder, env=environment, check=True, timeout=300)
    wanted = np.load(folder / "results.npz")
    found = run(folder / "graph.pb", names, feed, 2)
    return [(got, wanted[f"arr_{i}"]) for i, got in enumerate(found)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", pytest.param("SCALED", marks=pytest.mark.slow)])
@pytest.mark.parametrize("held", [True, False])
def test_dequantize(mode: str, held: bool, tmp_path: Path) -> None:
    """Within a float's rounding of the greatest number."""
    graph, results, feed = tf.Graph(), [], {}
    with graph.as_default():
        for kind in TYPES:
            if held:
                quanta = tf.constant(every(kind))
            else:
                feed[kind] = every(kind)
                quanta = tf.compat.v1.placeholder(TYPES[kind], feed[kind].shape, kind)
            x = tf.bitcast(quanta, getattr(tf, kind))
            results += [
                tf.raw_ops.Dequantize(input=x, min_range=low, max_range=high, mode=mode, narrow_range=narrow)
                for low, high in [*RANGES, (2.0, 1.0)]
                for narrow in (False, True)
            ]
    for got, wanted in (exactly if mode == "SCALED" else both)(graph, results, feed, tmp_path):
        np.testing.assert_allclose(got, wanted, 0, 2 * np.spacing(np.abs(wanted).max()))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_quantize(mode: str, tmp_path: Path) -> None:
    """The quanta, and the range that they have."""
    parts = [np.linspace(-12, 12, 2001), np.linspace(-0.03, 0.03, 499), np.linspace(-1, 1, 511), [1e9, -1e9, 0, -0.0]]
    feed = {"x": np.concatenate(parts).astype(np.float32)}
    graph, results = tf.Graph(), []
    with graph.as_default():
        x = tf.compat.v1.placeholder(np.float32, feed["x"].shape, "x")
        for kind in TYPES:
            for low, high in RANGES:
                for more in ({}, {"narrow_range": True}, {"ensure_minimum_range": 0.5}):
                    # A range of nothing is one of denormals in a narrow range, which TensorFlow takes for zero. Beyond
                    # 32 bits it goes round.
                    if ("narrow_range" in more and high <= 0) or (kind == "qint32" and mode != "MIN_FIRST"):
                        continue
                    made = tf.raw_ops.QuantizeV2(input=x, min_range=low, max_range=high, T=getattr(tf, kind), mode=mode,
                                                 **more)  # fmt: skip
                    results += [tf.bitcast(made.output, TYPES[kind]), made.output_min, made.output_max]
    pairs = exactly(graph, results, feed, tmp_path)
    for i in range(0, len(pairs), 3):
        got, wanted = (v.astype(np.int64) for v in pairs[i])
        assert np.abs(got - wanted).max() <= 1, results[i]
        assert (got != wanted).sum() <= 2, results[i]  # beside a half, as the processor multiplies
        for got, wanted in pairs[i + 1 : i + 3]:
            np.testing.assert_allclose(got, wanted, 1e-6)


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "SCALED"])
def test_along_an_axis(mode: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    feed = {"q": rng.integers(-128, 128, (2, 3, 4)).astype(np.int8), "x": rng.normal(size=(2, 3, 4)).astype(np.float32)}
    graph = tf.Graph()
    with graph.as_default():
        q = tf.compat.v1.placeholder(np.int8, (2, 3, 4), "q")
        x = tf.compat.v1.placeholder(np.float32, (2, 3, 4), "x")
        how = {"min_range": [-1.0, -2.0, 0.0], "max_range": [0.3, 3.0, 0.5], "mode": mode, "axis": 1}
        made = tf.raw_ops.QuantizeV2(input=x, T=tf.qint8, **how)
        y = tf.raw_ops.Dequantize(input=tf.bitcast(q, tf.qint8), **how)
        results = [y, tf.bitcast(made.output, tf.int8), made.output_min, made.output_max]
    for got, wanted in both(graph, results, feed, tmp_path):
        np.testing.assert_allclose(got, wanted, 1e-5)


def test_the_first_mode_has_one_range(tmp_path: Path) -> None:
    graph = tf.Graph()
    with graph.as_default():
        q = tf.bitcast(tf.compat.v1.placeholder(np.uint8, (2, 3), "q"), tf.quint8)
        tf.raw_ops.Dequantize(input=q, min_range=[0.0, 1.0], max_range=[1.0, 2.0], mode="MIN_FIRST", axis=0)
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(ModelError, match="MIN_FIRST takes one range"):
        minnow.convert(tmp_path / "graph.pb")


def test_a_network_whose_weights_are_quanta(tmp_path: Path) -> None:
    """A frozen detector's form: weights of 8 bits, and what makes numbers of them, in front of every layer."""
    rng = np.random.default_rng(0)
    graph = tf.Graph()

    def weights(*shape: int) -> Any:
        q = tf.constant(rng.integers(0, 256, shape).astype(np.uint8))
        low, high = tf.constant(np.float32(-0.31)), tf.constant(np.float32(0.27))
        return tf.raw_ops.Dequantize(input=tf.bitcast(q, tf.quint8), min_range=low, max_range=high, mode="MIN_FIRST")

    with graph.as_default():
        x = tf.compat.v1.placeholder(np.float32, (1, 12, 10, 3), "data")
        y = tf.nn.relu(tf.nn.conv2d(x, weights(3, 3, 3, 8), 2, "SAME") + weights(8))
        y = tf.nn.depthwise_conv2d(y, weights(3, 3, 8, 1), [1, 1, 1, 1], "SAME")
        y = tf.nn.softmax(tf.matmul(tf.reshape(y, [1, -1]), weights(240, 5)), name="prob")
        feed = rng.normal(size=x.shape).astype(np.float32)
        with tf.compat.v1.Session() as session:
            wanted = session.run(y, {x: feed})
    content = graph.as_graph_def()
    for node in content.node:  # constants of quanta, as such files have them, not bytes that become some
        if node.op == "Bitcast":
            (q,) = (n for n in content.node if n.name == node.input[0])
            node.op = "Const"
            del node.input[:]
            del node.attr["T"], node.attr["type"]
            node.attr["value"].CopyFrom(q.attr["value"])
            node.attr["value"].tensor.dtype = node.attr["dtype"].type = tf.quint8.as_datatype_enum
    (tmp_path / "graph.pb").write_bytes(content.SerializeToString())
    minnow.convert(tmp_path / "graph.pb")  # and is verified
    got = minnow.load(tmp_path / "graph.mnn").run({"data": feed})["prob"]
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-6)
