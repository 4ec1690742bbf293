"""Makes SavedModels and Keras files with TensorFlow, and records what TensorFlow gives for them.

A program of its own, `python tensorflow_models.py FOLDER`: TensorFlow stays out of the process of the tests. Beside
each model NAME is NAME.npz: the arrays "in/STEP/INPUT" and "out/STEP/OUTPUT".
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": ""}

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
ROOT = Path(sys.argv[1])
RNG = np.random.default_rng(0)


def draw(spec):
    shape = [2 if d is None else d for d in spec.shape]
    dtype = tf.as_dtype(spec.dtype)
    if dtype.is_integer:
        return RNG.integers(0, 5, shape).astype(dtype.as_numpy_dtype)
    return RNG.uniform(-1, 1, shape).astype(dtype.as_numpy_dtype)


def record(name, folder, signature="serving_default", steps=1):
    loaded = tf.saved_model.load(str(folder))
    entry = loaded.signatures[signature]
    arrays = {}
    for step in range(steps):
        given = {k: draw(s) for k, s in entry.structured_input_signature[1].items()}
        found = entry(**{k: tf.constant(a) for k, a in given.items()})
        arrays |= {f"in/{step}/{k}": a for k, a in given.items()}
        arrays |= {f"out/{step}/{k}": v.numpy() for k, v in found.items()}
    np.savez(ROOT / f"{name}.npz", **arrays)


def weight(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


class Types(tf.Module):
    """Variables of many types, in functions that call others; two entry points."""

    def __init__(self):
        kinds = [
            tf.float32,
            tf.float64,
            tf.float16,
            tf.bfloat16,
            tf.int8,
            tf.int16,
            tf.int32,
            tf.int64,
            tf.uint8,
            tf.bool,
        ]
        self.kept = [tf.Variable(tf.cast(RNG.integers(0, 9, (3, 5)), k)) for k in kinds]
        self.scalar = tf.Variable(2.0)
        self.empty = tf.Variable(tf.zeros((0, 3)))
        self.complex = tf.Variable(tf.complex([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))

    @tf.function
    def total(self):
        return tf.add_n([tf.cast(k, tf.float32) for k in self.kept]) * self.scalar + tf.reduce_sum(self.empty)

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, "x")])
    def times(self, x):
        return {"product": x @ self.total(), "length": tf.abs(self.complex)}

    @tf.function(input_signature=[tf.TensorSpec((3,), tf.float32, "a"), tf.TensorSpec((3,), tf.float32, "b")])
    def plus(self, a, b):
        return {"sum": a + b * self.scalar}


class States(tf.Module):
    """Variables that runs change, in the order that control dependencies give; others that they do not."""

    def __init__(self):
        self.total = tf.Variable(weight(3))
        self.count = tf.Variable(0, dtype=tf.int64)
        self.ring = tf.Variable(weight(4, 3))
        self.scale = tf.Variable(weight(3))
        self.table = tf.Variable(weight(5, 3))

    @tf.function
    def advance(self, x):
        self.count.assign_add(1)
        self.ring.assign(tf.concat([self.ring[1:], x[None]], 0))

    @tf.function(input_signature=[tf.TensorSpec((3,), tf.float32, "x")])
    def __call__(self, x):
        before = self.total.read_value()
        self.total.assign_sub(x * self.scale)
        self.advance(x)
        self.table.scatter_nd_update([[1], [3]], [x, -x])
        self.table[0].assign(x * 2.0)
        self.table.scatter_add(tf.IndexedSlices(x[None], [4]))
        return {
            "before": before,
            "after": self.total + 0.0,
            "count": tf.identity(self.count),
            "window": tf.reduce_sum(self.ring, 0),
            "row": tf.gather(self.table, [0, 1, 4]),
        }


class Branches(tf.Module):
    """Variables that a branch or a loop changes."""

    def __init__(self):
        self.total = tf.Variable(weight(3))
        self.count = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec((3,), tf.float32, "x")])
    def __call__(self, x):
        if tf.reduce_sum(x) > 0:
            self.total.assign_add(x)
        else:
            self.count.assign_sub(1.0)
        y = x
        for _ in tf.range(3):
            self.count.assign_add(tf.reduce_sum(y))
            y = y * 0.5 + self.total
            if self.count > 1.0:
                self.total.assign(self.total * 0.5)
        return {"y": y, "total": self.total + 0.0, "count": self.count + 0.0}


class Words(tf.Module):
    """Text and a table in front of numbers."""

    def __init__(self):
        keys = tf.constant(["a", "b", "c"])
        start = tf.lookup.KeyValueTensorInitializer(keys, tf.constant([0, 1, 2], tf.int64))
        self.table = tf.lookup.StaticHashTable(start, -1)
        self.rows = tf.Variable(weight(3, 4))

    @tf.function(input_signature=[tf.TensorSpec((2,), tf.string, "words")])
    def __call__(self, words):
        numbers = tf.identity(self.table.lookup(words), "numbers")
        return {"rows": tf.tanh(tf.gather(self.rows, numbers), name="squashed")}


def save(name, module, steps=1, signature="serving_default", **signatures):
    tf.saved_model.save(module, str(ROOT / name), signatures=signatures or None)
    record(name, ROOT / name, signature, steps)


def version_1(name, resource, partitioned=False, text=False, steps=2):
    """A graph of TensorFlow 1: references to variables or resources, an update that the result waits for."""
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        with v1.variable_scope("net", use_resource=resource):
            x = v1.placeholder(tf.float32, (2, 6), "x")
            parts = v1.fixed_size_partitioner(3) if partitioned else None
            w = v1.get_variable("w", initializer=tf.constant(weight(6, 4)), partitioner=parts)
            w = tf.concat(list(w), 0) if partitioned else w
            count = v1.get_variable("count", initializer=0.0)
            y = tf.matmul(x, w)
            with tf.control_dependencies([v1.assign_add(count, 1.0)]):
                y = tf.identity(y * count.read_value(), "y")
        session.run(v1.global_variables_initializer())
        infos = [{"x": v1.saved_model.build_tensor_info(x)}, {"y": v1.saved_model.build_tensor_info(y)}]
        signature = v1.saved_model.build_signature_def(*infos, "tensorflow/serving/predict")
        builder = v1.saved_model.Builder(str(ROOT / name))
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save(as_text=text)
        arrays = {}
        for step in range(steps):
            given = RNG.uniform(-1, 1, (2, 6)).astype(np.float32)
            arrays |= {f"in/{step}/x": given, f"out/{step}/y": session.run(y, {x: given})}
        np.savez(ROOT / f"{name}.npz", **arrays)


def keras(name, model):
    model.save(ROOT / name)
    inputs = [draw(i) for i in model.inputs]
    arrays = {f"in/0/{i.name}": a for i, a in zip(model.inputs, inputs, strict=True)}
    found = tf.nest.flatten(model(inputs if len(inputs) > 1 else inputs[0], training=False))
    np.savez(ROOT / f"{name}.npz", **arrays, **{f"out/0/output_{i}": v.numpy() for i, v in enumerate(found)})


def network():
    layers = tf.keras.layers
    stack = [
        layers.Conv2D(4, 3, 2, "same"),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Flatten(),
        layers.Dense(5),
    ]
    return tf.keras.Sequential([tf.keras.Input((9, 7, 3), name="image"), *stack])


def two_inputs():
    a, b = (tf.keras.Input((4,), name=n) for n in "ab")
    return tf.keras.Model([a, b], [tf.keras.layers.Add()([a, b]), tf.keras.layers.Dense(3)(a)])


def main():
    types = Types()
    save("types", types, signature="times", times=types.times, plus=types.plus)
    record("types_plus", ROOT / "types", "plus")
    save("states", States(), steps=3)
    save("branches", Branches(), steps=4)
    words = Words()
    tf.saved_model.save(words, str(ROOT / "words"))
    np.savez(ROOT / "words.npz", rows=words.rows.numpy())
    version_1("references", resource=False)
    version_1("resources", resource=True)
    version_1("partitioned", resource=False, partitioned=True, text=True)
    keras("network.keras", network())
    keras("network.h5", network())
    keras("two_inputs.keras", two_inputs())
    network().save_weights(ROOT / "only.weights.h5")
    tf.saved_model.save(network(), str(ROOT / "keras_folder"))
    record("keras_folder", ROOT / "keras_folder")


main()
