"""The judge itself: what passes, what does not, and that nothing compared is no success."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import minnow
from minnow.runtime.verify.comparison import compare
from minnow.runtime.verify.verification import Verification

ONE = np.linspace(-1, 1, 101, dtype=np.float32)


def changed(index: int, value: float) -> np.ndarray:
    array = ONE.copy()
    array[index] = value
    return array


def test_equal_numbers_pass():
    result = compare("y", ONE, ONE)
    assert result.passed
    assert (result.max_abs, result.needed, result.scale) == (0, 0, 1)
    assert result.cosine == pytest.approx(1)


@pytest.mark.parametrize(("error", "passed"), [(5e-5, True), (2e-4, False)])
def test_the_error_counts_against_the_scale(error, passed):
    got = changed(50, error)
    for scale in (np.float32(1), np.float32(1000)):
        result = compare("y", got * scale, ONE * scale)
        assert result.passed is passed
        assert result.needed == pytest.approx(error, rel=1e-3)
        assert result.worst is not None
        assert result.worst[0] == (50,)


def test_the_needed_tolerance_is_the_one_that_passes():
    got = changed(3, 0.5)
    needed = compare("y", got, ONE).needed
    assert compare("y", got, ONE, needed).passed
    assert not compare("y", got, ONE, needed * 0.999).passed


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_must_be_at_the_same_places(value):
    assert not compare("y", changed(0, value), ONE).passed
    assert not compare("y", ONE, changed(0, value)).passed
    assert compare("y", changed(0, value), changed(0, value)).passed


@pytest.mark.parametrize("got", [None, ONE[:5], ONE.astype(np.float64), ONE.reshape(101, 1)])
def test_another_shape_or_type_fails(got):
    assert not compare("y", got, ONE).passed


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_integers_must_be_equal(dtype):
    want = np.array([0, 1, 1], dtype)
    assert compare("y", want, want).passed
    assert not compare("y", want[::-1].copy(), want).passed


def test_float16_has_more_room():
    want = ONE.astype(np.float16)
    assert compare("y", changed(50, 5e-3).astype(np.float16), want).passed
    assert not compare("y", changed(50, 2e-2).astype(np.float16), want).passed


def test_rounding_near_one_passes_whatever_the_scale_and_says_so():
    tiny = np.full(3, 1e-6, np.float32)
    result = compare("y", tiny * np.float32(1.1), tiny)
    assert result.passed
    assert "rounding error of float32" in str(result)
    assert "hardly test it" in str(result)
    assert not compare("y", tiny * 2, tiny).passed


def test_empty_outputs_pass():
    assert compare("y", np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).passed


def test_comparing_nothing_is_a_failure():
    assert not Verification("a", "b", "nobody").passed


def save(path, nodes, inputs, outputs):
    values = [[helper.make_tensor_value_info(n, t, s) for n, t, s in group] for group in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *values)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_symbolic_models_run_at_two_sizes_at_least(tmp_path):
    source = save(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [("x", TensorProto.FLOAT, ["N", "C"])],
        [("y", TensorProto.FLOAT, ["N", "C"])],
    )
    report = minnow.convert(source, output=tmp_path / "m.mnn")
    assert report.verification is not None
    assert len({c.shapes["x"] for c in report.verification.cases}) >= 2


def test_values_that_choose_a_branch_are_tried(tmp_path):
    then = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["t"])], "t", [], [helper.make_tensor_value_info("t", 1, [3])]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["e"])], "e", [], [helper.make_tensor_value_info("e", 1, [3])]
    )
    source = save(
        tmp_path / "m.onnx",
        [
            helper.make_node("Constant", [], ["k"], value_int=16000),
            helper.make_node("Equal", ["rate", "k"], ["is"]),
            helper.make_node("If", ["is"], ["y"], then_branch=then, else_branch=other),
        ],
        [("x", TensorProto.FLOAT, [3]), ("rate", TensorProto.INT64, [])],
        [("y", TensorProto.FLOAT, [3])],
    )
    from minnow.converter import read
    from minnow.runtime.verify.samples import candidates

    first = next(candidates(read(source), [0]))
    assert first.inputs["rate"] == 16000


def test_another_model_is_told_apart(tmp_path):
    shapes = [("x", TensorProto.FLOAT, [3])], [("y", TensorProto.FLOAT, [3])]
    one = save(tmp_path / "one.onnx", [helper.make_node("Sigmoid", ["x"], ["y"])], *shapes)
    two = save(tmp_path / "two.onnx", [helper.make_node("Tanh", ["x"], ["y"])], *shapes)
    minnow.convert(one, output=tmp_path / "m.mnn")
    result = minnow.verify(two, tmp_path / "m.mnn")
    assert not result.passed
    assert "FAIL" in str(result)


def rounded(path, factor: float):
    """A product whose 90,000 results are rounded to steps of 1 / 100."""
    w = np.random.default_rng(0).standard_normal((512, 300)).astype(np.float32) / 12 * np.float32(factor)
    scale = np.float32(0.01)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    weights = [
        onnx.numpy_helper.from_array(np.asarray(a), n)
        for n, a in (("w", w), ("s", scale), ("z", np.zeros((), np.int8)))
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [300, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [300, 300])], weights,
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_steps_that_the_last_bit_decides_are_no_failure(tmp_path):
    report = minnow.convert(rounded(tmp_path / "m.onnx", 1), output=tmp_path / "m.mnn")
    assert report.verification is not None
    assert report.verification.passed


def test_more_than_steps_is_a_failure_behind_a_rounding(tmp_path):
    minnow.convert(rounded(tmp_path / "other.onnx", 1.1), output=tmp_path / "m.mnn", verify=False)
    result = minnow.verify(rounded(tmp_path / "m.onnx", 1), tmp_path / "m.mnn")
    assert not result.passed
