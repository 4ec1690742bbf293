"""Options of samplers: how the tokens of an answer are chosen."""

from dataclasses import dataclass
from typing import Any, ClassVar

from minnow.options.option import Options, option


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SamplerOptions(Options):
    """How the tokens of an answer are chosen: penalties, then filters in this order, then the temperature."""

    SECTION: ClassVar[str] = "Choosing tokens"

    temperature: float = option(
        0.8, "Divides the logits: less than 1 prefers probable tokens; 0 takes the most probable one.", least=0
    )
    top_k: int = option(40, "Keep this many of the most probable tokens; 0 keeps all.", least=0)
    tfs_z: float = option(
        1.0, "Tail-free sampling: cut where the probabilities stop to fall quickly; 1 cuts nothing.", above=0, most=1
    )
    typical_p: float = option(
        1.0, "Keep tokens whose information is nearest to the expected one, up to this probability in all.",
        above=0, most=1,
    )  # fmt: skip
    top_p: float = option(0.95, "Keep the most probable tokens up to this probability in all.", above=0, most=1)
    min_p: float = option(
        0.05, "Keep tokens with at least this part of the probability of the most probable one.", least=0, most=1
    )
    xtc_probability: float = option(
        0.0, "XTC: how often all but the last of the probable tokens are left out; 0: never.", least=0, most=1
    )
    xtc_threshold: float = option(0.1, "XTC: which tokens are probable.", above=0, most=1)
    repetition_penalty: float = option(
        1.0, "Divide positive logits of tokens that have occurred by this, and multiply negative ones.", above=0
    )
    presence_penalty: float = option(0.0, "Subtract this from the logits of tokens that have occurred.")
    frequency_penalty: float = option(0.0, "Subtract this from the logits of tokens for each time they occurred.")
    penalty_window: int = option(64, "How many of the last tokens the penalties look at; 0: all.", least=0)
    dry_multiplier: float = option(
        0.0, "DRY: the penalty of a token that would continue a repetition of earlier tokens; 0: none.", least=0
    )
    dry_base: float = option(1.75, "DRY: the penalty grows by this factor with each repeated token.", least=1)
    dry_allowed_length: int = option(2, "DRY: repetitions up to this many tokens have no penalty.", least=1)
    dry_breakers: Any = option((), "DRY: tokens that no repetition goes across.", only_python=True)
    logit_bias: Any = option(
        None, "Numbers to add to the logits of tokens.", python="A dictionary by token.", only_python=True
    )
    banned_tokens: Any = option((), "Tokens that are never chosen.", only_python=True)
    seed: int | None = option(None, "Seed of the random numbers; by default each answer has its own.", least=0)
