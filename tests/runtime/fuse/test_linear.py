"""Matrix products with constant weights take in what follows them, with the numbers of onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_spelling import Spelling, check

import minnow


def weights(s: Spelling, *shape: int) -> str:
    return s.constant(s.rng.standard_normal(shape) / 20)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Identity"])
@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"), [(1, 64, 48), (1, 515, 203), (1, 1, 5), (1, 3001, 70), (37, 90, 131), (30, 2500, 96)]
)
def test_a_residual_is_added_while_the_product_is_written(
    rows: int, inputs: int, outputs: int, activation: str, threads: int, tmp_path: Path
) -> None:
    def spelled(s: Spelling) -> str:
        product = s.MatMul(s.input(rows, inputs), weights(s, inputs, outputs))
        residual = s.Neg(s.input(rows, outputs))
        return getattr(s, activation)(s.Add(residual, s.Add(product, weights(s, outputs))))

    assert not check(spelled, str(tmp_path), threads) & {"Add", activation} - {"Identity"}


def test_what_has_another_shape_is_no_residual(tmp_path: Path) -> None:
    def spelled(s: Spelling) -> str:
        product = s.MatMul(s.input(6, 20), weights(s, 20, 30))
        return s.Add(s.Neg(s.input(1, 30)), product)

    assert "Sub" in check(spelled, str(tmp_path), 1)


def test_a_product_with_two_readers_is_kept(tmp_path: Path) -> None:
    def spelled(s: Spelling) -> str:
        product = s.MatMul(s.input(6, 20), weights(s, 20, 30))
        return s.Mul(s.Add(product, s.Neg(s.input(6, 30))), product)

    assert "Fused" in check(spelled, str(tmp_path), 1)


@pytest.mark.parametrize("outputs", [33, 1701])
def test_not_a_number_passes_through_one_row(outputs: int, tmp_path: Path) -> None:
    def spelled(s: Spelling) -> str:
        x = s.input(1, 40 if outputs < 100 else 141)
        s.inputs[x][0, 3] = np.nan
        return s.Relu(s.MatMul(x, weights(s, s.inputs[x].shape[1], outputs)))

    check(spelled, str(tmp_path), 1)


@pytest.mark.parametrize(("inputs", "outputs"), [(515, 203), (129, 1999), (100, 3000), (4099, 1201)])
def test_one_row_takes_weights_as_they_are_stored(inputs: int, outputs: int, tmp_path: Path) -> None:
    """More rows want them packed; neither harms the other, nor what the file holds."""
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((inputs, outputs)) / inputs**0.5).astype(np.float32)
    bias = rng.standard_normal(outputs).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", inputs])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", outputs])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "b")],
    )
    source, path = tmp_path / "m.onnx", tmp_path / "m.mnn"
    source.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    minnow.convert(source, output=path, verify=False)
    x = rng.standard_normal((7, inputs)).astype(np.float32)
    expected = x.astype(np.float64) @ w + bias
    session = minnow.load(path, threads=2)
    for rows in (1, 7, 1, 2, 1):
        np.testing.assert_allclose(session.run({"x": x[:rows]})["y"], expected[:rows], rtol=1e-4, atol=1e-5)
    stored = inputs >= 128 and 256 << 10 <= w.nbytes <= 16 << 20
    assert (session.profile({"x": x[:1]}, 1)[0]["scheme"] == "gemv_stored") == stored
