"""Which layer gets how many bits: the order in which layers give up bits, by the error that each byte saved costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.compress import FLOAT, HALF, Compressor, Width
from minnow.optimizer.quantize.layers import Layer

Array = npt.NDArray[Any]

LADDER: tuple[Width, ...] = (FLOAT, HALF, 8, 7, 6, 5, 4, 3, 2)
"""All widths, from the most to the fewest bits."""


@dataclass(frozen=True)
class Rung:
    """A width of a layer: bytes of its weights, and the relative error of its output (or of its weights)."""

    width: Width
    bytes: int
    error: float


@dataclass(frozen=True)
class Move:
    """A layer gets fewer bits. `cost` is the squared error that each byte saved costs."""

    layer: str
    rung: Rung
    cost: float


def moves_of(rungs: Mapping[str, Sequence[Rung]]) -> list[Move]:
    """All moves, the cheapest first; the first n of them are, for their size, the choice with the least error.

    The errors of layers are taken to add up as independent noise does. A width that is no better than a mixture of a
    wider and a narrower one is left out.
    """
    moves = []
    for order, (name, ladder) in enumerate(rungs.items()):
        at = 0
        while at + 1 < len(ladder):
            costs = [(_cost(ladder[at], ladder[i]), -i) for i in range(at + 1, len(ladder))]
            cost, best = min(costs)
            if cost == float("inf"):
                break
            at = -best
            moves.append((cost, order, Move(name, ladder[at], cost)))
    # Within a layer costs never become less, so this keeps the order of its moves.
    return [move for _, _, move in sorted(moves, key=lambda m: (m[0], m[1]))]


def _cost(now: Rung, then: Rung) -> float:
    saved = now.bytes - then.bytes
    return max(then.error**2 - now.error**2, 0.0) / saved if saved > 0 else float("inf")


def rungs_of(compressor: Compressor, least: int, moments: Mapping[str, Array]) -> dict[str, list[Rung]]:
    """The widths of each layer, with their bytes and errors.

    Args:
        compressor: has the layers.
        least: the fewest bits.
        moments: the mean square of each input channel, by the name of the layer, where it is known.
    """
    found = {}
    for layer in compressor.layers:
        ladder: list[Rung] = []
        want = layer.numbers()
        for width in LADDER:
            if 0 < width < least:
                continue
            size = compressor.bytes(layer, width)
            if ladder and size >= ladder[-1].bytes:
                continue  # for tables several widths are the same
            error = 0.0 if width == FLOAT else output_error(layer, want, compressor.numbers(layer, width), moments)
            ladder.append(Rung(width, size, error))
        found[layer.name] = ladder
    return found


def output_error(layer: Layer, want: Array, got: Array, moments: Mapping[str, Array]) -> float:
    """The relative error of a layer's output, if its input channels were independent; without moments of its weights.

    Args:
        want, got: the weights and those to use instead, in the order of their groups.
    """
    weights = _per_channel(layer, moments.get(layer.name))
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


def widths_after(compressor: Compressor, moves: Sequence[Move]) -> dict[str, Width]:
    """The width of each layer after some moves."""
    widths: dict[str, Width] = dict.fromkeys((layer.name for layer in compressor.layers), FLOAT)
    widths.update((move.layer, move.rung.width) for move in moves)
    return widths
