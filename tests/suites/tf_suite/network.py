"""Whole networks, with the weights that their layers start with."""

from __future__ import annotations

from .case import case, f32, tf


def network(name, kinds, size, make):
    case(f"network_{name}", [f32(1, size, size, 3, low=-1, high=1)], kinds=kinds, makes=True)(make)


COMMON = {"weights": None, "classes": 10, "classifier_activation": None}

network("mobilenet", "tf lite int8 uint8 dynamic half", 64, lambda: tf.keras.applications.MobileNet(
    (64, 64, 3), alpha=0.25, **COMMON
))  # fmt: skip
network("mobilenet_v2", "tf lite int8 int8_float dynamic", 64, lambda: tf.keras.applications.MobileNetV2(
    (64, 64, 3), alpha=0.35, **COMMON
))  # fmt: skip
network("mobilenet_v3", "tf lite int8 half", 64, lambda: tf.keras.applications.MobileNetV3Small(
    (64, 64, 3), alpha=0.75, **COMMON
))  # fmt: skip


def _unet():
    layers = tf.keras.layers
    x = given = tf.keras.Input((32, 32, 3))
    kept = []
    for width in (4, 8):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        kept.append(x)
        x = layers.MaxPooling2D()(x)
    for width in (8, 4):
        x = layers.Conv2DTranspose(width, 2, 2)(x)
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(layers.Concatenate()([x, kept.pop()]))
    return tf.keras.Model(given, layers.Conv2D(2, 1, activation="sigmoid")(x))


def _detector():
    """A single-shot head: two scales of boxes and scores, flattened and joined."""
    layers = tf.keras.layers
    x = given = tf.keras.Input((32, 32, 3))
    boxes, scores = [], []
    for width in (8, 16):
        x = layers.BatchNormalization()(layers.Conv2D(width, 3, 2, "same", use_bias=False)(x))
        x = layers.ReLU(6.0)(layers.SeparableConv2D(width, 3, padding="same")(x))
        boxes.append(layers.Reshape((-1, 4))(layers.Conv2D(12, 3, padding="same")(x)))
        scores.append(layers.Reshape((-1, 5))(layers.Conv2D(15, 3, padding="same", activation="sigmoid")(x)))
    return tf.keras.Model(given, [layers.Concatenate(1)(boxes), layers.Concatenate(1)(scores)])


network("unet", "tf lite int8 int16 uint8 saved", 32, _unet)
network("detector", "tf lite int8 uint8 int8_float saved", 32, _detector)


@case("network_keyword_spotting", [f32(1, 2000)], kinds="tf v1 lite saved", makes=True)
def _():
    """Spectrogram, convolutions and a recurrent layer."""
    layers = tf.keras.layers
    head = tf.keras.Sequential([
        layers.Conv2D(4, 3, 2, activation="relu"), layers.Reshape((-1, 4 * 32)), layers.GRU(8), layers.Dense(5),
    ])  # fmt: skip

    class Spotter(tf.Module):
        def __init__(self):
            self.head = head
            head.build((1, 30, 65, 1))
            self.frames = tf.constant(tf.signal.hann_window(128))

        def __call__(self, x):
            frames = tf.signal.frame(x, 128, 64) * self.frames
            angle = 2 * 3.14159265 / 128 * tf.cast(tf.range(128)[:, None] * tf.range(65)[None], tf.float32)
            power = tf.square(tf.matmul(frames, tf.cos(angle))) + tf.square(tf.matmul(frames, tf.sin(angle)))
            return self.head(tf.math.log(power + 1e-3)[..., None])

    return Spotter()
