"""The layers of SSD. Their rules are those of its fork of Caffe."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.ops.detection import Detections, detections
from minnow.converter.caffe.shape import axis_of
from minnow.converter.operand import bounded, reshaped, static_dim
from minnow.schema.errors import ModelError, UnsupportedError


@frontend.op("Normalize", param="norm_param")
def _(b, x, *, node: Layer, across_spatial=True, channel_shared=True, eps=1e-10):
    """x by its Euclidean length over the channels, or over all but the batch, times a learned scale."""
    n = axis_of(x, -1) + 1
    total = b.ReduceSumSquare(x, axes=tuple(range(1, n)) if across_spatial else (1,))
    unit = b.Div(x, b.Sqrt(b.Add(total, np.float32(eps))))
    scale = node.weight(0)
    count = scale.type.count or 0
    if count != 1 and channel_shared:
        raise ModelError(f"channel_shared needs one scale, but the weights hold {count}")
    return b.Mul(unit, reshaped(b, scale, () if channel_shared else (count, *(1,) * (n - 2))))


def _pair(both: float | None, h: float | None, w: float | None, what: str) -> tuple[float, float] | None:
    """Height and width, given together or apart; None where they are not given."""
    if both is not None and (h is not None or w is not None):
        raise ModelError(f"{what} is given both for all axes and for a single one")
    high, wide = (both, both) if both is not None else (h, w)
    if high is None and wide is None:
        return None
    if high is None or wide is None or min(high, wide) <= 0:
        raise ModelError(f"{what} is {high} by {wide}, which is invalid")
    return high, wide


def _shapes(smallest: Sequence[float], largest: Sequence[float], ratios: Sequence[float]) -> list[tuple[float, float]]:
    """Width and height of the boxes around a point, in elements of the image; the fork takes whole sizes only."""
    f = np.float32
    found: list[tuple[float, float]] = []
    for i, low in enumerate(map(int, smallest)):
        found.append((low, low))
        if largest:
            found.append((float(f(np.sqrt(low * int(largest[i])))),) * 2)
        found += [(float(f(low * np.sqrt(r))), float(f(low / np.sqrt(r)))) for r in map(float, ratios[1:])]
    return found


@frontend.op("PriorBox", param="prior_box_param")
def _(b, feature, image, *, min_size=(), max_size=(), aspect_ratio=(), flip=True, clip=False, variance=(),
      img_size=None, img_h=None, img_w=None, step=None, step_h=None, step_w=None, offset=0.5):  # fmt: skip
    """Boxes around every element of the feature map, in parts of the image, and their variances: [1, 2, boxes * 4]."""
    if not min_size or min(min_size) < 1 or (max_size and len(max_size) != len(min_size)):
        raise ModelError(f"the sizes of the prior boxes are invalid: min_size {min_size}, max_size {max_size}")
    if len(variance) not in (0, 1, 4) or any(v <= 0 for v in (*variance, *aspect_ratio)):
        raise ModelError(f"the variances {variance} or the aspect ratios {aspect_ratio} of the prior boxes are invalid")
    rows, columns = (static_dim(feature.type, axis, "the feature map of prior boxes") for axis in (2, 3))
    size = _pair(img_size, img_h, img_w, "the size of the image")
    high, wide = size or tuple(static_dim(image.type, axis, "the image of prior boxes") for axis in (2, 3))
    f = np.float32
    down, right = _pair(step, step_h, step_w, "the step") or (f(high) / f(rows), f(wide) / f(columns))
    ratios = [1.0]
    for ratio in aspect_ratio:
        if all(abs(ratio - known) >= 1e-6 for known in ratios):
            ratios += [ratio, float(f(1) / f(ratio))] if flip else [ratio]
    half = np.array(_shapes(min_size, max_size, ratios)) / 2
    bounded(rows * columns * len(half) * 8, "the prior boxes")
    y, x = (((np.arange(n, dtype=f) + f(offset)) * f(d)).astype(float) for n, d in ((rows, down), (columns, right)))
    center = np.stack(np.broadcast_arrays(x[None, :], y[:, None]), -1)[:, :, None, :]
    boxes = np.concatenate([center - half, center + half], -1) / np.array([wide, high, wide, high])
    boxes = np.clip(boxes, 0, 1) if clip else boxes
    spread = np.broadcast_to(np.array(variance or (0.1,)), boxes.shape)
    return b.const(np.stack([boxes.reshape(-1), spread.reshape(-1)])[None].astype(f))


@frontend.op("DetectionOutput", param="detection_output_param")
def _(b, loc, conf, prior, arm_conf=None, arm_loc=None, *, num_classes, share_location=True, background_label_id=0,
      nms_param=None, code_type="CORNER", keep_top_k=-1, variance_encoded_in_target=False,
      confidence_threshold=None, objectness_score=0.01):  # fmt: skip
    """Two more bottoms are RefineDet's: a first guess, which moves the prior boxes and sorts out the background."""
    overlap, top_k = 0.3, -1
    if nms_param is not None:
        overlap = nms_param.nms_threshold if nms_param.HasField("nms_threshold") else overlap
        top_k = nms_param.top_k if nms_param.HasField("top_k") else top_k
        if nms_param.HasField("eta") and nms_param.eta != 1:
            raise UnsupportedError(
                "non-maximum suppression with a threshold that shrinks is not supported", why=f"eta is {nms_param.eta}"
            )
    if (arm_conf is None) != (arm_loc is None):
        raise ModelError("DetectionOutput has 4 inputs", why="it takes 3 or 5")
    options = Detections(
        classes=num_classes, shared=share_location, background=background_label_id, code=code_type, keep=keep_top_k,
        scaled=not variance_encoded_in_target, overlap=overlap, top_k=top_k, least=confidence_threshold,
        objectness=objectness_score,
    )  # fmt: skip
    return detections(b, loc, conf, prior, options, None if arm_conf is None else (arm_conf, arm_loc))
