"""`x[...]` and `x[...] = y`, with what numpy takes as an index."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr.dtype import Array, to_array
from minnow.expr.operation import apply, apply_one
from minnow.expr.setting import SETTINGS
from minnow.expr.var import CONST, Var, as_var
from minnow.schema.errors import UsageError

_BOOL = np.dtype(np.bool_)


def get_item(x: Var, index: Any) -> Any:
    """The part of a Var that an index selects: a number if it is a single element of a Var with a value.

    Comparisons select as masks do in numpy, other Vars and lists of ints select positions.

    Raises:
        UsageError: the index does not fit the shape, or a graph cannot have it.
    """
    if SETTINGS.lazy or not x._is_known():
        return _in_graph(x, index)
    array = x._value()
    try:
        found = array[_plain(index)]
    except (IndexError, ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"a Var of the shape {x.shape} has no part {_text(index)}", why=str(error)) from None
    if not isinstance(found, np.ndarray):
        return int(found) if found.dtype == _BOOL else found.item()
    return Var._of(found, x.data_format)


def set_item(x: Var, index: Any, value: Any) -> None:
    """Changes the part of a Var that an index selects. What is computed of it anew sees the change.

    Raises:
        UsageError: the index or the shape of the value does not fit.
    """
    if x._operation is not None and (SETTINGS.lazy or not x._is_known()):
        _scatter(x, index, value)
        return
    old = x._value() if not x._is_own else x._array
    assert old is not None
    own = x._is_own
    given = to_array(value)
    place = _plain(index)
    target: Array = old if own else np.array(old)
    if target.dtype == _BOOL:
        target = target.astype(np.int32)
    try:
        with np.errstate(all="ignore"):
            target[place] = given
    except (IndexError, ValueError, TypeError, OverflowError) as error:
        raise UsageError(
            f"{_text(index)} of a Var of the shape {list(old.shape)} cannot be set", why=str(error)
        ) from None
    if x._operation is not None:
        x.replace(Var._of(target, x.data_format))
    else:
        x._set(target)
    x._is_own = True


def _text(index: Any) -> str:
    text = ", ".join("..." if i is Ellipsis else str(i) for i in index) if isinstance(index, tuple) else str(index)
    return f"[{text if len(text) < 80 else text[:80] + '...'}]"


def _plain(index: Any) -> Any:
    """The index with arrays for Vars."""
    if isinstance(index, tuple):
        return tuple(_plain(i) for i in index)
    if isinstance(index, Var):
        array = index._value()
        if array.dtype.kind == "f":
            raise UsageError("a Var of floats is not an index")
        return array
    if isinstance(index, list):
        return [_plain(i) for i in index] if any(isinstance(i, Var) for i in index) else index
    return index


def _expanded(items: tuple[Any, ...], rank: int, index: Any) -> list[Any]:
    """One item for each axis, and None for each new one."""
    used = sum(1 for i in items if i is not None and i is not Ellipsis)
    if used > rank or sum(1 for i in items if i is Ellipsis) > 1:
        raise UsageError(f"a Var with {rank} axes has no part {_text(index)}")
    out: list[Any] = []
    for item in items if any(i is Ellipsis for i in items) else (*items, Ellipsis):
        out += [slice(None)] * (rank - used) if item is Ellipsis else [item]
    return out


def _is_basic(item: Any) -> bool:
    return item is None or (isinstance(item, (slice, int, np.integer)) and not isinstance(item, bool))


def _in_graph(x: Var, index: Any) -> Any:
    items = index if isinstance(index, tuple) else (index,)
    if len(items) == 1 and isinstance(items[0], Var) and not _is_fixed(items[0]):
        return _by_var(x, items[0])
    if not all(i is Ellipsis or _is_basic(i) for i in items):
        return _gathered(x, index)
    per_axis = _expanded(items, x.ndim, index)
    starts: list[int] = []
    ends: list[int] = []
    axes: list[int] = []
    steps: list[int] = []
    dropped: list[int] = []
    new: list[int] = []
    axis = place = 0
    for item in per_axis:
        if item is None:
            new.append(place)
            place += 1
            continue
        if isinstance(item, slice):
            if item != slice(None):
                try:
                    step = 1 if item.step is None else int(item.step)
                    start = (0 if step > 0 else 2**31 - 1) if item.start is None else int(item.start)
                    end = (2**31 - 1 if step > 0 else -(2**31)) if item.stop is None else int(item.stop)
                except TypeError as error:
                    raise UsageError(f"{_text(index)} is not an index", why=str(error)) from None
                if step == 0:
                    raise UsageError(f"{_text(index)} has a step of 0")
                for column, number in ((starts, start), (ends, end), (axes, axis), (steps, step)):
                    column.append(number)
            place += 1
        else:
            size = x._type().shape
            number = int(item)
            if size is not None and isinstance(n := size[axis], int) and not -n <= number < n:
                raise UsageError(f"a Var of the shape {x.shape} has no part {_text(index)}")
            for column, value in ((starts, number), (ends, number + 1 or 2**31 - 1), (axes, axis), (steps, 1)):
                column.append(value)
            dropped.append(axis)
        axis += 1
    out = x
    if starts:
        out = apply("Slice", out, *(np.array(c, np.int64) for c in (starts, ends, axes, steps)))
    if dropped:
        out = apply("Squeeze", out, axes=tuple(dropped))
    if new:
        out = apply("Unsqueeze", out, axes=tuple(new))
    return out


def _is_fixed(var: Var) -> bool:
    return var._operation is None and var._kind == CONST


def _by_var(x: Var, index: Var) -> Var:
    """Selection by contents that a placeholder may change."""
    if index._dtype() == _BOOL:
        n = index.ndim
        flat = apply("Reshape", x, np.array([-1, *x.shape[n:]], np.int64))
        mask = apply("Reshape", index, np.array([-1], np.int64))
        return apply_one("Compress", flat, mask, axis=0)
    return apply_one("Gather", x, index, axis=0)


def _positions(x: Var, index: Any) -> Array:
    """Where in the flattened Var the selected elements are."""
    type = x._type()
    if not type.is_static:
        raise UsageError(f"{_text(index)} needs a shape that is known before the run", why=f"the Var is {type}")
    shape = type.static_shape
    try:
        return np.asarray(np.arange(int(np.prod(shape))).reshape(shape)[_plain(index)], np.int64)
    except (IndexError, ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"a Var of the shape {x.shape} has no part {_text(index)}", why=str(error)) from None


def _gathered(x: Var, index: Any) -> Var:
    flat = apply("Reshape", x, np.array([-1], np.int64))
    return apply_one("Gather", flat, Var._of(_positions(x, index)), axis=0)


def _scatter(x: Var, index: Any, value: Any) -> None:
    places = _positions(x, index)
    given = as_var(value)._cast(x._dtype())
    shape = np.array(x.shape, np.int64)
    source = Var._result(x._operation, x._index, x.data_format)  # type: ignore[arg-type]
    flat = apply("Reshape", source, np.array([-1], np.int64))
    spread = apply("Reshape", apply("Expand", given, np.array(places.shape, np.int64)), np.array([-1], np.int64))
    changed = apply("ScatterElements", flat, Var._of(places.reshape(-1)), spread, axis=0)
    x.replace(apply("Reshape", changed, shape))
