"""Graphs of Vars: control flow, files, ops given as JSON, random numbers, sessions that are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minnow
from minnow import expr
from minnow.errors import FormatError, MinnowError, UnsupportedError, UsageError
from minnow.expr import Var
from minnow.expr import evaluation as evaluation_module
from minnow.expr.setting import SETTINGS


@pytest.fixture
def lazy() -> Iterator[None]:
    expr.lazy_eval(True)
    yield
    expr.lazy_eval(False)


def small_model() -> tuple[Var, Var, Var]:
    x = expr.placeholder([2, 3])
    x.name = "x"
    w = expr.const(np.arange(6.0), [3, 2])
    w.fix_as_trainable()
    w.name = "w"
    y = expr.relu(expr.matmul(x, w) - 1)
    y.name = "y"
    return x, w, y


def test_a_saved_graph_runs_and_comes_back(lazy: None, tmp_path: Path) -> None:
    x, _, y = small_model()
    path = tmp_path / "model.mnn"
    expr.save([y], str(path))
    value = np.array([[1, -2, 3], [0.5, 1, -1]], np.float32)
    x.write(value)
    want = y.read()
    session = minnow.load(path)
    assert [i.name for i in session.inputs] == ["x"]
    np.testing.assert_allclose(session.run({"x": value})["y"], want, 1e-6)

    table = expr.load_as_dict(str(path))
    inputs, outputs = expr.get_inputs_and_outputs(table)
    assert list(inputs) == ["x"]
    assert list(outputs) == ["y"]
    inputs["x"].write(value)
    np.testing.assert_allclose(outputs["y"].read(), want, 1e-6)
    inputs["x"].write(-value)
    np.testing.assert_allclose(outputs["y"].read(), np.maximum(-value @ np.arange(6.0).reshape(3, 2) - 1, 0), 1e-6)
    assert [v.name for v in expr.load_as_list(str(path))] == ["y"]


def test_constants_are_saved(tmp_path: Path) -> None:
    a, b = Var([1.5, 2.5]), Var([[1, 2], [3, 4]])
    a.name, b.name = "a", "b"
    expr.save([a, b], str(tmp_path / "c.mnn"))
    found = expr.load_as_dict(str(tmp_path / "c.mnn"))
    np.testing.assert_array_equal(found["a"].read(), [1.5, 2.5])
    np.testing.assert_array_equal(found["b"].read(), [[1, 2], [3, 4]])
    assert found["b"].dtype == expr.int
    with pytest.raises(UsageError, match="nothing to save"):
        expr.save([], str(tmp_path / "c.mnn"))


def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    (tmp_path / "bad.mnn").write_bytes(b"not a model")
    for name in ("bad.mnn", "none.mnn"):
        for function in (expr.load_as_dict, expr.load_as_list):
            with pytest.raises(FormatError, match=name):
                function(str(tmp_path / name))


@pytest.mark.parametrize("is_lazy", [False, True])
def test_branches(is_lazy: bool) -> None:
    expr.lazy_eval(is_lazy)
    try:
        x, other = expr.placeholder([3]), expr.placeholder([3])
        x.write([1, 2, 3])
        other.write([5, 5, 5])

        def made() -> Any:
            return expr.cond(expr.reduce_sum(x) > 3, lambda: x * 2 + other, lambda: [other - x][0])

        y = made()
        np.testing.assert_array_equal(y.read(), [7, 9, 11])
        x.write([-1, 0, 1])
        y = y if is_lazy else made()
        np.testing.assert_array_equal(y.read(), [6, 5, 4])
        a, b = expr.cond(x[0] > 5, lambda: [x, other], lambda: [other, x])
        np.testing.assert_array_equal(a.read(), [5, 5, 5])
        np.testing.assert_array_equal(b.read(), [-1, 0, 1])
        with pytest.raises(UsageError, match="single number"):
            expr.cond(x, lambda: x, lambda: x)
    finally:
        expr.lazy_eval(False)


@pytest.mark.parametrize("is_lazy", [False, True])
def test_loops(is_lazy: bool) -> None:
    expr.lazy_eval(is_lazy)
    try:
        x, step = expr.placeholder([2]), expr.placeholder([2])
        x.write([1, 2])
        step.write([1, 3])

        def made() -> list[Var]:
            return expr.while_loop(lambda v, n: n < 5, lambda v, n: [v + step, n + 1], [x, expr.scalar(0)])

        v, n = made()
        np.testing.assert_array_equal(v.read(), [6, 17])
        assert int(n) == 5
        step.write([0, 1])
        v, n = (v, n) if is_lazy else made()
        np.testing.assert_array_equal(v.read(), [1, 7])
        (unchanged,) = expr.while_loop(lambda v: expr.reduce_sum(v) > 100, lambda v: v * 2, [x])
        np.testing.assert_array_equal(unchanged.read(), [1, 2])
    finally:
        expr.lazy_eval(False)


def test_an_op_given_as_json(lazy: None) -> None:
    x = expr.placeholder([3])
    text = json.dumps({"type": "UnaryOp", "main_type": "UnaryOp", "main": {"opType": "ABS"}})
    (y,) = expr.jsonop([x], text, 1)
    x.write([-1, 2, -3])
    np.testing.assert_array_equal(y.read(), [1, 2, 3])
    assert x.name == ""
    for bad in ("{}", "[1]", "{", '{"type": "NoOp"}'):
        with pytest.raises(MinnowError):
            expr.jsonop([x], bad, 1)
    with pytest.raises(UnsupportedError):
        expr.jsonop([x], '{"type": "ImageProcess"}', 1)


def test_random_numbers() -> None:
    a, b, c = (expr.randomuniform([1000], seed0=s).read() for s in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    assert 0 <= a.min() < 0.05
    assert 0.95 < a.max() < 1
    wide = expr.randomuniform([1000], expr.int, 0, 10)
    assert wide.dtype == expr.int
    assert set(wide.read_as_tuple()) == set(range(10))


def test_a_random_value_stays_the_same_for_all_that_is_computed_of_it(lazy: None) -> None:
    x = expr.randomuniform([4])
    y = x + 1
    np.testing.assert_array_equal(y.read(), x.read() + 1)
    np.testing.assert_array_equal(x.read(), x.read())


def test_detections() -> None:
    anchors = np.array([[0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1.1], [0.2, 0.2, 0.1, 0.1]], np.float32)
    scores = np.array([[[0.1, 0.9], [0.1, 0.8], [0.2, 0.3]]], np.float32)
    encoded = np.zeros((1, 3, 4), np.float32)
    for regular in (False, True):
        boxes, classes, found, count = expr.detection_post_process(
            encoded, scores, anchors, 1, 3, 1, 3, 0.2, 0.5, regular, [10.0, 10.0, 5.0, 5.0]
        )
        np.testing.assert_allclose(boxes.read()[0], [[0, 0, 1, 1], [0.15, 0.15, 0.25, 0.25], [0, 0, 0, 0]], atol=1e-6)
        np.testing.assert_allclose(found.read(), [[0.9, 0.3, 0]])
        assert classes.read_as_tuple() == (0, 0, 0)
        assert int(count) == 2


@pytest.mark.parametrize("is_lazy", [False, True])
def test_detections_of_several_classes_of_a_box(is_lazy: bool) -> None:
    anchors = np.array([[0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1.1], [0.2, 0.2, 0.1, 0.1]], np.float32)
    scores = np.array([[[0.1, 0.9, 0.3], [0.1, 0.8, 0.2], [0.2, 0.3, 0.4]]], np.float32)
    expr.lazy_eval(is_lazy)
    try:
        given = expr.placeholder([1, 3, 3])
        given.write(np.zeros((1, 3, 3)) if is_lazy else scores)
        boxes, classes, found, count = expr.detection_post_process(
            np.zeros((1, 3, 4)), given, anchors, 2, 3, 2, 3, 0.25, 0.5, False, [10.0, 10.0, 5.0, 5.0]
        )
        given.write(scores if is_lazy else np.zeros((1, 3, 3)))
        assert boxes.shape == [1, 6, 4]
        np.testing.assert_array_equal(boxes.read()[0, [0, 1]], [[0, 0, 1, 1]] * 2)
        np.testing.assert_allclose(found.read(), np.array([[0.9, 0.3, 0.4, 0.3, 0, 0]], np.float32))
        assert classes.read_as_tuple() == (0, 1, 1, 0, 0, 0)
        assert float(count) == 2
    finally:
        expr.lazy_eval(False)


def test_sessions_are_kept_by_structure_and_shape(lazy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    program = evaluation_module.Program

    class Counted(program):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(1)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(evaluation_module, "Program", Counted)
    expr.gc(True)
    for size in (4, 4, 5, 4):
        x = expr.placeholder([size])
        x.write(np.arange(size))
        np.testing.assert_array_equal(((x + 1.25) * 2).read(), np.arange(size) * 2 + 2.5)
    assert len(made) == 2
    ((x + 1.5) * 2).read()  # another constant
    assert len(made) == 3
    expr.gc(False)


def test_settings_of_the_executor() -> None:
    old = (SETTINGS.threads, SETTINGS.precision, SETTINGS.device)
    try:
        expr.set_thread_number(1)
        expr.set_lazy_mode(1)
        expr.set_global_executor_config(expr.CPU, expr.Low, 1)
        assert (SETTINGS.threads, SETTINGS.precision, SETTINGS.device) == (1, "low", "cpu")
        with pytest.raises(UsageError):
            expr.set_global_executor_config(expr.METAL, expr.High, 1)
        with pytest.raises(UsageError):
            expr.set_lazy_mode(2)
    finally:
        SETTINGS.threads, SETTINGS.precision, SETTINGS.device = old


def test_changes_of_the_graph(lazy: None) -> None:
    x, z = expr.placeholder([2]), expr.placeholder([2])
    y = x + 1
    top = y * 2
    x.write([1, 2])
    z.write([10, 20])
    np.testing.assert_array_equal(top.read(), [4, 6])
    y.replace(z)
    np.testing.assert_array_equal(top.read(), [20, 40])
    top.set_inputs([x, z])
    np.testing.assert_array_equal(top.read(), [10, 40])
    with pytest.raises(UsageError, match="of itself"):
        top.set_inputs([top, z])
    top.fix_as_const()
    x.write([0, 0])
    np.testing.assert_array_equal(top.read(), [10, 40])
    assert top.op_type == "Const"
    w = x + z
    w.fix_as_placeholder()
    w.write([7, 7])
    np.testing.assert_array_equal(w.read(), [7, 7])


def test_integers_and_doubles_keep_all_bits_in_graphs(lazy: None) -> None:
    x = expr.placeholder([2], dtype=expr.int64)
    x.write([2**40 + 1, -(2**62)])
    np.testing.assert_array_equal((x + 2).read(), [2**40 + 3, -(2**62) + 2])
    np.testing.assert_array_equal(expr.reduce_sum(x).read(), 2**40 + 1 - 2**62)
    d = expr.placeholder([2], dtype=expr.double)
    d.write([1 / 3, 2 / 3])
    np.testing.assert_array_equal((d * 3).read(), np.array([1 / 3, 2 / 3]) * 3)
    i = expr.placeholder([2], dtype=expr.int)
    i.write([2**30, 2**30 + 2**29])
    np.testing.assert_array_equal(expr.reduce_sum(i).read(), 2**31 + 2**29)


def test_regions_follow_what_is_written(lazy: None) -> None:
    image = np.arange(50, dtype=np.float32).reshape(1, 2, 5, 5)
    rois = expr.placeholder([1, 5])
    rois.write([[0, 0, 0, 1, 1]])
    pooled = expr.roi_pooling(image, rois, 1, 1, 1.0)
    aligned = expr.roi_align(image, rois, 1, 1, 1.0, 1, True, expr.AVEPOOL)
    np.testing.assert_array_equal(pooled.read().ravel(), [6, 31])
    np.testing.assert_array_equal(aligned.read().ravel(), [0, 25])
    rois.write([[0, 2, 2, 4, 4]])
    np.testing.assert_array_equal(pooled.read().ravel(), [24, 49])
    np.testing.assert_array_equal(aligned.read().ravel(), [2.5 + 12.5, 40])
    rois.write([[1, 2, 2, 4, 4]])
    with pytest.raises(UsageError, match="there are 1"):
        expr.roi_pooling(image, rois, 1, 1, 1.0)
