"""A graph of a diffusion pipeline while it is made, and the layers that its models are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minnow.converter.llm.checkpoint import Checkpoint, Settings
from minnow.converter.llm.step import Weights
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops import Builder

MOST_CHANNELS = 1 << 20
_MOST_BLOCKS = 16


class Net:
    """A graph with images [batch, channels, height, width] and rows [batch, length, features].

    Args:
        checkpoint: settings and tensors of the model.
        name: of the graph.

    Attributes:
        groups, epsilon: of the norms of images.
        b: makes nodes.
    """

    def __init__(self, checkpoint: Checkpoint, name: str, epsilon: float) -> None:
        self.checkpoint, self.settings, self.weights = checkpoint, checkpoint.settings, Weights(checkpoint)
        self.groups = self.settings.integer("norm_num_groups", default=32, most=MOST_CHANNELS)
        self.epsilon = epsilon
        self.graph = Graph(name)
        self.b = Builder(self.graph, origin="diffusion")
        self.inputs: list[tuple[str, TensorType]] = []

    def input(self, name: str, dtype: DType, *shape: int | str) -> Value:
        self.inputs.append((name, TensorType(dtype, shape)))
        return self.graph.add_param(self.inputs[-1][1], name)

    def model(self, harmless: Sequence[str] = (), **outputs: Value) -> Model:
        """The model with these outputs. Raises UnsupportedError if the checkpoint has tensors without a use."""
        self.weights.check_all_used(harmless)
        self.graph.outputs = list(outputs.values())
        for name, value in outputs.items():
            value.name = name
        made = [(name, value.type) for name, value in outputs.items()]
        return Model(self.graph, self.inputs, made, source="diffusion")

    # ---- settings ------------------------------------------------------------------------------------------------

    def only(self, known: Mapping[str, Sequence[Any]]) -> None:
        """Raises UnsupportedError for a setting that is none of those which are known; one that is not there is."""
        for name, values in known.items():
            value = self.settings.raw(name)
            if value is not None and value not in values:
                raise UnsupportedError(
                    f"the setting '{name}' is {str(value)[:60]!r}, which is not supported",
                    where=self.settings.where,
                    hint=f"supported is {' or '.join(map(repr, values)) or 'none'}",
                )

    def sizes(self, name: str, count: int, default: int | None = None) -> list[int]:
        """A size for each of `count` blocks: a list, or one number for all."""
        if isinstance(self.settings.raw(name), list):
            return whole_numbers(self.settings, name, count)
        return [self.settings.integer(name, default=default, most=MOST_CHANNELS)] * count

    def blocks(self) -> list[int]:
        """The channels of each block."""
        return whole_numbers(self.settings, "block_out_channels")

    # ---- layers --------------------------------------------------------------------------------------------------

    def conv(self, x: Value, name: str, inputs: int, outputs: int, size: int = 3, stride: int = 1) -> Value:
        """A convolution with its bias, which keeps the size of images, or halves it."""
        w = Value.constant(self.weights.get(f"{name}.weight", outputs, inputs, size, size), f"{name}.weight")
        bias = self.weights.vector(f"{name}.bias", outputs)
        made: Value = self.b.Conv(
            x, w, bias, strides=(stride, stride), pads=(size // 2,) * 4, dilations=(1, 1), names=(name,)
        )
        return made

    def linear(self, x: Value, name: str, inputs: int, outputs: int, bias: bool = True) -> Value:
        """x w^T, plus a bias."""
        w = self.weights.checkpoint.tensors.get(f"{name}.weight")
        # What was a convolution of 1 by 1 in old checkpoints.
        shape = (outputs, inputs, 1, 1) if w is not None and len(w.shape) == 4 else (outputs, inputs)
        found: Any = Value.constant(self.weights.get(f"{name}.weight", *shape), f"{name}.weight")
        if len(shape) == 4:
            found = self.b.Reshape(found, np.array([outputs, inputs]))
        add = Value.constant(self.weights.vector(f"{name}.bias", outputs), f"{name}.bias") if bias else None
        made: Value = self.b.Linear(x, found, add, names=(name,))
        return made

    def group_norm(self, x: Value, name: str, channels: int, epsilon: float | None = None) -> Value:
        """Groups of channels without their mean, divided by their deviation, times factors, plus a bias."""
        if channels % self.groups:
            raise ModelError(f"{channels} channels are no {self.groups} groups", where=self.settings.where)
        factors, bias = (self.weights.vector(f"{name}.{what}", channels) for what in ("weight", "bias"))
        epsilon = self.epsilon if epsilon is None else epsilon
        made: Value = self.b.GroupNorm(x, factors, bias, num_groups=self.groups, epsilon=epsilon)
        return made

    def layer_norm(self, x: Value, name: str, size: int) -> Value:
        """Rows without their mean, divided by their deviation, times factors, plus a bias."""
        factors, bias = (self.weights.vector(f"{name}.{what}", size) for what in ("weight", "bias"))
        made: Value = self.b.LayerNorm(x, factors, bias, epsilon=1e-5)
        return made

    def resnet(
        self, x: Value, name: str, inputs: int, outputs: int, time: Value | None = None, width: int = 0
    ) -> Value:
        """x + conv(silu(norm(conv(silu(norm(x))) + what the time makes))).

        Args:
            x: an image of `inputs` channels, which become `outputs`.
            time: silu of the embedding of the time, `width` features; None without one.
        """
        b = self.b
        h = self.conv(b.Silu(self.group_norm(x, f"{name}.norm1", inputs)), f"{name}.conv1", inputs, outputs)
        if time is not None:
            h = b.Add(h, b.Unsqueeze(self.linear(time, f"{name}.time_emb_proj", width, outputs), axes=(2, 3)))
        h = self.conv(b.Silu(self.group_norm(h, f"{name}.norm2", outputs)), f"{name}.conv2", outputs, outputs)
        if inputs != outputs:
            x = self.conv(x, f"{name}.conv_shortcut", inputs, outputs, size=1)
        added: Value = b.Add(x, h)
        return added

    def attention(
        self, x: Value, name: str, size: int, heads: int, context: Value | None = None, width: int | None = None,
        bias: bool = False,
    ) -> Value:  # fmt: skip
        """Attention of rows with `size` features to themselves, or to a context with `width` of them."""
        if size % heads:
            raise ModelError(f"{size} features are no {heads} heads", where=self.settings.where)
        source, inputs = (x, size) if context is None else (context, width or size)
        q = self.linear(x, f"{name}.to_q", size, size, bias)
        k, v = (self.linear(source, f"{name}.to_{n}", inputs, size, bias) for n in "kv")
        y = self.b.Attention(q, k, v, num_heads=heads, scale=(size // heads) ** -0.5)
        return self.linear(y, f"{name}.to_out.0", size, size)

    def rows_of(self, x: Value, channels: int) -> Value:
        """The pixels of an image as rows: [batch, height * width, channels]."""
        flat = self.b.Reshape(x, np.array([0, channels, -1]))
        made: Value = self.b.Transpose(flat, perm=(0, 2, 1))
        return made

    def image_of(self, rows: Value, like: Value) -> Value:
        """Rows as the pixels of an image of the shape of `like`."""
        made: Value = self.b.Reshape(self.b.Transpose(rows, perm=(0, 2, 1)), self.b.Shape(like))
        return made

    def doubled(self, x: Value, name: str, channels: int) -> Value:
        """Twice as high and wide: each pixel four times, then a convolution."""
        large = self.b.Resize(
            x, None, np.array([2, 2], np.float32), axes=(2, 3), coordinate_mode="asymmetric", nearest_mode="floor"
        )
        return self.conv(large, f"{name}.conv", channels, channels)


def whole_numbers(settings: Settings, name: str, count: int | None = None) -> list[int]:
    """A list of sizes; without `count`, 1 to 16 of them. Raises ModelError if it is none."""
    value = settings.raw(name)
    found = value if isinstance(value, list) else []
    fits = 0 < len(found) <= _MOST_BLOCKS if count is None else len(found) == count
    if not fits or not all(type(n) is int and 0 < n <= MOST_CHANNELS for n in found):
        what = f"1 to {_MOST_BLOCKS}" if count is None else str(count)
        why = f"it is {str(value)[:60]}"
        raise ModelError(f"the hyperparameter '{name}' is no list of {what} sizes", where=settings.where, why=why)
    return found
