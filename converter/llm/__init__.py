"""Language models -> IR: GGUF files and Hugging Face folders as checkpoints, and a step graph for each architecture."""

from minnow.converter.llm.frontend import frontend

__all__ = ["frontend"]
