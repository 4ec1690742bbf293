"""Tensors of PyTorch during translation: memory that views share and in-place operators change.

A tensor without a base is such a place. A view knows how to read itself off its base, and how the base looks when the
view is changed. Nothing is computed for a change until somebody reads what it changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minnow.converter.operand import dimensions, regroup, static_dim
from minnow.schema.errors import MinnowError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate
from minnow.schema.registry.op import NUMPY_REFUSALS

Read = Callable[[Builder, Value], Value]
Write = Callable[[Builder, Value, Value], Value]

COMPLEX_HINT = "take real and imaginary parts (`torch.view_as_real`) and compute with these"
_MOST_PLACES = 1 << 20


class Number:
    """An int, float or bool of the program that is known only at run time.

    Attributes:
        value: a scalar: i64, f64 or bool.
        vector: the same as int64[1], where it came as that.
    """

    __slots__ = ("value", "vector")

    def __init__(self, value: Value, vector: Value | None = None) -> None:
        self.value = value
        self.vector = vector

    @property
    def dtype(self) -> DType:
        return self.value.type.dtype


class Tensor:
    """A tensor, or a view of one.

    Attributes:
        base: what it is a view of.
        is_complex: its value has a last axis of its own, of real and imaginary parts.
        quant: of quantized tensors, whose value are the integers: what these stand for.
        first: what it was when it was made, or made an attribute.
        ordered: its elements certainly stand in memory in row-major order, without gaps.
    """

    __slots__ = ("_changes", "_lost", "_maybe", "_read", "_seen", "_value", "_version", "_write", "base", "first",
                 "is_complex", "ordered", "quant", "serial")  # fmt: skip
    _made = 0

    def __init__(
        self, value: Value, base: Tensor | None = None, read: Read | None = None, write: Write | None = None
    ) -> None:
        self._value = value
        self.base = base
        self._read = read
        self._write = write
        self._version = 0
        self._changes: list[tuple[Tensor, Value]] = []
        self._maybe: list[Tensor] = []
        self._lost = False
        self.quant: Any = None
        self.is_complex = False
        self.ordered: bool = base is None or (base.ordered and write is in_order)
        self._seen = self.root._version
        self.first = value
        Tensor._made += 1
        self.serial = Tensor._made

    @property
    def root(self) -> Tensor:
        """The place in memory."""
        tensor = self
        while tensor.base is not None:
            tensor = tensor.base
        return tensor

    @property
    def is_changed(self) -> bool:
        """It, or what it is a view of, has been changed in place."""
        return self.root._version > 0

    @classmethod
    def made(cls) -> int:
        """How many there are: the number of the last one."""
        return Tensor._made

    @property
    def type(self) -> TensorType:
        """A change never changes the type."""
        return self._value.type

    def value(self, b: Builder) -> Value:
        """What the tensor is now.

        Raises:
            UnsupportedError: it is complex.
        """
        if self.is_complex:
            raise UnsupportedError("complex numbers are not supported here", hint=COMPLEX_HINT)
        return self.pair(b)

    def pair(self, b: Builder) -> Value:
        """What the tensor is now; [..., 2] if it is complex."""
        root = self.root
        if root._lost:
            raise UnsupportedError(
                "a tensor is read after an in-place change of one that may share its memory",
                why="whether it does depends on strides, which are not known here",
                hint="change a copy (`x.clone()`), or use `view` in place of `reshape`",
            )
        if self is root:
            if self._changes:
                self._note()
                changes, self._changes = self._changes, []
                for changed, new in changes:
                    self._value = changed._lift(b, new, self._value)
            return self._value
        if self._seen != root._version:
            self._note()
            self._value = self._off(b, root.value(b))
            self._seen = root._version
        return self._value

    def assign(self, new: Value) -> None:
        """Changes the tensor, and all that share its memory."""
        root = self.root
        root._note()
        self._note()
        for other in root._maybe:
            other._note()
            other._lost = True
            other._version += 1
        root._version += 1
        if self is root:
            self._value, self._changes = new, []
        else:
            root._changes = [*root._changes, (self, new)]
            self._value = new
        self._seen = root._version

    def apart(self, other: Tensor) -> None:
        """Another place in memory may be the same as this one: when one is changed, the other is not known."""
        self.root._maybe = [*self.root._maybe, other]
        other._maybe = [*other._maybe, self.root]

    @property
    def lost(self) -> bool:
        """Its content is no longer known."""
        return self.root._lost

    def steps(self) -> tuple[int, ...] | None:
        """How far apart in memory neighbors along each axis stand, 0 for axes of one element; None if not known."""
        root = self.root
        if not root.ordered or not root.type.is_static or not self.type.is_static:
            return None
        if (root.type.count or 0) > _MOST_PLACES or 0 in (self.type.count, root.type.count):
            return None
        numbers = np.arange(root.type.count or 0, dtype=np.int64).reshape(root.type.static_shape)
        graph = Graph()
        try:
            graph.outputs = [self._off(Builder(graph), Value.constant(numbers))]
            (places,) = evaluate(graph, [])
        except (*NUMPY_REFUSALS, MinnowError):
            return None
        first = int(places.flat[0])
        return tuple(int(places.take(1, i).flat[0]) - first if n > 1 else 0 for i, n in enumerate(places.shape))

    def fits(self, shape: tuple[int, ...]) -> bool | None:
        """The elements can be had in that shape without a copy; None when that is not known."""
        if self.ordered:
            return True
        steps = self.steps()
        if steps is None:
            return None
        like = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), self.type.static_shape, steps)
        return np.may_share_memory(like, like.reshape(shape))

    def is_ordered(self) -> bool | None:
        """The elements stand in memory in row-major order, without gaps; None when that is not known."""
        if self.ordered:
            return True
        steps = self.steps()
        if steps is None:
            return None
        shape = self.type.static_shape
        return all(s == math.prod(shape[i + 1 :]) for i, s in enumerate(steps) if shape[i] > 1)

    def _off(self, b: Builder, root: Value) -> Value:
        """What it is when its root is `root`."""
        if self.base is None or self._read is None:
            return root
        return self._read(b, self.base._off(b, root))

    def _lift(self, b: Builder, new: Value, root: Value) -> Value:
        """What the root becomes when this becomes `new`."""
        if self.base is None:
            return new
        old = self.base._off(b, root)
        made = self._write(b, old, new) if self._write else scatter_view(b, old, new, self._read)
        return self.base._lift(b, made, root)

    def _note(self) -> None:
        if Journal.current is not None:
            Journal.current.note(self)

    def _state(self) -> tuple[Any, ...]:
        return self._value, self._version, self._changes, self._seen, self._lost

    def _restore(self, state: tuple[Any, ...]) -> None:
        self._value, self._version, self._changes, self._seen, self._lost = state


@dataclass(frozen=True)
class Cell:
    """A place of the program that holds a thing: a list or dict, or an attribute of an object.

    Attributes:
        owner: the list, dict or object; `key` is the attribute.
        name: for messages.
        read: a copy of what it holds.
        write: puts another thing there, and says so to the journal.
        restore: puts back what it has held.
    """

    owner: int
    key: str
    name: str = field(compare=False)
    read: Callable[[], Any] = field(compare=False)
    write: Callable[[Any], None] = field(compare=False)
    restore: Callable[[Any], None] = field(compare=False)


class Journal:
    """What a block changes of the things around it, so that it can be taken back: a branch may not be taken.

    Attributes:
        foreign: the lists, dicts and objects that were there before the block, by their `id`.
    """

    current: Journal | None = None

    def __init__(self, foreign: set[int]) -> None:
        self.foreign = foreign
        self._before: dict[int, tuple[Tensor, tuple[Any, ...]]] = {}
        self._held: dict[Cell, Any] = {}
        self._first = Tensor._made
        self._outer: Journal | None = None

    def note(self, tensor: Tensor) -> None:
        """Records the tensor as it is now, once, also in the journals of the enclosing blocks."""
        self._before.setdefault(id(tensor), (tensor, tensor._state()))
        if self._outer is not None:
            self._outer.note(tensor)

    def hold(self, cell: Cell) -> None:
        """Records the content of a cell before its first change, also in the journals of the enclosing blocks."""
        if cell.owner in self.foreign and cell not in self._held:
            self._held[cell] = cell.read()
        if self._outer is not None:
            self._outer.hold(cell)

    def cells(self) -> list[Cell]:
        """The cells, made before the block, that it changes."""
        return list(self._held)

    def __enter__(self) -> Journal:
        self._outer, Journal.current = Journal.current, self
        return self

    def __exit__(self, *_: object) -> None:
        Journal.current = self._outer

    def changed(self) -> list[Tensor]:
        """The places in memory, made before the block, that have another content now."""
        return [
            t for t, state in self._before.values()
            if t.base is None and t.serial <= self._first and t._version != state[1]
        ]  # fmt: skip

    def undo(self) -> None:
        """Takes all changes back."""
        for tensor, state in self._before.values():
            tensor._restore(state)
        for cell, content in self._held.items():
            cell.restore(content)


def in_order(b: Builder, old: Value, new: Value, **_: Any) -> Value:
    """The base of a view of all its elements in the same order, when the view becomes `new`."""
    if old.type.shape == new.type.shape and old.type.is_static:
        return new
    return regroup(b, new, dimensions(b, old))


def scatter_view(b: Builder, old: Value, new: Value, read: Read | None) -> Value:
    """The base of a view when the view becomes `new`: the places of its elements are the same view of 0, 1, 2, ..."""
    if read is None:
        raise UnsupportedError("an in-place change of this view is not supported")
    shape = tuple(static_dim(old.type, i, "what a view is changed of") for i in range(len(old.type.shape or ())))
    count = int(np.prod(shape, dtype=np.int64))
    places = read(b, b.const(np.arange(count, dtype=np.int64).reshape(shape)))
    one = b.const(np.array([-1], np.int64))
    flat = b.ScatterElements(b.Reshape(old, one), b.Reshape(places, one), b.Reshape(new, one))
    made: Value = b.Reshape(flat, b.const(np.array(shape, np.int64)))
    return made
