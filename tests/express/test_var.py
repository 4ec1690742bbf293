"""`Var`: what it is made of, when it is computed, and that it shows no stale or reinterpreted values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from minnow import expr
from minnow.errors import UsageError
from minnow.expr import Var


@pytest.fixture
def lazy() -> Iterator[None]:
    expr.lazy_eval(True)
    yield
    expr.lazy_eval(False)


def same(var: Var, want: object, dtype: object) -> None:
    got = var.read()
    assert got.dtype == dtype == var.dtype
    np.testing.assert_array_equal(got, np.asarray(want))
    assert var.shape == list(got.shape)


def test_results_follow_what_is_written_to_a_placeholder(lazy: None) -> None:
    x = expr.placeholder([3])
    y = (x + 1) * 2
    z = y - x
    assert y.shape == [3]
    for values in ([1, 2, 3], [4, 5, 6], [4, 5, 6]):
        x.write(values)
        same(z, np.array(values) + 2, np.float32)
        same(y, np.array(values) * 2 + 2, np.float32)
    x.resize([2, 2])
    assert z.shape == [2, 2]
    x.write(np.ones((2, 2)))
    same(z, np.full((2, 2), 3), np.float32)


def test_without_lazy_evaluation_each_op_is_a_constant() -> None:
    x = expr.placeholder([2])
    later = x + 1  # has no value yet, so it stays a result
    x.write([1, 2])
    y = x * 2
    assert (later.op_type, y.op_type) == ("Add", "Const")
    x.write([5, 6])
    same(y, [2, 4], np.float32)
    same(later, [6, 7], np.float32)


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with pytest.raises(UsageError, match="has no value yet"):
        (expr.placeholder([2]) + 1).read()


def test_types_of_operands() -> None:
    u = Var(np.array([200, 100], np.uint8))
    same(u + u, [144, 200], np.uint8)
    same(-u, [56, 156], np.uint8)
    same(u + 1, [201, 101], np.int32)
    same(u * 1.5, [300, 150], np.float32)
    same(Var([1, 2, 3]) / 2, [0, 1, 1], np.int32)
    same(Var([-3, 3]) // 2, [-2, 1], np.int32)
    same(Var([1, 2**40]) + 1, [2, 2**40 + 1], np.int64)
    same(Var([1.5]) > 1, [1], np.int32)
    same(Var([1.5, 2.5]) % 1, [0.5, 0.5], np.float32)
    same(Var([1.0, 2.0]) + np.array([0.5, 1.5]), [1.5, 3.5], np.float32)
    same(np.array([3, 4]) - Var([1.0, 2.0]), [2, 2], np.float32)


def test_an_array_that_changes_later_does_not_change_a_constant() -> None:
    array = np.ones((1, 2, 2, 3), np.float32)
    var = expr.const(array, [1, 2, 2, 3], expr.NHWC)
    blocks = expr.convert(var, expr.NC4HW4)
    array[...] = 7
    assert blocks.shape == [1, 3, 2, 2]
    same(blocks, np.ones((1, 3, 2, 2)), np.float32)


def test_numpy_takes_a_var_without_a_copy() -> None:
    var = expr.const([1, 2, 3], [3])
    array = np.asarray(var)
    assert np.shares_memory(array, np.asarray(var))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    var.read()[0] = 9
    same(var, [1, 2, 3], np.float32)
    np.testing.assert_array_equal(np.from_dlpack(var), [1, 2, 3])
    assert np.zeros(2, expr.int64).dtype == np.int64


@pytest.mark.parametrize("index", [0, -1, slice(None, None, -1), (Ellipsis, 1), (slice(0, 1), None), [0, 1]], ids=str)
def test_parts(index: object, lazy: None) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = expr.placeholder([2, 3])
    part = (x + 0)[index]
    x.write(array)
    same(part, array[index], np.float32)  # type: ignore[call-overload]
    expr.lazy_eval(False)
    np.testing.assert_array_equal(Var(array)[index], array[index])  # type: ignore[call-overload]


def test_parts_can_be_set() -> None:
    x = expr.const([1, 2, 3], [3])
    half = x[1:]
    x[1] = 7
    x[x > 2] = 0
    same(x, [1, 0, 0], np.float32)
    same(half, [2, 3], np.float32)


def test_the_graph_behind_vars(lazy: None) -> None:
    x, w = expr.placeholder([2, 3]), expr.const(np.ones(3), [3])
    w.fix_as_trainable()
    x.name, w.name = "x", "w"
    y = x * w + 1
    y.name = "y"
    graph, inputs = expr.graph_of([y])
    assert [v.name for v in graph.params] == ["x", "w"]
    assert inputs[0] is x
    assert inputs[1] is w
    assert [node.op for node in graph] == ["Mul", "Add"]
    assert graph.outputs[0].name == "y"
