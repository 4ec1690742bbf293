"""Changes of element type, and none at all."""

from __future__ import annotations

import numpy as np

from minnow.schema.ir import DType, Node
from minnow.schema.ops.encoding import FROM_WIRE_DTYPE, WIRE_DTYPES, bound
from minnow.schema.ops.op import ELEMENTWISE, VIEW, Decoded, T, WireOp, fill, op

# What the format's runtime converts between; it knows bool as int32 that is 0 or 1.
_FROM = frozenset({DType.F32, DType.I32, DType.U8, DType.I8, DType.BOOL})
# What it has instead of the wider types.
_NARROWED = {
    DType.F64: DType.F32,
    DType.F16: DType.F32,
    DType.BF16: DType.F32,
    DType.I64: DType.I32,
    DType.I16: DType.I32,
    DType.U16: DType.I32,
}


@op(traits=ELEMENTWISE)
def Cast(x: T, *, to: DType):
    """x as another type. Floats become integers by truncation, integers wrap around, everything but 0 is true.

    A float beyond the integer's range gives anything, as in C.
    """
    return x.astype(to.numpy)


@Cast.shape
def _(x, *, to):
    return x.type.with_dtype(to)


@Cast.encode("Cast")
def _(node: Node) -> WireOp | None:
    source, to = node.input(0).type.dtype, bound(node)["to"]
    # What is i64 by definition, shapes and indices, is i32 in the file already.
    if (source not in _FROM or to not in _FROM) and (source, to) != (DType.I64, DType.I32):
        return None
    # To bool the runtime looks at the bits of floats, so that -0 is true, and leaves bytes as they are.
    if to is DType.BOOL and source not in (DType.I32, DType.BOOL):
        return None
    return WireOp("Cast", "CastParam", {"srcT": WIRE_DTYPES[source], "dstT": WIRE_DTYPES[to]}, node.inputs)


@Cast.decode
def _(wire: WireOp) -> Decoded:
    to = FROM_WIRE_DTYPE.get(wire.field("dstT", "DT_INVALID"))
    if to is None:
        return None
    return wire.inputs, {"to": _NARROWED.get(to, to)}


@Cast.samples
def _(rng):
    for source in DType:
        for to in DType:
            numbers = np.abs(fill(rng, (3, 7), DType.F64)) * 9
            yield (numbers.astype(source.numpy),), {"to": to}
    for shape in (), (0,), (2, 3, 5, 7), (1, 19, 3, 3):
        yield (fill(rng, shape),), {"to": DType.F16}
        yield (fill(rng, shape, DType.I64),), {"to": DType.F32}
    signs = np.array([-2.7, -0.5, -0.0, 0, 0.5, 2.7, 100.9], np.float32)
    yield (signs,), {"to": DType.I32}
    yield (signs,), {"to": DType.I64}
    yield (signs,), {"to": DType.I8}
    yield (np.array([0.0, -0.0, np.nan, np.inf, 1e-40], np.float32),), {"to": DType.BOOL}
    yield (np.array([1e-8, 6e-8, 65520, -70000, np.nan, np.inf, 2049, 2051], np.float32),), {"to": DType.F16}
    yield (np.array([1e-40, 3e38, np.inf, np.nan, 1.00390625, 1.01171875], np.float32),), {"to": DType.BF16}
    yield (np.array([-1, 255, 256, 2**31, 2**32 + 7, -(2**40)], np.int64),), {"to": DType.I32}
    yield (np.array([-1, 255, 256, 300], np.int32),), {"to": DType.U8}
    yield (np.array([2**24 + 1, -(2**31)], np.int32),), {"to": DType.F32}


@op(traits=ELEMENTWISE | VIEW)
def Identity(x: T):
    """y = x"""
    return x


# Dropout drops nothing outside of training.
@Identity.encode("Identity", "Dropout", "Copy")
def _(node: Node) -> WireOp | None:
    return WireOp("Identity", inputs=node.inputs)


@Identity.decode
def _(wire: WireOp) -> Decoded:
    return (wire.inputs, {}) if len(wire.inputs) == wire.n_outputs == 1 else None
