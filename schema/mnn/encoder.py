"""IR -> file: a model becomes the bytes of a `.mnn` file."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from minnow.schema.collector import SeldomCollected
from minnow.schema.errors import InternalError, UnsupportedError
from minnow.schema.ir import (
    ArrayBlob,
    Blob,
    DType,
    Graph,
    LazyBlob,
    Model,
    Node,
    RoundedBlob,
    TensorType,
    TurnedBlob,
    Value,
)
from minnow.schema.ir.blob import nbytes
from minnow.schema.ir.graph import RET
from minnow.schema.mnn import state, wire
from minnow.schema.mnn.attribute import ENGINE, encode_attributes
from minnow.schema.mnn.container import row
from minnow.schema.mnn.control import CONTROL
from minnow.schema.mnn.form import FileForm, apply
from minnow.schema.mnn.layout import FORMS, NOT_WRITTEN
from minnow.schema.mnn.side_file import SideFile, detach, side_path
from minnow.schema.ops import Trait, WireOp, get
from minnow.schema.registry.encoding import TWINS, WIRE_DTYPES

FORMAT_VERSION = "3.6.1"
"""Version of the format that the files follow; the runtime reads it from the file."""

_SOURCES = {"caffe": "CAFFE", "tensorflow": "TENSORFLOW", "tflite": "TFLITE", "onnx": "ONNX", "torch": "TORCH"}

_PAYLOAD = {
    DType.F32: "float32s",
    DType.F64: "uint8s",
    DType.F16: "uint8s",
    DType.BF16: "uint8s",
    DType.I8: "int8s",
    DType.U8: "uint8s",
    DType.I16: "uint8s",
    DType.U16: "uint8s",
    DType.I32: "int32s",
    DType.I64: "int64s",
    DType.BOOL: "uint8s",
}


@SeldomCollected()
def encode(model: Model, *, biz_code: str = "", form: FileForm = FileForm()) -> bytes:
    """The bytes of the file; the same model gives the same bytes.

    Args:
        model: a legalized model. Its graph's outputs correspond to `model.outputs` one by one.
        biz_code: free text kept in the file.
        form: how the file is written.

    Raises:
        UnsupportedError: something has no form in the format; all of it is listed.
    """
    return bytes(_sealed(_net(model, biz_code, form), b""))


@SeldomCollected()
def save(
    model: Model, path: Path, *, biz_code: str = "", side_file: bool | None = None, form: FileForm = FileForm()
) -> int:
    """Writes the file, and beside it a companion weights file with the big weights where that is wanted or needed.

    Args:
        model, biz_code, form: as for `encode`.
        path: the file; its companion weights file is `path` + ".weight".
        side_file: True: big weights go there; False: never; None: where the file would be larger than it may be.

    Returns:
        The bytes written.

    Raises:
        UnsupportedError: as `encode`; or the file would be too large, and a companion weights file is not wanted.
    """
    net = _net(model, biz_code, form)
    outside, digest = 0, b""
    if side_file or (side_file is None and wire.room(net) >= wire.MAX_BYTES):
        if model.portable is not None:
            # The two graphs share their weights in the file alone.
            net = _net(replace(model, portable=None), biz_code, form)
        with side_path(path).open("wb") as file:
            side = SideFile(file)
            detach(net, side)
        outside, digest = side.size, side.digest.digest()
    view = _sealed(net, digest)
    path.write_bytes(view)
    return outside + view.nbytes


_NO_IDENTITY = str(uuid.UUID(int=0))


def _sealed(net: dict[str, Any], weights: bytes) -> memoryview:
    """The bytes of a file. Its identity follows from the content, so two conversions of a model give the same bytes."""
    net["mnn_uuid"] = _NO_IDENTITY
    view = wire.write_view(net)
    digest = hashlib.sha256(weights)
    digest.update(view)
    identity = str(uuid.UUID(bytes=digest.digest()[:16], version=4))
    # Of its length, so it can take the place it was kept.
    buffer = view.obj
    assert isinstance(buffer, bytearray)
    at = buffer.rindex(_NO_IDENTITY.encode())
    buffer[at : at + len(identity)] = identity.encode()
    return view


def _net(model: Model, biz_code: str, form: FileForm) -> dict[str, Any]:
    """The root table, without an identity."""
    file = FileWriter()
    main = file.main(model.graph, model)
    own: dict[str, Any] = {}
    if has_two_graphs(model, form):
        assert model.portable is not None
        graph, main = main, file.main(model.portable, model)
        inputs = [graph.ids[v] for v in model.graph.params]
        own["minnow"] = {"name": "minnow", "inputs": inputs, "outputs": graph.output_ids, "tensors": graph.names,
                         "nodes": graph.ops}  # fmt: skip
    net: dict[str, Any] = {
        "bizCode": biz_code,
        "oplists": main.ops,
        "tensorName": main.names,
        "outputName": [name for name, _ in model.outputs],
        **main.describes(),
        "sourceType": _SOURCES.get(model.source, "ONNX"),
        "subgraphs": file.subgraphs,
        "extraInfo": {"version": FORMAT_VERSION, "buffer": np.frombuffer(_metadata(model, file), np.int8), **own},
    }
    if form.static:
        from minnow.schema.mnn.static import make_static

        make_static(net, main.ids, main.nodes)
    if form != FileForm():
        apply(net, form)
    return net


def has_two_graphs(model: Model, form: FileForm) -> bool:
    """Whether a file has both graphs of a model: the one for other runtimes is written in the usual form only."""
    return model.portable is not None and replace(form, auth_code="") == FileForm()


def _flat(data: Blob, dtype: DType) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(data.numpy()).reshape(-1).view(dtype.numpy)


def _rounded(data: RoundedBlob) -> np.ndarray[Any, Any]:
    return data.rounded().reshape(-1).view(np.uint8)


def _is_exact(value: Value) -> bool:
    """Whether the type of a constant means something to its readers."""
    return any(n.op != RET and Trait.EXACT_TYPES in get(n.op).traits for n, _ in value.uses)


def _metadata(model: Model, file: FileWriter) -> bytes:
    def rows(values: Sequence[tuple[str, TensorType]]) -> str:
        return json.dumps([row(n, t) for n, t in values], separators=(",", ":"))

    if (forms := model.metadata.get(FORMS)) in NOT_WRITTEN:
        what, why = NOT_WRITTEN[forms]
        hint = "run the file as it is, or convert the source model"
        raise UnsupportedError(f"a file with {what} cannot be written again", why=why, hint=hint)
    meta = {**model.metadata, "minnow.inputs": rows(model.inputs), "minnow.outputs": rows(model.outputs)}
    if model.states:
        meta["minnow.states"] = json.dumps([state.row(s) for s in model.states], separators=(",", ":"))
    if file.scanned:
        meta["minnow.scanned"] = rows(file.scanned)
    if file.types:
        named = {name: dtype.value for name, dtype in file.types.items()}
        meta["minnow.types"] = json.dumps(named, separators=(",", ":"))
    if file.halves:
        # For our reader: the graph computes in float32 with them.
        meta["minnow.halves"] = json.dumps(file.halves, separators=(",", ":"))
    pairs = [{"key": k, "s": v} for k, v in sorted(meta.items())]
    return wire.write_nested("Extra", {"type": "Meta", "engine": "MNN", "attr": pairs})


class FileWriter:
    """State of one file: tensor names in use, subgraphs written so far (inner ones first), the element types of inputs
    and constants for which the format has no code, by the tensor's name, the types of what loops stack, and the names
    of constants of float32 that are stored in 16 bits."""

    def __init__(self) -> None:
        self.subgraphs: list[dict[str, Any]] = []
        self.types: dict[str, DType] = {}
        self.scanned: list[tuple[str, TensorType]] = []
        self.halves: list[str] = []
        self._taken: dict[str, int] = {}

    def main(self, graph: Graph, model: Model) -> GraphWriter:
        """Writes a graph whose inputs and outputs bear the names of the model's."""
        writer = GraphWriter(self, graph.params, graph.outputs)
        writer.write(graph, [n for n, _ in model.inputs], [n for n, _ in model.outputs])
        return writer

    def unique(self, name: str) -> str:
        """The name itself, or with a number where it is taken."""
        candidate = name
        while candidate in self._taken:
            self._taken[name] += 1
            candidate = f"{name}_{self._taken[name]}"
        self._taken[candidate] = 0
        return candidate

    def reserve(self, name: str) -> str:
        """The name itself, even where it is taken; no other tensor gets it from now on."""
        self._taken.setdefault(name, 0)
        return name

    def subgraph(self, graph: Graph, outputs: Sequence[Value] | None = None) -> tuple[str, list[str], list[str]]:
        """Writes a nested graph. Names are unique in the file: If matches tensors of both branches by name alone.

        Args:
            graph: the graph.
            outputs: its outputs in the order of the file, where that differs from the graph's own.

        Returns:
            The subgraph's name, the tensor names of its inputs, and of its outputs.
        """
        name = self.unique(graph.name)
        out = GraphWriter(self, graph.params, graph.outputs if outputs is None else outputs)
        inputs = [self.unique(f"{name}/{v.name or f'in{i}'}") for i, v in enumerate(graph.params)]
        results = [self.unique(f"{name}/{v.name or f'out{i}'}") for i, v in enumerate(out.outputs)]
        out.write(graph, inputs, results, f"{name}/")
        self.subgraphs.append(
            {
                "name": name,
                "inputs": [out.ids[v] for v in graph.params],
                "outputs": out.output_ids,
                "tensors": out.names,
                "nodes": out.ops,
                **out.describes(),
            }
        )
        return name, inputs, [out.names[i] for i in out.output_ids]


class GraphWriter:
    """Ops and tensors of one graph while it is written."""

    def __init__(self, file: FileWriter, params: Sequence[Value], outputs: Sequence[Value]) -> None:
        self.file = file
        self.params = params
        self.outputs = outputs
        self.ops: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.ids: dict[Value, int] = {}
        self.output_ids: list[int] = []
        self._roundings: dict[int, Any] = {}
        self._prefix = ""
        self.nodes: dict[int, Node] = {}  # by the identity of the table of its op
        self._arrays: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def write(self, graph: Graph, inputs: Sequence[str], outputs: Sequence[str], prefix: str = "") -> None:
        """Writes all ops; parameters and outputs bear exactly the names given, others get `prefix`."""
        self._prefix = prefix
        for value, name in zip(self.params, inputs, strict=True):
            self.ids[value] = self._tensor(self.file.reserve(name))
            self._input(value.type, self.ids[value])
        # Outputs take their names before any inner tensor can. One that is a parameter, a constant, or the same value
        # as an earlier output is a copy made at the end, unless it is the parameter of that very name.
        copies: list[tuple[Value, int]] = []
        for value, name in zip(self.outputs, outputs, strict=True):
            if value in self.ids and self.names[self.ids[value]] == name:
                self.output_ids.append(self.ids[value])
                continue
            index = self._tensor(self.file.reserve(name))
            self.output_ids.append(index)
            if value in self.ids or value.is_const:
                copies.append((value, index))
            else:
                self.ids[value] = index
        for node in graph:
            self._node(node)
        for value, index in copies:
            inputs_ = [self.id(value)]
            self.ops.append(
                {"type": "Identity", "inputIndexes": inputs_, "outputIndexes": [index], "name": self.names[index]}
            )

    def describes(self) -> dict[str, Any]:
        """What the file says of tensors as integers."""
        rows = [{"index": i, "name": self.names[i], "quantInfo": q} for i, q in sorted(self._roundings.items())]
        return {"extraTensorDescribe": rows} if rows else {}

    def _tensor(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def _new(self, name: str) -> int:
        return self._tensor(self.file.unique(name if name.startswith(self._prefix) else self._prefix + name))

    def id(self, value: Any) -> int:
        """Tensor id of a Value, of an array (which becomes a Const op), or of None (-1)."""
        if value is None:
            return -1
        if isinstance(value, Value):
            if value not in self.ids:
                if value.data is None:
                    raise InternalError(f"{value!r} is used before it is computed")
                name, exact = value.name or "const", _is_exact(value)
                if isinstance(value.data, TurnedBlob):
                    self.ids[value] = self._turned(value.data, name, exact)
                else:
                    self.ids[value] = self._const(value.data, name, exact)
            return self.ids[value]
        array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._arrays:
            self._arrays[key] = self._const(ArrayBlob(array), "const")
        return self._arrays[key]

    def _const(self, data: Blob, name: str, exact: bool = False) -> int:
        index = self._new(name)
        stored = self._stored(data.dtype, index)
        if isinstance(data, RoundedBlob):
            stored = data.stored
            self.file.halves.append(self.names[index])
        elif exact and data.dtype in (DType.F16, DType.BF16):
            self.file.types[self.names[index]] = data.dtype  # else runtimes widen them
        blob: dict[str, Any] = {"dataType": WIRE_DTYPES[stored], "dataFormat": "NCHW"}
        if data.shape:
            blob["dims"] = list(data.shape)
        if nbytes(data):
            field = _PAYLOAD[stored]
            dtype = DType.U8 if field == "uint8s" else stored
            # Unpacked when it is written: so no more than one weight is in memory at a time.
            if isinstance(data, RoundedBlob):
                blob[field] = LazyBlob(partial(_rounded, data), dtype, (nbytes(data) // 2,))
            else:
                blob[field] = LazyBlob(partial(_flat, data, dtype), dtype, (nbytes(data) // dtype.size,))
        self.ops.append(
            {"type": "Const", "main_type": "Blob", "main": blob, "outputIndexes": [index], "name": self.names[index]}
        )
        return index

    def _turned(self, data: TurnedBlob, name: str, exact: bool) -> int:
        stored = self._const(data.stored, f"{name}/turned", exact)
        index = self._new(name)
        self.ops.append({"type": "Permute", "main_type": "Permute", "main": {"dims": [1, 0]}, "inputIndexes": [stored],
                         "outputIndexes": [index], "name": self.names[index]})  # fmt: skip
        return index

    def _stored(self, dtype: DType, index: int) -> DType:
        """The type that the file says a tensor has; where it is another one, the metadata says the true one."""
        if dtype in TWINS:
            self.file.types[self.names[index]] = dtype
        return TWINS.get(dtype, dtype)

    def _input(self, type: TensorType, index: int) -> None:
        main: dict[str, Any] = {"dtype": WIRE_DTYPES[self._stored(type.dtype, index)], "dformat": "NCHW"}
        # No dims at all: even the rank is open. A scalar has an empty list.
        if type.shape is not None:
            main["dims"] = [d if isinstance(d, int) else -1 for d in type.shape]
        name = self.names[index]
        self.ops.append({"type": "Input", "main_type": "Input", "main": main, "outputIndexes": [index], "name": name})

    def _node(self, node: Node) -> None:
        wired = self._wire(node)
        inputs = [self.id(v) for v in wired.inputs]
        described = list(inputs)
        while inputs and inputs[-1] == -1:
            inputs.pop()
        outputs = []
        for value in node.outputs:
            if value not in self.ids:
                self.ids[value] = self._new(value.name or f"{node.op}{len(self.names)}")
            outputs.append(self.ids[value])
        while len(outputs) < wired.n_outputs:
            outputs.append(self._new(f"{self.names[outputs[0]]}/unused"))
        for index, rounding in zip((*described, *outputs), node.attrs.get("roundings") or (), strict=False):
            if rounding is not None and index >= 0:
                self._roundings[index] = rounding
        order = wired.output_order or range(len(outputs))
        table: dict[str, Any] = {
            "type": wired.type,
            "inputIndexes": inputs,
            "outputIndexes": [outputs[i] for i in order],
            "name": self.names[outputs[0]],
        }
        if wired.main_type:
            table |= {"main_type": wired.main_type, "main": wired.main or {}}
        if wired.format != "NHWC":
            table["defaultDimentionFormat"] = wired.format
        self.ops.append(table)
        self.nodes[id(table)] = node

    def _wire(self, node: Node) -> WireOp:
        if node.op in CONTROL:
            return CONTROL[node.op](node, self.file)
        op = get(node.op, node.origin)
        wired = op.mnn.encode(node) if op.mnn else None
        if wired is None:
            extra = {"type": node.op, "engine": ENGINE, "attr": encode_attributes(node.attrs)}
            wired = WireOp("Extra", "Extra", extra, node.inputs, len(node.outputs), "NCHW")
        return wired
