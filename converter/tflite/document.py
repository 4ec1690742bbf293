"""A TFLite file as plain objects. FlatBuffers' accessors check nothing: here every offset and length is checked.

What is read is paid for from a budget that grows with the file, so that vectors which lie about their length, or
share their items, end with an error and not with endless work.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from minnow.converter.tflite.option import options
from minnow.converter.tflite.quantization import Quantization
from minnow.converter.tflite.tensor import Sparsity, blob_of, dtype_of, name_of
from minnow.schema.errors import FormatError, ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, Blob, TensorType

IDENTIFIER = b"TFL3"
_VERSION = 3
_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError, KeyError, AttributeError, AssertionError)


@dataclass(eq=False)
class Tensor:
    """A tensor of a subgraph.

    Attributes:
        code: of the element type.
        shape: with "?" for dynamic dimensions.
        buffer: index into the buffers.
        variable: it keeps its numbers between runs.
        details: kind of what else its quantization says.
    """

    name: str
    code: int
    shape: tuple[int | str, ...]
    buffer: int
    variable: bool
    sparsity: Sparsity | None
    quantization: Quantization | None
    where: str
    document: Document = field(repr=False)
    details: int = 0

    @property
    def type(self) -> TensorType:
        """The declared type; complex ones are pairs of f32. Raises UnsupportedError where there is none like it."""
        if self.details > tflite.QuantizationDetails.CustomQuantization:
            # Scales of blocks are numbers of another tensor: newer files than the schema that is read here.
            raise UnsupportedError("quantization in blocks is not supported", where=self.where)
        shape = (*self.shape, 2) if self.is_complex else self.shape
        return TensorType(dtype_of(self.code, self.where), shape)

    @property
    def is_complex(self) -> bool:
        return self.code in (tflite.TensorType.COMPLEX64, tflite.TensorType.COMPLEX128)

    @property
    def kind(self) -> str:
        """The element type in the words of the format."""
        return name_of(self.code)

    @property
    def quant(self) -> Quantization | None:
        """How its numbers stand for real ones: only where these are integers."""
        return self.quantization

    @cached_property
    def blob(self) -> Blob | None:
        """Its numbers, where the file has them."""
        return blob_of(self, self.document.bytes_of(self.buffer, self.where))


@dataclass(eq=False)
class Operator:
    """A node: `op` is the schema's name or the custom code, `attrs` its table of options in snake_case."""

    op: str
    version: int
    inputs: list[int]
    outputs: list[int]
    intermediates: list[int]
    attrs: dict[str, Any]
    defaults: dict[str, Any]
    custom: bytes
    index: int


@dataclass(eq=False)
class Subgraph:
    name: str
    tensors: list[Tensor]
    inputs: list[int]
    outputs: list[int]
    operators: list[Operator]


@dataclass
class Signature:
    """An entry point: names of inputs and outputs, as indices of tensors."""

    key: str
    inputs: dict[str, int]
    outputs: dict[str, int]
    subgraph: int


class Document:
    """All of a file but the contents of its buffers, which stay mapped.

    Raises:
        FormatError: not a TFLite file, or damaged. ModelError: what it says contradicts itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.bytes = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as e:
            raise FormatError(
                "cannot read the file", where=str(path), why=getattr(e, "strerror", "") or str(e)
            ) from None
        if bytes(self.bytes[4:8]) != IDENTIFIER:
            why = f"it has {bytes(self.bytes[4:8])!r} where {IDENTIFIER!r} should be"
            raise FormatError("not a TFLite file", where=str(path), why=why)
        self._budget = 8 * len(self.bytes) + (1 << 16)
        self._current = ""
        try:
            self._read(tflite.Model.GetRootAs(self.bytes, 0))
        except _DAMAGE as e:
            why = f"{type(e).__name__}: {e}" + (f", in {self._current}" if self._current else "")
            raise FormatError("the TFLite file is damaged", where=str(path), why=why) from None

    def bytes_of(self, buffer: int, where: str) -> memoryview | None:
        """Contents of a buffer inside of the file; None where it has none."""
        if not 0 <= buffer < len(self._places):
            raise ModelError(
                f"buffer {buffer} does not exist", where=where, why=f"there are {len(self._places)} buffers"
            )
        place = self._places[buffer]
        return None if place is None else self.bytes[place[0] : place[0] + place[1]]

    def offset_of(self, buffer: int) -> int:
        """Where a buffer starts in the file."""
        place = self._places[buffer]
        return 0 if place is None else place[0]

    def _read(self, model: Any) -> None:
        self.version = int(model.Version())
        if self.version != _VERSION:
            raise UnsupportedError(
                f"version {self.version} of the TFLite format is not supported",
                where=str(self.path),
                why="supported is version 3",
            )
        self.producer = self._text(model.Description())
        self._places = [self._place(b) for b in self._tables(model, "Buffers", "buffers")]
        self._codes = [self._code(c) for c in self._tables(model, "OperatorCodes", "operator codes")]
        self.subgraphs = [self._subgraph(i, s) for i, s in enumerate(self._tables(model, "Subgraphs", "subgraphs"))]
        if not self.subgraphs:
            raise FormatError("the TFLite file holds no graph", where=str(self.path))
        self.signatures = [self._signature(s) for s in self._tables(model, "SignatureDefs", "signatures")]
        self.metadata = {self._text(m.Name()): int(m.Buffer()) for m in self._tables(model, "Metadata", "metadata")}

    def _spend(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise ValueError("its parts are longer than the file")

    def _count(self, table: Any, name: str, size: int = 4) -> int:
        n = int(getattr(table, f"{name}Length")())
        self._spend(n * size + 4)
        return n

    def _tables(self, table: Any, name: str, what: str) -> Iterator[Any]:
        outer, item = self._current, getattr(table, name)
        for i in range(self._count(table, name, 16)):
            self._current = f"{outer}{what}[{i}] "
            yield item(i)
        self._current = outer

    def _numbers(self, table: Any, name: str, size: int = 4) -> np.ndarray[Any, Any]:
        if not self._count(table, name, size):
            return np.zeros(0, np.int32)
        return np.array(getattr(table, f"{name}AsNumpy")())

    def _ints(self, table: Any, name: str) -> list[int]:
        return [int(v) for v in self._numbers(table, name)]

    def _text(self, raw: bytes | None) -> str:
        self._spend(len(raw or b""))
        return (raw or b"").decode("utf-8", "replace")

    def _place(self, buffer: Any) -> tuple[int, int] | None:
        """Offset and size of a buffer, whose bytes are in the table or, in large files, behind all tables."""
        offset, size = int(buffer.Offset()), int(buffer.Size())
        if offset <= 1:
            size = int(buffer.DataLength())
            if not size:
                return None
            o = buffer._tab.Offset(4)
            offset = int(buffer._tab.Vector(o))
        if offset < 0 or offset + size > len(self.bytes):
            raise ValueError(f"{size} bytes at {offset} of a file of {len(self.bytes)}")
        return offset, size

    def _code(self, code: Any) -> tuple[str, int]:
        # Files of the first writers have the old field only, new ones both, and big numbers in the new one only.
        number = max(int(code.DeprecatedBuiltinCode()), int(code.BuiltinCode()))
        custom = self._text(code.CustomCode())
        if number == tflite.BuiltinOperator.CUSTOM:
            return custom or "CUSTOM", int(code.Version())
        return _BUILTINS.get(number, f"operator {number}"), int(code.Version())

    def _subgraph(self, index: int, graph: Any) -> Subgraph:
        name = self._text(graph.Name()) or f"subgraph {index}"
        tensors = [self._tensor(i, t, name) for i, t in enumerate(self._tables(graph, "Tensors", "tensors"))]

        def indices(table: Any, field: str, optional: bool = False) -> list[int]:
            found = self._ints(table, field)
            for i in found:
                if not (0 <= i < len(tensors) or (optional and i == -1)):
                    raise ValueError(f"tensor {i} of {len(tensors)}")
            return found

        operators = [
            self._operator(i, op, indices) for i, op in enumerate(self._tables(graph, "Operators", "operators"))
        ]
        return Subgraph(name, tensors, indices(graph, "Inputs"), indices(graph, "Outputs"), operators)

    def _operator(self, index: int, op: Any, indices: Callable[..., list[int]]) -> Operator:
        code = int(op.OpcodeIndex())
        if not 0 <= code < len(self._codes):
            raise ValueError(f"operator code {code} of {len(self._codes)}")
        name, version = self._codes[code]
        attrs, defaults = options(op, self._spend)
        return Operator(name, version, indices(op, "Inputs", True), indices(op, "Outputs", True),
                        indices(op, "Intermediates", True), attrs, defaults, self._custom(op), index)  # fmt: skip

    def _custom(self, op: Any) -> bytes:
        offset, size = int(op.LargeCustomOptionsOffset()), int(op.LargeCustomOptionsSize())
        if offset > 1:
            if offset + size > len(self.bytes):
                raise ValueError(f"options of {size} bytes at {offset} of a file of {len(self.bytes)}")
            self._spend(size)
            return bytes(self.bytes[offset : offset + size])
        return self._numbers(op, "CustomOptions", 1).astype(np.uint8).tobytes()

    def _tensor(self, index: int, tensor: Any, graph: str) -> Tensor:
        name = self._text(tensor.Name())
        where = f"tensor {index} ('{name}') of {graph}"
        shape = self._ints(tensor, "Shape")
        signature = self._ints(tensor, "ShapeSignature")
        if any(d < 0 for d in shape) or (signature and len(signature) != len(shape)):
            raise ModelError(f"the shape {shape} is invalid", where=where, why=f"its signature is {signature}")
        dims = tuple(UNKNOWN if s < 0 else d for s, d in zip(signature or shape, shape, strict=True))
        code, buffer, variable = int(tensor.Type()), int(tensor.Buffer()), bool(tensor.IsVariable())
        quantization = self._quantization(tensor, code, len(shape), where)
        sparsity, details = self._sparsity(tensor), self._details(tensor)
        return Tensor(name, code, dims, buffer, variable, sparsity, quantization, where, self, details)

    def _quantization(self, tensor: Any, code: int, rank: int, where: str) -> Quantization | None:
        q = tensor.Quantization()
        if q is None:
            return None
        scale, zero = self._numbers(q, "Scale"), self._numbers(q, "ZeroPoint", 8)
        return Quantization.read(code, scale, zero, int(q.QuantizedDimension()), rank, where)

    def _details(self, tensor: Any) -> int:
        q = tensor.Quantization()
        return 0 if q is None else int(q.DetailsType())

    def _sparsity(self, tensor: Any) -> Sparsity | None:
        s = tensor.Sparsity()
        if s is None:
            return None
        levels = [self._level(m) for m in self._tables(s, "DimMetadata", "dimension metadata")]
        return Sparsity(tuple(self._ints(s, "TraversalOrder")), tuple(self._ints(s, "BlockMap")), levels)

    def _level(self, meta: Any) -> int | tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """A dense dimension, or the segments and indices of compressed rows."""
        if meta.Format() == tflite.DimensionType.DENSE:
            return int(meta.DenseSize())
        pair = []
        for kind, union in ((meta.ArraySegmentsType(), meta.ArraySegments()),
                            (meta.ArrayIndicesType(), meta.ArrayIndices())):  # fmt: skip
            vector = _VECTORS[kind]()
            vector.Init(union.Bytes, union.Pos)
            pair.append(self._numbers(vector, "Values", _WIDTHS[kind]).astype(np.int64))
        return pair[0], pair[1]

    def _signature(self, signature: Any) -> Signature:
        key, index = self._text(signature.SignatureKey()), int(signature.SubgraphIndex())
        if index >= len(self.subgraphs):
            raise ValueError(f"signature '{key}' is for subgraph {index} of {len(self.subgraphs)}")
        inputs, outputs = (
            {self._text(m.Name()): int(m.TensorIndex()) for m in self._tables(signature, field, "signature")}
            for field in ("Inputs", "Outputs")
        )
        return Signature(key, inputs, outputs, index)


_BUILTINS = {v: k for k, v in vars(tflite.BuiltinOperator).items() if k.isupper() and isinstance(v, int)}
_VECTORS = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}
_WIDTHS = {1: 4, 2: 2, 3: 1}


def port_name(tensor: Tensor, position: int) -> str:
    """Name of an input or output: the tensor's, or the position where it has none."""
    return tensor.name or str(position)


def node_name(graph: Subgraph, operator: Operator) -> str:
    named = (graph.tensors[i].name for i in operator.outputs if i >= 0)
    return next((n for n in named if n), f"#{operator.index}")
