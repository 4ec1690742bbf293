"""The command line on Caffe nets, which are two files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caffe_one import definition, layer, weights

import minnow
from minnow.cli._app import run
from minnow.errors import UsageError
from minnow.runtime.verify import verify

RNG = np.random.default_rng(6)
BLOBS = {"l": [RNG.standard_normal((4, 3, 3, 3)).astype(np.float32), RNG.standard_normal(4).astype(np.float32)]}
CONV = definition(
    {"x0": (1, 3, 8, 9)},
    layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", ["x0"], ["c"])
    + 'layer { name: "r" type: "ReLU" bottom: "c" top: "c" }',
)


@pytest.fixture
def apart(tmp_path: Path) -> tuple[Path, Path]:
    """A definition, and its weights in a place where nobody looks."""
    (tmp_path / "far").mkdir()
    net, numbers = tmp_path / "net.prototxt", tmp_path / "far" / "numbers.caffemodel"
    net.write_text(CONV)
    numbers.write_bytes(weights(BLOBS))
    return net, numbers


def call(capsys: pytest.CaptureFixture[str], *args: Any) -> tuple[int, str, str]:
    code = run([str(a) for a in args])
    out, err = capsys.readouterr()
    return code, out, err


def test_commands_take_the_other_file(apart: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    net, _ = apart
    target = net.with_suffix(".mnn")
    for source, other in (apart, apart[::-1]):
        code, out, err = call(capsys, "convert", source, "--weights", other, "-o", target, "--format", "json")
        assert code == 0, err
        assert json.loads(out)["framework"] == "caffe"
        code, out, _ = call(capsys, "verify", source, target, "--weights", other, "--format", "json")
        assert (code, json.loads(out)["passed"]) == (0, True)
        code, out, _ = call(capsys, "check", source, "--weights", other, "--format", "json")
        found = json.loads(out)
        assert (code, found["convertible"], found["macs"]) == (0, True, 4 * 27 * 6 * 7)
        assert found["description"]["operators"] == {"Input": 1, "Convolution": 1, "ReLU": 1}
        code, out, _ = call(capsys, "inspect", source, "--weights", other, "--format", "json")
        assert json.loads(out)["nodes"] == {"Conv": 1, "Relu": 1}


def test_without_it_the_error_names_what_is_missing(
    apart: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    net, numbers = apart
    code, _, err = call(capsys, "convert", net)
    assert code == 6
    assert "there is no .caffemodel beside the .prototxt" in err
    assert "--weights" in err
    code, _, err = call(capsys, "convert", numbers)
    assert code == 6
    assert "holds no net" in err
    code, _, err = call(capsys, "convert", net, "--weights", net.with_name("none.caffemodel"))
    assert code == 6
    assert "none.caffemodel" in err
    assert not net.with_suffix(".mnn").exists()


def test_check_needs_no_weights_to_refuse(apart: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    net, _ = apart
    net.write_text(CONV + 'layer { name: "u" type: "Unheard" bottom: "c" top: "u" }')
    code, out, _ = call(capsys, "check", net)
    assert code == 3
    assert "Unheard: 1 node: u" in out


def test_flags_of_mnns_tool(apart: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    net, numbers = apart
    target = net.with_suffix(".mnn")
    code, _, err = call(capsys, "-f", "CAFFE", "--modelFile", numbers, "--prototxt", net, "--MNNModel", target)
    assert code == 0, err
    assert verify(net, target, weights=str(numbers)).passed


def test_a_layer_that_nobody_knows_exits_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(definition({"x0": (2, 3)}, layer("Unheard", tops=["a"]) + layer("Python")))
    for command in (["check"], ["convert", "-o", tmp_path / "x.mnn"]):
        code, out, err = call(capsys, *command, path)
        assert code == 3
        assert "Unheard" in out + err
        assert "Python" in out + err


def test_ops_lists_the_layers(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "ops", "-f", "caffe", "--format", "json")
    notes = {row["operator"]: row["note"] for row in json.loads(out)}
    assert code == 0
    assert len(notes) >= 60
    assert notes["Convolution"] == ""
    assert notes["Accuracy"].startswith("left out")
    assert notes["Filter"].startswith("not converted")
    assert notes["Input"] == notes["Data"] == "an input of the model"


def test_compared_with_opencv_where_it_computes_the_same(apart: tuple[Path, Path]) -> None:
    pytest.importorskip("cv2")
    net, numbers = apart
    report = minnow.convert(net, weights=numbers)
    assert report.verification is not None
    assert report.verification.reference.startswith("OpenCV")
    # Its own idea of the padding of a kernel with sides of different names makes it no judge.
    net.write_text(CONV.replace("kernel_size: 3 }", "kernel_size: 3 axis: 1 }"))
    report = minnow.convert(net, weights=numbers)
    assert report.verification is not None
    assert report.verification.reference.startswith("numpy")
    assert "Convolution axis" in report.verification.note


def test_what_opencv_does_not_run_is_compared_with_the_reference(tmp_path: Path) -> None:
    """Alone, it cuts a tensor into as many parts as are read: here into none."""
    pytest.importorskip("cv2")
    path = tmp_path / "net.prototxt"
    path.write_text(definition({"x0": (2, 6)}, layer("Slice", tops=["a", "b", "c"])))
    report = minnow.convert(path)
    assert report.verification is not None
    assert report.verification.passed
    assert report.verification.reference.startswith("numpy")
    assert "OpenCV cannot load" in report.verification.note


def test_prototxt_names_the_other_file_too(apart: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    net, numbers = apart
    target = net.with_suffix(".mnn")
    for command in (["convert", numbers, "-o", target], ["verify", numbers, target], ["check", numbers],
                    ["inspect", numbers]):  # fmt: skip
        code, _, err = call(capsys, *command, "--prototxt", net)
        assert code == 0, err
    assert call(capsys, numbers, "--prototxt", net, "-o", target)[0] == 0  # the bare command
    report = minnow.convert(numbers, prototxt=net, output=target)
    assert report.verification is not None
    assert report.verification.passed
    assert minnow.check(numbers, prototxt=net).convertible
    assert verify(numbers, target, prototxt=net).passed
    assert minnow.convert(net, prototxt=numbers, weights=str(numbers), output=target).verification
    for wrong in (minnow.convert, minnow.check):
        with pytest.raises(UsageError, match="two names of one option"):
            wrong(numbers, prototxt=net, weights=numbers)
