"""What ops say of themselves, traits and rules, holds for what their references compute of all samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder, Op, Sample, Trait, all_ops, get
from minnow.schema.registry.op import NUMPY_REFUSALS
from minnow.schema.registry.sign import is_nonnegative
from minnow.schema.registry.symbolic import contents, dimension

Array = np.ndarray[Any, Any]
CONTROL = {op.name for op in all_ops() if Trait.CONTROL_FLOW in op.traits}


def having(trait: Trait) -> list[Op]:
    found = [op for op in all_ops() if trait in op.traits and op.name not in CONTROL and list(op.cases())]
    assert found, trait
    return found


def computed(op: Op) -> Iterator[tuple[Sample, tuple[Array, ...]]]:
    for sample in op.cases():
        yield sample, op.evaluate(sample.inputs, sample.attrs)


def same(a: Array, b: Array) -> bool:
    """Bit for bit, except for what is in a NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a)
    return bool(np.array_equal(nan, np.isnan(b)) and a[~nan].tobytes() == b[~nan].tobytes())


def floats(array: Array) -> Array:
    """The numbers of a float result; empty for others."""
    return array[~np.isnan(array)] if array.dtype.kind == "f" else np.zeros(0)


@pytest.mark.parametrize("op", having(Trait.COMMUTATIVE), ids=str)
def test_commutative(op: Op) -> None:
    for sample, (y,) in computed(op):
        assert same(y, op.evaluate(sample.inputs[::-1], sample.attrs)[0]), sample


@pytest.mark.parametrize("op", having(Trait.COMPARE), ids=str)
def test_compare(op: Op) -> None:
    assert all(y.dtype == bool for _, (y,) in computed(op))


@pytest.mark.parametrize("op", having(Trait.VIEW), ids=str)
def test_view(op: Op) -> None:
    for sample, (y,) in computed(op):
        x = sample.inputs[0]
        assert x is not None
        assert same(x.reshape(-1), y.reshape(-1)), sample


@pytest.mark.parametrize("op", having(Trait.MOVEMENT), ids=str)
def test_movement(op: Op) -> None:
    for sample, results in computed(op):
        data = [a.tobytes() for x in sample.inputs if x is not None for a in x.reshape(-1)]
        moved = {a.tobytes() for y in results for a in y.reshape(-1)}
        assert moved <= set(data), sample


@pytest.mark.parametrize("op", having(Trait.REORDER), ids=str)
def test_reorder(op: Op) -> None:
    for sample, (y,) in computed(op):
        x = sample.inputs[0]
        assert x is not None
        assert sorted(a.tobytes() for a in x.reshape(-1)) == sorted(a.tobytes() for a in y.reshape(-1)), sample


@pytest.mark.parametrize("op", having(Trait.SHAPE_ONLY), ids=str)
def test_shape_only(op: Op) -> None:
    for sample, (y,) in computed(op):
        others = [None if x is None else np.zeros_like(x) for x in sample.inputs]
        assert same(y, op.evaluate(others, sample.attrs)[0]), sample


@pytest.mark.parametrize("op", having(Trait.NONNEGATIVE), ids=str)
def test_nonnegative(op: Op) -> None:
    for sample, results in computed(op):
        assert not any(y.dtype.kind == "i" and (y < 0).any() for y in results), sample


@pytest.mark.parametrize("op", having(Trait.NOT_BELOW_ZERO), ids=str)
def test_not_below_zero(op: Op) -> None:
    assert all((floats(y) >= 0).all() for _, results in computed(op) for y in results)


@pytest.mark.parametrize("op", having(Trait.NO_SIGN_BIT), ids=str)
def test_no_sign_bit(op: Op) -> None:
    assert not any(np.signbit(floats(y)).any() for _, results in computed(op) for y in results)


@pytest.mark.parametrize("op", having(Trait.SAME_FOR_ZEROS), ids=str)
def test_same_for_zeros(op: Op) -> None:
    for sample in op.cases():
        if not any(x is not None and x.dtype.kind == "f" for x in sample.inputs):
            continue
        zeros = [_replaced(x, lambda v: v < 0.5, 0.0) for x in sample.inputs]
        minus = [_replaced(x, lambda v: v == 0, -0.0) for x in zeros]
        assert same(op.evaluate(zeros, sample.attrs)[0], op.evaluate(minus, sample.attrs)[0]), sample


def _replaced(x: Array | None, where: Callable[[Array], Array], number: float) -> Array | None:
    return x if x is None or x.dtype.kind != "f" else np.where(where(x), x.dtype.type(number), x)


@pytest.mark.parametrize("op", having(Trait.INVOLUTION), ids=str)
def test_involution(op: Op) -> None:
    for sample, (y,) in computed(op):
        x = sample.inputs[0]
        assert x is not None
        assert same(x, op.evaluate([y, *sample.inputs[1:]], sample.attrs)[0]), sample


@pytest.mark.parametrize("op", having(Trait.IDEMPOTENT), ids=str)
def test_idempotent(op: Op) -> None:
    for sample, (y,) in computed(op):
        assert same(y, op.evaluate([y, *sample.inputs[1:]], sample.attrs)[0]), sample


@pytest.mark.parametrize("op", having(Trait.NO_ROUNDING), ids=str)
def test_no_rounding(op: Op) -> None:
    """f32 that f16 has, too, become such f32 again."""
    for sample in op.cases():
        inputs = [x if x is None or x.dtype != np.float32 else halves(x) for x in sample.inputs]
        for y in op.evaluate(inputs, sample.attrs):
            assert y.dtype != np.float32 or same(y, halves(y)), sample


def halves(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("op", having(Trait.TOTAL), ids=str)
def test_total(op: Op) -> None:
    for sample, (y,) in computed(op):
        if all(x is None or x.dtype.kind in "iu" for x in sample.inputs):
            ends = [None if x is None else np.resize([np.iinfo(x.dtype).min, 0, np.iinfo(x.dtype).max], x.shape)
                    .astype(x.dtype) for x in sample.inputs]  # fmt: skip
            assert op.evaluate(ends, sample.attrs)[0].shape == y.shape, sample


# ---- rules


def made(op: Op, sample: Sample, constant: bool) -> tuple[Value, ...]:
    """The results of a node of these operands, which are constants, or parameters of unknown contents."""
    graph = Graph()

    def operand(a: Array) -> Value:
        return Value.constant(a) if constant else graph.add_param(TensorType(DType.of(a.dtype), a.shape))

    operands = [None if a is None else operand(a) for a in sample.inputs]
    results = getattr(Builder(graph), op.name)(*operands, **sample.attrs, n_outputs=sample.n_outputs)
    return tuple(results)


SIGNED = [op for op in all_ops() if op.sign_rule is not None]
FORMULAS = [op for op in all_ops() if op.contents_rule is not None]


@pytest.mark.parametrize("op", SIGNED, ids=str)
def test_the_sign_that_is_told_is_that_of_the_result(op: Op) -> None:
    told = 0
    for sample in op.cases():
        for positive in (False, True):
            arrays = [abs(a) if positive and a is not None and a.dtype.kind == "i" else a for a in sample.inputs]
            changed = Sample(tuple(arrays), sample.attrs, sample.n_outputs)
            try:
                (y,) = op.evaluate(changed.inputs, changed.attrs)
                (value,) = made(op, changed, constant=True)
            except (ModelError, *NUMPY_REFUSALS):
                continue
            if y.dtype.kind == "i" and is_nonnegative(value):
                told += y.size > 0
                assert not (y < 0).any() or _wraps(changed, y), changed
    assert told


def _wraps(sample: Sample, y: Array) -> bool:
    """Integers of few bits wrap around, and so do large ones that become narrower. Sizes and indices do not."""
    return y.dtype.itemsize < 4 or any(a is not None and (np.abs(a) >= 2**31).any() for a in sample.inputs)


@pytest.mark.parametrize("op", FORMULAS, ids=str)
def test_the_contents_that_are_told_are_those_of_the_result(op: Op) -> None:
    told = 0
    for sample in op.cases():
        arrays = [a if a is None or a.dtype.kind != "f" else _integers(a) for a in sample.inputs]
        changed = Sample(tuple(arrays), sample.attrs, sample.n_outputs)
        (y,) = op.evaluate(changed.inputs, changed.attrs)
        (value,) = made(op, changed, constant=op.name not in ("Shape", "Size"))
        for expected, found in zip(y.reshape(-1).tolist(), contents(value) or [], strict=False):
            if found is not None:
                told += 1
                assert found.integer == int(expected), sample
    assert told


def _integers(a: Array) -> Array:
    return np.rint(np.nan_to_num(a.astype(np.float64) * 3, posinf=99, neginf=-99).clip(-99, 99)).astype(np.int64)


@pytest.mark.parametrize("op", [op for op in all_ops() if op.dimension_rule is not None], ids=str)
def test_a_dimension_is_where_it_is_said_to_come_from(op: Op) -> None:
    """Parameters whose dimensions have names: one that the result is said to have, has the size of that one."""
    told = 0
    for sample in op.cases():
        sizes: dict[str, int] = {}
        graph = Graph()
        operands: list[Value | None] = []
        for i, a in enumerate(sample.inputs):
            if a is None or a.dtype.kind in "iu":
                operands.append(None if a is None else Value.constant(a))
                continue
            names = tuple(f"D{i}_{k}" if d != 1 else 1 for k, d in enumerate(a.shape))
            sizes |= {n: d for n, d in zip(names, a.shape, strict=True) if isinstance(n, str)}
            operands.append(graph.add_param(TensorType(DType.of(a.dtype), names)))
        try:
            results = getattr(Builder(graph), op.name)(*operands, **sample.attrs, n_outputs=sample.n_outputs)
        except ModelError:
            continue  # of dimensions with different names
        for value, y in zip(results[:1], op.evaluate(sample.inputs, sample.attrs), strict=False):
            for axis, size in enumerate(y.shape if value.type.shape is not None else ()):
                found = dimension(value, axis)
                if found is not None and all(v is None for atoms, _ in found.terms for v, _ in atoms):
                    told += 1
                    assert found.value(sizes) == size, (sample, axis)
    assert told or op.name == "Range"  # whose operands hold its size


def test_the_registry_is_asked_for_all_of_them() -> None:
    assert {"Add", "Mod", "Where", "Concat"} <= {op.name for op in SIGNED}
    assert {"Shape", "Gather", "Add", "Equal"} <= {op.name for op in FORMULAS}
    assert get("Transpose").dimension_rule is not None
