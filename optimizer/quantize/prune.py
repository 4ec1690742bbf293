"""Which weights of a layer become 0, and how the others make up for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.layers import Layer
from minnow.schema.ir import DType

Array = npt.NDArray[Any]
Prune = Literal["magnitude", "block1x4", "block1x8"]

BLOCKS: dict[Prune, int] = {"magnitude": 1, "block1x4": 4, "block1x8": 8}
"""Neighbouring output channels whose weights for an input become 0 together."""

FEW_CHANNELS = 4
"""Convolutions of no more input channels stay as they are."""

MOST_INPUTS = 4096
"""Inputs of an output for which the others make up; the matrix that it takes has the square of it."""

MOST_WORK = 2e11
"""Multiplications that finding the best weights for what stays may take."""

COLUMNS = 128
"""Inputs whose errors go to those behind them together."""
_DAMPING = 0.01


def can_prune(layer: Layer) -> bool:
    """Whether a file can have the layer's weights without zeros. Depthwise layers, and those that read pictures, have
    too few to do without some: without the first one the others lose far less, and they are small.
    """
    one = layer.node.op == "Conv" and layer.shape[1] <= FEW_CHANNELS
    turned = layer.node.op == "ConvTranspose" and layer.shape[1] == 1 and int(layer.node.attrs.get("group", 1)) > 1
    return layer.form in ("stream", "product") and not one and not turned


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


def _from_outputs(layer: Layer, matrix: Array) -> Array:
    shape = layer.stored_shape
    if layer.node.op != "ConvTranspose":
        return np.ascontiguousarray(matrix.reshape(shape))
    return np.ascontiguousarray(np.moveaxis(matrix.reshape(shape[1], shape[0], *shape[2:]), 0, 1))


@dataclass(frozen=True)
class Seen:
    """Means over what outputs of a layer read in some runs: their inputs x, and what these are in the float model, w.

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
        """What one run shows; None for layers in groups and transposed ones, and if inputs are not finite.

        Args:
            layer: the layer.
            x: its input, [..., inputs] for a product, [batch, channels, height, width] for a convolution.
            wanted: its input in the float model; None for the same.
        """
        inputs = by_output(layer, layer.numbers()).shape[1]
        squares, crossed = np.zeros((inputs, inputs)), np.zeros((inputs, inputs))
        mean, wanted_mean = np.zeros(inputs), np.zeros(inputs)
        own, others = _rows(layer, x), None if wanted is None else _rows(layer, wanted)
        if own is None:
            return None
        count = 0
        for rows in own:
            squares += rows.T @ rows
            mean += rows.sum(0)
            count += len(rows)
            if others is not None:
                first = next(others)
                crossed += first.T @ rows
                wanted_mean += first.sum(0)
        if others is None:
            crossed, wanted_mean = squares, mean
        finite = all(np.isfinite(a).all() for a in (squares, crossed))
        return cls(squares / count, crossed / count, mean / count, wanted_mean / count) if count and finite else None

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
        squares = self.squares - np.outer(self.mean, self.mean)
        crossed = self.crossed - np.outer(self.wanted_mean, self.mean)
        return Seen(squares, crossed, np.zeros_like(self.mean), np.zeros_like(self.mean))


def pruned(layer: Layer, prune: Prune, sparsity: float) -> Array:
    """The weights of a layer with the least ones 0, in f32 in the order of their groups.

    Args:
        layer: the layer.
        prune: which weights become 0 together.
        sparsity: the share of the weights that become 0.
    """
    matrix = by_output(layer, layer.numbers())
    kept = _kept(np.square(matrix, dtype=np.float64), BLOCKS[prune], sparsity)
    return _from_outputs(layer, np.where(kept, matrix, np.float32(0)))


def fitted_to(
    layer: Layer, prune: Prune, sparsity: float, seen: Seen, bias: bool = False
) -> tuple[Array, Array | None]:
    """The weights of a layer with some 0, as `pruned`, of which the others make up for these, and for what layers in
    front have lost: the layer's outputs stay near to those of the float model.

    Args:
        layer, prune, sparsity: as for `pruned`.
        seen: the inputs of the layer.
        bias: whether the layer has a bias that can be changed.

    Returns:
        The weights, and what is added to the bias, f32[outputs]; None for nothing.
    """
    matrix = by_output(layer, layer.numbers())
    own = seen.centered if bias else seen
    wanted = _adapted(matrix, own)
    made = _nearest(wanted, _fitted(wanted, BLOCKS[prune], sparsity, own.squares), BLOCKS[prune], sparsity, own.squares)
    shift = matrix.astype(np.float64) @ seen.wanted_mean - made.astype(np.float64) @ seen.mean
    return _from_outputs(layer, made), shift.astype(np.float32) if bias else None


def _adapted(matrix: Array, seen: Seen) -> Array:
    """The weights whose outputs are nearest to those of the float model for inputs that are no longer the same."""
    moved = matrix.astype(np.float64) @ (seen.crossed - seen.squares)
    return np.asarray(matrix + np.linalg.solve(_regular(seen.squares), moved.T).T if moved.any() else matrix)


def _kept(scores: Array, block: int, sparsity: float) -> Array:
    """Which weights stay: those of the blocks with the largest mean score. Of equal blocks the later ones stay."""
    rows, columns = scores.shape
    starts = np.arange(0, rows, block)
    sizes = np.diff(np.append(starts, rows))
    sums = np.add.reduceat(scores, starts, axis=0) / sizes[:, None]
    order = np.argsort(sums, axis=None, kind="stable")
    taken = np.cumsum(np.broadcast_to(sizes[:, None], sums.shape).reshape(-1)[order])
    count = 1 + int(np.searchsorted(taken, sparsity * rows * columns - 1e-6))
    kept = np.ones(sums.size, bool)
    kept[order[:count]] = False
    return np.repeat(kept.reshape(sums.shape), sizes, axis=0)


def _fitted(matrix: Array, block: int, sparsity: float, squares: Array) -> Array:
    """The weights after each input that becomes 0 has moved its share to the inputs behind it."""
    inverse = inverse_factor(squares)
    rest = matrix.astype(np.float64)
    columns = rest.shape[1]
    for begin in range(0, columns, COLUMNS):
        end = min(begin + COLUMNS, columns)
        scale = np.diag(inverse)[begin:end]
        keep = _kept(np.square(rest[:, begin:end] / scale), block, sparsity)
        errors = np.zeros((len(rest), end - begin))
        for i in range(begin, end):
            gone = np.where(keep[:, i - begin], 0.0, rest[:, i])
            errors[:, i - begin] = gone / inverse[i, i]
            rest[:, i:end] -= errors[:, i - begin, None] * inverse[i, i:end]
            rest[~keep[:, i - begin], i] = 0.0
        rest[:, end:] -= errors @ inverse[begin:end, end:]
    return rest.astype(np.float32)


def _nearest(matrix: Array, fitted: Array, block: int, sparsity: float, squares: Array) -> Array:
    """The weights with the least error of the outputs: by least squares for those that `fitted` keeps, or for those
    with the largest share in the outputs. `fitted` itself where that would take too long.
    """
    wanted = matrix.astype(np.float64)
    work = len(matrix) / block * (len(squares) * (1 - sparsity)) ** 3
    if work > MOST_WORK:
        return fitted
    best, least = fitted, _loss(fitted - wanted, squares)
    for kept in (_whole(fitted != 0, block), _kept(np.square(wanted) * np.diag(squares), block, sparsity)):
        made = _least_squares(wanted, kept, block, squares)
        if np.isfinite(made).all() and (loss := _loss(made - wanted, squares)) < least:
            best, least = made, loss
    return best


def _whole(kept: Array, block: int) -> Array:
    """What stays, with whole blocks: a weight may be 0 by chance."""
    starts = np.arange(0, len(kept), block)
    sizes = np.diff(np.append(starts, len(kept)))
    return np.repeat(np.logical_or.reduceat(kept, starts, axis=0), sizes, axis=0)


def _loss(difference: Array, squares: Array) -> float:
    """The mean squared error of the outputs, of all together."""
    return float(np.sum((difference @ squares) * difference))


def _least_squares(wanted: Array, kept: Array, block: int, squares: Array) -> Array:
    """The weights that are not 0 where `kept` says, with outputs as near as can be to those of all weights."""
    damped = squares + _DAMPING * 0.01 * float(np.mean(np.diag(squares))) * np.eye(len(squares))
    right, made = wanted @ damped, np.zeros_like(wanted)
    for row in range(0, len(wanted), block):
        stay = np.flatnonzero(kept[row])
        if stay.size:
            made[row : row + block, stay] = _solved(damped[np.ix_(stay, stay)], right[row : row + block, stay].T).T
    return made.astype(np.float32)


def _solved(matrix: Array, right: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)


def _regular(squares: Array) -> Array:
    """The matrix with a little more on its diagonal, so that it has an inverse."""
    mean = float(np.mean(np.diag(squares)))
    return np.asarray(squares + (_DAMPING * mean if mean > 0 else 1.0) * np.eye(len(squares)))


def inverse_factor(squares: Array) -> Array:
    """The upper triangular U with U^T U the inverse of the matrix, which is made regular where it is not."""
    return np.asarray(np.linalg.cholesky(np.linalg.inv(_regular(squares))).T)


def _rows(layer: Layer, x: Array) -> Iterator[Array] | None:
    """What each output of a layer reads, f64[outputs, inputs], some at a time; None where that is no matrix."""
    node = layer.node
    if layer.form == "product":
        return iter([x.reshape(-1, by_output(layer, layer.numbers()).shape[1]).astype(np.float64)])
    if node.op == "Conv" and int(node.attrs.get("group", 1)) == 1 and x.ndim == 4:
        # An image at a time: a pixel is in many patches.
        return (_patches(layer, x[i : i + 1]).astype(np.float64) for i in range(len(x)))
    return None


def _patches(layer: Layer, x: Array) -> Array:
    """What each place of a convolution's output reads: [places, channels * height * width of the kernel]."""
    attrs = layer.node.attrs
    kernel, strides, dilations = layer.shape[2:], attrs["strides"], attrs["dilations"]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    if attrs.get("auto_pad"):
        total = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in zip(x.shape[2:], strides, reach, strict=True)]
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
    else:
        pads = list(attrs["pads"])
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    taken = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    return np.asarray(taken.transpose(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1] * kernel[0] * kernel[1]))
