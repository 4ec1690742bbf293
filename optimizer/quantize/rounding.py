"""Which of two integers a weight becomes: by the error of the layer's outputs, instead of that of the weight itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.prune import COLUMNS, inverse_factor

Array = npt.NDArray[Any]


def fitted(rows: Array, scale: Array, least: float, most: float, squares: Array) -> Array:
    """Integers with a small error of the outputs: what one input loses is made up for by those behind it (GPTQ).

    Args:
        rows: f32[outputs, inputs], the weights.
        scale: f32[outputs], what an integer stands for.
        least, most: the least and the largest integer.
        squares: f64[inputs, inputs], the mean products of the inputs of an output.

    Returns:
        Whole numbers, f64[outputs, inputs].
    """
    inverse = inverse_factor(squares)
    rest, step = rows.astype(np.float64), scale.astype(np.float64)
    numbers = np.empty_like(rest)
    size = rest.shape[1]
    for begin in range(0, size, COLUMNS):
        end = min(begin + COLUMNS, size)
        errors = np.zeros((len(rest), end - begin))
        for i in range(begin, end):
            numbers[:, i] = np.clip(np.rint(rest[:, i] / step), least, most)
            errors[:, i - begin] = (rest[:, i] - numbers[:, i] * step) / inverse[i, i]
            rest[:, i:end] -= errors[:, i - begin, None] * inverse[i, i:end]
        rest[:, end:] -= errors @ inverse[begin:end, end:]
    return numbers
