"""Functions of one element, of two that are broadcast, comparisons, casts, clips and choices."""

from __future__ import annotations

import numpy as np

from .case import boolean, case, f16, f32, f64, i8, i16, i32, i64, tf, u8, value, weight

WIDE, POSITIVE, UNIT, ABOVE = (-3.0, 3.0), (0.05, 9.0), (-0.97, 0.97), (1.05, 9.0)
SPECIAL = value([[np.nan, np.inf, -np.inf, 0.0], [-0.0, 1e30, -1e30, 0.5]])

UNARY = {
    "abs": WIDE, "negative": WIDE, "exp": WIDE, "expm1": WIDE, "log": POSITIVE, "log1p": POSITIVE, "sqrt": POSITIVE,
    "rsqrt": POSITIVE, "square": WIDE, "sin": WIDE, "cos": WIDE, "tan": (-1.4, 1.4), "asin": UNIT, "acos": UNIT,
    "atan": WIDE, "sinh": WIDE, "cosh": WIDE, "tanh": WIDE, "asinh": WIDE, "acosh": ABOVE, "atanh": UNIT,
    "erf": WIDE, "erfc": WIDE, "sigmoid": WIDE, "softplus": (-9.0, 9.0), "softsign": WIDE, "floor": WIDE, "ceil": WIDE,
    "round": WIDE, "rint": WIDE, "sign": WIDE, "reciprocal": POSITIVE, "lgamma": POSITIVE, "digamma": POSITIVE,
    "erfinv": UNIT, "ndtri": (0.02, 0.98), "bessel_i0e": WIDE, "bessel_i1e": WIDE, "log_sigmoid": WIDE,
    "reciprocal_no_nan": WIDE,
}  # fmt: skip

INTEGER_UNARY = ["abs", "exp", "log", "sqrt", "rsqrt", "square", "sin", "cos", "tanh", "sigmoid", "floor", "softplus"]

for name, (low, high) in UNARY.items():
    case(
        f"unary_{name}",
        [f32(2, 3, 5, low=low, high=high)],
        also="int8 int16" if name in INTEGER_UNARY else "",
    )(lambda x, name=name: getattr(tf.math, name)(x))

for name in ("is_nan", "is_inf", "is_finite", "abs", "floor", "sign", "exp", "tanh", "sigmoid", "reciprocal_no_nan"):
    case(f"special_{name}", [SPECIAL])(lambda x, name=name: getattr(tf.math, name)(x))

for name in ("relu", "relu6", "elu", "selu", "silu", "crelu"):
    case(f"activation_{name}", [f32(1, 5, 7, low=-9, high=9)], also="int8 int16")(
        lambda x, name=name: getattr(tf.nn, name)(x)
    )

for dtype, given in {"f64": f64, "i32": i32, "i64": i64, "f16": f16, "i8": i8, "i16": i16}.items():
    kinds = "tf lite" if dtype in ("i32", "i64") else "tf"
    case(f"simple_{dtype}", [given(3, 7, low=-9, high=9)], kinds=kinds)(lambda x: (tf.square(x), -x))
    case(f"abs_{dtype}", [given(3, 7)], kinds="tf" if dtype != "i32" else kinds)(lambda x: tf.abs(x))
    case(f"sign_{dtype}", [given(3, 7)], kinds="tf" if dtype != "i32" else kinds)(lambda x: tf.sign(x))

case("leaky_relu", [f32(3, 5)], also="int8 uint8 int16")(lambda x: tf.nn.leaky_relu(x, 0.3))
case("prelu", [f32(1, 3, 5, 7)], also="int8")(lambda x: tf.nn.relu(x) + weight(7) * (x - tf.abs(x)) * 0.5)
case("gelu_exact", [f32(3, 5)], also="int8")(lambda x: tf.nn.gelu(x, approximate=False))
case("gelu_tanh", [f32(3, 5)], also="int8")(lambda x: tf.nn.gelu(x, approximate=True))
case("hard_swish", [f32(1, 5, 7, low=-6, high=6)], also="int8 uint8")(lambda x: x * tf.nn.relu6(x + 3) / 6)
case("relu_n1_to_1", [f32(3, 5)], also="int8")(lambda x: tf.clip_by_value(x, -1.0, 1.0))
case("relu_0_to_1", [f32(3, 5)], also="int8")(lambda x: tf.clip_by_value(x, 0.0, 1.0))
case("clip_by_tensor", [f32(3, 5), f32(5, low=-1, high=0), f32(3, 1, low=0, high=1)])(
    lambda x, lo, hi: tf.clip_by_value(x, lo, hi)
)
case("clip_integers", [i32(3, 5)])(lambda x: tf.clip_by_value(x, -7, 11))
case("unary_of_nothing", [f32(0, 3)])(lambda x: tf.exp(x) + 1.0)
case("unary_of_scalar", [f32()])(lambda x: tf.sin(x))

BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "squared_difference"]
ALSO = dict.fromkeys(BINARY, "int8 uint8 int16 int8_float")
for name in BINARY:
    case(f"binary_{name}", [f32(2, 1, 5), f32(3, 1)], also=ALSO[name])(lambda x, y, n=name: getattr(tf.math, n)(x, y))
    case(f"binary_{name}_constant", [f32(2, 3, 5)], also="int8")(lambda x, n=name: getattr(tf.math, n)(x, weight(5)))
    for dtype, given in {"i32": i32, "i64": i64}.items():
        case(f"binary_{name}_{dtype}", [given(2, 3, 5), given(1, 5)])(lambda x, y, n=name: getattr(tf.math, n)(x, y))
for name in ("add", "multiply", "maximum"):
    for dtype, given in {"f16": f16, "f64": f64}.items():
        case(f"binary_{name}_{dtype}", [given(2, 3, 5), given(1, 5)], kinds="tf")(
            lambda x, y, n=name: getattr(tf.math, n)(x, y)
        )

for name in ("maximum", "minimum", "add"):
    case(f"binary_{name}_u8", [u8(7, 3, high=99), u8(3, high=99)])(lambda x, y, n=name: getattr(tf.math, n)(x, y))
    case(f"special_{name}", [SPECIAL, value([1.0, -2.0, np.inf, 0.0])])(lambda x, y, n=name: getattr(tf.math, n)(x, y))
for name in ("floordiv", "floormod", "truediv", "pow", "atan2", "divide_no_nan", "multiply_no_nan", "xdivy", "xlogy"):
    case(
        f"binary_{name}",
        [f32(2, 3, 5, low=0.1, high=4), f32(3, 1, low=0.3, high=2)],
        also="int8" if name == "truediv" else "",
    )(lambda x, y, n=name: getattr(tf.math, n)(x, y))
case("binary_truediv_by_zero", [f32(2, 3), value([0.0, 1.0, -0.0])])(lambda x, y: x / y)
case("binary_divide_no_nan_by_zero", [f32(2, 3), value([0.0, 1.0, -0.0])])(lambda x, y: tf.math.divide_no_nan(x, y))
case("binary_pow_constant_exponents", [f32(4, 5, low=0.1)])(lambda x: (x**2.0, x**0.5, x**-1.0, x**3.0, x**1.7))
case("binary_pow_i32", [i32(3, 4, low=-4, high=5), i32(4, low=0, high=5)])(lambda x, y: x**y)
for dtype, given in {"i32": i32, "i64": i64}.items():
    odd = value([[3, -4, 7, -1, 5]], np.int32 if dtype == "i32" else np.int64)
    case(f"floordiv_{dtype}", [given(3, 5), odd])(lambda x, y: x // y)
    case(f"floormod_{dtype}", [given(3, 5), odd])(lambda x, y: x % y)
    case(f"truncatediv_{dtype}", [given(3, 5), odd], kinds="tf")(lambda x, y: tf.truncatediv(x, y))
    case(f"truncatemod_{dtype}", [given(3, 5), odd], kinds="tf")(lambda x, y: tf.truncatemod(x, y))
case("floordiv_negative", [f32(3, 5), f32(5, low=-2, high=-0.5)])(lambda x, y: x // y)
case("floormod_negative", [f32(3, 5), f32(5, low=-2, high=-0.5)])(lambda x, y: x % y)
case("truncatemod_f32", [f32(3, 5), f32(5, low=0.5, high=2)], kinds="tf")(lambda x, y: tf.truncatemod(x, y))

for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
    case(f"compare_{name}", [f32(2, 1, 5), f32(3, 1)], also="int8")(lambda x, y, n=name: getattr(tf.math, n)(x, y))
    case(f"compare_{name}_i64", [i64(3, 5, low=0, high=3), i64(5, low=0, high=3)])(
        lambda x, y, n=name: getattr(tf.math, n)(x, y)
    )
for name in ("less", "equal", "not_equal"):
    case(f"compare_{name}_special", [SPECIAL, SPECIAL])(lambda x, y, n=name: getattr(tf.math, n)(x, y))
case("compare_equal_bool", [boolean(3, 5), boolean(5)])(lambda x, y: (x == y, x != y))
for name in ("logical_and", "logical_or", "logical_xor"):
    case(name, [boolean(3, 1, 5), boolean(2, 1)])(lambda x, y, n=name: getattr(tf.math, n)(x, y))
case("logical_not", [boolean(3, 5)])(lambda x: ~x)
for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
    case(name, [i32(3, 5, low=0, high=99), i32(5, low=0, high=7)])(lambda x, y, n=name: getattr(tf.bitwise, n)(x, y))
case("bitwise_invert_u8", [u8(3, 5)])(lambda x: tf.bitwise.invert(x))
case("right_shift_negative", [i32(3, 5)])(lambda x: tf.bitwise.right_shift(x, 2))

TARGETS = ("float32", "int32", "int64", "uint8", "bool", "float16", "float64", "int8")
for source, given in {"f32": f32(3, 5, low=0, high=9), "i32": i32(3, 5, low=0), "i64": i64(3, 5, low=0)}.items():
    for target in TARGETS:
        case(f"cast_{source}_to_{target}", [given])(lambda x, t=target: tf.cast(x, t))
for source, given in {"u8": u8(3, 5), "bool": boolean(3, 5), "f64": f64(3, 5), "f16": f16(3, 5)}.items():
    kinds = "tf" if source.startswith("f") else "tf lite"
    case(f"cast_from_{source}", [given], kinds=kinds)(lambda x: (tf.cast(x, tf.float32), tf.cast(x, tf.int32)))
case("cast_truncates", [value([-2.7, -0.5, 0.5, 2.7, 99.99])])(lambda x: tf.cast(x, tf.int32))
case("bitcast", [f32(3, 5)])(lambda x: tf.bitcast(x, tf.int32))

case("where", [boolean(3, 1, 5), f32(2, 1), f32(3, 2, 5)], also="int8")(lambda c, x, y: tf.where(c, x, y))
case("where_constants", [f32(3, 5)])(lambda x: tf.where(x > 0, x, -1.0))
case("where_i32", [boolean(3, 5), i32(3, 5), i32(5)])(lambda c, x, y: tf.where(c, x, y))
case("where_indices", [boolean(3, 5)])(lambda c: tf.where(c))
case("where_indices_of_floats", [value([[0, 1, 0], [2, 0, 0]])])(lambda x: tf.where(x))
case("select_v1_rows", [boolean(3), f32(3, 5), f32(3, 5)], also="int8")(lambda c, x, y: tf.compat.v1.where(c, x, y))
case("add_n", [f32(3, 5), f32(3, 5), f32(3, 5)], also="int8")(lambda x, y, z: tf.add_n([x, y, z]))
case("accumulate", [f32(3, 5), f32(3, 5)])(lambda x, y: tf.math.accumulate_n([x, y]))
case("lerp", [f32(3, 5), f32(3, 5), f32(1, 5, low=0, high=1)])(lambda x, y, t: x + t * (y - x))
case("polyval", [f32(7)])(lambda x: tf.math.polyval([1.0, -2.0, 0.5], x))
case("stop_gradient", [f32(3, 5)])(lambda x: tf.stop_gradient(tf.identity(x)) * 2.0)
case("complex_parts", [f32(3, 5), f32(3, 5)], kinds="tf")(
    lambda x, y: (tf.math.real(z := tf.complex(x, y) * tf.complex(y, x)), tf.math.imag(z), tf.abs(z))
)
case("fake_quant_args", [f32(3, 5, low=-8, high=8)], also="int8")(
    lambda x: tf.quantization.fake_quant_with_min_max_args(x, -5.0, 6.0)
)
case("fake_quant_vars_narrow", [f32(3, 5)], kinds="tf")(
    lambda x: tf.quantization.fake_quant_with_min_max_vars(x, -1.5, 2.0, 4, narrow_range=True)
)
case("fake_quant_per_channel", [f32(3, 5)], kinds="tf")(
    lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, weight(5, low=-2, high=-1), weight(5, low=1))
)
