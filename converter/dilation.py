"""Dilated convolutions that files spell out: blocks of space to the batch, a convolution, and the blocks back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minnow.converter.channel_last import channels_last, channels_second
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder

Pairs = np.ndarray[tuple[int, int], np.dtype[np.int64]]


def dilated_conv(b: Builder, x: Value, sizes: Sequence[int], crops: Pairs) -> Value | None:
    """What `batch_to_space` of x is, as one convolution of the image in front of the blocks.

    Args:
        x: [N * blocks, spatial..., C].
        sizes: of the blocks.
        crops: what is cut off at both ends of each spatial axis.

    Returns:
        None where x is nothing that comes of a convolution over blocks of these sizes.
    """
    m = len(sizes)
    back = _made_by(x, "Transpose")
    if back is None or back.attrs["perm"] != (0, *range(2, m + 2), 1):
        return None
    after: list[Node] = []
    node = back.input(0).producer
    while node is not None and node.op in ("Relu", "Clip") and len(after) < 2:
        after.insert(0, node)
        node = node.input(0).producer
    if node is None or node.op != "Conv" or node.attrs.get("auto_pad"):
        return None
    if set(node.attrs["strides"]) | set(node.attrs["dilations"]) != {1} or any(node.attrs["pads"]):
        return None
    forth = _made_by(node.input(0), "Transpose")
    if forth is None or forth.attrs["perm"] != (0, m + 1, *range(1, m + 1)):
        return None
    found = _blocks(forth.input(0), sizes)
    if found is None:
        return None
    image, pads = found
    rest = pads - crops
    if np.any(rest < 0):
        return None
    attrs = {**node.attrs, "pads": (*rest[:, 0].tolist(), *rest[:, 1].tolist()), "dilations": tuple(sizes)}
    y = b.Conv(channels_second(b, image, m), *node.inputs[1:], **attrs)
    for step in after:
        y = getattr(b, step.op)(y, *step.inputs[1:], **step.attrs)
    return channels_last(b, y, m)


def _made_by(x: Value, op: str) -> Node | None:
    return x.producer if x.producer is not None and x.producer.op == op else None


def _blocks(x: Value, sizes: Sequence[int]) -> tuple[Value, Pairs] | None:
    """The image whose blocks of these sizes x holds, and what was added to it; in the form of `space_to_batch`."""
    m = len(sizes)
    merge = _made_by(x, "Reshape")
    turn = None if merge is None else _made_by(merge.input(0), "Transpose")
    split = None if turn is None else _made_by(turn.input(0), "Reshape")
    if merge is None or turn is None or split is None:
        return None
    image, parts, grid = split.input(0), split.output.type.shape, merge.output.type.shape
    rank = image.type.rank or 0
    perm = (*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, m + rank))
    if turn.attrs["perm"] != perm or parts is None or grid is None or len(parts) != rank + m or rank != m + 2:
        return None
    if parts[2 : 2 * m + 1 : 2] != tuple(sizes) or grid[1:] != (*parts[1 : 2 * m : 2], parts[-1]):
        return None
    pad = _made_by(image, "Pad")
    none = np.zeros((m, 2), np.int64)
    if pad is None:
        return image, none
    ends, value = pad.input(1).array, pad.input(2).array if pad.has_input(2) else np.zeros(1)
    if ends is None or value is None or np.any(value) or pad.attrs.get("mode", "constant") != "constant":
        return image, none
    rows = np.asarray(ends, np.int64).reshape(-1, 2)
    outside = np.delete(rows, range(1, m + 1), axis=0)
    return (image, none) if np.any(outside) or np.any(rows < 0) else (pad.input(0), rows[1 : m + 1])
