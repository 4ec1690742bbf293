"""`mnnconvert quantize --calibration`: integers from end to end, reports, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from oracles import mnn_oracle

import minnow
from minnow.cli._app import run as run_cli
from minnow.schema.errors import BudgetError, FormatError, UsageError
from minnow.schema.mnn import read_file, wire
from minnow.static_quantization import _about_size

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(scope="module")
def images() -> Any:
    return np.load(DIGITS / "digits_test.npz")["images"]


@pytest.fixture(scope="module")
def calibration(tmp_path_factory: pytest.TempPathFactory, images: Any) -> Path:
    path = tmp_path_factory.mktemp("data") / "images.npz"
    np.savez(path, image=images[:64])
    return path


def quantize(target: Path, *flags: Any) -> int:
    return run_cli(["quantize", str(DIGITS / "digits.onnx"), "-o", str(target), "--no-measure", *map(str, flags)])


def test_all_layers_compute_with_integers_and_hardly_lose_accuracy(
    calibration: Path, images: Any, tmp_path: Path, capsys: Any
) -> None:
    target = tmp_path / "q.mnn"
    assert quantize(target, "--calibration", calibration, "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)
    ops = Counter(node.op for node in read_file(target).graph)
    assert ops["QuantizedConv"] == 4
    assert ops["QuantizedMatMul"] == 1
    assert not ops["Conv"]
    assert not ops["Linear"]
    labels = np.load(DIGITS / "digits_test.npz")["labels"]
    right = [
        (minnow.load(path).run({"image": images})["probability"].argmax(1) == labels).mean()
        for path in (target, _float(tmp_path))
    ]
    assert right[0] >= right[1] - 0.01
    assert right[1] > 0.9
    done = report["quantization"]
    assert done["after_bytes"] == target.stat().st_size < 0.6 * done["before_bytes"]
    assert [row["kind"] for row in done["calibrated"]] == ["int8"] * 5
    assert all(row["sqnr_db"] > 25 and row["cosine"] > 0.998 for row in done["calibrated"])
    # What the file says of itself lets a later comparison with its source pass.
    assert minnow.verify(DIGITS / "digits.onnx", target, data={"image": images[:8]}).passed


def test_a_verification_draws_inputs_in_the_range_of_the_calibration(images: Any, tmp_path: Path, capsys: Any) -> None:
    """Pixels from 0 to 255 in front of a layer with scales for them: for numbers below 1 all integers are 0 or 1."""
    weight = np.random.default_rng(0).normal(0, 0.002, (8, 1, 8, 8)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    source, target = tmp_path / "m.onnx", tmp_path / "q.mnn"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    rng = np.random.default_rng(1)
    calibration = [{"x": rng.integers(0, 256, (1, 1, 16, 16)).astype(np.float32)} for _ in range(8)]
    minnow.quantize(source, output=target, calibration=calibration, measure=False)
    assert run_cli(["verify", str(source), str(target), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "pass"
    assert "in the range of its calibration" in found["note"]
    assert max(o["max_abs"] for case in found["cases"] for o in case["outputs"]) > 1e-3
    assert all(0.001 < o["tolerance"] < 0.1 for case in found["cases"] for o in case["outputs"])
    # The tolerance is one for which a file of other weights fails.
    graph.initializer[0].CopyFrom(numpy_helper.from_array(0.8 * weight, "w"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    assert run_cli(["verify", str(source), str(target)]) == 4


def _float(folder: Path) -> Path:
    minnow.convert(DIGITS / "digits.onnx", output=folder / "f.mnn", verify=False)
    return folder / "f.mnn"


def test_the_same_inputs_give_the_same_bytes_with_any_number_of_threads(calibration: Path, tmp_path: Path) -> None:
    from minnow.options.quantize import QuantizeOptions
    from minnow.static_quantization import quantize_calibrated

    files = []
    for k, threads in enumerate((1, 2, 2)):
        files.append(tmp_path / f"{k}.mnn")
        options = QuantizeOptions(calibration=str(calibration), output=files[-1], measure=False)
        quantize_calibrated(DIGITS / "digits.onnx", options, threads)
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()


def test_inputs_come_from_files_folders_functions_and_iterables(images: Any, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for k in range(4):
        np.save(folder / f"{k}.npy", images[2 * k : 2 * k + 2])
    (folder / "notes.txt").write_text("no input")
    script = tmp_path / "inputs.py"
    script.write_text(
        f"import numpy as np\n"
        f"def batches():\n"
        f"    for k in range(4):\n"
        f"        yield {{'image': np.load(r'{folder}/' + str(k) + '.npy')}}\n"
    )
    np.savez(tmp_path / "one.npz", anything=images[:8])
    given: list[Any] = [folder, f"{script}:batches", [images[:2], images[2:4], images[4:6], images[6:8]]]
    given.append(str(tmp_path / "one.npz"))
    steps = []
    for k, calibration in enumerate(given):
        done = minnow.quantize(
            DIGITS / "digits.onnx", calibration=calibration, output=tmp_path / f"{k}.mnn", measure=False, verify=False,
            activation_method="minmax", equalize="off", activations="int8",
        ).quantization  # fmt: skip
        steps.append([(row.low, row.high) for row in done.calibrated])  # type: ignore[union-attr]
    assert steps[0] == steps[1] == steps[2]
    np.testing.assert_allclose(steps[3], steps[0], rtol=1e-5)  # more images at once: sums in another order


def test_layers_stay_float_by_name_op_and_pattern(calibration: Path, tmp_path: Path, capsys: Any) -> None:
    assert quantize(tmp_path / "q.mnn", "--calibration", calibration, "--exclude", "gemm*", "--exclude", "nothing") == 0
    said = capsys.readouterr().out
    assert "excluded by 'gemm*'" in said
    assert "no layer is left out by 'nothing'" in said
    ops = Counter(node.op for node in read_file(tmp_path / "q.mnn").graph)
    assert ops["QuantizedConv"] == 4
    assert not ops["QuantizedMatMul"]
    assert quantize(tmp_path / "q.mnn", "--calibration", calibration, "--exclude", "Conv", "--exclude", "Linear") == 3


def test_the_worst_layers_go_back_to_float_until_the_loss_is_small(calibration: Path, tmp_path: Path) -> None:
    def done(drop: str) -> Any:
        return minnow.quantize(
            DIGITS / "digits.onnx", calibration=str(calibration), output=tmp_path / "q.mnn", measure=False,
            verify=False, max_drop=drop,
        ).quantization  # fmt: skip

    loose, tight = done("1%"), done("0.000008")
    assert all(row.kind == "int8" for row in loose.calibrated)
    kept = [row for row in tight.calibrated if row.kind == "f32"]
    assert 0 < len(kept) < 5
    assert tight.score >= 1 - 0.000008 > loose.score
    effects = {row.name: row.effect_db for row in tight.calibrated}
    assert max(effects[row.name] for row in kept) <= min(r.effect_db for r in tight.calibrated if r.kind == "int8")
    with pytest.raises(BudgetError):
        done("0.0000000001")


def test_a_metric_decides(calibration: Path, tmp_path: Path) -> None:
    script = tmp_path / "metric.py"
    script.write_text(
        f"import numpy as np\n"
        f"def accuracy(session):\n"
        f"    data = np.load(r'{DIGITS}/digits_test.npz')\n"
        f"    found = session.run({{'image': data['images']}})['probability'].argmax(1)\n"
        f"    return (found == data['labels']).mean()\n"
    )
    done = minnow.quantize(
        DIGITS / "digits.onnx", calibration=str(calibration), output=tmp_path / "q.mnn", measure=False, verify=False,
        max_drop="1%", metric=f"{script}:accuracy",
    ).quantization  # fmt: skip
    assert done is not None
    assert done.before_score is not None
    assert done.score is not None
    assert 0.9 < done.before_score < 1
    assert done.score >= 0.99 * done.before_score


def test_random_inputs(tmp_path: Path, capsys: Any) -> None:
    assert quantize(tmp_path / "q.mnn", "--synthetic", "--samples", 3) == 0
    assert "from 3 inputs" in capsys.readouterr().out


def _empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


def _saved(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "bad.npz", **arrays)
    return folder / "bad.npz"


def _script(folder: Path, text: str) -> str:
    (folder / "bad.py").write_text(text)
    return f"{folder / 'bad.py'}:give"


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (_empty, 2, "no inputs to calibrate with"),
        (lambda f: f / "missing", 6, "no such file"),
        (lambda f: _saved(f, image=np.zeros((2, 3, 8, 8), np.float32)), 2, "image"),
        (lambda f: _saved(f, a=np.zeros((2, 1, 8, 8), np.float32), b=np.zeros(3)), 2, "lacks the input 'image'"),
        (lambda f: _saved(f, image=np.full((2, 1, 8, 8), np.nan, np.float32)), 2, "128 numbers that are NaN"),
        (lambda f: _script(f, "def give():\n    yield 1 / 0\n"), 2, "ZeroDivisionError"),
        (lambda f: _script(f, "def give():\n    return []\n"), 2, "gives no inputs"),
        (lambda f: _script(f, "x = 1\n"), 2, "no function 'give'"),
        (lambda f: f"{f / 'no.py'}:give", 2, "there is no file"),
    ],
)
def test_what_is_wrong_with_the_inputs_is_said(make: Any, code: int, said: str, tmp_path: Path, capsys: Any) -> None:
    assert quantize(tmp_path / "q.mnn", "--calibration", make(tmp_path)) == code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "q.mnn").exists()


@pytest.mark.parametrize(
    "flags",
    [
        {"weights": "fp16"},
        {"block": "32"},
        {"max_size": "1MB"},
        {"synthetic": True},
        {"preprocess": "mean=1,2"},
        {"preprocess": "std=0"},
        {"preprocess": "order=brg"},
    ],
)
def test_options_that_contradict_a_calibration(flags: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        minnow.quantize(DIGITS / "digits.onnx", calibration="x.npz", output=tmp_path / "q.mnn", **flags)


def test_a_calibration_that_is_no_inputs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="int"):
        minnow.quantize(DIGITS / "digits.onnx", calibration=5, output=tmp_path / "q.mnn")
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(FormatError):
        minnow.quantize(DIGITS / "digits.onnx", calibration=tmp_path / "x.npz", output=tmp_path / "q.mnn")


def test_auto_takes_the_ranges_with_the_better_outputs(calibration: Path, tmp_path: Path) -> None:
    def measured(method: str) -> tuple[str, float]:
        report = minnow.quantize(
            DIGITS / "digits.onnx", calibration=str(calibration), output=tmp_path / "q.mnn", measure=False,
            verify=False, activation_method=method, equalize="off", target="minnow",
        )  # fmt: skip
        done: Any = report.quantization
        return done.method, min(s.sqnr_db for s in done.outputs.values())

    found = {method: measured(method) for method in ("auto", "mse", "percentile")}
    assert [found[m][0] for m in ("mse", "percentile")] == ["mse", "percentile"]
    best = max(("mse", "percentile"), key=lambda m: found[m][1])
    assert found["auto"] == found[best]


def test_results_are_measured_with_inputs_from_the_whole_calibration() -> None:
    from minnow.calibration_data import spread

    found = spread(({"x": k} for k in range(48)), 48)
    assert [one["x"] for one in found] == [47 * i // 31 for i in range(32)]
    assert found[0]["x"] == 0
    assert found[-1]["x"] == 47
    assert len(spread(({"x": k} for k in range(5)), 5)) == 5


@pytest.mark.slow
def test_pruned_layers_make_up_for_what_is_gone(images: Any, tmp_path: Path) -> None:
    """With a calibration the outputs for other inputs are nearer to those of the float model."""
    half = len(images) // 2
    near = []
    for asked in ({}, {"calibration": {"image": images[:half]}}):
        report = minnow.quantize(
            DIGITS / "digits.onnx", output=tmp_path / "p.mnn", prune="magnitude", sparsity=0.6, measure=False,
            data={"image": images[half:]}, **asked,
        )  # fmt: skip
        done = report.quantization
        assert done is not None
        assert {layer.kind for layer in done.layers} == {"f32"}
        near.append(done.outputs["probability"])
    assert near[1].cosine > near[0].cosine + 0.05
    assert near[1].sqnr_db > near[0].sqnr_db


def test_pruning_is_measured_with_the_calibration(images: Any, tmp_path: Path) -> None:
    def done(**given: Any) -> Any:
        found = minnow.quantize(
            DIGITS / "digits.onnx", output=tmp_path / "p.mnn", prune="magnitude", sparsity=0.6, measure=False,
            calibration=iter([{"image": images[:32]}]), **given,
        ).quantization  # fmt: skip
        assert found is not None
        return found.outputs["probability"]

    assert done() == done(data={"image": images[:32]})
    assert done() != done(data={"image": np.random.default_rng(0).random((32, 1, 8, 8), np.float32)})


@pytest.mark.slow
@pytest.mark.parametrize(("prune", "sparsity"), [("magnitude", 0.7), ("block1x4", 0.6), ("block1x8", 0.6)])
def test_a_calibrated_network_of_zeros_still_recognizes(prune: Any, sparsity: float, tmp_path: Path) -> None:
    """Layers make up for what those in front have lost: without it half of the digits are recognized, or fewer."""
    test = np.load(DIGITS / "digits_test.npz")
    images, labels = test["images"], test["labels"]
    half = len(images) // 2
    minnow.quantize(
        DIGITS / "digits.onnx", output=tmp_path / "p.mnn", prune=prune, sparsity=sparsity, measure=False,
        calibration={"image": images[:half]}, verify=False,
    )  # fmt: skip
    found = minnow.load(tmp_path / "p.mnn").run({"image": images[half:]})["probability"].argmax(1)
    assert (found == labels[half:]).mean() > 0.92


def test_layers_are_pruned_within_the_loss(images: Any, tmp_path: Path, capsys: Any) -> None:
    np.savez(tmp_path / "data.npz", image=images)
    asked = ("--prune", "magnitude", "--sparsity", "0.6", "--data", tmp_path / "data.npz", "--format", "json")
    assert quantize(tmp_path / "p.mnn", *asked, "--max-drop", "10%") == 0
    done = json.loads(capsys.readouterr().out)["quantization"]
    assert done["before_score"] - done["score"] <= 0.1 * done["before_score"]
    assert {r["density"] < 1 for r in done["layers"] if r["name"] != "relu_5"} == {True, False}
    assert quantize(tmp_path / "none.mnn", *asked, "--max-drop", "0.0001%") == 5
    assert not (tmp_path / "none.mnn").exists()


def test_results_of_the_network_are_not_cut_off(images: Any, tmp_path: Path) -> None:
    """The largest numbers decide about a class, though most of the squared error is that of the many others."""
    rows = {}
    for method in ("auto", "mse"):
        done = minnow.quantize(
            DIGITS / "digits.onnx", output=tmp_path / "q.mnn", calibration={"image": images}, measure=False,
            activation_method=method, activations="int8", equalize="off", verify=False,
        ).quantization  # fmt: skip
        assert done is not None
        rows[method] = done.calibrated[-1]  # type: ignore[union-attr]
    assert rows["auto"].saturated < 0.0005  # the end of the range, rounded
    assert rows["mse"].saturated > rows["auto"].saturated
    assert rows["auto"].high > rows["mse"].high


def test_results_have_no_more_bits_where_the_file_would_be_as_large_as_the_float_one(tmp_path: Path) -> None:
    """MNN's runtime computes layers with results of 16 bits with floats, which its file has, too."""
    shares = {}
    for target in ("mnn", "minnow"):
        report = minnow.quantize(
            DIGITS / "digits.onnx", output=tmp_path / "q.mnn", synthetic=True, target=target, measure=False,
            verify=False,
        )  # fmt: skip
        assert report.quantization is not None
        shares[target] = report.output_bytes / report.quantization.before_bytes
    assert all(share < 0.6 for share in shares.values())


@pytest.mark.parametrize("mnn", [False, pytest.param(True, marks=mnn_oracle.needs_mnn)], ids=["file", "MNN"])
def test_layers_with_results_of_16_bits_have_no_floats_for_mnn(mnn: bool, tmp_path: Path) -> None:
    """MNN's runtime computes them with floats; the file has these as bytes with a scale."""
    rng = np.random.default_rng(0)
    weight = rng.normal(0, 0.1, (96, 96, 1, 1)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 96, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    inputs = rng.normal(size=(4, 96, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=inputs)
    # In a process of its own: here each step is compared, and floats may be rounded to other integers of 16 bits.
    line = ["quantize", "m.onnx", "-o", "q.mnn", "--calibration", "x.npz", "--activations", "int16", "--no-measure"]
    done = subprocess.run(
        [sys.executable, "-m", "minnow", *line, "--format", "json"], cwd=tmp_path, stdout=subprocess.PIPE, check=True
    )
    found = json.loads(done.stdout)["quantization"]
    assert "1 results of 16 bits" in found["corrections"]
    assert found["after_bytes"] < 0.85 * found["before_bytes"]
    net = wire.read((tmp_path / "q.mnn").read_bytes())
    assert net["extraInfo"]["minnow"]["nodes"]
    layers = [op["main"] for op in net["oplists"] if op["type"] == "Convolution"]
    assert len(layers) == 1
    assert not any(len(layer.get("weight", ())) for layer in layers)
    if mnn:
        file = mnn_oracle.File((tmp_path / "q.mnn").read_bytes(), {"x": inputs[:1]}, ["y"])
        (got,) = mnn_oracle.run([file], tmp_path / "mnn")
        assert got.outputs is not None, got.log
        want = minnow.load(tmp_path / "q.mnn").run({"x": inputs[:1]})["y"]
        assert np.abs(got.outputs[0].reshape(want.shape) - want).max() < 0.02 * np.abs(want).max()


def test_why_a_file_is_not_smaller_is_said(tmp_path: Path) -> None:
    """One small layer computes with integers: the bytes of the other graph are more than those that it saves."""
    reports = {
        target: minnow.quantize(
            DIGITS / "digits.onnx", output=tmp_path / f"{target}.mnn", synthetic=True, target=target, measure=False,
            verify=False, exclude=["batchnormalization_[47]", "batchnormalization_11", "gemm*"],
        )
        for target in ("mnn", "minnow")
    }  # fmt: skip
    sizes = {target: report.output_bytes for target, report in reports.items()}
    assert sizes["minnow"] < sizes["mnn"]
    assert sizes["mnn"] > reports["mnn"].source_bytes
    assert any("`--target minnow`" in text for text in reports["mnn"].notices)
    assert not any("`--target minnow`" in text for text in reports["minnow"].notices)
    assert not any("fewer bits" in text for text in reports["mnn"].notices)
    halves = replace(reports["mnn"], source_bytes=reports["mnn"].source_bytes // 2)
    assert any("weights have fewer bits than float32" in text for text in _about_size(halves, "mnn"))


def test_an_input_that_the_model_does_not_run_with_is_told(tmp_path: Path, capsys: Any) -> None:
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "h", "w"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = {"w": np.ones((4, 3, 1, 1), np.float32), "n": np.array([1, 64]), "m": np.ones((64, 2), np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Reshape", ["c", "n"], ["r"]),
             helper.make_node("MatMul", ["r", "m"], ["y"])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [shape], [y], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx")
    _saved(tmp_path, x=np.zeros((1, 3, 4, 5), np.float32)).rename(tmp_path / "c.npz")
    flags = ["--calibration", str(tmp_path / "c.npz"), "--no-verify"]
    assert run_cli(["quantize", str(tmp_path / "n.onnx"), "-o", str(tmp_path / "q.mnn"), *flags]) == 2
    said = capsys.readouterr().err
    assert "does not run with input 1 of the calibration: x[1, 3, 4, 5]" in said
    assert "size=HEIGHT,WIDTH" in said


def test_why_no_layer_becomes_integers(tmp_path: Path, capsys: Any) -> None:
    w = np.ones((4, 2, 2, 2), np.float32)
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx")
    assert run_cli(["quantize", str(tmp_path / "n.onnx"), "-o", str(tmp_path / "q.mnn"), "--synthetic"]) == 3
    assert "ConvTranspose has no form with integers" in capsys.readouterr().err


def test_a_model_of_integers_is_not_quantized_again(calibration: Path, tmp_path: Path, capsys: Any) -> None:
    assert quantize(tmp_path / "q.mnn", "--calibration", calibration, "--target", "minnow") == 0
    assert run_cli(["quantize", str(tmp_path / "q.mnn"), "-o", str(tmp_path / "r.mnn")]) == 3
    said = capsys.readouterr().err
    assert "its weights are quantized already" in said
    assert "quantize the float model that it was made of" in said
