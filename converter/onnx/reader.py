"""ONNX file -> Model: reads the file, checks that all operators are supported, and has it translated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from minnow.converter.base import Unsupported
from minnow.converter.file.foreign import AGAIN
from minnow.converter.inputs.given import Inputs
from minnow.converter.onnx.cut import cut
from minnow.converter.onnx.frontend import frontend
from minnow.converter.onnx.function import DEFAULT_DOMAINS, Library, opsets_of
from minnow.converter.onnx.translator import Translator, qualified, version_of
from minnow.schema.errors import FormatError, ModelError, UnsupportedError
from minnow.schema.ir import DType, Model, TensorType

OLDEST_OPSET = 1
_UNKNOWN = "nothing in the file defines it: a function of that name would"
_ANY_TENSOR = TensorType(DType.F32)
_MAX_DEPTH = 60


def read(
    path: Path,
    inputs: Any = None,
    batch: int | None = None,
    cut_inputs: Sequence[str] = (),
    cut_outputs: Sequence[str] = (),
    custom_ops: bool = False,
) -> Model:
    """Reads an ONNX file.

    Args:
        path: the file; external data is looked up beside it and mapped, not copied.
        inputs: what `Inputs` takes: shapes that replace those in the file; "?" leaves a dimension as it is.
        batch: takes the place of the first dynamic dimension of every input.
        cut_inputs: names of tensors that become inputs: what computes them is left out.
        cut_outputs: names of the tensors that the model gives, instead of its outputs.
        custom_ops: unknown operators are kept by name.

    Raises:
        FormatError: not an ONNX file. ModelError: invalid. UnsupportedError: with all unknown operators.
        UsageError: `inputs` names an input that does not exist or contradicts it; there is no tensor to cut at, or its
            type is not known.
    """
    proto = parse(path)
    if cut_inputs or cut_outputs:
        given = Inputs.of(inputs)
        types = {n: TensorType(g.dtype, g.shape) for n in cut_inputs if (g := given.get(n)) and g.dtype}
        proto = cut(proto, cut_inputs, cut_outputs, types, str(path))
    opsets = _opsets(proto, path)
    library = Library(proto.functions)
    unsupported = Unsupported("onnx")
    _check(proto.graph.node, opsets, library, Unsupported() if custom_ops else unsupported, ())
    translator = Translator(path, opsets, library, unsupported, custom_ops)
    graph, declared = translator.main(proto.graph, inputs or {}, batch)
    model = Model(graph, source="onnx", metadata={p.key: p.value for p in proto.metadata_props})
    model.inputs = [(v.name, v.type) for v in graph.params]
    model.outputs = declared
    return model


def parse(path: Path) -> onnx.ModelProto:
    """The file as protobuf gives it, external data left where it is. Raises FormatError when it is not ONNX."""
    try:
        proto = onnx.load_model(str(path), load_external_data=False)
    except OSError as e:
        raise FormatError("cannot read the file", where=str(path), why=e.strerror or str(e)) from None
    except Exception as e:  # noqa: BLE001  (protobuf's parsers raise classes of their own, other ones in each version)
        raise FormatError(
            "not an ONNX file, or damaged", where=str(path), why=str(e) or type(e).__name__, hint=AGAIN
        ) from None
    if not proto.graph.node and not proto.graph.output:
        raise FormatError("the ONNX file holds no graph", where=str(path), why="it has neither nodes nor outputs")
    try:
        _check_text(proto.graph.node)
        for function in proto.functions:
            _check_text(function.node)
    except UnicodeError as e:
        raise FormatError(
            "the ONNX file is damaged: a name in it is not valid text", where=str(path), why=str(e)
        ) from None
    return proto


def _check_text(nodes: Iterable[onnx.NodeProto]) -> None:
    """Raises UnicodeError for a name that is not UTF-8: protobuf gives it as bytes, or raises that error itself."""
    for node in nodes:
        names = (node.name, node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute))
        for name in names:
            if not isinstance(name, str):
                raise UnicodeError(f"{name!r}")
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                _check_text(a.g.node)


def _opsets(proto: onnx.ModelProto, path: Path) -> dict[str, int]:
    opsets = opsets_of(proto.opset_import)
    newest = onnx.defs.onnx_opset_version()
    if proto.ir_version < 3:
        opsets.setdefault("", 1)
    elif all(node.domain not in DEFAULT_DOMAINS for node in proto.graph.node):
        opsets.setdefault("", newest)  # nothing asks for it
    version = opsets.setdefault("", 0)
    if not OLDEST_OPSET <= version <= newest:
        raise UnsupportedError(
            f"opset {version} is not supported",
            where=str(path),
            why=f"supported are {OLDEST_OPSET} to {newest}",
            hint="`onnx.version_converter.convert_version` can change the opset of a model",
        )
    return opsets


def _check(
    nodes: Iterable[onnx.NodeProto],
    opsets: Mapping[str, int],
    library: Library,
    unsupported: Unsupported,
    calls: tuple[tuple[str, str], ...],
) -> None:
    """Collects what has neither a mapping nor a body of operators that have.

    Args:
        calls: the functions around the nodes, outermost first: (operator, name of the node).
    """
    for i, node in enumerate(nodes):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _check(attribute.g.node, opsets, library, unsupported, calls)
        op, version = qualified(node), version_of(node, opsets)
        body = library.local(node, opsets)
        if body is None:
            if frontend.find(op, version) is not None:
                continue
            # The operands have no types yet. Which operators a body is made of hardly depends on them.
            body = library.standard(node, opsets, [_ANY_TENSOR if n else None for n in node.input])
            if body is None and library.has_standard(node, opsets):
                continue
        name = node.name or next((o for o in node.output if o), f"#{i}")
        if body is None:
            refusal = frontend.refusal(op, version)
            reason = f"{op} of opset {version}" if frontend.mappings.get(op) else op
            hint = refusal.hint if refusal else _UNKNOWN if node.domain not in DEFAULT_DOMAINS else ""
            if refusal:
                reason = f"{reason} ({refusal.why})"
            if calls:
                reason = f"{reason}, in the body of {calls[-1][0]}"
            unsupported.add(reason, "/".join([*(n for _, n in calls), name]), hint)
        elif any(op == outer for outer, _ in calls):
            raise ModelError(f"the function {op} calls itself", where=f"onnx:{'/'.join(n for _, n in calls)}")
        elif len(calls) == _MAX_DEPTH:
            raise ModelError(
                "the functions of the file are nested too deeply",
                where=f"onnx:{calls[0][1]}",
                why=f"more than {_MAX_DEPTH} calls",
            )
        else:
            _check(body.nodes, body.opsets, library, unsupported, (*calls, (op, name)))
