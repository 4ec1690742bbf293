"""Inverses of matrices."""

from __future__ import annotations

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType
from minnow.schema.registry.dimension import agree
from minnow.schema.registry.op import Float, fill, op


@op()
def Inverse(x: Float):
    """Inverses of the square matrices in the last two axes; NaN where there is none."""
    out = np.full(x.shape, np.nan)
    for i in np.ndindex(x.shape[:-2]):
        try:
            out[i] = np.linalg.inv(x[i].astype(np.float64))
        except np.linalg.LinAlgError:
            continue
    return out.astype(x.dtype)


@Inverse.shape
def _(x):
    if x.shape is None:
        return x.type
    if len(x.shape) < 2:
        raise ModelError(f"Inverse needs matrices, not the shape {x.shape}")
    side = agree(x.shape[-2:], "Inverse needs square matrices")
    return x.type.with_shape((*x.shape[:-2], side, side))


@Inverse.samples
def _(rng):
    for shape in (3, 3), (1, 1), (2, 5, 5), (2, 1, 4, 4), (0, 2, 2), (2, 0, 0), (17, 17):
        # A heavy diagonal keeps the inverse from magnifying what is rounded.
        yield (fill(rng, shape) + 3 * np.eye(shape[-1], dtype=np.float32),), {}
    yield (np.array([[0, 2, 0], [0, 0, -4], [1, 0, 0]], np.float32),), {}  # no pivot stands where it is looked for
    yield (np.array([[[1, 2], [2, 4]], [[1, 2], [3, 4]]], np.float32),), {}
    yield (fill(rng, (3, 3), DType.F64) + 3 * np.eye(3),), {}
