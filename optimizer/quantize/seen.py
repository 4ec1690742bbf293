"""What the runs of a calibration show of the inputs of a layer: the mean products of all that its outputs read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.layers import Layer
from minnow.schema.ir import DType

Array = npt.NDArray[Any]

MOST_INPUTS = 4096
"""Inputs of an output for which the others make up; the matrix that it takes has the square of it."""

MOST_WORK = 2e11
"""Multiplications that finding the best weights of a layer may take."""

COLUMNS = 128
"""Inputs whose errors go to those behind them together."""

DAMPING = 0.01
PLACES = 1024
"""Places of an image, at most, of which is counted what a convolution's outputs read: neighbours show the same."""


def takes_bias(layer: Layer) -> bool:
    """Whether something can be added to the layer's bias, which it may not have yet."""
    node = layer.node
    if node.op not in ("Conv", "Linear"):  # op list: those with a bias as their third operand
        return False
    bias = node.input(2) if node.has_input(2) else None
    return bias is None or (bias.data is not None and bias.type.dtype is DType.F32)


def by_output(layer: Layer, numbers: Array) -> Array:
    """Weights in the order of their groups as a matrix with a row for each output channel (of a group)."""
    turned = np.moveaxis(numbers, 1, 0) if layer.node.op == "ConvTranspose" else numbers
    return turned.reshape(len(turned), -1)


def groups_of(layer: Layer) -> int:
    """Groups of a convolution, whose outputs read different inputs; 1 for all others."""
    return int(layer.node.attrs.get("group", 1)) if layer.node.op in ("Conv", "ConvTranspose") else 1


@dataclass(frozen=True)
class Seen:
    """Means over what outputs of a layer read in some runs: their inputs x, and what these are in the float model, w.

    Of a convolution in groups each array has a first dimension for these.

    Attributes:
        squares: x x^T, [inputs, inputs].
        crossed: w x^T, [inputs, inputs].
        mean: x, [inputs].
        wanted_mean: w, [inputs].
    """

    squares: Array
    crossed: Array
    mean: Array
    wanted_mean: Array

    @classmethod
    def of(cls, layer: Layer, x: Array, wanted: Array | None = None) -> Seen | None:
        """What one run shows; None for transposed convolutions, and if inputs are not finite.

        Args:
            layer: the layer.
            x: its input, [..., inputs] for a product, [batch, channels, height, width] for a convolution.
            wanted: its input in the float model; None for the same.
        """
        inputs, groups = by_output(layer, layer.numbers()).shape[1], groups_of(layer)
        squares, crossed = np.zeros((groups, inputs, inputs)), np.zeros((groups, inputs, inputs))
        mean, wanted_mean = np.zeros((groups, inputs)), np.zeros((groups, inputs))
        own, others = _rows(layer, x), None if wanted is None else _rows(layer, wanted)
        if own is None:
            return None
        count = 0
        for rows in own:
            squares += rows.transpose(0, 2, 1) @ rows
            mean += rows.sum(1)
            count += rows.shape[1]
            if others is not None:
                first = next(others)
                crossed += first.transpose(0, 2, 1) @ rows
                wanted_mean += first.sum(1)
        if others is None:
            crossed, wanted_mean = squares, mean
        if not count or not all(np.isfinite(a).all() for a in (squares, crossed)):
            return None
        found = (a / count for a in (squares, crossed, mean, wanted_mean))
        return cls(*(a[0] if groups == 1 else a for a in found))

    @classmethod
    def mean_of(cls, runs: Iterator[Seen | None]) -> Seen | None:
        """The mean of several runs, which count alike; None if there are none, or one has shown nothing."""
        total: list[Array] = []
        count = 0
        for one in runs:
            if one is None:
                return None
            parts = [one.squares, one.crossed, one.mean, one.wanted_mean]
            total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
            count += 1
        return cls(*(a / count for a in total)) if count else None

    @property
    def centered(self) -> Seen:
        """The same for differences from the mean: what a bias does not make up for."""
        squares = self.squares - self.mean[..., :, None] * self.mean[..., None, :]
        crossed = self.crossed - self.wanted_mean[..., :, None] * self.mean[..., None, :]
        return Seen(squares, crossed, np.zeros_like(self.mean), np.zeros_like(self.mean))

    def adapted(self, matrix: Array) -> Array:
        """The weights, a row for each output, whose outputs for inputs that are no longer the same are nearest to
        those of the float model.
        """
        moved = in_groups_of(matrix, self.mean).astype(np.float64) @ (self.crossed - self.squares)
        if not moved.any():
            return matrix
        change = np.linalg.solve(regular(self.squares), np.swapaxes(moved, -1, -2))
        return np.asarray(matrix + np.swapaxes(change, -1, -2).reshape(matrix.shape))

    def error(self, matrix: Array, made: Array) -> float:
        """The relative error of the outputs with other weights."""
        want, lost = (in_groups_of(m, self.mean).astype(np.float64) for m in (matrix, made - matrix))
        power, rest = (float(np.sum((m @ self.squares) * m)) for m in (want, lost))
        return float(np.sqrt(max(rest, 0.0) / power)) if power > 0 else 0.0

    def shift(self, matrix: Array, made: Array) -> Array:
        """What the bias of a layer has to get for the mean of each output to stay as it was with other weights."""
        before, after = (in_groups_of(m, self.mean).astype(np.float64) for m in (matrix, made))
        found = before @ self.wanted_mean[..., None] - after @ self.mean[..., None]
        return np.asarray(found.reshape(-1), np.float32)


def in_groups_of(matrix: Array, mean: Array) -> Array:
    """A matrix with a row for each output, divided as the inputs are: [outputs, inputs], or one for each group."""
    return matrix.reshape(*mean.shape[:-1], -1, matrix.shape[1])


def regular(squares: Array) -> Array:
    """Matrices with a little more on their diagonals, so that they have an inverse."""
    mean = np.trace(squares, axis1=-2, axis2=-1)[..., None, None] / squares.shape[-1]
    return np.asarray(squares + np.where(mean > 0, DAMPING * mean, 1.0) * np.eye(squares.shape[-1]))


def inverse_factor(squares: Array) -> Array:
    """The upper triangular U with U^T U the inverse of a regular matrix."""
    return np.asarray(np.swapaxes(np.linalg.cholesky(np.linalg.inv(squares)), -1, -2))


def _rows(layer: Layer, x: Array) -> Iterator[Array] | None:
    """What each output of a layer reads, f64[groups, outputs, inputs], some at a time; None where that is no matrix."""
    node = layer.node
    if layer.form == "product":
        return iter([x.reshape(1, -1, by_output(layer, layer.numbers()).shape[1]).astype(np.float64)])
    if node.op == "Conv" and x.ndim == 4:
        # An image at a time: a pixel is in many patches.
        return (_patches(layer, x[i : i + 1]) for i in range(len(x)))
    return None


def _patches(layer: Layer, x: Array) -> Array:
    """What each place of a convolution's output reads: [groups, places, channels * height * width of the kernel].

    Of large images these are some places, the same ones for each image of a size.
    """
    attrs, groups = layer.node.attrs, groups_of(layer)
    kernel, strides, dilations = layer.shape[2:], attrs["strides"], attrs["dilations"]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    if attrs.get("auto_pad"):
        total = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in zip(x.shape[2:], strides, reach, strict=True)]
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
    else:
        pads = list(attrs["pads"])
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    taken = windows[0, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    height, width = taken.shape[1:3]
    places = np.arange(height * width)
    if len(places) > PLACES:
        places = np.sort(np.random.default_rng(0).choice(len(places), PLACES, replace=False))
    part = taken[:, places // max(width, 1), places % max(width, 1)].astype(np.float64)
    by_group = part.reshape(groups, -1, len(places), *kernel).transpose(0, 2, 1, 3, 4)
    return np.asarray(by_group.reshape(groups, len(places), -1))
