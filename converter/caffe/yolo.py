"""Layers of the ports of YOLO to Caffe."""

from __future__ import annotations

import numpy as np

from minnow.converter.caffe.frontend import frontend
from minnow.converter.operand import static_dim
from minnow.schema.errors import ModelError, UnsupportedError


@frontend.op("Reorg", param="reorg_param")
def _(b, x, *, stride=2, reverse=False):
    """Darknet's order of elements, which is not that of space to depth: it takes its extents for the result's."""
    c, h, w = (static_dim(x.type, axis, "the input of Reorg") for axis in (1, 2, 3))
    if reverse:
        raise UnsupportedError("Reorg in reverse", why="forks compute different things under this name")
    if stride < 1 or h % stride or w % stride or c % stride**2:
        raise ModelError(f"Reorg of {x.type} by {stride}")
    parts = b.Reshape(x, np.array([-1, c * h // stride**2, stride, w, stride]))
    turned = b.Transpose(parts, perm=(0, 2, 4, 1, 3))
    return b.Reshape(turned, np.array([-1, c * stride**2, h // stride, w // stride]))
