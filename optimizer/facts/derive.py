"""Dimensions of results as formulas of those of the operands, where type inference leaves them unknown."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce

from minnow.schema.ir import UNKNOWN, Node, Value
from minnow.schema.ops import Trait, get
from minnow.schema.registry.symbolic import Known, Memo, Polynomial, contents, dimension, of_dim, product

Rule = Callable[[Node, Memo[Known]], "Known | None"]


def extents(x: Value) -> Known | None:
    """All dimensions of a value; None if its rank is unknown."""
    if x.type.shape is None:
        return None
    return [e for e in (dimension(x, i) for i in range(len(x.type.shape))) if e is not None]


def viewed(node: Node, own: Known, memo: Memo[Known] | None = None) -> Known | None:
    """The dimensions of the result of a view, given those of its input; None for other ops."""
    rank = len(own)
    match node.op:
        case "Squeeze":
            axes = node.attrs.get("axes")
            gone = None if axes is None else {a % rank for a in axes}
            # Only a squeeze refuses what is not 1 at run time.
            if gone is None or any(own[i] != Polynomial(1) for i in gone):
                return None
            return [e for i, e in enumerate(own) if i not in gone]
        case "Unsqueeze":
            if node.has_input(1):
                return None
            axes = node.attrs.get("axes", ())
            total = rank + len(axes)
            new, rest = {a % total for a in axes}, iter(own)
            return [Polynomial.of(1) if i in new else next(rest) for i in range(total)]
        case "Flatten":
            at = node.attrs.get("axis", 1)
            at = at + rank if at < 0 else at
            return [product(own[:at]), product(own[at:])]
        case "Reshape":
            return _reshaped(own, contents(node.input(1), memo), bool(node.attrs.get("allowzero")))
    return None


def _reshaped(own: Known | None, target: Known | None, allowzero: bool) -> Known | None:
    if target is None or (own is None and not allowzero and Polynomial() in target):
        return None
    out = [
        own[i] if e == Polynomial() and not allowzero and own is not None and i < len(own) else e
        for i, e in enumerate(target)
    ]
    if out.count(_REST) == 1:
        at = out.index(_REST)
        whole, others = None if own is None else product(own), product(out[:at] + out[at + 1 :])
        out[at] = None if whole is None or others is None else whole.divided(others)
    return [e if e is not None and e.at_least(0) else None for e in out]


ONE = Polynomial.of(1)
_REST = Polynomial.of(-1)
_FAR = 2**30
"""Bounds from here on mean "to the end"."""


def derived(node: Node, memo: Memo[Known]) -> Known | None:
    """The dimensions of the result of a node, as far as they follow from the operands; None if none does."""
    rule = _RULES.get(node.op)
    if rule is None and Trait.ELEMENTWISE in get(node.op).traits and len(node.inputs) > 1:
        rule = _broadcast
    return None if rule is None else rule(node, memo)


def _view(node: Node, memo: Memo[Known]) -> Known | None:
    own = extents(node.input(0))
    if node.op == "Reshape":
        return _reshaped(own, contents(node.input(1), memo), bool(node.attrs.get("allowzero")))
    return None if own is None else viewed(node, own, memo)


def _filled(node: Node, memo: Memo[Known]) -> Known | None:
    return contents(node.input(0), memo)


def _expanded(node: Node, memo: Memo[Known]) -> Known | None:
    own, target = extents(node.input(0)), contents(node.input(1), memo)
    if own is None:
        return None
    if target is None:
        count = node.input(1).type.shape
        if count is None or not isinstance(count[0], int):
            return None
        target = [None] * count[0]
    one, lead = Polynomial.of(1), max(len(target) - len(own), 0)
    out = [*target[:lead], *own[: len(own) - len(target)]]
    for e, asked in zip(own[max(len(own) - len(target), 0) :], target[lead:], strict=True):
        if e == one:
            out.append(asked)  # it takes over what is asked for
        elif asked in (one, e) or (e is not None and (e.integer or 0) > 1):
            out.append(e)
        else:
            out.append(_common([e, asked]))  # either may be 1
    return out


def _concatenated(node: Node, memo: Memo[Known]) -> Known | None:
    parts = [None if v is None else extents(v) for v in node.inputs]
    known = [p for p in parts if p is not None]
    if not known or len({len(p) for p in known}) != 1:
        return None
    axis = node.attrs["axis"] % len(known[0])
    along = [p[axis] for p in known if p[axis] is not None]
    total = reduce(Polynomial.__add__, (e for e in along if e is not None)) if len(along) == len(parts) else None
    out = list(known[0])
    out[axis] = total
    return out


def bound(e: Polynomial | None, whole: Polynomial) -> Polynomial | None:
    """Where a bound of a slice lies; None when it may lie beyond an end."""
    if e is None:
        return None
    if e.integer is not None and e.integer >= _FAR:
        return whole
    if e.integer is not None and e.integer < 0:
        e = whole + e
        return e if e.at_least(0) else None
    if not e.at_least(0):
        return None
    return e if (whole - e).at_least(0) else whole if (e - whole).at_least(0) else None


def _sliced(node: Node, memo: Memo[Known]) -> Known | None:
    own = extents(node.input(0))
    starts, ends = (contents(node.input(i), memo) for i in (1, 2))
    if own is None or starts is None or ends is None or len(starts) != len(ends):
        return None
    places = node.input(3).array if node.has_input(3) else range(len(starts))
    steps = node.input(4).array if node.has_input(4) else [1] * len(starts)
    if places is None or steps is None:
        return None
    out = list(own)
    for axis, start, end, step in zip(places, starts, ends, steps, strict=True):
        whole = own[int(axis)]
        first, last = (None if whole is None else bound(e, whole) for e in (start, end))
        size = None if first is None or last is None or step != 1 else last - first
        if size is None and start == Polynomial() and step == 1 and whole is not None and end is not None:
            size = _smaller(end, whole)
        out[int(axis)] = size if size is not None and size.at_least(0) else None
    return out


def _smaller(end: Polynomial, whole: Polynomial) -> Polynomial | None:
    """The minimum of two dimensions, one of which is a number."""
    number = whole.integer if whole.integer is not None else end.integer
    other = end if whole.integer is not None else whole
    name = other.dim
    if number is None or number < 0 or not isinstance(name, str) or name == UNKNOWN or not other.at_least(0):
        return None
    return Polynomial.of(1, (None, f"min({name},{number})"))


_SMALLER = re.compile(r"min\((.*),(\d+)\)")


def _cut(e: Polynomial) -> tuple[Polynomial, int] | None:
    """The dimension and the number whose minimum is `e`."""
    dim = e.dim
    found = _SMALLER.fullmatch(dim) if isinstance(dim, str) else None
    return None if found is None else (of_dim(found[1]), int(found[2]))


def _broadcast(node: Node, memo: Memo[Known]) -> Known | None:
    """Of elementwise ops."""
    rank = node.output.type.rank
    parts = [None if v is None else extents(v) for v in node.inputs]
    if rank is None or None in parts or Trait.CHANNEL_OPERANDS in get(node.op).traits:
        return None
    wide: list[Known] = [[*[ONE] * (rank - len(p)), *p] for p in parts if p is not None]
    return [_common([e for e in row if e != ONE]) for row in zip(*wide, strict=True)]


def _common(dims: Known) -> Polynomial | None:
    """What dims broadcast to, 1s left out; None where any of them may be 1."""
    if not dims:
        return ONE
    known = [e for e in dims if e is not None]
    if len(known) != len(dims):
        return None
    if all(e == known[0] for e in known):
        return known[0]
    number = next((e for e in known if (e.integer or 0) > 1 or e.integer == 0), None)
    if number is not None:
        return number
    # min(S, 512) is 1 only where S is, and else must be S.
    cuts = [_cut(e) for e in known]
    whole = {e for e, cut in zip(known, cuts, strict=True) if cut is None}
    whole |= {cut[0] for cut in cuts if cut is not None}
    return whole.pop() if len(whole) == 1 and None in cuts and all(c is None or c[1] > 1 for c in cuts) else None


def _counted(node: Node, memo: Memo[Known]) -> Known | None:
    start, limit, delta = (contents(node.input(i), memo) or [None] for i in range(3))
    if start[0] is None or limit[0] is None or delta[0] != Polynomial.of(1):
        return None
    size = limit[0] - start[0]
    return [size] if size.at_least(0) else None


def _tiled(node: Node, memo: Memo[Known]) -> Known | None:
    own, times = extents(node.input(0)), contents(node.input(1), memo)
    if own is None or times is None or len(own) != len(times):
        return None
    return [None if a is None or b is None else a * b for a, b in zip(own, times, strict=True)]


def _padded(node: Node, memo: Memo[Known]) -> Known | None:
    own, pads = extents(node.input(0)), contents(node.input(1), memo)
    if own is None or pads is None or len(pads) != 2 * len(own):
        return None
    rows = zip(own, pads[::2], pads[1::2], strict=True)
    sums = [None if e is None or a is None or b is None else e + a + b for e, a, b in rows]
    return [e if e is not None and e.at_least(0) else None for e in sums]


# op list: the ops that this analysis has a function for
_RULES: dict[str, Rule] = {
    "Reshape": _view,
    "Flatten": _view,
    "Squeeze": _view,
    "Unsqueeze": _view,
    "Expand": _expanded,
    "Fill": _filled,
    "Concat": _concatenated,
    "Slice": _sliced,
    "Range": _counted,
    "Tile": _tiled,
    "Pad": _padded,
}
"""What is made longer, shorter or of another shape."""
