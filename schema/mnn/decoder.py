"""File -> IR: the bytes of a `.mnn` file become a model. Ops without a counterpart travel as `Raw`, losslessly."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from minnow.schema.errors import FormatError, MinnowError, ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, DType, Graph, Model, TensorType, Value
from minnow.schema.limit import add_stored
from minnow.schema.mnn import state, wire
from minnow.schema.mnn.attribute import ENGINE, decode_attributes
from minnow.schema.mnn.called import Called, as_condition, as_taken, called_by, check_copies, same_results, same_state
from minnow.schema.mnn.container import closed
from minnow.schema.mnn.control import decode_conditional, decode_if, decode_loop
from minnow.schema.mnn.layout import FORMS, Layouts, result_type, turned
from minnow.schema.mnn.side_file import attach, side_path
from minnow.schema.ops import Builder, Op, WireOp, all_ops, get
from minnow.schema.registry.encoding import FROM_WIRE_DTYPE, TWINS


@dataclass
class _Subgraph:
    graph: Graph
    inputs: list[str]
    outputs: list[str]
    size: int  # nodes, with those of what it calls


_MOST_NODES = 200_000
_NODES_PER_OP = 16
"""A subgraph is there anew for each node that calls it. So many nodes, and so many for each op of the file, may come of
that; models have a subgraph for each such node."""


def read_file(path: Path) -> Model:
    """The model in a file, whose weights are mapped, not read. Raises as `decode` does."""
    return decode(np.memmap(path, np.uint8, mode="r"), side_path(path))


def decode(data: wire.Buffer, side_file: Path | None = None) -> Model:
    """The model in the bytes of a file.

    Args:
        data: the bytes.
        side_file: where the weights are that lie in a file of their own, should there be such; see `side_path`.

    Raises:
        FormatError: the bytes are not a valid file, or the companion weights file is missing or damaged.
        ModelError: the ops in it do not fit together.
    """
    net = wire.read(data)
    attach(net, side_file)
    metadata = metadata_of(net)
    stored = _types(metadata.pop("minnow.types", "{}"))
    foreign = "minnow.inputs" not in metadata
    if foreign:
        metadata[FORMS] = _forms(net)
    scanned = _declared(metadata.pop("minnow.scanned", "[]"), "minnow.scanned")
    halves = _halves(net, metadata)
    subgraphs: dict[str, _Subgraph] = {}
    ops = sum(len(t.get("nodes", [])) for t in net.get("subgraphs", [])) + len(net.get("oplists", []))
    most = _MOST_NODES + _NODES_PER_OP * ops
    own = net.get("extraInfo", {}).get("minnow")
    # Of two graphs that compute the same, ours is the one with the integers.
    tables = net.get("oplists", []) if own is None else own.get("nodes", [])
    check_copies(net.get("subgraphs", []), tables, most)
    source = str(net.get("sourceType", "CAFFE"))
    last = foreign and source in ("TENSORFLOW", "TFLITE")
    origin = "NHWC" if last else "NCHW"

    def subgraph(table: Mapping[str, Any], types: Mapping[str, TensorType]) -> _Subgraph:
        name = table.get("name", "")
        names = _names(table.get("tensors"), f"subgraph '{name}'")
        reader = _Reader(
            name,
            names,
            subgraphs,
            stored,
            most,
            _roundings(table),
            halves,
            foreign=foreign,
            origin=origin,
            called=called,
        )
        reader.fed = types
        for t in table.get("nodes", []):
            reader.op(t)
        outputs = _list(table.get("outputs"))
        reader.finish([reader.name(i) for i in outputs], [reader.value(i) for i in outputs])
        # The inputs of a subgraph are bound by its list, whatever the order of its Input ops.
        reader.graph.params = _bound(reader.graph, [reader.value(i) for i in _list(table.get("inputs"))])
        for i, value in zip(outputs, reader.graph.outputs, strict=True):
            if value.type.shape is None and names[i] in scanned:
                value.type = value.type.with_shape(scanned[names[i]].shape)
        return _Subgraph(
            reader.graph, [names[i] for i in _list(table.get("inputs"))], [names[i] for i in outputs], reader.size
        )

    # Files of others say nothing of the types of what a subgraph gets: it is read where it is called.
    called = Called(net.get("subgraphs", []), subgraph, subgraphs) if foreign else None
    for table in () if foreign else net.get("subgraphs", []):
        subgraphs[table.get("name", "")] = subgraph(table, {})
    names = _names(net.get("tensorName") if own is None else own.get("tensors"), "the main graph")
    declared = {key: _declared(metadata.pop(key, "[]"), key) for key in ("minnow.inputs", "minnow.outputs")}
    # The shapes of the inputs come first: inference carries their symbols through the graph.
    given = declared["minnow.inputs"]
    shapes = _static_shapes(net) if foreign else {}
    rounded = _roundings(net) if own is None else {}
    reader = _Reader(
        "main", names, subgraphs, stored, most, rounded, halves, given, foreign, source, shapes, called=called
    )
    for t in tables:
        reader.op(t)
    results: list[str] = net.get("outputName") or reader.unread()
    index = {n: i for i, n in enumerate(names)}
    if unknown := [n for n in results if n not in index]:
        raise FormatError(f"the output '{unknown[0]}' is not a tensor of the file")
    reader.finish(results, [reader.given(index[n], last) for n in results])
    graph = reader.graph
    model = Model(graph, source=source.lower(), metadata=metadata)
    model.inputs = [(p.name, declared["minnow.inputs"].get(p.name, p.type)) for p in graph.params]
    types = [v.type for v in graph.outputs]
    model.outputs = [(n, declared["minnow.outputs"].get(n, t)) for n, t in zip(results, types, strict=True)]
    model.states = state.parse(model.metadata.pop("minnow.states", "[]"), model)
    return model


def _forms(net: Mapping[str, Any]) -> str:
    """What a file of MNN's converter keeps of its forms when it is optimized."""
    if net.get("usage") == "INFERENCE_STATIC":
        return "static"
    inputs = (op.get("main", {}) for op in net.get("oplists", []) if op.get("type") == "Input")
    last = any(main.get("dformat", "NCHW") == "NHWC" and len(main.get("dims", ())) > 2 for main in inputs)
    return "rounded channels last" if last and _roundings(net) else "mnn"


def _declared(text: str, key: str) -> dict[str, TensorType]:
    try:
        return {r["name"]: closed(_tensor(r), r.get("container", "")) for r in json.loads(text)}
    except (ValueError, KeyError, TypeError) as e:
        raise FormatError(f"the metadata '{key}' is invalid", why=f"{type(e).__name__}: {e}") from None


def _halves(net: Mapping[str, Any], metadata: dict[str, str]) -> Callable[[str, DType], bool]:
    """Whether a constant of 16 bits, by its name, stands for float32: it is only stored in less space.

    MNN's runtime computes in float32 with all of them: so do files that it wrote, unless an input is float16.
    """
    if "minnow.inputs" in metadata:
        try:
            names = {str(name) for name in json.loads(metadata.pop("minnow.halves", "[]"))}
        except (ValueError, TypeError) as e:
            raise FormatError("the metadata 'minnow.halves' is invalid", why=str(e)) from None
        return lambda name, dtype: name in names
    inputs = (op.get("main", {}) for op in net.get("oplists", []) if op.get("type") == "Input")
    every = not any(main.get("dtype") == "DT_HALF" for main in inputs)
    return lambda name, dtype: every and dtype is DType.F16


def _tensor(row: Mapping[str, Any]) -> TensorType:
    shape = row["shape"]
    if shape is not None and not all(isinstance(d, (int, str)) for d in shape):
        raise ValueError(f"a dimension of {shape} is no number and no name")
    return TensorType(DType(row["dtype"]), None if shape is None else tuple(shape))


def _roundings(table: Mapping[str, Any]) -> dict[int, Any]:
    """What a graph says of tensors as integers, by tensor id."""
    rows = table.get("extraTensorDescribe", [])
    return {int(row.get("index", 0)): row["quantInfo"] for row in rows if row.get("quantInfo") is not None}


def _static_shapes(net: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    """What a file with fixed shapes says of its tensors, by their ids."""
    if net.get("usage") != "INFERENCE_STATIC":
        return {}
    rows = [row for row in net.get("extraTensorDescribe", []) if row.get("blob") is not None]
    return {int(row.get("index", 0)): tuple(_list(row["blob"].get("dims"))) for row in rows}


def _types(text: str) -> dict[str, DType]:
    try:
        return {name: DType(dtype) for name, dtype in json.loads(text).items()}
    except (ValueError, AttributeError) as e:
        raise FormatError("the metadata 'minnow.types' is invalid", why=f"{type(e).__name__}: {e}") from None


def metadata_of(net: Mapping[str, Any]) -> dict[str, str]:
    """The texts by name that a file keeps beside its graph."""
    buffer = net.get("extraInfo", {}).get("buffer")
    if buffer is None or len(buffer) == 0:
        return {}
    extra = wire.read_nested("Extra", np.asarray(buffer).tobytes())
    return {a.get("key", ""): a.get("s", "") for a in extra.get("attr", [])}


def _bound(graph: Graph, listed: Sequence[Value | None]) -> list[Value]:
    """The parameters of a subgraph, in the order of its list of inputs."""
    where = f"graph '{graph.name}'"
    params = {v: v.name for v in listed if v is not None}
    if len(params) != len(listed):
        raise FormatError("its list of inputs names a tensor twice, or none", where=where)
    if computed := [name for v, name in params.items() if v not in graph.params]:
        raise FormatError(f"its list of inputs names '{computed[0]}', which is no input", where=where)
    if unbound := [v.name for v in graph.params if v.uses and v not in params]:
        raise FormatError(f"the input '{unbound[0]}' is read, but not in its list of inputs", where=where)
    return list(params)


class _Reader:
    """One graph while it is read."""

    def __init__(
        self,
        name: str,
        names: list[str],
        subgraphs: Mapping[str, _Subgraph],
        types: Mapping[str, DType],
        most: int,
        roundings: Mapping[int, Any],
        halves: Callable[[str, DType], bool],
        declared: Mapping[str, TensorType] | None = None,
        foreign: bool = False,
        source: str = "",
        shapes: Mapping[int, tuple[int, ...]] | None = None,
        origin: str = "",
        called: Called | None = None,
    ) -> None:
        # Ops on tensors that are rounded are kept as they stand, and so is what turns the layouts between them.
        self.layouts = Layouts(origin) if foreign and not roundings else None
        self.graph = Graph(name)
        self.names = names
        self.subgraphs = subgraphs
        self.types = types
        self.most = most
        self.size = 0
        self.declared = declared or {}
        self.source = source
        self.inner = not source
        self.called = called
        self.fed: Mapping[str, TensorType] = {}
        self.shapes = shapes or {}
        self.roundings = roundings
        self.halves = halves
        self.values: dict[int, Value] = {}

    def name(self, index: int) -> str:
        if not 0 <= index < len(self.names):
            raise FormatError(f"tensor {index} does not exist", where=f"graph '{self.graph.name}'")
        return self.names[index]

    def value(self, index: int) -> Value | None:
        """The value of a tensor id; -1 is a missing operand."""
        if index == -1:
            return None
        name = self.name(index)
        if index not in self.values:
            raise FormatError(f"tensor '{name}' is read before it is computed", where=f"graph '{self.graph.name}'")
        return self.values[index]

    def given(self, index: int, last: bool) -> Value | None:
        """The value of a graph output, with channels last if the source has them there."""
        value = self.value(index)
        if value is None or not last or self.layouts is None or self.layouts.of(index) != "NC4HW4":
            return value
        return turned(Builder(self.graph, origin=f"mnn:{self.name(index)}"), value, to_last=True)

    def unread(self) -> list[str]:
        """Names of the unused tensors, which are the outputs of a file that names none."""
        return [self.names[i] for i, v in self.values.items() if not v.uses and not v.is_const]

    def finish(self, names: Sequence[str], values: Sequence[Value | None]) -> None:
        self.graph.outputs = [v for v in values if v is not None]
        for name, value in zip(names, values, strict=True):
            if value is not None and value.producer is not None:
                value.name = name

    def op(self, table: dict[str, Any]) -> None:
        """Adds what one op of the file stands for."""
        inputs = _list(table.get("inputIndexes"))
        outputs = _list(table.get("outputIndexes"))
        where = f"{table.get('type', 'AbsVal')} '{table.get('name', '')}'"
        for i in outputs:
            if i in self.values:
                raise FormatError(f"tensor '{self.name(i)}' is computed twice", where=where)
        try:
            values = [self.value(i) for i in inputs]
            if self.called is not None:
                self.called.read(table, values)
            self._count(table)
            results = self._placed(table, inputs, values, outputs)
        except MinnowError as e:
            e.where = e.where or where
            raise
        for i, value in zip(outputs, results, strict=True):
            if value is not None:
                if value.type.shape is None and i in self.shapes:
                    value.type = value.type.with_shape(self.shapes[i])
                value.name = value.name or self.name(i)
                self.values[i] = value

    def _placed(
        self, table: dict[str, Any], inputs: Sequence[int], values: Sequence[Value | None], outputs: Sequence[int]
    ) -> Sequence[Value | None]:
        """The results of an op; of files of MNN's converter with transposes where layouts change."""
        if self.layouts is None:
            return self._results(table, values, outputs)
        self.layouts.declare(table, inputs, outputs, lambda i: not self.values[i].is_const)
        b = Builder(self.graph, origin=f"mnn:{self.name(outputs[0]) if outputs else ''}")
        kind = str(table.get("type", "AbsVal"))
        if kind == "ConvertTensor" and values and values[0] is not None:
            source, dest = self.layouts.of(inputs[0]), self.layouts.of(outputs[0])
            same = (source == "NHWC") == (dest == "NHWC")
            return [values[0] if same else turned(b, values[0], to_last=dest == "NHWC")]
        placed, operands = self.layouts.operands(b, table, inputs, values)
        first = operands[0] if operands else None
        if kind in ("If", "Select") and first is not None and first.type.dtype is not DType.BOOL:
            operands[0] = b.Cast(first, to=DType.BOOL)
        counts = kind == "Reduction" and table.get("main", {}).get("operation", "SUM") not in ("ANY", "ALL")
        if counts and first is not None and first.type.dtype is DType.BOOL:
            operands[0] = b.Cast(first, to=DType.I32)
        return self.layouts.results(b, table, inputs, self._results(placed, operands, outputs))

    def _conditional(self, b: Builder, wired: WireOp, names: Sequence[str]) -> Sequence[Value | None]:
        """The results of a loop that asks a graph whether there is another round."""
        loop = decode_conditional(wired, self.subgraphs)
        same_state(loop.body, len(loop.values))
        test = loop.condition.clone()
        starts = self.graph.absorb(test, dict(zip(test.params, loop.first, strict=True)))[0]
        if starts.type.dtype is not DType.BOOL:
            starts = b.Cast(starts, to=DType.BOOL)
        attrs = {"body": loop.body, "num_carried": len(loop.values)}
        made = b.node("Loop", [None, starts, *loop.values], attrs, len(loop.values)).outputs
        for place, name in zip(loop.results, names, strict=True):
            made[place].name = made[place].name or name
        return [made[place] for place in loop.results]

    def _count(self, table: Mapping[str, Any]) -> None:
        self.size += 1 + sum(self.subgraphs[n].size for n in called_by(table) if n in self.subgraphs)
        if self.size > self.most:
            raise UnsupportedError(
                f"the subgraphs of the file come to more than {self.most} nodes", where=f"graph '{self.graph.name}'"
            )

    def _true(self, stored: DType, name: str) -> DType:
        """The type of an input or constant; the file says another one where the format has no code for it."""
        dtype = self.types.get(name, stored)
        if dtype is not stored and TWINS.get(dtype) is not stored:
            raise FormatError(f"a tensor of type {stored} cannot be one of {dtype}")
        return dtype

    def _results(
        self, table: dict[str, Any], inputs: Sequence[Value | None], outputs: Sequence[int]
    ) -> Sequence[Value | None]:
        kind = str(table.get("type", "AbsVal"))
        main = table.get("main", {})
        names = [self.name(i) for i in outputs]
        if not names and kind in ("Input", "Const", "TrainableParam", "Range"):
            raise FormatError(f"an op of type {kind} has no output")
        if kind == "Input":
            return [self._input(main, names[0])]
        if kind in ("Const", "TrainableParam"):
            return [self._constant(main, names[0])]
        if kind == "Identity" and len(inputs) == len(outputs):
            return inputs
        if kind == "Range" and self.layouts is not None:
            numbers = Builder(self.graph, origin=f"mnn:{names[0]}")
            one = np.zeros(0, np.int64)
            inputs = [v if v is None or v.type.rank in (0, None) else numbers.Reshape(v, one) for v in inputs]
        wired = WireOp(
            kind, table.get("main_type", ""), main, inputs, len(outputs), table.get("defaultDimentionFormat", "NHWC")
        )
        b = Builder(self.graph, origin=f"mnn:{names[0] if names else kind}")
        roundings = [self.roundings.get(int(i)) for i in (*_list(table.get("inputIndexes")), *outputs)]
        if any(q is not None for q in roundings):
            # The op computes on integers, or rounds, as no op of ours does.
            return _raw(b, wired, len(outputs), names, roundings)
        if kind == "If":
            return self._branches(b, wired, names)
        if wired.main_type == "LoopParam":
            return _raw(b, wired, len(outputs), names)  # of a file with fixed shapes, which is not written again
        if kind == "While":
            return self._conditional(b, wired, names) if main.get("cond_graph") else self._loop(b, wired, names)
        if kind == "Extra" and main.get("engine") == ENGINE:
            graphs = {n: s.graph for n, s in self.subgraphs.items()}
            attrs = decode_attributes(main.get("attr", []), graphs)
            return b.node(get(main.get("type", ""), b.origin), inputs, attrs, len(outputs), names).outputs
        return self._decoded(b, wired, names)

    def _input(self, main: Mapping[str, Any], name: str) -> Value:
        type = _input_type(main)
        if self.layouts is not None and type.shape:
            # What the file says of a subgraph's inputs means nothing.
            type = type.with_shape(None if self.inner else _open_shape(type.shape, self.source))
        if name in self.fed:
            return self.graph.add_param(self.fed[name], name)
        type = type.with_dtype(self._true(type.dtype, name))
        if name in self.declared:
            known = self.declared[name]
            type = known if known.holds_tensors else type.with_shape(known.shape)
        return self.graph.add_param(type, name)

    def _constant(self, main: Mapping[str, Any], name: str) -> Value:
        array = _blob(main)
        if DType.of(array.dtype) in (DType.F16, DType.BF16) and self.halves(name, DType.of(array.dtype)):
            array = array.astype(np.float32)
        dtype = self._true(DType.of(array.dtype), name)
        if dtype.bits < 8:
            array = array & np.uint8(2**dtype.bits - 1)  # above them nothing is stored
        return Value.constant(array.view(dtype.numpy), name)

    def _branches(self, b: Builder, wired: WireOp, names: Sequence[str]) -> Sequence[Value]:
        """The results of an If."""
        operands, attrs = decode_if(wired, self.subgraphs)
        if self.layouts is not None:
            same_results(attrs["then_branch"], attrs["else_branch"])
            operands = [operands[0], *as_taken(self.graph, operands[1:], attrs["then_branch"])]
        return b.node("If", operands, attrs, len(names), names).outputs

    def _loop(self, b: Builder, wired: WireOp, names: Sequence[str]) -> Sequence[Value | None]:
        """The results of a loop whose body says whether it goes on."""
        operands, attrs, kept = decode_loop(wired, self.subgraphs)
        if self.layouts is not None:
            operands[1] = as_condition(b, operands[1], attrs["body"])
            same_state(attrs["body"], attrs["num_carried"])
        made = b.node("Loop", operands, attrs, len(kept), [names[i] for i in kept]).outputs
        by_place = dict(zip(kept, made, strict=True))
        return [by_place.get(i) for i in range(len(names))]

    def _decoded(self, b: Builder, wired: WireOp, names: Sequence[str]) -> Sequence[Value]:
        """The results of the first of our ops that says that the file has it; else of the op as it stands."""
        for op in _decoders().get(wired.type, ()):
            assert op.mnn is not None
            try:
                decoded = None if self.layouts is not None and _differs(wired) else op.mnn.decode(wired)
                if decoded is not None:
                    if self.layouts is not None:
                        return b.node(op, decoded[0], decoded[1], len(names), names).outputs
                    return _build(b, op, decoded[0], decoded[1], len(names), names)
            except ModelError:
                if self.layouts is None:
                    raise
                break  # a form that only MNN's converter writes: it stays as it is
        return _raw(b, wired, len(names), names)


def _differs(wired: WireOp) -> bool:
    """Whether files of MNN's converter mean something else: by indices below 0, by places of maxima in their planes, by
    shapes whose first axes are those of the operand."""
    first = wired.type == "BroadcastTo" and wired.field("axis", 0) == 1
    return wired.type == "OneHot" or (wired.type == "Pooling" and wired.n_outputs > 1) or first


def _build(
    b: Builder, op: Op, operands: Sequence[Any], attrs: Mapping[str, Any], n: int, names: Sequence[str]
) -> Sequence[Value]:
    try:
        return b.node(op, operands, attrs, n, names).outputs
    except ModelError:
        if all(not isinstance(v, Value) or v.type.shape is not None for v in operands):
            raise
        # Behind an op we do not know nothing can be inferred: the types stay open.
        dtype = next((v.type.dtype for v in operands if isinstance(v, Value)), DType.F32)
        return b.node(op, operands, attrs, n, names, [TensorType(dtype)] * n).outputs


# op list: ops of the file on 8-bit integers, or from them to floats, which have no op of ours
_RESULTS = {
    **dict.fromkeys(("ConvInt8", "DepthwiseConvInt8", "EltwiseInt8", "FloatToInt8"), DType.I8),
    **dict.fromkeys(("Int8ToFloat", "Dequantize"), DType.F32),
}


def _raw(
    b: Builder, wired: WireOp, n: int, names: Sequence[str], roundings: Sequence[Any] | None = None
) -> Sequence[Value]:
    attrs: dict[str, Any] = {"type": wired.type, "main_type": wired.main_type, "main": wired.main}
    attrs["format"] = wired.format
    known = _RESULTS.get(wired.type)
    types = [
        TensorType(known if known is not None else result_type(wired.type, wired.inputs, wired.main or {}, i))
        for i in range(n)
    ]
    if roundings is not None:
        attrs["roundings"] = list(roundings)
        # Integers are how a tensor is kept: its numbers are floats.
        types = [
            t if q is None else t.with_dtype(DType.F32)
            for t, q in zip(types, roundings[len(roundings) - n :], strict=True)
        ]
    return b.node("Raw", wired.inputs, attrs, n, names, types).outputs


@cache
def _decoders() -> dict[str, list[Op]]:
    table: dict[str, list[Op]] = {}
    for op in all_ops():
        for kind in op.mnn.types if op.mnn else ():
            table.setdefault(kind, []).append(op)
    return table


def _open_shape(shape: tuple[Any, ...], source: str) -> tuple[Any, ...] | None:
    """What the sizes of an input in a file of MNN's converter tell.

    It writes 1 for a batch of any size, and for all dynamic dimensions of TFLite's models. Of several inputs of
    Caffe's, each gets the sizes of all of them.
    """
    image = 4
    if source == "CAFFE" and len(shape) > image and len(shape) % image == 0:
        return None
    return tuple(UNKNOWN if d == 1 and (i == 0 or source == "TFLITE") else d for i, d in enumerate(shape))


def _input_type(main: Mapping[str, Any]) -> TensorType:
    code = main.get("dtype", "DT_FLOAT")
    if code not in FROM_WIRE_DTYPE:
        raise FormatError(f"an input of type {code} is not supported")
    if main.get("dims") is None:
        return TensorType(FROM_WIRE_DTYPE[code])
    return TensorType(FROM_WIRE_DTYPE[code], tuple(int(d) if d >= 0 else UNKNOWN for d in main["dims"]))


def _blob(main: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    code = main.get("dataType", "DT_FLOAT")
    if code not in FROM_WIRE_DTYPE:
        raise FormatError(f"a constant of type {code} is not supported")
    dtype = FROM_WIRE_DTYPE[code].numpy
    shape = tuple(_list(main.get("dims")))
    payload = next((main[f] for f in ("float32s", "int32s", "int64s", "int8s", "uint8s") if f in main), None)
    if any(d < 0 for d in shape):
        raise FormatError(f"a constant has the shape {shape}")
    array = np.zeros(0, dtype) if payload is None else np.asarray(payload)
    add_stored(array.nbytes)
    if array.dtype != dtype:
        if array.dtype.itemsize != 1 or array.size % dtype.itemsize:
            raise FormatError(f"a constant of type {code} has a payload of {array.size} {array.dtype} elements")
        array = array.view(dtype)
    if array.size != int(np.prod(shape, dtype=np.int64)):
        raise FormatError(f"a constant of shape {shape} has {array.size} elements")
    return array.reshape(shape)


def _list(vector: Any) -> list[int]:
    return [] if vector is None else [int(v) for v in vector]


def _names(vector: Any, where: str) -> list[str]:
    if vector is None:
        raise FormatError("the file names no tensors", where=where)
    return list(vector)
