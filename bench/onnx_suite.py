"""Runs ONNX's backend tests in Minnow or another runtime: counts what passes, is wrong, is unsupported, or crashes.

    PYTHON bench/onnx_suite.py BACKEND [--json FILE] [--match REGEXP] [--list]

BACKEND is minnow, onnxruntime, mnn or openvino; PYTHON has to have it, and `onnx`. Every case runs in a separate
process, which may crash. A case passes with a relative error up to 1e-3, the suite's own tolerance, and the right
types.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests
from suite import RefusedError, options, run

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
NEWEST = 23
"""Operators that came with this opset or later count as the newest ones."""


# ---- backends: a function from a model to a function from inputs to outputs -----------------------------------------


def minnow(model: onnx.ModelProto) -> Any:
    import minnow.backend
    from minnow.errors import UnsupportedError

    try:
        return minnow.backend.prepare(model).run
    except UnsupportedError as e:
        raise RefusedError(str(e)) from None


def onnxruntime(model: onnx.ModelProto) -> Any:
    import onnxruntime as ort
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    ort.disable_telemetry_events()
    ort.set_default_logger_severity(4)
    try:
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except (state.Fail, state.InvalidArgument, state.InvalidGraph, state.NotImplemented) as e:
        raise RefusedError(str(e)) from None
    names = [i.name for i in session.get_inputs()]
    if not any(_is_foreign(i.type.tensor_type.elem_type) for i in (*model.graph.input, *model.graph.output)):
        return lambda inputs: session.run(None, dict(zip(names, inputs, strict=True)))

    def run(inputs: Any) -> list[Any]:
        # Arrays of types that numpy itself does not have go by way of its own values.
        given = {}
        for name, value in zip(names, inputs, strict=True):
            array = np.ascontiguousarray(value)
            code = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            bits = array.view(f"u{array.itemsize}") if _is_foreign(code) else array
            given[name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, code)
        outputs = []
        results = session.run_with_ort_values([o.name for o in session.get_outputs()], given)
        for value, info in zip(results, model.graph.output, strict=True):
            code = info.type.tensor_type.elem_type
            if not _is_foreign(code):
                outputs.append(value.numpy())
                continue
            dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
            data = ctypes.string_at(value.data_ptr(), int(np.prod(value.shape())) * dtype.itemsize)
            outputs.append(np.frombuffer(data, dtype).reshape(value.shape()))
        return outputs

    return run


def _is_foreign(code: int) -> bool:
    return code > 0 and TensorProto.DataType.Name(code).startswith(("BFLOAT16", "FLOAT8"))


def openvino(model: onnx.ModelProto) -> Any:
    import openvino as ov

    core = ov.Core()
    try:
        compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU")
    except RuntimeError as e:
        raise RefusedError(str(e)) from None
    return lambda inputs: list(compiled(list(inputs)).values())


def mnn(model: onnx.ModelProto) -> Any:
    import _tools  # the package around it contacts a server when it is imported
    import MNN.expr as expr
    import MNN.nn as nn

    codes = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8, "int8": expr.int8, "int64": expr.int64}
    folder = Path(tempfile.mkdtemp(prefix="mnn-"))
    source, target = folder / "m.onnx", folder / "m.mnn"
    onnx.save(model, source)
    _tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(target)])
    if not target.exists():
        raise RefusedError("no file was written")
    given = {i.name for i in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in given]
    outputs = [o.name for o in model.graph.output]
    manager = nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": 1},))
    module = nn.load_module_from_file(str(target), names, outputs, runtime_manager=manager)

    def run(inputs: Any) -> list[Any]:
        # It has no 64-bit numbers, no doubles and no bools: what fits its own types is given in them.
        narrow = {"int64": np.int32, "float64": np.float32, "bool": np.int32, "float16": np.float32}
        feed = []
        for value in inputs:
            array = np.ascontiguousarray(value)
            array = array.astype(narrow.get(array.dtype.name, array.dtype))
            feed.append(expr.const(array, list(array.shape), expr.NCHW, codes[array.dtype.name]))
        results = module.forward(feed)
        results = results if isinstance(results, list) else [results]
        plain = [expr.convert(r, expr.NCHW) if r.data_format == expr.NC4HW4 else r for r in results]
        arrays = [np.array(r.read()).reshape(r.shape) for r in plain]
        declared = [onnx.helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type) for o in model.graph.output]
        return [a.astype(d) for a, d in zip(arrays, declared, strict=True)]

    return run


BACKENDS = {f.__name__: f for f in (minnow, onnxruntime, openvino, mnn)}


# ---- cases ----------------------------------------------------------------------------------------------------------


def categories(model: onnx.ModelProto) -> str:
    """The one group that a case is counted in."""
    kinds, types, ops = set(), set(), set()

    def see(type_: onnx.TypeProto) -> None:
        kind = type_.WhichOneof("value")
        kinds.add(kind)
        if kind == "tensor_type":
            types.add(TensorProto.DataType.Name(type_.tensor_type.elem_type))
        elif kind is not None:
            see(getattr(type_, kind).elem_type)

    def walk(graph: onnx.GraphProto) -> None:
        for info in (*graph.input, *graph.output, *graph.value_info):
            see(info.type)
        for node in graph.node:
            ops.add((node.domain, node.op_type))
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    walk(a.g)

    walk(model.graph)
    for function in model.functions:
        ops |= {(n.domain, n.op_type) for n in function.node}
    if any("training" in d or d == "ai.onnx.ml" for d, _ in ops):
        return "training and ai.onnx.ml"
    if any(o == "ImageDecoder" for _, o in ops) or "STRING" in types:
        return "strings and image files"
    if kinds & {"sequence_type", "optional_type"} or any("Sequence" in o or "Optional" in o for _, o in ops):
        return "sequences and optionals"
    if any(t.startswith(_SMALL) for t in types):
        return "bfloat16, float8, 4 and 2 bits"
    if any(_first.get(o, 99) >= NEWEST for o in ops):
        return f"operators new in opset {NEWEST} and later"
    return "plain types"


_SMALL = ("BFLOAT", "FLOAT8", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2")
_first: dict[tuple[str, str], int] = {}
for _schema in onnx.defs.get_all_schemas_with_history():
    _key = (_schema.domain, _schema.name)
    _first[_key] = min(_first.get(_key, 99), _schema.since_version)


def load(case: Any) -> tuple[onnx.ModelProto, list[Any]]:
    """The model of a case and its (inputs, outputs)."""
    if case.model is not None:
        return case.model, [(list(map(_array, i)), list(map(_array, o))) for i, o in case.data_sets]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = []
    for place in sorted(folder.glob("test_data_set_*")):
        files = [sorted(place.glob(f"{kind}_*.pb"), key=_number) for kind in ("input", "output")]
        sets.append(
            tuple(
                [_read(p, info.type) for p, info in zip(paths, infos, strict=False)]
                for paths, infos in zip(files, (_given(model), model.graph.output), strict=True)
            )
        )
    return model, sets


def _number(path: Path) -> int:
    return int(path.stem.split("_")[1])


def _given(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    constants = {i.name for i in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in constants]


def _read(path: Path, type_: onnx.TypeProto) -> Any:
    data = path.read_bytes()
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return onnx.numpy_helper.to_array(TensorProto.FromString(data))


def _array(value: Any) -> Any:
    if isinstance(value, TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value  # some scalars are no arrays


def attempt(backend: str, case: Any) -> tuple[str, str]:
    """(outcome, what was said) of one case."""
    model, sets = load(case)
    try:
        run = BACKENDS[backend](model)
        for inputs, want in sets:
            got = list(run(inputs))
            BackendTest.assert_similar_outputs(want, got, rtol=max(case.rtol, 1e-3), atol=case.atol)
    except RefusedError as e:
        return "refused", str(e).splitlines()[0][:200]
    except AssertionError as e:
        return "wrong", " ".join(str(e).split())[:200]
    except Exception as e:  # noqa: BLE001  (whatever a peer raises)
        return "error", f"{type(e).__name__}: {e}"[:200]
    return "pass", ""


def main() -> None:
    asked = options(__doc__, BACKENDS).parse_args()
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    os.environ["ONNX_HOME"] = tempfile.mkdtemp(prefix="onnx-suite-")
    warnings.simplefilter("ignore")  # the generators of the cases overflow on purpose
    cases = [c for kind in KINDS for c in load_model_tests(kind=kind) if re.search(asked.match, c.name)]
    groups = ((case.name, categories(load(case)[0])) for case in cases)
    run(lambda i: attempt(asked.backend, cases[i]), groups, asked)


if __name__ == "__main__":
    sys.exit(main())
