"""Types of values: element type, shape with symbolic dims, layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from minnow.schema.errors import ModelError
from minnow.schema.ir.dtype import DType

Dim = int | str
"""A dimension: a number, a symbol ("N"), or `UNKNOWN`. Equal symbols mean equal dimensions."""

UNKNOWN = "?"
"""A dimension nothing is known about; two unknown dimensions may differ."""

Shape = tuple[Dim, ...]

HOLDERS = ("sequence", "optional")
"""Layouts of bytes that hold tensors."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype, shape (None: even the rank is unknown) and memory layout.

    Layouts are "nchw" (row-major), "nc4hw4" (channel blocks), and those of a u8 tensor whose bytes hold other tensors:
    "sequence" (any number of them) and "optional" (one, or none). `element` is then what is known of each of these.
    """

    dtype: DType
    shape: Shape | None = None
    layout: str = "nchw"
    element: TensorType | None = None

    @property
    def holds_tensors(self) -> bool:
        """It is a sequence or an optional: its bytes are read and written by `schema.ir.sequence`."""
        return self.layout in HOLDERS

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Every dimension is a number."""
        return self.shape is not None and all(isinstance(d, int) for d in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape when it is static; raises ModelError otherwise."""
        if not self.is_static or self.shape is None:
            raise ModelError(f"the shape {self} is not static")
        return tuple(d for d in self.shape if isinstance(d, int))

    @property
    def count(self) -> int | None:
        """Number of elements, None where a dim is symbolic."""
        if self.shape is None:
            return None
        n = 1
        for d in self.shape:
            if not isinstance(d, int):
                return None
            n *= d
        return n

    def with_shape(self, shape: Iterable[Dim] | None) -> TensorType:
        shape = None if shape is None else tuple(shape)
        # Who asks whether anything has changed looks for the same object.
        return self if shape == self.shape else TensorType(self.dtype, shape, self.layout, self.element)

    def with_dtype(self, dtype: DType) -> TensorType:
        return replace(self, dtype=dtype)

    def with_layout(self, layout: str) -> TensorType:
        return replace(self, layout=layout)

    def __str__(self) -> str:
        if self.holds_tensors:
            return f"{self.layout}({self.element or UNKNOWN})"
        dims = "*" if self.shape is None else ",".join(map(str, self.shape))
        return f"{self.dtype}[{dims}]" + ("" if self.layout == "nchw" else f"@{self.layout}")


def sequence(element: TensorType | None) -> TensorType:
    """Type of the bytes of a sequence of such tensors."""
    return TensorType(DType.U8, (UNKNOWN,), "sequence", element)


def optional(element: TensorType | None) -> TensorType:
    """Type of the bytes of an optional: such a tensor or sequence, or nothing."""
    return TensorType(DType.U8, (UNKNOWN,), "optional", element)


def same_dim(a: Dim, b: Dim) -> bool:
    """True when the two dimensions are known to be equal."""
    return a == b and a != UNKNOWN


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """Dimension of the numpy broadcast of two dimensions; ModelError when they cannot be broadcast."""
    if a == 1:
        return b
    if b == 1 or same_dim(a, b):
        return a
    if isinstance(a, int) and isinstance(b, int):
        raise ModelError(f"dimensions {a} and {b} cannot be broadcast")
    # A symbol may still turn out to be 1, so the number (never 1 here) decides; two symbols leave it open.
    return a if isinstance(a, int) else b if isinstance(b, int) else UNKNOWN


def broadcast(*shapes: Shape | None) -> Shape | None:
    """Shape of the numpy broadcast; None when some rank is unknown."""
    out: list[Dim] = []
    for shape in shapes:
        if shape is None:
            return None
        if len(shape) > len(out):
            out[:0] = [1] * (len(shape) - len(out))
        lead = len(out) - len(shape)
        try:
            out[lead:] = [broadcast_dim(a, b) for a, b in zip(out[lead:], shape, strict=True)]
        except ModelError as e:
            raise ModelError(f"shapes {', '.join(map(str, shapes))} cannot be broadcast", why=e.message) from None
    return tuple(out)


def merge(a: Shape | None, b: Shape | None) -> Shape | None:
    """What is known when both describe the same tensor; ModelError when they contradict."""
    if a is None or b is None or a == b:
        return b if a is None else a
    if len(a) != len(b):
        raise ModelError(f"ranks differ: {a} and {b}")
    out: list[Dim] = []
    for x, y in zip(a, b, strict=True):
        if isinstance(x, int) and isinstance(y, int) and x != y:
            raise ModelError(f"shapes differ: {a} and {b}")
        out.append(x if isinstance(x, int) or (not isinstance(y, int) and x != UNKNOWN) else y)
    return tuple(out)


def join(a: Shape | None, b: Shape | None) -> Shape | None:
    """What holds for both of two alternatives (the branches of an If): equal dims stay, others become unknown."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if same_dim(x, y) else UNKNOWN for x, y in zip(a, b, strict=True))


def join_types(a: TensorType, b: TensorType) -> TensorType:
    """What holds for both of two alternatives of one dtype; what holds tensors keeps what is known of both's."""
    if a.holds_tensors and b.holds_tensors:
        return replace(a, element=join_elements(a.element, b.element))
    layout = "nchw" if a.holds_tensors else a.layout
    return TensorType(a.dtype, join(a.shape, b.shape), layout)


def join_elements(a: TensorType | None, b: TensorType | None) -> TensorType | None:
    """What is known of the tensors of a sequence that may hold either; None: nothing."""
    if a is None or b is None or a.dtype is not b.dtype or a.holds_tensors is not b.holds_tensors:
        return None
    return join_types(a, b)
