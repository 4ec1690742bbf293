"""What the engine says of ops beside their kernels is what the registry says."""

from __future__ import annotations

import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops import Arg, Op, Trait, all_ops, get
from minnow.schema.ops.epilogue import FUNCTIONS


def test_activations_are_those_of_the_registry() -> None:
    engine = {name: row for name, *row in _engine.activations()}
    assert engine.keys() == FUNCTIONS.keys()
    for name, function in FUNCTIONS.items():
        op, alpha, beta, fixed, *values = engine[name]
        assert op == function.op.name
        assert fixed == (name == "relu6")
        names = tuple(function.fixed) if fixed else function.names
        assert (alpha, beta) == (*names, "", "")[:2]
        for attr, value in zip(names, values, strict=False):
            expected = function.fixed[attr] if fixed else function.op.attrs[attr].default
            assert np.float32(value) == np.float32(expected), (name, attr)
        # Attributes that the engine does not look at have one value there.
        others = {a: v for a, v in function.fixed.items() if a not in names}
        assert others == ({"approximate": "none"} if name == "gelu" else {})
        assert set(function.op.attrs) == {*names, *others}


def test_an_activation_that_comes_first_is_the_name_of_its_op() -> None:
    """Clip is "clip" to the engine, whatever it clips to: only a file says "relu6"."""
    first = {op: name for name, op, *_ in reversed(_engine.activations())}
    assert first == {f.op.name: name for name, f in FUNCTIONS.items() if name != "relu6"}


def _agreeing(op: Op) -> set[int]:
    """The operands that the registry wants to be of one type: alone, none may be of another type that it takes."""
    refused, taken = set[int](), set[int]()
    for sample in op.cases():
        args = [None if a is None else Arg(TensorType(DType.of(a.dtype), a.shape), a) for a in sample.inputs]
        for i, arg in enumerate(args):
            others = [] if arg is None else [t for t in op.operand(i).dtypes if not t.is_storage and t is not arg.dtype]
            for other in others:
                changed = [*args[:i], Arg(TensorType(other, args[i].shape)), *args[i + 1 :]]
                try:
                    op.infer(changed, sample.attrs, sample.n_outputs)
                    taken.add(i)
                except ModelError:
                    refused.add(i)
    return refused - taken


def test_operands_of_one_type_are_those_of_the_registry() -> None:
    rows = {name: row for name, *row in _engine.common_types()}
    for name, (mask, numbers) in rows.items():
        op = get(name)
        part = [i for i in range(8) if mask >> i & 1 and (i < len(op.inputs) or op.inputs[-1].variadic)]
        assert part, name
        assert numbers == all(DType.BOOL not in op.operand(i).dtypes for i in part), name
        assert _agreeing(op) <= set(part), name
    pairs = {op.name for op in all_ops() if Trait.ELEMENTWISE in op.traits and len(_agreeing(op)) > 1}
    assert pairs <= rows.keys()
    assert {"Add", "BitwiseAnd", "Equal", "Where", "PRelu"} <= pairs


@pytest.mark.parametrize(
    ("theirs", "ours", "only_theirs", "only_ours"),
    [
        ("random", Trait.RANDOM, set(), set()),
        # Cast is one where it changes nothing; ConvertLayout where no layout is there to be changed.
        ("view", Trait.VIEW, {"Cast", "ConvertLayout"}, set()),
        # The engine makes the matrix in the run, like any other of that size.
        ("type_only", Trait.SHAPE_ONLY, set(), {"EyeLike"}),
        # Identity is a view, and Requantize is never computed in pieces.
        ("elementwise", Trait.ELEMENTWISE, set(), {"Identity", "Requantize"}),
    ],
)
def test_traits_are_those_of_the_registry(theirs: str, ours: Trait, only_theirs: set[str], only_ours: set[str]) -> None:
    engine = _engine.op_traits()
    known = {op.name: op for op in all_ops() if op.name in engine}
    assert len(known) > 150
    engines = {name for name in known if theirs in engine[name]}
    registry = {name for name, op in known.items() if ours in op.traits}
    assert engines - registry == only_theirs
    assert registry - engines == only_ours
