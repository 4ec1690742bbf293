"""Functions called with anything: the result is an image, or an error that says what was expected. Never a crash."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sampling import some_of

import minnow.cv as cv
from minnow.errors import MinnowError
from minnow.expr import NHWC, Var

NAMES = (
    "GaussianBlur", "Laplacian", "Scharr", "Sobel", "bilateralFilter", "blur", "boxFilter", "convertMaps", "cvtColor",
    "cvtColorTwoPlane", "dilate", "erode", "filter2D", "getAffineTransform", "getDerivKernels", "getGaborKernel",
    "getGaussianKernel", "getPerspectiveTransform", "getRectSubPix", "getRotationMatrix2D", "getStructuringElement",
    "imdecode", "imencode", "invertAffineTransform", "pyrDown", "pyrUp", "remap", "resize", "rotate", "sepFilter2D",
    "spatialGradient", "sqrBoxFilter", "warpAffine", "warpPerspective",
)  # fmt: skip


def image(rng: np.random.Generator) -> Any:
    """Of any type, rank, size and strides."""
    dtype = rng.choice(
        ["uint8", "uint8", "float32", "uint16", "int16", "float64", "int32", "bool", "complex64", "int64"]
    )
    rank = int(rng.choice([2, 3, 3, 3, 1, 4, 0]))
    shape = [int(n) for n in rng.choice([0, 1, 2, 3, 6, 7, 12, 33], rank, p=[0.03, *[0.97 / 7] * 7])]
    if rank == 3:
        shape[2] = int(rng.choice([1, 2, 3, 3, 4, 5]))
    array = rng.normal(0, 100, shape).astype(dtype)
    if array.dtype.kind == "f" and array.size and rng.random() < 0.2:
        array.ravel()[rng.integers(array.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e38])
    if rank >= 2 and rng.random() < 0.4:
        array = [array[::-1], array[:, ::-1], array[::2], array.swapaxes(0, 1), np.asfortranarray(array)][
            rng.integers(5)
        ]
    if dtype == "uint8" and rng.random() < 0.3:
        return Var.from_array(array, NHWC)
    return array


def anything(rng: np.random.Generator) -> Any:
    return [
        lambda: image(rng),
        lambda: int(rng.choice([-1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 40, 52, 90, 101, 1 << 40])),
        lambda: float(rng.choice([0, 0.5, 1, 1.5, 30, -2, 1e9, np.nan, np.inf])),
        lambda: tuple(int(n) for n in rng.choice([-1, 0, 1, 2, 3, 5, 9, 24, 1 << 33], rng.integers(0, 4))),
        lambda: rng.normal(0, 1, rng.choice([1, 2, 3], 2)),
        lambda: rng.choice([None, "text", b"bytes", True, {}], 1)[0],
        lambda: [image(rng), image(rng)],
    ][int(rng.choice(7, p=[0.12, 0.34, 0.16, 0.2, 0.1, 0.04, 0.04]))]()


@pytest.mark.parametrize("name", NAMES)
def test_any_arguments(name: str) -> None:
    function = getattr(cv, name)
    parameters = inspect.signature(function).parameters
    done = 0
    for k in range(some_of(1000, 25)):
        rng = np.random.default_rng([k, sum(map(ord, name))])
        arguments = []
        for parameter in parameters.values():
            if parameter.default is not parameter.empty and rng.random() < 0.5:
                break
            first = len(arguments) < (2 if name in ("remap", "cvtColorTwoPlane", "convertMaps") else 1)
            arguments.append(image(rng) if first and rng.random() < 0.9 else anything(rng))
        try:
            function(*arguments)
        except MinnowError:
            continue
        done += 1
    assert done or name not in ("pyrDown", "pyrUp", "dilate"), "the arguments are too random to say anything"
