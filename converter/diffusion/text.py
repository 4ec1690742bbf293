"""CLIPTextModel: a text as the vectors of its tokens, which the removal of noise has in mind."""

from __future__ import annotations

from minnow.converter.llm.architecture.clip import encoded
from minnow.converter.llm.checkpoint import Checkpoint
from minnow.converter.llm.step import Step
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Model

_HARMLESS = ("embeddings.position_ids", "text_projection.weight")


def encoder(checkpoint: Checkpoint) -> Model:
    """The graph of it: `input_ids` i32 [batch, length] to `hidden_states` [batch, length, features].

    Raises:
        UnsupportedError: it is of another kind. ModelError: tensors and settings do not fit.
    """
    if checkpoint.model_type != "clip_text_model" or checkpoint.settings.raw("use_attention_mask"):
        raise UnsupportedError(
            f"encoders of texts of the kind '{checkpoint.model_type[:60]}' are not supported",
            where=checkpoint.settings.where,
            hint="CLIP's is",
        )
    step = Step(checkpoint)
    ids = step.open_texts()
    step.outputs.append(("hidden_states", encoded(step, ids)))
    step.weights.check_all_used(_HARMLESS)
    model = step.model()
    model.metadata.clear()
    return model
