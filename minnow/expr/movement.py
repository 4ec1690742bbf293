"""Functions that move elements: shapes, axes, parts, gathering and scattering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.expr.argument import axes_of, axis_of, flag, int64s, integer, integers, shape_operand
from minnow.expr.constant import NCHW, NHWC, PadValue_Mode
from minnow.expr.dtype import promote
from minnow.expr.elementwise import _boolean
from minnow.expr.layout import convert
from minnow.expr.names import named
from minnow.expr.operation import apply, apply_one, common_type
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError

_MOST_PARTS = 1 << 20
_I32, _I64 = np.dtype(np.int32), np.dtype(np.int64)


def as_vars(values: Any, what: str = "values") -> list[Var]:
    """A list of operands in one type."""
    if not isinstance(values, (list, tuple)) or not values:
        raise UsageError(f"{what} are {type(values).__name__}, not a list of Vars")
    made = [as_var(v) for v in values]
    to = made[0]._dtype()
    for var in made[1:]:
        to = to if to == var._dtype() else promote(to, var._dtype())
    return [v._cast(to) for v in made]


def indices_of(value: Any, what: str) -> Var:
    """A Var of ints."""
    var = as_var(value)
    if var._dtype().kind == "f":
        raise UsageError(f"{what} are floats, not ints", hint="astype(expr.int)")
    return var._cast(_I32) if var._dtype() == np.bool_ else var


@named("expr", like="numpy.reshape", note="A size of 0 keeps that of x at the same place.")
def reshape(x: Any, shape: Any, original_format: Any = NCHW) -> Var:
    """The same elements in another shape; one size may be -1, and 0 keeps the size of x.

    Args:
        x: any shape.
        shape: the new one.
        original_format: ignored: the elements are in the order of the shape that x has.
    """
    return apply_one("Reshape", as_var(x), shape_operand(shape))


@named("expr", like="numpy.transpose")
def transpose(x: Any, perm: Any) -> Var:
    """The axes in another order: axis i of the result is axis perm[i] of x."""
    var = as_var(x)
    axes = axes_of(perm, var.ndim, "perm")
    if len(axes) != var.ndim:
        raise UsageError(f"perm is {list(axes)}", why=f"the Var has {var.ndim} axes")
    return apply_one("Transpose", var, perm=axes)


@named("expr", like="numpy.expand_dims")
def expand_dims(x: Any, axis: Any) -> Var:
    """A new axis of size 1."""
    return unsqueeze(x, axis)


@named("expr", like="numpy.expand_dims")
def unsqueeze(x: Any, axes: Any = ()) -> Var:
    """New axes of size 1, at these places of the result."""
    var = as_var(x)
    rows = integers(axes, "axes")
    return apply_one("Unsqueeze", var, axes=axes_of(rows, var.ndim + len(rows), "axes"))


@named("expr", like="numpy.squeeze")
def squeeze(x: Any, axes: Any = ()) -> Var:
    """Without axes of size 1: those that are given, or all."""
    var = as_var(x)
    rows = integers(axes, "axes") or [i for i, d in enumerate(var.shape) if d == 1]
    return apply_one("Squeeze", var, axes=axes_of(rows, var.ndim, "axes"))


@named("expr", like="numpy.concatenate")
def concat(values: Any, axis: Any) -> Var:
    """Several Vars one behind the other along an axis; a single Var is taken as the list of its parts."""
    if isinstance(values, Var):
        values = unstack(values)
    made = as_vars(values)
    return apply_one("Concat", *made, axis=axis_of(axis, made[0].ndim))


@named("expr", like="numpy.stack")
def stack(values: Any, axis: Any = 0) -> Var:
    """Vars of one shape along a new axis."""
    made = as_vars(values)
    place = axis_of(axis, made[0].ndim + 1)
    rows = [apply("Unsqueeze", v, axes=(place,)) for v in made]
    return apply_one("Concat", *rows, axis=place)


@named("expr", like="torch.unbind")
def unstack(x: Any, axis: Any = 0) -> list[Var]:
    """The parts along an axis, without that axis."""
    var = as_var(x)
    place = axis_of(axis, var.ndim)
    return [apply("Squeeze", part, axes=(place,)) for part in split(var, [1] * var.shape[place], place)]


@named("expr", like="numpy.split")
def split(x: Any, size_splits: Any, axis: Any) -> list[Var]:
    """Parts along an axis: of the sizes in a list, or a number of equal parts."""
    var = as_var(x)
    place = axis_of(axis, var.ndim)
    whole = var.shape[place]
    if isinstance(size_splits, (int, np.integer)):
        count = integer(size_splits, "size_splits", 1)
        if whole % count or count > _MOST_PARTS:
            raise UsageError(f"{whole} elements cannot be split into {count} equal parts")
        sizes = [whole // count] * count
    else:
        sizes = integers(size_splits, "size_splits")
    if sum(sizes) != whole or any(s < 0 for s in sizes) or not sizes:
        raise UsageError(f"size_splits is {sizes}", why=f"the axis has {whole} elements")
    return list(apply("Split", var, int64s(sizes), axis=place, n_outputs=len(sizes)))


@named("expr", like="tensorflow.slice")
def slice(x: Any, starts: Any, sizes: Any) -> Var:
    """The part that begins at `starts` and has `sizes` elements along each axis (-1: all that follow)."""
    var = as_var(x)
    first, counts = integers(starts, "starts", var.ndim), integers(sizes, "sizes", var.ndim)
    ends = []
    for start, count, whole in zip(first, counts, var.shape, strict=True):
        end = whole if count == -1 else start + count
        if start < 0 or count < -1 or end > whole:
            raise UsageError(f"a Var of the shape {var.shape} has no part at {first} of the size {counts}")
        ends.append(end)
    return apply_one("Slice", var, int64s(first), int64s(ends))


@named("expr", like="tensorflow.strided_slice")
def strided_slice(
    x: Any,
    begin: Any,
    end: Any,
    strides: Any,
    begin_mask: Any = 0,
    end_mask: Any = 0,
    ellipsis_mask: Any = 0,
    new_axis_mask: Any = 0,
    shrink_axis_mask: Any = 0,
) -> Var:
    """x[begin:end:strides], axis by axis. Bit i of a mask is for entry i.

    Args:
        x: any shape.
        begin, end, strides: a number for each entry.
        begin_mask, end_mask: entries that begin, or end, at the border.
        ellipsis_mask: the entry that stands for all axes which are left.
        new_axis_mask: entries that make a new axis.
        shrink_axis_mask: entries that take a single element, without its axis.
    """
    rows = [integers(v, n) for v, n in ((begin, "begin"), (end, "end"), (strides, "strides"))]
    if len({len(r) for r in rows}) != 1:
        raise UsageError("begin, end and strides have different lengths")
    masks = [integer(m, "a mask") for m in (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)]
    index: list[Any] = []
    for i, (first, last, step) in enumerate(zip(*rows, strict=True)):
        no_begin, no_end, is_rest, is_new, is_one = (bool(m >> i & 1) for m in masks)
        if is_rest:
            index.append(Ellipsis)
        elif is_new:
            index.append(None)
        elif is_one:
            index.append(first)
        else:
            index.append(np.s_[None if no_begin else first : None if no_end else last : step])
    from minnow.expr.indexing import get_item

    return as_var(get_item(as_var(x), tuple(index)))


@named("expr", like="numpy.broadcast_to")
def broadcast_to(input: Any, shape: Any) -> Var:
    """The elements repeated along axes of size 1, and along new ones, until they have a shape."""
    var, sizes = as_var(input), shape_operand(shape)
    made = apply_one("Expand", var, sizes)
    known = sizes._constant()
    if known is not None and (len(known) < var.ndim or made.shape != known.tolist()):
        raise UsageError(f"a Var of the shape {var.shape} cannot be broadcast to {known.tolist()}")
    return made


@named("expr", like="numpy.tile")
def tile(x: Any, multiples: Any) -> Var:
    """The elements repeated along each axis, as often as `multiples` says."""
    var = as_var(x)
    counts = integers(multiples, "multiples", var.ndim)
    if any(c < 0 for c in counts):
        raise UsageError(f"multiples is {counts}")
    return apply_one("Tile", var, int64s(counts))


@named("expr", like="numpy.copy")
def clone(x: Any, deepCopy: Any = False) -> Var:
    """A Var with the same elements."""
    var = as_var(x)
    if not SETTINGS.lazy and var._is_known():
        return Var._of(np.array(var._value()) if flag(deepCopy, "deepCopy") else var._value(), var.data_format)
    return apply_one("Identity", var)


@named("expr", like="numpy.pad", note="Constant padding is 0.")
def pad(x: Any, paddings: Any, mode: Any = PadValue_Mode.CONSTANT) -> Var:
    """The Var made larger.

    Args:
        x: any shape.
        paddings: [before, after] for each axis.
        mode: expr.CONSTANT, 0; expr.REFLECT, the mirror image; expr.SYMMETRIC, that with the border repeated.
    """
    var = as_var(x)
    amounts = as_var(paddings)
    if amounts.shape != [var.ndim, 2]:
        raise UsageError(f"paddings have the shape {amounts.shape}", hint=f"[before, after] for {var.ndim} axes")
    rows = integers(amounts, "paddings")
    if any(r < 0 for r in rows):
        raise UsageError(f"paddings are negative: {rows}")
    if mode is PadValue_Mode.SYMMETRIC:
        return _symmetric(var, rows)
    if not isinstance(mode, PadValue_Mode):
        raise UsageError(f"the mode is {mode!r}", hint="expr.CONSTANT, expr.REFLECT or expr.SYMMETRIC")
    if mode is PadValue_Mode.REFLECT:
        if any(max(rows[2 * i : 2 * i + 2]) >= max(n, 1) for i, n in enumerate(var.shape)):
            raise UsageError(f"paddings {rows} are too large to mirror the shape {var.shape}")
        return apply_one("Pad", var, int64s(rows), mode="reflect")
    return apply_one("Pad", var, int64s(rows))


def _symmetric(var: Var, rows: list[int]) -> Var:
    for axis, size in enumerate(var.shape):
        before, after = rows[2 * axis : 2 * axis + 2]
        if before or after:
            if max(before, after) > size:
                raise UsageError(f"paddings {rows} are too large to mirror the shape {var.shape}")
            places = np.pad(np.arange(size), (before, after), mode="symmetric")
            var = apply("Gather", var, Var._of(places), axis=axis)
    return var


@named("expr", like="numpy.flip")
def reverse(x: Any, axis: Any) -> Var:
    """The elements in reverse order along an axis."""
    var = as_var(x)
    return apply_one("Reverse", var, axes=axes_of(axis, var.ndim))


@named("expr", like="tensorflow.reverse_sequence")
def reverse_sequence(x: Any, y: Any, batch_dim: Any, seq_dim: Any) -> Var:
    """The first y[i] elements along `seq_dim` in reverse order, for each i along `batch_dim`."""
    var = as_var(x)
    batch, time = axis_of(batch_dim, var.ndim, "batch_dim"), axis_of(seq_dim, var.ndim, "seq_dim")
    return apply_one("ReverseSequence", var, indices_of(y, "lengths")._cast(_I64), batch_axis=batch, time_axis=time)


@named("expr", like="numpy.take", note="It is along the first axis.")
def gather(x: Any, index: Any) -> Var:
    """The parts of x along its first axis at these indices."""
    var, places = as_var(x), indices_of(index, "indices")
    axis_of(0, var.ndim)
    return apply_one("Gather", var, places, axis=0, format=var.data_format)


@named("expr", like="tensorflow.gather_nd")
def gather_nd(x: Any, indices: Any) -> Var:
    """x[i, j, ...] for each row (i, j, ...) along the last axis of the indices."""
    return apply_one("GatherND", as_var(x), indices_of(indices, "indices")._cast(_I64))


@named("expr", like="tensorflow.scatter_nd")
def scatter_nd(indices: Any, updates: Any, shape: Any) -> Var:
    """Zeros of a shape, with the updates added at the rows (i, j, ...) of the indices."""
    new = as_var(updates)
    zeros = apply("Fill", shape_operand(shape), Var._of(np.zeros((), new._dtype())), format=new.data_format)
    return apply_one("ScatterND", zeros, indices_of(indices, "indices")._cast(_I64), new, reduction="add")


@named("expr", like="numpy.where")
def select(cond: Any, x: Any, y: Any) -> Var:
    """x where the condition is not 0, y elsewhere."""
    v, w = common_type(as_var(x), as_var(y))
    form = v.data_format if isinstance(x, Var) else w.data_format
    return apply_one("Where", _boolean(cond), v, w, format=form)


@named("expr", like="numpy.argwhere", note="It looks for elements above 0.")
def where(x: Any) -> Var:
    """The indices of the elements above 0, one row for each."""
    var = as_var(x)
    positive = var if var._dtype() == np.bool_ else apply("Greater", var, Var._of(np.zeros((), var._dtype())))
    return apply_one("ArgWhere", positive)._cast(_I32)


@named("expr", like="numpy.unravel_index", note="It is one Var with a row for each axis.")
def unravel_index(indices: Any, shape: Any) -> Var:
    """The index along each axis for indices into the flattened Var: row i is for axis i."""
    sizes = integers(shape, "shape")
    flat = indices_of(indices, "indices")
    rest = flat._cast(_I64)
    rows: list[Var] = []
    for count in reversed(sizes):
        if count < 1:
            raise UsageError(f"the shape is {sizes}")
        one = Var._of(np.asarray(count, np.int64))
        rows.insert(0, apply("Mod", rest, one))
        rest = apply("FloorDiv", rest, one)
    return stack(rows)._cast(_I32)


@named("expr", like="numpy.setdiff1d", note="Elements keep their order and their number.")
def setdiff1d(x: Any, y: Any) -> Var:
    """The elements of x that are not in y."""
    v, w = as_var(x)._shown().ravel(), as_var(y)._shown().ravel()
    return Var._of(v[~np.isin(v, w)])


@named("expr", like="torch.nn.functional.pixel_shuffle", note="Blocks are in the order of TensorFlow.")
def depth_to_space(x: Any, axis: Any) -> Var:
    """Channels become blocks of `axis` times `axis` pixels."""
    return _blocks("DepthToSpace", x, axis)


@named("expr", like="torch.nn.functional.pixel_unshuffle", note="Blocks are in the order of TensorFlow.")
def space_to_depth(x: Any, axis: Any) -> Var:
    """Blocks of `axis` times `axis` pixels become channels."""
    return _blocks("SpaceToDepth", x, axis)


def _blocks(op: str, x: Any, size: Any) -> Var:
    var = as_image(x)
    return convert(apply(op, channels_first(var), blocksize=integer(size, "the size of blocks", 1)), var.data_format)


def as_image(x: Any) -> Var:
    """A Var of four axes."""
    var = as_var(x)
    if var.ndim != 4:
        raise UsageError(f"an image has 4 axes, this Var has the shape {var.shape}")
    return var


def channels_first(x: Var) -> Var:
    """The image with the axis of channels in front of height and width."""
    return convert(x, NCHW) if x.data_format is NHWC else x


@named("expr", like="tensorflow.space_to_batch_nd")
def space_to_batch_nd(x: Any, block_shape: Any, paddings: Any) -> Var:
    """Blocks of the padded height and width become batches.

    Args:
        x: an image.
        block_shape: height and width of a block.
        paddings: [[top, bottom], [left, right]].
    """
    var = as_image(x)
    bh, bw = (integer(b, "block_shape", 1) for b in integers(block_shape, "block_shape", 2))
    top, bottom, left, right = (integer(p, "paddings", 0) for p in integers(as_var(paddings), "paddings", 4))
    y = apply("Pad", channels_first(var), int64s([0, 0, 0, 0, top, bottom, left, right]))
    n, c, h, w = y.shape
    if h % bh or w % bw:
        raise UsageError(f"{h} times {w} pixels are not whole blocks of {bh} times {bw}")
    y = apply("Reshape", y, int64s([n, c, h // bh, bh, w // bw, bw]))
    y = apply("Transpose", y, perm=(3, 5, 0, 1, 2, 4))
    return convert(apply("Reshape", y, int64s([n * bh * bw, c, h // bh, w // bw])), var.data_format)


@named("expr", like="tensorflow.batch_to_space")
def batch_to_space_nd(x: Any, block_shape: Any, crops: Any) -> Var:
    """Batches become blocks of height and width, of which `crops` are cut off: the inverse of space_to_batch_nd."""
    var = as_image(x)
    bh, bw = (integer(b, "block_shape", 1) for b in integers(block_shape, "block_shape", 2))
    top, bottom, left, right = (integer(p, "crops", 0) for p in integers(as_var(crops), "crops", 4))
    y = channels_first(var)
    n, c, h, w = y.shape
    if n % (bh * bw) or top + bottom > h * bh or left + right > w * bw:
        raise UsageError(
            f"a Var of the shape {var.shape} has no blocks of {bh} times {bw} with crops {integers(crops, 'crops')}"
        )
    y = apply("Reshape", y, int64s([bh, bw, n // (bh * bw), c, h, w]))
    y = apply("Transpose", y, perm=(2, 3, 4, 0, 5, 1))
    y = apply("Reshape", y, int64s([n // (bh * bw), c, h * bh, w * bw]))
    ends = int64s([h * bh - bottom, w * bw - right])
    return convert(apply("Slice", y, int64s([top, left]), ends, int64s([2, 3])), var.data_format)


@named("expr", like="torch.nn.functional.channel_shuffle", note="The result is NC4HW4.")
def channel_shuffle(x: Any, axis: Any) -> Var:
    """The channels in groups, whose members are dealt out in turn: the first of each group, the second of each, ...

    Args:
        x: an image.
        axis: number of groups.
    """
    y = channels_first(as_image(x))
    n, c, h, w = y.shape
    groups = integer(axis, "the number of groups", 1)
    if c % groups:
        raise UsageError(f"{c} channels are not {groups} equal groups")
    y = apply("Reshape", y, int64s([n, groups, c // groups, h, w]))
    y = apply("Reshape", apply("Transpose", y, perm=(0, 2, 1, 3, 4)), int64s([n, c, h, w]))
    from minnow.expr.constant import NC4HW4

    return convert(y, NC4HW4)


@named("expr")
def crop(x: Any, size: Any, axis: Any, offset: Any) -> Var:
    """The part of an image that has the size of another one from `axis` on.

    Args:
        x: an image.
        size: a Var of the wanted shape.
        axis: the first axis to cut.
        offset: where the part begins: one number, or one for each axis that is cut.
    """
    var = channels_first(as_image(x))
    want = as_var(size).shape
    first = axis_of(axis, var.ndim)
    axes = list(np.arange(first, var.ndim))
    starts = integers(offset, "offset")
    starts = starts * len(axes) if len(starts) == 1 else starts
    if len(starts) != len(axes) or len(want) != var.ndim:
        raise UsageError(f"{len(starts)} offsets and {len(want)} sizes are for {len(axes)} axes of {var.ndim}")
    ends = [s + want[a] for s, a in zip(starts, axes, strict=True)]
    if any(s < 0 or e > var.shape[a] for s, e, a in zip(starts, ends, axes, strict=True)):
        raise UsageError(f"a Var of the shape {var.shape} has no part {starts} to {ends}")
    return apply_one("Slice", var, int64s(starts), int64s(ends), int64s(axes))


@named("expr", like="numpy.lib.stride_tricks.as_strided", note="It also says where the elements go.")
def raster(vars: Any, region: Any, shape: Any) -> Var:
    """A Var put together from regions of others; elements that no region writes are 0.

    Args:
        vars: one Var for each region.
        region: eleven numbers for each: offset and three strides in the flattened source, the same in the result, and
            three sizes.
        shape: of the result.
    """
    sources = as_vars(vars, "vars")
    numbers = integers(region, "region")
    sizes = integers(shape, "shape")
    if len(numbers) != 11 * len(sources):
        raise UsageError(f"{len(numbers)} numbers describe {len(sources)} regions", hint="11 for each Var")
    if any(s < 0 for s in sizes) or int(np.prod(sizes)) > 2**31:
        raise UsageError(f"the shape is {sizes}")
    out = apply("Fill", int64s([int(np.prod(sizes))]), Var._of(np.zeros((), sources[0]._dtype())))
    for var, row in zip(sources, _rows(numbers), strict=True):
        counts = row[8:]
        if any(c < 0 for c in counts) or int(np.prod(counts)) > 2**28:
            raise UsageError(f"a region has the size {counts}")
        read, written = (_places(row[i], row[i + 1 : i + 4], counts) for i in (0, 4))
        if read.size and (read.min() < 0 or read.max() >= var.size):
            raise UsageError(f"the region {row} reads outside of a Var of the shape {var.shape}")
        if written.size and (written.min() < 0 or written.max() >= int(np.prod(sizes))):
            raise UsageError(f"the region {row} writes outside of the shape {sizes}")
        taken = apply("Gather", apply("Reshape", var, int64s([-1])), Var._of(read), axis=0)
        out = apply("ScatterElements", out, Var._of(written), taken, axis=0)
    return apply_one("Reshape", out, int64s(sizes), format=sources[0].data_format)


def _rows(numbers: Sequence[int]) -> list[list[int]]:
    return [list(row) for row in np.reshape(np.array(numbers, object), (-1, 11))]


def _places(offset: int, strides: Sequence[int], counts: Sequence[int]) -> Any:
    a, b, c = (np.arange(n, dtype=np.int64) * s for n, s in zip(counts, strides, strict=True))
    return (offset + a[:, None, None] + b[None, :, None] + c[None, None, :]).reshape(-1)
