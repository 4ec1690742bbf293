"""Loads a language model: a folder with its description, its tokenizer and its step graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minnow.llm.description import Description
from minnow.llm.image.prompt import ImagePrompts
from minnow.llm.llm import CONTEXTS, LLM
from minnow.llm.model import LanguageModel
from minnow.llm.sampler import Sampler
from minnow.llm.speculative import Draft, ModelDraft, NgramDraft, check_same_vocabulary
from minnow.llm.template import ChatTemplate
from minnow.llm.tokenizer import Tokenizer
from minnow.options.generate import AnswerOptions, LanguageOptions
from minnow.schema.errors import UsageError

_MARK = "<image>"
"""Of images in texts, where the token that stands for them has no text."""
_BYTES = {"f16": 2, "f32": 4, "int8": 1}
"""Of a number in the cache."""


def loaded(folder: str | os.PathLike[str], options: LanguageOptions) -> LLM:
    """The language model of a folder. The arguments and errors are those of `minnow.llm.load`."""
    path = Path(folder)
    description = Description.read(path)
    options = replace(options, cached_tokens=options.cached_tokens or room(description, options.cache))
    tokenizer = Tokenizer.from_file(path)
    if options.lora is None:
        model = _model(path, description, options)
    else:
        from minnow.llm.lora import adapted, open_adapter

        with adapted(path, open_adapter(Path(options.lora), options.lora_scale)) as changed:
            model = _model(changed, description, options, path)

    def sampler(answer: AnswerOptions, prompt: Sequence[int]) -> Any:
        made = Sampler(answer, tokenizer=tokenizer, description=description)
        made.prime(prompt)
        return made

    template, images = _template(description, tokenizer), None
    if model.vision is not None and description.image is not None:
        images = ImagePrompts(model.vision, tokenizer.token(description.image.token) or _MARK, template)
    return LLM(description, model, tokenizer, sampler, template, _draft(tokenizer, options), options, images)


def room(description: Description, cache: str) -> int:
    """For how many tokens a cache has room by default: four contexts, but no more than a quarter of the memory."""
    numbers = 2 * description.layers * description.kv_heads * description.head_size
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(min(CONTEXTS * description.context, memory // 4 // (numbers * _BYTES[cache])), 16)


def _template(description: Description, tokenizer: Tokenizer) -> Callable[..., str] | None:
    """Makes prompts of messages; None if the model has no chat template."""
    if description.chat_template is None:
        return None
    marks = {"bos_token": description.bos, "eos_token": next(iter(description.eos), None)}
    texts = {name: tokenizer.token(id) or "" for name, id in marks.items() if id is not None}
    return ChatTemplate(description.chat_template, **texts).render


def _model(path: Path, description: Description, options: LanguageOptions, vision: Path | None = None) -> LanguageModel:
    """The model, whose cache has room for what the batch admits; its encoder of images may be in another folder."""
    tokens = (options.cached_tokens or 0) + options.sequences * description.block
    names = ("threads", "device", "precision", "cache")
    given = {name: getattr(options, name) for name in names}
    return LanguageModel.load(path, description, cached_tokens=tokens, vision=vision, **given)


def _draft(tokenizer: Tokenizer, options: LanguageOptions) -> Draft | None:
    """What guesses tokens, if anything."""
    size = {} if options.draft_tokens is None else {"tokens": options.draft_tokens}
    if options.draft is None:
        if size:
            raise UsageError("draft_tokens needs draft", hint="give draft='ngram', or the folder of a smaller model")
        return None
    if str(options.draft) == "ngram":
        return NgramDraft(**size)
    path = Path(options.draft)
    description = Description.read(path)
    check_same_vocabulary(tokenizer, Tokenizer.from_file(path))
    return ModelDraft(_model(path, description, options), **size)
