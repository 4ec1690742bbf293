"""Language models -> IR: GGUF files, folders of Hugging Face and MNN-LLM, and a step graph for each."""

from minnow.converter.llm.frontend import frontend

__all__ = ["frontend"]
