"""`mnnconvert quantize`: files, reports, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from models import mnn_flag_models as models
from models import weight_streams as streams
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.cli._app import run as run_cli
from minnow.schema.errors import UsageError
from minnow.schema.mnn import wire

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.network(tmp_path_factory.mktemp("source") / "network.onnx")


def quantize(source: Path, target: Path, *flags: Any) -> int:
    return run_cli(["quantize", str(source), "-o", str(target), "--no-measure", *map(str, flags)])


def reported(capsys: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def matrix(path: Path, weight: Any) -> Path:
    """A model with one matrix product."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, weight.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(("weights", "share"), [("int8", 0.42), ("int4", 0.33), ("fp16", 0.6), ("bf16", 0.7)])
def test_the_file_is_smaller_and_runs(weights: str, share: float, network: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_cli(["convert", str(network), "-o", str(tmp_path / "f.mnn"), "--no-verify"]) == 0
    capsys.readouterr()
    assert quantize(network, tmp_path / "q.mnn", "--weights", weights, "--format", "json") == 0
    done = reported(capsys)["quantization"]
    size = (tmp_path / "q.mnn").stat().st_size
    assert size == done["after_bytes"] < share * (tmp_path / "f.mnn").stat().st_size
    assert {near["cosine"] > 0.98 for near in done["outputs"].values()} == {True}
    assert sum(r["after"] for r in done["layers"]) < sum(r["before"] for r in done["layers"])
    assert quantize(network, tmp_path / "again.mnn", "--weights", weights) == 0
    assert (tmp_path / "again.mnn").read_bytes() == (tmp_path / "q.mnn").read_bytes()


def test_the_report_has_a_row_for_each_layer(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert quantize(network, tmp_path / "q.mnn", "--weights", "int5", "--block", 32) == 0
    text = capsys.readouterr().out
    assert "no blocks of 32: one scale for each output channel" in text
    assert "int5 mse" in text
    assert "SQNR" in text
    streams_of = [op["main"]["quanParameter"] for op in wire.read((tmp_path / "q.mnn").read_bytes())["oplists"]
                  if "quanParameter" in (op.get("main") or {})]  # fmt: skip
    assert streams_of
    assert {streams.codes(np.asarray(q["buffer"]).tobytes(), bool(q.get("shapeInt32")))[1] for q in streams_of} == {5}


def test_verify_takes_the_tolerance_of_the_file(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert quantize(network, tmp_path / "q.mnn", "--weights", "int3") == 0
    capsys.readouterr()
    assert run_cli(["verify", str(network), str(tmp_path / "q.mnn")]) == 0
    assert "the weights of the file are compressed: the tolerance is" in capsys.readouterr().out
    assert run_cli(["verify", str(network), str(tmp_path / "q.mnn"), "--tolerance", "1e-4"]) == 4


def test_verify_says_what_to_do_with_weights_of_others(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert quantize(network, tmp_path / "q.mnn", "--weights", "int3") == 0
    net = wire.read((tmp_path / "q.mnn").read_bytes())
    extra = wire.read_nested("Extra", np.asarray(net["extraInfo"]["buffer"]).tobytes())
    extra["attr"] = [pair for pair in extra["attr"] if pair["key"] != "minnow.quantized"]
    net["extraInfo"]["buffer"] = np.frombuffer(wire.write_nested("Extra", extra), np.int8)
    (tmp_path / "other.mnn").write_bytes(wire.write(net))
    capsys.readouterr()
    assert run_cli(["verify", str(network), str(tmp_path / "other.mnn")]) == 4
    assert "`--tolerance X` accepts the error of that" in capsys.readouterr().out


def test_a_quantized_file_is_quantized_already(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert quantize(network, tmp_path / "q.mnn") == 0
    assert quantize(tmp_path / "q.mnn", tmp_path / "again.mnn") == 3
    assert "quantized already" in capsys.readouterr().err
    assert not (tmp_path / "again.mnn").exists()


def test_a_mnn_file_is_a_source(network: Path, tmp_path: Path) -> None:
    assert run_cli(["convert", str(network), "-o", str(tmp_path / "f.mnn")]) == 0
    assert quantize(tmp_path / "f.mnn", tmp_path / "q.mnn", "--weights", "int4") == 0
    assert (tmp_path / "q.mnn").stat().st_size < 0.4 * (tmp_path / "f.mnn").stat().st_size


def test_flags_of_mnns_converter_take_a_mnn_file(network: Path, tmp_path: Path) -> None:
    assert run_cli(["convert", str(network), "-o", str(tmp_path / "f.mnn")]) == 0
    assert run_cli(["convert", str(tmp_path / "f.mnn"), "-o", str(tmp_path / "h.mnn"), "--fp16"]) == 0
    assert (tmp_path / "h.mnn").stat().st_size < 0.6 * (tmp_path / "f.mnn").stat().st_size
    assert minnow.verify(network, tmp_path / "h.mnn", tolerance=1e-2).passed


@pytest.mark.parametrize("source", ["model.mnn", "model.onnx"])
def test_dequantize_says_what_it_is_for(source: str, network: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_cli(["convert", str(network), "-o", str(tmp_path / "model.mnn")]) == 0
    (tmp_path / "model.onnx").write_bytes(network.read_bytes())
    capsys.readouterr()
    assert run_cli(["convert", str(tmp_path / source), "-o", str(tmp_path / "q.mnn"), "--dequantize"]) == 2
    said = capsys.readouterr().err
    assert "quantized TFLite model" in said
    assert "float model" in said


def test_random_inputs_are_found_as_for_a_verification(tmp_path: Path, capsys: Any) -> None:
    """A batch of 2 with 7 numbers each is the only size that the model takes."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "k"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.array([2, 7], np.int64), "shape"),
            numpy_helper.from_array(np.random.default_rng(0).normal(size=(7, 32)).astype(np.float32), "w"),
        ],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert quantize(path, tmp_path / "q.mnn", "--format", "json") == 0
    report = reported(capsys)
    assert report["verification"]["verdict"] == "pass"
    assert report["quantization"]["outputs"]["y"]["cosine"] > 0.999


def test_the_source_runs_once_for_the_same_inputs(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file before and the one after the weights have become smaller are compared with the same outputs."""
    from minnow.runtime.verify.onnx_runtime import OnnxRuntime

    runs = []
    run = OnnxRuntime.run
    monkeypatch.setattr(OnnxRuntime, "run", lambda self, inputs: (runs.append(1), run(self, inputs))[1])
    assert run_cli(["convert", str(network), "-o", str(tmp_path / "f.mnn")]) == 0
    once = len(runs)
    assert once > 0
    assert quantize(network, tmp_path / "q.mnn") == 0
    assert len(runs) == 2 * once


def test_layers_are_left_out(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert quantize(network, tmp_path / "q.mnn", "--exclude", "Conv", "--exclude", "none*", "--format", "json") == 0
    report = reported(capsys)
    rows = report["quantization"]["layers"]
    assert {r["why"] for r in rows if r["op"] == "Conv"} == {"left out by 'Conv'"}
    assert any(r["kind"] == "int" for r in rows)
    assert "no layer has the name or pattern 'none*'" in report["notices"]
    assert quantize(network, tmp_path / "no.mnn", "--exclude", "*") == 3
    assert "left out by '*'" in capsys.readouterr().err
    assert not (tmp_path / "no.mnn").exists()


def test_weights_that_are_not_finite_stay_float(tmp_path: Path, capsys: Any) -> None:
    weight = np.ones((64, 8), np.float32)
    weight[3, 4] = np.inf
    assert quantize(matrix(tmp_path / "m.onnx", weight), tmp_path / "q.mnn", "--no-verify") == 3
    said = capsys.readouterr().err
    assert "its weights have NaN or infinity" in said
    assert "y" in said


def test_nothing_to_quantize_is_said(tmp_path: Path, capsys: Any) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert quantize(tmp_path / "m.onnx", tmp_path / "q.mnn") == 3
    assert "no float weights to quantize" in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "share"), [((), 0.85), (("--weights", "int8"), 0.4)])
def test_pruned_weights_are_not_in_the_file(
    flags: tuple[str, ...], share: float, network: Path, tmp_path: Path, capsys: Any
) -> None:
    asked = ("--prune", "block1x4", "--sparsity", "0.75", "--format", "json", *flags)
    assert quantize(network, tmp_path / "p.mnn", *asked) == 0
    done = reported(capsys)["quantization"]
    rows = [r for r in done["layers"] if r["density"] < 1]
    assert rows
    for row in rows:
        assert row["density"] < 0.27
        assert row["after"] < 0.6 * row["before"]
        assert row["sqnr_db"] == pytest.approx(-20 * np.log10(row["error"]))
    assert done["after_bytes"] == (tmp_path / "p.mnn").stat().st_size < share * done["before_bytes"]
    assert quantize(network, tmp_path / "text.mnn", *asked[:4], *flags) == 0
    assert "% kept" in capsys.readouterr().out
    assert run_cli(["verify", str(network), str(tmp_path / "p.mnn")]) == 0


def test_a_pruned_file_may_have_its_weights_beside_it(network: Path, tmp_path: Path) -> None:
    assert quantize(network, tmp_path / "p.mnn", "--prune", "magnitude") == 0
    beside = tmp_path / "beside.mnn"
    flags = ("-f", "MNN", "--modelFile", str(tmp_path / "p.mnn"), "--MNNModel", str(beside), "--saveExternalData")
    assert run_cli(list(flags)) == 0
    session = minnow.load(tmp_path / "p.mnn")
    x = {i.name: np.ones([d if isinstance(d, int) else 2 for d in i.shape], np.float32) for i in session.inputs}
    want, got = (minnow.load(p).run(x) for p in (tmp_path / "p.mnn", beside))
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--block", "24"), "multiple of 16"),
        (("--method", "hqq", "--symmetric"), "mse"),
        (("--scale-bits", "24"), "16 or 32"),
        (("--max-size", "12XB"), "12MB"),
        (("--max-drop", "much"), "0.5%"),
        (("--max-size", "1MB", "--weights", "fp16"), "int4"),
        (("--metric", "m.py:f"), "--max-drop"),
        (("--sparsity", "0.8"), "--prune"),
        (("--prune", "magnitude", "--sparsity", "0.3"), "0.6"),
        (("--prune", "magnitude", "--weights", "fp16"), "omit"),
        (("--prune", "magnitude", "--block", "32"), "omit"),
        (("--max-drop", "1%", "--metric", "absent.py:f"), "FILE.py:FUNCTION"),
        (("--weights", "fp16", "--block", "32"), "omit"),
        (("--weights", "bf16", "--method", "hqq"), "omit"),
        (("--weights", "fp16", "--scale-bits", "16"), "omit"),
        (("--activation-method", "kl"), "--calibration"),
        (("--rounding", "fitted"), "--synthetic"),
        (("--no-bias-correction",), "--calibration"),
        (("--preprocess", "mean=127"), "--calibration"),
        (("--prune", "magnitude", "--synthetic", "--rounding", "fitted"), "nothing becomes integers"),
        (("--weights", "int4", "--synthetic", "--equalize", "on"), "tensors stay float"),
        (("--weights", "int8", "--synthetic", "--block", "32"), "fewer bits"),
        (("--synthetic", "--percentile", "101"), "x<=100"),
    ],
)
def test_wrong_usage_says_what_to_try(
    flags: tuple[str, ...], said: str, network: Path, tmp_path: Path, capsys: Any
) -> None:
    assert quantize(network, tmp_path / "q.mnn", *flags) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_size_is_kept_or_refused(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert quantize(network, tmp_path / "q.mnn", "--max-size", "16kB", "--format", "json") == 0
    rows = reported(capsys)["quantization"]["layers"]
    assert (tmp_path / "q.mnn").stat().st_size <= 16000
    assert len({(r["kind"], r["bits"]) for r in rows}) > 1
    assert quantize(network, tmp_path / "no.mnn", "--max-size", "2kB") == 5
    assert "the smallest file has" in capsys.readouterr().err
    assert not (tmp_path / "no.mnn").exists()


def test_a_loss_is_kept_or_refused(network: Path, tmp_path: Path, capsys: Any) -> None:
    sizes = []
    for drop in ("0.0001%", "1%"):
        assert quantize(network, tmp_path / "q.mnn", "--max-drop", drop, "--format", "json") == 0
        done = reported(capsys)["quantization"]
        assert 1 - done["score"] <= float(drop.rstrip("%")) / 100
        sizes.append(done["after_bytes"])
    assert sizes[1] < sizes[0]
    assert quantize(network, tmp_path / "no.mnn", "--max-drop", "0.0001%", "--max-size", "12kB") == 5
    assert "within a loss of 0.0001%" in capsys.readouterr().err
    assert not (tmp_path / "no.mnn").exists()


def test_a_metric_of_the_user_decides(network: Path, tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "metric.py"
    script.write_text(
        "import numpy as np\n"
        "def count(session):\n"
        "    x = np.ones((1, 3, 20, 20), np.float32)\n"
        "    return float(np.round(np.abs(session.run({'x': x})['y']).sum(), 1))\n"
        "def broken(session):\n"
        "    return 1 / 0\n"
    )
    flags = ("--max-drop", "1%", "--metric", f"{script}:count")
    assert quantize(network, tmp_path / "q.mnn", *flags, "--format", "json") == 0
    done = reported(capsys)["quantization"]
    assert done["before_score"] > 1.5
    assert done["before_score"] - done["score"] <= 0.01 * done["before_score"]
    assert quantize(network, tmp_path / "no.mnn", "--max-drop", "1%", "--metric", f"{script}:broken") == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_python_and_the_command_line_write_the_same(network: Path, tmp_path: Path) -> None:
    assert quantize(network, tmp_path / "a.mnn", "--weights", "int4", "--block", 16, "--symmetric") == 0
    report = minnow.quantize(
        network, output=tmp_path / "b.mnn", weights="int4", block="16", symmetric=True, measure=False
    )
    assert (tmp_path / "a.mnn").read_bytes() == (tmp_path / "b.mnn").read_bytes()
    assert report.quantization is not None
    with pytest.raises(UsageError, match="unknown weights"):
        minnow.quantize(network, output=tmp_path / "c.mnn", weights="int9")  # type: ignore[arg-type]


def test_of_integers_the_equal_ones_count(tmp_path: Path, capsys: Any) -> None:
    weight = np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32)
    model = onnx.load(matrix(tmp_path / "m.onnx", weight))
    model.graph.node.append(helper.make_node("ArgMax", ["y"], ["best"], axis=1))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("best", TensorProto.INT64, None))
    onnx.save(model, tmp_path / "m.onnx")
    assert quantize(tmp_path / "m.onnx", tmp_path / "q.mnn", "--weights", "int2") == 0
    assert "of the elements are equal" in capsys.readouterr().out
    assert quantize(tmp_path / "m.onnx", tmp_path / "q.mnn", "--max-drop", "0%", "--format", "json") == 0
    assert reported(capsys)["quantization"]["outputs"]["best"]["cosine"] == 1


@pytest.mark.slow
def test_latency_and_memory_are_measured(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_cli(["quantize", str(network), "-o", str(tmp_path / "q.mnn"), "--format", "json"]) == 0
    speed = reported(capsys)["quantization"]["speed"]
    assert speed["verdict"] in ("faster", "slower", "no difference shown")
    assert speed["before_s"] > 0
    assert speed["before_bytes"] > 1e6


@pytest.mark.parametrize("prune", ["magnitude", "block1x4"])
def test_conversions_prune_as_quantize_does(prune: Any, tmp_path: Path) -> None:
    """Without inputs both make the same weights 0."""
    report = minnow.convert(DIGITS, output=tmp_path / "a.mnn", prune=prune, sparsity=0.8)
    minnow.quantize(DIGITS, output=tmp_path / "b.mnn", prune=prune, sparsity=0.8, measure=False)
    assert report.quantization is not None
    pruned = [layer.density for layer in report.quantization.layers if layer.density < 1]
    assert len(pruned) >= 2
    assert all(0.15 < d <= 0.2 for d in pruned)
    x = {"image": np.random.default_rng(0).random((3, 1, 8, 8), np.float32)}
    got, want = (minnow.load(tmp_path / f"{n}.mnn").run(x)["probability"] for n in "ab")
    np.testing.assert_array_equal(got, want)


def test_sparsity_without_prune_is_refused() -> None:
    with pytest.raises(UsageError, match="sparsity is for prune"):
        minnow.convert(DIGITS, sparsity=0.8)


@pytest.mark.parametrize("flags", [(), ("--synthetic",)])
def test_outputs_without_elements_are_not_called_exact(flags: tuple[str, ...], tmp_path: Path, capsys: Any) -> None:
    w = np.random.default_rng(2).normal(size=(64, 64)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Greater", ["y", "most"], ["g"]),
             helper.make_node("NonZero", ["g"], ["found"])]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
         helper.make_tensor_value_info("found", TensorProto.INT64, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.float32(1e30), "most")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx")
    assert quantize(tmp_path / "n.onnx", tmp_path / "q.mnn", *flags) == 0
    assert "what becomes of 'found' was not measured" in " ".join(capsys.readouterr().out.split())
