"""Each element type has its own arithmetic: integers wrap at their width, floats have NaN, infinities and signed zeros.

The judges are Python's integers, which know no width, Python's `math`, and numpy; not the references of the ops.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.ir import DType
from minnow.schema.ops import get

Array = np.ndarray[Any, Any]

INTEGERS = [np.dtype(t) for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")]
FLOATS = [np.dtype(t) for t in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)]


def run(name: str, operands: list[Array], n_outputs: int = 1, **attrs: Any) -> list[Array]:
    """The op by the engine, after its reference has given the same."""
    got = [np.asarray(a) for a in _engine.run_op(name, attrs, operands, n_outputs, 1, False)]
    for a, b in zip(got, get(name).evaluate(operands, attrs), strict=False):
        assert a.dtype == b.dtype, name
        if a.dtype.kind in "iub":
            np.testing.assert_array_equal(a, b, err_msg=f"{name} and its reference differ")
    return got


def wrapped(numbers: Any, dtype: np.dtype[Any]) -> Array:
    """Python's integers as the type has them."""
    array = np.asarray(numbers, object)
    bits = 8 * dtype.itemsize
    flat = [int(n) % 2**bits for n in array.reshape(-1)]
    if dtype.kind == "i":
        flat = [n - 2**bits if n >= 2 ** (bits - 1) else n for n in flat]
    return np.array(flat, dtype).reshape(array.shape)


def numbers(dtype: np.dtype[Any]) -> Array:
    """Both ends of the type, what lies beside them, powers of two and small numbers."""
    info = np.iinfo(dtype)
    near = {0, 1, 2, 3, 5, 7, 10, 100, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, info.max // 3}
    near |= {2**k for k in range(0, 64, 5)}
    if dtype.kind == "i":
        near |= {-n for n in near} | {info.min}
    return np.array(sorted(n for n in near if info.min <= n <= info.max), dtype)


def pairs(dtype: np.dtype[Any]) -> tuple[Array, Array, list[tuple[int, int]]]:
    x = numbers(dtype)
    a, b = (np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(x, x))
    return a, b, list(zip(a.tolist(), b.tolist(), strict=True))


def truncated(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 2**64) if b > 64 else a**b
    return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


BINARY: dict[str, Callable[[int, int], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": truncated,
    "FloorDiv": lambda a, b: 0 if b == 0 else a // b,
    "Max": max,
    "Min": min,
    "Pow": power,
    "SquaredDifference": lambda a, b: (a - b) ** 2,
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "Equal": operator.eq,
    "NotEqual": operator.ne,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_integers_wrap_around(name: str, dtype: np.dtype[Any]) -> None:
    a, b, rows = pairs(dtype)
    want = wrapped([BINARY[name](x, y) for x, y in rows], dtype)
    np.testing.assert_array_equal(run(name, [a, b])[0], want)
    # A single number beside a row goes another way.
    at = len(a) // 2
    np.testing.assert_array_equal(
        run(name, [a, b[at : at + 1]])[0], wrapped([BINARY[name](x, int(b[at])) for x in a.tolist()], dtype)
    )


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("fmod", [False, True])
def test_remainders(fmod: bool, dtype: np.dtype[Any]) -> None:
    a, b, rows = pairs(dtype)
    want = [0 if y == 0 else x - y * (truncated(x, y) if fmod else x // y) for x, y in rows]
    np.testing.assert_array_equal(run("Mod", [a, b], fmod=fmod)[0], wrapped(want, dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(direction: str, dtype: np.dtype[Any]) -> None:
    x = numbers(dtype)
    by = np.arange(8 * dtype.itemsize, dtype=dtype)
    a, b = (np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(x, by))
    shift = operator.lshift if direction == "LEFT" else operator.rshift
    want = wrapped([shift(n, k) for n, k in zip(a.tolist(), b.tolist(), strict=True)], dtype)
    np.testing.assert_array_equal(run("BitShift", [a, b], direction=direction)[0], want)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", COMPARE)
def test_integers_are_compared_by_value(name: str, dtype: np.dtype[Any]) -> None:
    a, b, rows = pairs(dtype)
    np.testing.assert_array_equal(run(name, [a, b])[0], [COMPARE[name](x, y) for x, y in rows])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Neg", operator.neg), ("Abs", abs), ("Sign", lambda x: (x > 0) - (x < 0)), ("Square", lambda x: x * x),
        ("Relu", lambda x: max(x, 0)), ("BitwiseNot", operator.invert),
    ],
)  # fmt: skip
def test_one_integer(name: str, function: Callable[[int], int], dtype: np.dtype[Any]) -> None:
    x = numbers(dtype)
    np.testing.assert_array_equal(run(name, [x])[0], wrapped([function(n) for n in x.tolist()], dtype))


def product(row: list[int]) -> int:
    return math.prod(row)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("ReduceSum", sum), ("ReduceProd", product), ("ReduceMax", max), ("ReduceMin", min),
        ("ReduceL1", lambda row: sum(map(abs, row))), ("ReduceSumSquare", lambda row: sum(n * n for n in row)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_integers_wrap(name: str, function: Any, axis: int, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(3)
    x = rng.choice(numbers(dtype), (37, 23))
    rows = (x.T if axis == 0 else x).tolist()
    got = run(name, [x], axes=(axis,), keepdims=False)[0]
    np.testing.assert_array_equal(got, wrapped([function(row) for row in rows], dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_running_sums_and_products_of_matrices_wrap(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.choice(numbers(dtype), (5, 17)), rng.choice(numbers(dtype), (17, 6))
    running = np.cumsum(x.astype(object), axis=1)
    np.testing.assert_array_equal(run("CumSum", [x, np.array(1, np.int64)])[0], wrapped(running, dtype))
    running = np.cumprod(x.astype(object), axis=1)
    np.testing.assert_array_equal(run("CumProd", [x, np.array(1, np.int64)])[0], wrapped(running, dtype))
    if dtype.itemsize >= 4:
        np.testing.assert_array_equal(run("MatMul", [x, y])[0], wrapped(x.astype(object) @ y.astype(object), dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_order_of_integers(dtype: np.dtype[Any]) -> None:
    x = np.random.default_rng(5).permutation(numbers(dtype))
    largest, place = run("TopK", [x, np.array([4], np.int64)], 2)
    np.testing.assert_array_equal(largest, np.sort(x)[::-1][:4])
    np.testing.assert_array_equal(x[place], largest)
    assert run("ArgMin", [x], axis=0, keepdims=False)[0] == x.argmin()
    assert run("ArgMax", [x], axis=0, keepdims=False)[0] == x.argmax()
    unique = run("Unique", [np.concatenate([x, x])], 1)[0]
    np.testing.assert_array_equal(unique, np.sort(x))


@pytest.mark.parametrize("to", INTEGERS, ids=str)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_casts_of_integers_wrap(dtype: np.dtype[Any], to: np.dtype[Any]) -> None:
    x = numbers(dtype)
    np.testing.assert_array_equal(run("Cast", [x], to=DType.of(to))[0], wrapped(x.tolist(), to))


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 100.0, math.inf, -math.inf, math.nan]


def special(dtype: np.dtype[Any]) -> tuple[Array, Array]:
    x = np.array(SPECIAL).astype(dtype)
    return tuple(np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(x, x))  # type: ignore[return-value]


def assert_same_floats(got: Array, want: Array, zeros: bool = True) -> None:
    """Equal, NaN included, and with `zeros` also in the sign of zeros."""
    g, w = got.astype(np.float64), np.asarray(want).astype(got.dtype).astype(np.float64)
    np.testing.assert_array_equal(g, w)
    if zeros:
        some = ~np.isnan(w)
        np.testing.assert_array_equal(np.signbit(g[some]), np.signbit(w[some]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", COMPARE)
def test_nan_is_neither_less_nor_equal_nor_greater(name: str, dtype: np.dtype[Any]) -> None:
    a, b = special(dtype)
    want = [COMPARE[name](x, y) for x, y in zip(a.astype(float), b.astype(float), strict=True)]
    np.testing.assert_array_equal(run(name, [a, b])[0], want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Add", np.add),
        ("Sub", np.subtract),
        ("Mul", np.multiply),
        ("Div", np.divide),
        ("Mod", np.fmod),
        ("Pow", np.power),
    ],
)
def test_floats_have_signed_zeros_and_infinities(name: str, function: Any, dtype: np.dtype[Any]) -> None:
    a, b = special(dtype)
    attrs = {"fmod": True} if name == "Mod" else {}
    with np.errstate(all="ignore"):
        assert_same_floats(run(name, [a, b], **attrs)[0], function(a.astype(np.float64), b.astype(np.float64)))
        # One exponent, or one divisor, for all.
        for y in np.array(SPECIAL).astype(dtype):
            one = np.full((), y, dtype)
            want = function(a.astype(np.float64), np.full(a.shape, one, np.float64))
            assert_same_floats(run(name, [a, one], **attrs)[0], want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_larger_of_nan_and_a_number_is_nan(dtype: np.dtype[Any]) -> None:
    a, b = special(dtype)
    wide = a.astype(np.float64), b.astype(np.float64)
    assert_same_floats(run("Max", [a, b])[0], np.maximum(*wide), zeros=False)
    assert_same_floats(run("Min", [a, b])[0], np.minimum(*wide), zeros=False)
    x = np.array(SPECIAL).astype(dtype)
    assert np.isnan(run("ReduceMax", [x], keepdims=False)[0].astype(float))
    assert np.isnan(run("ReduceMin", [x], keepdims=False)[0].astype(float))
    assert_same_floats(run("Clip", [x], min=-1.0, max=2.0)[0], np.clip(x.astype(float), -1, 2), zeros=False)
    assert_same_floats(run("Relu", [x])[0], np.maximum(x.astype(float), 0), zeros=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Neg", np.negative), ("Abs", np.abs), ("Sign", np.sign), ("Sqrt", np.sqrt), ("Floor", np.floor),
        ("Ceil", np.ceil), ("Round", np.round), ("Reciprocal", np.reciprocal), ("Square", np.square),
    ],
)  # fmt: skip
def test_one_special_number(name: str, function: Any, dtype: np.dtype[Any]) -> None:
    x = np.array(SPECIAL).astype(dtype)
    with np.errstate(all="ignore"):
        # The sign of 0 is 0, of either sign.
        assert_same_floats(run(name, [x])[0], function(x.astype(np.float64)), zeros=name != "Sign")


def test_floats_beyond_an_integer_give_its_least_number() -> None:
    x = np.array([math.nan, math.inf, -math.inf, 3e9, -3e9, 1e30], np.float32)
    least = np.iinfo(np.int32).min
    np.testing.assert_array_equal(
        np.asarray(_engine.run_op("Cast", {"to": DType.I32}, [x], 1, 1, False)[0]), [least] * 6
    )


DOUBLE: list[tuple[str, Callable[[float], float]]] = [
    ("Exp", math.exp), ("Log", math.log), ("Sin", math.sin), ("Cos", math.cos), ("Tan", math.tan), ("Tanh", math.tanh),
    ("Sinh", math.sinh), ("Cosh", math.cosh), ("Erf", math.erf), ("Sqrt", math.sqrt), ("Asinh", math.asinh),
    ("Atan", math.atan), ("Sigmoid", lambda x: 1 / (1 + math.exp(-x))), ("Softplus", lambda x: math.log1p(math.exp(x))),
    ("Gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2), ("Log1p", math.log1p), ("Expm1", math.expm1),
    ("Rsqrt", lambda x: 1 / math.sqrt(x)), ("Silu", lambda x: x / (1 + math.exp(-x))), ("Erfc", math.erfc),
    ("Reciprocal", lambda x: 1 / x), ("Square", lambda x: x * x),
    ("Mish", lambda x: x * math.tanh(math.log1p(math.exp(x)))), ("Softsign", lambda x: x / (1 + abs(x))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), DOUBLE, ids=[n for n, _ in DOUBLE])
def test_doubles_are_computed_as_doubles(name: str, function: Callable[[float], float]) -> None:
    x = np.random.default_rng(6).uniform(0.1, 3, 101)
    (got,) = run(name, [x])
    np.testing.assert_allclose(got, [function(v) for v in x.tolist()], rtol=1e-14)


def test_sums_of_doubles_are_sums_of_doubles() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((7, 33)), rng.standard_normal((33, 5))
    exact = [[math.fsum(a[i] * b[:, j]) for j in range(5)] for i in range(7)]
    np.testing.assert_allclose(run("MatMul", [a, b])[0], exact, rtol=0, atol=1e-14)
    np.testing.assert_allclose(run("Linear", [a, np.ascontiguousarray(b.T)])[0], exact, rtol=0, atol=1e-14)
    x = a.reshape(1, 7, 33)
    w = rng.standard_normal((3, 7, 4))
    conv = run("Conv", [x, w], strides=(1,), pads=(0, 0), dilations=(1,))[0]
    want = [[math.fsum((w[o] * x[0, :, i : i + 4]).reshape(-1)) for i in range(30)] for o in range(3)]
    np.testing.assert_allclose(conv[0], want, rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        run("ReduceSum", [a], axes=(1,), keepdims=False)[0], [math.fsum(r) for r in a], atol=1e-13
    )
    rows = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(run("Softmax", [a], axis=1)[0], rows / rows.sum(1, keepdims=True), rtol=1e-13)
    mean = a.mean(1, keepdims=True)
    normal = (a - mean) / np.sqrt(((a - mean) ** 2).mean(1, keepdims=True) + 0.25)
    np.testing.assert_allclose(run("LayerNorm", [a], axis=-1, epsilon=0.25)[0], normal, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(run("CumSum", [a, np.array(1)])[0], np.cumsum(a, 1), atol=1e-13)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_rows_of_two_are_the_same_together_and_alone(name: str) -> None:
    rng = np.random.default_rng(0)
    for rows in (1, 3, 16, 37):
        x = (rng.standard_normal((rows, 2)) * 10).astype(np.float32)
        for odd in (np.nan, np.inf, -np.inf):
            x[rng.random((rows, 2)) < 0.05] = odd
        alone = np.concatenate([run(name, [row[None]])[0] for row in x])
        np.testing.assert_array_equal(run(name, [x])[0], alone)
        np.testing.assert_allclose(alone, get(name).evaluate([x], {})[0], rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["GridSample", "RoiAlign", "MaxRoiPool"])
def test_images_of_doubles_are_sampled_as_doubles(name: str) -> None:
    third = 1 / 3
    for sample in get(name).cases():
        if any(a is not None and a.dtype == np.float16 for a in sample.inputs):
            continue
        # Numbers that float32 has not; places stay, so that none comes to lie on the other side of an edge.
        operands = [a if a is None or a.dtype != np.float32 else a.astype(np.float64) for a in sample.inputs]
        operands[0] = operands[0] * third
        attrs = {k: v for k, v in sample.attrs.items() if v is not None}
        (got,) = run(name, operands, **attrs)
        (want,) = get(name).evaluate(operands, attrs)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-13 * max(1.0, np.abs(want).max(initial=0)))
        assert got.size == 0 or not got.any() or (got.astype(np.float32) != got).any()


@pytest.mark.parametrize("scale", [1.0, 0.25, -2.0, 3.0])
def test_middles_between_integers_are_quantized_to_even(scale):
    x = (np.arange(-701, 702, dtype=np.float32) / 2) * np.float32(scale)
    (got,) = run("QuantizeLinear", [x, np.float32(scale), np.uint8(7)], to=DType.U8)
    expected = [min(max(round(n / 2) + 7, 0), 255) for n in range(-701, 702)]
    assert got.tolist() == expected


@pytest.mark.parametrize("to", [DType.U8, DType.I8, DType.I16])
def test_numbers_near_the_middle_and_special_ones_are_quantized_as_the_reference_does(to):
    rng = np.random.default_rng(to.bits)
    info = np.iinfo(str(to.numpy))
    for scale in np.float32([0.02, 1.0, -0.03, 1 / 3, 3.7, 1e-3, 1e-20]):
        n = int(rng.integers(1, 700))
        x = ((rng.integers(-400, 400, n) + rng.choice([0, 0.5, 0.25], n)) * scale).astype(np.float32)
        x = np.nextafter(x, np.float32(rng.choice([-np.inf, 0, np.inf])))
        x[rng.integers(0, n, 3)] = [np.nan, np.inf, -np.inf]
        zero = np.asarray(rng.integers(info.min, info.max + 1), to.numpy)
        with np.errstate(all="ignore"):
            (want,) = get("QuantizeLinear").evaluate([x, scale, zero], {"to": to})
            (back,) = get("DequantizeLinear").evaluate([want, scale, zero], {})
        (got,) = run("QuantizeLinear", [x, scale, zero], to=to)
        assert got.tolist() == want.tolist()
        (got,) = run("DequantizeLinear", [want, scale, zero])
        assert got.tolist() == back.tolist()


@pytest.mark.parametrize("n", [0, 1, 15, 17, 67, 1031])
def test_sums_of_32_bits_wrap(n):
    x = np.array([[2**31 - 1 - i for i in range(n)], [-(2**31) + i for i in range(n)]], np.int32).reshape(2, n)
    (got,) = run("ReduceSum", [x], axes=(1,), keepdims=False)
    expected = [sum(row) for row in x.tolist()]
    assert got.tolist() == [(s + 2**31) % 2**32 - 2**31 for s in expected]


@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("int8", "int16", "int32", "int64")])
def test_elements_of_many_lines_are_gathered(dtype: np.dtype[Any]) -> None:
    """Also more of them than are looked for at once, from the end of a line, and where an index is beyond it."""
    x = np.arange(3 * 37 * 11).reshape(3, 37, 11).astype(dtype)
    at = np.arange(-11, 700) % 22 - 11
    (got,) = run("Gather", [x, at], axis=2)
    np.testing.assert_array_equal(got, np.take(x, at % 11, axis=2))
    with pytest.raises(Exception, match="11"):
        _engine.run_op("Gather", {"axis": 2}, [x, np.append(at, 11)], 1, 1, False)


def test_quotients_beside_integers() -> None:
    """32 bits, beside multiples of the divisor, which is where a quotient that is rounded would become the next one."""
    rng = np.random.default_rng(0)
    ends = -(2**31), 2**31 - 1
    divisors = np.concatenate([rng.integers(*ends, 20000) >> rng.integers(0, 31, 20000), [0, -1, 1, *ends]])
    factors = rng.integers(*ends, divisors.size) // np.maximum(1, np.abs(divisors))
    for beside in (-1, 0, 1):
        x = np.clip(divisors * factors + beside, *ends).astype(np.int32)
        x[::17] = ends[0]
        y = divisors.astype(np.int32)
        want = [
            0 if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
            for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
        (got,) = run("Div", [x, y])
        np.testing.assert_array_equal(got, wrapped(want, np.dtype(np.int32)))
