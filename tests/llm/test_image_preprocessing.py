"""How images are made ready for models that see, compared with transformers' processors."""

from __future__ import annotations

import base64
import functools
import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest
import torch_architectures  # noqa: F401  (it makes up for the operators of torchvision that are missing)
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import some_of
from seeing_folder import of_pillow

from minnow.converter.llm.checkpoint import Settings
from minnow.converter.llm.preprocessing import preprocessing
from minnow.llm.image.description import ImageDescription
from minnow.llm.image.preprocessing import prepared
from minnow.llm.image.source import read_image
from minnow.schema.errors import FormatError, MinnowError, ModelError, UnsupportedError, UsageError


def _how(processor: Any, folder: Path, size: int) -> ImageDescription:
    """What is read of the folder that a processor writes."""
    processor.save_pretrained(folder)
    return _read(folder, size)


def _read(folder: Path, size: int) -> ImageDescription:
    tower = Settings({"image_size": size}, "tower")
    return ImageDescription.of({"token": 1, "rows": 4, "size": size, **preprocessing(folder, tower)})


def _image(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Smooth, with hard edges."""
    dice = np.random.default_rng(seed)
    image = np.add.outer(np.linspace(0, 200, height), np.linspace(0, 55, width))[..., None] * np.array([1, 0.6, 0.3])
    image[height // 3 :, width // 2 :] = dice.integers(0, 256, 3)
    return np.clip(image + dice.integers(-20, 20, image.shape), 0, 255).astype(np.uint8)


PROCESSORS: dict[str, Any] = {
    "clip": lambda n: of_pillow("CLIPImageProcessor")(size={"shortest_edge": n}, crop_size={"height": n, "width": n}),
    "clip, larger, other colors": lambda n: of_pillow("CLIPImageProcessor")(
        size={"shortest_edge": n + 5}, crop_size=n, image_mean=[0.1, 0.2, 0.3], image_std=[1.0, 2.0, 0.5], resample=2
    ),
    "clip, no resizing": lambda n: of_pillow("CLIPImageProcessor")(do_resize=False, crop_size=n),
    "clip, as pixels": lambda n: of_pillow("CLIPImageProcessor")(
        size=n, crop_size=n, do_normalize=False, do_rescale=False
    ),
    "siglip": lambda n: of_pillow("SiglipImageProcessor")(size={"height": n, "width": n}),
    "llava, square": lambda n: of_pillow("LlavaImageProcessor")(
        size={"shortest_edge": n}, crop_size={"height": n, "width": n}, do_pad=True
    ),
}


@settings(max_examples=some_of(60, 6), deadline=None)
@given(
    name=st.sampled_from(sorted(PROCESSORS)),
    size=st.integers(1, 40),
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    seed=st.integers(0, 2**31),
)
def test_numbers_are_those_of_the_processor(
    name: str, size: int, height: int, width: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    processor = PROCESSORS[name](size)
    how = _how(processor, tmp_path_factory.mktemp("processor"), size)
    image = _image(height, width, seed)
    want = processor(PIL.Image.fromarray(image), return_tensors="np")["pixel_values"][0]
    got = prepared(image, how)
    assert (got.shape, got.dtype, got.flags.c_contiguous) == (want.shape, np.float32, True)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["CLIPImageProcessor", "CLIPFeatureExtractor", "CLIPImageProcessorFast"])
def test_old_folders(name: str, tmp_path: Path) -> None:
    """Settings that are left out are those of the class, also in files of older versions."""
    key = "feature_extractor_type" if "Feature" in name else "image_processor_type"
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({key: name}))
    image = _image(300, 260)
    want = of_pillow("CLIPImageProcessor")()(image, return_tensors="np")["pixel_values"][0]
    np.testing.assert_allclose(prepared(image, _read(tmp_path, 224)), want, rtol=1e-6, atol=1e-6)


def _saved(image: PIL.Image.Image, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


@functools.cache
def _kinds() -> dict[str, bytes]:
    image = PIL.Image.fromarray(_image(37, 53))
    turned = PIL.Image.Exif()
    turned[0x0112] = 6
    return {
        "png": _saved(image),
        "jpeg": _saved(image, "JPEG"),
        "cmyk": _saved(image.convert("CMYK"), "JPEG"),
        "turned": _saved(image, "JPEG", exif=turned),
        "gray": _saved(image.convert("L")),
        "alpha": _saved(image.convert("RGBA")),
        "gray and alpha": _saved(image.convert("LA")),
        "palette": _saved(image.quantize(16)),
        "webp": _saved(image, "WEBP", lossless=True),
        "bmp": _saved(image, "BMP"),
        "two colors": _saved(image.convert("1")),
    }


@pytest.mark.parametrize("name", _kinds())
def test_files_are_read_as_by_transformers(name: str, tmp_path: Path) -> None:
    data = _kinds()[name]
    path = tmp_path / "image"
    path.write_bytes(data)
    want = np.asarray(transformers.image_utils.load_image(str(path)))
    url = f"data:image/{name};base64,{base64.b64encode(data).decode()}"
    for source in (path, str(path), data, bytearray(data), url, want, PIL.Image.fromarray(want)):
        np.testing.assert_array_equal(read_image(source), want)


def test_other_forms_of_images() -> None:
    gray = _image(5, 7)[..., 0]
    for form in (gray, gray[..., None], np.repeat(gray[..., None], 3, 2)):
        np.testing.assert_array_equal(read_image(form), np.stack([gray] * 3, -1))
    np.testing.assert_array_equal(read_image(PIL.Image.fromarray(gray).convert("RGBA"))[..., 0], gray)
    escaped = "data:image/png," + "".join(f"%{b:02x}" for b in _saved(PIL.Image.fromarray(gray)))
    np.testing.assert_array_equal(read_image(escaped)[..., 1], gray)


def _saying(width: int, height: int) -> bytes:
    """A file that says that it is so large."""
    data = _saved(PIL.Image.fromarray(_image(9, 9)))
    head = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


def test_images_that_are_refused(tmp_path: Path) -> None:
    cases: list[tuple[Any, type[MinnowError], str]] = [
        ("https://example.com/a.png", UsageError, "not fetched from the network"),
        ("file:///etc/passwd", UsageError, "not fetched from the network"),
        (tmp_path / "missing.png", FormatError, "cannot be read"),
        (tmp_path, FormatError, "cannot be read"),
        ("a\0b", FormatError, "cannot be read"),
        (b"", FormatError, "it has no bytes"),
        (b"GIF, but not really", FormatError, "no image"),
        (_saved(PIL.Image.fromarray(_image(9, 9)))[:60], FormatError, "damaged"),
        ("data:image/png;base64", FormatError, "no comma"),
        ("data:image/png;base64,$$$", FormatError, "no base64"),
        ("data:,hello", FormatError, "no image"),
        (_saved(PIL.Image.fromarray(_image(9, 9)), "GIF"), FormatError, "files may be JPEG, PNG, BMP, WEBP"),
        (_saying(5000, 5000), UsageError, "too large"),
        (_saying(1 << 30, 1 << 30), UsageError, "too large"),
        (np.zeros((2, 2), np.float32), UsageError, r"float32 \[2, 2\]"),
        (np.zeros((2, 2, 2), np.uint8), UsageError, r"uint8 \[2, 2, 2\]"),
        (np.zeros((0, 2, 3), np.uint8), UsageError, "no pixels"),
        (np.zeros((5000, 5000), np.uint8), UsageError, "too large"),
        (None, UsageError, "something else"),
        (5, UsageError, "an image is"),
    ]
    for source, kind, text in cases:
        with pytest.raises(kind, match=text):
            read_image(source, most_pixels=1 << 24)
    (tmp_path / "a.png").write_bytes(_saved(PIL.Image.fromarray(_image(9, 9))))
    with pytest.raises(UsageError, match="no data: URL"):
        read_image(str(tmp_path / "a.png"), local=False)


def test_images_that_are_long_and_narrow() -> None:
    about = {"token": 1, "rows": 4, "size": 32, "crop": [32, 32], "shortest": 32}
    line = np.zeros((1, 1 << 20, 3), np.uint8)
    for how in (about, {**about, "square": True}):
        with pytest.raises(UsageError, match="too long and narrow"):
            prepared(line, ImageDescription.of(how))


@settings(max_examples=some_of(400), deadline=None)
@given(name=st.sampled_from(sorted(_kinds())), place=st.floats(0, 1), cut=st.booleans(), data=st.binary(max_size=6))
def test_damaged_images(name: str, place: float, cut: bool, data: bytes) -> None:
    """Each is read, or an error that says what is wrong."""
    whole = _kinds()[name]
    at = int(place * len(whole))
    changed = whole[:at] + data + (b"" if cut else whole[at + len(data) :])
    try:
        image = read_image(changed, most_pixels=1 << 20)
    except (FormatError, UsageError, UnsupportedError):
        return
    assert image.dtype == np.uint8
    assert image.shape[2] == 3


WRONG: list[tuple[dict[str, Any], type[MinnowError], str]] = [
    ({"image_processor_type": "PixtralImageProcessor"}, UnsupportedError, "'PixtralImageProcessor' is not supported"),
    ({"size": {"longest_edge": 32}}, UnsupportedError, "'size' is"),
    ({"size": {"shortest_edge": 0}}, ModelError, "no number of pixels"),
    ({"size": {"shortest_edge": "32"}}, ModelError, "no number of pixels"),
    ({"crop_size": {"height": 32, "width": 31}}, ModelError, "do not get the size"),
    ({"crop_size": 1 << 20}, ModelError, "no number of pixels"),
    ({"do_center_crop": False}, ModelError, "do not get the size"),
    ({"image_std": [1, 0, 1]}, ModelError, "has a zero"),
    ({"image_std": [1, 1e-200, 1]}, ModelError, "has a zero"),
    ({"image_mean": [1, 10**400, 1]}, ModelError, "image_mean"),
    ({"image_mean": [1, float("nan"), 1]}, ModelError, "image_mean"),
    ({"image_mean": [1, 0]}, ModelError, "image_mean"),
    ({"image_mean": ["a", "b", "c"]}, ModelError, "image_mean"),
    ({"resample": 9}, ModelError, "resample"),
    ({"do_resize": "yes"}, ModelError, "do_resize"),
    ({"rescale_factor": "x"}, ModelError, "rescale_factor"),
]


@pytest.mark.parametrize(("changes", "kind", "text"), WRONG)
def test_settings_that_are_refused(changes: dict[str, Any], kind: type[MinnowError], text: str, tmp_path: Path) -> None:
    own = {"image_processor_type": "CLIPImageProcessor", "size": 32, "crop_size": 32, **changes}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(own))
    with pytest.raises(kind, match=text):
        _read(tmp_path, 32)


def test_a_folder_without_settings(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"preprocessor_config.json is missing"):
        _read(tmp_path, 32)
