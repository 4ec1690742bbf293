"""Folders of MNN-LLM: the graph of a step as MNN's runtime for language models wants it, read and made."""
