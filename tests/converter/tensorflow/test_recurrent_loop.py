"""Loops of TensorFlow that are recurrent layers, beside TensorFlow: which are recognized, and that those are right."""

from __future__ import annotations

import os
from collections import Counter
from importlib.util import find_spec

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import pytest

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.optimizer.facts.format import engine_only
from minnow.schema.mnn import encode

pytestmark = pytest.mark.skipif(not find_spec("tensorflow"), reason="TensorFlow is the judge")

rng = np.random.default_rng(11)
T, B, N, H = 5, 2, 3, 4


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


def f32(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def counts(model):
    found = Counter(n.op for g in model.graph.walk() for n in g)
    return {op: found[op] for op in ("LSTM", "GRU", "RNN", "Loop") if found[op]}


def layers(graph_def, results, wanted, feed, folder):
    """How many layers and loops a graph becomes (before loops are written out), whose results are TensorFlow's.

    Layers that only Minnow's engine has are loops in a file for any runtime.
    """
    path = folder / "graph.pb"
    path.write_bytes(graph_def.SerializeToString())
    found = {}
    for level, target in ((0, "mnn"), (1, "mnn"), (2, "mnn"), (1, "minnow"), (2, "minnow")):
        model = read(path, cut_outputs=results)
        optimize(model, level, target=target)
        found[level, target] = counts(model)
        assert target == "minnow" or not engine_only(model.graph)
        got = minnow.load(encode(model)).run(feed)
        for name, value in zip(results, wanted, strict=True):
            np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5, err_msg=f"{name} at -O{level}, {target}")
    usual = not any(n.attrs.get("activations") for n in model.graph)
    assert found[0, "mnn"].keys() == {"Loop"}
    assert (found[1, "mnn"] == found[1, "minnow"]) == usual
    return found[1, "minnow"]


def keras(tf, layer, x, folder, dynamic_axes=()):
    """A Keras layer, frozen as TensorFlow freezes it."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    layer(x)
    for w in layer.trainable_variables:
        w.assign(f32(*w.shape))
    spec = tf.TensorSpec([None if i in dynamic_axes else n for i, n in enumerate(x.shape)], tf.float32, name="x")
    function = tf.function(lambda x: layer(x), input_signature=[spec])
    frozen = convert_variables_to_constants_v2(function.get_concrete_function(), lower_control_flow=False)
    wanted = [v.numpy() for v in tf.nest.flatten(frozen(tf.constant(x)))]
    names = [t.name for t in frozen.outputs]
    kept = [n.removesuffix(":0") for n in names]
    return layers(frozen.graph.as_graph_def(), kept, wanted, {"x": x}, folder)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"return_sequences": True}, {"return_state": True, "go_backwards": True},
                                     {"use_bias": False}, {"activation": "relu"}], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_keras_layers(tf, tmp_path, kind, options):
    layer = getattr(tf.keras.layers, kind)(H, **options)
    assert keras(tf, layer, f32(B, T, N), tmp_path) == {kind.removeprefix("Simple"): 1}


def test_keras_layers_of_other_forms(tf, tmp_path):
    made = tf.keras.layers
    assert keras(tf, made.GRU(H, reset_after=False, return_sequences=True), f32(B, T, N), tmp_path) == {"GRU": 1}
    assert keras(tf, made.LSTM(H, recurrent_activation="hard_sigmoid"), f32(B, T, N), tmp_path) == {"LSTM": 1}
    assert keras(tf, made.Bidirectional(made.LSTM(H, return_sequences=True)), f32(B, T, N), tmp_path) == {"LSTM": 2}
    assert keras(tf, made.LSTM(H, return_sequences=True), f32(B, T, N), tmp_path, (0, 1)) == {"LSTM": 1}
    assert keras(tf, made.LSTM(16), f32(1, T, N), tmp_path) == {"LSTM": 1}
    assert keras(tf, made.RNN([made.LSTMCell(H), made.GRUCell(H)]), f32(B, T, N), tmp_path) == {"Loop": 1}


def cell_loop(tf, step, x, folder, states=2):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        place = v1.placeholder(tf.float32, x.shape, "x")
        rows = tf.TensorArray(tf.float32, T).unstack(place)
        out = tf.TensorArray(tf.float32, T)

        def body(t, a, *s):
            new = step(rows.read(t), *s)
            return (t + 1, a.write(t, new[0]), *new)

        start = [tf.constant(f32(B, H)) for _ in range(states)]
        _, a, *last = v1.while_loop(lambda t, *_: t < T, body, (0, out, *start))
        results = [tf.identity(v, f"y{i}") for i, v in enumerate((a.stack(), *last))]
        with v1.Session(graph=graph) as session:
            wanted = session.run(results, {place: x})
    return layers(graph.as_graph_def(), [f"y{i}" for i in range(len(wanted))], wanted, {"x": x}, folder)


def lstm_step(tf, forget=1.0, order=(0, 1, 2, 3), change=lambda c: c):
    w, r, b = f32(N, 4 * H), f32(H, 4 * H), f32(4 * H)

    def step(x, h, c):
        parts = tf.split(tf.matmul(x, w) + tf.matmul(h, r) + b, 4, 1)
        i, j, f, o = (parts[k] for k in order)
        c = change(tf.sigmoid(f + forget) * c + tf.sigmoid(i) * tf.tanh(j))
        return tf.sigmoid(o) * tf.tanh(c), c

    return step


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 2, 1)])
@pytest.mark.parametrize("forget", [0.0, 1.0])
def test_gates_in_any_order(tf, tmp_path, order, forget):
    assert cell_loop(tf, lstm_step(tf, forget, order), f32(T, B, N), tmp_path) == {"LSTM": 1}


def test_one_matrix_for_inputs_and_states(tf, tmp_path):
    """As the cells of TensorFlow 1 have it."""
    w, b = f32(N + H, 4 * H), f32(4 * H)

    def step(x, h, c):
        i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), w), b), 4, 1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        return tf.sigmoid(o) * tf.tanh(c), c

    assert cell_loop(tf, step, f32(T, B, N), tmp_path) == {"LSTM": 1}


def test_what_only_looks_like_a_layer(tf, tmp_path):
    """Another cell is left as a loop, however close it is."""
    for change in (
        lambda c: tf.clip_by_value(c, -50.0, 50.0),
        lambda c: c * 1.001,
        lambda c: tf.where(c > 0.9, c, c * 0.5),
    ):
        assert cell_loop(tf, lstm_step(tf, change=change), f32(T, B, N), tmp_path) == {"Loop": 1}
    w, r, peep = f32(N, 4 * H), f32(H, 4 * H), f32(4 * H)

    def peephole(x, h, c):
        i, j, f, o = tf.split(tf.matmul(x, w) + tf.matmul(h, r) + tf.concat([c, c, c, c], 1) * peep, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(j)
        return tf.sigmoid(o) * tf.tanh(c), c

    assert cell_loop(tf, peephole, f32(T, B, N), tmp_path) == {"Loop": 1}
    w, r = f32(N, H), f32(H, H)
    assert cell_loop(tf, lambda x, h: (tf.tanh(x @ w + h @ r),), f32(T, B, N), tmp_path, 1) == {"RNN": 1}
    assert cell_loop(tf, lambda x, h: (tf.tanh(x @ w + h @ r) + h,), f32(T, B, N), tmp_path, 1) == {"Loop": 1}
    assert cell_loop(tf, lambda x, h: (tf.sin(x @ w + h @ r),), f32(T, B, N), tmp_path, 1) == {"Loop": 1}
