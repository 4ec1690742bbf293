"""How much a layer suffers from other weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.layers import Layer

Array = npt.NDArray[Any]


def in_groups(layer: Layer, array: Array) -> Array:
    """Weights as the node has them, in the order of their groups."""
    return np.ascontiguousarray(array.T) if layer.turned else array


def relative(want: Array, got: Array) -> float:
    """The norm of the differences divided by that of the numbers."""
    size = float(np.linalg.norm(want.reshape(-1).astype(np.float64)))
    rest = float(np.linalg.norm((got.reshape(-1) - want.reshape(-1)).astype(np.float64)))
    return rest / size if size else rest


def output_error(layer: Layer, want: Array, got: Array, moment: Array | None) -> float:
    """The relative error of a layer's output, if its input channels were independent.

    Args:
        layer: the layer.
        want, got: its weights and those to use instead, in the order of their groups.
        moment: the mean square of each input channel; None: that of all is the same.
    """
    weights = _per_channel(layer, moment)
    error = np.square(got.astype(np.float64).reshape(want.shape) - want)
    size = np.square(want.astype(np.float64))
    if weights is not None:
        error, size = error * weights, size * weights
    total = float(size.sum())
    return float(np.sqrt(error.sum() / total)) if total > 0 else 0.0


def _per_channel(layer: Layer, moment: Array | None) -> Array | None:
    """The moments in a shape that is broadcast to the weights."""
    if moment is None or not np.isfinite(moment).all() or not moment.any():
        return None
    shape, group = layer.stored_shape, int(layer.node.attrs.get("group", 1))
    if layer.node.op == "Conv" and moment.size == shape[1] * group:
        by_group = np.repeat(moment.reshape(group, shape[1]), shape[0] // group, axis=0)
        return by_group.reshape(shape[0], shape[1], *(1,) * (len(shape) - 2))
    if layer.node.op == "ConvTranspose" and moment.size == shape[0]:
        return moment.reshape(-1, *(1,) * (len(shape) - 1))
    if layer.form == "product" and moment.size == shape[1]:
        return moment[None]
    return None
