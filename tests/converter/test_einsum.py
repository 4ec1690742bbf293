"""Equations of Einsum as numpy computes them, and what TensorScatter writes as ONNX's reference does."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
from engine_oracle import f32, session_of
from onnx import helper
from onnx_oracle import OnnxNode, reference_runs

import minnow
from minnow.converter.decomposition.einsum import einsum
from minnow.errors import ModelError
from minnow.schema.ir import Graph
from minnow.schema.ops import Builder


def equations(seed: int, n: int) -> list[tuple[str, list[tuple[int, ...]]]]:
    """Equations that numpy takes, with shapes: repeated labels, scalars, ellipses, broadcast dimensions."""
    rng = random.Random(seed)
    found: list[tuple[str, list[tuple[int, ...]]]] = []
    while len(found) < n:
        sizes = {c: rng.choice([1, 2, 3, 4, 5]) for c in "abcd"}
        under = [rng.choice([1, 2, 3]) for _ in range(2)]
        ellipsis = rng.random() < 0.4
        terms, shapes = [], []
        for _ in range(rng.randint(1, 4)):
            labels = "".join(rng.choice("abcd") for _ in range(rng.randint(0, 3)))
            shape = [sizes[c] for c in labels]
            if ellipsis and rng.random() < 0.8:
                at = rng.randint(0, len(labels))
                hidden = [d if rng.random() < 0.7 else 1 for d in under[rng.randint(0, 2) :]]
                labels, shape = f"{labels[:at]}...{labels[at:]}", shape[:at] + hidden + shape[at:]
            terms.append(labels)
            shapes.append(tuple(shape))
        out = [c for c in "abcd" if any(c in t for t in terms) and rng.random() < 0.5]
        rng.shuffle(out)
        if any("..." in t for t in terms):
            out.insert(rng.randint(0, len(out)), "...")
        equation = ",".join(terms) + (f"->{''.join(out)}" if rng.random() < 0.8 else "")
        try:
            np.einsum(equation, *(np.zeros(s) for s in shapes))
        except ValueError:
            continue
        found.append((equation, shapes))
    return found


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize(("equation", "shapes"), [*equations(1, 80), ("ii->i", [(5, 5)]), ("iii->", [(3, 3, 3)])])
def test_einsum_is_numpys(equation, shapes, static):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    graph = Graph()
    dims: list[Any] = [s if static else tuple(f"d{i}_{k}" for k in range(len(s))) for i, s in enumerate(shapes)]
    operands = [graph.add_param(f32(*d)) for d in dims]
    graph.outputs = [einsum(Builder(graph), equation, operands)]
    got = session_of(graph).run({f"in{i}": a for i, a in enumerate(arrays)})["out0"]
    want = np.einsum(equation, *(a.astype(np.float64) for a in arrays))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ii->i", [(2, 3)], "cannot take the diagonal"),
        ("ij->ijj", [(2, 3)], "twice"),
        ("ij->ik", [(2, 3)], "no operand has"),
        ("ij,jk->ik", [(2, 3)], "has 2 terms"),
        ("ij->i", [(2, 3, 4)], "does not fit"),
    ],
)
def test_equations_that_make_no_sense_are_refused(equation, shapes, message):
    graph = Graph()
    with pytest.raises(ModelError, match=message):
        einsum(Builder(graph), equation, [graph.add_param(f32(*s)) for s in shapes])


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16, np.uint8])
@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize(("shape", "axis", "n", "write"), [
    ((2, 3, 7, 5), -2, 4, [1, 3]), ((2, 3, 7, 5), 2, 7, [0, 0]), ((3, 5), 1, 2, [2, 0, 3]), ((1, 4, 3), 1, 1, None),
    ((2, 4, 3), -1, 0, [1, 1]),
])  # fmt: skip
def test_tensor_scatter(tmp_path, dtype, mode, shape, axis, n, write):
    rng = np.random.default_rng(0)
    size = list(shape)
    size[axis] = n
    past, update = (rng.integers(0, 99, s).astype(dtype) for s in (shape, size))
    if mode == "circular" and write is not None:
        write = [w + 4 for w in write]
    operands = (past, update, *([] if write is None else [np.array(write)]))
    node = OnnxNode("TensorScatter", operands, {"axis": axis, "mode": mode}, opset=24)
    model, feed = node.model()
    for value in model.graph.output:
        value.CopyFrom(helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(past.dtype), shape))
    onnx.save(model, tmp_path / "model.onnx")
    minnow.convert(tmp_path / "model.onnx", output=tmp_path / "model.mnn", verify=False)
    (got,) = minnow.load(tmp_path / "model.mnn").run(feed).values()
    np.testing.assert_array_equal(got, reference_runs(node)[0])


def test_tensor_scatter_beyond_the_end_is_refused(tmp_path):
    past, update = np.zeros((1, 4, 2), np.float32), np.ones((1, 3, 2), np.float32)
    model, feed = OnnxNode("TensorScatter", (past, update, np.array([2])), opset=24).model()
    onnx.save(model, tmp_path / "model.onnx")
    minnow.convert(tmp_path / "model.onnx", output=tmp_path / "model.mnn", verify=False)
    with pytest.raises(minnow.errors.UsageError, match="outside"):
        minnow.load(tmp_path / "model.mnn").run(feed)
