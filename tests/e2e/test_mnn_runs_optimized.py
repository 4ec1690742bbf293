"""What the optimizer makes of ops and random graphs, MNN's own runtime runs, and it gives the numbers of the reference.

Needs an environment with MNN, whose Python MINNOW_MNN_PYTHON names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mnn_oracle
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from mnn_suite.case import op_model
from random_graphs import graphs, model_of
from rewriting import inputs_for, run
from sampling import chosen, one_in, some_of

from minnow.optimizer import optimize
from minnow.schema.ir import DType, Graph, Model
from minnow.schema.ops import Op, Sample, Trait, all_ops, get

pytestmark = mnn_oracle.needs_mnn

Array = np.ndarray[Any, Any]
_TYPES = {DType.F32, DType.I32, DType.I64, DType.BOOL}


def _model(op: Op, sample: Sample, constant: bool) -> tuple[Model, dict[str, Array]] | None:
    """The op alone, legalized, and its inputs; None where MNN does not run it, or where nothing is an input."""
    feed = {f"in{i}": a for i, a in enumerate(sample.inputs) if a is not None and not (i and constant)}
    if not feed or (constant and len(feed) == len(sample.inputs)):
        return None
    model = op_model(op, sample, constant)
    optimize(model, 0)
    return None if model.notices else (model, feed)


def _is_comparable(op: Op, sample: Sample, want: list[Array]) -> bool:
    """Leaves out what MNN's kernels are known to do otherwise, whatever the file says."""
    arrays = [a for a in (*sample.inputs, *want) if a is not None and a.dtype.kind == "f"]
    if any(0 in a.shape for a in sample.inputs if a is not None) or not all(np.isfinite(a).all() for a in arrays):
        return False  # NaN and infinities get lost in many of its kernels
    if op.name == "Cast" and sample.attrs["to"] in (DType.F16, DType.BF16):
        return False  # it computes with f32
    if any(a is not None and a.dtype == np.int64 and (np.abs(a) > 2**31).any() for a in sample.inputs):
        return op.name != "Cast"  # wrapping around 64 bits is nothing that 32 bits can do
    if op.name in ("ReverseSequence", "Split") and sample.inputs[1:] and not np.all(sample.inputs[1]):
        return False  # it refuses sequences and parts of no elements
    if op.name == "Pad" and sample.attrs.get("mode", "constant") != "constant":
        pads, x = sample.inputs[1], sample.inputs[0]
        if pads is not None and x is not None and (pads.reshape(-1, 2).max(1) >= x.shape).any():
            return False  # it mirrors once
    if op.name == "Loop":
        trips, condition = sample.inputs[:2]
        return not (trips is not None and int(trips) == 0) and (condition is None or bool(condition))
    return {DType.of(a.dtype) for a in sample.inputs if a is not None} <= _TYPES


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[tuple[str, list[Array], mnn_oracle.Answer]]]:
    """Per op: sample, expected results, MNN's answer. All in one go, for a process takes longer than an op."""
    rows: list[tuple[str, str, list[Array], mnn_oracle.Job]] = []
    for op in (get(case["name"]) for case in chosen(request, "test_legalized_op")):
        for sample in op.cases():
            want = [np.asarray(a) for a in op.evaluate(sample.inputs, sample.attrs)[: sample.n_outputs]]
            if not _is_comparable(op, sample, want):
                continue
            for constant in (False, True):
                made = _model(op, sample, constant)
                if made is not None:
                    rows.append((op.name, f"{sample}{' constant' if constant else ''}", want, mnn_oracle.Job(*made)))
    found: dict[str, list[tuple[str, list[Array], mnn_oracle.Answer]]] = {}
    results = mnn_oracle.run([job for *_, job in rows], tmp_path_factory.mktemp("ops"))
    for (name, text, want, _), answer in zip(rows, results, strict=True):
        found.setdefault(name, []).append((text, want, answer))
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [op.name for op in all_ops()])
def test_legalized_op(name: str, answers: dict[str, list[tuple[str, list[Array], mnn_oracle.Answer]]]) -> None:
    if name not in answers:
        pytest.skip("no sample of it has a form that MNN runs")
    for text, want, answer in answers[name]:
        assert answer.outputs, f"{text}: {answer.log}"
        # Among equal elements MNN picks others than the first.
        for i, (w, g) in enumerate(zip(want, answer.outputs[: 1 if name == "TopK" else None], strict=False)):
            assert g.shape == w.shape, f"{text}, output {i}"
            if Trait.RANDOM in get(name).traits:
                continue  # of another generator
            scale = max(1.0, float(np.abs(w.astype(np.float64)).max())) if w.size else 1.0
            np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=2e-4, atol=2e-5 * scale,
                                       err_msg=f"{text}, output {i}")  # fmt: skip


def test_random_graphs(tmp_path: Path) -> None:
    cases: list[tuple[Graph, Model, list[Array]]] = []

    @seed(20260807)
    @settings(max_examples=some_of(150), deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(graph=graphs())
    def collect(graph: Graph) -> None:
        model = model_of(graph.clone())
        optimize(model, 2)
        if not model.notices:
            cases.append((graph, model, inputs_for([p.type for p in graph.params])))

    collect()
    assert len(cases) > 100 // one_in(4)
    jobs = [mnn_oracle.Job(m, {n: a for (n, _), a in zip(m.inputs, arrays, strict=True)}) for _, m, arrays in cases]
    for (graph, model, arrays), answer in zip(cases, mnn_oracle.run(jobs, tmp_path), strict=True):
        assert answer.outputs, f"{answer.log}\n{graph}"
        for want, got in zip(run(graph, arrays), answer.outputs, strict=True):
            assert got.shape == want.shape, model.graph
            scale = max(1.0, float(np.abs(want).max())) if want.size else 1.0
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-4 * scale)
