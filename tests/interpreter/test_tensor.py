"""`Tensor`: making, reading and copying, in all types and orders of axes."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minnow
from minnow.errors import MinnowError, UsageError
from minnow.interpreter import (
    Halide_Type_Double,
    Halide_Type_Float,
    Halide_Type_Int,
    Halide_Type_Int64,
    Halide_Type_String,
    Halide_Type_Uint8,
    Tensor,
    Tensor_DimensionType_Caffe,
    Tensor_DimensionType_Caffe_C4,
    Tensor_DimensionType_Tensorflow,
)

TYPES = [Halide_Type_Double, Halide_Type_Float, Halide_Type_Int, Halide_Type_Int64, Halide_Type_Uint8]
ORDERS = [Tensor_DimensionType_Tensorflow, Tensor_DimensionType_Caffe, Tensor_DimensionType_Caffe_C4]
CAFFE, LAST = Tensor_DimensionType_Caffe, Tensor_DimensionType_Tensorflow


@pytest.mark.parametrize("type", TYPES, ids=repr)
def test_all_types_keep_their_numbers(type: Any) -> None:
    """MNN 3.6.1 gives garbage for getNumpyData of integers, and refuses doubles."""
    array = np.arange(6).astype(type.dtype).reshape(2, 3)
    for data in (array, array.tolist(), tuple(array.ravel().tolist()), array.tobytes(), memoryview(array), array[::1]):
        tensor = Tensor((2, 3), type, data, CAFFE)
        np.testing.assert_array_equal(tensor.getNumpyData(), array)
        assert tensor.getNumpyData().dtype == array.dtype
        assert tensor.getData() == tuple(range(6))
        assert tensor.getDataType() == type
        assert tensor.getShape() == (2, 3)


def test_a_transposed_array_is_taken_in_its_order() -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)[::2]
    tensor = Tensor(array.shape, Halide_Type_Float, array, CAFFE)
    np.testing.assert_array_equal(tensor.getNumpyData(), array)


@pytest.mark.parametrize("source", ORDERS)
@pytest.mark.parametrize("target", ORDERS)
def test_a_copy_changes_the_order_of_axes(source: int, target: int) -> None:
    array = np.arange(2 * 3 * 4 * 5, dtype=np.int32).reshape(2, 3, 4, 5)  # channels first
    orders = {o: array.transpose(0, 2, 3, 1) if o == LAST else array for o in ORDERS}
    one = Tensor(orders[source].shape, Halide_Type_Int, orders[source], source)
    two = Tensor(orders[target].shape, Halide_Type_Int, target)
    assert two.copyFrom(one)
    np.testing.assert_array_equal(two.getNumpyData(), orders[target])
    three = Tensor(one, target)
    np.testing.assert_array_equal(three.getNumpyData(), orders[target])
    assert three.getDimensionType() == (LAST if target == LAST else CAFFE)
    one.fromNumpy(np.zeros_like(orders[source]))
    assert two.copyToHostTensor(one)
    np.testing.assert_array_equal(one.getNumpyData(), orders[source])
    assert one.copyFromHostTensor(two)


def test_axes_of_size_one_may_be_missing() -> None:
    wide = Tensor((1, 5, 1, 1), Halide_Type_Float, range(5), CAFFE)
    flat = Tensor((1, 5), Halide_Type_Float, CAFFE)
    assert flat.copyFrom(wide)
    assert flat.getData() == (0, 1, 2, 3, 4)


def test_a_tensor_of_a_var() -> None:
    from minnow import expr

    image = expr.Var(np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4))
    assert Tensor(image).getDimensionType() == CAFFE
    moved = expr.convert(image, expr.NHWC)
    assert Tensor(moved).getShape() == (1, 3, 4, 2)
    np.testing.assert_array_equal(Tensor(moved, CAFFE).getNumpyData(), image.read())


def test_addresses() -> None:
    array = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(Tensor((1000,), Halide_Type_Float, array.ctypes.data, CAFFE).getNumpyData(), array)
    host = Tensor((1000,), Halide_Type_Float, array, CAFFE).getHost()
    gc.collect()  # the address keeps the numbers alive
    np.testing.assert_array_equal(Tensor((10, 100), Halide_Type_Float, host, CAFFE).getNumpyData().ravel(), array)
    for address in (0, 1, -5, 8, 2**62, 2**64, 0xDEADBEEF000):
        with pytest.raises(UsageError, match="address"):
            Tensor((1000,), Halide_Type_Float, address, CAFFE)
    with pytest.raises(UsageError, match="4004 bytes are wanted of an array of 4000"):
        Tensor((1001,), Halide_Type_Float, host, CAFFE)


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    Tensor((2, 2), Halide_Type_Int, (1, 2, 3, 4), CAFFE).printTensorData()
    assert "3, 4" in capsys.readouterr().out


FLOATS = Tensor((2, 3), Halide_Type_Float, CAFFE)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Tensor(), "1 to 4 arguments"),
        (lambda: Tensor(3), "neither a Tensor nor a Var"),
        (lambda: Tensor(FLOATS), "dimension type"),
        (lambda: Tensor(FLOATS, 3), "order of axes"),
        (lambda: Tensor((2,), Halide_Type_String, ("a", "b"), CAFFE), "texts"),
        (lambda: Tensor((2,), np.float32, (1, 2), CAFFE), "element type"),
        (lambda: Tensor((2,), Halide_Type_Float, (1, 2), "Caffe"), "order of axes"),
        (lambda: Tensor((-1,), Halide_Type_Float, (1, 2), CAFFE), "not a shape"),
        (lambda: Tensor((2**30, 2**30), Halide_Type_Float, CAFFE), "not a shape"),
        (lambda: Tensor((2.0,), Halide_Type_Float, (1, 2), CAFFE), "not a shape"),
        (lambda: Tensor((3,), Halide_Type_Float, (1, 2), CAFFE), "2 elements are given for a tensor of 3"),
        (lambda: Tensor((3,), Halide_Type_Float, b"ab", CAFFE), "2 bytes are given for 3"),
        (lambda: Tensor((2,), Halide_Type_Float, np.zeros(2, np.int32), CAFFE), r"astype\(float32\)"),
        (lambda: Tensor((2,), Halide_Type_Float, ("a", "b"), CAFFE), "type <U1"),
        (lambda: Tensor((2,), Halide_Type_Float, None, CAFFE), "NoneType"),
        (lambda: Tensor((2,), Halide_Type_Uint8, (1, 300), CAFFE), "do not fit"),
        (lambda: Tensor((2,), Halide_Type_Int, (1, 1.5), CAFFE), "do not fit"),
        (lambda: Tensor((2,), Halide_Type_Int, np.array([1, 2**40]), CAFFE), "int64"),
        (lambda: Tensor((2,), Halide_Type_Float, [[1], [2, 3]], CAFFE), "no array"),
        (lambda: FLOATS.copyFrom(Tensor((3, 2), Halide_Type_Float, CAFFE)), "shape"),
        (lambda: FLOATS.copyFrom(Tensor((2, 3), Halide_Type_Int, CAFFE)), "int32"),
        (lambda: FLOATS.copyToHostTensor(np.zeros((2, 3))), "a Tensor"),
        (lambda: FLOATS.fromNumpy(np.zeros(7)), "shape"),
        (lambda: FLOATS.fromNumpy(np.zeros((2, 3), object)), "object"),
    ],
)
def test_a_wrong_call_is_an_error(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


ANYTHING: Any = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3), st.binary(max_size=9),
    st.lists(st.integers(-3, 300), max_size=4), st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from([*TYPES, Halide_Type_String, *ORDERS, 3, FLOATS, np.zeros((2, 3)), np.zeros((3, 2), np.int16).T,
                     np.array("x"), np.array([None]), np.zeros(0), {}, object(), minnow]),
)  # fmt: skip


def test_an_array_without_axes_is_no_shape() -> None:
    with pytest.raises(UsageError, match="is not a shape"):
        Tensor(np.array(3), Halide_Type_Float, FLOATS, ORDERS[0])


@given(st.lists(ANYTHING, max_size=5))
@settings(max_examples=300)
def test_anything_makes_a_tensor_or_an_error(arguments: list[Any]) -> None:
    try:
        tensor = Tensor(*arguments)
    except MinnowError:
        return
    assert len(tensor.getData()) == int(np.prod(tensor.getShape()))
