"""TFLite models as LiteRT runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.schema.ir import Model

Array = np.ndarray[Any, Any]


def part_of(path: Path, signature: str, cut_inputs: Sequence[str], cut_outputs: Sequence[str]) -> bytes:
    """A TFLite file with only the operators between the given tensors. Raises ValueError if LiteRT could not run it."""
    from ai_edge_litert import schema_py_generated as schema
    from flatbuffers import Builder

    from minnow.converter.tflite.cut import cut
    from minnow.converter.tflite.document import IDENTIFIER, Document
    from minnow.converter.tflite.reader import entry

    document = Document(path)
    index = entry(document, signature or None)
    if index:
        raise ValueError("it can only start at the first subgraph of a file")
    part = cut(document.subgraphs[index], cut_inputs, cut_outputs, str(path))
    model = schema.ModelT.InitFromPackedBuf(bytes(document.bytes))
    graph = model.subgraphs[index]
    graph.inputs, graph.outputs = part.inputs, part.outputs
    graph.operators = [graph.operators[o.index] for o in part.operators]
    model.signatureDefs = []  # they name the tensors of the whole
    builder = Builder(len(document.bytes) + 1024)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


class LiteRT:
    """LiteRT with its own kernels, for integers its reference kernels: the fast ones and XNNPACK round differently."""

    def __init__(
        self, path: Path, model: Model, signature: str = "", exact: bool = False, content: bytes = b""
    ) -> None:
        """
        Args:
            exact: use the reference kernels.
            content: the bytes of a model to run instead, a part of the one at `path`.
        """
        import ai_edge_litert
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        def made(resolver: Any) -> Any:
            what = {"model_content": content} if content else {"model_path": str(path)}
            interpreter = Interpreter(**what, num_threads=1, experimental_op_resolver_type=resolver)
            interpreter.allocate_tensors()
            return interpreter

        self.name = f"LiteRT {getattr(ai_edge_litert, '__version__', '')}".rstrip()
        self._inputs = [n for n, _ in model.user_inputs]
        self._outputs = [n for n, _ in model.user_outputs]
        self._signature = signature
        self._make = made
        own = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._own, self._others = (OpResolverType.BUILTIN_REF, own) if exact else (own, OpResolverType.AUTO)
        self._interpreter = made(self._own)

    def close(self) -> None:
        self._interpreter = None

    def reset(self) -> None:
        # Resource variables live as long as the interpreter.
        self._interpreter = self._make(self._own)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self._interpreter = self._interpreter or self._make(self._own)
        return self._run(self._interpreter, inputs)

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        try:
            return self._run(self._make(self._others), inputs)
        except RuntimeError:
            return None  # XNNPACK refuses some models

    def _run(self, interpreter: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            if self._signature:
                return self._run_signature(interpreter, inputs)
            details = interpreter.get_input_details()
            for name, detail in zip(self._inputs, details, strict=True):
                array = np.asarray(inputs[name])
                if tuple(detail["shape"]) != array.shape:
                    interpreter.resize_tensor_input(detail["index"], array.shape)
            interpreter.allocate_tensors()
            for name, detail in zip(self._inputs, details, strict=True):
                interpreter.set_tensor(detail["index"], np.asarray(inputs[name]))
            interpreter.invoke()
            found = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
        except ValueError as e:
            raise RuntimeError(str(e)) from e
        return dict(zip(self._outputs, found, strict=True))

    def _run_signature(self, interpreter: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
        runner = interpreter.get_signature_runner(self._signature)
        # The runner knows the arguments by the names of the signature, the model by those of the tensors.
        arguments = {detail["name"]: key for key, detail in runner.get_input_details().items()}
        results = runner(**{arguments[name]: np.asarray(inputs[name]) for name in self._inputs})
        keys = {detail["name"]: key for key, detail in runner.get_output_details().items()}
        return {name: results[keys[name]] for name in self._outputs}
