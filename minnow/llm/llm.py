"""`LLM`: a language model with its tokenizer, its chat template, and a batch of requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minnow.llm.batch import Batch
from minnow.llm.description import Description
from minnow.llm.generation import Answer, Generation, Pieces
from minnow.llm.image.prompt import ImagePrompts, has_images, with_images
from minnow.llm.image.vision import PromptTokens
from minnow.llm.request import Array, Request, Sampled
from minnow.llm.speculative import Draft
from minnow.llm.text import Text
from minnow.options.generate import AnswerOptions, BatchOptions
from minnow.options.signature import takes
from minnow.schema.errors import UsageError

Message = Mapping[str, Any]
"""A message of a chat: {"role": "user", "content": "..."}. Where the model sees, the content may be a list of parts:
{"type": "text", "text": "..."} and {"type": "image", "image": ...}."""
Prompt = str | Sequence[int] | Sequence[Message]
"""A question, or a text to continue; tokens; or the messages of a chat."""

CONTEXTS = 4
"""For how many full contexts the cache has room, unless the user says it."""


class LLM:
    """A language model, ready to use; made by `minnow.llm.load`.

    Several answers may be written at a time, also in several threads: they share the steps of the model.

    Args:
        description: what `llm.json` says.
        model: computes logits, embeddings or scores.
        tokenizer: text to tokens and back.
        sampler: makes a sampler for an answer, from its options and its prompt.
        template: makes a prompt of messages.
        draft: guesses tokens.
        images: makes prompts with images; None: the model sees none.
    """

    def __init__(
        self,
        description: Description,
        model: Any,
        tokenizer: Any,
        sampler: Callable[[AnswerOptions, Sequence[int]], Any],
        template: Callable[..., str] | None = None,
        draft: Draft | None = None,
        options: BatchOptions = BatchOptions(),
        images: ImagePrompts | None = None,
    ) -> None:
        self.description, self.tokenizer, self.images = description, tokenizer, images
        self.model, self._sampler, self._template, self._draft = model, sampler, template, draft
        self._rendering = threading.Lock()
        self.batch = Batch(
            model,
            context=description.context,
            sequences=options.sequences,
            chunk=options.chunk,
            queue=options.queue,
            cached=options.cached_tokens or CONTEXTS * description.context,
        )

    @property
    def has_template(self) -> bool:
        """Whether the model has a chat template."""
        return self._template is not None

    @takes(AnswerOptions, 2)
    def generate(self, prompt: Prompt, options: AnswerOptions) -> Generation:
        """Writes an answer.

        Args:
            prompt: a question, which the chat template wraps; with `raw`, or where the model has no chat template, a
                text to continue; the messages of a chat; or tokens.
            options:

        Returns:
            an iterator of the pieces of the answer. Its `result` has the whole text, why it ended, tokens and times.

        Raises:
            UsageError: the prompt is empty or too long, or an option is wrong.
            FormatError: an image cannot be read.
        """
        pieces = Pieces()
        images = options.images if isinstance(options.images, (list, tuple)) else [options.images]
        tokens = self.prompt_tokens(prompt, raw=options.raw, images=images)
        request = self.request(tokens, options, pieces.heard, pieces.end)
        self.batch.add(request)
        return Generation(self.batch, request, pieces)

    def request(
        self,
        tokens: Sequence[int],
        options: AnswerOptions,
        heard: Callable[[Sampled, str], None],
        ended: Callable[[str, BaseException | None], None],
        *,
        client: str = "",
        after: Request | None = None,
    ) -> Request:
        """A request for `batch`, whose listener is an `Answer`. The arguments are those of `Answer` and `Request`."""
        self._check_kind("generate")
        stop = [options.stop] if isinstance(options.stop, str) else list(options.stop)
        if not all(isinstance(text, str) and text for text in stop):
            raise UsageError("a stop string is empty, or no text")
        sees = isinstance(tokens, PromptTokens)
        sampler = self._sampler(options, tokens.of_vocabulary() if isinstance(tokens, PromptTokens) else tokens)
        answer = Answer(Text(self.tokenizer.stream(), stop), heard, ended, getattr(sampler, "complete", None))
        return Request(
            tokens,
            sampler,
            answer,
            max_tokens=options.max_tokens or max(self.batch.longest - len(tokens), 1),
            stop=frozenset(self.description.eos),
            logprobs=options.logprobs,
            client=client,
            draft=None if options.json_schema is not None or sees else self._draft,
            temperature=options.temperature,
            seed=options.seed,
            after=after,
        )

    def prompt_tokens(
        self, prompt: Prompt, *, raw: bool = False, images: Sequence[Any] = (), **template: Any
    ) -> list[int]:
        """The tokens of a prompt.

        Args:
            prompt: as for `generate`.
            raw: a text is to be continued, and no question.
            images: of the prompt, as the option of `generate`.
            template: further variables of the chat template, such as `tools`.

        Raises:
            UsageError: it is none of a text, messages and tokens, or the model has no chat template, or sees no images.
            FormatError: an image cannot be read.
        """
        if isinstance(prompt, PromptTokens) and not images:
            return prompt
        if isinstance(prompt, str):
            if raw or self._template is None:
                return self._with_rows(self.encode(prompt), images)
            prompt = [{"role": "user", "content": prompt}]
        parts: list[Any] = list(prompt)
        if not parts:
            raise UsageError("the prompt is empty")
        if all(isinstance(token, (int, np.integer)) for token in parts):
            tokens = [int(token) for token in parts]
            if not all(0 <= token < self.description.vocab_size for token in tokens):
                raise UsageError("a token of the prompt is not in the vocabulary")
            return self._with_rows(tokens, images) if images else tokens
        if not all(isinstance(message, Mapping) for message in parts):
            raise UsageError("the prompt is neither a text, nor tokens, nor messages")
        text, found = self._rendered(with_images(parts, images) if images else parts, **template)
        return self._with_rows(self.encode(text, template=True), found)

    def encode(self, text: str, *, template: bool = False, parse: bool = True) -> list[int]:
        """The tokens of a text, with the one that begins a text where the model wants it.

        Args:
            template: the chat template has made it, with all marks.
            parse: texts of special tokens in it are these tokens.

        Raises:
            UsageError: the text has halves of surrogate pairs, which are no characters.
        """
        try:
            text.encode()
        except UnicodeEncodeError as e:
            raise UsageError("the text is no Unicode", why=f"half of a surrogate pair at {e.start}") from None
        tokens = list(self.tokenizer.encode(text, special=not template, parse=parse))
        bos = self.description.bos
        if self.description.add_bos and not template and bos is not None and tokens[:1] != [bos]:
            tokens.insert(0, bos)
        return tokens

    def apply_chat_template(self, messages: Sequence[Message], **variables: Any) -> str:
        """The prompt that the chat template makes of messages.

        Args:
            messages: each with "role" and "content".
            variables: further ones of the template, such as `tools`, `enable_thinking` or `add_generation_prompt`.

        Raises:
            UsageError: the model has no chat template, or it refuses these messages.
        """
        return self._rendered(messages, **variables)[0]

    def embed(self, texts: str | Sequence[str]) -> Array:
        """Vectors of texts, float32 [texts, size].

        Raises:
            UsageError: the model is none for embeddings, or a text is too long.
        """
        self._check_kind("embed")
        found: Array = self.model.embed(self._rows([texts] if isinstance(texts, str) else texts))
        return found

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the query: a score for each, the higher the better.

        Raises:
            UsageError: the model is none for ranking, or a text is too long.
        """
        self._check_kind("rerank")
        return [float(score) for score in self.model.score([self._pair(query, text) for text in texts])]

    def close(self) -> None:
        """Ends all answers."""
        self.batch.close()

    def _rendered(self, messages: Sequence[Message], **variables: Any) -> tuple[str, list[Any]]:
        """What the chat template makes of messages, and their images."""
        if self._template is None:
            hint = "give a text to continue"
            raise UsageError("the model has no chat template", where=self.description.name, hint=hint)
        found: list[Any] = []
        with self._rendering:  # a template counts what it does
            if self.images is not None:
                messages, found = self.images.split(messages)
            elif has_images(messages):
                raise self._blind()
            return self._template(messages, **{"add_generation_prompt": True, **variables}), found

    def _with_rows(self, tokens: list[int], images: Sequence[Any]) -> list[int]:
        """Tokens with the rows of images in their places."""
        if self.images is not None:
            return self.images.tokens(tokens, images, self.batch.longest)
        if images:
            raise self._blind()
        return tokens

    def _blind(self) -> UsageError:
        return UsageError("the model sees no images", where=self.description.name)

    def _rows(self, texts: Sequence[str]) -> list[list[int]]:
        rows = [list(self.tokenizer.encode(text)) for text in texts]
        self._check_lengths(rows)
        return rows

    def _pair(self, query: str, text: str) -> tuple[list[int], list[int]]:
        ids, kinds = self.tokenizer.encode_pair(query, text)
        self._check_lengths([ids])
        return list(ids), list(kinds)

    def _check_lengths(self, rows: Sequence[Sequence[int]]) -> None:
        longest = max(map(len, rows), default=0)
        if longest > self.description.context:
            why = f"it has {longest:,} tokens, and the model takes {self.description.context:,}"
            raise UsageError("a text is too long", why=why)

    def _check_kind(self, kind: str) -> None:
        does = {"generate": "writes answers", "embed": "gives embeddings", "rerank": "ranks texts"}
        if self.description.kind != kind:
            message = f"the model {does[self.description.kind]}, and not what was asked for"
            raise UsageError(message, where=self.description.name)
