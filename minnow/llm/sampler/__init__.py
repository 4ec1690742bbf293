"""Samplers: from logits to the next token."""

from minnow.llm.sampler.sampler import Sampler

__all__ = ["Sampler"]
