"""Photos as inputs of a model, and what the outputs of two models have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.options.calibration import Preprocess

Array = np.ndarray[Any, Any]
Outputs = Mapping[str, Array]

KINDS = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
_SURE = 0.7
"""The least score of a face."""
_SAME = 0.5
"""Two boxes with this share of their union in common show the same object."""


def photos_in(folder: Path) -> list[Path]:
    """The photos of a folder, by name."""
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in KINDS)


def crops(path: Path, shape: Sequence[Any], how: Preprocess, dtype: Any = np.float32) -> Iterator[Array]:
    """A photo as inputs of a model: the whole of it and five parts (four corners and the middle), each mirrored, too.

    Args:
        path: the photo.
        shape: of the input, [N, 1 or 3, H, W] or [N, H, W, 1 or 3]; dynamic sizes are those of `how.size`.
        how: what is done with the pixels.
        dtype: of the input.
    """
    import cv2

    photo = cv2.imread(str(path), cv2.IMREAD_COLOR)
    assert photo is not None, path
    first = shape[1] in (1, 3)
    channels = shape[1] if first else shape[3]
    if channels == 1:
        photo = cv2.cvtColor(photo, cv2.COLOR_BGR2GRAY)[..., None]
    elif how.order == "rgb":
        photo = photo[..., ::-1]
    sizes = how.size or tuple(shape[2:] if first else shape[1:3])
    height, width = (int(n) for n in sizes)
    h, w = photo.shape[:2]
    side = int(0.8 * min(h, w))
    corners = [(0, 0), (0, w - side), (h - side, 0), (h - side, w - side), ((h - side) // 2, (w - side) // 2)]
    for part in (photo, *(photo[y : y + side, x : x + side] for y, x in corners)):
        small = cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA).reshape(height, width, channels)
        numbers = (small.astype(np.float32) - np.array(how.mean)) / np.array(how.std)
        for one in (numbers, numbers[:, ::-1]):
            yield np.ascontiguousarray(one.transpose(2, 0, 1)[None] if first else one[None], dtype)


def divided(photos: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Every second photo to calibrate with, and the others to measure with."""
    return list(photos[0::2]), list(photos[1::2])


def sqnr(want: Sequence[Outputs], got: Sequence[Outputs]) -> float:
    """Power of the outputs divided by that of their errors, in dB; of several outputs the smallest."""
    found = []
    for name in want[0]:
        x, y = (np.concatenate([o[name].reshape(-1) for o in all_]).astype(np.float64) for all_ in (want, got))
        found.append(10 * np.log10(max(float(x @ x), 1e-300) / max(float(np.square(x - y).sum()), 1e-300)))
    return float(min(found))


def same_class(want: Sequence[Outputs], got: Sequence[Outputs]) -> float:
    """Share of the inputs for which the first outputs of two classifiers have the same largest number."""
    name = next(iter(want[0]))
    return float(np.mean([w[name].argmax() == g[name].argmax() for w, g in zip(want, got, strict=True)]))


def same_boxes(want: Sequence[Outputs], got: Sequence[Outputs], scores: str, boxes: str) -> tuple[float, int]:
    """How far the faces that two detectors find are the same, and how many the first one finds.

    Returns:
        The F1 score: twice the faces that both have, divided by the faces of either.
    """
    both = of_first = of_second = 0
    for w, g in zip(want, got, strict=True):
        first, second = (_faces(o[scores], o[boxes]) for o in (w, g))
        of_first, of_second = of_first + len(first), of_second + len(second)
        for box in first:
            shared = _overlap(box, second)
            if shared.size and shared.max() > _SAME:
                both += 1
                second = np.delete(second, shared.argmax(), 0)
    return (2 * both / (of_first + of_second) if of_first + of_second else 1.0), of_first


def _faces(scores: Array, boxes: Array) -> Array:
    """Boxes [n, 4] of (left, top, right, bottom), of those that overlap the one with the largest score."""
    sure = scores.reshape(-1, 2)[:, 1]
    left = np.flatnonzero(sure > _SURE)
    left = left[np.argsort(-sure[left], kind="stable")]
    corners = boxes.reshape(-1, 4)
    found = []
    while left.size:
        found.append(corners[left[0]])
        left = left[1:][_overlap(corners[left[0]], corners[left[1:]]) < 0.3]
    return np.reshape(found, (-1, 4))


def _overlap(box: Array, others: Array) -> Array:
    """Intersection of a box with others, divided by the union."""
    size = np.clip(np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]), 0, None).prod(1)
    area, areas = (box[2:] - box[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(1)
    return np.asarray(size / np.maximum(area + areas - size, 1e-12))
