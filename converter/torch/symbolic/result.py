"""Results of branches and loop rounds that are decided at run time: their parts, and the types of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minnow.converter.torch.symbolic.dimension import scalar
from minnow.converter.torch.symbolic.dtype import promote
from minnow.converter.torch.symbolic.structure import Tuple
from minnow.converter.torch.symbolic.tensor import Number, Tensor
from minnow.converter.torch.symbolic.thing import MISSING, UNSET
from minnow.converter.torch.symbolic.translator import Translator
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import TensorType, Value
from minnow.schema.ops import Builder


@dataclass(slots=True)
class Tree:
    """A thing of the program, and its parts.

    Attributes:
        kind: Tensor, Number, list, Tuple, dict; None for what is one thing only.
        thing: itself.
        value: of a tensor or number.
        keys: of a dict.
    """

    kind: Any
    thing: Any
    value: Value | None = None
    parts: list[Tree] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)

    def values(self) -> list[Value]:
        """Those of all tensors and numbers in it, in order."""
        own = [] if self.value is None else [self.value]
        return own + [v for p in self.parts for v in p.values()]

    def built(self, values: Iterator[Value]) -> Any:
        """The thing with other values in place of its own."""
        if self.value is not None:
            return self.kind(next(values))
        if self.kind is None:
            return self.thing
        parts = [p.built(values) for p in self.parts]
        return dict(zip(self.keys, parts, strict=True)) if self.kind is dict else self.kind(parts)


def tree_of(t: Translator, x: Any) -> Tree:
    """A thing as the program has it now. A number is a value: another branch or round may give another one."""
    if isinstance(x, Tensor):
        if x.quant is not None:
            raise UnsupportedError(
                "a quantized tensor as the result of a branch or loop is not supported", hint="dequantize it first"
            )
        return Tree(Tensor, x, t.value(x))
    if isinstance(x, (Number, bool, int, float)):
        return Tree(Number, x, scalar(t.builder, x))
    if isinstance(x, dict):
        return Tree(dict, x, None, [tree_of(t, t.materialize(v)) for v in x.values()], list(x))
    if isinstance(x, (list, tuple)):
        return Tree(list if isinstance(x, list) else Tuple, x, None, [tree_of(t, t.materialize(v)) for v in x])
    return Tree(None, x)


def is_same(a: Any, b: Any) -> bool:
    """They are the same object, or equal constants."""
    if a is b:
        return True
    if isinstance(a, float):
        return isinstance(b, float) and np.array_equal(np.float64(a).view(np.int64), np.float64(b).view(np.int64))
    return isinstance(a, (bool, int, str)) and type(a) is type(b) and a == b


Pair = tuple[Value | None, Value | None]


def merged(a: Tree, b: Tree, pairs: list[Pair], where: str) -> Tree:
    """The results of two branches, where it is decided at run time which is taken.

    Args:
        pairs: takes the values that differ, None where the value of a branch is unused.

    Raises:
        UnsupportedError: things of different kinds.
    """
    if is_same(a.thing, b.thing):
        return Tree(None, a.thing)
    if a.thing is UNSET or b.thing is UNSET:
        there = b if a.thing is UNSET else a
        pairs += [(None, v) if there is b else (v, None) for v in there.values()]
        return there
    if MISSING in (a.thing, b.thing):
        return Tree(None, MISSING)
    if a.kind is not b.kind or a.kind is None or len(a.parts) != len(b.parts) or a.keys != b.keys:
        raise UnsupportedError(f"{where} give different kinds of results: {_named(a)} and {_named(b)}",
                               why="a result must be of the same kind in both branches")  # fmt: skip
    if a.value is not None:
        pairs.append((a.value, b.value))
        return a
    return Tree(
        a.kind, a.thing, None, [merged(x, y, pairs, where) for x, y in zip(a.parts, b.parts, strict=True)], a.keys
    )


def carried(before: Tree, after: Tree, b: Builder, where: str) -> Tree:
    """What a loop carries in place of `before`, which the body makes `after`.

    Args:
        b: makes zeros of what is not set before the first round.
    """
    if before.thing is UNSET and after.thing is not UNSET:
        return Tree(after.kind, after.thing, None if after.value is None else zeros(b, after.value.type),
                    [carried(Tree(None, UNSET), p, b, where) for p in after.parts], after.keys)  # fmt: skip
    if after.thing is UNSET or MISSING in (before.thing, after.thing):
        return before
    alike = before.kind is after.kind and len(before.parts) == len(after.parts) and before.keys == after.keys
    if not alike or (before.kind is None and not is_same(before.thing, after.thing)):
        raise UnsupportedError(f"{where} carries different kinds of values: {_named(before)}, then {_named(after)}",
                               why="a carried value must be of the same kind in every round",
                               hint="use a loop whose number of rounds is constant")  # fmt: skip
    if before.value is not None and after.value is not None:
        dtype = promote(before.value.type.dtype, after.value.type.dtype)
        if dtype is not before.value.type.dtype:  # it begins as what it becomes
            value = b.Cast(before.value, to=dtype)
            return Tree(before.kind, before.kind(value), value)
    parts = [carried(x, y, b, where) for x, y in zip(before.parts, after.parts, strict=True)]
    return Tree(before.kind, before.thing, before.value, parts, before.keys)


def outputs(pairs: Sequence[Pair], builders: Sequence[Builder]) -> list[list[Value]]:
    """The values of both branches, of one type each. Unused values become zero."""
    made: list[list[Value]] = [[], []]
    for pair in pairs:
        types = [v.type for v in pair if v is not None]
        dtype = promote(types[0].dtype, types[-1].dtype)
        for out, v, b in zip(made, pair, builders, strict=True):
            v = zeros(b, types[0]) if v is None else v
            out.append(v if v.type.dtype is dtype else b.Cast(v, to=dtype))
    return made


def zeros(b: Builder, type: TensorType) -> Value:
    """Zeros of a type; dimensions that are not known are 0."""
    shape = np.array([d if isinstance(d, int) else 0 for d in type.shape or ()], np.int64)
    made: Value = b.Expand(np.zeros((), type.dtype.numpy), shape)
    return made


def _named(x: Tree) -> str:
    if x.kind in (Tensor, Number):
        return f"a {x.kind.__name__.lower()}"
    if x.kind is None:
        return repr(x.thing) if x.thing is None or isinstance(x.thing, str) else f"a {type(x.thing).__name__}"
    return f"a {x.kind.__name__.lower()} of {len(x.parts)}"
