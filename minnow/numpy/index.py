"""Functions of indices, searching and selecting, bits, and iteration. They are computed at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr.argument import flag
from minnow.expr.movement import as_vars
from minnow.expr.names import named
from minnow.expr.var import Var, as_var
from minnow.numpy.host import call, host, plain
from minnow.schema.errors import UsageError

# ---- searching

searchsorted = host("searchsorted")
argwhere = host("argwhere", masks=True)
nonzero = host("nonzero", masks=True)
flatnonzero = host("flatnonzero", masks=True)
extract = host("extract", masks=True)
unique = host("unique")
partition = host("partition")
argpartition = host("argpartition")
lexsort = host("lexsort")
allclose = host("allclose", mnn=False)
isclose = host("isclose", mnn=False)
isin = host("isin", mnn=False)


@named("numpy", like="numpy.array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: Any = False) -> bool:
    """Whether two Vars have the same shape and elements."""
    return bool(call("array_equal", np.array_equal, (as_var(a1), as_var(a2), flag(equal_nan, "equal_nan")), {}))


@named("numpy", like="numpy.array_equiv")
def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether two Vars are equal when they are broadcast."""
    return bool(call("array_equiv", np.array_equiv, (as_var(a1), as_var(a2)), {}))


# ---- selecting

choose = host("choose")
compress = host("compress", masks=True)
select = host("select", masks=True)
take = host("take")
take_along_axis = host("take_along_axis")
diag = host("diag")
diagflat = host("diagflat")
diagonal = host("diagonal")
diag_indices = host("diag_indices")
diag_indices_from = host("diag_indices_from")
tril_indices = host("tril_indices")
triu_indices = host("triu_indices")
tril_indices_from = host("tril_indices_from")
triu_indices_from = host("triu_indices_from")
ix_ = host("ix_", masks=True)
ravel_multi_index = host("ravel_multi_index")
unravel_index = host("unravel_index")


@named("numpy", like="numpy.mask_indices")
def mask_indices(n: Any, mask_func: Any, k: Any = 0) -> Any:
    """The indices of what a function such as `triu` leaves of a square matrix of ones."""
    return call("mask_indices", np.mask_indices, (n, lambda m, k: as_var(mask_func(Var._of(m), k))._shown(), k), {})


# ---- changing a Var


def _changing(name: str) -> Any:
    function = getattr(np, name)

    def compute(a: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(a, Var):
            raise UsageError(f"{name} changes a Var, not {type(a).__name__}")
        array = np.array(a._shown())
        call(name, function, (array, *plain(args, True)), {k: plain(v, True) for k, v in kwargs.items()})
        a.replace(Var._of(array, a.data_format))

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"`numpy.{name}`: changes the Var."
    return named("numpy", name, like=f"numpy.{name}")(compute)


fill_diagonal = _changing("fill_diagonal")
place = _changing("place")
put = _changing("put")
put_along_axis = _changing("put_along_axis")
putmask = _changing("putmask")


# ---- bits

packbits = host("packbits")
unpackbits = host("unpackbits")
binary_repr = host("binary_repr")
base_repr = host("base_repr")


# ---- iterating


@named("numpy", like="numpy.broadcast", note="It is a list with the two Vars.")
def broadcast(*args: Any) -> list[Var]:
    """Vars repeated to one shape."""
    return call("broadcast_arrays", lambda *a: list(np.broadcast_arrays(*a)), args, {})  # type: ignore[no-any-return]


@named("numpy", like="numpy.flatiter")
def flatiter(a: Any) -> Any:
    """An iterator over all elements, as numbers."""
    return iter(as_var(a).read_as_tuple())


@named("numpy", like="numpy.ndindex")
def ndindex(*shape: Any) -> Any:
    """An iterator over the indices of all elements of a shape."""
    try:
        return np.ndindex(*plain(shape))
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise UsageError(f"{shape} is not a shape", why=str(error)) from error


@named("numpy", like="numpy.ndenumerate")
def ndenumerate(arr: Any) -> Any:
    """An iterator over the indices of all elements, with the elements as numbers."""
    return ((place, value.item()) for place, value in np.ndenumerate(as_var(arr)._shown()))


@named("numpy", like="numpy.nditer", note="It gives numbers, and is for reading.")
def nditer(op: Any, *args: Any, **kwargs: Any) -> Any:
    """An iterator over all elements, as numbers; over several Vars, as tuples of numbers."""
    operands = as_vars(op) if isinstance(op, (list, tuple)) else [as_var(op)]
    try:
        arrays = np.broadcast_arrays(*(v._shown() for v in operands))
    except ValueError as error:
        raise UsageError("the Vars cannot be broadcast", why=str(error)) from error
    rows = (a.ravel().tolist() for a in arrays)
    return iter(zip(*rows, strict=True)) if len(arrays) > 1 else iter(arrays[0].ravel().tolist())


@named("numpy", like="numpy.nested_iters")
def nested_iters(op: Any, axes: Any, *args: Any, **kwargs: Any) -> Any:
    """Iterators of numpy over groups of axes, nested in each other, for reading."""
    try:
        return np.nested_iters(plain(op), plain(axes), *args, **kwargs)
    except (TypeError, ValueError) as error:
        raise UsageError(f"there are no nested iterators over {axes}", why=str(error)) from error
