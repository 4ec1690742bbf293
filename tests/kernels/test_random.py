"""Random numbers: distributions, seeds, sessions, and that nobody computes them ahead or takes two for one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import minnow
from minnow.schema.ops.random import philox

Array = np.ndarray[Any, Any]
N = 40_000


def session_of(folder: Path, nodes: list[Any], inputs: dict[str, Any], outputs: list[str], **more: Any) -> Any:
    """Sessions of the model of these nodes; `inputs` are arrays, whose types count."""
    graph = helper.make_graph(
        nodes,
        "random",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs],
        **more,
    )
    for value in graph.output:
        value.ClearField("type")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    onnx.save(model, folder / "model.onnx")
    minnow.convert(folder / "model.onnx", output=folder / "model.mnn", verify=False)
    return lambda: minnow.load(folder / "model.mnn", threads=2)


def drawn(folder: Path, op: str, **attrs: Any) -> Array:
    node = helper.make_node(op, [], ["y"], shape=[N], **attrs)
    return session_of(folder, [node], {}, ["y"])().run({})["y"]


def kolmogorov_smirnov(sample: Array, distribution: Callable[[Array], Array]) -> float:
    """The statistic, in units in which 1.95 is exceeded once in a thousand."""
    x = np.sort(sample.astype(np.float64))
    expected = distribution(x)
    n = len(x)
    steps = np.arange(n + 1) / n
    return float(max(np.max(steps[1:] - expected), np.max(expected - steps[:-1])) * sqrt(n))


def test_the_generator_gives_the_published_numbers():
    # Known answers of its authors: counter and key of zeros, and of ones.
    assert [hex(w) for w in philox(np.zeros(1, np.uint64), 0, 0)[0]] == [
        "0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8",
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_uniform(tmp_path, dtype):
    y = drawn(tmp_path, "RandomUniform", low=-2.0, high=6.0, seed=3.0, dtype=dtype)
    assert y.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    assert y.min() >= -2
    assert y.max() < 6 or y.dtype == np.float16  # which rounds what is nearly 6
    y = y.astype(np.float64)
    assert abs(y.mean() - 2) < 5 * (8 / sqrt(12)) / sqrt(N)
    assert abs(y.var() / (64 / 12) - 1) < 0.02
    assert kolmogorov_smirnov(y, lambda x: (x + 2) / 8) < (1.95 if dtype != TensorProto.FLOAT16 else 3)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_normal(tmp_path, dtype):
    y = drawn(tmp_path, "RandomNormal", mean=1.0, scale=3.0, seed=4.0, dtype=dtype)
    assert y.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    z = (y.astype(np.float64) - 1) / 3
    assert abs(z.mean()) < 5 / sqrt(N)
    assert abs(z.var() - 1) < 0.03
    assert abs((z**3).mean()) < 0.06
    assert abs((z**4).mean() - 3) < 0.2
    assert kolmogorov_smirnov(z, np.vectorize(lambda x: (1 + erf(x / sqrt(2))) / 2)) < 1.95
    # Neighbors, which come from one block, have nothing to do with one another.
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 5 / sqrt(N)


def test_uniform_neighbors_are_independent(tmp_path):
    y = drawn(tmp_path, "RandomUniform", seed=5.0)
    for lag in (1, 2, 3, 256):
        assert abs(np.corrcoef(y[:-lag], y[lag:])[0, 1]) < 5 / sqrt(N)


def test_a_session_goes_on_and_a_new_one_begins_anew(tmp_path):
    for seed in ({}, {"seed": 11.0}):
        node = helper.make_node("RandomUniform", [], ["y"], shape=[3, 5], **seed)
        open_session = session_of(tmp_path, [node], {}, ["y"])
        first, second = open_session(), open_session()
        runs = [first.run({})["y"].copy() for _ in range(4)]
        assert all(not np.array_equal(a, b) for a, b in pairwise(runs))
        for run in runs:
            np.testing.assert_array_equal(second.run({})["y"], run)


def test_equal_nodes_are_different_numbers(tmp_path):
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["a"]),
        helper.make_node("RandomNormalLike", ["x"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ]
    x = np.zeros((7, 3), np.float32)
    assert np.all(session_of(tmp_path, nodes, {"x": x}, ["y"])().run({"x": x})["y"] != 0)


def test_equal_seeds_are_equal_numbers_that_each_go_on(tmp_path):
    nodes = [helper.make_node("RandomUniform", [], [name], shape=[9], seed=2.0) for name in ("a", "b")]
    session = session_of(tmp_path, nodes, {}, ["a", "b"])()
    first, second = session.run({}), session.run({})
    np.testing.assert_array_equal(first["a"], first["b"])
    assert not np.array_equal(first["a"], second["a"])


def test_shapes_and_types_follow_the_input(tmp_path):
    nodes = [
        helper.make_node("RandomUniformLike", ["x"], ["a"], seed=1.0),
        helper.make_node("RandomNormalLike", ["x"], ["b"], seed=1.0, dtype=TensorProto.DOUBLE),
    ]
    x = np.zeros((2, 0, 3), np.float16)
    out = session_of(tmp_path, nodes, {"x": x}, ["a", "b"])().run({"x": x})
    assert (out["a"].dtype, out["a"].shape) == (np.float16, (2, 0, 3))
    assert (out["b"].dtype, out["b"].shape) == (np.float64, (2, 0, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_bernoulli(tmp_path, dtype):
    p = np.array([0, 1e-3, 0.25, 0.9, 1], dtype)
    x = np.repeat(p, N)
    node = helper.make_node("Bernoulli", ["x"], ["y"], seed=1.0)
    y = session_of(tmp_path, [node], {"x": x}, ["y"])().run({"x": x})["y"]
    assert y.dtype == dtype
    assert set(np.unique(y)) == {0, 1}
    means = y.reshape(5, N).mean(1, dtype=np.float64)
    assert means[0] == 0
    assert means[4] == 1
    assert np.all(np.abs(means - p) <= 5 * np.sqrt(p * (1 - p).astype(np.float64) / N))


@pytest.mark.parametrize("dtype", [TensorProto.INT32, TensorProto.INT64])
def test_multinomial(tmp_path, dtype):
    p = np.array([[0.1, 0.2, 0.3, 0.4], [0.97, 0.01, 0.0, 0.02]])
    with np.errstate(divide="ignore"):
        x = (np.log(p) + 3).astype(np.float32)
    node = helper.make_node("Multinomial", ["x"], ["y"], sample_size=N, dtype=dtype)
    y = session_of(tmp_path, [node], {"x": x}, ["y"])().run({"x": x})["y"]
    assert y.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    for row, chances in zip(y, p, strict=True):
        shares = np.bincount(row, minlength=4) / N
        assert np.all(np.abs(shares - chances) <= 5 * np.sqrt(chances * (1 - chances) / N))


def test_dropout_while_training(tmp_path):
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"], seed=3)
    x = np.random.default_rng(0).standard_normal(N).astype(np.float32)
    feed = {"x": x, "ratio": np.float32(0.3), "training": np.array(True)}
    session = session_of(tmp_path, [node], {k: np.asarray(v) for k, v in feed.items()}, ["y", "mask"])()
    out = session.run(feed)
    assert abs(out["mask"].mean() - 0.7) < 5 * sqrt(0.21 / N)
    np.testing.assert_allclose(out["y"], np.where(out["mask"], x / 0.7, 0), rtol=1e-6)
    assert not np.array_equal(session.run(feed)["mask"], out["mask"])
    out = session.run({**feed, "training": np.array(False)})
    np.testing.assert_array_equal(out["y"], x)
    assert out["mask"].all()


def test_in_a_loop_each_round_has_its_own(tmp_path):
    body = helper.make_graph(
        [
            helper.make_node("RandomUniform", [], ["r"], shape=[4], seed=1.0),
            helper.make_node("Identity", ["on"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("r", TensorProto.FLOAT, [4]),
        ],
    )
    node = helper.make_node("Loop", ["n", ""], ["y"], body=body)
    y = session_of(tmp_path, [node], {"n": np.array(5)}, ["y"])().run({"n": np.array(5)})["y"]
    assert y.shape == (5, 4)
    assert len(np.unique(y)) == 20


def test_verification_compares_types_of_random_outputs_only(tmp_path):
    nodes = [
        helper.make_node("RandomUniformLike", ["x"], ["noise"]),
        helper.make_node("Add", ["x", "noise"], ["noisy"]),
        helper.make_node("Neg", ["x"], ["plain"]),
    ]
    session_of(tmp_path, nodes, {"x": np.zeros((3, 4), np.float32)}, ["noisy", "plain"])
    outcome = minnow.verify(tmp_path / "model.onnx", tmp_path / "model.mnn")
    assert outcome.passed
    assert [o.random for o in outcome.cases[0].outputs] == [True, False]
    assert "random, so only type and rank were compared" in str(outcome)
