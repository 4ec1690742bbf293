"""Vocabularies of other formats -> the JSON of a tokenizer.json."""
