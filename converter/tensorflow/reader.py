"""TensorFlow graph -> Model: reads a frozen GraphDef, finds its inputs and outputs, translates what they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minnow.converter.base import Unsupported
from minnow.converter.inputs.dimension import fix_inputs, shape_from_use
from minnow.converter.inputs.given import Inputs
from minnow.converter.tensorflow.file.source import Entry, Source, open_source
from minnow.converter.tensorflow.frontend import frontend
from minnow.converter.tensorflow.symbolic.body import Body, Port, graph_body, port_of
from minnow.converter.tensorflow.symbolic.flat import flatten
from minnow.converter.tensorflow.symbolic.frame import outer, structure
from minnow.converter.tensorflow.symbolic.state import Memory
from minnow.converter.tensorflow.symbolic.translator import Library, Translator
from minnow.converter.tensorflow.tensor import COMPLEX, attribute_of, shape_of, type_of
from minnow.schema.errors import FormatError, ModelError, UnsupportedError, UsageError
from minnow.schema.ir import UNKNOWN, DType, Graph, Model, TensorType, Value
from minnow.schema.ir.type import merge

_NO_SCALARS = 21
"""Up to this version of the producer, a placeholder of the shape [] is one of any shape."""

_INPUTS = ("Placeholder", "PlaceholderV2")
_DEFAULTED = "PlaceholderWithDefault"
_LEFT = "unused_control_flow_input"
"""Placeholders that TensorFlow leaves behind where it has lowered a loop, with numbers at their names."""
# Where the operators say which type they read, and which one they give.
_READS = ("SrcT", "T", "Tparams", "TI")
_GIVES = ("dtype", "T", "Tparams", "DstT", "out_type", "output_type")


def read(
    path: Path,
    inputs: Any = None,
    batch: int | None = None,
    cut_inputs: Sequence[str] = (),
    cut_outputs: Sequence[str] = (),
    signature: str = "",
) -> Model:
    """Reads a frozen graph, binary or as text, or a SavedModel.

    Args:
        path: the file or folder.
        inputs: what `Inputs` takes: shapes that replace those in the file; "?" leaves a dimension as it is.
        batch: takes the place of the first dynamic dimension of every input.
        cut_inputs: names of tensors ("node" or "node:1") that become inputs: what computes them is left out.
        cut_outputs: names of the tensors that the model gives; by default what no node reads.
        signature: the entry point of a SavedModel.

    Raises:
        FormatError: no TensorFlow model. ModelError: invalid. UnsupportedError: with all unknown operators.
        UsageError: names of tensors, inputs or signatures that there are not.
    """
    source = open_source(path, signature)
    if signature and not source.signatures:
        raise UsageError("the model has no signatures", where=str(path))
    given = Inputs.of(inputs)
    given.rename(lambda name: str(port_of(name)))
    kept: set[str] = set()
    while True:
        # Which variables the model changes shows only when it is translated: then they are no constants, once more.
        memory = Memory(source.load, kept)
        try:
            model = _read(source, memory, given, batch, cut_inputs, cut_outputs)
        except (ModelError, UnsupportedError):
            if memory.assigned <= kept:
                raise
        else:
            if memory.assigned <= kept:
                return model
        kept |= memory.assigned


def _read(
    source: Source,
    memory: Memory,
    said: Inputs,
    batch: int | None,
    cut_inputs: Sequence[str],
    cut_outputs: Sequence[str],
) -> Model:
    body = graph_body(source.graph.node, "main")
    unsupported = Unsupported("tensorflow")
    translator = Translator(source.where, Library(source.graph.library.function), unsupported, source.version, memory)
    names = {_port(e, body, source): e.name for e in source.inputs or ()}
    if len(names) < len(source.inputs or ()):
        raise UnsupportedError(
            "two inputs of the signature are the same tensor, which is not supported", where=source.where
        )
    declared = {e.name: _port(e, body, source) for e in source.outputs or ()}
    known = {*declared, *names.values()}
    if source.signatures and any(
        port_of(n).node not in body.operations for n in (*cut_inputs, *cut_outputs) if n not in known
    ):
        # It is inside of a function, which is all that the graph of a SavedModel shows.
        body.results = [*declared.values()]
        body = flatten(body, translator)
        declared = dict(zip(declared, body.results, strict=True))
    aliases = {**{name: port for port, name in names.items()}, **declared}
    # What lies in functions is known by the end of its name.
    asked_for = [n for n in (*cut_inputs, *cut_outputs) if n not in aliases] if source.signatures else []
    aliases |= {n: port for n in asked_for if (port := _by_end(n, body)) is not None}
    cuts = [_asked(name, body, aliases) for name in cut_inputs]
    asked = {n if n in known else str(p): p for n in cut_outputs for p in [_asked(n, body, aliases)]}
    results = asked or declared
    body.results = [*results.values()] or _unread(body, source.where)
    whole = not (cuts or asked or source.inputs)
    types = _input_types(body, cuts, whole, translator, source, names, said, batch)
    graph = Graph("main")
    given: dict[Port, Any] = {port: graph.add_param(type, names.get(port, str(port))) for port, type in types.items()}
    body = structure(body, given)
    translator.check(body, given)
    outputs = translator.graph(body, graph, given, widen=not results)
    unsupported.raise_if_any(source.where)
    if results:
        outputs = [(name, value) for name, (_, value) in zip(results, outputs, strict=True)]
    model = finish(graph, outputs, source.where)
    if not (asked or cuts or said or batch):
        infos = {e.name: e.info for e in source.outputs or ()}
        model.outputs = [(n, _completed(t, infos[n]) if n in infos else t) for n, t in model.outputs]
    memory.finish(model, translator.view)
    return model


def finish(graph: Graph, outputs: Sequence[tuple[str, Any]], where: str) -> Model:
    """The model of a translated graph. Raises UnsupportedError if an output is not a tensor."""
    for name, value in outputs:
        if not isinstance(value, Value):
            raise UnsupportedError(f"the output '{name}' is {value.kind}, not a tensor", where=where)
    graph.outputs = [value for _, value in outputs]
    for parameter in graph.params:
        parameter.type = parameter.type.with_shape(merge(parameter.type.shape, shape_from_use(parameter)))
    model = Model(graph, source="tensorflow")
    model.inputs = [(v.name, v.type) for v in graph.params]
    model.outputs = [(name, value.type) for name, value in outputs]
    return model


def _completed(type: TensorType, info: Any) -> TensorType:
    """The type of an output, with the dimensions that the file declares where nothing else is known."""
    declared = shape_of(info.tensor_shape)
    if declared is None or (type.shape is not None and len(type.shape) != len(declared)):
        return type
    known = type.shape or (UNKNOWN,) * len(declared)
    return type.with_shape(tuple(d if k == UNKNOWN else k for k, d in zip(known, declared, strict=True)))


def _port(entry: Entry, body: Body, source: Source) -> Port:
    port = port_of(entry.tensor)
    if port.node not in body.operations:
        raise ModelError(f"'{entry.name}' is the tensor '{entry.tensor}', which does not exist", where=source.where)
    return port


def _asked(name: str, body: Body, aliases: Mapping[str, Port]) -> Port:
    if name in aliases:
        return aliases[name]
    port = port_of(name.removeprefix("^"))
    if port.node not in body.operations:
        near = [n for n in body.operations if n.rpartition("/")[2] == port.node.rpartition("/")[2]]
        raise UsageError(f"the model has no tensor '{name}'", hint=f"did you mean {near[0]}?" if near else "")
    return port


def _by_end(name: str, body: Body) -> Port | None:
    """The tensor whose name ends in this one, if it is the only one."""
    port = port_of(name)
    ends = [n for n in body.operations if n.endswith(f"/{port.node}")]
    return Port(ends[0], port.output) if port.node not in body.operations and len(ends) == 1 else None


def _unread(body: Body, where: str) -> list[Port]:
    """The outputs of a graph that does not name them: the nodes whose results are unused, if they compute anything."""
    operations = body.operations
    read = {port.node for operation in operations.values() for port in operation.inputs}
    quiet = {"Const", "HostConst", *_INPUTS, _DEFAULTED, *frontend.silent}
    found = [Port(n) for n, operation in operations.items() if n not in read and operation.op not in quiet]
    # What others wait for is a step of the model, not a result; but a group of results may wait for them.
    awaited, todo = set[str](), [c for o in operations.values() if o.op not in quiet for c in o.controls]
    while todo:
        name = todo.pop()
        if name not in awaited and (operation := operations.get(name)):
            awaited.add(name)
            todo += operation.controls
    found = [Port(n) for n in outer([p.node for p in found if p.node not in awaited], operations)]
    if not found:
        raise ModelError("the graph has no outputs", where=where, hint="name them with `--outputs`")
    return found


def _input_types(
    body: Body,
    cuts: Sequence[Port],
    whole: bool,
    translator: Translator,
    source: Source,
    names: Mapping[Port, str],
    said: Inputs,
    batch: int | None,
) -> dict[Port, TensorType]:
    """Types of the parameters: of tensors that are cut first, then of the declared, and of the placeholders.

    Args:
        whole: also of placeholders that nothing of the model reads.
    """
    types: dict[Port, TensorType] = {}
    for port in cuts:
        types[port] = _type_of_cut(port, body, translator)
    for entry, port in zip(source.inputs or (), names, strict=True):
        if port not in types and (not cuts or port.node in body.reached(set(cuts))):
            types[port] = _type_of_entry(entry, translator)
    reached = [n for n in body.reached(set(types)) if Port(n) not in types]
    wanted = reached
    if whole:
        read = set(reached)
        wanted = [n for n in body.operations if n in read or not (Port(n) in types or n.startswith(_LEFT))]
    placeholders = [n for n in wanted if body.operations[n].op in _INPUTS]
    if not placeholders and not types:
        placeholders = [n for n in reached if body.operations[n].op == _DEFAULTED]
    for name in placeholders:
        try:
            types[Port(name)] = _declared(name, body, translator)
        except UnsupportedError:
            if name in reached:
                raise
    called = {port: names.get(port, str(port)) for port in types}
    fixed = fix_inputs({called[p]: t for p, t in types.items()}, said, batch)
    return {port: fixed[called[port]] for port in types}


def _type_of_entry(entry: Entry, translator: Translator) -> TensorType:
    dtype = type_of(entry.info.dtype)
    if not isinstance(dtype, DType):
        raise _no_numbers(entry.name, dtype, translator)
    return TensorType(dtype, shape_of(entry.info.tensor_shape))


def _no_numbers(name: str, dtype: Any, translator: Translator) -> UnsupportedError:
    return UnsupportedError(
        f"the input '{name}' has the element type {dtype}, which is not supported",
        where=translator.where,
        hint="begin the model where its input has become numbers: `--inputs NAME`",
    )


def _declared(name: str, body: Body, translator: Translator) -> TensorType:
    attrs = translator.attributes(body.operations[name], body)
    dtype, shape = attrs.get("dtype"), attrs.get("shape")
    if shape is not None and not (isinstance(shape, tuple) and all(isinstance(d, (int, str)) for d in shape)):
        raise ModelError(f"the shape of the input '{name}' is invalid", where=translator.where)
    if isinstance(dtype, str) and dtype in COMPLEX:
        return TensorType(COMPLEX[dtype], None if shape is None else (*shape, 2))
    if not isinstance(dtype, DType):
        raise _no_numbers(name, dtype, translator)
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
    raise UsageError(
        f"the type of '{port}' is not known",
        why=f"{operation.op} is not supported, and no operator that reads it tells the type",
    )


def _computed_type(port: Port, body: Body, translator: Translator) -> TensorType | None:
    """The type that translating everything before a tensor gives it, in a graph that is thrown away."""
    trial = structure(Body(body.name, [], body.operations, [port]))
    scratch = Translator(
        translator.where, translator.library, Unsupported(), translator.version, Memory(translator.memory.load)
    )
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
