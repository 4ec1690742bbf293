"""Multiply-accumulates: each op that multiplies matrices counts its own, and a conversion keeps their number."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from minnow.converter import read
from minnow.optimizer import optimize
from minnow.optimizer.effect import effect_of
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Builder, Op, Trait, all_ops
from minnow.schema.registry.cost import macs


@cache
def _functions(module: str) -> dict[str, tuple[bool, set[str]]]:
    """The functions of a module: whether each multiplies matrices, by `@` or `matmul`, and the names it uses."""
    tree = ast.parse(Path(sys.modules[module].__file__ or "").read_text())
    found = {}
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        nodes = list(ast.walk(function))
        product = any(
            isinstance(getattr(n, "op", None), ast.MatMult) or (isinstance(n, ast.Attribute) and n.attr == "matmul")
            for n in nodes
        )
        found[function.name] = product, {n.id for n in nodes if isinstance(n, ast.Name)}
    return found


def _multiplies(function: Any, seen: set[Any]) -> bool:
    """Whether a function, or one of ours that it calls, multiplies matrices."""
    function = function.reference if isinstance(function, Op) else function
    module = getattr(function, "__module__", None) or ""
    if not isinstance(function, FunctionType) or function in seen or not module.startswith("minnow.schema.ops"):
        return False
    seen.add(function)
    product, names = _functions(module).get(function.__name__, (False, set[str]()))
    return product or any(_multiplies(function.__globals__.get(name), seen) for name in names)


def test_every_op_that_multiplies_matrices_counts() -> None:
    found = {op.name for op in all_ops() if _multiplies(op.reference, set())}
    assert found == {op.name for op in all_ops() if Trait.PRODUCT in op.traits}
    assert {"Conv", "QuantizedConv", "QuantizedMatMul", "DynamicLinear", "Attention", "LSTM", "GRU", "RNN"} <= found


@pytest.mark.parametrize("op", [op for op in all_ops() if Trait.PRODUCT in op.traits], ids=lambda op: op.name)
def test_the_count_of_a_product_is_not_zero(op: Op) -> None:
    for sample in op.cases():
        graph = Graph()
        operands = [
            None if a is None else graph.add_param(TensorType(DType.of(a.dtype), a.shape)) for a in sample.inputs
        ]
        b = Builder(graph)
        made = getattr(b, op.name)(*operands, **sample.attrs, n_outputs=sample.n_outputs)
        graph.outputs = [made[0]]
        empty = made[0].type.count == 0 or any(a is not None and a.size == 0 for a in sample.inputs[:2])
        assert (macs(graph) > 0) != empty, sample


def _rate(source: Path, **options: Any) -> tuple[int, int, dict[str, int]]:
    """The numbers before and after, and the nodes after."""
    model = read(source)
    before = effect_of(model.graph).macs
    optimize(model, **options)
    after = effect_of(model.graph)
    assert before is not None
    assert after.macs is not None
    return before, after.macs, after.nodes


def _saved(path: Path, nodes: list[Any], inputs: dict[str, list[Any]], outputs: list[str], **weights: Any) -> Path:
    ends = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
    ]
    graph = helper.make_graph(nodes, "g", *ends, [numpy_helper.from_array(w, n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _weights(*shape: int) -> Any:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def _network(path: Path) -> Path:
    """Layers that multiply 8*8*12*27 + 8*8*12*9 + 8*8*12*12 + 768*10 numbers."""
    node, conv = helper.make_node, {"pads": [1, 1, 1, 1]}
    return _saved(
        path,
        [
            node("Conv", ["x", "w1", "b1"], ["c1"], **conv, strides=[2, 2]),
            node("Relu", ["c1"], ["r1"]),
            node("Conv", ["r1", "w2"], ["c2"], **conv, group=12),
            node("Relu", ["c2"], ["r2"]),
            node("Conv", ["r2", "w3"], ["c3"]),
            node("Add", ["r1", "c3"], ["sum"]),
            node("Flatten", ["sum"], ["flat"]),
            node("MatMul", ["flat", "w4"], ["y"]),
        ],
        {"x": [1, 3, 16, 16]}, ["y"], w1=_weights(12, 3, 3, 3), b1=_weights(12), w2=_weights(12, 1, 3, 3),
        w3=_weights(12, 12, 1, 1), w4=_weights(768, 10),
    )  # fmt: skip


_NETWORK = 8 * 8 * 12 * (27 + 9 + 12) + 768 * 10


def test_a_float_network_keeps_its_work(tmp_path: Path) -> None:
    before, after, _ = _rate(_network(tmp_path / "m.onnx"))
    assert before == after == _NETWORK


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_a_quantized_network_keeps_its_work(tmp_path: Path, form: str) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    source, made = _network(tmp_path / "float.onnx"), tmp_path / "quantized.onnx"
    images = iter([{"x": _weights(1, 3, 16, 16)}])

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def get_next(self) -> Any:
            return next(images, None)

    quantization.quantize_static(source, made, Reader(), quant_format=quantization.QuantFormat[form])
    before, after, nodes = _rate(made)
    assert nodes["QuantizedConv"] == 3
    assert before == after == _NETWORK


def test_layers_that_quantize_their_input_keep_their_work(tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    source, made = _network(tmp_path / "float.onnx"), tmp_path / "dynamic.onnx"
    quantization.quantize_dynamic(source, made)
    before, after, nodes = _rate(made, target="minnow")
    assert nodes.keys() & {"DynamicLinear", "MatMulInteger"}
    assert before == after == _NETWORK


@pytest.mark.parametrize("target", ["mnn", "minnow"])
def test_attention_keeps_its_work(tmp_path: Path, target: str) -> None:
    node = helper.make_node
    source = _saved(
        tmp_path / "m.onnx",
        [
            node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
            node("MatMul", ["q", "kt"], ["s"]),
            node("Mul", ["s", "scale"], ["t"]),
            node("Softmax", ["t"], ["p"], axis=-1),
            node("MatMul", ["p", "v"], ["y"]),
        ],
        {"q": [2, 4, 7, 16], "k": [2, 4, 9, 16], "v": [2, 4, 9, 5]}, ["y"], scale=np.float32(0.25),
    )  # fmt: skip
    before, after, nodes = _rate(source, target=target)
    assert ("Attention" in nodes) == (target == "minnow")
    assert before == after == 2 * 4 * 7 * 9 * (16 + 5)


def test_a_recurrent_layer_keeps_its_work(tmp_path: Path) -> None:
    source = _saved(tmp_path / "m.onnx", [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=6)],
                    {"x": [11, 2, 5]}, ["y"], w=_weights(1, 24, 5), r=_weights(1, 24, 6))  # fmt: skip
    before, after, _ = _rate(source)
    assert before == after == 11 * 2 * 24 * (5 + 6)


def test_a_batch_without_a_name_counts_once_as_one_with_a_name_does() -> None:
    """Shapes are inferred better with each step: the same layer must not seem to do a 64th of the work afterwards."""
    for first in ("?", "n"):
        graph = Graph()
        x = graph.add_param(TensorType(DType.F32, (first, 8)))
        graph.outputs = [Builder(graph).MatMul(x, _weights(8, 3))]
        assert effect_of(graph).macs == 24
