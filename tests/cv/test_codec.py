"""Image files, compared with OpenCV."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

import minnow.cv as cv
from minnow.errors import FormatError, UsageError, WriteError

FLAGS = (
    cv.IMREAD_UNCHANGED, cv.IMREAD_GRAYSCALE, cv.IMREAD_COLOR, cv.IMREAD_ANYDEPTH, cv.IMREAD_ANYDEPTH | cv.IMREAD_COLOR,
    cv.IMREAD_ANYCOLOR, cv.IMREAD_ANYCOLOR | cv.IMREAD_ANYDEPTH, cv.IMREAD_COLOR_RGB, cv.IMREAD_REDUCED_COLOR_2,
    cv.IMREAD_REDUCED_GRAYSCALE_4, cv.IMREAD_REDUCED_COLOR_8, cv.IMREAD_IGNORE_ORIENTATION | cv.IMREAD_COLOR,
)  # fmt: skip
Array = npt.NDArray[np.uint8]


def scene(height: int = 61, width: int = 83) -> Array:
    """Something smooth with noise, as photos are."""
    rng = np.random.default_rng(height)
    ramp = np.add.outer(np.arange(height) * 2, np.arange(width) * 1.5) % 256
    noise = rng.normal(0, 9, (height, width, 3))
    return np.clip(np.dstack([ramp, ramp[::-1], 255 - ramp]) + noise, 0, 255).astype(np.uint8)


def check(data: Array, levels: int = 1) -> None:
    """All flags give what OpenCV gives."""
    for flags in FLAGS:
        try:
            wanted = cv2.imdecode(data, flags)
        except cv2.error:  # an eighth of one pixel
            continue
        got = np.asarray(cv.imdecode(data, flags))
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), flags
        limit = levels * 257 if wanted.dtype == np.uint16 else levels
        assert np.abs(got.astype(int) - wanted.astype(int)).max() <= limit, flags


@pytest.mark.parametrize("progressive", [0, 1])
@pytest.mark.parametrize("sampling", [0x221111, 0x211111, 0x111111])
def test_jpeg(sampling: int, progressive: int) -> None:
    for image in (scene(), scene()[..., 1], scene(1, 1), scene(8, 17)):
        params = [cv.IMWRITE_JPEG_QUALITY, 88, cv.IMWRITE_JPEG_PROGRESSIVE, progressive, 7, sampling]
        check(cv2.imencode(".jpg", image, params)[1])
        check(np.asarray(cv.imencode(".jpg", image, params)[1]))


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png(channels: int, dtype: str) -> None:
    rng = np.random.default_rng(channels)
    for shape in ((13, 21, channels), (1, 1, channels)):
        image = (
            rng.integers(0, np.iinfo(dtype).max, shape, dtype).squeeze() if shape[0] > 1 else np.full(shape, 77, dtype)
        )
        check(cv2.imencode(".png", image)[1])
        data = np.asarray(cv.imencode(".png", image)[1])
        again = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(again, image[..., 0] if image.shape[2:] == (1,) else image)
        check(data)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_other_kinds_of_png(mode: str) -> None:
    image = PIL.Image.fromarray(scene()).convert("RGBA" if mode == "RGBA" else "RGB").convert(mode)
    for options in ({}, {"transparency": (1, 2, 3) if mode == "RGB" else 3}):
        if options and mode in ("LA", "RGBA", "1"):
            continue
        file = io.BytesIO()
        image.save(file, "png", **options)
        check(np.frombuffer(file.getvalue(), np.uint8))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_bmp(channels: int) -> None:
    image = np.dstack([scene(), scene()[::-1, :, 0]])[..., :channels].squeeze()
    check(cv2.imencode(".bmp", image)[1])
    data = np.asarray(cv.imencode(".bmp", image)[1])
    np.testing.assert_array_equal(cv2.imdecode(data, cv2.IMREAD_UNCHANGED), image)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["jpeg", "png"])
def test_orientation(name: str, orientation: int) -> None:
    exif = PIL.Image.Exif()
    exif[0x112] = orientation
    file = io.BytesIO()
    PIL.Image.fromarray(scene()).save(file, name, exif=exif)
    check(np.frombuffer(file.getvalue(), np.uint8))


def test_files(tmp_path: Path) -> None:
    image = scene()
    for suffix in (".jpg", ".png", ".bmp", ".webp"):
        path = tmp_path / f"photo{suffix}"
        assert cv.imwrite(path, image) is True
        assert cv.haveImageReader(str(path))
        assert cv.haveImageWriter(path)
        np.testing.assert_array_equal(cv.imread(path), cv2.imread(str(path)))
    assert not cv.haveImageWriter("photo.xyz")
    assert not cv.haveImageReader(tmp_path / "missing.png")
    (tmp_path / "text.png").write_text("no image at all")
    assert not cv.haveImageReader(tmp_path / "text.png")
    assert cv.imwrite(tmp_path / "gray.png", image[..., :1].astype(np.float32) * 1.1)
    assert np.asarray(cv.imread(tmp_path / "gray.png", 0)).max() == 255


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="No such file"):
        cv.imread(tmp_path / "missing.png")
    with pytest.raises(FormatError, match="cannot be read"):
        cv.imread(tmp_path)
    with pytest.raises(FormatError, match="no image"):
        cv.imdecode(b"GIF89a and more of it")
    with pytest.raises(FormatError, match="empty"):
        cv.imdecode(b"")
    with pytest.raises(UsageError, match="uint8"):
        cv.imdecode(np.zeros(7))
    with pytest.raises(UsageError, match="filename must be a path"):
        cv.imread(None)
    with pytest.raises(UsageError, match="flags is 4096"):
        cv.imread("photo.png", 4096)
    with pytest.raises(UsageError, match="extension"):
        cv.imwrite(tmp_path / "photo.xyz", scene())
    with pytest.raises(UsageError, match="1, 3 or 4 channels"):
        cv.imwrite(tmp_path / "photo.png", scene()[..., :2])
    with pytest.raises(UsageError, match="folder"):
        cv.imwrite(tmp_path / "no folder" / "photo.png", scene())
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(WriteError):
        cv.imwrite(tmp_path / "folder.png", scene())
    with pytest.raises(UsageError, match="pairs"):
        cv.imencode(".png", scene(), [16])
    with pytest.raises(UsageError, match="params must be a list of numbers, not 5"):
        cv.imencode(".png", scene(), 5)
    with pytest.raises(UsageError, match="PNG_COMPRESSION is 11"):
        cv.imencode(".png", scene(), [16, 11])


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp", "16.png"])
def test_damaged_files(suffix: str) -> None:
    """Each gives an error or an image, whatever is changed; a file that ends too early always an error."""
    rng = np.random.default_rng(0)
    image = scene(21, 33).astype(np.uint16) * 257 if suffix == "16.png" else scene(21, 33)
    data = np.asarray(cv.imencode(suffix[-4:] if suffix != ".webp" else suffix, image)[1])
    for flags in (cv.IMREAD_COLOR, cv.IMREAD_UNCHANGED):
        for length in range(0, len(data) - 40, max(1, len(data) // 25)):
            with pytest.raises(FormatError):
                cv.imdecode(data[:length], flags)
        for _ in range(60):
            changed = data.copy()
            changed[rng.integers(0, len(data), rng.integers(1, 5))] = rng.integers(0, 256)
            try:
                assert np.asarray(cv.imdecode(changed, flags)).ndim in (2, 3)
            except FormatError:
                pass


def test_without_pillow() -> None:
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "import minnow.cv as cv, numpy as np\n"
        "cv.resize(np.zeros((4, 4), np.uint8), (2, 2))\n"
        "cv.imencode('.png', np.zeros((4, 4), np.uint8))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UnsupportedError" in done.stderr, done.stderr
    assert "pip install 'minnow[cv]'" in done.stderr
