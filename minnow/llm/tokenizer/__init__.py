"""Tokenizers of language models: `Tokenizer.from_file("tokenizer.json")`.

    text -> added tokens -> normalizer -> pre-tokenizer -> model -> post-processor -> ids -> decoder -> text

Each step is a module with what its JSON objects may be, by their `type`.
"""

from minnow.llm.tokenizer.tokenizer import Stream, Tokenizer

__all__ = ["Stream", "Tokenizer"]
