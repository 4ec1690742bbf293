"""AutoencoderKL: latent images to pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from minnow.converter.diffusion.net import MOST_CHANNELS, Net
from minnow.converter.llm.checkpoint import Checkpoint
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Blob, DType, Model, Value

_KNOWN = {
    "act_fn": ("silu", "swish"),
    "latents_mean": (),
    "latents_std": (),
    "mid_block_add_attention": (True,),
    "out_channels": (3,),
}
_OLD = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
"""Layers of attention by the names that old checkpoints have for them."""
_UP = "UpDecoderBlock2D"
_EPSILON = 1e-6


def decoder(checkpoint: Checkpoint) -> Model:
    """The graph of its decoder: `latents` [batch, channels, height, width] to `image` [batch, 3, height, width], from
    -1 to 1 and many times larger.

    Raises:
        UnsupportedError: a setting. ModelError: tensors and settings do not fit.
    """
    return _Decoder(replace(checkpoint, tensors=_of_decoder(checkpoint.tensors))).built()


def _of_decoder(tensors: Mapping[str, Blob]) -> dict[str, Blob]:
    """The tensors that a decoder has, by their new names."""
    found = {}
    for name, blob in tensors.items():
        if not name.startswith(("encoder.", "quant_conv.")):
            front, _, last = name.rpartition(".")
            before, _, layer = front.rpartition(".")
            found[f"{before}.{_OLD[layer]}.{last}" if layer in _OLD else name] = blob
    return found


class _Decoder(Net):
    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, "vae_decoder", _EPSILON)
        self.only(_KNOWN)
        self.channels = self.blocks()
        kinds = self.settings.texts("up_block_types", len(self.channels)) or [_UP]
        if other := next((kind for kind in kinds if kind != _UP), ""):
            raise UnsupportedError(
                f"blocks of the kind '{other[:60]}' are not supported", where=self.settings.where, hint=f"{_UP} is"
            )

    def built(self) -> Model:
        size = self.settings.integer("latent_channels", default=4, most=MOST_CHANNELS)
        x = self.input("latents", DType.F32, "batch", size, "height", "width")
        if self.settings.flag("use_post_quant_conv", default=True):
            x = self.conv(x, "post_quant_conv", size, size, size=1)
        channels = list(reversed(self.channels))
        x = self._middle(self.conv(x, "decoder.conv_in", size, channels[0]), channels[0])
        layers, size = self.settings.integer("layers_per_block", default=1, most=64) + 1, channels[0]
        for i, wide in enumerate(channels):
            for j in range(layers):
                x = self.resnet(x, f"decoder.up_blocks.{i}.resnets.{j}", size, wide)
                size = wide
            if i + 1 < len(channels):
                x = self.doubled(x, f"decoder.up_blocks.{i}.upsamplers.0", size)
        x = self.b.Silu(self.group_norm(x, "decoder.conv_norm_out", size))
        return self.model(image=self.conv(x, "decoder.conv_out", size, 3))

    def _middle(self, x: Value, size: int) -> Value:
        p = "decoder.mid_block"
        x = self.resnet(x, f"{p}.resnets.0", size, size)
        rows = self.rows_of(self.group_norm(x, f"{p}.attentions.0.group_norm", size), size)
        seen = self.attention(rows, f"{p}.attentions.0", size, heads=1, bias=True)
        return self.resnet(self.b.Add(x, self.image_of(seen, x)), f"{p}.resnets.1", size, size)
