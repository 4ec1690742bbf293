"""The cases of every suite and the shared models, as what MNN's runtime needs: a model, inputs, and what is right."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter import read
from minnow.runtime.verify.samples import candidates
from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops import Builder, Op, Sample, all_ops

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """One run of a model.

    Attributes:
        name: unique within its suite.
        model: makes the model, not optimized; raises UnsupportedError for what is not converted.
        inputs, expected: arrays by name. tolerance: of floats, relative to the largest expected number.
    """

    name: str
    model: Callable[[], Model]
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    tolerance: float = 1e-3
    quanta: Mapping[str, float] = field(default_factory=dict)


def onnx_cases() -> Iterator[Case]:
    """The node cases and small models of ONNX's backend tests."""
    os.environ.setdefault("ONNX_HOME", tempfile.mkdtemp(prefix="minnow-onnx-suite-"))
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.loader import load_model_tests

    folder = Path(tempfile.mkdtemp(prefix="minnow-mnn-suite-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [c for kind in ("node", "simple", "pytorch-converted", "pytorch-operator")
                 for c in load_model_tests(kind=kind)]  # fmt: skip
    for c in found:
        model, sets = c.model, c.data_sets
        if model is None:
            place = Path(c.model_dir)
            model = onnx.load(place / "model.onnx")
            sets = []
            for data in sorted(place.glob("test_data_set_*")):
                tensors = []
                for kind in ("input", "output"):
                    files = sorted(data.glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.rpartition("_")[2]))
                    tensors.append([numpy_helper.to_array(onnx.load_tensor(str(f))) for f in files])
                sets.append(tensors)
        if len(sets) == 0 or any(not isinstance(a, np.ndarray) for part in sets[0] for a in part):
            continue  # sequences and optionals
        inputs, expected = sets[0]
        weights = {i.name for i in model.graph.initializer}
        names = [i.name for i in model.graph.input if i.name not in weights]
        if len(names) != len(inputs):
            names = [i.name for i in model.graph.input][: len(inputs)]
        path = folder / f"{c.name}.onnx"
        onnx.save(model, path)
        outputs = [o.name for o in model.graph.output]
        feed, right = dict(zip(names, inputs, strict=False)), dict(zip(outputs, expected, strict=False))
        yield Case(c.name, partial(read, path), feed, right)


def caffe_cases() -> Iterator[Case]:
    from caffe_suite.case import load_all
    from caffe_suite.judge import expected
    from caffe_suite.write import write

    folder = Path(tempfile.mkdtemp(prefix="minnow-mnn-suite-"))
    for c in load_all().values():
        path = write(c, folder)
        yield Case(c.name, partial(read, path), c.arrays(), expected(c, path), max(c.tolerance, 1e-3))


def tf_cases() -> Iterator[Case]:
    """TensorFlow's files of all kinds, and TFLite's: their first step."""
    from tf_suite.generate import cached
    from tf_suite.judge import KIND_TOLERANCE

    folder, manifest = cached(sample=False)
    for name, entry in manifest.items():
        if "not made" in entry:
            continue
        path = folder / entry["file"]
        arrays = np.load(path.with_suffix(".npz"))
        steps = sorted({n.partition("/")[0] for n in arrays.files})
        step = steps[0]
        inputs = {n.split("/", 2)[2]: arrays[n] for n in arrays.files if n.startswith(f"{step}/in/")}
        expected = {n.split("/", 2)[2]: arrays[n] for n in arrays.files if n.startswith(f"{step}/out/")}
        tol = max(entry["tolerance"], KIND_TOLERANCE.get(name.rpartition(".")[2], 0.0), 1e-3)
        yield Case(name, partial(read, path), inputs, expected, tol, entry["quanta"])


def op_cases(ops: Iterable[Op] | None = None) -> Iterator[Case]:
    """Every sample of the ops, by default of all: operands behind the first constant, and all of them inputs."""
    for op in all_ops() if ops is None else ops:
        for number, sample in enumerate(op.cases()):
            want = op.evaluate(sample.inputs, sample.attrs)[: sample.n_outputs]
            expected = {f"out{i}": np.asarray(w) for i, w in enumerate(want) if not isinstance(w, list)}
            for constant in (False, True):
                feed = {f"in{i}": a for i, a in enumerate(sample.inputs) if a is not None and not (i and constant)}
                if feed and not (constant and len(feed) == len(sample.inputs)):
                    made = partial(op_model, op, sample, constant)
                    yield Case(f"{op.name} {number}{' constant' if constant else ''}", made, feed, expected)


def op_model(op: Op, sample: Sample, constant: bool) -> Model:
    """One node of the op, not optimized; the operands behind the first are constants, or all are inputs."""
    graph = Graph("main")
    operands: list[Value | None] = []
    for i, array in enumerate(sample.inputs):
        if array is None:
            operands.append(None)
        elif i and constant:
            operands.append(Value.constant(array))
        else:
            operands.append(graph.add_param(TensorType(DType.of(array.dtype), array.shape), f"in{i}"))
    attrs = {k: v.clone() if isinstance(v, Graph) else v for k, v in sample.attrs.items()}
    graph.outputs = list(Builder(graph).node(op, operands, attrs, sample.n_outputs).outputs)
    model = Model(graph)
    model.inputs = [(p.name, p.type) for p in graph.params]
    model.outputs = [(f"out{i}", v.type) for i, v in enumerate(graph.outputs)]
    return model


def shared_cases() -> Iterator[Case]:
    """The shared models, on their recorded inputs or drawn ones."""
    from e2e.shared_models import models

    suffixes = {"onnx": ".onnx", "caffe": ".caffemodel", "tflite": ".tflite", "tensorflow": ".pb", "saved_model": "",
                "torchscript": ".pt"}  # fmt: skip
    for framework, suffix in suffixes.items():
        for real in models(framework, suffix):
            inputs, expected = real.recording() if real.recorded else ({}, {})

            case = Case(str(real), lambda: Model(Graph()), inputs, expected)
            case.model = partial(_shared_model, case, real.path)
            yield case


def _shared_model(case: Case, path: Path) -> Model:
    """Reads it, and gives the arrays of the case the names of its inputs and outputs."""
    numbered = bool(case.inputs) and all(n.isdigit() for n in case.inputs)
    model = read(path, trust=True, **({"inputs": [*case.inputs.values()]} if numbered else {}))
    if not case.inputs:
        case.inputs = next(candidates(model, [0])).inputs
    for arrays, named in (("inputs", model.user_inputs), ("expected", model.user_outputs)):
        given = getattr(case, arrays)
        if all(n.isdigit() for n in given):
            made = {n: given[str(i)] for i, (n, _) in enumerate(named) if str(i) in given}
        else:
            made = {n.removesuffix(":0"): a for n, a in given.items()}
            if len(made) == len(named) == 1:
                made = {named[0][0]: next(iter(made.values()))}
        setattr(case, arrays, made)
    return model


def torch_cases() -> Iterator[Case]:
    """A traced sample of every operator of PyTorch's database."""
    from torch_oracle import flat, numpy_of, scripted
    from torch_suite.case import operators, samples
    from torch_suite.judge import _eager, _unfit

    from minnow.converter.torch.reader import translate

    for name in operators():
        try:
            found = list(samples(name, 1))
        except Exception:  # noqa: BLE001
            continue
        for number, sample in enumerate(found):
            try:
                result = _eager(sample)
                if _unfit(sample, result):
                    continue
                want = flat(result)
                program = scripted(sample, sample.given())
                model = translate(program, "trace")
            except MinnowError:
                continue
            except Exception:  # noqa: BLE001
                continue
            arrays = [numpy_of(a) for a in sample.given()][: len(model.inputs)]
            feed = dict(zip([n for n, _ in model.inputs], arrays, strict=False))
            expected = dict(zip([n for n, _ in model.outputs], want, strict=False))
            yield Case(f"{name} {number}", lambda model=model: model, feed, expected)


SUITES = {
    "torch": torch_cases,
    "op": op_cases,
    "shared": shared_cases,
    "onnx": onnx_cases,
    "caffe": caffe_cases,
    "tf": tf_cases,
}
