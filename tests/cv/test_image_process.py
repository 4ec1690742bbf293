"""Images to tensors, as the C API does it: places as a formula says, colors as OpenCV does them."""

from __future__ import annotations

import ctypes as c
import subprocess
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from capi import Tensor, tensor

from minnow.runtime import _engine

ROOT = Path(__file__).parents[2]
RGBA, RGB, BGR, GRAY, BGRA, NV21, NV12, I420 = 0, 1, 2, 3, 4, 11, 12, 13
CHANNELS = {RGBA: 4, RGB: 3, BGR: 3, GRAY: 1, BGRA: 4}
NAMES = {RGBA: "RGBA", RGB: "RGB", BGR: "BGR", GRAY: "GRAY", BGRA: "BGRA"}
NEAREST, BILINEAR, BICUBIC = range(3)
CLAMP, ZERO, REPEAT = range(3)
USAGE = 2
Array = npt.NDArray[Any]


class Process(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t), ("source", c.c_int32), ("target", c.c_int32), ("filter", c.c_int32),
        ("wrap", c.c_int32), ("mean", c.c_float * 4), ("normal", c.c_float * 4), ("matrix", c.c_float * 9),
        ("padding", c.c_int32), ("channels_last", c.c_int32), ("threads", c.c_int32),
    ]  # fmt: skip

    def __init__(self, **fields: Any) -> None:
        one = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
        defaults = {"source": BGR, "target": RGB, "filter": BILINEAR, "normal": (1,) * 4, "matrix": one} | fields
        arrays = {name: kind(*defaults.pop(name)) for name, kind in self._fields_
                  if name in defaults and issubclass(kind, c.Array)}  # fmt: skip
        super().__init__(struct_size=c.sizeof(Process), **defaults, **arrays)


@pytest.fixture(scope="module")
def library() -> c.CDLL:
    found = c.CDLL(_engine.__file__)
    found.minnow_last_error.restype = c.c_char_p
    found.minnow_convert_image.argtypes = [c.c_void_p, c.c_void_p, c.c_int32, c.c_int32, c.c_int64, c.c_void_p]
    return found


def run(
    library: c.CDLL, image: Array, size: tuple[int, int], dtype: str = "float32", stride: int = 0, **fields: Any
) -> Array:
    process = Process(**fields)
    channels = CHANNELS[process.target]
    out = np.full((1, *size, channels) if process.channels_last else (1, channels, *size), 99, dtype)
    target: Tensor = tensor(out)
    height, width = image.shape[:2]
    if process.source >= NV21:
        height = height * 2 // 3
    code = library.minnow_convert_image(c.byref(process), image.ctypes.data, width, height, stride, c.byref(target))
    assert code == 0, library.minnow_last_error().decode()
    return out[0] if process.channels_last else out[0].transpose(1, 2, 0)


def sampled(image: Array, size: tuple[int, int], matrix: Array, how: int, wrap: int, padding: int) -> Array:
    """The reference: in float64."""
    h, w = image.shape[:2]
    rows, columns = np.mgrid[: size[0], : size[1]].astype(np.float64)
    x, y, z = np.tensordot(matrix, np.stack([columns, rows, np.ones_like(rows)]), 1)
    x, y = x / z, y / z
    outside = (x < 0) | (x > w - 1) | (y < 0) | (y > h - 1)
    x, y = (x % w, y % h) if wrap == REPEAT else (x.clip(0, w - 1), y.clip(0, h - 1))

    def at(row: Array, column: Array) -> Array:
        if wrap == REPEAT:
            return image[row % h, column % w].astype(np.float64)
        return image[row.clip(0, h - 1), column.clip(0, w - 1)].astype(np.float64)

    if how == NEAREST:
        result = at(np.floor(y + 0.5).astype(int), np.floor(x + 0.5).astype(int))
    else:
        left, top = np.floor(x).astype(int), np.floor(y).astype(int)
        across, down = weights(x - left, how), weights(y - top, how)
        first = 0 if how == BILINEAR else -1
        result = sum(
            b[..., None] * a[..., None] * at(top + j + first, left + i + first)
            for j, b in enumerate(down)
            for i, a in enumerate(across)
        )
    result = np.floor(result + 0.5).clip(0, 255).astype(np.uint8)
    if wrap == ZERO:
        result[outside] = padding
    return result


def weights(t: Array, how: int) -> list[Array]:
    if how == BILINEAR:
        return [1 - t, t]

    def cubic(d: Array) -> Array:
        a, d = -0.75, np.abs(d)
        return np.where(d <= 1, ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)

    return [cubic(t + 1), cubic(t), cubic(1 - t), cubic(2 - t)]


@pytest.mark.parametrize("wrap", [CLAMP, ZERO, REPEAT])
@pytest.mark.parametrize("how", [NEAREST, BILINEAR, BICUBIC])
def test_places(how: int, wrap: int, library: c.CDLL) -> None:
    rng = np.random.default_rng(how)
    for channels, form in ((1, GRAY), (3, RGB), (4, RGBA)):
        for k in range(6):
            height, width = rng.integers(1, 40, 2)
            image = rng.integers(0, 256, (height, width, channels), np.uint8)
            matrix = np.eye(3) + rng.normal(0, 0.2, (3, 3)) * [[1, 1, 9], [1, 1, 9], [0, 0, 0]]
            if k % 3 == 2:
                matrix[2] = [1e-3, -2e-3, 1]
            matrix = matrix.astype(np.float32).astype(np.float64)
            fields = {"source": form, "target": form, "filter": how, "wrap": wrap, "matrix": matrix.ravel(),
                      "padding": 77, "channels_last": k % 2, "threads": 1 + k % 2}  # fmt: skip
            got = run(library, image, (29, 31), "uint8", **fields).astype(int)
            difference = np.abs(got - sampled(image, (29, 31), matrix, how, wrap, 77))
            # Single precision takes another pixel where a place is halfway or at the edge.
            assert (difference > 1).any(-1).mean() < 0.01


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_formats(source: int, target: int, library: c.CDLL) -> None:
    rng = np.random.default_rng(source)
    image = rng.integers(0, 256, (7, 45, CHANNELS[source]), np.uint8)
    code = getattr(cv2, f"COLOR_{NAMES[source]}2{NAMES[target]}", None)
    wanted = image if source == target else cv2.cvtColor(image, code)
    wanted = wanted.reshape(7, 45, CHANNELS[target])
    mean, normal = (10.0, 20.0, 30.0, 40.0), (0.5, 0.25, 2.0, 0.1)
    fields = {"source": source, "target": target, "mean": mean, "normal": normal}
    n = CHANNELS[target]
    for last in (0, 1):
        np.testing.assert_array_equal(run(library, image, (7, 45), "uint8", channels_last=last, **fields), wanted)
        floats = run(library, image, (7, 45), channels_last=last, **fields)
        np.testing.assert_array_equal(floats, (wanted - np.float32(mean[:n])) * np.float32(normal[:n]))


def test_rows_with_gaps(library: c.CDLL) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (5, 64), np.uint8)
    image = rows[:, : 3 * 11].reshape(5, 11, 3)
    got = run(library, np.lib.stride_tricks.as_strided(rows, (5, 11, 3), (64, 3, 1)), (5, 11), "uint8", 64, target=BGR)
    np.testing.assert_array_equal(got, image)


@pytest.mark.parametrize("source", [NV21, NV12, I420])
def test_video(source: int, library: c.CDLL) -> None:
    rng = np.random.default_rng(source)
    height, width = 12, 22
    luma = rng.integers(0, 256, (height, width), np.uint8)
    u, v = rng.integers(0, 256, (2, height // 2, width // 2), np.uint8)
    pairs = {NV21: [v, u], NV12: [u, v]}
    if source == I420:
        chroma = np.concatenate([u.ravel(), v.ravel()]).reshape(-1, width)
    else:
        chroma = np.stack(pairs[source], -1).reshape(-1, width)
    got = run(library, np.concatenate([luma, chroma]), (height, width), "uint8", source=source, target=RGB)
    cu, cv = (np.repeat(np.repeat(p.astype(int) - 128, 2, 0), 2, 1) for p in (u, v))
    parts = np.stack([73 * cv, -25 * cu - 37 * cv, 130 * cu], -1)
    np.testing.assert_array_equal(got, ((64 * luma[..., None].astype(int) + parts) >> 6).clip(0, 255))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": 77}, "77 is no format"),
        ({"target": NV21}, "11 is no format of tensors"),
        ({"filter": 3}, "no filter"),
        ({"wrap": -1}, "no wrap"),
        ({"padding": 256}, "padding is 256"),
        ({"matrix": (float("nan"),) * 9}, "not finite"),
        ({"threads": 999}, "999 threads"),
        ({"target": RGBA}, "3 channels, but the format 4"),
    ],
)
def test_wrong_settings(fields: dict[str, Any], message: str, library: c.CDLL) -> None:
    process, image, out = Process(**fields), np.zeros((4, 4, 4), np.uint8), np.zeros((1, 3, 4, 4), np.float32)
    target = tensor(out)
    code = library.minnow_convert_image(c.byref(process), image.ctypes.data, 4, 4, 0, c.byref(target))
    assert code == USAGE
    assert message in library.minnow_last_error().decode()


def test_wrong_images_and_tensors(library: c.CDLL) -> None:
    process, image = Process(), np.zeros((4, 4, 3), np.uint8)
    good = tensor(np.zeros((1, 3, 4, 4), np.float32))
    calls = [
        (None, image, 4, 4, 0, good), (process, None, 4, 4, 0, good), (process, image, 4, 4, 0, None),
        (process, image, 0, 4, 0, good), (process, image, 4, -1, 0, good), (process, image, 1 << 30, 4, 0, good),
        (process, image, 4, 4, 11, good), (process, image, 4, 4, 0, tensor(np.zeros((2, 3, 4, 4), np.float32))),
        (process, image, 4, 4, 0, tensor(np.zeros((3, 4), np.float32))),
        (process, image, 4, 4, 0, tensor(np.zeros((1, 3, 4, 4), np.float64))),
    ]  # fmt: skip
    for settings, pixels, width, height, stride, target in calls:
        arguments = (settings and c.byref(settings), None if pixels is None else pixels.ctypes.data)
        code = library.minnow_convert_image(*arguments, width, height, stride, target and c.byref(target))
        assert code == USAGE, (width, height, stride)


PROGRAM = """
#include <minnow/minnow.hpp>
#include <cstdio>
int main() {
  std::vector<std::uint8_t> pixels(12 * 8 * 3, 100);
  std::vector<float> floats(3 * 5 * 5);
  minnow::ImageProcess process;
  process.normal[2] = 0.5f;
  process.fit(12, 8, 5, 5);
  process.convert(pixels.data(), 12, 8, 0, minnow::tensor("", floats, {1, 3, 5, 5}));
  std::printf("%g %g\\n", floats[0], floats[74]);
}
"""


@pytest.mark.slow
def test_a_program_in_cpp(tmp_path: Path) -> None:
    source, program = tmp_path / "image.cpp", tmp_path / "image"
    source.write_text(PROGRAM)
    (folder,) = {path.parent for path in (ROOT / "build").glob("cp*/libminnow.so")}
    link = ["-L", folder, "-lminnow", f"-Wl,-rpath,{folder}"]
    subprocess.run(["g++", "-std=c++17", f"-I{ROOT}/runtime/include", source, "-o", program, *link], check=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "100 50\n"
