"""Layers of quantized networks in one node each: exact sums in i32, a bias, and the way to few bits."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ir.type import Shape
from minnow.schema.ops.convolution import conv_macs
from minnow.schema.ops.convolution_integer import ConvInteger
from minnow.schema.ops.epilogue import Activation, finish, finished
from minnow.schema.ops.fixed_point import Int32, Narrow, Requantize, wrapped
from minnow.schema.ops.matmul import Int8, MatMulInteger, product_macs
from minnow.schema.ops.quantize import DynamicQuantizeLinear, Float32, QuantizeLinear
from minnow.schema.ops.special import Array
from minnow.schema.ops.window import AutoPad
from minnow.schema.registry.op import ROUNDING, Arg, fill, op

Factor = Annotated[np.ndarray[Any, Any], frozenset({DType.I32, DType.F32})]
Last = Annotated[np.ndarray[Any, Any], frozenset({DType.I32, DType.I8, DType.U8})]


def _ended(total: Array, bias: Array | None, factor: Array | None, last: Array | None, **attrs: Any) -> Array:
    """The sums, with what is added, as results."""
    assert factor is not None  # the type of the node says so
    if bias is not None:
        total = wrapped(total.astype(np.int64) + bias).astype(np.int32)
    if factor.dtype == np.int32:
        return Requantize.evaluate([total, factor, last], attrs)[0]
    product = (total.astype(np.float32) * factor).astype(np.float32)
    return QuantizeLinear.evaluate([product, np.float32(1), last], {"to": attrs["to"]})[0]


@op(traits=ROUNDING)
def QuantizedConv(
    x: Int8,
    w: Int8,
    x_zero: Int8 | None = None,
    w_zero: Int8 | None = None,
    bias: Int32 | None = None,
    factor: Factor | None = None,
    last: Last | None = None,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    group: int = 1,
    auto_pad: AutoPad = "",
    zero: int = 0,
    to: DType,
    min: int = 0,
    max: int = 0,
):
    """`ConvInteger`, plus `bias`, as small integers: by `Requantize`, or by a product with a float that is rounded.

    With a `factor` of i32 `last` holds the shifts, and `zero`, `min` and `max` are those of Requantize. With one of f32
    the result is saturate(round(sum * factor) + last), halves to even, where `last` is one zero point of the type `to`,
    8 bits. `bias`, `factor` and shifts hold one number, or one for each channel, in the shape [O, 1, ...].
    """
    window = {"strides": strides, "pads": pads, "dilations": dilations, "group": group, "auto_pad": auto_pad}
    (total,) = ConvInteger.evaluate([x, w, x_zero, w_zero], window)
    return _ended(total, bias, factor, last, zero=zero, to=to, min=min, max=max)


@op(traits=ROUNDING)
def QuantizedMatMul(
    a: Int8,
    b: Int8,
    a_zero: Int8 | None = None,
    b_zero: Int8 | None = None,
    bias: Int32 | None = None,
    factor: Factor | None = None,
    last: Last | None = None,
    *,
    zero: int = 0,
    to: DType,
    min: int = 0,
    max: int = 0,
):
    """`MatMulInteger`, plus `bias`, as small integers, in the ways of QuantizedConv.

    `bias`, `factor` and shifts hold one number, or one for each column.
    """
    (total,) = MatMulInteger.evaluate([a, b, a_zero, b_zero], {})
    return _ended(total, bias, factor, last, zero=zero, to=to, min=min, max=max)


@op(traits=ROUNDING)
def DynamicLinear(
    x: Float32,
    w: Int8,
    bias: Float32 | None = None,
    residual: Float32 | None = None,
    scale: Float32 | None = None,
    zero: Int8 | None = None,
    *,
    steps: int = 0,
    activation: Activation = "",
    alpha: float | None = None,
    beta: float | None = None,
):
    """A layer with weights[K, N] of 8 bits, whose input is quantized by its own range: as `DynamicQuantizeLinear` does.

    The sums of `MatMulInteger` are multiplied by the scale of the input times `scale`, and `bias` is added; `scale`,
    which is needed, and the zero points of the weights are one number, or one for each column. Then `residual` is
    added, and the activation applied, as in `Linear`.
    """
    assert scale is not None  # the type of the node says so
    numbers, step, middle = DynamicQuantizeLinear.evaluate([x], {"steps": steps})
    (total,) = MatMulInteger.evaluate([numbers, w, middle, zero], {})
    y = total.astype(np.float32) * (step * scale.reshape(-1))
    if bias is not None:
        y = y + bias
    return finish(y.astype(np.float64), residual, activation, alpha, beta).astype(np.float32)


@op(traits=ROUNDING)
def QuantizedSum(
    a: Narrow,
    factor: Int32,
    shift: Int32,
    a_table: Int32,
    b: Narrow,
    b_table: Int32,
    *,
    zero: int = 0,
    to: DType,
    min: int,
    max: int,
):
    """The sum of two tables' numbers at `a` and `b`, as `LookUp` finds them, as small integers by `Requantize`."""
    one, other = (t[v.astype(np.int64) - np.iinfo(v.dtype).min] for v, t in ((a, a_table), (b, b_table)))
    total = wrapped(one.astype(np.int64) + other).astype(np.int32)
    return Requantize.evaluate([total, factor, shift], {"zero": zero, "to": to, "min": min, "max": max})[0]


def is_along(shape: Shape | None, whole: Shape | None, axis: int) -> bool:
    """One number, or one for each place along an axis of `whole`, which is counted from the end."""
    if shape is None or whole is None or len(shape) > len(whole):
        return False
    if all(d == 1 for d in shape):
        return True
    return len(shape) >= -axis and all(d == (whole[axis] if i == len(shape) + axis else 1) for i, d in enumerate(shape))


def _result(total: TensorType, bias: Arg | None, factor: Arg | None, last: Arg | None, axis: int, **attrs: Any) -> Any:
    """The type of the result, when everything fits."""
    if factor is None:
        raise ModelError("a quantized layer needs the factor of its result")
    for operand, what in ((bias, "bias"), (factor, "factors")):
        if operand is not None and not is_along(operand.shape, total.shape, axis):
            raise ModelError(f"{what} of shape {operand.shape} cannot be broadcast to sums of shape {total.shape}")
    if factor.dtype is DType.I32:
        if last is None:
            raise ModelError("multipliers need shifts beside them")
        return Requantize.infer([Arg(total), factor, last], attrs, 1)[0]
    if attrs["to"] not in (DType.I8, DType.U8):
        raise ModelError(f"with a float factor the result is i8 or u8, not {attrs['to']}")
    if last is not None and (last.dtype is not attrs["to"] or any(d != 1 for d in last.shape or ())):
        raise ModelError(f"the zero point is {last.type}, it must be one number of type {attrs['to']}")
    return total.with_dtype(attrs["to"])


@QuantizedConv.shape
def _(x, w, x_zero, w_zero, bias, factor, last, *, zero, to, min, max, **window):
    (total,) = ConvInteger.infer([x, w, x_zero, w_zero], window, 1)
    axis = 1 - len(total.shape or (0, 0))
    return _result(total, bias, factor, last, axis, zero=zero, to=to, min=min, max=max)


@QuantizedMatMul.shape
def _(a, b, a_zero, b_zero, bias, factor, last, **attrs):
    (total,) = MatMulInteger.infer([a, b, a_zero, b_zero], {}, 1)
    if total.shape is not None and len(total.shape) < 2:
        raise ModelError(f"the product has the shape {total.shape}: it needs two axes or more")
    if b.shape is not None and len(b.shape) < 2:
        raise ModelError(f"the right operand has the shape {b.shape}: it needs rows and columns")
    return _result(total, bias, factor, last, -1, **attrs)


@DynamicLinear.shape
def _(x, w, bias, residual, scale, zero, *, steps, activation, alpha, beta):
    numbers, _, middle = DynamicQuantizeLinear.infer([x], {"steps": steps}, 3)
    if x.shape == () or (w.shape is not None and len(w.shape) != 2):
        raise ModelError(f"DynamicLinear cannot multiply {x.type} with weights of type {w.type}")
    (total,) = MatMulInteger.infer([Arg(numbers), w, Arg(middle), zero], {}, 1)
    columns = "?" if w.shape is None else w.shape[1]
    for operand, what in ((scale, "scale"), (zero, "zero point"), (bias, "bias")):
        dims = None if operand is None else operand.shape
        if (operand is None and what == "scale") or (
            dims is not None and not (dims in ((columns,), ("?",)) or (what != "bias" and all(d == 1 for d in dims)))
        ):
            raise ModelError(f"the {what} of a layer with {columns} columns has the shape {dims}")
    return finished(total.with_dtype(DType.F32), residual, activation, alpha, beta)


@QuantizedSum.shape
def _(a, factor, shift, a_table, b, b_table, **attrs):
    for v, table in ((a, a_table), (b, b_table)):
        if table.shape not in (None, (1 << v.dtype.bits,), ("?",)):
            raise ModelError(f"a table for numbers of type {v.dtype} cannot have the shape {table.shape}")
    shape = a.shape if a.shape is not None else b.shape
    if None not in (a.shape, b.shape) and (len(a.shape) != len(b.shape) or any(
        isinstance(p, int) and isinstance(q, int) and p != q for p, q in zip(a.shape, b.shape, strict=True)
    )):  # fmt: skip
        raise ModelError(f"{a.type} and {b.type} cannot be added")
    return Requantize.infer([Arg(TensorType(DType.I32, shape)), factor, shift], attrs, 1)[0]


def _limits(to: DType) -> Any:
    numpy: Any = to.numpy
    return np.iinfo(numpy)


def _bytes(rng: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def _fixed(rng: Any, shape: tuple[int, ...], low: int = -9, high: int = -3) -> tuple[Array, Array]:
    multipliers = rng.integers(2**30, 2**31, shape).astype(np.int32)
    return multipliers, rng.integers(low, high, shape).astype(np.int32)


QuantizedConv.macs(conv_macs)
QuantizedMatMul.macs(product_macs)
DynamicLinear.macs(product_macs)


@QuantizedConv.samples
def _(rng):
    def case(x, w, to=DType.I8, each=True, bias=True, zeros=True, fixed=True, types=(np.uint8, np.int8), **more):
        n, o = len(x) - 2, w[0]
        shape = (o, *(1,) * n) if each else ()
        window = {"strides": (1,) * n, "pads": (0,) * 2 * n, "dilations": (1,) * n, **more}
        add = rng.integers(-5000, 5000, shape).astype(np.int32) if bias else None
        x_zero = _bytes(rng, (), types[0]) if zeros else None
        info = _limits(to)
        if fixed:
            ends = {"zero": 3, "min": info.min, "max": info.max}
            return (_bytes(rng, x, types[0]), _bytes(rng, w, types[1]), x_zero, None, add, *_fixed(rng, shape)), {
                **window, **ends, "to": to
            }  # fmt: skip
        scale = (rng.random(shape) * 0.01 + 0.001).astype(np.float32)
        return (_bytes(rng, x, types[0]), _bytes(rng, w, types[1]), x_zero, None, add, scale,
                np.asarray(5).astype(to.numpy) if zeros else None), {**window, "to": to}  # fmt: skip

    for fixed in (True, False):
        yield case((1, 5, 7, 9), (11, 5, 3, 3), fixed=fixed)
        yield case((2, 17, 5, 5), (33, 17, 1, 1), to=DType.U8, fixed=fixed, each=False)
        yield case((1, 19, 9, 7), (19, 1, 3, 3), group=19, pads=(1, 1, 1, 1), fixed=fixed)
        yield case((1, 6, 8, 8), (4, 3, 3, 3), group=2, strides=(2, 2), bias=False, fixed=fixed)
        yield case((1, 3, 13), (7, 3, 5), zeros=False, types=(np.int8, np.int8), fixed=fixed)
    yield case((1, 4, 6, 6), (3, 4, 2, 2), to=DType.I16)
    yield case((1, 4, 6, 6), (3, 4, 2, 2), to=DType.I32)
    yield case((0, 4, 6, 6), (3, 4, 2, 2))


@QuantizedMatMul.samples
def _(rng):
    for a, b in ((3, 17), (17, 5)), ((2, 1, 33), (33, 67)), ((1, 7), (7, 1)), ((0, 5), (5, 3)), ((4, 3, 5), (4, 5, 6)):
        for each in (True, False):
            shape = (b[-1],) if each else ()
            operands = (_bytes(rng, a, np.int8), _bytes(rng, b, np.int8), _bytes(rng, (), np.int8), None)
            bias = rng.integers(-5000, 5000, shape).astype(np.int32) if each else None
            yield (*operands, bias, *_fixed(rng, shape)), {"zero": -3, "to": DType.I8, "min": -128, "max": 100}
            scale = (rng.random(shape) * 0.01 + 0.001).astype(np.float32)
            yield (*operands, bias, scale, np.int8(-7)), {"to": DType.I8}
            yield (*operands, bias, scale), {"to": DType.U8}


@QuantizedSum.samples
def _(rng):
    for kind, to in (np.int8, DType.I8), (np.uint8, DType.U8), (np.int8, DType.I16), (np.uint8, DType.I32):
        tables = [rng.integers(-(2**20), 2**20, 256).astype(np.int32) for _ in range(2)]
        for shape in (2, 3, 5, 7), (131,), (), (0, 3):
            a, b = _bytes(rng, shape, kind), _bytes(rng, shape, kind)
            info = _limits(to)
            ends = {"zero": 3, "min": info.min, "max": info.max}
            yield (a, *_fixed(rng, (), -14, -10), tables[0], b, tables[1]), {**ends, "to": to}


@DynamicLinear.samples
def _(rng):
    def case(x, columns, dtype=np.int8, each=False, zero=False, bias=True, residual=False, **attrs):
        shape = (columns,) if each else ()
        more = [fill(rng, (columns,)) if bias else None, fill(rng, (*x[:-1], columns)) if residual else None]
        scale = (rng.random(shape) * 0.01 + 0.001).astype(np.float32)
        return (fill(rng, x), _bytes(rng, (x[-1], columns), dtype), *more, scale,
                _bytes(rng, shape, dtype) if zero else None), attrs  # fmt: skip

    yield case((2, 7, 17), 33)
    yield case((5, 64), 19, np.uint8, zero=True, steps=127)
    yield case((1, 3, 5, 31), 40, each=True, zero=True, residual=True)
    yield case((67, 33), 17, bias=False, residual=True, activation="relu")
    yield case((3, 20), 21, activation="gelu", steps=255)
    yield case((3, 20), 21, activation="clip", alpha=-1.0, beta=0.5)
    yield case((13,), 7, each=True)
    yield case((0, 4), 3)
    yield case((1, 1), 1, zero=True)
