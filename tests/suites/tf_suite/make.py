"""Makes the files of cases with TensorFlow, and asks TensorFlow or LiteRT what comes out of them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from flatbuffers import flexbuffers
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.ops import control_flow_util

from .builtin import array_of
from .case import KINDS, Array, Case

Runs = list[dict[str, Array]]
"""What goes in or comes out by name, for every step."""

_QUANTIZED = {"int8": tf.int8, "uint8": tf.uint8, "int16": tf.int16, "int8_float": tf.float32}
_WRONG = {"SUM", "LOCAL_RESPONSE_NORMALIZATION"}
"""Ops whose reference kernels are not right: sums without their input, sums over other channels."""
_SAMPLES = 6
_DEEP = 60
"""A network of more weights keeps those that its layers start with: others would saturate it."""
_LITE_TYPES = {"float32": 0, "int32": 2, "uint8": 3, "int64": 4, "bool": 6}


class Maker:
    """The files of one case."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.feeds = [case.arrays(step) for step in range(case.steps)]
        self._traced: Any = None

    def make(self, kind: str) -> dict[str, Any]:
        """Writes the model and its `.npz`; gives what the tests have to know of them."""
        path = self.folder / f"{self.case.name}.{kind}.{KINDS[kind]}"
        if kind == "graph":
            found = self._graph(path)
        elif kind == "saved":
            found = self._saved(path)
        elif kind == "builtin":
            data = _one_op(self.case.build()(), self.feeds[0])
            path.write_bytes(data)
            found = _lite_runs(data, self.feeds, reference=False)
        elif kind in ("tf", "v1"):
            found = self._frozen(path, lower=kind == "v1")
        else:
            found = self._lite(path, kind)
        given, expected, more = found
        arrays = {
            f"{step}/{way}/{name}": array
            for way, runs in (("in", given), ("out", expected))
            for step, run in enumerate(runs)
            for name, array in run.items()
        }
        np.savez(path.with_suffix(".npz"), **arrays)
        return {"file": path.name, "tolerance": self.case.tolerance, "quanta": {}, **more}

    def _trace(self) -> tuple[Any, Any]:
        """(the concrete function, what owns its variables)."""
        if self._traced is None:
            tf.keras.utils.set_random_seed(1)
            body = self.case.build()
            if self.case.makes:
                _set_weights(body, self.case.name, self.feeds[0])
            function = tf.function(lambda *xs: body(*xs), autograph=False)
            specs = [g.spec(f"x{i}") for i, g in enumerate(self.case.inputs)]
            self._traced = function.get_concrete_function(*specs), (function, body)
        return self._traced

    def _frozen(self, path: Path, lower: bool) -> tuple[Runs, Runs, dict[str, Any]]:
        frozen = convert_variables_to_constants_v2(self._trace()[0], lower_control_flow=lower)
        graph = frozen.graph.as_graph_def()
        path.write_bytes(graph.SerializeToString())
        results = tf.nest.flatten(frozen(*map(tf.constant, self.feeds[0])))
        given = {_node(t): a for t, a in zip(frozen.inputs, self.feeds[0], strict=True)}
        expected = {_node(t): r.numpy() for t, r in zip(frozen.outputs, results, strict=True)}
        return [given], [expected], {"ops": _graph_ops(graph)}

    def _graph(self, path: Path) -> tuple[Runs, Runs, dict[str, Any]]:
        enabled, control_flow_util.ENABLE_CONTROL_FLOW_V2 = control_flow_util.ENABLE_CONTROL_FLOW_V2, False
        try:
            with tf.Graph().as_default() as graph:
                specs = [g.spec(f"x{i}") for i, g in enumerate(self.case.inputs)]
                xs = [tf.compat.v1.placeholder(s.dtype, s.shape, s.name) for s in specs]
                ys = [tf.identity(y, f"y{i}") for i, y in enumerate(tf.nest.flatten(self.case.build()(*xs)))]
                with tf.compat.v1.Session(graph=graph) as session:
                    results = session.run(ys, dict(zip(xs, self.feeds[0], strict=True)))
        finally:
            control_flow_util.ENABLE_CONTROL_FLOW_V2 = enabled
        definition = graph.as_graph_def()
        path.write_bytes(definition.SerializeToString())
        given = {_node(t): a for t, a in zip(xs, self.feeds[0], strict=True)}
        expected = {_node(t): np.asarray(r) for t, r in zip(ys, results, strict=True)}
        return [given], [expected], {"ops": _graph_ops(definition)}

    def _save(self, path: Path) -> Any:
        """A SavedModel, and its signature as it is when loaded again."""
        concrete, (function, body) = self._trace()
        module = tf.Module()
        module.function, module.body = function, body  # what keeps the variables alive
        tf.saved_model.save(module, str(path), signatures=concrete)
        loaded = tf.saved_model.load(str(path))
        return loaded.signatures["serving_default"], loaded

    def _saved(self, path: Path) -> tuple[Runs, Runs, dict[str, Any]]:
        signature, _owner = self._save(path)
        given = [{f"x{i}": a for i, a in enumerate(feed)} for feed in self.feeds]
        expected = [
            {k: v.numpy() for k, v in signature(**{k: tf.constant(a) for k, a in feed.items()}).items()}
            for feed in given
        ]
        return given, expected, {"ops": _graph_ops(signature.graph.as_graph_def())}

    def _lite(self, path: Path, kind: str) -> tuple[Runs, Runs, dict[str, Any]]:
        if self.case.steps > 1:
            with tempfile.TemporaryDirectory() as folder:
                self._save(Path(folder))
                converter = tf.lite.TFLiteConverter.from_saved_model(folder)
                converter.experimental_enable_resource_variables = True
                data = converter.convert()
        else:
            concrete, owner = self._trace()
            converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], owner[0])
            self._quantize(converter, kind)
            data = converter.convert()
        path.write_bytes(data)
        return _lite_runs(data, self.feeds, reference=kind in _QUANTIZED)

    def _quantize(self, converter: Any, kind: str) -> None:
        if kind == "lite":
            return
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if kind == "half":
            converter.target_spec.supported_types = [tf.float16]
        if kind not in _QUANTIZED:
            return
        converter.representative_dataset = lambda: (self.case.arrays(step) for step in range(_SAMPLES))
        sets = tf.lite.OpsSet
        converter.target_spec.supported_ops = (
            [sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8, sets.TFLITE_BUILTINS]
            if kind == "int16"
            else [sets.TFLITE_BUILTINS_INT8, sets.TFLITE_BUILTINS]
        )
        converter.inference_input_type = converter.inference_output_type = _QUANTIZED[kind]


def _set_weights(layer: Any, name: str, feed: list[Array]) -> None:
    """Calls a layer, so that it has its weights, and gives those of Keras numbers of the case's own."""
    if isinstance(layer, tf.Module) and not isinstance(layer, tf.keras.layers.Layer):
        return
    layer(*map(tf.constant, feed))
    if not isinstance(layer, tf.keras.layers.Layer) or len(layer.weights) > _DEEP:
        return
    rng = np.random.default_rng(len(name))
    for w in layer.weights:
        low = 0.5 if "variance" in w.path else -0.7
        w.assign(rng.uniform(low, low + 1.4, w.shape).astype(w.dtype))


def _node(tensor: Any) -> str:
    return tensor.name.removesuffix(":0")


def _graph_ops(graph: Any) -> list[str]:
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    return sorted({n.op for n in nodes})


# ---- TFLite files of one op ------------------------------------------------------------------------------------------


def _one_op(declared: Any, feed: list[Array]) -> bytes:
    """The file of what `builtin.node` gives."""
    code, operands, outputs, options, fields = declared
    buffers, tensors = [schema.BufferT()], []

    def tensor(name: str, dtype: Any, shape: Any, data: Array | None = None, variable: bool = False) -> int:
        t = schema.TensorT()
        t.name, t.shape, t.type, t.isVariable = name, list(shape), _LITE_TYPES[np.dtype(dtype).name], variable
        if data is not None and not variable:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            t.buffer = len(buffers)
            buffers.append(buffer)
        tensors.append(t)
        return len(tensors) - 1

    inputs = [tensor(f"x{i}", a.dtype, a.shape) for i, a in enumerate(feed)]
    o = schema.OperatorT()
    o.inputs = []
    for i, operand in enumerate(operands):
        if isinstance(operand, int):
            o.inputs.append(inputs[operand])
        elif operand is None:
            o.inputs.append(-1)
        else:
            array = array_of(operand)
            o.inputs.append(tensor(f"constant{i}", array.dtype, array.shape, array, isinstance(operand, tuple)))
    o.outputs = [tensor(f"y{i}", dtype, shape) for i, (shape, dtype) in enumerate(outputs)]
    builtin = getattr(schema.BuiltinOperator, code, schema.BuiltinOperator.CUSTOM)
    entry = schema.OperatorCodeT()
    entry.builtinCode, entry.deprecatedBuiltinCode, entry.version = builtin, min(builtin, 127), 1
    if builtin == schema.BuiltinOperator.CUSTOM:
        entry.customCode = code
        o.customOptions = np.frombuffer(flexbuffers.Dumps(fields), np.uint8)
    elif options:
        o.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        o.builtinOptions = getattr(schema, f"{options}T")()
        for field, content in fields.items():
            assert hasattr(o.builtinOptions, field), field
            setattr(o.builtinOptions, field, content)
    graph = schema.SubGraphT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = tensors, [o], inputs, o.outputs
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [entry], [graph], buffers
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


# ---- LiteRT ---------------------------------------------------------------------------------------------------------


def _lite_runs(data: bytes, feeds: list[list[Array]], reference: bool) -> tuple[Runs, Runs, dict[str, Any]]:
    """Integers by the reference kernels, floats by the built-in ones without delegates."""
    found = _runs(data, feeds, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    if not reference:
        return found
    try:
        exact = _runs(data, feeds, OpResolverType.BUILTIN_REF)
    except ValueError:  # there is no reference kernel of that version
        return found
    return exact if _WRONG.isdisjoint(exact[2]["ops"]) else found


def _runs(data: bytes, feeds: list[list[Array]], kernels: Any) -> tuple[Runs, Runs, dict[str, Any]]:
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kernels, num_threads=1)
    # Two inputs may come in another order than the function had; their names keep its numbers.
    details = [(int(re.search(r"x(\d+)", d["name"]).group(1)), d) for d in interpreter.get_input_details()]
    for number, d in details:
        if tuple(d["shape"]) != feeds[0][number].shape:
            interpreter.resize_tensor_input(d["index"], feeds[0][number].shape)
    interpreter.allocate_tensors()
    given: Runs = []
    expected: Runs = []
    outputs = interpreter.get_output_details()
    for feed in feeds:
        given.append({d["name"]: _as_input(feed[number], d) for number, d in details})
        for _, d in details:
            interpreter.set_tensor(d["index"], given[-1][d["name"]])
        interpreter.invoke()
        expected.append({d["name"]: interpreter.get_tensor(d["index"]) for d in outputs})
    quanta = {d["name"]: q for d in outputs if (q := _quantum(interpreter, d))}
    ops = sorted({o["op_name"] for o in interpreter._get_ops_details()} - {"DELEGATE"})
    return given, expected, {"ops": ops, "quanta": quanta}


def _as_input(array: Array, detail: Any) -> Array:
    scale, zero = detail["quantization"]
    if array.dtype == detail["dtype"]:
        return array
    limits = np.iinfo(detail["dtype"])
    return np.clip(np.round(array / scale) + zero, limits.min, limits.max).astype(detail["dtype"])


def _quantum(interpreter: Interpreter, output: Any) -> float:
    """The step of an output's values that is one step of what it was computed in; 0 where that is exact or a float."""
    if output["dtype"] != np.float32:
        return float(output["quantization_parameters"]["scales"].size > 0)
    tensors = {t["index"]: t for t in interpreter.get_tensor_details()}
    for op in interpreter._get_ops_details():
        if output["index"] in op["outputs"] and op["op_name"] == "DEQUANTIZE":
            scales = tensors[op["inputs"][0]]["quantization_parameters"]["scales"]
            return float(scales.max()) if scales.size else 0.0
    return 0.0


def entries(case: Case, kinds: list[str], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is known of each file of a case, or why it could not be made."""
    maker = Maker(case, folder)
    for kind in kinds:
        try:
            yield kind, maker.make(kind)
        except Exception as e:  # noqa: BLE001  (whatever TensorFlow raises: that is what is recorded)
            lines = [line.strip() for line in str(e).splitlines() if line.strip()] or [""]
            telling = re.search("error: (.+)", str(e))
            yield kind, {"not made": f"{type(e).__name__}: {telling.group(1) if telling else lines[0]}"[:200]}
