"""Matrix products."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Node, TensorType
from minnow.schema.ir.type import Shape, broadcast
from minnow.schema.ops.epilogue import RESIDUAL, Activation, finish, finished, finished_cases
from minnow.schema.ops.special import Array, keep
from minnow.schema.registry.dimension import agree
from minnow.schema.registry.encoding import bound, computes, simple
from minnow.schema.registry.op import Arg, Decoded, Float, Numeric, Trait, WireOp, fill, op
from minnow.schema.registry.symbolic import of_first

Int8 = Annotated[np.ndarray[Any, Any], frozenset({DType.I8, DType.U8})]


def _product(a: Array, b: Array) -> Array:
    """Exact to the last bit but one: floats in float64, integers as they are."""
    if a.dtype.kind in "iu":
        return np.matmul(a, b)
    return keep(np.matmul, a, b)


def _product_shape(a: Shape | None, b: Shape | None, what: str) -> Shape | None:
    if a is None or b is None:
        return None
    if not a or not b:
        raise ModelError(f"{what} does not take scalars")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    agree([left[-1], right[-2]], f"{what}: inner dimensions of {a} and {b}")
    out = [*(broadcast(left[:-2], right[:-2]) or ()), left[-2], right[-1]]
    if len(b) == 1:
        del out[-1]
    if len(a) == 1:
        del out[len(out) - (1 if len(b) == 1 else 2)]
    return tuple(out)


def _same_types(*args: Arg | None) -> None:
    dtypes = list(dict.fromkeys(a.dtype for a in args if a is not None))
    if len(dtypes) > 1:
        raise ModelError(f"operands of the types {' and '.join(map(str, dtypes))} are mixed")


@op(traits=frozenset({Trait.SUMS}))
def MatMul(a: Numeric, b: Numeric, *, transpose_a: bool = False, transpose_b: bool = False):
    """The matrix product as numpy has it: leading axes are broadcast, a vector is a row of `a` or a column of `b`.

    A transposition swaps the last two axes, and leaves vectors alone.
    """
    a = np.swapaxes(a, -1, -2) if transpose_a and a.ndim > 1 else a
    b = np.swapaxes(b, -1, -2) if transpose_b and b.ndim > 1 else b
    return _product(a, b)


@MatMul.dimension
def _(node, axis, hops):
    plain = not node.attrs.get("transpose_a") and node.input(1).type.rank == 2
    return _row(node, axis, hops) if plain else None


def _row(node, axis, hops):
    """All axes but the last one are those of the first operand."""
    return of_first(node, axis, hops) if axis < (node.output.type.rank or 0) - 1 else None


@MatMul.shape
def _(a, b, *, transpose_a, transpose_b):
    def turned(shape: Shape | None, turn: bool) -> Shape | None:
        return (*shape[:-2], shape[-1], shape[-2]) if turn and shape is not None and len(shape) > 1 else shape

    _same_types(a, b)
    return a.type.with_shape(_product_shape(turned(a.shape, transpose_a), turned(b.shape, transpose_b), "MatMul"))


def _is_linear(wire: WireOp) -> bool:
    """A product that was written for Linear: the only one that says which type it computes in."""
    turned = (wire.field("transposeA", False), wire.field("transposeB", False))
    weight = wire.inputs[1]
    if turned != (False, True) or weight is None or weight.type.rank != 2:
        return False
    return len(wire.inputs) == 3 or (wire.field("T", "DT_INVALID") == "DT_FLOAT" and weight.is_const)


@MatMul.encode("MatMul", "BatchMatMul")
def _(node: Node) -> WireOp | None:
    attrs = bound(node)
    if node.input(0).type.dtype is not DType.F32 or any((v.type.rank or 0) < 2 for v in node.inputs if v is not None):
        return None
    main = {"transposeA": attrs["transpose_a"], "transposeB": attrs["transpose_b"]}
    return WireOp("MatMul", "MatMul", main, node.inputs)


@MatMul.decode
def _(wire: WireOp) -> Decoded:
    if len(wire.inputs) != 2 or wire.field("weight") is not None or _is_linear(wire):
        return None
    a, b = ("transposeA", "transposeB") if wire.type == "MatMul" else ("adjX", "adjY")
    return wire.inputs, {"transpose_a": wire.field(a, False), "transpose_b": wire.field(b, False)}


@MatMul.macs
def product_macs(at):
    """For each element of the result a row of the left operand; the same for all that multiply by a matrix."""
    a = at.input(0)
    transposed = at.attrs.get("transpose_a", False) and len(a) > 1
    return math.prod(at.output()) * a[-2 if transposed else -1]


@MatMul.samples
def _(rng):
    for a, b in (
        *(((3, 5), (5, 7)), ((1, 17), (17, 1)), ((2, 3, 5), (2, 5, 7)), ((2, 3, 5), (5, 7)), ((3, 5), (2, 5, 7))),
        *(((2, 1, 3, 5), (3, 5, 2)), ((5,), (5,)), ((5,), (5, 7)), ((3, 5), (5,))),
        *(((5,), (2, 5, 3)), ((2, 3, 5), (5,))),
        *(((0, 5), (5, 3)), ((3, 0), (0, 2)), ((0, 3, 5), (5, 2)), ((1, 67), (67, 33)), ((19, 33), (33, 17))),
    ):
        yield (a, b), {}
    yield ((5, 3), (5, 7)), {"transpose_a": True}
    yield ((3, 5), (7, 5)), {"transpose_b": True}
    yield ((2, 5, 3), (7, 5)), {"transpose_a": True, "transpose_b": True}
    yield ((2, 2, 3, 5), (2, 1, 7, 5)), {"transpose_b": True}
    yield ((5,), (7, 5)), {"transpose_a": True, "transpose_b": True}
    for dtype in (DType.F64, DType.I32, DType.I64):
        yield (fill(rng, (2, 3, 5), dtype), fill(rng, (5, 2), dtype)), {}


@op(traits=frozenset({Trait.SUMS}))
def Linear(
    x: Float,
    w: Float,
    bias: Float | None = None,
    residual: Float | None = None,
    *,
    activation: Activation = "",
    alpha: float | None = None,
    beta: float | None = None,
):
    """y = x w^T + bias on the last axis of `x`, with w[N, K] and bias[N].

    Then `residual`, of the shape of y, is added; then comes the activation, whose numbers are `alpha` and `beta`.
    """
    y = np.matmul(x.astype(np.float64), w.astype(np.float64).T)
    if bias is not None:
        y = y + bias.astype(np.float64)
    return finish(y, residual, activation, alpha, beta).astype(x.dtype)


Linear.dimension(_row)


@Linear.shape
def _(x, w, bias, residual, *, activation, alpha, beta):
    _same_types(x, w, bias)
    return finished(x.type.with_shape(_linear_shape(x, w, bias)), residual, activation, alpha, beta)


def _linear_shape(x: Arg, w: Arg, bias: Arg | None) -> Shape | None:
    if (w.rank is not None and w.rank != 2) or (bias is not None and bias.rank not in (None, 1)):
        raise ModelError("Linear needs a matrix w[N, K] and a vector bias[N]")
    if x.shape is None or w.shape is None:
        return None if x.shape is None else (*x.shape[:-1], "?")
    if not x.shape:
        raise ModelError("Linear does not take scalars")
    agree([x.shape[-1], w.shape[1]], "Linear: features of the input and columns of w")
    n = w.shape[0]
    if bias is not None and bias.shape is not None:
        n = agree([n, bias.shape[0]], "Linear: rows of w and bias")
    return (*x.shape[:-1], n)


# Neither an activation nor a residual has a place in the format's own product.
@Linear.encode("MatMul")
def _(node: Node) -> WireOp | None:
    x, w = node.input(0), node.input(1)
    if x.type.dtype is not DType.F32 or (x.type.rank or 0) < 2:
        return None
    if bound(node)["activation"] or node.has_input(RESIDUAL):
        return None
    if not node.has_input(2) and not w.is_const:
        return None
    if 0 in (w.type.shape or ()):  # over nothing, the format's runtime forgets the bias
        return None
    return WireOp("MatMul", "MatMul", {"T": "DT_FLOAT", "transposeB": True}, node.inputs)


@Linear.decode
def _(wire: WireOp) -> Decoded:
    return (wire.inputs, {}) if _is_linear(wire) and wire.field("weight") is None else None


Linear.macs(product_macs)


@Linear.samples
def _(rng):
    yield ((3, 5), (7, 5), (7,)), {}
    yield ((2, 3, 5), (7, 5)), {}
    yield ((1, 67), (33, 67), (33,)), {"activation": "relu"}
    yield ((2, 3, 17), (19, 17), (19,)), {"activation": "relu6"}
    yield ((5,), (3, 5), (3,)), {}
    yield ((0, 5), (3, 5), (3,)), {}
    yield ((2, 3, 0), (4, 0), (4,)), {}
    yield ((2, 1, 3, 1), (1, 1), (1,)), {}
    yield tuple(fill(rng, s, DType.F64) for s in ((3, 5), (2, 5), (2,))), {}
    shapes = (
        ((3, 5), (7, 5)),
        ((2, 3, 17), (19, 17)),
        ((1, 67), (33, 67)),
        ((5,), (3, 5)),
        ((0, 5), (3, 5)),
        ((2, 0), (3, 0)),
    )
    yield from finished_cases(rng, Linear, [((x, w, w[:1]), {}) for x, w in shapes])


@op()
def MatMulInteger(a: Int8, b: Int8, a_zero: Int8 | None = None, b_zero: Int8 | None = None):
    """The product of (a - a_zero) and (b - b_zero) in i32; a zero point per row of `a`, per column of `b`, or one."""
    left, right = a.astype(np.int32), b.astype(np.int32)
    if a_zero is not None:
        left = left - (a_zero[:, None] if a_zero.ndim == 1 and a_zero.size > 1 else a_zero).astype(np.int32)
    if b_zero is not None:
        right = right - b_zero.astype(np.int32)
    return np.matmul(left, right)


@MatMulInteger.shape
def _(a, b, a_zero, b_zero):
    for x, zero in ((a, a_zero), (b, b_zero)):
        _same_types(x, zero)
    return TensorType(DType.I32, _product_shape(a.shape, b.shape, "MatMulInteger"))


MatMulInteger.macs(product_macs)


@MatMulInteger.samples
def _(rng):
    def bytes_of(shape, dtype):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max + 1, shape).astype(dtype)

    for s, t in (np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8), (np.int8, np.uint8):
        a, b = bytes_of((3, 5), s), bytes_of((5, 7), t)
        yield (a, b), {}
        yield (a, b, bytes_of((), s), bytes_of((), t)), {}
        yield (a, b, bytes_of((1,), s), bytes_of((7,), t)), {}
    yield (bytes_of((2, 3, 17), np.uint8), bytes_of((17, 1), np.int8), None, bytes_of((1,), np.int8)), {}
    yield (bytes_of((2, 1, 3, 5), np.uint8), bytes_of((3, 5, 2), np.int8), bytes_of((), np.uint8)), {}
    yield (bytes_of((0, 5), np.uint8), bytes_of((5, 2), np.int8)), {}
    yield (bytes_of((3, 5), np.uint8), bytes_of((5, 2), np.int8), bytes_of((3,), np.uint8)), {}


@op(mnn=computes(simple("Det")))
def Det(x: Float):
    """Determinants of the square matrices in the last two axes."""
    return keep(np.linalg.det, x)


@Det.shape
def _(x):
    if x.shape is None:
        return x.type
    if len(x.shape) < 2:
        raise ModelError(f"Det needs matrices, not the shape {x.shape}")
    agree(x.shape[-2:], "Det needs square matrices")
    return x.type.with_shape(x.shape[:-2])


@Det.samples
def _(rng):
    for shape in (3, 3), (1, 1), (2, 5, 5), (2, 1, 4, 4), (0, 2, 2), (7, 7):
        yield (shape,), {}
    yield (np.array([[1, 2], [2, 4]], np.float32),), {}
    yield (fill(rng, (3, 3), DType.F64),), {}
