"""How a value lies inside of an ancestor: its axes as pieces of that one's axes, when it is only moved from there.

A piece is some elements of an axis, a step apart; axes that are joined are several pieces in a row, repeated ones are
pieces of no axis. Sizes may be dynamic dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from minnow.optimizer.facts.format import FLOATS
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Trait, get
from minnow.schema.registry.symbolic import Polynomial, contents, dimension

_MOST_STEPS = 12
_ONE = Polynomial(1)
REPEATED = -1


@dataclass(frozen=True)
class Piece:
    """`size` elements along `axis` of the ancestor, `step` apart; of no axis (REPEATED): the same ones again."""

    axis: int
    size: Polynomial
    step: int = 1


Pieces = tuple[Piece, ...]


@dataclass(frozen=True)
class View:
    """A value as its ancestor `base` has it.

    Attributes:
        axes: for each axis its pieces, the outermost first; none where the size is 1.
        starts: (axis of `base`, where it begins) of those that do not begin at 0.
        scale: the number it was multiplied by on the way.
    """

    base: Value
    axes: tuple[Pieces, ...]
    starts: tuple[tuple[int, int], ...] = ()
    scale: float = 1.0

    def whole(self, axis: int) -> Pieces:
        """All of an axis of `base`."""
        size = dimension(self.base, axis)
        return () if size is None or size == _ONE else (Piece(axis, size),)

    @property
    def pieces(self) -> Pieces:
        return _joined([p for axis in self.axes for p in axis])

    @property
    def in_order(self) -> bool:
        """The elements are those of `base`, in the same order."""
        rank = self.base.type.rank or 0
        return not self.starts and self.pieces == tuple(p for a in range(rank) for p in self.whole(a))


def views(value: Value, scaled: bool = False) -> Iterator[View]:
    """The value as its ancestors have it, itself first; those that it is no view of are left out.

    Args:
        value: any value.
        scaled: products with a constant number are seen through.
    """
    path: list[Node] = []
    at: Value | None = value
    while at is not None and len(path) <= _MOST_STEPS:
        made = _through(at, value, path)
        if made is not None:
            yield made
        node = at.producer
        if node is None or not (node.op in _STEPS or _is_view(node) or (scaled and factor_of(node) is not None)):
            return
        path.append(node)
        at = scaled_operand(node) if scaled and node.op in ("Mul", "Div") else node.input(0)


def _through(base: Value, value: Value, path: Sequence[Node]) -> View | None:
    rank = base.type.rank
    if rank is None:
        return None
    view: View | None = View(base, ())
    assert view is not None
    view = replace(view, axes=tuple(view.whole(a) for a in range(rank)))
    for i, node in reversed(list(enumerate(path))):
        out = value if i == 0 else _read(path[i - 1])
        view = _step(view, node, out)
        if view is None:
            return None
    return view


def _read(node: Node) -> Value:
    """The operand that a step is a view of."""
    operand = scaled_operand(node)
    return node.input(0) if operand is None else operand


def _is_view(node: Node) -> bool:
    return Trait.VIEW in get(node.op).traits


def _step(view: View, node: Node, out: Value) -> View | None:
    if node.op in ("Mul", "Div"):
        factor = factor_of(node)
        return None if factor is None else replace(view, scale=view.scale * factor)
    step = _STEPS.get(node.op)
    if step is not None:
        return step(view, node, out)
    return _reshaped(view, dims_of(out))


# ---- products with a number


def scaled_operand(node: Node) -> Value | None:
    """What a node multiplies by a number, None for other nodes."""
    if node.op not in ("Mul", "Div") or node.output.type.dtype not in FLOATS:
        return None
    for i in (0, 1) if node.op == "Mul" else (0,):
        x, number = node.input(i), node.input(1 - i)
        if number.type.count == 1 and number.is_const and not x.is_const:
            return x if (number.type.rank or 0) <= (x.type.rank or 0) else None
    return None


def factor_of(node: Node) -> float | None:
    """The number that a node multiplies its other operand by."""
    x = scaled_operand(node)
    if x is None:
        return None
    array = next(v for v in node.inputs if v is not None and v is not x).array
    assert array is not None
    number = float(array.reshape(-1)[0])
    return number if node.op == "Mul" else 1 / number if number else None


# ---- movements


def dims_of(value: Value) -> list[Polynomial | None] | None:
    """The dimensions of what a view op makes; None for one that follows from the others, or is unknown."""
    shape, node = value.type.shape, value.producer
    known = None
    if node is not None and node.op == "Reshape" and not node.attrs.get("allowzero"):
        known = contents(node.input(1))
    if known is None:
        if shape is None:
            return None
        rows = [dimension(value, a) if d != "?" else None for a, d in enumerate(shape)]
        return rows if rows.count(None) <= 1 else [dimension(value, a) for a in range(len(shape))]
    assert node is not None
    x = node.input(0)
    dims: list[Polynomial | None] = []
    for a, e in enumerate(known):
        if e is not None and not e.atoms and e.number == 0:
            e = dimension(x, a) if a < (x.type.rank or 0) else None
        elif e is not None and e.number < 0:
            e = None
        if e is None and shape is not None and shape[a] != "?":
            e = dimension(value, a)
        dims.append(e)
    return dims


def _product(sizes: Sequence[Polynomial]) -> Polynomial:
    total = _ONE
    for s in sizes:
        total = total * s
    return total


def _reshaped(view: View, dims: list[Polynomial | None] | None) -> View | None:
    if dims is None or dims.count(None) > 1:
        return None
    pieces = list(view.pieces)
    if any(p.size.number == 0 for p in pieces):
        return None
    known = _product([d for d in dims if d is not None])
    total = _product([p.size for p in pieces])
    if None not in dims and known != total:
        # The number of elements is the same, so a lone dimension that seems to be another one is not.
        dims = _without_stranger(dims, total)
        known = _product([d for d in dims if d is not None])
    rest = total.divided(known) if known.number else None
    if rest is None or (None not in dims and rest != _ONE):
        return None
    axes: list[Pieces] = []
    for dim in dims:
        need = rest if dim is None else dim
        taken: list[Piece] = []
        while need != _ONE:
            if not pieces:
                return None
            first = pieces[0]
            left = need.divided(first.size)
            if left is not None:
                taken.append(pieces.pop(0))
                need = left
                continue
            inner = first.size.divided(need)
            if inner is None or inner.atoms or need.atoms or first.axis == REPEATED:
                return None
            taken.append(Piece(first.axis, need, first.step * inner.number))
            pieces[0] = Piece(first.axis, inner, first.step)
            need = _ONE
        axes.append(_joined(taken))
    return replace(view, axes=tuple(axes))


def _joined(pieces: Sequence[Piece]) -> Pieces:
    """Pieces that go on where the one before has ended, as one."""
    out: list[Piece] = []
    for p in pieces:
        last = out[-1] if out else None
        goes_on = last is not None and last.axis == p.axis != REPEATED and last.step == p.size.number * p.step
        if last is not None and goes_on and not p.size.atoms:
            out[-1] = Piece(p.axis, last.size * p.size, p.step)
        else:
            out.append(p)
    return tuple(out)


def _without_stranger(dims: list[Polynomial | None], total: Polynomial) -> list[Polynomial | None]:
    for i, dim in enumerate(dims):
        if dim is not None and dim.number == 1 and len(dim.atoms) == 1 and dim.atoms[0] not in total.atoms:
            return [*dims[:i], None, *dims[i + 1 :]]
    return dims


def _transposed(view: View, node: Node, out: Value) -> View | None:
    perm = node.attrs.get("perm")
    return None if perm is None else replace(view, axes=tuple(view.axes[p] for p in perm))


def _narrowed(view: View, axis: int, start: int, size: int) -> View | None:
    """Elements `start`... along an axis; of one in several pieces, whole rounds of the inner ones."""
    if not view.axes[axis]:
        return view if start == 0 else None
    piece, *inner = view.axes[axis]
    each = _product([p.size for p in inner])
    if piece.axis == REPEATED or piece.size.atoms or each.atoms or not each.number:
        return None
    if start % each.number or size % each.number:
        return None
    starts = dict(view.starts)
    starts[piece.axis] = starts.get(piece.axis, 0) + start // each.number * piece.step
    kept = () if size == each.number else (replace(piece, size=Polynomial(size // each.number)),)
    axes = (*view.axes[:axis], (*kept, *inner), *view.axes[axis + 1 :])
    return replace(view, axes=axes, starts=tuple(sorted((a, s) for a, s in starts.items() if s)))


def _split(view: View, node: Node, out: Value) -> View | None:
    axis = node.attrs.get("axis", 0) % len(view.axes)
    sizes = [None if v.type.shape is None else v.type.shape[axis] for v in node.outputs]
    before, size = sizes[: out.index], sizes[out.index]
    if not isinstance(size, int) or not all(isinstance(s, int) for s in before):
        return None
    return _narrowed(view, axis, sum(s for s in before if isinstance(s, int)), size)


def _sliced(view: View, node: Node, out: Value) -> View | None:
    arrays = [v.array if v is not None else None for v in node.inputs[1:]]
    if any(v is not None and v.array is None for v in node.inputs[1:]) or arrays[0] is None:
        return None
    starts = [int(s) for s in arrays[0]]
    axes = range(len(starts)) if len(arrays) < 3 or arrays[2] is None else [int(a) for a in arrays[2]]
    if len(arrays) > 3 and arrays[3] is not None and any(int(s) != 1 for s in arrays[3]):
        return None
    found: View | None = view
    for start, axis in zip(starts, axes, strict=True):
        old, new = (None if v.type.shape is None else v.type.shape[axis] for v in (node.input(0), out))
        if found is None or not isinstance(old, int) or not isinstance(new, int):
            return None
        found = _narrowed(found, axis % len(view.axes), max(start + old, 0) if start < 0 else min(start, old), new)
    return found


def _gathered(view: View, node: Node, out: Value) -> View | None:
    """One slice along an axis, or all of them, each several times in a row."""
    index = node.input(1).array
    axis = node.attrs.get("axis", 0) % len(view.axes)
    if index is None or index.ndim > 1 or not index.size:
        return None
    places = [int(i) for i in index.reshape(-1)]
    size = _product([p.size for p in view.axes[axis]])
    if size.atoms:
        return None
    if len(places) == 1:
        kept = _narrowed(view, axis, places[0] % size.number, 1) if size.number else None
        if kept is None or index.ndim == 1:
            return kept
        return replace(kept, axes=(*kept.axes[:axis], *kept.axes[axis + 1 :]))
    times = len(places) // max(size.number, 1)
    if places != [i for i in range(size.number) for _ in range(times)]:
        return None
    repeated = (*view.axes[axis], Piece(REPEATED, Polynomial(times))) if times > 1 else view.axes[axis]
    return replace(view, axes=(*view.axes[:axis], repeated, *view.axes[axis + 1 :]))


def _expanded(view: View, node: Node, out: Value) -> View | None:
    rank = out.type.rank
    if rank is None or rank < len(view.axes):
        return None
    axes = [*[()] * (rank - len(view.axes)), *view.axes]
    for a in range(rank):
        size = dimension(out, a)
        if axes[a]:
            if size != _product([p.size for p in axes[a]]):
                return None
        elif size != _ONE:
            if size is None or size.atoms:
                return None
            axes[a] = (Piece(REPEATED, size),)
    return replace(view, axes=tuple(axes))


# op list: the ops that this analysis has a function for
_STEPS: dict[str, Callable[[View, Node, Value], View | None]] = {
    "Transpose": _transposed,
    "Split": _split,
    "Slice": _sliced,
    "Gather": _gathered,
    "Expand": _expanded,
}
