"""Which layer gets how many bits: the order in which layers give up bits, by the error that each byte saved costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from minnow.optimizer.quantize.compress import BRAIN, FLOAT, HALF, PRUNED, Compressor, Width
from minnow.optimizer.quantize.sensitivity import output_error

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


def moves_of(rungs: Mapping[str, Sequence[Rung]], gains: Mapping[str, float]) -> list[Move]:
    """All moves, the cheapest first; the first n of them are, for their size, the choice with the least error.

    The errors of layers are taken to add up as independent noise does. A width that is no better than a mixture of a
    wider and a narrower one is left out.

    Args:
        rungs: the widths of each layer, from the most to the fewest bits.
        gains: by layer the squared error of the model's outputs, divided by that of the layer's output; 1 if unknown.
    """
    moves = []
    for order, (name, ladder) in enumerate(rungs.items()):
        at = 0
        while at + 1 < len(ladder):
            gain = gains.get(name, 1.0)
            costs = [(gain * _cost(ladder[at], ladder[i]), -i) for i in range(at + 1, len(ladder))]
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
    # A layer that is pruned is so at one sparsity: it is, or it is not.
    widths = (FLOAT, compressor.recipe.width) if compressor.recipe.prune else LADDER
    for layer in compressor.layers:
        ladder: list[Rung] = []
        want = layer.numbers()
        for width in widths:
            if 0 < width < least:
                continue
            size = compressor.bytes(layer, width)
            if ladder and size >= ladder[-1].bytes:
                continue  # for tables several widths are the same
            error = (
                0.0
                if width == FLOAT
                else output_error(layer, want, compressor.numbers(layer, width), moments.get(layer.name))
            )
            ladder.append(Rung(width, size, error))
        found[layer.name] = ladder
    return found


def undone(
    widths: Mapping[str, Width], rungs: Mapping[str, Sequence[Rung]], moves: Sequence[Move], room: int
) -> dict[str, Width]:
    """The widths after taking back moves, the most expensive ones first, as long as there is room for their bytes.

    Args:
        widths: after `moves`.
        rungs: the widths of each layer.
        moves: those that were made, the cheapest first.
        room: bytes that are free.
    """
    found = dict(widths)
    for move in reversed(moves):
        if found[move.layer] != move.rung.width:
            continue
        wider = [r for r in rungs[move.layer] if 0 < r.bytes - move.rung.bytes <= room]
        if wider:
            best = min(wider, key=lambda r: (r.error, r.bytes))
            room -= best.bytes - move.rung.bytes
            found[move.layer] = best.width
    return found


def uniform(rungs: Mapping[str, Sequence[Rung]], width: Width) -> dict[str, Width]:
    """All layers in a width, or in the next larger one that they have."""
    found: dict[str, Width] = {}
    for name, ladder in rungs.items():
        wide = [r.width for r in ladder if r.width >= width]
        found[name] = min(wide, default=FLOAT)
    return found


def widths_after(compressor: Compressor, moves: Sequence[Move]) -> dict[str, Width]:
    """The width of each layer after some moves."""
    widths: dict[str, Width] = dict.fromkeys((layer.name for layer in compressor.layers), FLOAT)
    widths.update((move.layer, move.rung.width) for move in moves)
    return widths


def reasons_of(rungs: Mapping[str, Sequence[Rung]], moves: Sequence[Move], count: int) -> dict[str, str]:
    """Why each layer keeps its width after `count` moves: what its next move would save and cost."""
    later = {move.layer: move for move in reversed(moves[count:])}
    now = {name: ladder[0] for name, ladder in rungs.items() if ladder}
    now.update({move.layer: move.rung for move in moves[:count]})
    return {name: _reason(rung, later.get(name)) for name, rung in now.items()}


def _reason(now: Rung, move: Move | None) -> str:
    if move is None:
        return "fewer bits would save nothing"
    saved = now.bytes - move.rung.bytes
    return f"{width_text(move.rung.width)} would save {saved} bytes, for an error of {move.rung.error:.2g}"


def width_text(width: Width) -> str:
    """A width in words."""
    return {FLOAT: "float32", HALF: "fp16", BRAIN: "bf16", PRUNED: "pruned float32"}.get(width, f"int{width}")
