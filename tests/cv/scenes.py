"""Random images and polygons, for comparisons with OpenCV."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

SIDES = (1, 2, 3, 5, 8, 13, 31, 40, 97)


def side_lengths(rng: np.random.Generator) -> tuple[int, int]:
    """Height and width."""
    return int(rng.choice(SIDES)), int(rng.choice(SIDES))


def image(rng: np.random.Generator, dtype: Any, channels: int, shape: tuple[int, int] | None = None) -> np.ndarray:
    """Noise; 0 channels: without a dimension for them. A third of the images are views that are not contiguous."""
    height, width = shape or side_lengths(rng)
    whole = (height, 2 * width, channels) if channels else (height, 2 * width)
    if np.dtype(dtype).kind == "f":
        noise = (rng.normal(size=whole) * 100).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        noise = rng.integers(limits.min, limits.max + 1, whole).astype(dtype)
    return noise[:, ::2] if rng.random() < 0.33 else noise[:, :width].copy()


def shapes(rng: np.random.Generator) -> np.ndarray:
    """A binary image: noise, or circles, rectangles and polygons on each other."""
    height, width = side_lengths(rng)
    kind = int(rng.integers(0, 4))
    if kind == 0:
        noise = rng.random((height, width)) < rng.choice([0.1, 0.3, 0.5, 0.6, 0.8, 1.0])
        return noise.astype(np.uint8) * int(rng.integers(1, 256))
    result = np.zeros((height, width), np.uint8)
    for _ in range(int(rng.integers(1, 12))):
        x, y = (int(v) for v in rng.integers(-2, [width + 2, height + 2]))
        reach = int(rng.integers(0, max(height, width) // 2 + 1))
        value = int(rng.integers(0, 2) * 255)
        thickness = -1 if rng.random() < 0.6 else 1
        if kind == 1:
            cv2.circle(result, (x, y), reach, value, thickness)
        elif kind == 2:
            cv2.rectangle(result, (x, y), (x + reach, y + int(rng.integers(0, 20))), value, thickness)
        else:
            corners = rng.integers(-2, [width + 2, height + 2], (int(rng.integers(1, 7)), 2))
            cv2.fillPoly(result, [corners.astype(np.int32)], value)
    return result
