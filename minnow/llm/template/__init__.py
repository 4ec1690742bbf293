"""Chat templates: messages become the text that a model was trained on."""

from minnow.llm.template.template import ChatTemplate

__all__ = ["ChatTemplate"]
