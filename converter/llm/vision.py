"""Encoders of images, CLIP's and SigLIP's, up to the layers whose results a language model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minnow.converter.llm.architecture.clip import layer
from minnow.converter.llm.checkpoint import Checkpoint, Settings
from minnow.converter.llm.step import Step
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Model, Value

_MOST_PIXELS, _MOST_CHANNELS = 1 << 14, 1 << 10
_BEHIND_FIRST = (np.array([1]), np.array([np.iinfo(np.int32).max]), np.array([1]))
"""Starts, ends and axes of a slice: all rows but the first."""


@dataclass(frozen=True)
class Kind:
    """What encoders differ in.

    Attributes:
        first_row: a row that is learned stands in front of those of the patches, and the rows are normed.
        activation, epsilon: where the settings do not say them.
    """

    first_row: bool
    activation: str
    epsilon: float


_KINDS = {
    "clip_vision_model": Kind(True, "quick_gelu", 1e-5),
    "siglip_vision_model": Kind(False, "gelu_pytorch_tanh", 1e-6),
}


def kind_of(settings: Settings) -> Kind:
    """What an encoder is, by its settings. Raises UnsupportedError if it is of another kind."""
    name = settings.text("model_type")
    if name not in _KINDS:
        raise UnsupportedError(
            f"encoders of images of the kind '{name[:60]}' are not supported",
            where=settings.where,
            hint=f"supported are {', '.join(_KINDS)}",
        )
    return _KINDS[name]


def encoder(checkpoint: Checkpoint, layers: Sequence[int] = (-1,), every_row: bool = True) -> Model:
    """The graph of an encoder alone: `pixel_values` to `hidden_states`. Arguments, shapes and errors as of `seen`."""
    step = Step(checkpoint)
    step.outputs.append(("hidden_states", seen(step, layers, every_row)))
    step.weights.check_all_used(())
    model = step.model()
    model.metadata.clear()
    return model


def seen(s: Step, layers: Sequence[int], every_row: bool) -> Value:
    """What layers make of images: f32 [images, rows, features], features of several layers side by side.

    Args:
        s: of the encoder; gets the input `pixel_values`.
        layers: numbers of layers: 0 is what the first one reads, 1 what it gives; negative ones count from the end.
        every_row: False: without the first row.

    Raises:
        UnsupportedError: it is of another kind. ModelError: tensors and settings do not fit, or there is no such layer.
    """
    kind = kind_of(s.settings)
    wanted = [n + s.layers + 1 if n < 0 else n for n in layers]
    if not wanted or not all(0 <= n <= s.layers for n in wanted):
        raise ModelError(f"the encoder of images has {s.layers} layers, not {list(layers)}", where=s.settings.where)
    p = "vision_model." if s.weights.has("vision_model.embeddings.position_embedding.weight") else ""
    size = s.settings.integer("intermediate_size", most=1 << 24)
    epsilon = s.settings.real("layer_norm_eps", default=kind.epsilon, least=0)
    states = [_embedded(s, kind, p, epsilon)]
    for i in range(max(wanted)):
        states.append(layer(s, states[-1], f"{p}encoder.layers.{i}", size, epsilon, activation=kind.activation))
    left = [f"{p}encoder.layers.{i}." for i in range(max(wanted), s.layers)]
    s.weights.pass_over(*left, f"{p}post_layernorm.", f"{p}head.", f"{p}embeddings.position_ids")
    rows = [states[n] if every_row else s.b.Slice(states[n], *_BEHIND_FIRST) for n in wanted]
    made: Value = rows[0] if len(rows) == 1 else s.b.Concat(*rows, axis=-1)
    return made


def _embedded(s: Step, kind: Kind, p: str, epsilon: float) -> Value:
    """The patches of images as rows, with their places."""
    whole, patch = (s.settings.integer(f"{n}_size", most=_MOST_PIXELS) for n in ("image", "patch"))
    channels = s.settings.integer("num_channels", default=3, most=_MOST_CHANNELS)
    count = (whole // patch) ** 2
    if not count:
        raise ModelError(f"patches of {patch} pixels are larger than images of {whole}", where=s.settings.where)
    name = f"{p}embeddings.patch_embedding"
    weight = Value.constant(s.weights.get(f"{name}.weight", s.hidden, channels, patch, patch), f"{name}.weight")
    bias = None if kind.first_row else s.weights.vector(f"{name}.bias", s.hidden)
    pixels = s.open_images(channels, whole)
    x = s.b.Conv(pixels, weight, bias, strides=(patch, patch), pads=(0,) * 4, dilations=(1, 1), names=(name,))
    x = s.b.Transpose(s.b.Reshape(x, np.array([-1, s.hidden, count])), perm=(0, 2, 1))
    rows = count + kind.first_row
    places = np.asarray(s.weights.matrix(f"{p}embeddings.position_embedding", rows, s.hidden).numpy(), np.float32)
    if kind.first_row:
        x = s.b.Pad(x, np.array([0, 0, 1, 0, 0, 0]))
        places = places.copy()
        places[0] += s.weights.vector(f"{p}embeddings.class_embedding", s.hidden)
    x = s.b.Add(x, places)
    return s.layer_norm(x, f"{p}pre_layrnorm", epsilon) if kind.first_row else x
