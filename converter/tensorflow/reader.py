"""TensorFlow graph -> Model: reads a frozen GraphDef, finds its inputs and outputs, translates what they need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from minnow.converter.base import Unsupported
from minnow.converter.extent import fix_inputs
from minnow.converter.tensorflow.body import Body, Port, graph_body, port_of
from minnow.converter.tensorflow.frontend import frontend
from minnow.converter.tensorflow.message import GraphDef
from minnow.converter.tensorflow.tensor import attribute_of
from minnow.converter.tensorflow.translator import Library, Translator
from minnow.schema.errors import FormatError, ModelError, UnsupportedError, UsageError
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ir.type import Dim

_NO_SCALARS = 21
"""Up to this version of the producer, a placeholder of the shape [] is one of any shape."""

_INPUTS = ("Placeholder", "PlaceholderV2")
_DEFAULTED = "PlaceholderWithDefault"
_TEXT = re.compile(rb"^[\t\n\r -~]*$")
# Where the operators say which type they read, and which one they give.
_READS = ("SrcT", "T", "Tparams", "TI")
_GIVES = ("dtype", "T", "Tparams", "DstT", "out_type", "output_type")


def read(
    path: Path,
    inputs: Mapping[str, Sequence[Dim]] | None = None,
    batch: int | None = None,
    cut_inputs: Sequence[str] = (),
    cut_outputs: Sequence[str] = (),
) -> Model:
    """Reads a frozen graph, binary or as text.

    Args:
        path: the file.
        inputs: shapes that replace those in the file, by input name; "?" leaves an extent as it is.
        batch: takes the place of the first open extent of every input.
        cut_inputs: names of tensors ("node" or "node:1") that become inputs: what computes them is left out.
        cut_outputs: names of the tensors that the model gives; by default what no node reads.

    Raises:
        FormatError: not a GraphDef. ModelError: invalid. UnsupportedError: with all unknown operators.
        UsageError: names of tensors or inputs that there are not.
    """
    proto = parse(path)
    body = graph_body(proto.node, "main")
    version = proto.versions.producer or proto.version
    cuts = [_asked(name, body) for name in cut_inputs]
    asked = [_asked(name, body) for name in cut_outputs]
    body.results = asked or _unread(body, path)
    unsupported = Unsupported()
    translator = Translator(str(path), Library(proto.library.function), unsupported, version)
    types = _input_types(body, cuts, translator, {str(port_of(k)): tuple(v) for k, v in (inputs or {}).items()}, batch)
    graph = Graph("main")
    given: dict[Port, Any] = {port: graph.add_param(type, str(port)) for port, type in types.items()}
    translator.check(body, given)
    outputs = translator.graph(body, graph, given, widen=not asked)
    unsupported.raise_if_any(str(path))
    return finish(graph, outputs, path)


def finish(graph: Graph, outputs: Sequence[tuple[str, Any]], path: Path) -> Model:
    """The model of a translated graph. Raises UnsupportedError where an output is no tensor."""
    for name, value in outputs:
        if not isinstance(value, Value):
            raise UnsupportedError(f"the output '{name}' is {value.kind}, not a tensor", where=str(path))
    graph.outputs = [value for _, value in outputs]
    model = Model(graph, source="tensorflow")
    model.inputs = [(v.name, v.type) for v in graph.params]
    model.outputs = [(name, value.type) for name, value in outputs]
    return model


def parse(path: Path) -> Any:
    """The file as a GraphDef. Raises FormatError when it is none."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise FormatError("cannot read the file", where=str(path), why=e.strerror or str(e)) from None
    hint = "a frozen graph is needed, as `convert_variables_to_constants_v2` makes it"
    try:
        if _TEXT.match(data[:256]):
            proto = text_format.Parse(data.decode(), GraphDef(), allow_unknown_field=True)
        else:
            proto = GraphDef.FromString(data)
        for node in proto.node:
            node.name, node.op, *node.input  # noqa: B018  (text that is not UTF-8 may show itself here only)
    except Exception as e:  # noqa: BLE001  (protobuf's parsers raise classes of their own, other ones in each version)
        raise FormatError("not a TensorFlow graph, or damaged", where=str(path), why=str(e)[:200], hint=hint) from None
    if not proto.node:
        raise FormatError("the file holds no graph", where=str(path), why="it has no nodes", hint=hint)
    return proto


def _asked(name: str, body: Body) -> Port:
    port = port_of(name.removeprefix("^"))
    if port.node not in body.operations:
        near = [n for n in body.operations if n.rpartition("/")[2] == port.node.rpartition("/")[2]]
        raise UsageError(f"the model has no tensor '{name}'", hint=f"is it {near[0]}?" if near else "")
    return port


def _unread(body: Body, path: Path) -> list[Port]:
    """The outputs of a graph that does not name them: the nodes that nobody reads, if they compute anything."""
    read = {port.node for operation in body.operations.values() for port in operation.inputs}
    quiet = {"Const", "HostConst", *_INPUTS, _DEFAULTED, *frontend.silent}
    found = [Port(n) for n, operation in body.operations.items() if n not in read and operation.op not in quiet]
    if not found:
        raise ModelError("the graph has no outputs", where=str(path), hint="name them by `--outputs`")
    return found


def _input_types(
    body: Body, cuts: Sequence[Port], translator: Translator, shapes: Mapping[str, Sequence[Dim]], batch: int | None
) -> dict[Port, TensorType]:
    """Types of the parameters: of tensors that are cut first, then of the placeholders that are reached."""
    types: dict[Port, TensorType] = {}
    for port in cuts:
        types[port] = _type_of_cut(port, body, translator)
    reached = body.reached(set(cuts))
    placeholders = [n for n in reached if body.operations[n].op in _INPUTS]
    if not placeholders and not cuts:
        placeholders = [n for n in reached if body.operations[n].op == _DEFAULTED]
    for name in placeholders:
        types.setdefault(Port(name), _declared(name, body, translator))
    fixed = fix_inputs({str(p): t for p, t in types.items()}, shapes, batch)
    return {port: fixed[str(port)] for port in types}


def _declared(name: str, body: Body, translator: Translator) -> TensorType:
    attrs = translator.attributes(body.operations[name], body)
    dtype, shape = attrs.get("dtype"), attrs.get("shape")
    if not isinstance(dtype, DType):
        raise UnsupportedError(
            f"the input '{name}' is of {dtype}",
            where=translator.where,
            hint="cut the model where its input has become numbers: `--inputs NAME`",
        )
    if shape == () and translator.version <= _NO_SCALARS:
        shape = None
    return TensorType(dtype, shape)


def _type_of_cut(port: Port, body: Body, translator: Translator) -> TensorType:
    """The type of a tensor that is cut: as computed, or, if that fails, what the nodes around it say."""
    operation = body.operations[port.node]
    if operation.op in (*_INPUTS, _DEFAULTED):
        return _declared(port.node, body, translator)
    if (type := _computed_type(port, body, translator)) is not None:
        return type
    attrs = translator.attributes(operation, body)
    shapes = attrs.get("_output_shapes") or ()
    shape = shapes[port.output] if port.output < len(shapes) else None
    for reader in body.operations.values():
        if port in reader.inputs:
            kinds = {k: attribute_of(reader.attrs[k], {}, port.node) for k in _READS if k in reader.attrs}
            if dtype := next((d for d in kinds.values() if isinstance(d, DType)), None):
                return TensorType(dtype, shape)
    if dtype := next((attrs[k] for k in _GIVES if isinstance(attrs.get(k), DType)), None):
        return TensorType(dtype, shape)
    raise UsageError(f"the type of '{port}' is not known", why=f"{operation.op} is not supported, and none reads it")


def _computed_type(port: Port, body: Body, translator: Translator) -> TensorType | None:
    """The type that translating everything before a tensor gives it, in a graph that is thrown away."""
    trial = Body(body.name, [], body.operations, [port])
    scratch = Translator(translator.where, translator.library, Unsupported(), translator.version)
    graph = Graph("trial")
    try:
        given: dict[Port, Any] = {
            Port(n): graph.add_param(_declared(n, body, translator), n)
            for n in trial.reached(set())
            if body.operations[n].op in _INPUTS
        }
        ((_, value),) = scratch.graph(trial, graph, given)
    except (ModelError, UnsupportedError, FormatError):
        return None
    return value.type if isinstance(value, Value) else None
