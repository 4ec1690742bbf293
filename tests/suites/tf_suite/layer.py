"""Layers of Keras."""

from __future__ import annotations

from .case import boolean, case, f32, i32, tf, value, weight


class _Keras:
    def __getattr__(self, name):
        return getattr(tf.keras, name)


keras = _Keras()
IMAGE = [f32(2, 7, 9, 3)]
SEQUENCE = [f32(2, 5, 4)]
LOOPS = "tf v1 lite"


def layer(name, given, make, kinds="tf lite", also="", **more):
    case(f"keras_{name}", given, kinds=kinds, also=also, makes=True, **more)(make)


layer("dense", [f32(3, 7)], lambda: keras.layers.Dense(5, "relu"), also="int8 half")
layer("dense_open_batch", [f32(3, 7).open(None, 7)], lambda: keras.layers.Dense(5, "softmax"), also="int8")
layer("dense_three_axes", [f32(2, 3, 7)], lambda: keras.layers.Dense(5, "tanh"))
layer("conv2d", IMAGE, lambda: keras.layers.Conv2D(5, 3, 2, "same", activation="relu"), also="int8 int16")
layer("conv2d_grouped", [f32(1, 7, 9, 4)], lambda: keras.layers.Conv2D(6, 3, groups=2))
layer("conv1d_causal", SEQUENCE, lambda: keras.layers.Conv1D(6, 3, padding="causal", dilation_rate=2))
layer("conv3d", [f32(1, 4, 5, 6, 2)], lambda: keras.layers.Conv3D(3, 2, padding="same"))
layer("conv2d_transpose", IMAGE, lambda: keras.layers.Conv2DTranspose(5, 3, 2, "same"), also="int8")
layer(
    "conv2d_transpose_valid_open",
    [f32(2, 5, 7, 3).open(None, None, None, 3)],
    lambda: keras.layers.Conv2DTranspose(4, 3, 2),
)
layer("conv1d_transpose", SEQUENCE, lambda: keras.layers.Conv1DTranspose(3, 3, 2))
layer("separable_conv2d", IMAGE, lambda: keras.layers.SeparableConv2D(5, 3, depth_multiplier=2), also="int8")
layer("separable_conv1d", SEQUENCE, lambda: keras.layers.SeparableConv1D(5, 3))
layer("depthwise_conv2d", IMAGE, lambda: keras.layers.DepthwiseConv2D(3, 2, "same", depth_multiplier=2), also="int8")
layer("depthwise_conv1d", SEQUENCE, lambda: keras.layers.DepthwiseConv1D(3))
layer("batch_normalization", IMAGE, lambda: keras.layers.BatchNormalization(), also="int8")
layer("batch_normalization_axis1", IMAGE, lambda: keras.layers.BatchNormalization(axis=1))
layer("layer_normalization", SEQUENCE, lambda: keras.layers.LayerNormalization(), also="int8")
layer("layer_normalization_axes", IMAGE, lambda: keras.layers.LayerNormalization(axis=[2, 3]))
layer("group_normalization", [f32(2, 5, 7, 6)], lambda: keras.layers.GroupNormalization(3))
layer("unit_normalization", SEQUENCE, lambda: keras.layers.UnitNormalization())
layer("rms_normalization", SEQUENCE, lambda: keras.layers.RMSNormalization())
layer("embedding", [i32(2, 5, low=0, high=11)], lambda: keras.layers.Embedding(11, 6), also="half")
layer("up_sampling_nearest", IMAGE, lambda: keras.layers.UpSampling2D((2, 3)), also="int8")
layer("up_sampling_bilinear", IMAGE, lambda: keras.layers.UpSampling2D(2, interpolation="bilinear"))
layer("up_sampling1d", SEQUENCE, lambda: keras.layers.UpSampling1D(3))
layer("zero_padding", IMAGE, lambda: keras.layers.ZeroPadding2D(((1, 2), (0, 3))))
layer("cropping", IMAGE, lambda: keras.layers.Cropping2D(((1, 2), (0, 3))))
layer("max_pooling", IMAGE, lambda: keras.layers.MaxPooling2D(3, 2, "same"))
layer("average_pooling", IMAGE, lambda: keras.layers.AveragePooling2D(2))
layer("average_pooling1d", SEQUENCE, lambda: keras.layers.AveragePooling1D(2))
layer("global_average_pooling", IMAGE, lambda: keras.layers.GlobalAveragePooling2D(keepdims=True), also="int8")
layer("global_max_pooling", IMAGE, lambda: keras.layers.GlobalMaxPooling2D())
layer("prelu", IMAGE, lambda: keras.layers.PReLU(shared_axes=[1, 2]), also="int8 int16")
layer("leaky_relu", IMAGE, lambda: keras.layers.LeakyReLU(0.2))
layer("elu", IMAGE, lambda: keras.layers.ELU(0.7))
layer("softmax_axis", IMAGE, lambda: keras.layers.Softmax(axis=1))
layer("dropout", SEQUENCE, lambda: keras.layers.Dropout(0.5))
layer(
    "normalization",
    SEQUENCE,
    lambda: keras.layers.Normalization(mean=[0.1, 0.2, 0.3, 0.4], variance=[1.0, 2.0, 3.0, 4.0]),
)
layer("rescaling", IMAGE, lambda: keras.layers.Rescaling(1 / 127.5, -1.0))
layer(
    "permute_reshape_flatten",
    IMAGE,
    lambda: _chain(keras.layers.Permute((3, 1, 2)), keras.layers.Reshape((9, -1)), keras.layers.Flatten()),
)
layer("repeat_vector", [f32(2, 4)], lambda: keras.layers.RepeatVector(3))
layer("time_distributed", SEQUENCE, lambda: keras.layers.TimeDistributed(keras.layers.Dense(3)))
for name in ("hard_sigmoid", "mish", "swish", "softsign", "exponential", "gelu", "selu", "hard_silu", "log_softmax"):
    layer(
        f"activation_{name}", SEQUENCE, lambda n=name: keras.layers.Activation(n), also="int8" if name != "mish" else ""
    )

RECURRENT = {
    "lstm": lambda **more: keras.layers.LSTM(3, **more),
    "gru": lambda **more: keras.layers.GRU(3, **more),
    "gru_reset_before": lambda **more: keras.layers.GRU(3, reset_after=False, **more),
    "simple_rnn": lambda **more: keras.layers.SimpleRNN(3, **more),
    "lstm_hard": lambda **more: keras.layers.LSTM(3, activation="relu", recurrent_activation="hard_sigmoid", **more),
}
for name, make in RECURRENT.items():
    layer(name, SEQUENCE, make, LOOPS)
    if "hard" not in name and "before" not in name:
        layer(f"{name}_sequences", SEQUENCE, lambda m=make: m(return_sequences=True), LOOPS)
        layer(f"{name}_states_backwards", SEQUENCE, lambda m=make: m(return_state=True, go_backwards=True), LOOPS)
        layer(f"{name}_unrolled", SEQUENCE, lambda m=make: m(unroll=True), "tf")
        layer(f"{name}_open", [f32(2, 5, 4).open(None, None, 4)], lambda m=make: m(return_sequences=True), LOOPS)
        layer(
            f"{name}_bidirectional",
            SEQUENCE,
            lambda m=make: keras.layers.Bidirectional(m(return_sequences=True)),
            LOOPS,
        )
        layer(
            f"{name}_masked",
            [value([[[1, 2], [3, 4], [0, 0]], [[5, 6], [0, 0], [7, 8]]])],
            lambda m=make: keras.Sequential([keras.layers.Masking(0.0), m(return_sequences=True)]),
            "tf v1",
        )
layer("lstm_fixed_batch", [f32(1, 7, 4)], lambda: keras.layers.LSTM(3, return_sequences=True), "lite dynamic int8")
layer("lstm_wide", [f32(1, 5, 32)], lambda: keras.layers.LSTM(16), "tf lite dynamic half")
layer("lstm_stacked", SEQUENCE, lambda: keras.layers.RNN([keras.layers.LSTMCell(3), keras.layers.LSTMCell(2)]), LOOPS)
layer(
    "lstm_two_layers", SEQUENCE, lambda: _chain(keras.layers.LSTM(3, return_sequences=True), keras.layers.GRU(2)), LOOPS
)
layer(
    "lstm_of_embedding_masked",
    [i32(2, 5, low=0, high=3)],
    lambda: _chain(keras.layers.Embedding(3, 4, mask_zero=True), keras.layers.LSTM(3)),
    "tf v1",
)
layer("conv_lstm2d", [f32(1, 3, 5, 6, 2)], lambda: keras.layers.ConvLSTM2D(3, 3, padding="same"), "tf v1")


@case("keras_multi_head_attention", [f32(2, 5, 6), f32(2, 7, 6)], makes=True)
def _():
    return keras.layers.MultiHeadAttention(2, 3)


@case("keras_multi_head_attention_causal", [f32(2, 5, 6)], makes=True)
def _():
    layer = keras.layers.MultiHeadAttention(2, 3, flash_attention=False)
    return keras.layers.Lambda(lambda x: layer(x, x, use_causal_mask=True))


layer("group_query_attention", [f32(2, 5, 8), f32(2, 5, 8)], lambda: keras.layers.GroupQueryAttention(4, 4, 2))
layer("additive_attention", SEQUENCE, lambda: _of_list(keras.layers.AdditiveAttention()))
layer("dot_attention", SEQUENCE, lambda: _of_list(keras.layers.Attention()))
layer("merges", [f32(2, 5), f32(2, 5)], lambda: _merges)


def _chain(*layers):
    return keras.Sequential(list(layers))


def _of_list(layer):
    return lambda x: layer([x, x * 0.5])


def _merges(x, y):
    layers = keras.layers
    return (
        layers.Add()([x, y]), layers.Subtract()([x, y]), layers.Multiply()([x, y]), layers.Average()([x, y]),
        layers.Maximum()([x, y]), layers.Concatenate()([x, y]), layers.Dot(1)([x, y]),
        layers.Dot(1, normalize=True)([x, y]),
    )  # fmt: skip


@case(
    "keras_small_network",
    [f32(2, 17, 13, 3).open(None, 17, 13, 3)],
    also="int8 uint8 int8_float int16 dynamic half",
    makes=True,
)
def _():
    layers = keras.layers
    return keras.Sequential([
        layers.Conv2D(8, 3, 2, "same", use_bias=False), layers.BatchNormalization(), layers.ReLU(6.0),
        layers.DepthwiseConv2D(3, padding="same"), layers.BatchNormalization(), layers.ReLU(),
        layers.Conv2D(16, 1), layers.MaxPooling2D(2), layers.GlobalAveragePooling2D(), layers.Dense(7, "softmax"),
    ])  # fmt: skip


@case("keras_residual_block", [f32(1, 9, 7, 8)], also="int8 int16 uint8", makes=True)
def _():
    layers = keras.layers
    x = given = keras.Input((9, 7, 8))
    for activation in ("relu", None):
        x = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same", activation=activation)(x))
    squeezed = layers.Dense(8, "sigmoid")(layers.Dense(4, "relu")(layers.GlobalAveragePooling2D(keepdims=True)(x)))
    return keras.Model(given, layers.ReLU()(layers.Add()([given, layers.Multiply()([x, squeezed])])))


@case("keras_transformer_block", [i32(2, 6, low=0, high=13)], also="half", makes=True)
def _():
    layers = keras.layers
    ids = keras.Input((6,), dtype="int32")
    x = layers.Embedding(13, 8)(ids) + weight(6, 8)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(8)(layers.Dense(16, "gelu")(x)))
    return keras.Model(ids, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


layer("masked_average", [f32(2, 5, 4), boolean(2, 5)], lambda: _masked_average)


def _masked_average(x, mask):
    return keras.layers.GlobalAveragePooling1D()(x, mask=mask)
