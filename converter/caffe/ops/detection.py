"""What DetectionOutput computes: decoded boxes, non-maximum suppression per class, and the best boxes of each image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.operand import reshaped, static_dim
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.limit import add_bytes
from minnow.schema.ops import Builder

_LOWEST = np.float32(-np.inf)
_LABEL_BYTES = 64
"""What lists and arrays of a label take."""


@dataclass(frozen=True)
class Detections:
    """Options of DetectionOutput.

    Attributes:
        shared: all classes have the same boxes.
        background: the label of what is no object; -1 where there is none.
        code: how boxes are given relative to the prior boxes: CORNER, CENTER_SIZE or CORNER_SIZE.
        scaled: the variances have to be multiplied to the codes.
        overlap: two boxes of a class that share more than that are one.
        top_k, keep: how many boxes of a class go into suppression, and how many of an image stay; below 0 all.
        least: scores must be above it.
        objectness: where the first guess of an object is below it, there is background.
    """

    classes: int
    shared: bool
    background: int
    code: str
    scaled: bool
    overlap: float
    top_k: int
    keep: int
    least: float | None
    objectness: float


def columns(b: Builder, x: Value, first: int, last: int) -> Any:
    """Elements from `first` up to `last` of the last axis, whose dimension is known."""
    return b.Slice(x, np.array([first]), np.array([last]), np.array([-1]))


def decoded(b: Builder, codes: Value, prior: Value, variance: Value, o: Detections) -> Any:
    """Corners (x1, y1, x2, y2) of boxes: codes[..., N, 4], prior boxes [..., N, 4], and their variances [N, 4]."""
    at = b.Mul(codes, variance) if o.scaled else codes
    if o.code == "CORNER":
        return b.Add(prior, at)
    low, high = columns(b, prior, 0, 2), columns(b, prior, 2, 4)
    size = b.Sub(high, low)
    if o.code == "CORNER_SIZE":
        return b.Add(prior, b.Mul(at, b.Concat(size, size, axis=-1)))
    center = b.Mul(b.Add(low, high), np.float32(0.5))
    moved = b.Add(b.Mul(columns(b, at, 0, 2), size), center)
    half = b.Mul(b.Mul(b.Exp(columns(b, at, 2, 4)), size), np.float32(0.5))
    return b.Concat(b.Sub(moved, half), b.Add(moved, half), axis=-1)


def detections(
    b: Builder, loc: Value, conf: Value, prior: Value, o: Detections, guess: tuple[Value, Value] | None = None
) -> Any:
    """Rows (image, label, score, x1, y1, x2, y2) as [1, 1, R, 7]: by image, by label, the best ones first.

    Where nothing at all is found there is one row per image, of the image and -1.

    Args:
        loc: codes [B, N * classes or 1 * 4]. conf: scores [B, N * classes].
        prior: prior boxes and their variances [1, 2, N * 4].
        guess: scores [B, N * 2] and codes [B, N * 4] of a first guess.
    """
    n = static_dim(prior.type, 2, "the prior boxes") // 4
    add_bytes(_LABEL_BYTES * o.classes, b.origin)
    labels = [label for label in range(o.classes) if label != o.background]
    if not labels or not n or o.overlap < 0 or o.top_k == 0 or o.keep == 0:
        raise ModelError(
            f"the settings of DetectionOutput are invalid, with {o.classes} classes and {n} prior boxes", why=str(o)
        )
    both = reshaped(b, prior, (2, n, 4))
    boxes, variance = (
        b.Squeeze(b.Slice(both, np.array([i]), np.array([i + 1]), np.array([0])), axes=(0,)) for i in (0, 1)
    )
    codes = b.Reshape(loc, np.array([-1, n, 1 if o.shared else o.classes, 4]))
    scores = b.Transpose(b.Reshape(conf, np.array([-1, n, o.classes])), perm=(0, 2, 1))
    if o.background in range(o.classes):
        scores = b.Gather(scores, np.array(labels), axis=1)
    if guess is not None:
        boxes = b.Unsqueeze(decoded(b, b.Reshape(guess[1], np.array([-1, n, 4])), boxes, variance, o), axes=(1,))
        object_ = columns(b, b.Reshape(guess[0], np.array([-1, n, 2])), 1, 2)
        there = b.GreaterOrEqual(b.Transpose(object_, perm=(0, 2, 1)), np.float32(o.objectness))
        scores = b.Where(there, scores, b.const(np.float32(0)))
    corners = decoded(b, b.Transpose(codes, perm=(0, 2, 1, 3)), boxes, variance, o)
    return _chosen(b, corners, scores, labels, n, o)


def _chosen(b: Builder, boxes: Value, scores: Value, labels: list[int], n: int, o: Detections) -> Any:
    """The rows, from boxes [B, 1 or classes, N, 4] and scores [B, C, N] of the C labels that are objects."""
    count = len(labels)
    k = n if o.top_k < 0 else min(o.top_k, n)
    best, at = b.TopK(scores, np.array([k]), axis=-1)
    at = b.Unsqueeze(at, axes=(3,))
    if o.shared:
        top = b.GatherND(b.Squeeze(boxes, axes=(1,)), at, batch_dims=1)
    else:
        own = b.Gather(boxes, np.array(labels), axis=1) if len(labels) < o.classes else boxes
        top = b.GatherND(own, at, batch_dims=2)
    every = count * k
    top = b.Reshape(top, np.array([-1, k, 4]))
    low = columns(b, top, 0, 2)
    # A box that is turned inside out shares nothing with others.
    upright = b.Concat(low, b.Max(low, columns(b, top, 2, 4)), axis=-1)
    least = None if o.least is None else np.float32(o.least)
    rows = b.NonMaxSuppression(
        upright, b.Reshape(best, np.array([-1, 1, k])), np.array(k), np.float32(o.overlap), least
    )  # fmt: skip
    rows = b.Cast(rows, to=DType.I32)  # which every runtime of the format computes with
    column = [b.Gather(rows, np.array(i), axis=1) for i in (0, 2)]
    place = b.Add(b.Mul(column[0], np.int32(k)), column[1])
    flat = b.Reshape(best, np.array([-1]))
    nothing = b.Fill(b.Shape(flat), _LOWEST)
    kept = b.Reshape(b.ScatterElements(nothing, place, b.Gather(flat, place)), np.array([-1, every]))
    if 0 < o.keep < every:
        value, where = b.TopK(kept, np.array([o.keep]), axis=-1)
        kept = b.ScatterElements(b.Fill(b.Shape(kept), _LOWEST), where, value, axis=1)
    found = b.Transpose(b.NonZero(b.Greater(kept, b.const(_LOWEST))), perm=(1, 0))
    found = b.Cast(found, to=DType.I32)
    image, inside = (b.Gather(found, np.array(i), axis=1) for i in (0, 1))
    names = b.Gather(b.const(np.array(labels, np.float32)), b.Div(inside, np.int32(k)))
    single = [b.Cast(image, to=DType.F32), names, b.GatherND(kept, found)]
    corners = b.GatherND(b.Reshape(top, np.array([-1, every, 4])), found)
    return rows_or_none(b, b.Concat(*(b.Unsqueeze(v, axes=(1,)) for v in single), corners, axis=1), scores)


def rows_or_none(b: Builder, rows: Value, scores: Value) -> Any:
    """Rows [R, 7] as [1, 1, R, 7]; for none, one of -1 per image, which are the first axis of `scores`."""
    images = b.Shape(scores, start=0, end=1)
    order = b.Unsqueeze(
        b.Cast(b.Range(np.array(0), b.Squeeze(images, axes=(0,)), np.array(1)), to=DType.F32), axes=(1,)
    )
    minus = b.Fill(b.Concat(images, np.array([6]), axis=0), np.float32(-1))
    empty = b.Equal(b.Shape(rows, start=0, end=1), np.array([0]))
    more = b.Where(empty, images, np.array([0]))
    instead = b.Slice(b.Concat(order, minus, axis=1), np.array([0]), more, np.array([0]))
    return b.Unsqueeze(b.Concat(rows, instead, axis=0), axes=(0, 1))
