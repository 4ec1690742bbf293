"""What a model sees: the vectors of images, and the numbers that stand for them among the tokens of a text.

Each row of an image gets a number of its own, above those of all tokens, which no other image has. So a text with
images is a list of numbers like any other: texts with the same beginning are found by them, and those with other images
are not.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from minnow.llm.image.description import ImageDescription
from minnow.runtime.session import Session
from minnow.schema.errors import FormatError, UsageError

Array = np.ndarray[Any, Any]

FIRST = 1 << 32
"""The first number that stands for a row of an image; tokens are below it."""
_KEPT = 8
"""Images whose vectors are kept for the next prompt with them."""
_KNOWN = 4096
"""Images whose numbers are known, so that cached texts with them are found."""


class Seen:
    """An image that a model has seen.

    Attributes:
        tokens: the numbers that stand for its rows.
        vectors: float32 [rows, hidden].
    """

    __slots__ = ("__weakref__", "tokens", "vectors")

    def __init__(self, tokens: range, vectors: Array) -> None:
        self.tokens, self.vectors = tokens, vectors


class PromptTokens(list[int]):
    """The tokens of a prompt with images, whose vectors are there as long as it is.

    Args:
        tokens: with the numbers of rows.
        images: that these are of.
        stand_in: the token that stands for images in texts.
    """

    def __init__(self, tokens: Iterable[int], images: Sequence[Seen], stand_in: int) -> None:
        super().__init__(tokens)
        self.images, self._stand_in = tuple(images), stand_in

    def of_vocabulary(self) -> list[int]:
        """The same, with the token that stands for images in place of each row."""
        return [token if token < FIRST else self._stand_in for token in self]


class Vision:
    """The encoder of images of a language model.

    Args:
        session: of its graph; no one else may run it.
        description: of images.
        hidden: features of a vector.

    Raises:
        FormatError: the graph does not fit the description.
    """

    def __init__(self, session: Session, description: ImageDescription, hidden: int) -> None:
        self._session, self.description = session, description
        size = description.size
        shapes = [(info.name, tuple(info.shape or ())[1:]) for info in (*session.inputs, *session.outputs)]
        if shapes != [("pixel_values", (3, size, size)), ("image_embeddings", (description.rows, hidden))]:
            raise FormatError("the encoder of images does not fit its description", hint="convert the model again")
        self._lock = threading.Lock()
        self._numbers: OrderedDict[bytes, int] = OrderedDict()  # of images, by their pixels
        self._next = 0
        self._alive: WeakValueDictionary[int, Seen] = WeakValueDictionary()
        self._kept: OrderedDict[int, Seen] = OrderedDict()

    def see(self, pixels: Array) -> Seen:
        """The vectors of an image, float32 [3, size, size]; those of one of the last images are there already.

        Raises:
            The errors of `Session.run`.
        """
        key = hashlib.sha256(pixels.tobytes()).digest()
        with self._lock:
            number = self._number(key)
            seen = self._alive.get(number)
            if seen is None:
                vectors = self._session.run({"pixel_values": pixels[None]})["image_embeddings"][0]
                first = FIRST + number * self.description.rows
                seen = Seen(range(first, first + self.description.rows), np.array(vectors, np.float32))
                self._alive[number] = seen
            self._kept[number] = seen
            self._kept.move_to_end(number)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return seen

    def vectors(self, tokens: Sequence[int]) -> Array:
        """The vectors that numbers stand for: float32 [tokens, hidden].

        Raises:
            UsageError: one stands for none, or its image is gone.
        """
        rows, found = self.description.rows, []
        with self._lock:
            for token in tokens:
                number, row = divmod(token - FIRST, rows)
                seen = self._alive.get(number)
                if seen is None:
                    raise UsageError("an image of the prompt is not there any more", hint="make the prompt again")
                found.append(seen.vectors[row])
        return np.stack(found)

    def _number(self, key: bytes) -> int:
        """The number of an image, always the same, and never given to another one."""
        if key not in self._numbers:
            self._numbers[key], self._next = self._next, self._next + 1
            if len(self._numbers) > _KNOWN:
                self._numbers.popitem(last=False)
        self._numbers.move_to_end(key)
        return self._numbers[key]
