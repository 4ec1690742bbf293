"""Branches, loops, tensor arrays and lists, functions that call functions."""

from __future__ import annotations

import numpy as np

from .case import boolean, case, f32, i32, tf, value, weight

ALL = "tf v1 lite"
X = f32(3, 5)
YES, NO = value(True, np.bool_), value(False, np.bool_)


def declare(name, given, kinds=ALL):
    return case(f"control_{name}", given, kinds=kinds)


for word, flag in {"then": YES, "else": NO}.items():
    declare(f"cond_{word}", [flag, X])(lambda p, x: tf.cond(p, lambda: x * 2.0, lambda: tf.exp(x)))
    declare(f"cond_two_results_{word}", [flag, X, f32(3, 5)])(
        lambda p, x, y: tf.cond(p, lambda: (x + y, tf.reduce_sum(x)), lambda: (x - y, tf.reduce_max(y)))
    )
    declare(f"cond_nested_{word}", [flag, X])(
        lambda p, x: tf.cond(
            p,
            lambda: tf.cond(tf.reduce_sum(x) > 0, lambda: x + 1.0, lambda: x - 1.0),
            lambda: tf.cond(x[0, 0] > 0, lambda: x * 2.0, lambda: -x),
        )
    )
    declare(f"cond_shapes_differ_{word}", [flag, X])(lambda p, x: tf.cond(p, lambda: x, lambda: x[:2]))
    declare(f"cond_with_weights_{word}", [flag, X])(
        lambda p, x: tf.cond(p, lambda: tf.matmul(x, weight(5, 4)), lambda: tf.zeros([3, 4]))
    )
declare("cond_computed", [X])(lambda x: tf.cond(tf.reduce_mean(x) > 0.1, lambda: tf.sqrt(tf.abs(x)), lambda: x * x))
declare("cond_constant_predicate", [X])(lambda x: tf.cond(tf.constant(True), lambda: x + 1.0, lambda: x - 1.0))
declare("case", [value(2, np.int32), X], "tf v1")(
    lambda i, x: tf.switch_case(i, [lambda: x, lambda: x + 1.0, lambda: x * 3.0], default=lambda: -x)
)
declare("case_default", [value(9, np.int32), X], "tf v1")(
    lambda i, x: tf.switch_case(i, [lambda: x, lambda: x + 1.0], default=lambda: -x)
)


def loop(condition, body, start, **more):
    return tf.while_loop(condition, body, start, **more)


declare("while_counted", [X])(
    lambda x: loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 1.1 + tf.cast(i, tf.float32)), (0, x))[1]
)
declare("while_until_value", [value(1.5)])(lambda x: loop(lambda y: y < 100.0, lambda y: y * y, (x,)))
declare("while_never", [X])(lambda x: loop(lambda y: tf.reduce_sum(y) > 1e9, lambda y: y * 2.0, (x,)))
declare("while_computed_count", [value(4, np.int32), X])(
    lambda n, x: loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y)), (0, x))
)
declare("while_captures", [X, f32(5, 5)])(
    lambda x, w: loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.nn.relu(tf.matmul(y, w))), (0, x))[1]
)
declare("while_nested", [X])(
    lambda x: loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, loop(lambda j, z: j < i + 1, lambda j, z: (j + 1, z * 0.5 + 1.0), (0, y))[1]),
        (0, x),
    )[1]
)
declare("while_with_cond", [X])(
    lambda x: loop(
        lambda i, y: i < 4,
        lambda i, y: (i + 1, tf.cond(i % 2 == 0, lambda: y + 1.0, lambda: y * 2.0)),
        (0, x),
    )[1]
)
declare("while_growing", [X])(
    lambda x: loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.concat([y, y[:1] + 1.0], 0)),
        (0, x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 5])),
    )[1]
)
declare("while_swapping", [X, f32(3, 5)])(
    lambda x, y: loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a + b), (0, x, y))
)
declare("while_fibonacci", [value(9, np.int32)])(
    lambda n: loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b), (0, 0, 1))[1]
)
declare("while_open_batch", [f32(3, 5).open(None, 5)])(
    lambda x: loop(lambda i, y: i < tf.shape(x)[0], lambda i, y: (i + 1, y + x[i]), (0, tf.zeros([5])))[1]
)
declare("while_slices", [f32(7, 3)])(
    lambda x: loop(
        lambda i, s: i < 7, lambda i, s: (i + 1, tf.tensor_scatter_nd_update(s, [[i]], [s[i] + x[6 - i]])), (0, x)
    )[1]
)

for name, function in {
    "map": lambda x: tf.map_fn(lambda row: row * tf.reduce_sum(row), x),
    "map_two": lambda x: tf.map_fn(
        lambda r: (r[0] + 1.0, tf.reduce_max(r)), x, fn_output_signature=(tf.float32, tf.float32)
    ),
    "map_to_i32": lambda x: tf.map_fn(lambda r: tf.argmax(r, output_type=tf.int32), x, fn_output_signature=tf.int32),
    "scan": lambda x: tf.scan(lambda a, r: a * 0.5 + r, x),
    "scan_start": lambda x: tf.scan(lambda a, r: a + tf.reduce_sum(r), x, initializer=0.0),
    "foldl": lambda x: tf.foldl(lambda a, r: a * r + 1.0, x),
    "foldr": lambda x: tf.foldr(lambda a, r: a - r, x),
    "vectorized_map": lambda x: tf.vectorized_map(lambda row: row * tf.reduce_sum(row), x),
}.items():
    declare(name, [f32(4, 3)])(function)
declare("map_open", [f32(4, 3).open(None, 3)])(lambda x: tf.map_fn(lambda row: tf.cumsum(row), x))
declare("map_nested", [f32(2, 3, 4)], "tf v1")(
    lambda x: tf.map_fn(lambda m: tf.map_fn(lambda r: r - tf.reduce_mean(r), m), x)
)


@declare("tensor_array_write_stack", [f32(4, 3)])
def _(x):
    array = tf.TensorArray(tf.float32, 4, element_shape=[3])
    return loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(3 - i, x[i] * 2.0)), (0, array))[1].stack()


@declare("tensor_array_unstack_read", [f32(4, 3)])
def _(x):
    array = tf.TensorArray(tf.float32, 4).unstack(x)
    return array.read(2) + array.read(0), array.size()


@declare("tensor_array_gather", [f32(5, 3)], "tf v1")
def _(x):
    return tf.TensorArray(tf.float32, 5).unstack(x).gather([4, 0, 2])


@declare("tensor_array_concat", [f32(4, 2, 3)], "tf v1")
def _(x):
    array = tf.TensorArray(tf.float32, 4, element_shape=[2, 3])
    return loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, x[i] + 1.0)), (0, array))[1].concat()


@declare("tensor_array_grows", [f32(4, 3)])
def _(x):
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[3])
    return loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, x[i])), (0, array))[1].stack()


@declare("tensor_array_scatter", [f32(3, 2)], "tf v1")
def _(x):
    return tf.TensorArray(tf.float32, 5, element_shape=[2]).scatter([4, 0, 2], x).gather([0, 2, 4])


@declare("call", [X])
def _(x):
    inner = tf.function(lambda y: tf.nn.relu(y) + 1.0, autograph=False)
    return inner(x) * inner(x * 2.0)


@declare("call_in_call", [X])
def _(x):
    inner = tf.function(lambda y: tf.sin(y), autograph=False)
    outer = tf.function(lambda y: inner(y) + inner(y + 1.0), autograph=False)
    return outer(x), outer(-x)


@declare("greedy_decoder", [f32(2, 4)])
def _(x):
    """A token at a time, as speech and text decoders do it."""
    table, w = tf.constant(weight(6, 4)), tf.constant(weight(4, 6))
    ids = tf.TensorArray(tf.int32, 5, element_shape=[2])

    def body(i, h, out):
        h = tf.tanh(h + tf.gather(table, token := tf.argmax(tf.matmul(h, w), 1, tf.int32)))
        return i + 1, h, out.write(i, token)

    return tf.transpose(loop(lambda i, h, o: i < 5, body, (0, x, ids))[2].stack())


declare("gradient_of_network", [X], "tf")(lambda x: tf.gradients(tf.reduce_sum(tf.tanh(tf.matmul(x, weight(5, 4)))), x))
declare("assert_and_check", [X], "tf v1 lite")(
    lambda x: (tf.debugging.assert_less(tf.reduce_max(x), 100.0), tf.debugging.check_numerics(x, "m") * 2.0)[1]
)
declare("dynamic_length_mask", [f32(3, 7), i32(3, low=1, high=7)])(
    lambda x, n: tf.reduce_sum(tf.where(tf.sequence_mask(n, 7), x, 0.0), 1) / tf.cast(n, tf.float32)
)
declare("select_by_flags", [boolean(3, 1), X])(lambda c, x: tf.where(c, x, tf.zeros_like(x)))
