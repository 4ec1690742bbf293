"""Layers of quantized networks: on integers of 8 bits where MNN's runtime has them, else in floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.portable.arithmetic import scaled, sums, window_of
from minnow.optimizer.portable.sharing import LEAST_STORED
from minnow.optimizer.portable.translation import Rounding, Translation, computes, offset_of
from minnow.schema.ir import DType, Node, Value

Array = np.ndarray[Any, Any]
_BYTES = (DType.I8, DType.U8)


@computes("QuantizedConv")
def _(t: Translation, node: Node) -> None:
    if not _integer_conv(t, node):
        _float_layer(t, node, axis=1)


@computes("QuantizedMatMul")
def _(t: Translation, node: Node) -> None:
    if not _integer_product(t, node):
        _float_layer(t, node, axis=-1)


def _float_layer(t: Translation, node: Node, axis: int) -> None:
    total = sums(t, node)
    if node.has_input(4):
        total = t.b.Add(total, t.floats(node.input(4)))
    scaled(t, node, total, node.input(5), node.input(6) if node.has_input(6) else None)


def _number(node: Node, i: int) -> int | None:
    """A zero point: one constant number; None where there are several, or it is computed."""
    if not node.has_input(i):
        return 0
    array = node.input(i).array
    return int(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _end(t: Translation, node: Node) -> tuple[Array, Rounding] | None:
    """The factors of a layer (f64), and how its result is rounded; None where they are computed."""
    factor, last = node.input(5).array, node.input(6).array if node.has_input(6) else None
    to = node.output.type.dtype
    if factor is None or to not in _BYTES or (node.has_input(6) and last is None):
        return None
    scale, off = t.steps.scale(node.output), offset_of(to)
    if factor.dtype == np.float32:
        zero = 0 if last is None else int(last.reshape(-1)[0])
        return factor.astype(np.float64).reshape(-1), Rounding(scale, zero - off)
    assert last is not None
    number = factor.astype(np.float64) * 2.0 ** (last.astype(np.float64) - 31)
    a = node.attrs
    rounding = Rounding(scale, a.get("zero", 0) - off, a.get("min", 0) - off, a.get("max", 0) - off)
    return (number.reshape(-1), rounding) if -128 <= rounding.zero <= 127 else None


def _weights(node: Node, array: Array, outs: int) -> tuple[Array, Array] | None:
    """Weights of i8, and the integer that each output channel has for 0.0."""
    zeros = node.input(3).array if node.has_input(3) else np.zeros(1, np.int64)
    if zeros is None:
        return None
    off = offset_of(DType.of(array.dtype))
    each = np.broadcast_to(zeros.astype(np.int64).reshape(-1) - off, (outs,))
    return (array.astype(np.int16) - off).astype(np.int8), each


def _add_layer(t: Translation, node: Node, x: Value, weights: Array, common: dict[str, Any], shape: Any,
               x_rounding: Rounding) -> Value | None:  # fmt: skip
    """The convolution; None where its numbers are computed."""
    outs = weights.shape[0]
    end, made = _end(t, node), _weights(node, weights, outs)
    bias = node.input(4).array if node.has_input(4) else np.zeros(1, np.int64)
    if end is None or made is None or bias is None:
        return None
    (factor, rounding), (w, zeros) = end, made
    depthwise = common["group"] > 1
    if depthwise and zeros.any():
        return None  # MNN's runtime takes such weights for others
    factors = np.broadcast_to(factor, (outs,)) * rounding.scale
    alpha = (factors / x_rounding.scale).astype(np.float32)
    quan: dict[str, Any] = {"type": 4, "buffer": w.reshape(-1), "quantScale": 1.0, "aMaxOrBits": 8,
                            "scaleIn": x_rounding.scale, "scaleOut": rounding.scale}  # fmt: skip
    if zeros.any():
        # The number of the least integer, and the step, of each channel.
        alpha = np.stack([(-128 - zeros) * alpha, alpha], 1).astype(np.float32).reshape(-1)
        quan |= {"readType": outs, "aMin": -128}
    symmetric = {"method": "DEFAULT", "nbits": 8, "zeroPoint": x_rounding.zero, "outputZeroPoint": rounding.zero,
                 "clampMin": rounding.least, "clampMax": rounding.most, "outputDataType": "DT_INT8"}  # fmt: skip
    sums = np.broadcast_to(bias.astype(np.float64).reshape(-1), (outs,))
    main = {
        "common": {**common, "outputCount": outs},
        "bias": (_whole_bias(sums, factors, alpha, x_rounding, rounding) if depthwise else sums * factors).astype(
            np.float32
        ),
        "quanParameter": {**quan, "alpha": alpha},
        "symmetricQuan": symmetric,
    }
    kind = "ConvolutionDepthwise" if depthwise else "Convolution"
    t.made.in_integers[node.op] += 1
    return t.layer(kind, main, [x], [x_rounding, rounding], "Convolution2D", shape)


def _whole_bias(sums: Array, factors: Array, alpha: Array, x: Rounding, y: Rounding) -> Array:
    """Biases of which depthwise layers make the nearest whole numbers in MNN's runtime.

    It counts both the bias and the zero point of the result in units of the sums, and cuts off what is behind the
    points of these two numbers.

    Args:
        sums: the bias in these units.
        factors: the real that a unit stands for.
        alpha: the scales of the weights in the file.
        x, y: how input and result are rounded.
    """
    unit = alpha * np.float32(x.scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        added = np.trunc(np.float32(y.zero) / (unit / np.float32(y.scale)))
        whole = np.rint(sums + y.zero * y.scale / factors) - added
    # A quarter more, so that the quotient is not less than the number by an error of rounding.
    return np.where(np.isfinite(whole), (whole + 0.25 * np.sign(whole)) * unit.astype(np.float64), sums * factors)


def _integer_conv(t: Translation, node: Node) -> bool:
    x, w, zero = node.input(0), node.input(1).array, _number(node, 2)
    shape, group = x.type.shape, node.attrs.get("group", 1)
    if w is None or w.ndim != 4 or zero is None or shape is None or w.size == 0:
        return False
    outs, ins, kh, kw = w.shape
    if (group > 1 and (ins != 1 or outs != group)) or x.type.dtype not in _BYTES or 0 in (node.output.type.shape or ()):
        return False
    if _end(t, node) is None:
        return False
    window = window_of(node)
    pads = list(window["pads"])
    same = window.get("auto_pad", "")
    if same not in ("", "SAME_UPPER"):
        return False
    common: dict[str, Any] = {
        **dict(zip(("kernelY", "kernelX"), (kh, kw), strict=True)),
        **dict(zip(("strideY", "strideX"), node.attrs["strides"], strict=True)),
        **dict(zip(("dilateY", "dilateX"), node.attrs["dilations"], strict=True)),
        "padMode": "SAME" if same else "CAFFE",
        "group": group,
        "inputCount": ins * group,
        "relu": False,
        "relu6": False,
    }
    if not same:
        common |= {"padY": pads[0], "padX": pads[1], "pads": pads}
    real, rounding = t.rounded(x, zero)
    y = _add_layer(t, node, real, w, common, node.output.type.shape, rounding)
    if y is None:
        return False
    t.set_rounded(node.output, y, _ended(t, node))
    return True


def _ended(t: Translation, node: Node) -> Rounding:
    end = _end(t, node)
    assert end is not None
    return end[1]


def _integer_product(t: Translation, node: Node) -> bool:
    """A product with a constant matrix, as a convolution of images of one pixel."""
    x, w, zero = node.input(0), node.input(1).array, _number(node, 2)
    out = node.output.type.shape
    if w is None or w.ndim != 2 or zero is None or x.type.dtype not in _BYTES or out is None or 0 in out:
        return False
    if _end(t, node) is None or not w.size:
        return False
    ins, outs = w.shape
    common = {"kernelY": 1, "kernelX": 1, "strideY": 1, "strideX": 1, "dilateY": 1, "dilateX": 1, "padMode": "CAFFE",
              "group": 1, "inputCount": ins, "relu": False, "relu6": False, "padY": 0, "padX": 0,
              "pads": [0, 0, 0, 0]}  # fmt: skip
    outer = [d if isinstance(d, int) else -1 for d in out[:-1]]
    if outer.count(-1) > 1:
        return False
    rows = "?" if -1 in outer else int(np.prod(outer, dtype=np.int64))
    image, x_rounding = _pixels(t, x, zero, (rows, ins, 1, 1))
    columns = np.ascontiguousarray(w.T).reshape(outs, ins, 1, 1)
    y = _add_layer(t, node, image, columns, common, (rows, outs, 1, 1), x_rounding)
    if y is None:
        return False
    weights = node.input(1).data
    if weights is not None and w.size >= LEAST_STORED:
        t.made.turned.append(weights)
    rounding = _ended(t, node)
    steps = t.freed(y, 1.0 / rounding.scale)
    steps = steps if rounding.scale == 1.0 else t.b.Round(steps, halves="away")
    numbers = t.plus(steps, rounding.zero + offset_of(node.output.type.dtype))
    t.set_floats(node.output, t.b.Reshape(numbers, np.array([*outer, outs])))
    return True


def _pixels(t: Translation, x: Value, zero: int, shape: tuple[Any, ...]) -> tuple[Value, Rounding]:
    rounding = Rounding(t.steps.scale(x), zero - offset_of(x.type.dtype))
    image = t.b.Reshape(t.plus(t.floats(x), -zero), np.array([-1, *shape[1:]]))
    operands = [image, np.float32(rounding.scale)]
    main = {"opType": "MUL", "T": "DT_FLOAT"}
    return t.layer("BinaryOp", main, operands, [None, None, rounding], "BinaryOp", shape), rounding


@computes("QuantizedSum")
def _(t: Translation, node: Node) -> None:
    lines = t.steps.sums.get(node)
    a, b = node.input(0), node.input(4)
    attrs = node.attrs
    off = offset_of(node.output.type.dtype)
    zero = attrs.get("zero", 0)
    if lines is None or node.output.type.dtype not in _BYTES or not -128 <= zero - off <= 127:
        _float_sum(t, node)
        return
    (x, of_x), (y, of_y) = t.rounded(a, lines.first.zero), t.rounded(b, lines.second.zero)
    rounding = Rounding(t.steps.scale(node.output), zero - off, attrs.get("min", 0) - off, attrs.get("max", 0) - off)
    main = {"opType": "ADD", "T": "DT_FLOAT"}
    made = t.layer("BinaryOp", main, [x, y], [of_x, of_y, rounding], "BinaryOp", node.output.type.shape)
    t.set_rounded(node.output, made, rounding)
    t.made.in_integers[node.op] += 1


def _float_sum(t: Translation, node: Node) -> None:
    parts = []
    for x, table in ((node.input(0), node.input(3)), (node.input(4), node.input(5))):
        parts.append(t.b.Gather(t.floats(table), t.place(x), axis=0))
    scaled(t, node, t.b.Add(*parts), node.input(1), node.input(2))
