"""What is the same twice: constants by their numbers, and graphs by their structure.

Big weights are not read to find out that they differ: of two with one type a few pieces are looked at, and only if
these agree all of the numbers. What would have to be computed first is equal only to what is computed of the same.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from minnow.schema.ir import ArrayBlob, Blob, DType, Graph, MappedBlob, Node, Value
from minnow.schema.ir.blob import Array, nbytes, same_bytes
from minnow.schema.ops import Trait, get

# Smaller constants are compared by all their numbers at once.
_SMALL_BYTES = 1 << 16
_PIECES, _PIECE = 16, 16
_MOST = 8
"""So many constants of equal pieces are compared with a new one; they are hardly ever more than one."""


class Constants:
    """Finds for a constant the first one with the same numbers."""

    def __init__(self) -> None:
        self._first: dict[Hashable, Value] = {}
        self._alike: dict[Hashable, list[Value]] = {}
        self._typed: dict[Hashable, Value | None] = {}

    def first(self, value: Value) -> Value:
        """The first constant asked for that has the same type and numbers, bit by bit."""
        blob = value.data
        assert blob is not None
        if nbytes(blob) <= _SMALL_BYTES:
            return self._first.setdefault((blob.dtype, tuple(blob.shape), blob.numpy().tobytes()), value)
        if (known := self._first.setdefault(blob, value)) is not value:
            return known
        if not isinstance(blob, (ArrayBlob, MappedBlob)):
            return value
        kind = blob.dtype, tuple(blob.shape)
        if kind not in self._typed:
            self._typed[kind] = value  # nothing to compare with: it is not even looked at
            return value
        if (alone := self._typed[kind]) is not None:
            self._typed[kind] = None
            self._alike.setdefault((kind, _pieces(alone)), []).append(alone)
        alike = self._alike.setdefault((kind, _pieces(value)), [])
        for other in alike[:_MOST]:
            if _equal(other, value):
                self._first[blob] = other
                return other
        alike.append(value)
        return value


def _numbers(value: Value) -> Array:
    assert value.data is not None
    return value.data.numpy()


def _pieces(value: Value) -> bytes:
    """Some of the numbers, from all over."""
    array = _numbers(value)
    starts = np.linspace(0, array.size - _PIECE, _PIECES).astype(np.int64)
    return array.flat[(starts[:, None] + np.arange(_PIECE)).reshape(-1)].tobytes()


def _equal(a: Value, b: Value) -> bool:
    x, y = _numbers(a), _numbers(b)
    return x.flags.c_contiguous and y.flags.c_contiguous and same_bytes(x, y)


def node_key(node: Node, inputs: tuple[Value | None, ...] | None = None) -> Hashable:
    """Equal for nodes that give the same results; None for those that never do.

    Args:
        inputs: what stands for the operands, where values are known to be equal that are not the same.
    """
    given = node.inputs if inputs is None else inputs
    traits = get(node.op).traits
    attrs = None if Trait.RANDOM in traits else _attributes(node)
    if attrs is None:
        return None
    operands = tuple(sorted(given, key=id)) if Trait.COMMUTATIVE in traits else given
    return node.op, operands, attrs, len(node.outputs)


def _attributes(node: Node) -> Hashable:
    pairs: list[tuple[str, Hashable]] = []
    for name in sorted(node.attrs):
        value = node.attrs[name]
        key = _structure(value) if isinstance(value, Graph) else _plain(value)
        if key is None:
            return None
        pairs.append((name, key))
    return tuple(pairs)


_PLAIN = frozenset({int, str, DType})


def _plain(value: Any) -> Hashable:
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    if isinstance(value, tuple):
        return value if _PLAIN.issuperset(map(type, value)) else tuple([_plain(v) for v in value])
    # 1, 1.0 and True are equal to Python, and -0.0 to 0.0.
    return (
        (type(value), repr(value)) if isinstance(value, (bool, float)) else value if _is_hashable(value) else id(value)
    )


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _structure(graph: Graph) -> Hashable:
    """Equal for graphs that compute the same in the same way, whatever their values are called; None: none is equal."""
    number: dict[Value | None, Hashable] = {None: None}
    for value in graph.params:
        number[value] = len(number), str(value.type)

    def of(value: Value | None) -> Hashable:
        if value not in number and value is not None and value.data is not None:
            number[value] = _contents(value.data)
        return number[value]

    nodes: list[Hashable] = []
    for node in graph:
        attrs = None if Trait.RANDOM in get(node.op).traits else _attributes(node)
        if attrs is None:
            return None
        nodes.append((node.op, tuple(of(v) for v in node.inputs), attrs, len(node.outputs)))
        for value in node.outputs:
            number[value] = len(number)
    return tuple(nodes), tuple(of(v) for v in graph.outputs)


def _contents(blob: Blob) -> Hashable:
    return blob if nbytes(blob) > _SMALL_BYTES else (blob.dtype, tuple(blob.shape), blob.numpy().tobytes())
