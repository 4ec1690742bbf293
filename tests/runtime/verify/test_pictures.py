"""Pictures as data to compare on: which numbers they become, and for which inputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from minnow.errors import FormatError, UsageError
from minnow.runtime.verify.data import samples
from minnow.runtime.verify.picture import fitted, is_picture
from minnow.schema.ir import DType, Graph, Model, TensorType

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)


def model(source: str = "onnx", **inputs: tuple[Any, tuple[int | str, ...]]) -> Model:
    graph = Graph("main")
    made = Model(graph, source=source)
    made.inputs = [(n, graph.add_param(TensorType(d, s), n).type) for n, (d, s) in inputs.items()]
    return made


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    Image.fromarray(PIXELS).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


UNIT = PIXELS.astype(np.float64) / 255
CASES: dict[str, tuple[Model, np.ndarray[Any, Any]]] = {
    "channels second": (model(x=(DType.F32, (1, 3, 6, 8))), UNIT.transpose(2, 0, 1)[None]),
    "channels last": (model(x=(DType.F32, (1, 6, 8, 3))), UNIT[None]),
    "bytes": (model("tflite", x=(DType.U8, (1, 6, 8, 3))), PIXELS[None]),
    "signed bytes": (model("tflite", x=(DType.I8, (1, 6, 8, 3))), PIXELS[None].astype(int) - 128),
    "half": (model(x=(DType.F16, (1, 3, 6, 8))), UNIT.transpose(2, 0, 1)[None]),
    "Caffe has BGR": (model("caffe", x=(DType.F32, (1, 3, 6, 8))), UNIT[..., ::-1].transpose(2, 0, 1)[None]),
    "gray": (
        model(x=(DType.F32, (1, 1, 6, 8))),
        np.rint(PIXELS @ np.array([0.299, 0.587, 0.114]))[None, None] / 255,
    ),
    "gray of Caffe": (
        model("caffe", x=(DType.F32, (1, 1, 6, 8))),
        np.rint(PIXELS @ np.array([0.299, 0.587, 0.114]))[None, None] / 255,
    ),
    "no batch": (model(x=(DType.F32, (3, 6, 8))), UNIT.transpose(2, 0, 1)),
    "several": (model(x=(DType.F32, (2, 3, 6, 8))), np.stack([UNIT.transpose(2, 0, 1)] * 2)),
    "all open": (model(x=(DType.F32, ("N", 3, "H", "W"))), UNIT.transpose(2, 0, 1)[None]),
    "open channels of TensorFlow": (model("tensorflow", x=(DType.F32, ("?", "?", "?", "?"))), UNIT[None]),
    "beside other inputs": (
        model(n=(DType.I64, (1,)), x=(DType.F32, (1, 3, 6, 8)), s=(DType.F32, (1, 4))),
        UNIT.transpose(2, 0, 1)[None],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_picture_becomes_an_input(case: str, photo: Path) -> None:
    made, want = CASES[case]
    name, array = fitted(photo, made)
    assert name == "x"
    assert array.dtype == dict(made.inputs)["x"].dtype.numpy
    assert array.shape == want.shape
    np.testing.assert_allclose(array.astype(np.float64), want, atol=1e-3 if array.dtype == np.float16 else 1e-7)
    assert array.flags.c_contiguous


def test_it_is_stretched_to_the_size_of_the_input(photo: Path) -> None:
    _name, array = fitted(photo, model(x=(DType.F32, (1, 3, 3, 16))))
    assert array.shape == (1, 3, 3, 16)
    assert abs(array.mean() - UNIT.mean()) < 0.05
    assert array.std() > 0.1


def test_it_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    image = Image.fromarray(PIXELS)
    exif = image.getexif()
    exif[0x0112] = 6  # a quarter to the right
    image.save(tmp_path / "turned.png", exif=exif)
    _, array = fitted(tmp_path / "turned.png", model(x=(DType.U8, (1, "H", "W", 3))))
    np.testing.assert_array_equal(array[0], np.rot90(PIXELS, -1))


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": (DType.F32, (1, 10))},
        {"x": (DType.F32, (1, 3, 6, 8)), "z": (DType.F32, (1, 3, 6, 8))},
        {"x": (DType.F32, (1, 5, 6, 8))},
        {"x": (DType.BOOL, (1, 3, 6, 8))},
    ],
)
def test_a_model_of_other_inputs_takes_none(inputs: Any, photo: Path) -> None:
    with pytest.raises(UsageError, match="of the model takes pictures") as caught:
        samples(photo, model(**inputs), {})
    assert ".npz" in caught.value.hint


def test_the_other_inputs_are_asked_for(photo: Path) -> None:
    made = model(n=(DType.I64, (1,)), x=(DType.F32, (1, 3, 6, 8)))
    with pytest.raises(UsageError, match="lacks the input 'n'"):
        samples(photo, made, {})
    (sample,) = samples([photo], made, {"n": np.array([7])})
    assert sample.picture == "x"
    assert sample.inputs["n"] == 7


@pytest.mark.parametrize(
    "content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + bytes(99), b"\xff\xd8\xff\xe0" + bytes(9)]
)
def test_what_is_no_picture_is_said_to_be_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="neither a picture nor"):
        samples(path, model(x=(DType.F32, (1, 3, 6, 8))), {})
    with pytest.raises(FormatError, match="cannot read the data"):
        is_picture(tmp_path / "nowhere.png")


def test_without_open_cv_the_error_says_what_to_install(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UsageError, match="read by OpenCV, which is not installed") as caught:
        fitted(photo, model(x=(DType.F32, (1, 3, 6, 8))))
    assert "minnow[verify]" in caught.value.hint
