"""Verification that compares nothing says so: no detections, and outputs that are the same whatever goes in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import minnow
from minnow.cli._app import run
from minnow.runtime.verify.comparison import compare
from minnow.runtime.verify.excitation import livelier, mark
from minnow.runtime.verify.samples import Candidate
from minnow.runtime.verify.verification import Case, Verification, _first_reason
from minnow.schema.errors import UsageError, VerifyError

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"

F, I64 = TensorProto.FLOAT, TensorProto.INT64


def save(path: Path, nodes: Any, inputs: Any, outputs: Any, **constants: Any) -> Path:
    values = [[helper.make_tensor_value_info(n, t, s) for n, t, s in group] for group in (inputs, outputs)]
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", *values, initializer=held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def detector(path: Path, threshold: float) -> Path:
    """Finds what is brighter than a threshold in the mean of 4x4 pixels: nothing in noise, where that is high."""
    pool = {"kernel_shape": [4, 4], "strides": [4, 4]}
    nodes = [
        node("AveragePool", "x", "mean", **pool),
        node("Greater", "mean threshold", "is"),
        node("NonZero", "is", "places"),
        node("Transpose", "places", "found"),
        node("Cast", "found", "boxes", to=F),
    ]
    constants = {"threshold": np.float32(threshold)}
    return save(path, nodes, [("x", F, [1, 1, 16, 16])], [("boxes", F, ["K", 4])], **constants)


def lamps(path: Path) -> Path:
    """Finds 4x4 pixels that are 4 times as bright as the whole picture."""
    nodes = [
        node("Abs", "x", "a"),
        node("AveragePool", "a", "mean", kernel_shape=[4, 4], strides=[4, 4]),
        node("GlobalAveragePool", "a", "whole"),
        node("Mul", "whole four", "bright"),
        node("Greater", "mean bright", "is"),
        node("NonZero", "is", "places"),
        node("Transpose", "places", "found"),
        node("Cast", "found", "boxes", to=F),
    ]
    return save(path, nodes, [("x", F, [1, 1, 16, 16])], [("boxes", F, ["K", 4])], four=np.float32(4))


def never(path: Path) -> Path:
    """Finds nothing whatever goes in, unless it is below -5."""
    nodes = [node("Less", "x low", "is"), node("NonZero", "is", "found"), node("Cast", "found", "y", to=F)]
    return save(path, nodes, [("x", F, [2, 8])], [("y", F, [2, "K"])], low=np.float32(-5))


def verified(path: Path, **options: Any) -> Verification:
    report = minnow.convert(path, **options)
    assert report.verification is not None
    return report.verification


def test_no_elements_in_any_run_are_inconclusive(tmp_path: Path) -> None:
    report = minnow.convert(never(tmp_path / "m.onnx"))
    found = report.verification
    assert found is not None
    assert (found.verdict, found.passed) == ("inconclusive", False)
    assert Path(report.output).exists()
    assert any("inconclusive" in notice and "'y'" in notice for notice in report.notices)
    assert "INCONCLUSIVE  y [2, 0]" in str(found)
    assert "--data FILE" in str(found)
    assert found.as_dict()["verdict"] == "inconclusive"
    assert found.as_dict()["cases"][0]["outputs"][0]["inconclusive"]


def test_real_data_decides(tmp_path: Path) -> None:
    path = never(tmp_path / "m.onnx")
    found = verified(path, data={"x": np.linspace(-9, 9, 16).reshape(2, 8)})
    assert (found.verdict, len(found.cases)) == ("pass", 1)
    assert verified(path, data=[{"x": np.zeros((2, 8))}]).verdict == "inconclusive"
    both = verified(path, data=[{"x": np.zeros((2, 8))}, {"x": np.full((2, 8), -7.0)}])
    assert (both.verdict, len(both.cases)) == ("pass", 2)


def test_smoother_inputs_and_larger_ones_are_tried(tmp_path: Path) -> None:
    found = verified(detector(tmp_path / "m.onnx", 0.85))  # noise has means of about 0.5, smooth pictures any
    assert found.verdict == "pass"
    assert len(found.cases) == 4
    assert found.worst["boxes"].shape[0] or any(o.shape[0] for c in found.cases for o in c.outputs)
    assert verified(detector(tmp_path / "m.onnx", 130.0)).verdict == "pass"
    assert verified(detector(tmp_path / "m.onnx", 1e6)).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("op", "why"), [("Relu", "0 everywhere"), ("Exp", "0 everywhere"), ("Sigmoid", "0 everywhere")]
)
def test_an_output_that_is_constant_in_all_runs_is_inconclusive(tmp_path: Path, op: str, why: str) -> None:
    nodes = [node("Mul", "x k", "m"), node("Sub", "m far", "s"), node(op, "s", "y")]
    path = save(tmp_path / "m.onnx", nodes, [("x", F, [4])], [("y", F, [4])], k=np.float32(0.1), far=np.float32(1e5))
    found = verified(path)
    assert found.verdict == "inconclusive"
    assert why in found.worst["y"].inconclusive


def test_the_same_numbers_for_all_inputs_are_inconclusive(tmp_path: Path) -> None:
    nodes = [node("Clip", "x low high", "c"), node("Add", "c k", "y")]
    limits = {"low": np.float32(-2e5), "high": np.float32(-1e5), "k": np.arange(4, dtype=np.float32)}
    path = save(tmp_path / "m.onnx", nodes, [("x", F, [4])], [("y", F, [4])], **limits)
    assert verified(path).worst["y"].inconclusive == "it is the same for all inputs"


def test_one_untested_output_among_others_shows(tmp_path: Path) -> None:
    nodes = [node("Abs", "x", "y"), node("Sub", "x far", "s"), node("Relu", "s", "z")]
    outputs = [("y", F, [4]), ("z", F, [4])]
    found = verified(save(tmp_path / "m.onnx", nodes, [("x", F, [4])], outputs, far=np.float32(1e6)))
    assert found.verdict == "inconclusive"
    assert {n: bool(o.inconclusive) for n, o in found.worst.items()} == {"y": False, "z": True}
    assert "PASS  y" in str(found)


CONCLUSIVE = {
    "place of the maximum": ([node("Add", "x k", "s"), node("ArgMax", "s", "y", axis=0)], I64),
    "the same as a float": (
        [node("Add", "x k", "s"), node("ArgMax", "s", "a", axis=0), node("Cast", "a", "y", to=F)],
        F,
    ),
    "truth": ([node("Greater", "x k", "y")], TensorProto.BOOL),
    "shape": ([node("Shape", "x", "y")], I64),
    "zeros of its shape": ([node("Shape", "x", "s"), node("ConstantOfShape", "s", "y")], F),
    "constant": ([node("Identity", "k", "y")], F),
    "range": ([node("Shape", "x", "s"), node("Cast", "s", "y", to=F)], F),
}


@pytest.mark.parametrize("case", CONCLUSIVE)
def test_outputs_that_may_be_the_same_pass(tmp_path: Path, case: str) -> None:
    nodes, dtype = CONCLUSIVE[case]
    k = np.array([0, 1e5, 0, 0], np.float32)
    path = save(tmp_path / "m.onnx", nodes, [("x", F, [4])], [("y", dtype, None)], k=k)
    found = verified(path)
    assert (found.verdict, len(found.cases)) == ("pass", 3), str(found)


def test_a_scalar_of_one_run_passes(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("ReduceSum", "x", "y", keepdims=0)], [("x", F, [4])], [("y", F, [])])
    assert verified(path, data={"x": np.ones(4)}).verdict == "pass"


def test_small_numbers_that_only_the_floor_lets_pass_are_inconclusive() -> None:
    tiny = np.linspace(1, 2, 5, dtype=np.float32) * np.float32(1e-6)
    for error, untested in ((1.05, True), (1 + 1e-6, False)):
        o = compare("y", tiny * np.float32(error), tiny)
        mark([[o]], {}, {"y": "faint"})
        found = Verification("a", "b", "c", [Case({}, [o])])
        assert found.verdict == ("inconclusive" if untested else "pass")


def test_a_failure_is_one_all_the_same(tmp_path: Path) -> None:
    path, target = never(tmp_path / "m.onnx"), tmp_path / "m.mnn"
    minnow.convert(save(tmp_path / "o.onnx", [node("Relu", "x", "y")], [("x", F, [2, 8])], [("y", F, [2, 8])]),
                   output=target)  # fmt: skip
    found = minnow.verify(path, target)
    assert found.verdict == "fail"
    assert run(["verify", str(path), str(target)]) == 4


def test_the_command_line_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = str(never(tmp_path / "m.onnx")), str(tmp_path / "m.mnn")
    assert run(["convert", path]) == 0
    out = capsys.readouterr().out
    assert "INCONCLUSIVE" in out
    assert "note: inconclusive" in out
    assert "--data FILE" in out
    assert run(["verify", path, target]) == 0
    assert capsys.readouterr().out.startswith("INCONCLUSIVE")
    assert run(["verify", path, target, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["passed"]) == ("inconclusive", False)
    assert run(["verify", path, target, "--strict"]) == 4
    np.savez(tmp_path / "real.npz", x=np.linspace(-9, 9, 16, dtype=np.float32).reshape(2, 8))
    for command in (["verify", path, target, "--strict"], ["convert", path, "-o", target]):
        capsys.readouterr()
        assert run([*command, "--data", str(tmp_path / "real.npz")]) == 0
        assert "PASS  1 run against" in capsys.readouterr().out


def test_a_picture_finds_what_noise_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lamps(tmp_path / "m.onnx")
    assert run(["convert", str(path)]) == 0
    assert "INCONCLUSIVE" in capsys.readouterr().out
    pixels = np.zeros((64, 48, 3), np.uint8)
    pixels[16:32, 12:24] = 255
    Image.fromarray(pixels).save(tmp_path / "lamp.png")
    for command in ("convert", "verify"):
        files = [str(path)] + [str(tmp_path / "m.mnn")] * (command == "verify")
        assert run([command, *files, "--data", str(tmp_path / "lamp.png")]) == 0
        out = capsys.readouterr().out
        assert "PASS  1 run against" in out
        assert "boxes [1, 4]" in out


TINY = np.linspace(1, 2, 7, dtype=np.float32) * np.float32(1e-7)


@pytest.fixture
def wrong_by_little(tmp_path: Path) -> tuple[Path, Path]:
    """A model with numbers of 1e-7, and a file whose numbers are off by a tenth of them."""
    paths = []
    for name, factor in (("m", 1.0), ("n", 1.1)):
        k = TINY * np.float32(factor)
        nodes = [node("Sigmoid", "x", "s"), node("Mul", "s k", "y")]
        path = save(tmp_path / f"{name}.onnx", nodes, [("x", F, [7])], [("y", F, [7])], k=k)
        minnow.convert(path, optimize=0)
        paths.append(path)
    return paths[0], tmp_path / "n.mnn"


def test_what_may_steer_a_loop_is_left_alone() -> None:
    inputs = {
        "x": np.full((1, 2, 9, 9), 0.3, np.float32),
        "factor": np.float32([0.5]),
        "low": np.array(0.1, np.float32),
    }
    for candidate in (*livelier(Candidate(inputs, {})), *livelier(Candidate(inputs, {}), "x")):
        assert not np.array_equal(candidate.inputs["x"], inputs["x"])
        assert all(candidate.inputs[n] is inputs[n] for n in ("factor", "low"))
    assert not list(livelier(Candidate({"factor": inputs["factor"]}, {})))


def test_larger_inputs_find_what_is_wrong_in_small_numbers(tmp_path: Path) -> None:
    for name, factor in (("m", 1.0), ("n", 1.1)):
        nodes, k = [node("Mul", "x k", "y")], TINY * np.float32(factor)
        path = save(tmp_path / f"{name}.onnx", nodes, [("x", F, [1, 7])], [("y", F, [1, 7])], k=k)
        minnow.convert(path)
    assert minnow.verify(tmp_path / "m.onnx", tmp_path / "m.mnn").verdict == "pass"
    assert minnow.verify(tmp_path / "m.onnx", tmp_path / "n.mnn").verdict == "fail"


def test_a_tolerance_that_is_asked_for_holds_near_zero(wrong_by_little: tuple[Path, Path]) -> None:
    source, target = wrong_by_little
    assert minnow.verify(source, target).verdict == "inconclusive"
    found = minnow.verify(source, target, tolerance=0.01)
    assert found.verdict == "fail"
    assert all(o.needed > 0.01 for c in found.cases for o in c.outputs)
    assert minnow.verify(source, target, tolerance=0.11).verdict == "pass"
    assert run(["verify", str(source), str(target), "--tolerance", "0.01"]) == 4
    assert run(["verify", str(source), str(target), "--tolerance", "0.11"]) == 0


@pytest.mark.parametrize("tolerance", [0.0, 1e-9, 1e-4])
def test_it_holds_whatever_the_output(tmp_path: Path, tolerance: float) -> None:
    nodes = [node("Exp", "x", "e"), node("Tanh", "e", "y")]
    path = save(tmp_path / "m.onnx", nodes, [("x", F, [3, 50])], [("y", F, [3, 50])])
    minnow.convert(path)
    found = minnow.verify(path, path.with_suffix(".mnn"), tolerance=tolerance)
    for o in (o for c in found.cases for o in c.outputs):
        assert o.passed == (o.needed <= tolerance)


def test_converting_takes_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node("Exp", "x", "e"), node("Tanh", "e", "y")]
    path = save(tmp_path / "m.onnx", nodes, [("x", F, [3, 50])], [("y", F, [3, 50])])
    assert run(["convert", str(path), "--tolerance", "0"]) == 4
    assert "tolerance 0 (" in capsys.readouterr().err
    assert not path.with_suffix(".mnn").exists()
    assert run(["convert", str(path), "--tolerance", "1e-5"]) == 0


@pytest.mark.parametrize("asked", [{"tolerance": 0.1}, {"data": [{"x": np.zeros(3, np.float32)}]}])
def test_what_only_a_verification_uses_is_not_ignored_without_one(asked: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="which is switched off"):
        minnow.convert(DIGITS, output=tmp_path / "m.mnn", verify=False, **asked)
    assert not list(tmp_path.iterdir())


def test_a_source_that_refuses_all_inputs_is_not_said_to_differ(tmp_path: Path) -> None:
    nodes = [node("Reshape", "x shape", "y")]
    path = save(tmp_path / "m.onnx", nodes, [("x", F, ["N"])], [("y", F, None)], shape=np.int64([-1, 7919]))
    with pytest.raises(VerifyError, match="was not compared with its source: no run succeeded") as error:
        minnow.convert(path, output=tmp_path / "m.mnn")
    assert "0 runs against onnxruntime" in str(error.value)
    assert "give shapes or data" in str(error.value)
    assert not (tmp_path / "m.mnn").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("one line", "one line"),
        ("the first: line\nthe second", "the first: line"),
        (
            "Graph execution error:\n\nDetected at node a:\n  File x\n\ntoo large\n\t [[a]]",
            "Graph execution error: too large",
        ),
        ("Graph execution error:\n\n  File x", "Graph execution error:"),
        ("", "no reason given"),
    ],
)
def test_the_reason_of_a_source(text: str, reason: str) -> None:
    assert _first_reason(text) == reason
