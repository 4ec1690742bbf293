"""What the user gives for the inputs of a model: shapes, element types or whole arrays, by name or by position."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.schema.errors import UsageError
from minnow.schema.ir import UNKNOWN, Dim, DType

Array = np.ndarray[Any, Any]

_DTYPES = {name: d for d in DType for name in (d.value, d.numpy.name)}
_TEXT = re.compile(r"(?P<dtype>\w+)(\[(?P<shape>[^\[\]]*)\])?")
_FORMS = "a shape (1, 3, 224, 224), ('int64', (1, 128)), a TensorInfo, or an array"


@dataclass(frozen=True)
class Given:
    """What is said of one input; None stands for what is not said.

    Attributes:
        shape: a number per dimension; "?", or a symbol, for one that stays as it is.
        dtype: of an array the type that it has.
        array: what to compare on.
    """

    shape: tuple[Dim, ...] | None = None
    dtype: DType | None = None
    array: Array | None = None

    @classmethod
    def of(cls, value: Any, name: str = "") -> Given:
        """What a value says: a shape, its text, (dtype, shape), anything with a dtype and a shape, or an array.

        Raises:
            UsageError: it is none of these. `name` is that of the input, for the message.
        """
        if isinstance(value, Given):
            return value
        if isinstance(value, str):
            return parsed(value)
        if hasattr(value, "__array__") and not isinstance(value, type):
            return _of_array(value, name)
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            shape, dtype = value.shape, value.dtype
            return cls(None if shape is None else _shape(shape, name), dtype_of(dtype) if dtype else None)
        if isinstance(value, (list, tuple)):
            if len(value) == 2 and isinstance(value[1], (list, tuple)):
                return cls(_shape(value[1], name), dtype_of(value[0]))
            if not any(hasattr(v, "__array__") and not isinstance(v, np.generic) for v in value):
                return cls(_shape(value, name))
            raise UsageError(
                f"the input '{name}' is given as a list of arrays",
                hint=f"in PyTorch programs the tensors of a list have names of their own: '{name}.0', '{name}.1'",
            )
        raise UsageError(f"the input '{name}' is given as {type(value).__name__}", hint=f"give {_FORMS}")

    def check(self, name: str, declared: DType) -> None:
        """Raises UsageError where the type that is given is not the one that the model declares.

        The numbers of an array may be of another type if they can become those of the model without losing what they
        mean: integers become floats, floats do not become integers.
        """
        if self.dtype in (None, declared) or (self.array is not None and _kind(self.dtype) <= _kind(declared)):
            return
        assert self.dtype is not None
        raise UsageError(
            f"the input '{name}' is given as {self.dtype.numpy.name}, the model declares {declared.numpy.name}",
            hint=f"give {declared.numpy.name}, or the shape alone",
        )


class Inputs(Mapping[str, Given]):
    """What is said of all inputs, by name. What is given by position gets its names when these are known.

    Args:
        given: a mapping by name; a list or tuple by position, in which None leaves an input out; what has names of
            its own, such as a list of TensorInfo, is by name. An array or TensorInfo alone is the first input.

    Raises:
        UsageError: `given` is something else, or what is said of an input is.
    """

    def __init__(self, given: Any = None) -> None:
        self._named: dict[str, Given] = {}
        self._unnamed: list[Given | None] = []
        if given is None:
            return
        if isinstance(given, Mapping):
            if wrong := [name for name in given if not isinstance(name, str)]:
                raise UsageError(
                    f"the name of an input is {wrong[0]!r}", hint="names must be text; a list gives inputs by position"
                )
            self._named = {name: Given.of(value, name) for name, value in given.items()}
            return
        if hasattr(given, "__array__") or (hasattr(given, "dtype") and hasattr(given, "shape")):
            given = [given]
        if not isinstance(given, (list, tuple)):
            raise UsageError(f"inputs are given as {type(given).__name__}", hint=f"by name {{'x': ...}}: {_FORMS}")
        if given and all(isinstance(v, (int, np.integer)) for v in given):
            raise UsageError(
                "inputs are given as numbers", hint=f"to give the shape of the first input, write [{tuple(given)}]"
            )
        if given and all(getattr(v, "name", None) and not hasattr(v, "__array__") for v in given):
            self._named = {v.name: Given.of(v, v.name) for v in given}
        else:
            self._unnamed = [None if v is None else Given.of(v, str(i)) for i, v in enumerate(given)]

    @classmethod
    def of(cls, given: Any) -> Inputs:
        """`given` itself where it is one of these already."""
        return given if isinstance(given, cls) else cls(given)

    def named(self, names: Sequence[str]) -> Inputs:
        """Gives what has only a position the name at that position; gives itself.

        Raises:
            UsageError: there are fewer names.
        """
        if len(self._unnamed) > len(names):
            raise UsageError(
                f"{len(self._unnamed)} inputs are given by position, but the model has {len(names)}",
                hint=f"its inputs: {', '.join(names)}",
            )
        self._named |= {name: g for name, g in zip(names, self._unnamed, strict=False) if g is not None}
        self._unnamed = []
        return self

    def rename(self, called: Callable[[str], str]) -> None:
        """Gives every name the form that the format has for it."""
        self._named = {called(name): g for name, g in self._named.items()}

    def only(self, names: Sequence[str]) -> Inputs:
        """What is said of some inputs, as inputs of their own."""
        return Inputs({name: g for name, g in self._named.items() if name in names})

    @property
    def say_more(self) -> bool:
        """There are shapes or types among them that no array has."""
        return any(g is not None and g.array is None for g in (*self._named.values(), *self._unnamed))

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays among them, by name."""
        return {name: g.array for name, g in self._named.items() if g.array is not None}

    def __getitem__(self, name: str) -> Given:
        return self._named[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    def __bool__(self) -> bool:
        return bool(self._named or self._unnamed)


def parsed(text: str) -> Given:
    """What text says: "1x3x224x224", "" for a scalar, "int64[1,128]", "float32[]", or "int64" of any shape.

    Raises:
        UsageError: it is of none of these forms.
    """
    found = _TEXT.fullmatch(text)
    if found and not text[0].isdigit():
        inner = found["shape"]
        return Given(None if inner in (None, "...") else _dimensions(inner, text), dtype_of(found["dtype"]))
    return Given(_dimensions(text, text))


def text_of(given: Given) -> str:
    """The text that `parsed` reads as that."""
    if given.dtype is None:
        return "x".join(map(str, given.shape or ()))
    dims = "..." if given.shape is None else ",".join(map(str, given.shape))
    return f"{given.dtype.numpy.name}[{dims}]"


def _dimensions(text: str, whole: str) -> tuple[Dim, ...]:
    parts = [d.strip() for d in text.replace(",", "x").split("x")] if text.strip() else []
    if not all(d == UNKNOWN or (d.isascii() and d.isdigit()) for d in parts):
        raise UsageError(f"{whole!r} is not a shape", hint="1x3x224x224, or with an element type float32[1,3,224,224]")
    return tuple(d if d == UNKNOWN else int(d) for d in parts)


def _shape(dims: Sequence[Any], name: str) -> tuple[Dim, ...]:
    found: list[Dim] = []
    for d in dims:
        try:
            found.append(UNKNOWN if d is None else d if isinstance(d, str) else operator.index(d))
        except TypeError:
            raise UsageError(f"the input '{name}' is given as {dims!r}"[:300], hint=f"give {_FORMS}") from None
    if any(isinstance(d, int) and d < 0 for d in found):
        raise UsageError(
            f"the input '{name}' is given the shape {found}", hint="use '?' for a dimension that stays as it is"
        )
    return tuple(found)


def dtype_of(dtype: Any) -> DType:
    """The element type that a name, or a dtype of numpy, PyTorch or TensorFlow, stands for.

    Raises:
        UsageError: there is none of that name.
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or str(dtype)
    if isinstance(dtype, type):
        name = np.dtype(dtype).name
    known = _DTYPES.get(name.removeprefix("torch."))
    if known is None:
        names = ", ".join(d.numpy.name for d in DType if not d.is_storage)
        raise UsageError(f"there is no element type '{name}'", hint=f"one of {names}")
    return known


def _of_array(value: Any, name: str) -> Given:
    try:
        if hasattr(value, "detach"):  # a PyTorch tensor with gradients must be detached first
            value = value.detach()
        array = np.asarray(value.float() if str(value.dtype) == "torch.bfloat16" else value)
        if str(value.dtype) == "torch.bfloat16":
            array = array.astype(DType.BF16.numpy)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        return Given(tuple(array.shape), DType.of(array.dtype), array)
    except (KeyError, TypeError, ValueError, RuntimeError) as e:
        why = f"{getattr(value, 'dtype', type(value).__name__)}: {e}"
        raise UsageError(
            f"the input '{name}' is not an array of numbers", why=why[:300], hint=f"give {_FORMS}"
        ) from None


def _kind(dtype: DType | None) -> int:
    return 0 if dtype is DType.BOOL else 2 if dtype is None or dtype.is_float else 1
