"""The layers whose constant weights can be stored in few bits, and the form that each has in a file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from minnow.optimizer.layout.product import matrix_of
from minnow.optimizer.rewrite.lineage import Lineage
from minnow.schema.ir import DType, Graph, Node, PackedBlob, QuantizedBlob, Value
from minnow.schema.ops import get

Array = npt.NDArray[Any]
Form = Literal["stream", "product", "table", "expanded"]

FORMS: dict[Form, str] = {
    "stream": "the format's own compressed weights",
    "product": "the format's own compressed weights, of a convolution of one element",
    "table": "packed rows, of which those that are looked up are expanded",
    "expanded": "packed bytes, and nodes that make floats of them",
}
"""How a file has quantized weights."""

LEAST_BLOCK = 16
"""Blocks of the format are multiples of it."""

# op list: the operands of these that are weights, if they are constants; all other constants are left as they are
_WEIGHTS: dict[str, tuple[int, ...]] = {
    "Conv": (1,),
    "ConvTranspose": (1,),
    "Linear": (1,),
    "MatMul": (1,),
    "Gather": (0,),
    "LSTM": (1, 2),
    "GRU": (1, 2),
    "RNN": (1, 2),
}
_BY_CHANNEL = ("Conv", "ConvTranspose")


@dataclass(frozen=True)
class Layer:
    """Weights of a node.

    Attributes:
        name: of the node; where it has several weights, with a name for each.
        node: it.
        operand: the place of the weights among its inputs.
        form: what they become.
    """

    name: str
    node: Node
    operand: int
    form: Form

    @property
    def value(self) -> Value:
        found = self.node.input(self.operand)
        assert found.data is not None
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(d) for d in self.value.type.static_shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def float_bytes(self) -> int:
        """Bytes of the weights as they are."""
        return self.size * self.value.type.dtype.size

    def widths(self, bits: int) -> int:
        """The bits of a code for so many bits: those of bytes are of 2, 4 or 8 each."""
        return bits if self.form in ("stream", "product") else next(b for b in (2, 4, 8) if b >= bits)

    @property
    def turned(self) -> bool:
        """Whether the groups are in the columns of the weights."""
        return self.form == "product" and not matrix_of_known(self.node).transposed

    def numbers(self) -> Array:
        """The weights in the order of their groups, f32 of `stored_shape`."""
        found = self.value.data
        assert found is not None
        array = np.asarray(found.numpy(), np.float32)
        if self.turned:
            array = array.T
        return np.ascontiguousarray(array)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of the weights in the order of their groups."""
        return self.shape[::-1] if self.turned else self.shape

    def groups(self, block: int) -> tuple[int, int]:
        """How many groups have a scale, and how many weights each has.

        Args:
            block: input channels (or columns of a table) with one scale; 0, or what does not fit the layer: all.
        """
        shape = self.stored_shape
        if self.node.op == "ConvTranspose":
            # The format divides them into so many rows, though the first dimension is that of the input.
            channels = shape[1] * int(self.node.attrs.get("group", 1))
        elif self.node.op in _BY_CHANNEL or self.form in ("product", "table"):
            channels = shape[0]
        else:
            channels = math.prod(shape[:-1])
        kernel = math.prod(shape[2:]) if self.node.op in _BY_CHANNEL else 1
        length = self.size // channels
        inputs = length // kernel
        if fits(block, inputs):
            return channels * (inputs // block), block * kernel
        return channels, length


def fits(block: int, inputs: int) -> bool:
    """Whether the format has blocks of this length for so many input channels."""
    return block >= LEAST_BLOCK and block % LEAST_BLOCK == 0 and inputs % block == 0


def matrix_of_known(node: Node) -> Any:
    """What `matrix_of` says of a node that it has found to be a product."""
    found = matrix_of(node)
    assert found is not None
    return found


def layers_of(graph: Graph) -> list[Layer]:
    """The layers of a graph and those in it, in order; the same for a clone of it."""
    return list(_layers(graph))


def _layers(graph: Graph) -> Iterator[Layer]:
    taken: dict[str, int] = {}
    for part in graph.walk():
        for node in part:
            for operand in _WEIGHTS.get(node.op, ()):
                value = node.input(operand) if node.has_input(operand) else None
                if value is None or value.data is None or not _is_float(value) or (value.type.rank or 0) < 2:
                    continue
                form = _form(node, value)
                if form is None or 0 in value.type.static_shape:
                    continue
                name = _name(node, value) + (f".{'wr'[operand - 1]}" if len(_WEIGHTS[node.op]) > 1 else "")
                taken[name] = taken.get(name, 0) + 1
                yield Layer(name if taken[name] == 1 else f"{name}#{taken[name]}", node, operand, form)


def _name(node: Node, value: Value) -> str:
    # Between conversions of layout an output bears the name of its value in the source, and a suffix.
    return node.name.removesuffix("_packed") or value.name or node.origin.partition(" > ")[0] or node.op


def is_operand(layer: Layer) -> bool:
    """Whether the op in the file reads the weights as they are, so that they may be computed."""
    encoding = get(layer.node.op, layer.node.origin).mnn
    wired = None if encoding is None else encoding.encode(layer.node)
    return wired is None or any(v is layer.value for v in wired.inputs)


def _is_float(value: Value) -> bool:
    packed = isinstance(value.data, (PackedBlob, QuantizedBlob))
    return value.type.dtype in (DType.F32, DType.F16) and value.type.is_static and not packed


def _form(node: Node, value: Value) -> Form | None:
    if node.op == "Gather":
        return "table" if node.attrs.get("axis", 0) in (0, -2) and value.type.rank == 2 else None
    if any(v is not None and v.type.dtype not in (DType.F32, DType.F16, DType.I32, DType.I64) for v in node.inputs):
        return None
    if node.op in _BY_CHANNEL and _has_table(node):
        return "stream"
    if matrix_of(node) is not None:
        return "product"
    return "expanded"


def _has_table(node: Node) -> bool:
    """Whether the format has the weights in the table of the op, where they can be compressed."""
    encoding = get(node.op, node.origin).mnn
    wired = None if encoding is None else encoding.encode(node)
    return wired is not None and wired.main is not None and "bias" in wired.main


_CONVERTED = "__matmul_converted"
_PASS = " > products_to_convolutions"

Names = Mapping[str, Sequence[str]]
"""Names that nodes of the source have, by the origin of the node that they have become."""


def source_names(graph: Graph, lineage: Lineage) -> Names:
    """The names that the nodes of a graph have in the source; more of them, if the lineage was kept."""
    found: dict[str, list[str]] = {}
    for part in graph.walk():
        for node in part:
            found.setdefault(node.origin, []).extend(s.partition(":")[2] for s in lineage.of(node).sources)
    return found


def names_of(layer: Layer, names: Names) -> list[str]:
    """The names that a file of parameters may have for a layer."""
    origin = layer.node.origin.removesuffix(_PASS)
    own = [layer.name, *(v.name for v in layer.node.outputs), *names.get(origin, ())]
    return [*own, *(name + _CONVERTED for name in own)]


def matches(layer: Layer, pattern: str) -> bool:
    """Whether a pattern (`*`, `?`, `[...]`) is for a layer: for its name, its op, or the name of its weights."""
    names = (layer.name, layer.node.op, layer.value.name, *(v.name for v in layer.node.outputs))
    return any(name and fnmatchcase(name, pattern) for name in names)
