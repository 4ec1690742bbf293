"""TFLite files of one operator, and what LiteRT's kernels make of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as fbs
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import minnow
from minnow.converter import read
from minnow.optimizer.pipeline import optimize
from minnow.schema.mnn import encode

Array = np.ndarray[Any, Any]


@dataclass
class Tensor:
    """A tensor of the file: an input unless it has numbers.

    Attributes:
        scale, zero: None for numbers that stand for themselves; lists for one per place along `axis`.
    """

    shape: Sequence[int]
    dtype: Any = np.float32
    scale: float | Sequence[float] | None = None
    zero: int | Sequence[int] = 0
    axis: int = 0
    data: Array | None = None
    variable: bool = False
    signature: Sequence[int] | None = None
    int4: bool = field(default=False)


def constant(array: Array, scale: Any = None, zero: Any = 0, axis: int = 0, int4: bool = False) -> Tensor:
    return Tensor(array.shape, array.dtype.type, scale, zero, axis, array, int4=int4)


def _type(tensor: Tensor) -> int:
    if tensor.int4:
        return int(fbs.TensorType.INT4)
    name = np.dtype(tensor.dtype).name.upper()
    return int(getattr(fbs.TensorType, name))


def _attribute(name: str) -> str:
    return re.sub(r"_(\w)", lambda m: m[1].upper(), name)


def file_of(
    op: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor],
    options: Mapping[str, Any] | bytes = {}, kind: str = "", version: int = 1, between: Sequence[Tensor] = (),
) -> bytes:  # fmt: skip
    """A file whose one operator has these operands (None: left out) and results.

    Args:
        op: the schema's name, or that of a custom operator.
        options: fields of the table of options called `kind`, in snake_case; enumerations as numbers. Bytes for a
            custom operator.
        between: what the kernel computes between the operands and the results.
    """
    model, graph = fbs.ModelT(), fbs.SubGraphT()
    model.version, model.description = 3, "one operator"
    model.buffers = [fbs.BufferT()]
    tensors = [t for t in (*inputs, *outputs, *between) if t is not None]
    graph.tensors = []
    for i, tensor in enumerate(tensors):
        made = fbs.TensorT()
        made.name, made.type, made.shape = f"t{i}", _type(tensor), list(tensor.shape)
        made.isVariable = tensor.variable
        if tensor.signature is not None:
            made.shapeSignature = list(tensor.signature)
        buffer = fbs.BufferT()
        if tensor.data is not None:
            data = tensor.data.reshape(-1)
            if tensor.int4:
                low = np.append(data, np.zeros(len(data) % 2, np.int8)).view(np.uint8) & 15
                data = low[::2] | low[1::2] << 4
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        made.buffer = len(model.buffers)
        model.buffers.append(buffer)
        if tensor.scale is not None:
            quantization = fbs.QuantizationParametersT()
            scales = np.atleast_1d(np.asarray(tensor.scale, np.float32))
            quantization.scale = list(scales)
            quantization.zeroPoint = [int(z) for z in np.broadcast_to(tensor.zero, scales.shape)]
            quantization.quantizedDimension = tensor.axis
            made.quantization = quantization
        graph.tensors.append(made)
    operator, code = fbs.OperatorT(), fbs.OperatorCodeT()
    code.builtinCode = int(getattr(fbs.BuiltinOperator, op, fbs.BuiltinOperator.CUSTOM))
    if isinstance(options, bytes):
        code.customCode, operator.customOptions = op, np.frombuffer(options, np.uint8)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
    places = iter(range(len(tensors)))
    operator.inputs = [-1 if t is None else next(places) for t in inputs]
    operator.outputs = [next(places) for _ in outputs]
    operator.intermediates = [next(places) for _ in between]
    if kind and not isinstance(options, bytes):
        table = getattr(fbs, f"{kind}T")()
        for name, value in options.items():
            assert hasattr(table, _attribute(name)), name
            setattr(table, _attribute(name), value)
        if hasattr(fbs.BuiltinOptions, kind):
            operator.builtinOptionsType, operator.builtinOptions = getattr(fbs.BuiltinOptions, kind), table
        else:
            operator.builtinOptions2Type, operator.builtinOptions2 = getattr(fbs.BuiltinOptions2, kind), table
    model.operatorCodes, graph.operators = [code], [operator]
    graph.inputs = [i for i, t in zip(operator.inputs, inputs, strict=True) if t and t.data is None and not t.variable]
    graph.outputs = operator.outputs
    model.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def by_litert(content: bytes, inputs: Sequence[Array], reference: bool = True, runs: int = 1) -> list[Array]:
    """The results of LiteRT's reference kernels, or of its own ones without delegates."""
    resolver = OpResolverType.BUILTIN_REF if reference else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    for _ in range(runs):
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def by_us(content: bytes, inputs: Sequence[Array], folder: Path, runs: int = 1, **options: Any) -> list[Array]:
    """The results of the engine."""
    path = folder / "one.tflite"
    path.write_bytes(content)
    model = read(path, **options)
    optimize(model)
    session = minnow.load(encode(model), threads=1)
    for _ in range(runs):
        out = session.run({name: array for (name, _), array in zip(model.inputs, inputs, strict=False)})
    return [out[name] for name, _ in model.user_outputs]


def random_quanta(rng: np.random.Generator, tensor: Tensor) -> Array:
    """Numbers over the whole range of an integer type, normal ones of a float type."""
    if np.dtype(tensor.dtype).kind == "f":
        return np.asarray(rng.standard_normal(tensor.shape)).astype(tensor.dtype)
    info = np.iinfo(tensor.dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, tensor.shape)).astype(tensor.dtype)
