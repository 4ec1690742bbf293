"""Language models: from a folder that `mnnconvert` has made of a checkpoint to tokens.

llm = minnow.llm.load("smollm2", threads=2)
for piece in llm.generate("What is the capital of France?", temperature=0):
    print(piece, end="", flush=True)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from minnow.options.generate import LanguageOptions
from minnow.options.signature import takes

if TYPE_CHECKING:
    from minnow.llm.llm import LLM


@takes(LanguageOptions)
def load(folder: str | os.PathLike[str], options: LanguageOptions) -> LLM:
    """Loads a language model.

    Args:
        folder: what `mnnconvert MODEL -o FOLDER` has written of a GGUF file or a Hugging Face folder.
        options:

    Raises:
        FormatError: a file is missing, or damaged.
        UsageError: an option is wrong, or the draft model has another vocabulary.
    """
    from minnow.llm.folder import loaded

    return loaded(folder, options)
