"""Models on which MNN's converter or runtime fails: our files give the right numbers here, and there too.

Where MNN's own runtime cannot be made right, the file must be one that it refuses, and the conversion must say so.
Needs, for its part, an environment with MNN, whose Python MINNOW_MNN_PYTHON names.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import e2e.peer_defects_math  # noqa: F401  (adds its rows)
import mnn_oracle
import numpy as np
import onnx
import onnxruntime
import pytest
from e2e.peer_defects import ROWS, Array, Case
from onnx import helper
from onnx.reference import ReferenceEvaluator
from sampling import chosen

import minnow
from minnow.converter import read
from minnow.optimizer import optimize

LEVELS = (0, 2, 3)


@cache
def cases(name: str) -> list[tuple[Case, list[Array]]]:
    """The cases of a row, with the types of their results in the model, and what is right."""
    return [(case, _right(case)) for case in ROWS[name]()]


def _right(case: Case) -> list[Array]:
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    for output in made.graph.output:
        output.ClearField("type")
    if case.judge == "onnxruntime":
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        right = session.run(None, dict(case.feed))
    elif case.judge == "reference":
        right = ReferenceEvaluator(case.model).run(None, dict(case.feed))
    else:
        right = list(case.judge)
    right = [np.asarray(r) for r in right]
    for output, r in zip(case.model.graph.output, right, strict=True):
        output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(r.dtype)
    return right


def assert_right(got: Array, right: Array, rtol: float, what: str) -> None:
    assert got.shape == right.shape, f"{what}: {got.shape}, expected {right.shape}"
    if right.dtype.kind in "iub":
        np.testing.assert_array_equal(got, right, err_msg=what)
        return
    finite = np.abs(right[np.isfinite(right)]).max(initial=0)
    np.testing.assert_allclose(got, right, rtol, rtol * min(finite, 1), err_msg=what)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ROWS)
def test_our_engine_is_right(name: str, level: int, tmp_path: Path) -> None:
    for i, (case, right) in enumerate(cases(name)):
        source, target = tmp_path / f"{i}.onnx", tmp_path / f"{i}.mnn"
        onnx.save(case.model, source)
        minnow.convert(source, output=target, optimize=level, verify=False)
        got = minnow.load(target, threads=1).run(case.feed)
        for output, r in zip(case.model.graph.output, right, strict=True):
            assert got[output.name].dtype == r.dtype
            assert_right(got[output.name], r, case.rtol, f"{name}, case {i}, {output.name}")


ONLY_OURS = {
    "the largest of integers, by value": "its kernel orders integers by their bits as floats",
    "scattering that adds up": "products, and the larger or smaller of two, have no code",
    "remainders with the sign of either side": "it has no int64",
    "division of integers goes toward zero": "it has no int64",
    "integers beyond 30 and 32 bits": "it has no int64",
    "double precision": "it has no float64",
    "sampling by cubic interpolation, and mirrored": "cubic sampling has no code",
    "largest samples of regions": "the largest sample is not the largest weighted element",
    "other activations, bounds, coupled gates": "recurrent layers in the format have none of these",
    "sequences of their own lengths": "it ignores the lengths",
}
"""Rows, of which MNN's runtime cannot take some cases, with the reason. The conversion must say so for each."""


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, int, int], mnn_oracle.Answer | None]:
    """By row, case and level: MNN's answer, or None where the conversion says that it has none."""
    if not mnn_oracle.PYTHON:
        pytest.skip("MINNOW_MNN_PYTHON does not name a Python that has MNN")
    folder = tmp_path_factory.mktemp("peer")
    found: dict[tuple[str, int, int], mnn_oracle.Answer | None] = {}
    jobs = {}
    for chosen_case in chosen(request, "test_mnn_is_right_or_refuses"):
        name, level = chosen_case["name"], chosen_case["level"]
        for i, (case, _) in enumerate(cases(name)):
            source = folder / "case.onnx"
            onnx.save(case.model, source)
            model = read(source)
            optimize(model, level)
            found[name, i, level] = None
            if not any(text.startswith("MNN's own runtime") for text in model.notices):
                jobs[name, i, level] = mnn_oracle.Job(model, case.feed)
    found.update(zip(jobs, mnn_oracle.run(list(jobs.values()), folder), strict=True))
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ROWS)
def test_mnn_is_right_or_refuses(name: str, level: int, answers) -> None:
    refused = []
    for i, (case, right) in enumerate(cases(name)):
        answer = answers[name, i, level]
        if answer is None:
            refused.append(i)
            continue
        assert answer.outputs is not None, f"{name}, case {i}: {answer.log}"
        for output, r, got in zip(case.model.graph.output, right, answer.outputs, strict=True):
            # MNN gives int32 for what is a truth or an int64.
            assert_right(
                got if r.dtype.kind == "f" else got.astype(r.dtype), r, case.rtol, f"{name}, case {i}, {output.name}"
            )
    assert bool(refused) == (name in ONLY_OURS), f"MNN's own runtime does not take the cases {refused}"


def test_a_static_model_computes_no_shapes(tmp_path: Path) -> None:
    ((case, _),) = cases("static layers need no shapes at run time")
    onnx.save(case.model, tmp_path / "m.onnx")
    report = minnow.convert(tmp_path / "m.onnx", verify=False)
    assert set(report.nodes_after) <= {"Reshape", "Linear", "ConvertLayout"}
