"""Vocabularies of other formats -> the JSON of a tokenizer.json: a function for each source."""

from minnow.converter.llm.tokenizer.folder import from_folder

__all__ = ["from_folder"]
