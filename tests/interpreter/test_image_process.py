"""`CVImageProcess` and `CVMatrix`, checked against OpenCV."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minnow
from minnow import CVImageProcess, CVMatrix, Tensor
from minnow.errors import MinnowError, UsageError

Array = np.ndarray[Any, Any]
LAST = minnow.Tensor_DimensionType_Tensorflow
BYTES, FLOATS = minnow.Halide_Type_Uint8, minnow.Halide_Type_Float
RGBA, RGB, BGR, GRAY, BGRA = range(5)
CODES = {
    (RGB, GRAY): cv2.COLOR_RGB2GRAY, (BGR, GRAY): cv2.COLOR_BGR2GRAY, (RGBA, GRAY): cv2.COLOR_RGBA2GRAY,
    (BGRA, GRAY): cv2.COLOR_BGRA2GRAY, (GRAY, BGR): cv2.COLOR_GRAY2BGR, (GRAY, RGBA): cv2.COLOR_GRAY2RGBA,
    (RGB, BGRA): cv2.COLOR_RGB2BGRA, (BGRA, RGB): cv2.COLOR_BGRA2RGB, (RGBA, BGRA): cv2.COLOR_RGBA2BGRA,
}  # fmt: skip
PICTURE = np.random.default_rng(0).integers(0, 256, (20, 31, 3)).astype(np.uint8)
SMOOTH = cv2.GaussianBlur(PICTURE, (0, 0), 2)


def converted(image: Any, size: tuple[int, int], channels: int, matrix: Any = None, **config: Any) -> Array:
    process = CVImageProcess(config)
    if matrix is not None:
        process.setMatrix(matrix)
    tensor = Tensor((1, *size, channels), BYTES, LAST)
    process.convert(image, image.shape[1], image.shape[0], 0, tensor)
    return tensor.getNumpyData()[0]


@pytest.mark.parametrize(("pair", "code"), CODES.items())
def test_colors_are_those_of_opencv(pair: tuple[int, int], code: int) -> None:
    channels = {RGBA: 4, RGB: 3, BGR: 3, GRAY: 1, BGRA: 4}
    image = np.random.default_rng(1).integers(0, 256, (7, 9, channels[pair[0]])).astype(np.uint8)
    want = cv2.cvtColor(image, code).reshape(7, 9, channels[pair[1]])
    got = converted(image, (7, 9), channels[pair[1]], sourceFormat=pair[0], destFormat=pair[1])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("filter", "flag"), [(0, cv2.INTER_NEAREST), (1, cv2.INTER_LINEAR), (2, cv2.INTER_CUBIC)])
@pytest.mark.parametrize(("wrap", "border"), [(0, cv2.BORDER_REPLICATE), (2, cv2.BORDER_WRAP)])
def test_a_turned_image_is_that_of_opencv(filter: int, flag: int, wrap: int, border: int) -> None:
    matrix = CVMatrix()
    matrix.setRotate(20, 10, 8)
    matrix.postScale(1.5, 0.75)
    # OpenCV rounds places to 1/32 of a pixel: on a smooth image that is a level or two.
    want = cv2.warpAffine(SMOOTH, matrix.array[:2], (25, 18), flags=flag | cv2.WARP_INVERSE_MAP, borderMode=border)
    got = converted(SMOOTH, (18, 25), 3, matrix, sourceFormat=BGR, destFormat=BGR, filterType=filter, wrap=wrap)
    difference = np.abs(got.astype(int) - want)
    if wrap == 0:
        assert np.quantile(difference, 0.97) <= 2
    else:  # the place between the last and the first pixel is another matter
        assert np.quantile(difference, 0.85) <= 2


def test_a_perspective_is_that_of_opencv() -> None:
    square, corners = [0, 0, 24, 0, 0, 17, 24, 17], [2, 1, 28, 3, 1, 15, 30, 19]
    matrix = CVMatrix()
    matrix.setPolyToPoly(square, corners)
    want = cv2.getPerspectiveTransform(np.float32(square).reshape(4, 2), np.float32(corners).reshape(4, 2))
    np.testing.assert_allclose(matrix.array, want, atol=1e-6)
    warped = cv2.warpPerspective(SMOOTH, want, (25, 18), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    got = converted(SMOOTH, (18, 25), 3, matrix, sourceFormat=BGR, destFormat=BGR, filterType=1)
    assert np.abs(got.astype(int) - warped).max() <= 2


def test_matrices_are_products() -> None:
    one, two = CVMatrix(), CVMatrix()
    one.setScale(2, 3)
    one.postRotate(30, 1, 2)
    one.preTranslate(4, 5)
    two.setTranslate(4, 5)
    two.postScale(2, 3)
    two.postRotate(30, 1, 2)
    np.testing.assert_allclose(one.array, two.array)
    two.invert()
    np.testing.assert_allclose(one.array @ two.array, np.eye(3), atol=1e-12)
    want = cv2.getRotationMatrix2D((1, 2), -30, 1)
    one.setRotate(30, 1, 2)
    np.testing.assert_allclose(one.array[:2], want)
    one.write([9, 8, 7])
    assert one.read()[:4] == pytest.approx([9, 8, 7, want[1, 0]])


def test_a_normalized_image_in_the_order_of_the_tensor() -> None:
    config = {"sourceFormat": BGR, "destFormat": RGB, "mean": (1, 2, 3), "normal": (0.5, 0.25, 0.125)}
    want = (PICTURE[..., ::-1].astype(np.float32) - (1, 2, 3)) * (0.5, 0.25, 0.125)
    process = CVImageProcess(config)
    for order, shape in ((LAST, (1, 20, 31, 3)), (1, (1, 3, 20, 31)), (LAST, (20, 31, 3))):
        tensor = Tensor(shape, FLOATS, order)
        process.convert(PICTURE, 31, 20, 0, tensor)
        got = tensor.getNumpyData()
        np.testing.assert_allclose(
            got.reshape(3, 20, 31).transpose(1, 2, 0) if order else got.reshape(want.shape), want
        )


def test_pixels_come_from_many_places() -> None:
    wide = np.zeros((20, 40, 3), np.uint8)
    wide[:, :31] = PICTURE
    process = CVImageProcess({"sourceFormat": BGR, "destFormat": BGR})
    for source in (wide, wide.tobytes(), wide.ctypes.data, memoryview(wide), wide.tolist(), wide.astype(np.int64)):
        tensor = process.createImageTensor(BYTES, 31, 20, 3)
        process.convert(source, 31, 20, 120, tensor)
        np.testing.assert_array_equal(tensor.getNumpyData()[0], PICTURE)
    same = minnow.CVImageProcess.createImageTensor(BYTES, 31, 20, 3, PICTURE)
    np.testing.assert_array_equal(same.getNumpyData()[0], PICTURE)


SIX = Tensor((1, 2, 1, 3), FLOATS, LAST)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CVImageProcess(3), "a dict"),
        (lambda: CVImageProcess({"source": 1}), "'source' is unknown"),
        (lambda: CVImageProcess({"sourceFormat": 77}), "sourceFormat"),
        (lambda: CVImageProcess({"mean": "abc"}), "mean"),
        (lambda: CVImageProcess({"normal": (1, 2, 3, 4, 5)}), "up to four"),
        (lambda: CVImageProcess({}).setMatrix(np.eye(3)), "CVMatrix"),
        (lambda: CVImageProcess({}).setPadding(256), "0 to 255"),
        (lambda: CVImageProcess({"destFormat": RGB}).convert(b"12345678", 1, 2, 0, SIX.getNumpyData()), "not a Tensor"),
        (
            lambda: CVImageProcess({"destFormat": RGB}).convert(b"1234567", 1, 2, 0, SIX),
            "7 bytes, and the image needs 8",
        ),
        (lambda: CVImageProcess({}).convert(b"12345678", 1, 2, 0, SIX), "destFormat has 4"),
        (lambda: CVImageProcess({"destFormat": RGB}).convert(b"12345678", 0, 2, 0, SIX), "width"),
        (lambda: CVImageProcess({"destFormat": RGB}).convert(b"12345678", 1, 2, 3, SIX), "a row has 4"),
        (lambda: CVImageProcess({"destFormat": RGB}).convert(b"12345678", 2**20, 2**20, 0, SIX), "too large"),
        (lambda: CVImageProcess({"destFormat": RGB}).convert(8, 1, 2, 0, SIX), "address"),
        (lambda: CVImageProcess({"destFormat": RGB}).convert(np.zeros(8), 1, 2, 0, SIX), "uint8"),
        (lambda: CVMatrix().setScale(1), "takes 2 or 4"),
        (lambda: CVMatrix().setScale(1, "a"), "finite"),
        (lambda: CVMatrix().setRotate(float("nan")), "finite"),
        (lambda: CVMatrix().setPolyToPoly([1], [2]), "1 to 4 points"),
        (lambda: CVMatrix().setPolyToPoly([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 3]), "no map"),
        (lambda: CVMatrix().write([1] * 10), "up to 9"),
        (lambda: CVMatrix().write(3), "lists"),
    ],
)
def test_a_wrong_call_is_an_error(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


def test_a_flat_matrix_has_no_inverse() -> None:
    matrix = CVMatrix()
    matrix.write([1, 2, 3, 2, 4, 6, 0, 0, 1])
    with pytest.raises(UsageError, match="no inverse"):
        matrix.invert()


@given(
    st.lists(st.floats(width=32), min_size=9, max_size=9), st.integers(0, 2), st.integers(0, 2),
    st.sampled_from([0, 1, 2, 3, 4, 11]), st.sampled_from([0, 1, 2, 3, 4]), st.integers(0, 9), st.integers(0, 9),
    st.integers(0, 40),
)  # fmt: skip
@settings(max_examples=60)
def test_any_matrix_gives_pixels_or_an_error(
    numbers: list[float], filter: int, wrap: int, source: int, target: int, width: int, height: int, stride: int
) -> None:
    try:
        matrix = CVMatrix()
        matrix.write(numbers)
        process = CVImageProcess({"sourceFormat": source, "destFormat": target, "filterType": filter, "wrap": wrap})
        process.setMatrix(matrix)
        tensor = Tensor((1, 4, 5, {RGBA: 4, GRAY: 1, BGRA: 4}.get(target, 3)), BYTES, LAST)
        process.convert(bytes(300), width, height, stride, tensor)
    except MinnowError:
        return
    assert source == 11 or set(np.unique(tensor.getNumpyData())) <= {0, 255}  # black in NV21 is another number
