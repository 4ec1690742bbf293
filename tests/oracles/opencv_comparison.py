"""Functions of minnow.cv beside OpenCV's, on random images."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

import minnow.cv as cv

Image = npt.NDArray[Any]

SIDES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 37, 53, 64, 97, 140)


def picture(rng: np.random.Generator, dtype: str, channels: int, least: int = 1) -> Image:
    """Random numbers of a random size; gray ones with or without a third dimension."""
    height, width = (int(n) for n in rng.choice([n for n in SIDES if n >= least], 2))
    shape = (height, width) if channels == 1 and rng.integers(2) else (height, width, channels)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.uniform(0, 1, shape).astype(kind)
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)


def views(image: Image) -> list[Image]:
    """The same elements with other strides."""
    framed = np.zeros((image.shape[0] + 2, image.shape[1] + 3, *image.shape[2:]), image.dtype)
    framed[1:-1, 1:-2] = image
    spaced = np.zeros((image.shape[0], 2 * image.shape[1], *image.shape[2:]), image.dtype)
    spaced[:, ::2] = image
    return [image, framed[1:-1, 1:-2], spaced[:, ::2], image[::-1].copy()[::-1]]


def compare(
    rng: np.random.Generator,
    name: str,
    image: Image,
    *arguments: Any,
    levels: float = 1,
    tolerance: float = 1e-5,
    **named: Any,
) -> bool:
    """Calls a function of this name with these arguments, which both know. False where OpenCV does not take them.
    Else the results must agree: shapes, types, and values within `levels` of integers, or `tolerance` of the largest
    number."""
    try:
        wanted = getattr(cv2, name)(image, *arguments, **named)
    except cv2.error:
        return False
    case = f"{name} {arguments} {named}"[:200]
    given = views(image)
    results = getattr(cv, name)(given[rng.integers(len(given))], *arguments, **named)
    if not isinstance(wanted, tuple):
        wanted, results = (wanted,), (results,)
    for want, var in zip(wanted, results, strict=True):
        if want is None:
            assert var is None, case
            continue
        got = np.asarray(var)
        where = f"{case} of {image.dtype}{list(image.shape)}"
        assert got.shape == want.shape, f"{where}: shape {got.shape}, not {want.shape}"
        assert got.dtype == want.dtype, f"{where}: {got.dtype}, not {want.dtype}"
        difference = np.abs(got.astype(np.float64) - want.astype(np.float64))
        if want.dtype.kind == "f":
            limit = tolerance * max(1.0, float(np.abs(want).max(initial=0)))
            difference[np.isnan(got) & np.isnan(want)] = 0
        else:
            limit = levels
        assert difference.max(initial=0) <= limit, f"{where}: differs by {difference.max()}, more than {limit}"
    return True
