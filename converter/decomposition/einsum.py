"""Einstein summation in terms of transposes, matrix products and sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Builder


def einsum(b: Builder, equation: str, operands: Sequence[Value]) -> Value:
    """Nodes that compute `numpy.einsum(equation, *operands)`.

    Two operands at a time become one matrix product; labels that no later operand and not the result needs are summed.

    Raises:
        ModelError: the equation does not fit the operands.
        UnsupportedError: the rank of an operand is unknown, and the equation has an ellipsis for it.
    """
    operands = _ranked(b, equation, operands)
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


def _ranked(b: Builder, equation: str, operands: Sequence[Value]) -> list[Value]:
    """The operands, those of unknown rank with the rank that their labels say."""
    out = list(operands)
    for i, (term, value) in enumerate(zip(equation.replace(" ", "").partition("->")[0].split(","), out, strict=False)):
        if value.type.rank is None and "..." not in term:
            out[i] = b.Identity(value)
            out[i].type = value.type.with_shape((UNKNOWN,) * len(term))
    return out


def _parse(equation: str, operands: Sequence[Value]) -> tuple[list[str], str]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ModelError(f"the equation '{equation}' has {len(terms)} terms, but there are {len(operands)} operands")
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
            raise ModelError(f"the result of '{equation}' has a label twice, or one that no operand has")
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
                raise ModelError(
                    f"Einsum cannot take the diagonal of axes {i} and {j} of {x.type}", why="their sizes differ"
                )
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
    """Sums over labels that no other operand has."""
    axes = tuple(i for i, c in enumerate(labels) if c not in needed)
    if not axes:
        return x, labels
    return b.ReduceSum(x, axes=axes, keepdims=False), "".join(c for c in labels if c in needed)


def _product(b: Builder, x: Value, xs: str, y: Value, ys: str, needed: set[str]) -> tuple[Value, str]:
    """One matrix product over all labels that both have and that are not needed later."""
    shared = [c for c in xs if c in ys]
    batch = [c for c in shared if c in needed]
    inner = [c for c in shared if c not in needed]
    rows, columns = [c for c in xs if c not in shared], [c for c in ys if c not in shared]
    if not inner:
        return _outer_product(b, x, xs, y, ys, batch + rows + columns)
    x, y = _alike(b, x, xs, y, ys, inner), _alike(b, y, ys, x, xs, inner)
    x, y = (_ordered(b, v, labels, order) for v, labels, order in
            ((x, xs, batch + rows + inner), (y, ys, batch + inner + columns)))  # fmt: skip
    # Dimensions of 1 among the batch are left to the product, which broadcasts them.
    n, r, k, c = len(batch), len(rows), len(inner), len(columns)
    z = b.MatMul(_grouped(b, x, n, r, k), _grouped(b, y, n, k, c))
    if (r, c) != (1, 1):
        z = b.Reshape(z, _concat(b, [_dims(b, z, 0, n), _dims(b, x, n, n + r), _dims(b, y, n + k, n + k + c)]))
    return z, "".join([*batch, *rows, *columns])


def _alike(b: Builder, x: Value, xs: str, y: Value, ys: str, inner: Sequence[str]) -> Value:
    """x with the dimensions of y where its own are 1, or may be, along the labels that the product sums over."""
    own, other = x.type.shape or (), y.type.shape or ()
    pairs = {c: (own[xs.index(c)], other[ys.index(c)]) for c in inner}
    if all(same_dim(d, e) for d, e in pairs.values()):
        return x
    parts = [_dims(b, y, ys.index(c), ys.index(c) + 1) if c in inner else np.ones(1, np.int64) for c in xs]
    return b.Expand(x, _concat(b, parts))  # type: ignore[no-any-return]


def _ordered(b: Builder, x: Value, labels: str, order: Sequence[str]) -> Value:
    return b.Transpose(x, perm=tuple(labels.index(c) for c in order))  # type: ignore[no-any-return]


def _grouped(b: Builder, x: Value, batch: int, *groups: int) -> Value:
    """x with the axes behind the batch as two, the first so many of them as one and the others as one."""
    if groups == (1, 1):
        return x
    parts, start = [_dims(b, x, 0, batch)], batch
    for n in groups:
        dims = _dims(b, x, start, start + n)
        parts.append(b.ReduceProd(dims, axes=(0,)) if isinstance(dims, Value) else np.array([prod(dims.tolist())]))
        start += n
    return b.Reshape(x, _concat(b, parts))  # type: ignore[no-any-return]


def _dims(b: Builder, x: Value, start: int, end: int) -> Any:
    """Some dimensions as an int64 vector: numbers where they are known."""
    dims = (x.type.shape or ())[start:end]
    if all(isinstance(d, int) for d in dims):
        return np.array(dims, np.int64)
    return b.Shape(x, start=start, end=end)


def _concat(b: Builder, parts: Sequence[Any]) -> Any:
    if all(isinstance(p, np.ndarray) for p in parts):
        return np.concatenate(parts)
    return b.Concat(*(p for p in parts if isinstance(p, Value) or p.size), axis=0)


def _outer_product(b: Builder, x: Value, xs: str, y: Value, ys: str, order: list[str]) -> tuple[Value, str]:
    """Elementwise product over all labels."""

    def spread(v: Value, labels: str) -> Value:
        v = _ordered(b, v, labels, [c for c in order if c in labels])
        missing = tuple(i for i, c in enumerate(order) if c not in labels)
        return b.Unsqueeze(v, axes=missing) if missing else v

    return b.Mul(spread(x, xs), spread(y, ys)), "".join(order)
