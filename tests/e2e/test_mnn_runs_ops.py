"""What we write for a single op, MNN's own runtime loads, and computes as our reference does: on all samples.

Needs an environment with MNN, whose Python MINNOW_MNN_PYTHON names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mnn_oracle
import numpy as np
import pytest

from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops import Builder, Op, Sample, Trait, all_ops

Array = np.ndarray[Any, Any]
FAMILIES = [
    "convolution",
    "pooling",
    "shape",
    "create",
    "movement",
    "slicing",
    "index",
    "select",
    "resize",
    "sampling",
    "col2im",
    "norm",
]
OPS = [op for op in all_ops() if op.mnn is not None and op.module.rpartition(".")[2] in FAMILIES]

pytestmark = mnn_oracle.needs_mnn


def narrow(array: Array | None) -> Array | None:
    """In the types of MNN's runtime, as `narrow_types` makes the whole graph."""
    if array is not None and array.dtype == np.int64:
        return np.clip(array, -(2**31), 2**31 - 1).astype(np.int32)
    return array


def jobs(op: Op) -> Iterator[tuple[Sample, str, mnn_oracle.Job, list[Array]]]:
    """Every sample that has a form in the file, with its operands constant but for the first, and all computed."""
    for sample in op.cases():
        arrays = [narrow(a) for a in sample.inputs]
        if any(a is not None and a.dtype not in (np.float32, np.float16, np.int32, np.uint8, np.int8) for a in arrays):
            continue
        for computed in {1, len(arrays)}:
            graph = Graph()
            feed: dict[str, Array] = {}
            values: list[Value | None] = []
            for i, array in enumerate(arrays):
                if array is None or i >= computed:
                    values.append(None if array is None else Value.constant(array))
                    continue
                values.append(graph.add_param(TensorType(DType.of(array.dtype), array.shape), f"x{i}"))
                feed[f"x{i}"] = array
            b = Builder(graph)
            blocked = Trait.SPATIAL in op.traits and arrays[0] is not None and arrays[0].ndim > 3
            if blocked:
                # The layout pass gives these ops channel blocks, always.
                values[0] = b.ConvertLayout(values[0], to="NC4HW4")
            node = b.node(op, values, sample.attrs, sample.n_outputs, [f"y{i}" for i in range(sample.n_outputs)])
            if op.mnn is None or op.mnn.encode(node) is None:
                continue
            graph.outputs = [b.ConvertLayout(v, to="NCHW") if blocked else v for v in node.outputs]
            inputs = [(p.name, p.type) for p in graph.params]
            outputs = [(f"y{i}", v.type) for i, v in enumerate(graph.outputs)]
            expected = list(op.evaluate(arrays, sample.attrs)[: sample.n_outputs])
            what = f"{op.name}({sample}), {computed} operands computed"
            yield sample, what, mnn_oracle.Job(Model(graph, inputs, outputs), feed), expected


def refused(op: Op, job: mnn_oracle.Job) -> bool:
    """What MNN's runtime says no to when it runs, instead of being wrong: nobody can know it before."""
    operands = [job.inputs.get(f"x{i}") for i in range(2)]
    return op.name in ("ReverseSequence", "Split") and operands[1] is not None and not operands[1].all()


def not_for_mnn(op: Op, sample: Sample, job: mnn_oracle.Job) -> bool:
    """What comes out wrong, and only the numbers could tell."""
    if op.name == "Gather":  # the optimizer resolves negative indices where it knows them
        return bool((sample.inputs[1] < 0).any())
    # Mirroring further than the tensor reaches.
    pads = job.inputs.get("x1", np.zeros(0))
    return op.name == "Pad" and bool(np.max(pads, initial=0) >= sample.inputs[0].size)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_mnn_computes_what_the_reference_does(op: Op, tmp_path: Path) -> None:
    rows = [row for row in jobs(op) if not not_for_mnn(op, row[0], row[2])]
    answers = mnn_oracle.run([job for _, _, job, _ in rows], tmp_path)
    for (_, what, job, expected), answer in zip(rows, answers, strict=True):
        if refused(op, job) and not answer.outputs:
            continue
        assert answer.outputs is not None, f"{what}: {answer.log}"
        assert len(answer.outputs) == len(expected), what
        for got, wanted in zip(answer.outputs, expected, strict=True):
            assert got.shape == wanted.shape, what
            np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), 1e-4, 1e-4, err_msg=what)
