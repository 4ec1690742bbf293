"""Rotary positions: how fast the angle of each pair of features grows, in the ways that checkpoints ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.converter.llm.checkpoint import Settings
from minnow.schema.errors import ModelError, UnsupportedError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Frequencies:
    """Angles by which a step of one position turns the pairs.

    Attributes:
        steps: f32[pairs].
        scale: what cosines and sines are multiplied by.
        beyond: for sequences longer than `reach`: other steps of the same number; None: the same.
        reach: tokens up to which `steps` hold.
        grows: beyond it, the base grows with the length (`dynamic`): its exponent, and the factor.
    """

    steps: Array
    scale: float = 1.0
    beyond: Array | None = None
    reach: int = 0
    grows: tuple[float, float] | None = None


@dataclass(frozen=True)
class _Asked:
    """What a checkpoint says of rotary positions.

    Attributes:
        size: rotated features of a head.
        steps: without any scaling, f64[size / 2].
        context: tokens that the model was made for.
    """

    settings: Settings
    size: int
    base: float
    steps: Array
    context: int

    @property
    def factor(self) -> float:
        return self.settings.real("factor", least=1e-6)

    @property
    def original(self) -> int:
        """Tokens of the training before the context was made longer."""
        return self.settings.integer("original_max_position_embeddings", default=self.context)


def longest(settings: Settings) -> int:
    """The most tokens of a sequence."""
    context = settings.integer("max_position_embeddings", "n_positions", default=2048)
    scaling = settings.section("rope_parameters") or settings.section("rope_scaling")
    if scaling is None or scaling.raw("rope_type") != "dynamic":
        return context
    return int(context * scaling.real("factor", default=1.0, least=1, most=1e6))  # others count the longer one


def frequencies(settings: Settings, size: int, base: float, layer_type: str = "") -> Frequencies:
    """The steps that hyperparameters ask for.

    Args:
        settings: of the model.
        size: rotated features of a head.
        base: what is raised to powers, where the hyperparameters do not say it.
        layer_type: of models in which layers differ: whose.

    Raises:
        UnsupportedError: the way of scaling is not known. ModelError: its numbers are missing or wrong.
    """
    scaling = settings.section("rope_parameters") or settings.section("rope_scaling")
    if scaling is not None and layer_type and layer_type in scaling:
        scaling = scaling.section(layer_type)
    if scaling is not None:
        base = scaling.real("rope_theta", default=base, least=1e-3, most=1e15)
    if size % 2 or not 2 <= size <= 1 << 16:
        raise ModelError(f"{size} features of a head are turned, which are no pairs", where=settings.where)
    steps = base ** -(np.arange(0, size, 2, dtype=np.float64) / size)
    kind = "default" if scaling is None else scaling.text("rope_type", "type", default="default")
    if kind not in WAYS:
        hint = f"known are {', '.join(WAYS)}"
        raise UnsupportedError(
            f"rotary positions of the kind '{kind[:40]}' are not supported", where=settings.where, hint=hint
        )
    context = settings.integer("max_position_embeddings", default=2048)
    if scaling is None:
        return _plain(_Asked(settings, size, base, steps, context))
    outside = settings.raw("original_max_position_embeddings")
    table = {**scaling.table} if outside is None else {"original_max_position_embeddings": outside, **scaling.table}
    return WAYS[kind](_Asked(Settings(table, scaling.where), size, base, steps, context))


def _f32(steps: Array) -> Array:
    return steps.astype(np.float32)


def _plain(asked: _Asked) -> Frequencies:
    return Frequencies(_f32(asked.steps))


def _linear(asked: _Asked) -> Frequencies:
    return Frequencies(_f32(asked.steps / asked.factor))


def _dynamic(asked: _Asked) -> Frequencies:
    """The base grows with the length of a sequence that is longer than the training's."""
    if asked.size == 2:
        return Frequencies(_f32(asked.steps))
    return Frequencies(_f32(asked.steps), reach=asked.original, grows=(asked.size / (asked.size - 2), asked.factor))


def _yarn(asked: _Asked) -> Frequencies:
    """Slow pairs are slowed further, fast ones are not, with a ramp between them."""
    own, original = asked.settings, asked.original
    factor = own.real("factor", default=asked.context / original, least=1e-6)
    fast, slow = own.real("beta_fast", default=32.0, least=1e-6), own.real("beta_slow", default=1.0, least=1e-6)

    def pair_of(turns: float) -> float:
        """The pair that makes so many turns within the original context."""
        return asked.size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(asked.base))

    low, high = pair_of(fast), pair_of(slow)
    if own.flag("truncate", default=True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, asked.size - 1)
    ramp = np.clip((np.arange(asked.size // 2) - low) / (max(high, low + 0.001) - low), 0, 1)
    steps = asked.steps / factor * ramp + asked.steps * (1 - ramp)
    return Frequencies(_f32(steps), _yarn_scale(own, factor))


def _yarn_scale(own: Settings, factor: float) -> float:
    if "attention_factor" in own:
        return own.real("attention_factor")

    def magnitude(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0

    if "mscale" in own and "mscale_all_dim" in own:
        return magnitude(own.real("mscale")) / magnitude(own.real("mscale_all_dim"))
    return magnitude(1)


def _llama3(asked: _Asked) -> Frequencies:
    """Pairs of long waves are slowed, those of short ones are not, with a smooth change between."""
    own = asked.settings
    low, high = own.real("low_freq_factor", least=1e-6), own.real("high_freq_factor", least=1e-6)
    if low >= high:
        raise ModelError("'low_freq_factor' is not less than 'high_freq_factor'", where=own.where)
    turns = asked.original * asked.steps / (2 * math.pi)  # within the original context
    share = np.clip((turns - low) / (high - low), 0, 1)
    return Frequencies(_f32(asked.steps * (share + (1 - share) / asked.factor)))


def _longrope(asked: _Asked) -> Frequencies:
    """Each pair is slowed by a factor of its own; sequences beyond the original context have others."""
    own, original = asked.settings, asked.original
    short, long = (np.asarray(own.numbers(f"{k}_factor", asked.size // 2)) for k in ("short", "long"))
    if not (short > 0).all() or not (long > 0).all():
        raise ModelError("'short_factor' and 'long_factor' must be positive", where=own.where)
    factor = asked.context / original if "factor" not in own else asked.factor
    scale = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    scale = own.real("attention_factor", default=scale)
    return Frequencies(_f32(asked.steps / short), scale, beyond=_f32(asked.steps / long), reach=original)


WAYS: dict[str, Callable[[_Asked], Frequencies]] = {
    "default": _plain,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "su": _longrope,
}
"""How contexts are made longer, by the names that config.json has for it."""
