"""`mnnconvert quantize --calibration CONFIG.json`: the configuration of MNN's mnnquant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minnow.calibration_data import calibration_inputs
from minnow.cli._app import run as run_cli
from minnow.mnnquant_file import with_mnnquant
from minnow.options.quantize import QuantizeOptions
from minnow.schema.errors import FormatError, UsageError
from minnow.schema.ir import DType, Graph, Model, TensorType

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def config(folder: Path, **keys: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({"path": str(folder / "data"), **keys}))
    return path


def options(folder: Path, **keys: Any) -> QuantizeOptions:
    return with_mnnquant(QuantizeOptions(calibration=str(config(folder, **keys)), output=folder / "q.mnn"))


def image_model(*shape: Any) -> Model:
    model = Model(Graph("g"), source="onnx")
    model.graph.add_param(TensorType(DType.F32, shape), "x")
    model.inputs = [("x", TensorType(DType.F32, shape))]
    return model


@pytest.fixture
def pixels(tmp_path: Path) -> Any:
    """A picture of noise, as RGB [8, 12, 3], which lies in the folder of the configuration."""
    import cv2

    found = np.random.default_rng(3).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    (tmp_path / "data").mkdir()
    cv2.imwrite(str(tmp_path / "data" / "a.png"), found[..., ::-1])
    return found


@pytest.mark.parametrize(("form", "order"), [("RGB", slice(None)), ("BGR", slice(None, None, -1))])
def test_pictures_become_what_mnnquant_makes_of_them(pixels: Any, tmp_path: Path, form: str, order: slice) -> None:
    """(x - mean) * normal, with the channels in the order of `format`, as its documentation says."""
    mean, normal = [103.94, 116.78, 123.68], [0.017, 0.018, 0.019]
    made = options(tmp_path, format=form, mean=mean, normal=normal, width=12, height=8)
    (found,) = list(calibration_inputs(made, image_model(1, 3, 8, 12))())
    wanted = (pixels[..., order].astype(np.float64) - mean) * normal
    np.testing.assert_allclose(found["x"], wanted.transpose(2, 0, 1)[None], rtol=1e-6, atol=1e-6)


def test_the_middle_is_cut_out_and_a_dynamic_input_gets_the_size(pixels: Any, tmp_path: Path) -> None:
    made = options(tmp_path, format="RGB", center_crop_h=0.5, center_crop_w=0.5, width=6, height=4)
    (found,) = list(calibration_inputs(made, image_model(1, 3, "h", "w"))())
    np.testing.assert_allclose(found["x"][0], pixels[2:6, 3:9].transpose(2, 0, 1), atol=1e-4)


def test_a_fixed_input_keeps_its_size(pixels: Any, tmp_path: Path) -> None:
    assert pixels.shape == (8, 12, 3)
    (found,) = list(calibration_inputs(options(tmp_path, width=6, height=4), image_model(1, 3, 16, 24))())
    assert found["x"].shape == (1, 3, 16, 24)


def test_the_file_says_the_same_as_flags(tmp_path: Path) -> None:
    """Samples as text, KL for activations, and a layer that stays float: the same bytes, whichever way it is said."""
    images = np.load(DIGITS / "digits_test.npz")["images"][:4]
    for k, image in enumerate(images):
        folder = tmp_path / "data" / str(k)
        folder.mkdir(parents=True)
        rows = [{"name": "image", "shape": [1, *image.shape]}]
        (folder / "input.json").write_text(json.dumps({"inputs": rows, "outputs": ["probability"]}))
        (folder / "image.txt").write_text(" ".join(repr(float(v)) for v in image.reshape(-1)))
        np.savez(tmp_path / f"{k}.npz", image=image[None])
    (tmp_path / "arrays").mkdir()
    for k in range(4):
        (tmp_path / f"{k}.npz").rename(tmp_path / "arrays" / f"{k}.npz")
    keys = {"input_type": "sequence", "used_sample_num": 3, "skip_quant_op_names": ["Gemm"], "debug": True}
    flags = ["--activation-method", "kl", "--exclude", "Gemm", "--calibration-limit", "3"]
    made = []
    for k, given in enumerate(([config(tmp_path, **keys)], [tmp_path / "arrays", *flags])):
        made.append(tmp_path / f"{k}.mnn")
        source = ["quantize", str(DIGITS / "digits.onnx"), "-o", str(made[-1]), "--no-measure", "--quiet"]
        source += ["--equalize", "off", "--activations", "int8"]  # each form would have its ranges measured
        assert run_cli([*source, "--calibration", *map(str, given)]) == 0
    assert made[0].read_bytes() == made[1].read_bytes()


def test_flags_count_more_than_the_file(tmp_path: Path) -> None:
    path = config(tmp_path, used_image_num=7, feature_quantize_method="ADMM", skip_quant_op_names=["a"])
    made = with_mnnquant(QuantizeOptions(calibration=str(path), calibration_limit=3, exclude="b"))
    assert made.calibration_limit == 3
    assert made.activation_method == "admm"
    assert made.exclude == ("b", "a")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"feature_quantize_method": "EMA"}, "EMA"),
        ({"weight_quantize_method": "ADMM"}, "ADMM"),
        ({"format": "RGBA"}, "RGBA"),
        ({"format": "rgb"}, "rgb"),
        ({"quant_bits": 4}, "4"),
        ({"feature_clamp_value": 63.5}, "63.5"),
        ({"used_image_num": -1}, "-1"),
        ({"mean": [1, 2]}, "2 values"),
        ({"normal": [1, 0, 1]}, "normal"),
        ({"mean": ["a", 1, 2]}, "no numbers"),
        ({"debug": 1}, "debug"),
        ({"inputs": []}, "inputs"),
        ({"sampels": 3}, "sampels"),
        ({"path": ""}, "path"),
    ],
)
def test_what_has_no_meaning_here_is_refused_by_name(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        options(tmp_path, **keys)
    assert said in str(raised.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"path": "a"', "\xff", "[" * 100_000])
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(text.encode("latin-1"))
    for given in (path, tmp_path / "absent.json"):
        with pytest.raises(FormatError):
            with_mnnquant(QuantizeOptions(calibration=str(given)))


def test_a_configuration_without_a_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(UsageError, match="path"):
        with_mnnquant(QuantizeOptions(calibration=str(tmp_path / "c.json")))
