"""Which weights of a layer become 0, and how the others make up for it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.layers import Layer
from minnow.optimizer.quantize.seen import COLUMNS, DAMPING, MOST_WORK, Seen, by_output, inverse_factor, regular

Array = npt.NDArray[Any]
Prune = Literal["magnitude", "block1x4", "block1x8"]

BLOCKS: dict[Prune, int] = {"magnitude": 1, "block1x4": 4, "block1x8": 8}
"""Neighbouring output channels whose weights for an input become 0 together."""

FEW_CHANNELS = 4
"""Convolutions of no more input channels stay as they are."""


def can_prune(layer: Layer) -> bool:
    """Whether a file can have the layer's weights without zeros. Depthwise layers, and those that read pictures, have
    too few to do without some: without the first one the others lose far less, and they are small.
    """
    one = layer.node.op == "Conv" and layer.shape[1] <= FEW_CHANNELS
    turned = layer.node.op == "ConvTranspose" and layer.shape[1] == 1 and int(layer.node.attrs.get("group", 1)) > 1
    return layer.form in ("stream", "product") and not one and not turned


def _from_outputs(layer: Layer, matrix: Array) -> Array:
    shape = layer.stored_shape
    if layer.node.op != "ConvTranspose":
        return np.ascontiguousarray(matrix.reshape(shape))
    return np.ascontiguousarray(np.moveaxis(matrix.reshape(shape[1], shape[0], *shape[2:]), 0, 1))


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
    wanted = own.adapted(matrix)
    made = _nearest(wanted, _fitted(wanted, BLOCKS[prune], sparsity, own.squares), BLOCKS[prune], sparsity, own.squares)
    return _from_outputs(layer, made), seen.shift(matrix, made) if bias else None


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
    inverse = inverse_factor(regular(squares))
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
    damped = squares + DAMPING * 0.01 * float(np.mean(np.diag(squares))) * np.eye(len(squares))
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
