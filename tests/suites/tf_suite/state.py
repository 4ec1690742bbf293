"""What is kept in variables from run to run, and variables that are only read."""

from __future__ import annotations

from .case import case, f32, i32, tf, value, weight

BOTH = "saved lite"


def kept(name, given, start, body, kinds=BOTH, steps=2):
    """A module with one variable: body(variable, *inputs)."""

    def make():
        class Kept(tf.Module):
            def __init__(self):
                self.kept = tf.Variable(start())

            def __call__(self, *xs):
                return body(self.kept, *xs)

        return Kept()

    case(f"state_{name}", given, kinds=kinds, makes=True, steps=steps)(make)


def _three_times(body, x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, body(y)), (0, x))[1]


X = [f32(3)]
kept("counter", X, lambda: 0.0, lambda v, x: x * v.assign_add(1.0), steps=3)
kept("running_sum", X, lambda: weight(3), lambda v, x: v.assign_add(x))
kept("running_difference", X, lambda: weight(3), lambda v, x: v.assign_sub(x))
kept("previous_input", X, lambda: weight(3), lambda v, x: (v + 0.0, v.assign(x))[0] * 2.0, steps=3)
kept("moving_average", X, lambda: weight(3), lambda v, x: v.assign(v * 0.9 + x * 0.1))
kept(
    "ring_of_frames",
    [f32(1, 2)],
    lambda: weight(4, 2),
    lambda v, x: tf.reduce_sum(v.assign(tf.concat([v[1:], x], 0)) * weight(4, 2)),
)
kept("streaming_convolution", [f32(1, 2, 3)], lambda: weight(1, 4, 3),
     lambda v, x: tf.nn.conv1d(v.assign(tf.concat([v[:, 2:], x], 1)), weight(3, 3, 5), 1, "VALID"))  # fmt: skip
kept(
    "cell",
    [f32(1, 3)],
    lambda: weight(1, 4),
    lambda v, x: v.assign(tf.tanh(tf.matmul(tf.concat([x, v], 1), weight(7, 4)))),
    steps=3,
)
kept("integers", [i32(3)], lambda: [1, 2, 3], lambda v, x: v.assign_add(x))
kept("only_when", [value(1.0)], lambda: weight(3),
     lambda v, x: tf.cond(x > 0, lambda: v.assign_add([1.0, 1.0, 1.0]), lambda: v + 0.0))  # fmt: skip
kept("in_a_loop", X, lambda: weight(3), lambda v, x: v.assign(_three_times(lambda y: y * 0.5 + x, v + 0.0)))
kept(
    "scatter_update",
    [f32(2)],
    lambda: weight(5, 2),
    lambda v, x: (v.assign(tf.tensor_scatter_nd_update(v, [[3]], [x])), v * 2.0)[1],
)
kept("read_only", X, lambda: weight(3), lambda v, x: x * v, steps=1)

case("saved_plain", [f32(2, 3)], kinds="saved")(lambda x: tf.nn.relu(x) + 1.0)
case("saved_two_inputs_and_outputs", [f32(2, 3), f32(2, 3)], kinds="saved")(lambda x, y: {"sum": x + y, "times": x * y})
case("saved_open_batch", [f32(4, 3).open(None, 3)], kinds="saved")(lambda x: tf.matmul(x, weight(3, 5)))
case("saved_loop", [f32(3)], kinds="saved")(
    lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (0, x))[1]
)


@case("saved_keras_network", [f32(2, 9, 7, 3).open(None, 9, 7, 3)], kinds="saved", makes=True)
def _():
    layers = tf.keras.layers
    return tf.keras.Sequential([
        layers.Conv2D(4, 3, 2, "same"), layers.BatchNormalization(), layers.ReLU(), layers.Flatten(), layers.Dense(5),
    ])  # fmt: skip


@case("saved_keras_gru", [f32(2, 5, 4)], kinds="saved", makes=True)
def _():
    return tf.keras.layers.GRU(3, return_sequences=True)
