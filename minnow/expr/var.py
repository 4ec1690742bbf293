"""`Var`: a tensor, which is an array or a value of a graph that is computed when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minnow.expr.constant import NCHW, Format, data_format
from minnow.expr.dtype import Array, NumpyType, converted, dtype, exact_array, public, to_array, wanted
from minnow.expr.names import named
from minnow.expr.operation import Clock, Operation, apply_one, ordered
from minnow.expr.operators import Methods, Operators
from minnow.schema.errors import UsageError
from minnow.schema.ir import UNKNOWN, DType, TensorType

_BOOL = np.dtype(np.bool_)
_I32 = np.dtype(np.int32)

CONST, PLACEHOLDER, TRAINABLE = "Const", "Input", "Trainable"


_types: dict[Any, TensorType] = {}


def type_of(array: Array) -> TensorType:
    """The type of an array; it is the same object as long as arrays are not of very many types."""
    key = array.dtype.num, array.shape
    found = _types.get(key)
    if found is None:
        if len(_types) > 4096:
            _types.clear()
        found = _types[key] = TensorType(DType.of(array.dtype), array.shape)
    return found


@named("expr", like="numpy.ndarray")
class Var(Operators, Methods):
    """A tensor: a constant, a placeholder, a trainable, or the result of an operation.

    `expr.const`, `expr.placeholder` and `Var.from_array` make one, and all functions of `minnow.expr` and
    `minnow.numpy` give them. Operators are elementwise and broadcast as in numpy; numpy arrays, numbers and (nested)
    lists and tuples of numbers may be operands on both sides. A numpy function takes a Var as an array.

    Attributes:
        data_format: expr.NCHW, expr.NHWC or expr.NC4HW4: what the axes of an image are. The shape and what `read`
            gives are in this order; those of NC4HW4 are as those of NCHW.
        name: by which files and modules know it; "" at first.
    """

    __slots__ = (
        "__weakref__", "_array", "_declared", "_index", "_is_own", "_kind", "_operation", "_version", "data_format",
        "name",
    )  # fmt: skip
    __array_priority__ = 1000.0

    _array: Array | None
    _operation: Operation | None
    _declared: TensorType | None
    _kind: str
    _index: int
    _version: int
    _is_own: bool
    data_format: Format
    name: str

    def __init__(self, value: Any = None, dtype: Any = None) -> None:
        """A constant of anything that is a tensor: an array, a number, a list of numbers, a Var."""
        of = None if dtype is None else wanted(dtype)
        array = to_array([] if value is None else value, of)
        form = value.data_format if isinstance(value, Var) else NCHW
        self._fill(array.copy() if isinstance(value, (np.ndarray, Var)) else array, form)

    # ---- making

    def _fill(self, array: Array | None, form: Format) -> None:
        self._array = array
        self._operation = None
        self._declared = None
        self._kind = CONST
        self._index = 0
        self._version = 0
        self._is_own = False
        self.data_format = form
        self.name = ""

    @classmethod
    def _of(cls, array: Array, form: Format | None = NCHW) -> Var:
        """A constant that holds this very array, of a type that a Var may have, and that nothing will change."""
        var = cls.__new__(cls)
        var._fill(array, form or NCHW)
        return var

    @classmethod
    def _result(cls, operation: Operation, index: int, form: Format | None) -> Var:
        var = cls.__new__(cls)
        var._fill(None, form or NCHW)
        var._operation = operation
        var._index = index
        return var

    @classmethod
    def _placeholder(cls, type: TensorType, form: Format) -> Var:
        var = cls.__new__(cls)
        var._fill(None, form)
        var._kind = PLACEHOLDER
        var._declared = type
        return var

    @classmethod
    def from_array(cls, array: Any, data_format: Format | str = NCHW) -> Var:
        """A constant with the elements of an array, without a copy if it has a type that a Var can have.

        Args:
            array: it must not be changed as long as the Var is used.
            data_format: what its axes are, a constant of `expr` or its name.

        Raises:
            UsageError: it is not a tensor of numbers.
        """
        return cls._of(to_array(array), format_of(data_format))

    # ---- for the other modules of this package

    def _constant(self) -> Array | None:
        return self._array if self._operation is None and self._kind == CONST else None

    def _type(self) -> TensorType:
        """The type in the graph: a comparison is bool there."""
        if self._operation is not None:
            return self._operation.types()[self._index]
        if self._array is not None:
            return type_of(self._array)
        assert self._declared is not None
        return self._declared

    def _dtype(self) -> NumpyType:
        if self._array is not None and self._operation is None:
            return self._array.dtype
        return self._type().dtype.numpy

    def _is_known(self) -> bool:
        """It has a value, or can be computed: all placeholders that it depends on have been written."""
        if self._operation is None:
            return self._array is not None
        if self._operation.is_valid():
            return True
        needed = ordered([self._operation], Operation.is_valid)
        leaves = (v for o in needed for v in o.inputs if v is not None and v._operation is None)
        return all(v._array is not None for v in leaves)

    def _value(self) -> Array:
        """The array, computed if need be; booleans of comparisons as they are. It must not be changed."""
        self._is_own = False
        if self._operation is not None:
            if not self._operation.is_valid():
                from minnow.expr.evaluation import evaluate

                evaluate([self])
            assert self._operation.results is not None
            return self._operation.results[self._index]
        if self._array is None:
            raise UsageError(
                f"the placeholder{self.name and f' {self.name!r}'} has no value yet",
                hint="var.write(array) gives it one",
            )
        return self._array

    def _shown(self) -> Array:
        """The array as the user sees it: ints for booleans."""
        array = self._value()
        return array.astype(_I32) if array.dtype == _BOOL else array

    def _cast(self, to: NumpyType) -> Var:
        if self._dtype() == to:
            return self
        array = self._constant()
        if array is not None:
            return Var._of(converted(array, to), self.data_format)
        return apply_one("Cast", self, to=DType.of(to), saturate=False)

    # ---- what it is

    @property
    def shape(self) -> list[int]:
        """The sizes of the axes; -1 for one that is not known before a placeholder has been written."""
        type = self._type()
        if not type.is_static and self._operation is not None and self._is_known():
            return list(self._value().shape)
        if type.shape is None:
            raise UsageError("the shape is not known before all placeholders have been written")
        return [d if isinstance(d, int) else -1 for d in type.shape]

    @property
    def dtype(self) -> dtype:
        """The element type, a constant of `expr`."""
        return public(self._dtype())

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    @property
    def op_type(self) -> str:
        """The op that it is the result of; "Const", "Input" or "Trainable" for what is not a result."""
        return self._kind if self._operation is None else self._operation.op.name

    @property
    def inputs(self) -> list[Var]:
        """The operands of the operation that it is the result of."""
        return [] if self._operation is None else [v for v in self._operation.inputs if v is not None]

    @property
    def valid(self) -> bool:
        """It has a type: the inputs of the operation fit it."""
        return self._operation is None or bool(self._operation.types())

    @property
    def ptr(self) -> int:
        """The address of the elements in the memory of the host, which stay there as long as the Var is not written."""
        array = np.ascontiguousarray(self._shown())
        if self._operation is None:
            self._array = array
        return int(array.ctypes.data)

    # ---- reading

    def read(self) -> Array:
        """A copy of the elements as a numpy array, in the order of the shape. `numpy.asarray(var)` makes no copy.

        Raises:
            UsageError: it depends on a placeholder that has not been written.
        """
        return np.array(self._shown(), order="C")

    def read_as_tuple(self) -> tuple[Any, ...]:
        """All elements, as numbers of Python."""
        return tuple(self._shown().ravel().tolist())

    def item(self, index: int = 0) -> Any:
        """One element by its index in the flattened Var, as a number of Python."""
        array = self._shown()
        if not isinstance(index, (int, np.integer)) or not -array.size <= index < array.size:
            raise UsageError(f"there is no element {index!r}", why=f"the Var has {array.size} elements")
        return array.item(int(index))

    def tolist(self) -> Any:
        """Nested lists of numbers."""
        return self._shown().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self._shown()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"a Var of {self.dtype} cannot become an array of {dtype} without a copy")
            return array.astype(dtype)
        if copy:
            return array.copy()
        view = array.view()
        view.flags.writeable = False  # constants and results share memory
        return view

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from minnow.expr.elementwise import of_numpy

        return of_numpy(ufunc, method, inputs, kwargs)

    def __dlpack__(self, **arguments: Any) -> Any:
        array = self._shown()
        if array.flags.writeable is False:  # which DLPack cannot express
            array = array.copy()
        try:
            return array.__dlpack__(**arguments)
        except TypeError:  # numpy < 2.1 has fewer arguments
            return array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the host

    def __repr__(self) -> str:
        if not self._is_known():
            return f"Var({self.op_type}, {self._type()})"
        return repr(self._shown())

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise UsageError("a Var without axes has no length")
        return shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def _one(self) -> Any:
        array = self._shown()
        if array.size != 1:
            raise UsageError(f"a Var of the shape {self.shape} is not one number")
        return array.item()

    def __bool__(self) -> bool:
        array = self._value()
        if array.size != 1:
            raise UsageError(f"a Var of the shape {list(array.shape)} is neither true nor false", hint="all() or any()")
        return bool(array.item())

    def __int__(self) -> int:
        return int(self._one())

    def __float__(self) -> float:
        return float(self._one())

    def __index__(self) -> int:
        value = self._one()
        if not isinstance(value, int):
            raise TypeError("a Var of floats is not an index")
        return value

    # ---- writing

    def write(self, data: Any) -> bool:
        """Gives it other elements: what depends on it is computed anew when it is read.

        Args:
            data: an array or a list, of as many elements as the Var has; the elements are copied. A placeholder with
                dimensions that are not known takes the shape of the array.

        Raises:
            UsageError: the number of elements or the kind of numbers does not fit, or the Var is a result.
        """
        if self._operation is not None:
            raise UsageError(f"a result of {self.op_type} cannot be written", hint="write the placeholder behind it")
        kind = self._dtype()
        given = exact_array(data, _I32 if kind == _BOOL else kind)
        shape = self._array.shape if self._array is not None else self._type().shape or ()
        if self._declared is not None and not self._declared.is_static:
            shape = self._matched(given.shape)
        if given.size != int(np.prod([d if isinstance(d, int) else -1 for d in shape])):
            raise UsageError(f"{given.size} elements are written to a Var of the shape {self.shape}")
        new = np.array(given, order="C").reshape([int(d) for d in shape])
        self._set(new)
        return True

    def _matched(self, given: tuple[int, ...]) -> tuple[int, ...]:
        assert self._declared is not None
        want = self._declared.shape or ()
        if len(want) != len(given) or any(isinstance(w, int) and w != g for w, g in zip(want, given, strict=True)):
            shown = [d if isinstance(d, int) else -1 for d in want]
            raise UsageError(f"an array of the shape {list(given)} is written to a Var of the shape {shown}")
        return given

    def _set(self, array: Array) -> None:
        """New contents of what is not a result, of its type."""
        old = self._array
        if self._kind == CONST or old is None or old.shape != array.shape or old.dtype != array.dtype:
            Clock.structure += 1
        self._array = array
        self._is_own = False
        self._version += 1
        Clock.contents += 1

    def resize(self, shape: Sequence[int]) -> bool:
        """Gives a placeholder another shape. It has no value then until it is written, if the size changes."""
        if self._operation is not None or self._kind != PLACEHOLDER:
            raise UsageError(f"resize is for placeholders, not for {self.op_type}", hint="minnow.numpy.resize")
        type = self._type()
        self._declared = TensorType(type.dtype, _dims(shape, self))
        if self._array is not None:
            fits = self._declared.count == self._array.size
            self._array = self._array.reshape(self._declared.static_shape) if fits else None
        self._version += 1
        Clock.structure += 1
        Clock.contents += 1
        return True

    def _become(self, kind: str) -> None:
        if self._operation is not None:
            self._array = self._shown() if kind != PLACEHOLDER or self._is_known() else None
            if self._array is None:
                self._declared = self._type()
            self._operation = None
        elif self._array is None and kind != PLACEHOLDER:
            self._value()  # raises the error
        self._kind = kind
        self._version += 1
        Clock.structure += 1
        Clock.contents += 1

    def fix_as_const(self) -> bool:
        """Makes it a constant with its current value."""
        self._become(CONST)
        return True

    def fix_as_placeholder(self) -> bool:
        """Makes it a placeholder that holds its current value."""
        self._become(PLACEHOLDER)
        return True

    def fix_as_trainable(self) -> bool:
        """Makes it a trainable that holds its current value: a placeholder which optimizers change."""
        self._become(TRAINABLE)
        return True

    def replace(self, other: Any) -> None:
        """Makes it what `other` is: all that depends on it depends on `other` then."""
        source = as_var(other)
        if source is self:
            return
        if source._operation is not None and self in _ancestors(source):
            raise UsageError("a Var cannot be replaced by what is computed of it")
        self._array = source._array
        self._operation = source._operation
        self._declared = source._declared
        self._index = source._index
        self._kind = source._kind
        self.data_format = source.data_format
        self._is_own = source._is_own = False
        self._version += 1
        Clock.structure += 1
        Clock.contents += 1

    def reorder(self, order: Format) -> bool:
        """Converts it to another data format."""
        from minnow.expr.layout import convert

        self.replace(convert(self, order))
        return True

    def set_order(self, order: Format) -> bool:
        """Says what the axes are, without moving anything."""
        if not isinstance(order, data_format):
            raise UsageError(f"{order!r} is not a data format", hint="expr.NCHW, expr.NHWC or expr.NC4HW4")
        self.data_format = order
        return True

    def set_inputs(self, inputs: Sequence[Any]) -> None:
        """Replaces the operands of the operation that it is the result of."""
        if self._operation is None:
            raise UsageError(f"{self.op_type} has no inputs")
        new = [as_var(v) for v in inputs]
        if any(self in _ancestors(v) or v is self for v in new):
            raise UsageError("a Var cannot be computed of itself")
        old = self._operation
        self._operation = Operation(old.op, tuple(new), (old.attrs, old.key[1]), old.count)
        Clock.structure += 1
        self._operation.types()

    def copy_from(self, other: Any) -> bool:
        """Writes the elements of another Var to it."""
        return self.write(as_var(other)._shown())

    def close(self) -> None:
        """Frees what it holds; it has no value afterwards."""
        self._declared = self._type()
        self._array = self._operation = None
        self._kind = PLACEHOLDER
        self._version += 1
        Clock.structure += 1
        Clock.contents += 1

    def sync(self) -> None:
        """Waits until it is computed."""
        self._value()

    def set_device_ptr(self, pointer: int, memory_type: Any) -> bool:
        """Not available: arrays on devices are the matter of `Session.run`."""
        raise UsageError(
            "a Var lies in the memory of the host", hint="minnow.load(..., device='cuda') takes device arrays"
        )

    def copy_to_device_ptr(self, pointer: int, memory_type: Any) -> bool:
        """Not available, as `set_device_ptr`."""
        return self.set_device_ptr(pointer, memory_type)

    def __copy__(self) -> Var:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Var:
        return self.copy()

    def copy(self, order: str = "K", subok: bool = False) -> Var:
        """A constant with the same elements, in memory of its own."""
        return Var._of(self.read(), self.data_format)

    def __reduce__(self) -> Any:
        return _restored, (self._shown(), self.data_format.name, self.name)


def _restored(array: Array, form: str, name: str) -> Var:
    var = Var._of(array, data_format[form])
    var.name = name
    return var


def _ancestors(var: Var) -> set[Var]:
    """All Vars that it is computed of."""
    if var._operation is None:
        return set()
    return {v for o in ordered([var._operation], lambda o: False) for v in o.inputs if v is not None}


def _dims(shape: Any, owner: Any) -> tuple[Any, ...]:
    """A shape in which negative dimensions are not known."""
    try:
        sizes = [int(d) for d in (shape.read().ravel() if isinstance(shape, Var) else shape)]
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{shape!r} is not a shape", hint="a list of sizes, -1 for one that is not known") from None
    if any(d < -1 for d in sizes) or len(sizes) > 32:
        raise UsageError(f"{shape!r} is not a shape", hint="up to 32 sizes, -1 for one that is not known")
    return tuple(UNKNOWN if d < 0 else d for d in sizes)


def as_var(value: Any) -> Var:
    """A Var as it is; of anything else that is a tensor, a constant."""
    return value if isinstance(value, Var) else Var._of(to_array(value))


@named("expr")
def placeholder(shape: Sequence[int] = (), format: Format = NCHW, dtype: Any = dtype.float) -> Var:
    """A Var that `write` gives a value, as often as needed: an input of a graph.

    Args:
        shape: sizes of the axes, in the order of `format`; -1 for one that may be of any size.
        format: expr.NCHW, expr.NHWC or expr.NC4HW4.
        dtype: element type.

    Raises:
        UsageError: an argument is wrong.
    """
    form = format_of(format)
    return Var._placeholder(TensorType(DType.of(wanted(dtype)), _dims(shape, None)), form)


@named("expr", like="numpy.array")
def const(data: Any, shape: Sequence[int] | None = None, format: Format = NCHW, dtype: Any = dtype.float) -> Var:
    """A constant with a copy of the data.

    Args:
        data: an array, a number, a list of numbers, or bytes that hold elements of `dtype`.
        shape: sizes of the axes, in the order of `format`; None: those that the data has.
        format: expr.NCHW, expr.NHWC or expr.NC4HW4.
        dtype: element type.

    Raises:
        UsageError: an argument is wrong, or the number of elements is not that of the shape.
    """
    form = format_of(format)
    of = wanted(dtype)
    if isinstance(data, (bytes, bytearray, memoryview)):
        if len(bytes(data)) % of.itemsize:
            raise UsageError(f"{len(bytes(data))} bytes are no whole number of elements of {public(of)}")
        data = np.frombuffer(bytes(data), of)
    array = np.array(exact_array(data, of), order="C")
    if shape is not None:
        dims = _dims(shape, None)
        known = TensorType(DType.of(of), dims)
        if known.count is None or known.count != array.size:
            if not (known.count is not None and array.size == 1):
                raise UsageError(f"{array.size} elements are no Var of the shape {list(shape)}")
            array = np.full(known.static_shape, array.reshape(()), of)
        array = array.reshape(known.static_shape)
    return Var._of(array, form)


def format_of(format: Any) -> Format:
    """The data format, which may be given by its name. Raises UsageError if it is none."""
    if isinstance(format, str) and format in data_format.__members__:
        return data_format[format]
    if isinstance(format, data_format):
        return format
    raise UsageError(f"{format!r} is not a data format", hint="expr.NCHW, expr.NHWC or expr.NC4HW4")
