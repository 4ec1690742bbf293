"""Sampling grids."""

from __future__ import annotations

import numpy as np

from minnow.converter.decomposition.grid import affine_grid
from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.operand import static_dim


@onnx.op("AffineGrid")
def _(b, theta, size, *, align_corners=0):
    # The body of the standard squeezes the batch away where it is 1, so the grid is built here.
    if theta.type.rank == 3 and isinstance(theta.type.shape[1], int):
        n = theta.type.shape[1]
    else:
        n = static_dim(size.type, 0, "the size of AffineGrid") - 2
    dimensions = [b.Gather(size, np.array(2 + i, np.int64)) for i in range(n)]
    return affine_grid(b, theta, b.Slice(size, np.array([0]), np.array([1])), dimensions, bool(align_corners))
