"""TFLite file -> Model: finds the entry point, checks that all operators are supported, and has it translated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minnow.converter.base import Refusal, Unsupported
from minnow.converter.tflite.cut import cut
from minnow.converter.tflite.document import Document, Operator, node_name
from minnow.converter.tflite.frontend import frontend
from minnow.converter.tflite.translator import Translator
from minnow.schema.errors import ModelError, UsageError
from minnow.schema.ir import Model


def read(
    path: Path,
    inputs: Any = None,
    batch: int | None = None,
    signature: str | None = None,
    dequantize: bool = False,
    cut_inputs: Sequence[str] = (),
    cut_outputs: Sequence[str] = (),
) -> Model:
    """Reads a TFLite file.

    Args:
        path: the file; big weights are mapped, not copied.
        inputs: what `Inputs` takes: shapes that replace those in the file; "?" leaves a dimension as it is.
        batch: takes the place of the first dynamic dimension of every input.
        signature: name of the entry point; None takes the first one.
        dequantize: compute in float what the file computes on quantized values; inputs and outputs keep their types.
        cut_inputs: names of tensors that become inputs: what computes them is left out.
        cut_outputs: names of the tensors that the model gives, instead of its outputs.

    Raises:
        FormatError: not a TFLite file. ModelError: invalid. UnsupportedError: with all unknown operators.
        UsageError: `inputs` names an input that does not exist or contradicts it; there is no such signature, or no
            tensor to cut at.
    """
    document = Document(path)
    index = entry(document, signature)
    if cut_inputs or cut_outputs:
        document.subgraphs[index] = cut(document.subgraphs[index], cut_inputs, cut_outputs, str(path))
    unsupported = Unsupported("tflite")
    _check(document, index, unsupported)
    translator = Translator(document, unsupported, dequantize)
    return translator.model(index, inputs or {}, batch)


def entry(document: Document, signature: str | None) -> int:
    """The subgraph of a signature, or of the first one. Raises UsageError where there is none of that name."""
    if signature is None:
        return document.signatures[0].subgraph if document.signatures else 0
    for known in document.signatures:
        if known.key == signature:
            return known.subgraph
    names = ", ".join(s.key for s in document.signatures) or "it has none"
    raise UsageError(f"the model has no signature '{signature}'", where=str(document.path), hint=f"known: {names}")


def called(operator: Operator) -> list[int]:
    """Indices of the subgraphs that an operator runs."""
    return [v for k, v in operator.attrs.items() if k.endswith("subgraph_index") and isinstance(v, int) and v >= 0]


def _check(document: Document, index: int, unsupported: Unsupported) -> None:
    """Collects the operators without a mapping in everything that the entry point reaches."""
    reached, todo = {index}, [index]
    while todo:
        graph = document.subgraphs[todo.pop()]
        for operator in graph.operators:
            if not frontend.knows(operator.op, operator.version):
                refusal = frontend.refusal(operator.op, operator.version) or _flex(operator.op)
                reason = f"{operator.op} ({refusal.why})" if refusal else operator.op
                unsupported.add(reason, node_name(graph, operator), refusal.hint if refusal else "")
            for inner in called(operator):
                if inner >= len(document.subgraphs):
                    raise ModelError(f"{operator.op} runs subgraph {inner}, which does not exist",
                                     why=f"there are {len(document.subgraphs)}",
                                     where=f"tflite:{node_name(graph, operator)}")  # fmt: skip
                if inner not in reached:
                    reached.add(inner)
                    todo.append(inner)


def _flex(op: str) -> Refusal | None:
    """Why operators that only TensorFlow has are refused: their names say so, and there is no list of them."""
    why = "an operator of TensorFlow that TFLite only passes on"
    hint = "convert the TensorFlow model itself: `--framework tensorflow` may know it"
    return Refusal(why, hint, 1, None) if op.startswith("Flex") else None
