"""Einstein summation in terms of transposes, matrix products and sums; several source formats have it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np

from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def einsum(b: Builder, equation: str, operands: Sequence[Value]) -> Value:
    """Nodes that compute `numpy.einsum(equation, *operands)`.

    Two operands at a time become one matrix product; labels that no later operand and not the result needs are summed.

    Raises:
        ModelError: the equation does not fit the operands.
        UnsupportedError: the rank of an operand is open.
    """
    terms, result = _parse(equation, operands)
    values = list(operands)
    for k, term in enumerate(terms):
        values[k], terms[k] = _diagonal(b, values[k], term)
    current, labels = _summed(b, values[0], terms[0], _needed(terms[1:], result))
    for k in range(1, len(values)):
        needed = _needed(terms[k + 1 :], result)
        other, other_labels = _summed(b, values[k], terms[k], needed | set(labels))
        current, labels = _product(b, current, labels, other, other_labels, needed)
    current, labels = _summed(b, current, labels, set(result))
    if labels != result:
        current = b.Transpose(current, perm=tuple(labels.index(c) for c in result))
    elif current in operands:
        current = b.Identity(current)
    return current


def _parse(equation: str, operands: Sequence[Value]) -> tuple[list[str], str]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ModelError(f"the equation '{equation}' has {len(terms)} terms for {len(operands)} operands")
    # Axes under an ellipsis get labels of their own, aligned at the end as numpy broadcasts.
    hidden = 0
    for term, value in zip(terms, operands, strict=True):
        if value.type.rank is None:
            raise UnsupportedError("Einsum needs operands of known rank", hint="give the input shapes with `--input`")
        if "..." in term:
            hidden = max(hidden, value.type.rank - len(term) + 3)
    names = "".join(chr(0x391 + i) for i in range(hidden))  # Greek letters cannot be in an equation
    out = []
    for term, value in zip(terms, operands, strict=True):
        if "..." in term:
            term = term.replace("...", names[hidden - ((value.type.rank or 0) - len(term) + 3) :])
        if len(term) != value.type.rank:
            raise ModelError(f"'{term}' in '{equation}' does not fit an operand of rank {value.type.rank}")
        out.append(term)
    everything = "".join(out)
    if arrow:
        right = right.replace("...", names)
        if len(set(right)) != len(right) or not set(right) <= set(everything):
            raise ModelError(f"'{equation}' names a label of the result twice, or one that no operand has")
        return out, right
    return out, names + "".join(sorted(c for c in set(everything) - set(names) if everything.count(c) == 1))


def _diagonal(b: Builder, x: Value, labels: str) -> tuple[Value, str]:
    """Takes the diagonal where two axes have one label, until each label stands there once."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            rest = [k for k in range(len(labels)) if k not in (i, j)]
            labels = "".join(labels[k] for k in rest) + c
            assert x.type.shape is not None
            n, m = x.type.shape[i], x.type.shape[j]
            if isinstance(n, int) and isinstance(m, int) and n != m:
                raise ModelError(f"Einsum takes the diagonal of axes {i} and {j} of {x.type}", why="they differ")
            # In a row, the elements of the diagonal stand n + 1 apart.
            step = np.array([n + 1]) if isinstance(n, int) else b.Add(b.Shape(x, start=i, end=i + 1), np.array([1]))
            size = -1 if not isinstance(n, int) else n * n
            x = b.Transpose(x, perm=(*rest, i, j))
            x = b.Reshape(x, np.array([*[0] * len(rest), size], np.int64))
            x = b.Slice(x, np.array([0]), np.array([np.iinfo(np.int64).max]), np.array([len(rest)]), step)
    return x, labels


def _needed(terms: Sequence[str], result: str) -> set[str]:
    return reduce(set.union, map(set, terms), set(result))


def _summed(b: Builder, x: Value, labels: str, needed: set[str]) -> tuple[Value, str]:
    """Sums over labels that nobody else has."""
    axes = tuple(i for i, c in enumerate(labels) if c not in needed)
    if not axes:
        return x, labels
    return b.ReduceSum(x, axes=axes, keepdims=False), "".join(c for c in labels if c in needed)


def _product(b: Builder, x: Value, xs: str, y: Value, ys: str, needed: set[str]) -> tuple[Value, str]:
    shared = [c for c in xs if c in ys]
    batch = [c for c in shared if c in needed]
    inner = [c for c in shared if c not in needed]
    rows, columns = [c for c in xs if c not in shared], [c for c in ys if c not in shared]
    shapes = (x.type.shape or (), y.type.shape or ())
    extents = {
        c: d
        for labels, shape in zip((xs, ys), shapes, strict=True)
        for c, d in zip(labels, shape, strict=True)
        if d != 1
    }
    fixed = all(isinstance(d, int) for shape in shapes for d in shape)
    full = all(shapes[0][xs.index(c)] == shapes[1][ys.index(c)] for c in shared)
    if not inner or not fixed or not full:
        return _broadcast_product(b, x, xs, y, ys, batch + inner + rows + columns, inner)
    sizes = {c: int(extents.get(c, 1)) for c in (*xs, *ys)}

    def matrix(v: Value, labels: str, *groups: list[str]) -> Value:
        order = [c for g in groups for c in g]
        v = b.Transpose(v, perm=tuple(labels.index(c) for c in order))
        shape = [sizes[c] for c in batch] + [prod(sizes[c] for c in g) for g in groups[1:]]
        v = b.Reshape(v, np.array(shape, np.int64))
        return v

    z = b.MatMul(matrix(x, xs, batch, rows, inner), matrix(y, ys, batch, inner, columns))
    labels = [*batch, *rows, *columns]
    return b.Reshape(z, np.array([sizes[c] for c in labels], np.int64)), "".join(labels)


def _broadcast_product(
    b: Builder, x: Value, xs: str, y: Value, ys: str, order: list[str], inner: list[str]
) -> tuple[Value, str]:
    """Elementwise product over all labels, then a sum: for extents of 1 and open ones."""

    def spread(v: Value, labels: str) -> Value:
        v = b.Transpose(v, perm=tuple(labels.index(c) for c in order if c in labels))
        missing = tuple(i for i, c in enumerate(order) if c not in labels)
        return b.Unsqueeze(v, axes=missing) if missing else v

    z = b.Mul(spread(x, xs), spread(y, ys))
    return _summed(b, z, "".join(order), set(order) - set(inner))
