"""UNet2DConditionModel: what removes noise from latent images, with a text in mind."""

from __future__ import annotations

import math

import numpy as np

from minnow.converter.diffusion.net import MOST_CHANNELS, Net
from minnow.converter.llm.checkpoint import Checkpoint
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Model, Value

_CROSS = {"down": "CrossAttnDownBlock2D", "up": "CrossAttnUpBlock2D"}
_PLAIN = {"down": "DownBlock2D", "up": "UpBlock2D"}
_KNOWN = {
    "act_fn": ("silu", "swish"),
    "addition_embed_type": (),
    "attention_type": ("default",),
    "center_input_sample": (False,),
    "class_embed_type": (),
    "class_embeddings_concat": (False,),
    "conv_in_kernel": (3,),
    "conv_out_kernel": (3,),
    "cross_attention_norm": (),
    "downsample_padding": (1,),
    "dual_cross_attention": (False,),
    "encoder_hid_dim": (),
    "encoder_hid_dim_type": (),
    "mid_block_only_cross_attention": (False,),
    "mid_block_scale_factor": (1, 1.0),
    "mid_block_type": ("UNetMidBlock2DCrossAttn",),
    "num_class_embeds": (),
    "only_cross_attention": (False,),
    "resnet_out_scale_factor": (1, 1.0),
    "resnet_skip_time_act": (False,),
    "resnet_time_scale_shift": ("default",),
    "reverse_transformer_layers_per_block": (),
    "time_cond_proj_dim": (),
    "time_embedding_act_fn": (),
    "time_embedding_type": ("positional",),
    "timestep_post_act": (),
}
"""Settings with the values that are built."""


def unet(checkpoint: Checkpoint) -> Model:
    """The graph of it: `sample` [batch, channels, height, width], `timestep` [batch] and `encoder_hidden_states`
    [batch, length, features] to `noise`, which is like `sample`.

    Raises:
        UnsupportedError: a setting, or a kind of block.
        ModelError: tensors and settings do not fit.
    """
    return _UNet(checkpoint).built()


class _UNet(Net):
    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, "unet", checkpoint.settings.real("norm_eps", default=1e-5, least=0))
        own = self.settings
        self.only(_KNOWN)
        self.channels = self.blocks()
        count = len(self.channels)
        self.context = own.integer("cross_attention_dim", default=1280, most=MOST_CHANNELS)
        # The number of heads has always been under this name.
        heads = "num_attention_heads" if "num_attention_heads" in own else "attention_head_dim"
        self.heads = self.sizes(heads, count, default=8)
        self.layers = self.sizes("layers_per_block", count, default=2)
        self.depths = self.sizes("transformer_layers_per_block", count, default=1)
        self.is_linear = own.flag("use_linear_projection", default=False)
        self.down, self.up = (self._kinds(side, count) for side in ("down", "up"))

    def _kinds(self, side: str, count: int) -> list[bool]:
        """Whether each block has attention."""
        kinds = self.settings.texts(f"{side}_block_types", count)
        if kinds is None:
            raise ModelError(f"the hyperparameter '{side}_block_types' is missing", where=self.settings.where)
        for kind in kinds:
            if kind not in (_CROSS[side], _PLAIN[side]):
                raise UnsupportedError(
                    f"blocks of the kind '{kind[:60]}' are not supported",
                    where=self.settings.where,
                    hint=f"{_PLAIN[side]} and {_CROSS[side]} are",
                )
        return [kind == _CROSS[side] for kind in kinds]

    def built(self) -> Model:
        own = self.settings
        into, out = (own.integer(f"{n}_channels", default=4, most=MOST_CHANNELS) for n in ("in", "out"))
        sample = self.input("sample", DType.F32, "batch", into, "height", "width")
        steps = self.input("timestep", DType.F32, "batch")
        self.text = self.input("encoder_hidden_states", DType.F32, "batch", "length", self.context)
        self.time = self._time(steps)
        x = self.conv(sample, "conv_in", into, self.channels[0])
        x, skips = self._downwards(x)
        x = self._middle(x)
        x = self._upwards(x, skips)
        first = self.channels[0]
        x = self.conv(self.b.Silu(self.group_norm(x, "conv_norm_out", first)), "conv_out", first, out)
        return self.model(noise=x)

    def _time(self, steps: Value) -> Value:
        """silu of the embedding of the time: sines and cosines of it, and two layers."""
        b, size = self.b, self.channels[0]
        shift = self.settings.real("freq_shift", default=0)
        half = size // 2
        if size % 2 or half == shift:
            raise ModelError(f"{size} channels are no pairs of sines and cosines", where=self.settings.where)
        rates = np.exp(-math.log(10000) * np.arange(half, dtype=np.float32) / np.float32(half - shift))
        angles = b.Mul(b.Unsqueeze(steps, axes=(1,)), rates.astype(np.float32)[None])
        waves = [b.Sin(angles), b.Cos(angles)]
        if self.settings.flag("flip_sin_to_cos", default=True):
            waves.reverse()
        self.width = self.settings.integer("time_embedding_dim", default=4 * size, most=MOST_CHANNELS)
        h = self.linear(b.Concat(*waves, axis=1), "time_embedding.linear_1", size, self.width)
        made: Value = b.Silu(self.linear(b.Silu(h), "time_embedding.linear_2", self.width, self.width))
        return made

    def _downwards(self, x: Value) -> tuple[Value, list[tuple[Value, int]]]:
        """To the smallest image; on the way what the way up looks at, with its channels."""
        skips, size = [(x, self.channels[0])], self.channels[0]
        for i, channels in enumerate(self.channels):
            for j in range(self.layers[i]):
                x = self._layer(x, f"down_blocks.{i}", j, size, channels, i if self.down[i] else None)
                size = channels
                skips.append((x, size))
            if i + 1 < len(self.channels):
                x = self.conv(x, f"down_blocks.{i}.downsamplers.0.conv", size, size, stride=2)
                skips.append((x, size))
        return x, skips

    def _middle(self, x: Value) -> Value:
        size, last = self.channels[-1], len(self.channels) - 1
        x = self.resnet(x, "mid_block.resnets.0", size, size, self.time, self.width)
        x = self._transformer(x, "mid_block.attentions.0", size, self.heads[last], self.depths[last])
        return self.resnet(x, "mid_block.resnets.1", size, size, self.time, self.width)

    def _upwards(self, x: Value, skips: list[tuple[Value, int]]) -> Value:
        size, last = self.channels[-1], len(self.channels) - 1
        for i, channels in enumerate(reversed(self.channels)):
            for j in range(self.layers[last - i] + 1):
                skip, more = skips.pop()
                x = self.b.Concat(x, skip, axis=1)
                x = self._layer(x, f"up_blocks.{i}", j, size + more, channels, last - i if self.up[i] else None)
                size = channels
            if i < last:
                x = self.doubled(x, f"up_blocks.{i}.upsamplers.0", size)
        return x

    def _layer(self, x: Value, name: str, number: int, inputs: int, outputs: int, attends: int | None) -> Value:
        """A resnet, and where the block has it attention, with the sizes of block `attends`."""
        x = self.resnet(x, f"{name}.resnets.{number}", inputs, outputs, self.time, self.width)
        if attends is None:
            return x
        heads, depth = self.heads[attends], self.depths[attends]
        return self._transformer(x, f"{name}.attentions.{number}", outputs, heads, depth)

    def _transformer(self, x: Value, name: str, size: int, heads: int, depth: int) -> Value:
        """x + rows that have seen each other and the text."""
        h = self.group_norm(x, f"{name}.norm", size, epsilon=1e-6)
        # A convolution of 1 by 1 is a layer of the rows; checkpoints have either form.
        rows = self.linear(self.rows_of(h, size), f"{name}.proj_in", size, size)
        for k in range(depth):
            rows = self._block(rows, f"{name}.transformer_blocks.{k}", size, heads)
        added: Value = self.b.Add(self.image_of(self.linear(rows, f"{name}.proj_out", size, size), x), x)
        return added

    def _block(self, x: Value, name: str, size: int, heads: int) -> Value:
        b = self.b
        x = b.Add(x, self.attention(self.layer_norm(x, f"{name}.norm1", size), f"{name}.attn1", size, heads))
        h = self.layer_norm(x, f"{name}.norm2", size)
        x = b.Add(x, self.attention(h, f"{name}.attn2", size, heads, self.text, self.context))
        h = self.linear(self.layer_norm(x, f"{name}.norm3", size), f"{name}.ff.net.0.proj", size, 8 * size)
        value, gate = b.Split(h, axis=-1, sizes=(4 * size, 4 * size), n_outputs=2)
        added: Value = b.Add(x, self.linear(b.Mul(value, b.Gelu(gate)), f"{name}.ff.net.2", 4 * size, size))
        return added
