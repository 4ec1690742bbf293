"""From a checkpoint to the graph of its step."""

from __future__ import annotations

from minnow.converter.llm.architecture import architectures
from minnow.converter.llm.checkpoint import Checkpoint
from minnow.converter.llm.step import BLOCK, Step
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Model

_HARMLESS = ("rotary_emb.inv_freq", "lm_head.weight")
"""Endings of tensors that checkpoints have besides: tables that are computed, and a second name of a tied table."""


def build(checkpoint: Checkpoint, cache: DType = DType.F16, block: int = BLOCK) -> Model:
    """The step of a language model as a graph.

    Args:
        checkpoint: the model.
        cache: element type of keys and values in the cache.
        block: tokens of a block of it.

    Raises:
        UnsupportedError: the architecture is not known, or a setting of it.
        ModelError: tensors and hyperparameters do not fit.
    """
    if checkpoint.graph is not None:
        return checkpoint.graph(cache, block)
    return built(Step(checkpoint, cache, block))


def built(step: Step) -> Model:
    """The same for a step without nodes, of whichever kind."""
    checkpoint = step.checkpoint
    known = architectures().get(checkpoint.model_type)
    if known is None:
        raise UnsupportedError(
            f"models of the architecture '{checkpoint.model_type[:40]}' are not supported",
            where=str(checkpoint.path),
            hint=f"supported are {', '.join(architectures())}",
        )
    known.build(step)
    if checkpoint.sight is not None and not step.sees:
        what = f"a language model of the architecture '{checkpoint.model_type}' that sees is not supported"
        raise UnsupportedError(what, where=str(checkpoint.path))
    step.weights.check_all_used((*_HARMLESS, *known.harmless))
    return step.model()


def sizes_of(checkpoint: Checkpoint) -> Step:
    """A step without nodes: it has the sizes that the hyperparameters give."""
    return Step(checkpoint)
