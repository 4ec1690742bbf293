"""Layers and functions of images: convolution, pooling, resizing, regions, quantization.

As in MNN, pairs of strides, padding, dilation and kernel sizes are (x, y): width first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.expr.argument import flag, floats, int64s, integer, integers, number
from minnow.expr.constant import (
    BILINEAR,
    NC4HW4,
    NHWC,
    VALID,
    Interp_Method,
    Padding_Mode,
    Pooling_Mode,
)
from minnow.expr.elementwise import add, divide, maximum, multiply, sqrt, square, subtract
from minnow.expr.layout import convert
from minnow.expr.movement import as_image, channels_first
from minnow.expr.names import named
from minnow.expr.operation import apply, apply_one, common_type
from minnow.expr.reduction import reduce_sum
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError

_CAFFE_POOLING = (
    "Pairs are (x, y); expr.CAFFE rounds sizes up, without windows that begin behind the image, which MNN adds."
)
_F32, _I32, _I64, _I8 = (np.dtype(t) for t in (np.float32, np.int32, np.int64, np.int8))


def _image(x: Any) -> Var:
    """An image of floats with the axis of channels first."""
    var = channels_first(as_image(x))
    return var if var._dtype().kind == "f" else var._cast(_F32)


def _pair(value: Any, what: str, least: int) -> list[int]:
    """(x, y) as (height, width)."""
    x, y = (integer(v, what, least) for v in integers(value, what, 2))
    return [y, x]


def _mode(mode: Any) -> Padding_Mode:
    if not isinstance(mode, Padding_Mode):
        raise UsageError(f"the padding mode is {mode!r}", hint="expr.VALID, expr.SAME or expr.CAFFE")
    return mode


def _weights(weight: Any, bias: Any, outputs_axis: int, group: int, like: Var) -> tuple[Var, Var | None]:
    w = as_var(weight)._cast(like._dtype())
    if w.ndim != 4:
        raise UsageError(f"the weight has the shape {w.shape}, it must have 4 axes")
    if bias is None or (isinstance(bias, (list, tuple)) and not bias):
        return w, None
    b = as_var(bias)._cast(like._dtype())
    outputs = w.shape[outputs_axis] * (group if outputs_axis == 1 else 1)
    if b.size != outputs:
        raise UsageError(f"the bias has {b.size} numbers, the layer {outputs} output channels")
    return w, b if b.ndim == 1 else apply("Reshape", b, int64s([outputs]))


@named(
    "expr",
    like="torch.nn.functional.conv2d",
    note="Pairs are (x, y); padding is for expr.CAFFE alone; the result is NC4HW4.",
)
def conv2d(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilate: Any = (1, 1),
    group: Any = 1,
    padding_mode: Any = VALID,
) -> Var:
    """A convolution of images.

    Args:
        input: of any data format.
        weight: [outputs, inputs / group, height, width].
        bias: a number for each output, or None.
        stride, dilate: (x, y).
        padding: (x, y), for the mode expr.CAFFE.
        group: number of groups.
        padding_mode: expr.VALID, none; expr.SAME, ceil(size / stride) outputs; expr.CAFFE, as `padding` says.

    Returns:
        An image in the data format NC4HW4.
    """
    x, groups, mode = _image(input), integer(group, "group", 1), _mode(padding_mode)
    w, b = _weights(weight, bias, 0, groups, x)
    pads = _pair(padding, "padding", 0) if mode is Padding_Mode.CAFFE else [0, 0]
    y = apply(
        "Conv",
        x,
        w,
        b,
        strides=tuple(_pair(stride, "stride", 1)),
        pads=(*pads, *pads),
        dilations=tuple(_pair(dilate, "dilate", 1)),
        group=groups,
        auto_pad="SAME_UPPER" if mode is Padding_Mode.SAME else "",
    )
    return convert(y, NC4HW4)


@named("expr", like="torch.nn.functional.conv_transpose2d", note="Pairs are (x, y); the result is NC4HW4.")
def conv2d_transpose(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilate: Any = (1, 1),
    group: Any = 1,
    padding_mode: Any = VALID,
) -> Var:
    """The transpose of a convolution.

    Args:
        input: of any data format.
        weight: [inputs, outputs / group, height, width].
        bias: a number for each output, or None.
        stride, dilate: (x, y).
        padding: (x, y): what is cut off on each side.
        group: number of groups.
        padding_mode: expr.SAME: size * stride outputs, whatever `padding`.

    Returns:
        An image in the data format NC4HW4.
    """
    x, groups, mode = _image(input), integer(group, "group", 1), _mode(padding_mode)
    w, b = _weights(weight, bias, 1, groups, x)
    strides, dilations = _pair(stride, "stride", 1), _pair(dilate, "dilate", 1)
    pads = _pair(padding, "padding", 0)
    extra = [0, 0]
    if mode is Padding_Mode.SAME:
        # Of the rows beyond size * stride, the larger half is cut off at the end, and missing ones are added there.
        spans = [(k - 1) * d + 1 - s for k, d, s in zip(w.shape[2:], dilations, strides, strict=True)]
        pads, ends = [max(s, 0) // 2 for s in spans], [max(s, 0) - max(s, 0) // 2 for s in spans]
        extra = [max(-s, 0) for s in spans]
    else:
        ends = pads
    y = apply(
        "ConvTranspose",
        x,
        w,
        b,
        strides=tuple(strides),
        pads=(*pads, *ends),
        dilations=tuple(dilations),
        output_padding=tuple(extra),
        group=groups,
    )
    return convert(y, NC4HW4)


def _pool(op: str, x: Any, kernel: Any, stride: Any, padding_mode: Any, pads: Any, **attrs: Any) -> Var:
    var, mode = as_image(x), _mode(padding_mode)
    image = _image(var)
    sizes = integers(kernel, "kernel", 2)
    if sizes == [-1, -1]:
        return convert(apply("Global" + op, image), var.data_format)
    border = _pair(pads, "pads", 0) if mode is Padding_Mode.CAFFE else [0, 0]
    is_caffe = mode is Padding_Mode.CAFFE
    if op == "AveragePool":
        attrs["count_include_pad"] = is_caffe
    y = apply(
        op,
        image,
        kernel=tuple(_pair(sizes, "kernel", 1)),
        strides=tuple(_pair(stride, "stride", 1)),
        pads=(*border, *border),
        dilations=(1, 1),
        ceil_mode=is_caffe,
        auto_pad="SAME_UPPER" if mode is Padding_Mode.SAME else "",
        **attrs,
    )
    return convert(y if isinstance(y, Var) else y[0], var.data_format)


@named("expr", like="torch.nn.functional.max_pool2d", note=_CAFFE_POOLING)
def max_pool(x: Any, kernel: Any, stride: Any, padding_mode: Any = VALID, pads: Any = (0, 0)) -> Var:
    """The largest element of each window.

    Args:
        x: an image.
        kernel, stride: (x, y); a kernel of (-1, -1) is the whole image.
        padding_mode: expr.VALID, none; expr.SAME, ceil(size / stride) outputs; expr.CAFFE, as `pads` says.
        pads: (x, y), for the mode expr.CAFFE.
    """
    return _pool("MaxPool", x, kernel, stride, padding_mode, pads)


@named("expr", like="torch.nn.functional.avg_pool2d", note=_CAFFE_POOLING)
def avg_pool(x: Any, kernel: Any, stride: Any, padding_mode: Any = VALID, pads: Any = (0, 0)) -> Var:
    """The mean of each window, as `max_pool`; with expr.CAFFE, padding counts as zeros."""
    return _pool("AveragePool", x, kernel, stride, padding_mode, pads)


@named("expr", like="numpy.add")
def bias_add(value: Any, bias: Any) -> Var:
    """The Var plus a number for each index of its last axis (of the axis of channels, for NCHW images)."""
    var, numbers = as_var(value), as_var(bias)
    channel = 1 if var.ndim == 4 and var.data_format is not NHWC else var.ndim - 1
    if var.ndim < 1 or numbers.ndim != 1 or numbers.size != var.shape[channel]:
        raise UsageError(f"a bias of the shape {numbers.shape} is for a Var of the shape {var.shape}")
    shape = [1] * var.ndim
    shape[channel] = numbers.size
    return add(var, apply("Reshape", numbers, int64s(shape)))


@named("expr")
def scale(x: Any, channels: Any, scale: Any, bias: Any) -> Var:
    """x * scale + bias, with a number for each channel."""
    var = as_image(x)
    count = integer(channels, "channels", 1)
    image = _image(var)
    if image.shape[1] != count:
        raise UsageError(f"the image has {image.shape[1]} channels, not {count}")
    factor, shift = (Var._of(floats(v, n, count)) for v, n in ((scale, "scale"), (bias, "bias")))
    return convert(apply("Scale", image, factor, shift), var.data_format)


@named("expr")
def normalize(x: Any, acrossSpatial: Any, channelShared: Any, eps: Any, scale: Any) -> Var:
    """x divided by the root of the sum of its squares, times a number for each channel.

    Args:
        x: an image.
        acrossSpatial: the sum is over the whole image, otherwise over the channels of each pixel.
        channelShared: `scale` is one number for all channels.
        eps: is added to the sum.
        scale: numbers.
    """
    var = as_image(x)
    image = _image(var)
    axes = [1, 2, 3] if flag(acrossSpatial, "acrossSpatial") else [1]
    total = reduce_sum(square(image), axes, True)
    factors = floats(scale, "scale", 1 if flag(channelShared, "channelShared") else image.shape[1])
    small = Var._of(np.asarray(number(eps, "eps"), image._dtype()))
    normal = divide(image, sqrt(add(total, small)))
    return convert(multiply(normal, Var._of(factors.reshape(1, -1, 1, 1))), var.data_format)


@named("expr", like="numpy.matmul")
def matmul(a: Any, b: Any, transposeA: Any = False, transposeB: Any = False) -> Var:
    """The product of matrices, of the last two axes; the last two axes of each may be swapped first."""
    v, w = common_type(as_var(a), as_var(b))
    if v.ndim < 1 or w.ndim < 1:
        raise UsageError(f"matmul takes matrices, not Vars of the shapes {v.shape} and {w.shape}")
    flags = {
        "transpose_a": flag(transposeA, "transposeA") and v.ndim > 1,
        "transpose_b": flag(transposeB, "transposeB") and w.ndim > 1,
    }
    return apply_one("MatMul", v, w, **flags)


@named("expr", like="tensorflow.linalg.band_part")
def matrix_band_part(x: Any, num_lower: Any, num_upper: Any) -> Var:
    """The matrices with zeros outside of a band.

    Args:
        x: matrices, of the last two axes.
        num_lower, num_upper: how many diagonals below and above the main one are kept; negative: all.
    """
    var = as_var(x)
    below, above = integer(num_lower, "num_lower"), integer(num_upper, "num_upper")
    if var.ndim < 2:
        raise UsageError(f"a matrix has 2 axes, the Var the shape {var.shape}")
    if above >= 0:
        var = apply("Trilu", var, Var._of(np.asarray(above, np.int64)), upper=False)
    if below >= 0:
        var = apply("Trilu", var, Var._of(np.asarray(-below, np.int64)), upper=True)
    return var


@named(
    "expr", like="torch.nn.functional.interpolate", note="Pixel i of the result is at i / scale, not half a pixel on."
)
def resize(x: Any, x_scale: Any, y_scale: Any) -> Var:
    """The image, x_scale times as wide and y_scale times as high, interpolated between pixels."""
    var = as_image(x)
    factors = np.array([number(y_scale, "y_scale"), number(x_scale, "x_scale")], np.float32)
    if not np.all(factors > 0) or not np.all(np.isfinite(factors)):
        raise UsageError(f"the scales are {factors.tolist()}, they must be above 0")
    image = _image(var)
    y = apply("Resize", image, None, Var._of(factors), mode="linear", coordinate_mode="asymmetric", axes=(2, 3))
    return convert(y, var.data_format)


@named("expr", like="tensorflow.image.crop_and_resize")
def crop_and_resize(
    x: Any, boxes: Any, box_ind: Any, crop_size: Any, method: Any = BILINEAR, extrapolation_value: Any = 0.0
) -> Var:
    """Boxes of images, resized.

    Args:
        x: images.
        boxes: [n, 4], (y1, x1, y2, x2) as fractions of the height and width.
        box_ind: [n], the image of each box.
        crop_size: height and width of the results.
        method: expr.BILINEAR or expr.NEAREST.
        extrapolation_value: what lies outside of an image.
    """
    var = as_image(x)
    image = _image(var)
    rows = np.asarray(as_var(boxes)._shown(), np.float32)
    if not isinstance(method, Interp_Method):
        raise UsageError(f"the method is {method!r}", hint="expr.BILINEAR or expr.NEAREST")
    height, width = (integer(v, "crop_size", 1) for v in integers(crop_size, "crop_size", 2))
    images = integers(box_ind, "box_ind")
    if rows.ndim != 2 or rows.shape[1] != 4 or len(images) != len(rows) or not len(rows):
        raise UsageError(f"boxes of the shape {list(rows.shape)} and {len(images)} indices of images do not fit")
    if any(not 0 <= i < image.shape[0] for i in images):
        raise UsageError(f"box_ind is {images}", why=f"there are {image.shape[0]} images")
    mode = "linear" if method is Interp_Method.BILINEAR else "nearest"
    made = []
    for (y1, x1, y2, x2), i in zip(rows, images, strict=True):
        one = apply("Slice", image, int64s([i]), int64s([i + 1]), int64s([0]))
        roi = Var._of(np.array([y1, x1, y2, x2], np.float32))
        made.append(
            apply(
                "Resize",
                one,
                roi,
                None,
                int64s([height, width]),
                mode=mode,
                coordinate_mode="tf_crop_and_resize",
                nearest_mode="round_prefer_ceil",
                extrapolation_value=number(extrapolation_value, "extrapolation_value"),
                axes=(2, 3),
            )
        )
    return convert(apply("Concat", *made, axis=0), var.data_format)


def _regions(roi: Any, image: Var) -> tuple[Var, Var]:
    """Rows (image, x1, y1, x2, y2), and the first column as ints."""
    rows = as_var(roi)._cast(_F32)
    if rows.ndim == 4:
        rows = apply("Flatten", rows, axis=1)
    if rows.ndim != 2 or rows.shape[1] != 5:
        raise UsageError(f"the regions have the shape {rows.shape}", hint="rows of (image, x1, y1, x2, y2)")
    first = apply("Slice", rows, int64s([0]), int64s([1]), int64s([1]))
    images = apply("Squeeze", first, axes=(1,))._cast(_I64)
    if images._is_known() and any(not 0 <= i < image.shape[0] for i in images._value()):
        raise UsageError(f"the regions are of the images {images._value().tolist()}", why=f"there are {image.shape[0]}")
    return rows, images


@named("expr", like="torchvision.ops.roi_pool")
def roi_pooling(
    input: Any, roi: Any, pooled_height: Any, pooled_width: Any, spatial_scale: Any, output_grad: Any = False,
    backward_diff: Any = None,
) -> Var:  # fmt: skip
    """The largest elements of the parts of regions.

    Args:
        input: images.
        roi: [n, 5], (image, x1, y1, x2, y2).
        pooled_height, pooled_width: number of parts.
        spatial_scale: takes the regions to pixels of the images.
        output_grad, backward_diff: ignored: gradients are the matter of the graph.
    """
    var = as_image(input)
    image = _image(var)
    rows, _ = _regions(roi, image)
    y = apply(
        "MaxRoiPool",
        image,
        rows,
        height=integer(pooled_height, "pooled_height", 1),
        width=integer(pooled_width, "pooled_width", 1),
        scale=number(spatial_scale, "spatial_scale"),
    )
    return convert(y, var.data_format)


@named("expr", like="torchvision.ops.roi_align")
def roi_align(
    input: Any, roi: Any, pooled_height: Any, pooled_width: Any, spatial_scale: Any, sampling_ratio: Any,
    aligned: Any, pooling_mode: Any, output_grad: Any = False, backward_diff: Any = None,
) -> Var:  # fmt: skip
    """The means, or largest elements, of interpolated samples in the parts of regions.

    Args:
        input: images.
        roi: [n, 5], (image, x1, y1, x2, y2).
        pooled_height, pooled_width: number of parts.
        spatial_scale: takes the regions to pixels of the images.
        sampling_ratio: samples in a part along each axis; 0: as many as it has pixels.
        aligned: shift the regions by half a pixel.
        pooling_mode: expr.AVEPOOL or expr.MAXPOOL.
        output_grad, backward_diff: ignored: gradients are the matter of the graph.
    """
    var = as_image(input)
    image = _image(var)
    rows, images = _regions(roi, image)
    if not isinstance(pooling_mode, Pooling_Mode):
        raise UsageError(f"the pooling mode is {pooling_mode!r}", hint="expr.AVEPOOL or expr.MAXPOOL")
    y = apply(
        "RoiAlign",
        image,
        apply("Slice", rows, int64s([1]), int64s([5]), int64s([1])),
        images,
        mode="avg" if pooling_mode is Pooling_Mode.AVEPOOL else "max",
        output_height=integer(pooled_height, "pooled_height", 1),
        output_width=integer(pooled_width, "pooled_width", 1),
        sampling_ratio=integer(sampling_ratio, "sampling_ratio", 0),
        spatial_scale=number(spatial_scale, "spatial_scale"),
        coordinate_mode="half_pixel" if flag(aligned, "aligned") else "output_half_pixel",
    )
    return convert(y, var.data_format)


@named(
    "expr",
    like="torchvision.ops.nms",
    note="Boxes that overlap more than the limit are dropped; without a limit, all that overlap.",
)
def nms(boxes: Any, scores: Any, max_detections: Any, iou_threshold: Any = -1.0, score_threshold: Any = -1.0) -> Var:
    """The indices of the boxes of high score that do not overlap much, best first.

    Args:
        boxes: [n, 4], two opposite corners.
        scores: [n].
        max_detections: the most boxes.
        iou_threshold: boxes that overlap a chosen one by more are dropped; below 0: those that overlap at all.
        score_threshold: boxes with less are dropped; below 0: none.
    """
    box, score = as_var(boxes)._cast(_F32), as_var(scores)._cast(_F32)
    if box.ndim != 2 or box.shape[1] != 4 or score.shape != [box.shape[0]]:
        raise UsageError(f"boxes of the shape {box.shape} and scores of the shape {score.shape} do not fit")
    limits = [max(number(iou_threshold, "iou_threshold"), 0.0), number(score_threshold, "score_threshold")]
    most = Var._of(np.asarray(integer(max_detections, "max_detections", 0), np.int64))
    overlap = Var._of(np.asarray(limits[0], np.float32))
    least = None if limits[1] < 0 else Var._of(np.asarray(limits[1], np.float32))
    rows = apply(
        "NonMaxSuppression",
        apply("Unsqueeze", box, axes=(0,)),
        apply("Unsqueeze", score, axes=(0, 1)),
        most,
        overlap,
        least,
    )
    return apply_one("Gather", rows, Var._of(np.asarray(2, np.int64)), axis=1)._cast(_I32)


@named("expr", like="torch.quantize_per_tensor")
def quant(var: Any, scale: Any, min: Any = -128, max: Any = 127, zero: Any = 0) -> Var:
    """The nearest whole numbers to var / scale + zero, between two limits, as int8.

    Args:
        var: floats.
        scale: one number, or one for each channel.
        min, max: limits within -128 and 127.
        zero: what 0 becomes.
    """
    x = as_var(var)._cast(_F32)
    low, high, offset = integer(min, "min", -128), integer(max, "max"), integer(zero, "zero")
    if not low <= high <= 127:
        raise UsageError(f"the limits are {low} and {high}", hint="-128 to 127")
    steps = _steps(x, scale)
    shifted = add(apply("Round", divide(x, steps), halves="away"), float(offset))
    return apply_one("Clip", shifted, min=float(low), max=float(high))._cast(_I8)


@named("expr", like="torch.dequantize")
def dequant(var: Any, scale: Any, zero: Any = 0) -> Var:
    """(var - zero) * scale, as floats."""
    x = as_var(var)._cast(_F32)
    return multiply(subtract(x, float(integer(zero, "zero"))), _steps(x, scale))


def _steps(x: Var, scale: Any) -> Var:
    steps = floats(scale, "scale")
    if not np.all(steps > 0):
        raise UsageError(f"the scale is {steps.tolist()}, it must be above 0")
    if steps.size == 1:
        return Var._of(steps.reshape(()))
    channel = x.ndim - 1 if x.data_format is NHWC else 1
    if x.ndim < 2 or x.shape[channel] != steps.size:
        raise UsageError(f"{steps.size} scales are for a Var of the shape {x.shape}")
    shape = [1] * x.ndim
    shape[channel] = steps.size
    return Var._of(steps.reshape(shape))


def _eltwise(name: str, function: Callable[[Any, Any], Var]) -> Any:
    def compute(x: Any, y: Any, coeff: Any = ()) -> Var:
        factors = [] if coeff is None else floats(coeff if len(coeff) else np.zeros(0), "coeff").tolist()
        if factors and (len(factors) != 2 or name in ("eltwise_prod", "eltwise_max")):
            raise UsageError(
                f"{name} has the coefficients {factors}", hint="two for sums and differences, none for others"
            )
        v, w = (multiply(o, f) for o, f in zip((x, y), factors, strict=True)) if factors else (x, y)
        return function(v, w)

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"{name}(x, y, coeff), elementwise; for sums and differences, with a factor for each operand."
    return named("expr", name, like=f"numpy.{function.__name__}")(compute)


eltwise_sum = _eltwise("eltwise_sum", add)
eltwise_sub = _eltwise("eltwise_sub", subtract)
eltwise_prod = _eltwise("eltwise_prod", multiply)
eltwise_max = _eltwise("eltwise_max", maximum)


@named("expr", like="numpy.linalg.svd", note="It gives the singular values first.")
def svd(x: Any) -> list[Var]:
    """Singular values w, and matrices u and vt, for which x = u @ diag(w) @ vt. It is computed at once."""
    var = as_var(x)
    array = var._shown()
    if array.ndim != 2:
        raise UsageError(f"svd is of a matrix, the Var has the shape {var.shape}")
    try:
        u, w, vt = np.linalg.svd(array.astype(np.float64), full_matrices=False)
    except np.linalg.LinAlgError as error:
        raise UsageError("the singular values were not found", why=str(error)) from error
    kind = array.dtype if array.dtype == np.float64 else _F32
    return [Var._of(np.ascontiguousarray(v.astype(kind))) for v in (w, u, vt)]
