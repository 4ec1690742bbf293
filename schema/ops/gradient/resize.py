"""The derivative of Resize: interpolation along each axis is a product with a matrix, whose transpose goes back."""

from __future__ import annotations

import numpy as np

from minnow.schema.ops import resize
from minnow.schema.registry.dimension import axes_of


def _matrices(x, roi, scales, sizes, mode, coordinate_mode, nearest_mode, cubic_coeff, exclude_outside, antialias,
              keep_aspect, axes):  # fmt: skip
    """axis -> the matrix[out, n] of the interpolation along it, where that does anything."""
    chosen = tuple(range(x.rank)) if axes is None else axes_of(axes, x.rank)
    given = {"roi": roi, "scales": scales, "sizes": sizes}
    arrays = {k: None if v is None else v.numbers(f"the operand '{k}'") for k, v in given.items()}
    arrays = {k: None if v is None or not v.size else v for k, v in arrays.items()}
    wanted = None if arrays["sizes"] is None else tuple(int(s) for s in arrays["sizes"])
    dims = [x.shape[a] for a in chosen]
    rows = resize._dims(dims, None if wanted is not None else arrays["scales"], wanted, keep_aspect)
    for i, (axis, n, (size, scale)) in enumerate(zip(chosen, dims, rows, strict=True)):
        crop = (0.0, 1.0) if arrays["roi"] is None else (arrays["roi"][i], arrays["roi"][i + len(chosen)])
        places = resize._places(coordinate_mode, n, int(size), scale, crop)
        if size == n and np.array_equal(places, np.arange(n)):
            continue
        if mode == "nearest":
            at = np.clip(resize._ROUND[nearest_mode](places), 0, n - 1).astype(np.int64)
            matrix = np.eye(n)[at]
        else:
            narrowing = float(scale) if antialias and scale < 1 else 1.0
            matrix = resize._weights(places, n, mode, narrowing, cubic_coeff, exclude_outside)
        if coordinate_mode == "tf_crop_and_resize":  # what is outside is another number, whatever x is
            matrix = np.where(((places < 0) | (places > n - 1))[:, None], 0, matrix)
        yield axis, matrix


@resize.Resize.gradient
def _(g, x, roi, scales, sizes, *, extrapolation_value, **attrs):
    piece = g.dy
    if 0 in x.shape:
        return g.zeros(x), None, None, None
    for axis, matrix in _matrices(x, roi, scales, sizes, **attrs):
        weights = g.term(matrix, x)
        if axis == x.rank - 1:
            piece = g.MatMul(piece, weights)
        else:
            # The axis as rows of a matrix, what is behind it as columns.
            lead, behind = piece.shape[:axis], piece.shape[axis + 1 :]
            flat = g.reshaped(piece, *lead, piece.shape[axis], int(np.prod(behind)))
            piece = g.reshaped(g.MatMul(weights, flat, transpose_a=True), *lead, matrix.shape[1], *behind)
    return piece, None, None, None
