"""Math that the file format has no code for, in terms of math that it has."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from minnow.optimizer.facts.format import is_encodable
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder, get
from minnow.schema.registry.dimension import broadcast_to


@rewrite(lambda p, x: p.HardSigmoid(x), level=0)
def legalize_hard_sigmoid(b: Builder, m: Match) -> Value:
    """Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = HardSigmoid(%x) {alpha=0.5, beta=0.25}
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[4] = Mul(%x, f32[](0.5))
          %1: f32[4] = Add(%0, f32[](0.25))
          %y: f32[4] = Clip(%1) {min=0.0, max=1.0}
          return %y
        }
    """
    a = get("HardSigmoid").bind(1, m.root.attrs)
    return b.Clip(b.Add(b.Mul(m.x, a["alpha"]), a["beta"]), min=0.0, max=1.0)


@rewrite(lambda p, x: p.Softplus(x), level=0)
def legalize_softplus(b: Builder, m: Match) -> Value:
    """log(1 + e^x) as max(x, 0) + log1p(e^-|x|), which cannot overflow.

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Softplus(%x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[4] = Relu(%x)
          %1: f32[4] = Abs(%x)
          %2: f32[4] = Neg(%1)
          %3: f32[4] = Exp(%2)
          %4: f32[4] = Log1p(%3)
          %y: f32[4] = Add(%0, %4)
          return %y
        }
    """
    return b.Add(b.Relu(m.x), b.Log1p(b.Exp(b.Neg(b.Abs(m.x)))))


@rewrite(lambda p, x: p.Mish(x), level=0)
def legalize_mish(b: Builder, m: Match) -> Value:
    """x * tanh(log(1 + e^x)), which is x where e^x is too large for a float.

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Mish(%x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[4] = Exp(%x)
          %1: f32[4] = Log1p(%0)
          %2: f32[4] = Tanh(%1)
          %y: f32[4] = Mul(%x, %2)
          return %y
        }
    """
    return b.Mul(m.x, b.Tanh(b.Log1p(b.Exp(m.x))))


@rewrite(lambda p, x: p.Softsign(x), level=0)
def legalize_softsign(b: Builder, m: Match) -> Value:
    """x / (1 + |x|)

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Softsign(%x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[4] = Abs(%x)
          %1: f32[4] = Add(%0, f32[](1.0))
          %y: f32[4] = Div(%x, %1)
          return %y
        }
    """
    return b.Div(m.x, b.Add(b.Abs(m.x), 1.0))


@rewrite(lambda p, x: p.Celu(x), level=0)
def legalize_celu(b: Builder, m: Match) -> Value:
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1))

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Celu(%x) {alpha=2.0}
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[4] = Relu(%x)
          %1: f32[4] = Div(%x, f32[](2.0))
          %2: f32[4] = Expm1(%1)
          %3: f32[4] = Mul(%2, f32[](2.0))
          %4: f32[4] = Min(%3, f32[](0.0))
          %y: f32[4] = Add(%0, %4)
          return %y
        }
    """
    alpha = m.root.attrs.get("alpha", 1.0)
    return b.Add(b.Relu(m.x), b.Min(b.Mul(b.Expm1(b.Div(m.x, alpha)), alpha), 0.0))


@rewrite(lambda p, x: p.ThresholdedRelu(x), level=0)
def legalize_thresholded_relu(b: Builder, m: Match) -> Value:
    """x where x > alpha, else 0

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = ThresholdedRelu(%x) {alpha=2.0}
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: bool[4] = Greater(%x, f32[](2.0))
          %y: f32[4] = Where(%0, %x, f32[](0.0))
          return %y
        }
    """
    return b.Where(b.Greater(m.x, m.root.attrs.get("alpha", 1.0)), m.x, np.zeros((), m.x.type.dtype.numpy))


@rewrite(lambda p, x: p.Shrink(x), level=0)
def legalize_shrink(b: Builder, m: Match) -> Value | None:
    """x + bias below -lambd, x - bias above lambd, 0 between

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Shrink(%x) {bias=0.25}
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: bool[4] = Greater(%x, f32[](0.5))
          %1: f32[4] = Sub(%x, f32[](0.25))
          %2: f32[4] = Where(%0, %1, f32[](0.0))
          %3: bool[4] = Less(%x, f32[](-0.5))
          %4: f32[4] = Add(%x, f32[](0.25))
          %y: f32[4] = Where(%3, %4, %2)
          return %y
        }
    """
    if not m.x.type.dtype.is_float:
        return m.no("integers are left to the engine")
    a = get("Shrink").bind(1, m.root.attrs)
    zero = np.zeros((), m.x.type.dtype.numpy)
    inner = b.Where(b.Greater(m.x, a["lambd"]), b.Sub(m.x, a["bias"]), zero)
    return b.Where(b.Less(m.x, -a["lambd"]), b.Add(m.x, a["bias"]), inner)


@rewrite(lambda p, x: p.Not(x), level=0)
def legalize_not(b: Builder, m: Match) -> Value:
    """Given:
        graph g(%x: bool[4]) {
          %y: bool[4] = Not(%x)
          return %y
        }
    Result:
        graph g(%x: bool[4]) {
          %0: i32[4] = Cast(%x) {to=i32}
          %y: bool[4] = Equal(%0, i32[](0))
          return %y
        }
    """
    return b.Equal(b.Cast(m.x, to=DType.I32), np.int32(0))


@rewrite(lambda p, x: p.Cast(x, to=DType.BOOL), level=0)
def legalize_cast_bool(b: Builder, m: Match) -> Value:
    """Runtimes of the format keep the number in a cast to bool; a comparison makes it 0 or 1.

    Given:
        graph g(%x: f32[4]) {
          %y: bool[4] = Cast(%x) {to=bool}
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: bool[4] = NotEqual(%x, f32[](0.0))
          return %y
        }
    """
    if m.x.type.dtype is DType.BOOL:
        return m.x
    return b.NotEqual(m.x, np.zeros((), m.x.type.dtype.numpy))


@rewrite(lambda p, x: p.Cast(x, to=DType.I8), level=0)
def legalize_cast_bytes(b: Builder, m: Match) -> Value | None:
    """Runtimes of the format have no cast between the two kinds of bytes in this direction.

    Given:
        graph g(%x: u8[4]) {
          %y: i8[4] = Cast(%x) {to=i8}
          return %y
        }
    Result:
        graph g(%x: u8[4]) {
          %0: i32[4] = Cast(%x) {to=i32}
          %y: i8[4] = Cast(%0) {to=i8}
          return %y
        }
    """
    if m.x.type.dtype is not DType.U8:
        return m.no("it is not made of u8")
    return b.Cast(b.Cast(m.x, to=DType.I32), to=DType.I8)


@rewrite(lambda p, x: p.Clip(x), level=0)
def legalize_clip(b: Builder, m: Match) -> Value | None:
    """Clip of integers as Max and Min.

    Given:
        graph g(%x: i32[4]) {
          %y: i32[4] = Clip(%x) {min=-1.5, max=3.0}
          return %y
        }
    Result:
        graph g(%x: i32[4]) {
          %0: i32[4] = Max(%x, i32[](-1))
          %y: i32[4] = Min(%0, i32[](3))
          return %y
        }
    """
    if is_encodable(m.root):
        return m.no("the format has it")
    a = get("Clip").bind(1, m.root.attrs)
    dtype, y = m.x.type.dtype, m.x
    info = np.iinfo(dtype.numpy) if dtype.is_int else ml_dtypes.finfo(dtype.numpy)
    if dtype.is_int:  # bounds beyond the type, as negative ones of unsigned numbers, are those of the type
        a |= {"min": min(np.ceil(a["min"]), float(info.max)), "max": max(np.floor(a["max"]), float(info.min))}
    if a["min"] > float(info.min):
        y = b.Max(y, np.asarray(a["min"], dtype.numpy))
    if a["max"] < float(info.max):
        y = b.Min(y, np.asarray(a["max"], dtype.numpy))
    return y if y is not m.x else b.Identity(m.x)


@rewrite(lambda p, x, slope: p.PRelu(x, slope), level=0)
def legalize_prelu(b: Builder, m: Match) -> Value | None:
    """slope * x where x is negative, x elsewhere, where the slope is not one number per channel.

    Given:
        graph g(%x: f32[2,4], %s: f32[4]) {
          %y: f32[2,4] = PRelu(%x, %s)
          return %y
        }
    Result:
        graph g(%x: f32[2,4], %s: f32[4]) {
          %0: bool[2,4] = Less(%x, f32[](0.0))
          %1: f32[2,4] = Mul(%x, %s)
          %y: f32[2,4] = Where(%0, %1, %x)
          return %y
        }
    """
    if is_encodable(m.root):
        return m.no("the format has it")
    return b.Where(b.Less(m.x, np.zeros((), m.x.type.dtype.numpy)), b.Mul(m.x, m.slope), m.x)


@rewrite(lambda p, x: p.LogSoftmax(x), level=0)
def legalize_log_softmax(b: Builder, m: Match) -> Value:
    """x - max - log(sum(exp(x - max)))

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = LogSoftmax(%x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[1] = ReduceMax(%x) {axes=(-1,)}
          %1: f32[4] = Sub(%x, %0)
          %2: f32[4] = Exp(%1)
          %3: f32[1] = ReduceSum(%2) {axes=(-1,)}
          %4: f32[1] = Log(%3)
          %y: f32[4] = Sub(%1, %4)
          return %y
        }
    """
    axis = (m.root.attrs.get("axis", -1),)
    shifted = b.Sub(m.x, b.ReduceMax(m.x, axes=axis))
    return b.Sub(shifted, b.Log(b.ReduceSum(b.Exp(shifted), axes=axis)))


@rewrite(
    lambda p, x: (
        p.ReduceL1(x, ...)
        | p.ReduceL2(x, ...)
        | p.ReduceLogSum(x, ...)
        | p.ReduceLogSumExp(x, ...)
        | p.ReduceSumSquare(x, ...)
    ),
    level=0,
)
def legalize_reduction(b: Builder, m: Match) -> Value | None:
    """Norms and logarithms of sums in terms of ReduceSum.

    Given:
        graph g(%x: f32[2,4]) {
          %y: f32[2] = ReduceLogSumExp(%x) {axes=(1,), keepdims=False}
          return %y
        }
    Result:
        graph g(%x: f32[2,4]) {
          %0: f32[2,1] = ReduceMax(%x) {axes=(1,)}
          %1: f32[2,1] = Abs(%0)
          %2: bool[2,1] = Less(%1, f32[](inf))
          %3: f32[2,1] = Where(%2, %0, f32[](0.0))
          %4: f32[2,4] = Sub(%x, %3)
          %5: f32[2,4] = Exp(%4)
          %6: f32[2,1] = ReduceSum(%5) {axes=(1,)}
          %7: f32[2,1] = Log(%6)
          %8: f32[2,1] = Add(%7, %3)
          %y: f32[2] = Squeeze(%8) {axes=(1,)}
          return %y
        }
    """
    if m.x.type.dtype not in (DType.F32, DType.I32):
        return m.no("the format has no sums of that type")
    a = {"axes": m.root.attrs.get("axes"), "keepdims": m.root.attrs.get("keepdims", True)}
    at = m.root.inputs[1:]  # the axes, where they are computed
    match m.root.op:
        case "ReduceL1":
            return b.ReduceSum(b.Abs(m.x), *at, **a)
        case "ReduceL2":
            return b.Sqrt(b.ReduceSum(b.Square(m.x), *at, **a)) if m.x.type.dtype.is_float else m.no("integers")
        case "ReduceSumSquare":
            return b.ReduceSum(b.Square(m.x), *at, **a)
        case "ReduceLogSum":
            return b.Log(b.ReduceSum(m.x, *at, **a))
        case _:
            top = b.ReduceMax(m.x, *at, axes=a["axes"], keepdims=True)
            # An infinite maximum would make NaN of inf - inf.
            safe = b.Where(b.Less(b.Abs(top), np.float32(np.inf)), top, np.float32(0))
            total = b.Log(b.ReduceSum(b.Exp(b.Sub(m.x, safe)), *at, axes=a["axes"], keepdims=True))
            y = b.Add(total, safe)
            if a["keepdims"]:
                return y
            return b.Squeeze(y, *at) if at else b.Squeeze(y, axes=_all_axes(m.x) if a["axes"] is None else a["axes"])


def _all_axes(x: Value) -> tuple[int, ...] | None:
    return None if x.type.rank is None else tuple(range(x.type.rank))


@rewrite(lambda p, x: p.ArgMax(x) | p.ArgMin(x), level=0)
def legalize_arg(b: Builder, m: Match) -> Value | None:
    """The format's form drops the axis; an Unsqueeze brings it back.

    Given:
        graph g(%x: f32[4,3]) {
          %y: i64[4,1] = ArgMax(%x) {axis=1}
          return %y
        }
    Result:
        graph g(%x: f32[4,3]) {
          %0: i64[4] = ArgMax(%x) {axis=1, keepdims=False}
          %1: i32[4] = Cast(%0) {to=i32}
          %2: i32[4,1] = Unsqueeze(%1) {axes=(1,)}
          %y: i64[4,1] = Cast(%2) {to=i64}
          return %y
        }
    """
    if not m.root.attrs.get("keepdims", True) or m.root.attrs.get("select_last_index", False):
        return m.no("it has the form of the format, or none")
    axis = m.root.attrs.get("axis", 0)
    flat = b.node(m.root.op, [m.x], {**m.root.attrs, "keepdims": False}).output
    rank = m.x.type.rank
    if axis < 0 and rank is None:
        return m.no("the rank is not known")
    # The format computes with 32 bits.
    places = b.Cast(flat, to=DType.I32)
    return b.Cast(b.Unsqueeze(places, axes=(axis if axis >= 0 else axis + (rank or 0),)), to=DType.I64)


@rewrite(lambda p, x: p.Relu(x), level=0)
def legalize_relu(b: Builder, m: Match) -> Value | None:
    """Relu of integers as a maximum.

    Given:
        graph g(%x: i32[4]) {
          %y: i32[4] = Relu(%x)
          return %y
        }
    Result:
        graph g(%x: i32[4]) {
          %y: i32[4] = Max(%x, i32[](0))
          return %y
        }
    """
    if m.x.type.dtype.is_float:
        return m.no("the format has it for floats")
    return b.Max(m.x, 0)


@rewrite(lambda p, x: p.BitwiseNot(x), level=0)
def legalize_bitwise_not(b: Builder, m: Match) -> Value | None:
    """-1 - x, in two's complement

    Given:
        graph g(%x: i32[4]) {
          %y: i32[4] = BitwiseNot(%x)
          return %y
        }
    Result:
        graph g(%x: i32[4]) {
          %y: i32[4] = Sub(i32[](-1), %x)
          return %y
        }
    """
    if m.x.type.dtype is not DType.I32:
        return m.no("the format computes with 32 bits")
    return b.Sub(np.int32(-1), m.x)


@rewrite(lambda p, x, y: p.Equal(x, y) | p.NotEqual(x, y), level=0)
def legalize_equal(b: Builder, m: Match) -> Value | None:
    """Floats are equal when neither is larger; runtimes of the format compare their bits, those of NaN and -0 too.

    Given:
        graph g(%x: f32[4], %y: f32[4]) {
          %z: bool[4] = NotEqual(%x, %y)
          return %z
        }
    Result:
        graph g(%x: f32[4], %y: f32[4]) {
          %0: bool[4] = LessOrEqual(%x, %y)
          %1: bool[4] = GreaterOrEqual(%x, %y)
          %2: bool[4] = And(%0, %1)
          %z: bool[4] = Not(%2)
          return %z
        }
    """
    if is_encodable(m.root) or m.x.type.dtype is not DType.F32:
        return m.no("the format has it, or does not have the type")
    same = b.And(b.LessOrEqual(m.x, m.y), b.GreaterOrEqual(m.x, m.y))
    return same if m.root.op == "Equal" else b.Not(same)


@rewrite(lambda p, x: p.IsNaN(x) | p.IsInf(x), level=0)
def legalize_special(b: Builder, m: Match) -> Value | None:
    """NaN is not even equal to itself; infinities are numbers like others.

    Given:
        graph g(%x: f32[4]) {
          %y: bool[4] = IsInf(%x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[4] = Abs(%x)
          %y: bool[4] = Equal(%0, f32[](inf))
          return %y
        }
    """
    if m.x.type.dtype is not DType.F32:
        return m.no("the format computes with f32")
    if m.root.op == "IsNaN":
        return b.Not(b.LessOrEqual(m.x, m.x))
    a = get("IsInf").bind(1, m.root.attrs)
    if a["detect_negative"] and a["detect_positive"]:
        return b.Equal(b.Abs(m.x), np.inf)
    if not (a["detect_negative"] or a["detect_positive"]):
        return m.no("it detects nothing")
    return b.Equal(m.x, np.inf if a["detect_positive"] else -np.inf)


@rewrite(lambda p, x, y: p.Less(x, y) | p.LessOrEqual(x, y) | p.Greater(x, y) | p.GreaterOrEqual(x, y), level=0)
def legalize_comparison(b: Builder, m: Match) -> Value | None:
    """One operand in the shape of the result: runtimes of the format need that to order negative floats.

    Given:
        graph g(%x: f32[3,1], %y: f32[1,4]) {
          %z: bool[3,4] = Less(%x, %y)
          return %z
        }
    Result:
        graph g(%x: f32[3,1], %y: f32[1,4]) {
          %0: f32[3,4] = Expand(%x, i32[2](3, 4))
          %z: bool[3,4] = Less(%0, %y)
          return %z
        }
    """
    if is_encodable(m.root) or m.x.type.dtype is not DType.F32:
        return m.no("the format has it, or does not have the type")
    shape = m.root.output.type
    if not shape.is_static or not all(broadcast_to(v.type.shape, shape.shape) for v in (m.x, m.y)):
        return m.no("the shape of the result, or of an operand, is not known")
    return b.node(m.root.op, [b.Expand(m.x, np.array(shape.static_shape, np.int32)), m.y], {}).output


@rewrite(lambda p, c, x, y: p.Where(c, x, y), level=0)
def legalize_where(b: Builder, m: Match) -> Value | None:
    """The second choice in the shape of the result: runtimes of the format do not broadcast it.

    Given:
        graph g(%c: bool[3,1], %x: f32[3,4], %y: f32[4]) {
          %z: f32[3,4] = Where(%c, %x, %y)
          return %z
        }
    Result:
        graph g(%c: bool[3,1], %x: f32[3,4], %y: f32[4]) {
          %0: f32[3,4] = Expand(%y, i32[2](3, 4))
          %z: f32[3,4] = Where(%c, %x, %0)
          return %z
        }
    """
    shape = m.root.output.type
    if is_encodable(m.root) or m.y.type.shape == shape.shape:
        return m.no("the format has it, or does not have the type")
    if not shape.is_static or not all(broadcast_to(v.type.shape, shape.shape) for v in (m.c, m.x, m.y)):
        return m.no("the shape of the result, or of an operand, is not known")
    return b.Where(m.c, m.x, b.Expand(m.y, np.array(shape.static_shape, np.int32)))


@rewrite(lambda p, x, y: p.MatMul(x, y, as_="product"), level=0)
def legalize_vector_product(b: Builder, m: Match) -> Value | None:
    """A vector is a matrix of one row, or one column.

    Given:
        graph g(%x: f32[4], %y: f32[2,4,3]) {
          %z: f32[2,3] = MatMul(%x, %y)
          return %z
        }
    Result:
        graph g(%x: f32[4], %y: f32[2,4,3]) {
          %0: f32[1,4] = Unsqueeze(%x) {axes=(0,)}
          %1: f32[2,1,3] = MatMul(%0, %y)
          %z: f32[2,3] = Squeeze(%1) {axes=(-2,)}
          return %z
        }
    """
    ranks = (m.x.type.rank, m.y.type.rank)
    if 1 not in ranks or None in ranks:
        return m.no("neither is a vector, or a rank is not known")
    attrs = m.product.attrs
    x = b.Unsqueeze(m.x, axes=(0,)) if ranks[0] == 1 else m.x
    y = b.Unsqueeze(m.y, axes=(1,)) if ranks[1] == 1 else m.y
    turned = {f"transpose_{k}": attrs.get(f"transpose_{k}", False) and r != 1 for k, r in zip("ab", ranks, strict=True)}
    z = b.MatMul(x, y, **turned)
    gone = tuple(axis for axis, rank in zip((-2, -1), ranks, strict=True) if rank == 1)
    return b.Squeeze(z, axes=gone)


@rewrite(lambda p, x: p.Linear(x, ..., activation="", as_="linear"), level=0)
def legalize_vector_linear(b: Builder, m: Match) -> Value | None:
    """A vector is a matrix of one row.

    Given:
        graph g(%x: f32[2]) {
          %y: f32[1] = Linear(%x, f32[1,2](1.0, 2.0))
          return %y
        }
    Result:
        graph g(%x: f32[2]) {
          %0: f32[1,2] = Unsqueeze(%x) {axes=(0,)}
          %1: f32[1,1] = Linear(%0, f32[1,2](1.0, 2.0))
          %y: f32[1] = Squeeze(%1) {axes=(0,)}
          return %y
        }
    """
    if m.x.type.rank != 1:
        return m.no("it is no vector")
    w, bias, residual = (*m.linear.inputs[1:], None, None)[:3]
    added = None if residual is None else b.Unsqueeze(residual, axes=(0,))
    rows = b.node("Linear", [b.Unsqueeze(m.x, axes=(0,)), w, bias, added], {}).output
    return b.Squeeze(rows, axes=(0,))
