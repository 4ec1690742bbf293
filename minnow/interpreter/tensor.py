"""`Tensor`: numbers on the host, or an input or output of a session."""

from __future__ import annotations

import math
import sys
from typing import Any, Protocol

import numpy as np

from minnow.interpreter.constant import (
    CAFFE,
    CAFFE_C4,
    TENSORFLOW,
    HalideType,
    dimension_type,
    is_type,
    type_of,
)
from minnow.interpreter.memory import Address, at
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]


class Cell(Protocol):
    """Where the numbers of a tensor are."""

    def get(self) -> Array: ...
    def set(self, array: Array) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...


class HostCell:
    """An array of a tensor's own."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def get(self) -> Array:
        return self._array

    def set(self, array: Array) -> None:
        self._array[...] = array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self._array.dtype
        return dtype


class Tensor:
    """Numbers on the host, or an input or output of a session.

        Tensor(shape, type, data, dimension_type)    of what `data` holds: an array, numbers, bytes, or an address
        Tensor(shape, type, dimension_type)          of zeros
        Tensor(tensor, dimension_type)               with the shape of another one, and for one of the host its numbers
        Tensor(var)                                  of a Var of `minnow.expr`

    The order of the axes is the dimension type: Tensorflow (channels last), Caffe (channels first), or Caffe_C4, which
    has the same shape and the same order of numbers as Caffe. Data are copied.

    Raises:
        UsageError: an argument is wrong, or there is more or less data than the shape says.
    """

    def __init__(self, *arguments: Any) -> None:
        self._cell: Cell
        self._order: int
        if len(arguments) in (1, 2) and not isinstance(arguments[0], (tuple, list)):
            self._of_other(*arguments)
        elif len(arguments) in (3, 4):
            self._of_data(*arguments)
        else:
            raise UsageError(
                f"Tensor takes 1 to 4 arguments, not {len(arguments)}",
                hint="(var), (tensor, dimension_type), (shape, type, dimension_type) or (shape, type, data, "
                "dimension_type)",
            )

    @classmethod
    def of_cell(cls, cell: Cell, order: int) -> Tensor:
        """A tensor whose numbers are there."""
        tensor = cls.__new__(cls)
        tensor._cell = cell
        tensor._order = order
        return tensor

    @classmethod
    def of_array(cls, array: Array, order: int = CAFFE) -> Tensor:
        """A tensor that holds this array."""
        return cls.of_cell(HostCell(array), order)

    def _of_other(self, other: Any, order: Any = None) -> None:
        if isinstance(other, Tensor):
            if order is None:
                raise UsageError("Tensor(tensor) needs a dimension type, too")
            self._order = dimension_type(order)
            array = turned(other._cell.get(), other._order, self._order)
            self._cell = HostCell(np.array(array, order="C"))
            return
        from minnow.expr import NHWC, Var

        if not isinstance(other, Var):
            raise UsageError(
                f"{type(other).__name__} is neither a Tensor nor a Var", hint="Tensor(shape, type, data, ...)"
            )
        have = TENSORFLOW if other.data_format is NHWC else CAFFE
        self._order = have if order is None else dimension_type(order)
        self._cell = HostCell(np.array(turned(other.read(), have, self._order), order="C"))

    def _of_data(self, shape: Any, type: Any, *rest: Any) -> None:
        dims = checked_shape(shape)
        dtype = is_type(type).dtype
        self._order = dimension_type(rest[-1])
        if len(rest) == 1:
            self._cell = HostCell(np.zeros(dims, dtype))
            return
        flat = _flat(rest[0], dtype, int(np.prod(dims, dtype=np.int64)))
        self._cell = HostCell(flat.reshape(dims))

    # ---- what it is

    def getShape(self) -> tuple[int, ...]:
        """Sizes of the axes, in the order of the dimension type."""
        return tuple(self._cell.shape)

    def getDataType(self) -> HalideType:
        """The element type, a constant `Halide_Type_...`."""
        return type_of(self._cell.dtype)

    def getDimensionType(self) -> int:
        """The order of the axes: Tensor_DimensionType_Tensorflow or _Caffe, as which _Caffe_C4 counts."""
        return CAFFE if self._order == CAFFE_C4 else self._order

    # ---- reading

    def getData(self) -> tuple[Any, ...]:
        """All numbers, as numbers of Python."""
        return tuple(self._cell.get().ravel().tolist())

    def getNumpyData(self) -> Array:
        """The numbers, in the memory of the tensor: what is written there, the tensor holds.

        For an output of a session it is what the latest run has given; the next run gives another array.
        """
        return self._cell.get()

    def getHost(self) -> int:
        """The address of the numbers. It keeps them alive."""
        return Address.of(self._cell.get())

    def printTensorData(self) -> None:
        """Prints the numbers."""
        sys.stdout.write(f"{np.array2string(self._cell.get(), threshold=sys.maxsize, separator=', ')}\n")

    # ---- writing

    def copyFrom(self, other: Any) -> bool:
        """Copies the numbers of another tensor, and changes the order of the axes if need be.

        Raises:
            UsageError: the shapes or the kinds of numbers differ.
        """
        if not isinstance(other, Tensor):
            raise UsageError(f"a Tensor is copied, not {type(other).__name__}", hint="Tensor(shape, type, data, ...)")
        array = turned(other._cell.get(), other._order, self._order)
        self._cell.set(_fitting(array, self, "copy"))
        return True

    def copyFromHostTensor(self, other: Any) -> bool:
        """`copyFrom`."""
        return self.copyFrom(other)

    def copyToHostTensor(self, other: Any) -> bool:
        """Copies the numbers to another tensor, and changes the order of the axes if need be.

        Raises:
            UsageError: the shapes or the kinds of numbers differ.
        """
        if not isinstance(other, Tensor):
            raise UsageError(f"the numbers are copied to a Tensor, not to {type(other).__name__}")
        return other.copyFrom(self)

    def fromNumpy(self, array: Any) -> None:
        """Copies the numbers of an array of the tensor's shape.

        Raises:
            UsageError: the shape or the kind of numbers differs.
        """
        self._cell.set(_fitting(_array(array, "the array is none"), self, "array"))

    def __repr__(self) -> str:
        return f"Tensor({self.getShape()}, {self.getDataType()!r}, {self._order})"


def checked_shape(shape: Any) -> tuple[int, ...]:
    """The shape, if it is one. Raises UsageError otherwise."""
    if isinstance(shape, (tuple, list)) or (isinstance(shape, np.ndarray) and shape.ndim == 1):
        dims = [d for d in shape if isinstance(d, (int, np.integer)) and not isinstance(d, bool) and 0 <= d < 2**31]
        if len(dims) == len(shape) <= 32 and math.prod(map(int, dims)) < 2**46:
            return tuple(map(int, dims))
    raise UsageError(f"{shape!r} is not a shape", hint="a tuple of sizes")


def turned(array: Array, have: int, want: int) -> Array:
    """The array with its channels where another order of axes has them."""
    if (have == TENSORFLOW) == (want == TENSORFLOW) or array.ndim < 3:
        return array
    return np.moveaxis(array, -1, 1) if have == TENSORFLOW else np.moveaxis(array, 1, -1)


def _fitting(array: Array, to: Tensor, what: str) -> Array:
    """The array in the shape and type of a tensor, of which axes of size 1 may be missing."""
    shape, dtype = to.getShape(), to._cell.dtype
    if array.shape != shape:
        if [d for d in array.shape if d != 1] != [d for d in shape if d != 1]:
            raise UsageError(
                f"the {what} has the shape {list(array.shape)}, the tensor {list(shape)}",
                hint="resizeTensor and resizeSession change the shape of an input",
            )
        array = array.reshape(shape)
    return in_type(array, dtype, what)


def in_type(array: Array, dtype: np.dtype[Any], what: str) -> Array:
    """The array in another type of the same kind, if that holds its numbers. Raises UsageError otherwise."""
    if array.dtype == dtype:
        return array
    kinds = (array.dtype.kind.replace("u", "i").replace("b", "i"), dtype.kind.replace("u", "i").replace("b", "i"))
    if kinds[0] == kinds[1] and kinds[0] in "if":
        with np.errstate(over="ignore"):
            new = array.astype(dtype)
        if kinds[0] == "f" or np.array_equal(new, array):
            return new
    raise UsageError(f"the {what} is of {array.dtype}, the tensor of {dtype}", hint=f"array.astype({dtype})")


def _array(data: Any, refusal: str) -> Array:
    try:
        return np.asarray(data)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(refusal, why=str(error)) from None


def _flat(data: Any, dtype: np.dtype[Any], count: int) -> Array:
    """A copy of so many elements, in one row."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        raw = np.frombuffer(bytes(data), np.uint8)
        if raw.size != count * dtype.itemsize:
            raise UsageError(f"{raw.size} bytes are given for {count} elements of {dtype}")
        elements: Array = np.array(raw.view(dtype))
        return elements
    if isinstance(data, int) and not isinstance(data, bool):
        return at(data, dtype, count)
    if data is None or isinstance(data, (str, dict, set, HalideType, Tensor)):
        raise UsageError(f"the data are {type(data).__name__}", hint="an array, numbers, or bytes")
    array = _array(data, "the data are no array")
    if array.size != count:
        raise UsageError(f"{array.size} elements are given for a tensor of {count}")
    if array.dtype.kind not in "iufb":
        raise UsageError(f"the data are of the type {array.dtype}", hint=f"numbers of {dtype}")
    if isinstance(data, np.ndarray):
        return np.array(in_type(array, dtype, "array"), order="C").ravel()
    # Numbers of Python have the type that is wanted, if it holds them.
    with np.errstate(all="ignore"):
        new = array.astype(dtype)
        same = dtype.kind == "f" or np.array_equal(new, array)
    if not same:
        raise UsageError(f"the data do not fit the type {dtype}")
    return np.array(new, order="C").ravel()
