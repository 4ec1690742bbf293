"""What a step of a recurrent layer computes, whatever its spelling: sums of products, matrices, functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import product
from math import isclose
from typing import Any

import numpy as np

from minnow.optimizer.passes.movement.slice import bounds
from minnow.optimizer.passes.recurrent.loop import NoMatchError
from minnow.schema.ir import Node, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.registry.encoding import bound

Array = np.ndarray[Any, Any]
Products = dict[tuple[Value, ...], float]
"""A sum of products: the factors of each, none of which is a number, and what they are multiplied by."""

_MOST_TERMS = 16
_MOST_FACTORS = 3
_TO_THE_END = 2**31 - 1


# ---- functions


@dataclass(frozen=True)
class Function:
    """An activation as the layers name it."""

    name: str
    alpha: tuple[float, ...] = ()
    beta: tuple[float, ...] = ()


AS_IT_IS = Function("affine", (1.0,), (0.0,))
# op list: functions that layers have under a name of their own
_FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Sigmoid": ("sigmoid", ()),
    "Tanh": ("tanh", ()),
    "Relu": ("relu", ()),
    "Softsign": ("softsign", ()),
    "Softplus": ("softplus", ()),
    "LeakyRelu": ("leakyrelu", ("alpha",)),
    "ThresholdedRelu": ("thresholdedrelu", ("alpha",)),
    "Elu": ("elu", ("alpha",)),
}
"""The name of an op's function, and the parameters that it has."""


@dataclass(frozen=True)
class Applied:
    """`function(of + offset)`."""

    function: Function
    of: Value
    offset: float = 0.0


def applied(value: Value) -> Applied | None:
    """The value as a function of another one; None when it is none that layers have."""
    node = value.producer
    if node is None:
        return None
    if node.op in _FUNCTIONS:
        name, parameters = _FUNCTIONS[node.op]
        attrs = bound(node)
        return Applied(Function(name, tuple(float(attrs[p]) for p in parameters)), node.input(0))
    return _hard_sigmoid(value) or _softsign(node)


def _hard_sigmoid(value: Value) -> Applied | None:
    """clip(alpha * x + beta, 0, 1), or the same from 0 to another number that it is divided by."""
    node = value.producer
    if node is not None and node.op == "HardSigmoid":
        attrs = bound(node)
        inner, alpha, beta = node.input(0), float(attrs["alpha"]), float(attrs["beta"])
    else:
        clipped, scale, none = _of_number(value)
        limits = _limits(clipped)
        if limits is None or none or limits[1] or not isclose(scale * limits[2], 1.0, rel_tol=1e-6):
            return None
        inner, alpha, beta = _of_number(limits[0])
        alpha, beta = alpha * scale, beta * scale
    if not alpha:
        return None
    # One form for all gates, whatever they add before.
    return Applied(Function("hardsigmoid", (alpha,), (0.5,)), inner, (beta - 0.5) / alpha)


def _limits(value: Value) -> tuple[Value, float, float] | None:
    """What is clipped, from where to where."""
    low, high = -np.inf, np.inf
    for _ in range(2):
        node = value.producer
        if node is None:
            break
        if node.op == "Clip":
            attrs = bound(node)
            first, last, inner = float(attrs["min"]), float(attrs["max"]), node.input(0)
        elif node.op == "Relu":
            first, last, inner = 0.0, np.inf, node.input(0)
        elif node.op in ("Max", "Min") and (found := _with_number(node)) is not None:
            inner, limit = found
            first, last = (limit, np.inf) if node.op == "Max" else (-np.inf, limit)
        else:
            break
        if last < low or high < first or last < first:  # or it gives nothing but its end
            return None
        value, low, high = inner, max(low, first), min(high, last)
    return None if np.isinf(low) or np.isinf(high) else (value, low, high)


def _softsign(node: Node) -> Applied | None:
    """x / (1 + |x|)"""
    below = node.input(1).producer if node.op == "Div" else None
    found = None if below is None or below.op != "Add" else _with_number(below)
    if found is None or found[1] != 1 or found[0].producer is None or found[0].producer.op != "Abs":
        return None
    return Applied(Function("softsign"), node.input(0)) if found[0].producer.input(0) is node.input(0) else None


def number(value: Value) -> float | None:
    """A constant that is one number."""
    if value.data is None or value.type.count != 1 or not value.type.dtype.is_float:
        return None
    return float(value.data.numpy().item())


def _with_number(node: Node) -> tuple[Value, float] | None:
    """The operands of a node of two, one of which is a number."""
    a, b = node.input(0), node.input(1)
    for value, other in ((a, b), (b, a)):
        n = number(other)
        if len(node.inputs) == 2 and n is not None and (other.type.rank or 0) <= (value.type.rank or 0):
            return value, n
    return None


def _of_number(value: Value) -> tuple[Value, float, float]:
    """(x, a, b) for a value that is a * x + b, with numbers a and b."""
    scale, offset = 1.0, 0.0
    for _ in range(_MOST_TERMS):
        node = value.producer
        # op list: the four that `_with_number` is written for
        found = _with_number(node) if node is not None and node.op in ("Add", "Sub", "Mul", "Div") else None
        if node is None or found is None:
            break
        inner, n = found
        if node.op == "Add":
            offset += scale * n
        elif node.op == "Mul":
            scale *= n
        elif inner is node.input(0) and (node.op == "Sub" or n):
            scale, offset = (scale, offset - scale * n) if node.op == "Sub" else (scale / n, offset)
        elif node.op == "Sub":
            scale, offset = -scale, offset + scale * n
        else:
            break
        value = inner
    return value, scale, offset


# ---- sums of products


def products(value: Value, atoms: Collection[Value], order: dict[Value, int]) -> Products:
    """The value as a sum of products, of functions, of `atoms` and of what is no sum and no product.

    Args:
        order: which factor stands first, by when it was met; grows.

    Raises:
        NoMatchError: there are too many.
    """
    return _Sums({one_row(v) for v in atoms}, order).of(value, first=True)


class _Sums:
    """The sums that values are, each found once."""

    def __init__(self, atoms: Collection[Value], order: dict[Value, int]) -> None:
        self.atoms = atoms
        self.order = order
        self.known: dict[Value, Products] = {}

    def of(self, value: Value, first: bool = False) -> Products:
        value = one_row(value)
        if value not in self.known:
            stays = not first and (value in self.atoms or applied(value) is not None)
            self.known[value] = {(value,): 1.0} if stays else self._computed(value)
        return self.known[value]

    def _computed(self, value: Value) -> Products:
        n, node = number(value), value.producer
        if n is not None:
            return {(): n}
        # op list: those of which sums of products are made below
        if node is None or node.op not in ("Add", "Sub", "Neg", "Mul", "Div"):
            return {(value,): 1.0}
        operands = [v for v in node.inputs if v is not None]
        if node.op == "Div":
            divisor = number(operands[1])
            return total([(self.of(operands[0]), 1 / divisor)]) if divisor else {(value,): 1.0}
        parts = [self.of(v) for v in operands]
        if node.op == "Mul":
            pairs = product(parts[0].items(), parts[1].items())
            return total(({self._sorted((*a, *b)): m * n}, 1.0) for (a, m), (b, n) in pairs)
        signs = {"Add": (1.0, 1.0), "Sub": (1.0, -1.0), "Neg": (-1.0,)}[node.op]
        return total(zip(parts, signs, strict=True))

    def _sorted(self, factors: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(sorted(factors, key=lambda v: self.order.setdefault(v, len(self.order))))


def total(parts: Iterable[tuple[Products, float]]) -> Products:
    """The sum of these, each multiplied by a number."""
    out: Products = {}
    for part, factor in parts:
        for factors, n in part.items():
            out[factors] = out.get(factors, 0.0) + factor * n
    out = {f: n for f, n in out.items() if n}
    if len(out) > _MOST_TERMS or any(len(f) > _MOST_FACTORS for f in out):
        raise NoMatchError
    return out


def split(of: Products, factor: Value) -> tuple[Products, Products]:
    """What the factor is multiplied by, and the rest."""
    inside = {f: n for f, n in of.items() if factor in f}
    rest = {f: n for f, n in of.items() if factor not in f}
    cut = {(*f[: f.index(factor)], *f[f.index(factor) + 1 :]): n for f, n in inside.items()}
    return cut, rest


def factors_of(of: Products) -> list[Value]:
    """All values that are multiplied, each once."""
    return list(dict.fromkeys(v for factors in of for v in factors))


def only(of: Products) -> Value | None:
    """The value that all of it is."""
    ((factors, n),) = of.items() if len(of) == 1 else (((), 0.0),)
    return factors[0] if len(factors) == 1 and n == 1 else None


def one_row(value: Value) -> Value:
    """A row that was made a vector, or the other way round, as it was before."""
    while (node := value.producer) is not None and node.op in ("Reshape", "Squeeze", "Unsqueeze"):
        before = node.input(0)
        if not (_is_row(before) and _is_row(value)) or width(before) is None or width(before) != width(value):
            break
        value = before
    return value


def _is_row(value: Value) -> bool:
    shape = value.type.shape or ()
    return shape != () and shape in (shape[-1:], (1, *shape[-1:]))


# ---- matrices


@dataclass
class Form:
    """A sum of values, each times a matrix, or times a number, and of a bias."""

    terms: dict[Value, float | Array]
    bias: Array

    def __add__(self, other: Form) -> Form:
        out = dict(self.terms)
        for v, m in other.terms.items():
            mine = out.get(v)
            if mine is not None and isinstance(mine, float) != isinstance(m, float):
                raise NoMatchError
            out[v] = m if mine is None else mine + m
        return Form(out, self.bias + other.bias)

    def scaled(self, factor: float | Array) -> Form:
        """With a number for the whole, or one for each column."""
        if isinstance(factor, np.ndarray) and any(isinstance(m, float) for m in self.terms.values()):
            raise NoMatchError
        return Form({v: m * factor for v, m in self.terms.items()}, self.bias * factor)

    def times(self, matrix: Array) -> Form:
        """The product with a matrix from the right."""
        bias = np.broadcast_to(self.bias, (len(matrix),))
        return Form(
            {v: matrix * m if isinstance(m, float) else m @ matrix for v, m in self.terms.items()}, bias @ matrix
        )

    def columns(self, taken: slice, of: int) -> Form:
        """Some columns of a form of so many."""
        if any(isinstance(m, float) for m in self.terms.values()):
            raise NoMatchError
        terms = {v: m[:, taken] for v, m in self.terms.items() if isinstance(m, np.ndarray)}
        return Form(dict(terms), np.broadcast_to(self.bias, (of,))[taken])


def width(value: Value) -> int | None:
    """The last dimension."""
    last = value.type.shape[-1] if value.type.shape else None
    return last if isinstance(last, int) else None


class Forms:
    """The forms of values, each found once: gates are parts of one sum."""

    def __init__(self) -> None:
        self._known: dict[Value, Form] = {}

    def of(self, value: Value) -> Form:
        """The form of a value: of itself, where nothing else can be said."""
        value = one_row(value)
        if value not in self._known:
            made = _constant(value) if value.data is not None else self._computed(value)
            self._known[value] = made or Form({value: 1.0}, np.zeros(1))
        return self._known[value]

    def of_sum(self, of: Products) -> Form:
        """The form of a sum of products of constants, and one other value at most."""
        out = Form({}, np.zeros(1))
        for factors, n in of.items():
            part = Form({}, np.array([n]))
            for v in factors:
                form = self.of(v)
                left, right = (part, form) if not part.terms else (form, part)
                if left.terms:
                    raise NoMatchError
                part = right.scaled(float(left.bias[0]) if left.bias.size == 1 else left.bias)
            out = out + part
        return out

    def _computed(self, value: Value) -> Form | None:
        node = value.producer
        if node is None:
            return None
        if node.op in ("MatMul", "Linear"):
            return self._product(node)
        if node.op in ("Split", "Slice"):
            return self._columns(node, value)
        operands = [v for v in node.inputs if v is not None]
        if node.op in ("Add", "Sub") and all(self._fits(v, value) for v in operands):
            one, other = (self.of(v) for v in operands)
            return one + (other if node.op == "Add" else other.scaled(-1.0))
        if node.op == "Neg":
            return self.of(operands[0]).scaled(-1.0)
        if node.op in ("Mul", "Div") and all(self._fits(v, value) for v in operands):
            for a, b in (operands, operands[::-1])[: 1 if node.op == "Div" else 2]:
                factor = _constant(b)
                if factor is not None and (node.op == "Mul" or factor.bias.all()):
                    by = factor.bias if node.op == "Mul" else 1 / factor.bias
                    return self.of(a).scaled(float(by[0]) if by.size == 1 else by)
        return None

    @staticmethod
    def _fits(operand: Value, result: Value) -> bool:
        """The operand is a number, or as wide as the result."""
        return (operand.type.count == 1 and operand.data is not None) or width(operand) == width(result) is not None

    def _product(self, node: Node) -> Form | None:
        matrix, x = node.input(1).array, node.input(0)
        if matrix is None or matrix.ndim != 2 or node.attrs.get("activation") or node.attrs.get("transpose_a"):
            return None
        wide = matrix.astype(np.float64)
        if node.op == "Linear" or node.attrs.get("transpose_b"):
            wide = wide.T
        form = self._of_parts(x, wide) or self.of(x).times(wide)
        if node.op == "MatMul" or not node.has_input(2):
            return form
        offset = _constant(node.input(2))
        return None if offset is None else form + offset

    def _of_parts(self, x: Value, matrix: Array) -> Form | None:
        """The product of parts that stand side by side, each with its rows of the matrix."""
        node = one_row(x).producer
        if node is None or node.op != "Concat" or node.attrs["axis"] not in (-1, (node.output.type.rank or 0) - 1):
            return None
        parts = [v for v in node.inputs if v is not None]
        ends = np.cumsum([width(v) or 0 for v in parts])
        if any(width(v) is None for v in parts) or ends[-1] != len(matrix):
            return None
        forms = (self.of(v).times(m) for v, m in zip(parts, np.split(matrix, ends[:-1]), strict=True))
        return sum(forms, start=Form({}, np.zeros(1)))

    def _columns(self, node: Node, value: Value) -> Form | None:
        x = node.input(0)
        n, last = width(x), (x.type.rank or 0) - 1
        if n is None or last < 0:
            return None
        if node.op == "Split":
            sizes = node.attrs.get("sizes", ())
            if node.attrs.get("axis", 0) not in (-1, last) or len(sizes) != len(node.outputs):
                return None
            start = sum(sizes[: value.index])
            return self.of(x).columns(slice(start, start + sizes[value.index]), n)
        cuts = bounds(node) or {}
        if last not in cuts or any(_cuts(x, a, *c) for a, c in cuts.items() if a != last):
            return None
        return self.of(x).columns(slice(*cuts[last]), n) if cuts[last][2] == 1 else None


def _cuts(x: Value, axis: int, start: int, end: int, step: int) -> bool:
    """The slice leaves something out along this axis."""
    extent = (x.type.shape or ())[axis]
    return start != 0 or step != 1 or end < (extent if isinstance(extent, int) else _TO_THE_END)


def _constant(value: Value) -> Form | None:
    array, n = value.array, width(value) or 1
    if array is None or array.size != n or not value.type.dtype.is_float:
        return None
    return Form({}, array.reshape(-1).astype(np.float64))


def same_rows(state: Value, sequence: Value) -> bool:
    """The state may have as many rows as the sequence has in each step: neither would be repeated for the other."""
    a, b = (state.type.shape or ("?",))[0], (sequence.type.shape or ("?", "?"))[1]
    return same_dim(a, b) or (1 not in (a, b) and not (isinstance(a, int) and isinstance(b, int)))
