"""Vars made from numbers, arrays, functions, buffers and files."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.expr.argument import flag, integers
from minnow.expr.casting import cast_array
from minnow.expr.dtype import dtype as dtypes
from minnow.expr.dtype import to_array, wanted
from minnow.expr.layout import with_format
from minnow.expr.names import also, constant, named
from minnow.expr.var import Var, as_var
from minnow.numpy.host import call, host, plain
from minnow.schema.errors import UsageError

_F32, _I32 = np.dtype(np.float32), np.dtype(np.int32)
_INT_DEFAULT = "The default type is int."
_FLOAT_DEFAULT = "The default type is float, not double."

pi = constant("numpy", "pi", np.pi, like="numpy.pi")
inf = constant("numpy", "inf", np.inf, like="numpy.inf")
nan = constant("numpy", "nan", np.nan, like="numpy.nan", mnn=False)
e = constant("numpy", "e", math.e, like="numpy.e", mnn=False)
newaxis = constant("numpy", "newaxis", None, like="numpy.newaxis")
float32 = constant("numpy", "float32", dtypes.float, like="numpy.float32")
float64 = constant("numpy", "float64", dtypes.double, like="numpy.float64")
int32 = constant("numpy", "int32", dtypes.int, like="numpy.int32")
int64 = constant("numpy", "int64", dtypes.int64, like="numpy.int64")
int8 = constant("numpy", "int8", dtypes.int8, like="numpy.int8", mnn=False)
uint8 = constant("numpy", "uint8", dtypes.uint8, like="numpy.uint8")
dtype = also(dtypes, "numpy", "dtype", like="numpy.dtype", mnn=False)
ndarray = also(Var, "numpy", "ndarray", like="numpy.ndarray", mnn=False)


def _sizes(shape: Any) -> tuple[int, ...]:
    sizes = tuple(integers(shape, "shape"))
    if any(s < 0 for s in sizes) or len(sizes) > 32:
        raise UsageError(f"{list(sizes)} is not a shape")
    return sizes


def _made(function: Callable[..., Any], *args: Any) -> Var:
    try:
        return Var._of(function(*args))
    except (ValueError, MemoryError, OverflowError, TypeError) as error:
        raise UsageError("no array of this shape can be made", why=str(error)) from error


# ---- of one number


@named("numpy", like="numpy.zeros", note=_INT_DEFAULT)
def zeros(shape: Any, dtype: Any = None, order: str = "C") -> Var:
    """A Var of a shape, all of whose elements are 0."""
    return _made(np.zeros, _sizes(shape), _I32 if dtype is None else wanted(dtype))


@named("numpy", like="numpy.ones", note=_INT_DEFAULT)
def ones(shape: Any, dtype: Any = None, order: str = "C") -> Var:
    """A Var of a shape, all of whose elements are 1."""
    return _made(np.ones, _sizes(shape), _I32 if dtype is None else wanted(dtype))


@named("numpy", like="numpy.empty", note=f"{_FLOAT_DEFAULT} The elements are 0.")
def empty(shape: Any, dtype: Any = dtypes.float, order: str = "C") -> Var:
    """A Var of a shape, of no particular contents."""
    return _made(np.zeros, _sizes(shape), wanted(dtype))


@named("numpy", like="numpy.full", note="The default type is int for ints, float for floats.")
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Var:
    """A Var of a shape, all of whose elements are one number."""
    value = to_array(fill_value, None if dtype is None else wanted(dtype))
    return _made(np.full, _sizes(shape), value, value.dtype)


@named("numpy", like="numpy.full_like")
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Var:
    """A Var of the shape and type of another one, all of whose elements are one number."""
    var = as_var(a)
    of = (_I32 if var._dtype() == np.bool_ else var._dtype()) if dtype is None else wanted(dtype)
    value = cast_array(to_array(fill_value), of)
    return with_format(_made(np.full, var.shape if shape is None else _sizes(shape), value, of), var.data_format)


def _like(name: str, value: Any) -> Any:
    def compute(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Var:
        return full_like(a, value, dtype, order, subok, shape)

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"A Var of the shape and type of another one, all of whose elements are {value}."
    return named("numpy", name, like=f"numpy.{name}")(compute)


zeros_like = _like("zeros_like", 0)
ones_like = _like("ones_like", 1)
empty_like = _like("empty_like", 0)


# ---- of arrays


@named("numpy", like="numpy.array", note="Python's numbers become int or float, float64 arrays float.")
def array(
    object: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    like: Any = None,
) -> Var:
    """A Var with a copy of the elements of an array, a list, a number or another Var."""
    made = to_array(object)
    if dtype is not None:
        of = wanted(dtype)
        made = to_array(object, of) if of.kind == "f" and of.itemsize == 8 else cast_array(made, of)
    if made.ndim < ndmin:
        made = made.reshape((1,) * (ndmin - made.ndim) + made.shape)
    form = {"form": object.data_format} if isinstance(object, Var) else {}
    return Var._of(np.array(made, order="C") if flag(copy, "copy") else made, **form)


def _conversion(name: str) -> Any:
    def compute(a: Any, dtype: Any = None, order: Any = None) -> Var:
        return as_var(a) if isinstance(a, Var) and dtype is None else array(a, dtype, copy=not isinstance(a, Var))

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = "A Var as it is; of anything else a Var with a copy of its elements."
    return named("numpy", name, like=f"numpy.{name}")(compute)


asarray = _conversion("asarray")
asanyarray = _conversion("asanyarray")
ascontiguousarray = _conversion("ascontiguousarray")
asfortranarray = _conversion("asfortranarray")


@named("numpy", like="numpy.asarray_chkfinite")
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Var:
    """As `asarray`. Raises UsageError if an element is infinite or NaN."""
    var: Var = asarray(a, dtype)
    if not np.all(np.isfinite(var._value())):
        raise UsageError("an element is infinite or NaN")
    return var


@named("numpy", like="numpy.require")
def require(a: Any, dtype: Any = None, requirements: Any = None) -> Var:
    """As `asarray`: a Var has no requirements of memory."""
    return asarray(a, dtype)  # type: ignore[no-any-return]


@named("numpy", like="numpy.asmatrix", note="It is a Var of two axes, and * is elementwise.")
def asmatrix(data: Any, dtype: Any = None) -> Var:
    """A Var of two axes."""
    made: Var = asarray(data, dtype)
    if made.ndim > 2:
        raise UsageError(f"a matrix has two axes, not the shape {made.shape}")
    return Var._of(np.atleast_2d(made._value()), made.data_format)


mat = also(asmatrix, "numpy", "mat", like="numpy.matrix", note="It is a Var of two axes, and * is elementwise.")
matrix = also(asmatrix, "numpy", "matrix", like="numpy.matrix", note="It is a Var of two axes, and * is elementwise.")


@named("numpy", like="numpy.bmat", note="It is a Var of two axes.")
def bmat(obj: Any, ldict: Any = None, gdict: Any = None) -> Any:
    """A matrix put together from blocks, in lists of lists."""
    return call("block", lambda parts: np.atleast_2d(np.block(parts)), (obj,), {})


@named("numpy", like="numpy.copy")
def copy(a: Any, order: str = "K", subok: bool = False) -> Var:
    """A Var with a copy of the elements."""
    return as_var(a).copy()


@named("numpy", like="numpy.copyto")
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Writes elements into a Var, repeated to its shape; `where` says which."""
    if not isinstance(dst, Var):
        raise UsageError(f"dst is {type(dst).__name__}, not a Var")
    made = np.array(dst._shown())
    try:
        with np.errstate(all="ignore"):
            np.copyto(made, to_array(src), casting=casting, where=plain(where, True))  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise UsageError("the elements cannot be copied", why=str(error)) from error
    dst.replace(Var._of(made, dst.data_format))


@named("numpy", like="numpy.ndarray.fill")
def fill(self: Any, fill_value: Any) -> None:
    """Sets all elements of a Var to a number."""
    if not isinstance(self, Var):
        raise UsageError(f"fill is for Vars, not for {type(self).__name__}")
    self.fill(fill_value)


# ---- of ranges and functions


@named("numpy", like="numpy.arange", note="The default type is int for ints, float for floats.")
def arange(*args: Any, **kargs: Any) -> Var:
    """Numbers at equal distances: arange(stop), arange(start, stop, step)."""
    of = kargs.pop("dtype", None)
    return as_var(_typed("arange", np.arange, args, kargs, of))


def _typed(name: str, function: Callable[..., Any], args: Any, kwargs: Any, of: Any) -> Any:
    made = call(name, function, args, kwargs)
    if of is None:
        return made
    to = wanted(of)
    if to.itemsize == 8 and to.kind == "f":  # with all digits
        return call(name, function, args, {**kwargs, "dtype": to})
    return Var._of(cast_array(as_var(made)._shown(), to))


@named("numpy", like="numpy.linspace", note=_FLOAT_DEFAULT)
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, retstep: Any = False, dtype: Any = None, axis: Any = 0
) -> Any:
    """`num` numbers at equal distances."""
    arguments = {"num": num, "endpoint": endpoint, "axis": axis}
    if flag(retstep, "retstep"):
        return call("linspace", np.linspace, (start, stop), {**arguments, "retstep": True})
    return _typed("linspace", np.linspace, (start, stop), arguments, dtype)


@named("numpy", like="numpy.logspace", note=_FLOAT_DEFAULT)
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, base: Any = 10.0, dtype: Any = None, axis: Any = 0
) -> Any:
    """`num` powers of `base` with exponents at equal distances."""
    arguments = {"num": num, "endpoint": endpoint, "base": base, "axis": axis}
    return _typed("logspace", np.logspace, (start, stop), arguments, dtype)


@named("numpy", like="numpy.geomspace", note=_FLOAT_DEFAULT)
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: Any = True, dtype: Any = None, axis: Any = 0) -> Any:
    """`num` numbers, each the same multiple of the one before."""
    arguments = {"num": num, "endpoint": endpoint, "axis": axis}
    return _typed("geomspace", np.geomspace, (start, stop), arguments, dtype)


@named("numpy", like="numpy.eye", note=_FLOAT_DEFAULT)
def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = dtypes.float, order: str = "C") -> Var:
    """A matrix with ones on diagonal k, and zeros elsewhere."""
    return call("eye", np.eye, (N, M, k, wanted(dtype)), {})  # type: ignore[no-any-return]


@named("numpy", like="numpy.identity", note=_FLOAT_DEFAULT)
def identity(n: Any, dtype: Any = dtypes.float) -> Var:
    """A square matrix with ones on the main diagonal."""
    return call("identity", np.identity, (n, wanted(dtype)), {})  # type: ignore[no-any-return]


@named("numpy", like="numpy.tri", note=_FLOAT_DEFAULT)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = dtypes.float) -> Var:
    """A matrix with ones on and below diagonal k."""
    return call("tri", np.tri, (N, M, k, wanted(dtype)), {})  # type: ignore[no-any-return]


@named("numpy", like="numpy.indices")
def indices(dimensions: Any, dtype: Any = dtypes.int, sparse: Any = False) -> Any:
    """For each element of a shape, its index along each axis."""
    return call("indices", np.indices, (_sizes(dimensions), wanted(dtype), flag(sparse, "sparse")), {})


@named("numpy", like="numpy.fromfunction", note=_FLOAT_DEFAULT)
def fromfunction(function: Callable[..., Any], shape: Any, dtype: Any = dtypes.float, **kwargs: Any) -> Any:
    """What a function gives for the indices of all elements, which it gets as Vars."""
    places = _made(np.indices, _sizes(shape), wanted(dtype))._value()
    made = function(*(Var._of(np.ascontiguousarray(p)) for p in places), **kwargs)
    return as_var(made)


meshgrid = host("meshgrid", lambda *xi, **kwargs: list(np.meshgrid(*xi, **kwargs)))
vander = host("vander")


# ---- of buffers and files


@named("numpy", like="numpy.frombuffer", note=f"{_FLOAT_DEFAULT} The elements are copied.")
def frombuffer(buffer: Any, dtype: Any = dtypes.float, count: Any = -1, offset: Any = 0) -> Var:
    """The elements in a buffer."""
    return _made(lambda: np.frombuffer(buffer, wanted(dtype), count, offset).copy())


@named("numpy", like="numpy.fromfile", note=_FLOAT_DEFAULT)
def fromfile(file: Any, dtype: Any = dtypes.float, count: Any = -1, sep: str = "", offset: Any = 0) -> Var:
    """The elements in a file, as bytes or (`sep`) as text."""
    try:
        return _made(lambda: np.fromfile(file, wanted(dtype), count, sep, offset))
    except OSError as error:
        raise UsageError(f"{file} cannot be read", why=str(error)) from error


@named("numpy", like="numpy.fromiter")
def fromiter(iter: Any, dtype: Any, count: Any = -1) -> Var:
    """The numbers that an iterator gives."""
    return _made(lambda: np.fromiter(iter, wanted(dtype), count))


@named("numpy", like="numpy.fromstring", note=_FLOAT_DEFAULT)
def fromstring(string: Any, dtype: Any = dtypes.float, count: Any = -1, sep: str = "") -> Var:
    """The numbers in a text, with `sep` between them; without, the elements in bytes."""
    if not isinstance(sep, str) or not isinstance(string, (str, bytes)):
        raise UsageError("fromstring takes a text, and a text between the numbers")
    if sep == "":
        raw = string.encode("latin1") if isinstance(string, str) else string
        return frombuffer(raw, dtype, count)
    return _made(lambda: np.fromstring(string, wanted(dtype), count, sep=sep))


@named("numpy", like="numpy.loadtxt", note=_FLOAT_DEFAULT)
def loadtxt(
    fname: Any,
    dtype: Any = dtypes.float,
    comments: Any = "#",
    delimiter: Any = None,
    converters: Any = None,
    skiprows: Any = 0,
    usecols: Any = None,
    unpack: Any = False,
    ndmin: Any = 0,
    encoding: Any = "bytes",
    max_rows: Any = None,
) -> Any:
    """The numbers in a text file, a row for each line."""
    arguments = {"comments": comments, "delimiter": delimiter, "converters": converters, "skiprows": skiprows,
                 "usecols": usecols, "unpack": unpack, "ndmin": ndmin, "max_rows": max_rows}  # fmt: skip
    arguments["encoding"] = None if encoding == "bytes" else encoding
    try:
        made = np.loadtxt(fname, wanted(dtype), **arguments)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{fname} cannot be read as a table of numbers", why=str(error)) from error
    return Var._of(np.ascontiguousarray(made).reshape(made.shape))
