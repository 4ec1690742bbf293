"""Images in prompts: out of messages, through the encoder, into the places that the chat template has left for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minnow.llm.image.preprocessing import Array, prepared
from minnow.llm.image.source import MOST_PIXELS, read_image
from minnow.llm.image.vision import PromptTokens, Vision
from minnow.schema.errors import MinnowError, UsageError

Message = Mapping[str, Any]
IMAGE, IMAGE_URL, TEXT = "image", "image_url", "text"
"""Types of the parts of a message."""
_PROBE = "what is this"


class PreparedImage:
    """An image as the encoder reads it.

    Attributes:
        pixels: float32 [3, size, size].
    """

    __slots__ = ("pixels",)

    def __init__(self, pixels: Array) -> None:
        self.pixels = pixels


class ImagePrompts:
    """Makes prompts with images for one language model.

    Args:
        vision: its encoder of images.
        mark: the text of the token that stands for an image.
        template: makes a text of messages; None: the model has no chat template.
    """

    def __init__(self, vision: Vision, mark: str, template: Callable[..., str] | None) -> None:
        self._vision, self.mark, self._template = vision, mark, template
        self._reads_parts: bool | None = None

    def prepared(self, source: Any, *, local: bool = True, most_pixels: int = MOST_PIXELS) -> PreparedImage:
        """An image as the encoder reads it. The arguments and errors are those of `read_image` and `prepared`."""
        if isinstance(source, PreparedImage):
            return source
        image = read_image(source, local=local, most_pixels=most_pixels)
        return PreparedImage(prepared(image, self._vision.description))

    def split(self, messages: Sequence[Message]) -> tuple[list[Message], list[Any]]:
        """Messages as the chat template reads them, and their images in order.

        Templates that know images get lists of parts, others texts with a mark for each image.

        Raises:
            UsageError: a part of a message is neither text nor an image.
        """
        found: list[Any] = []
        out: list[Message] = []
        for message in messages:
            content = message.get("content")
            parts = [_part(p, found) for p in content] if isinstance(content, list) else content
            if isinstance(parts, str) and self._is_for_parts():
                parts = [{"type": TEXT, "text": parts}]
            elif isinstance(parts, list) and not self._is_for_parts():
                parts = "".join(f"{self.mark}\n" if p["type"] == IMAGE else p["text"] for p in parts)
            out.append({**message, "content": parts})
        return out, found

    def tokens(self, tokens: list[int], sources: Sequence[Any], longest: int) -> list[int]:
        """The tokens of a prompt with the rows of images in the places of the tokens that stand for them.

        Args:
            tokens: the prompt, with one such token for each image.
            sources: the images.
            longest: a prompt with so many tokens is too long; then the images are not looked at.

        Raises:
            UsageError: there are not as many places as images, the prompt is too long, or as `read_image`.
            The other errors of `read_image`, and those of `Session.run`.
        """
        about = self._vision.description
        places = sum(token == about.token for token in tokens)
        if places != len(sources):
            raise UsageError(
                f"the prompt has {_number(places, 'place')} for images, and {_number(len(sources), 'image')}",
                hint=f"a text has {self.mark!r} where an image belongs, a message a part of the type image",
            )
        if not sources:
            return tokens
        number = len(tokens) + places * (about.rows - 1)
        if number >= longest:
            why = f"with its images it has {number:,} tokens, and {longest:,} are allowed, with the answer"
            raise UsageError("the prompt is too long", why=why)
        seen = [self._vision.see(self.prepared(source).pixels) for source in sources]
        images = iter(seen)
        rows = [row for token in tokens for row in (next(images).tokens if token == about.token else (token,))]
        return PromptTokens(rows, seen, about.token)

    def _is_for_parts(self) -> bool:
        """Whether the chat template knows parts of messages: what it makes of a message with an image tells it."""
        if self._reads_parts is None:
            message = {"role": "user", "content": [{"type": IMAGE}, {"type": TEXT, "text": _PROBE}]}
            try:
                text = self._template([message], add_generation_prompt=True) if self._template else ""
            except MinnowError:
                text = ""
            self._reads_parts = self.mark in text and _PROBE in text
        return self._reads_parts


def with_images(messages: Sequence[Message], images: Sequence[Any]) -> list[dict[str, Any]]:
    """Messages with images in front of the last one's text."""
    *before, last = messages
    content = last.get("content")
    parts = [{"type": TEXT, "text": content}] if isinstance(content, str) else list(content or ())
    return [*map(dict, before), {**last, "content": [*({"type": IMAGE, "image": image} for image in images), *parts]}]


def has_images(messages: Sequence[Message]) -> bool:
    """Whether a message has an image."""
    contents = [message.get("content") for message in messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return any(isinstance(part, Mapping) and part.get("type") in (IMAGE, IMAGE_URL) for part in parts)


def _part(part: Any, found: list[Any]) -> dict[str, Any]:
    """A part as templates know it; its image goes to those that were found."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == TEXT and isinstance(part.get("text"), str):
        return {"type": TEXT, "text": part["text"]}
    source = part.get(kind) if kind in (IMAGE, IMAGE_URL) else None
    if kind == IMAGE_URL and isinstance(source, Mapping):
        source = source.get("url")
    if source is None or (kind == IMAGE_URL and not isinstance(source, str)):
        what = f"a part of the type {kind!r}" if isinstance(kind, str) else "something else than parts"
        hint = "parts are {'type': 'text', 'text': ...} and {'type': 'image', 'image': ...}"
        raise UsageError(f"a message has {what}, which is not as expected", hint=hint)
    found.append(source)
    return {"type": IMAGE}


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
