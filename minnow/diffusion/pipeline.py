"""`Diffusion`: a text encoder, a UNet and a decoder of pictures, with a scheduler between them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minnow.diffusion.description import MODELS, Description
from minnow.diffusion.picture import Picture
from minnow.diffusion.scheduler import Noise, Scheduler, make
from minnow.llm.tokenizer import Tokenizer
from minnow.options.diffusion import PictureOptions, PipelineOptions
from minnow.options.signature import takes
from minnow.runtime.session import Session, load
from minnow.schema.errors import FormatError, UsageError

Array = np.ndarray[Any, Any]

_MOST_PIXELS = 1 << 26


class Diffusion:
    """A diffusion pipeline, ready to use; made by `minnow.diffusion.load`. One picture is made at a time.

    Args:
        description: what `diffusion.json` says.
        sessions: of the models, by name.
        tokenizer: text to tokens.
    """

    def __init__(self, description: Description, sessions: Mapping[str, Session], tokenizer: Tokenizer) -> None:
        self.description, self.tokenizer = description, tokenizer
        self._sessions = dict(sessions)
        self._lock = threading.Lock()
        for name, session in sessions.items():
            if len(session.outputs) != 1:
                raise FormatError(f"the model {name} has {len(session.outputs)} outputs", hint="convert it again")

    @classmethod
    def load(cls, folder: str | os.PathLike[str], options: PipelineOptions) -> Diffusion:
        """The pipeline of a folder. The arguments and errors are those of `minnow.diffusion.load`."""
        path = Path(folder)
        description = Description.read(path)
        given = {name: getattr(options, name) for name in ("threads", "device", "precision")}
        sessions = {name: load(str(path / f"{name}.mnn"), **given) for name in MODELS}
        return cls(description, sessions, Tokenizer.from_file(path))

    @takes(PictureOptions, 2)
    def generate(self, prompt: str, options: PictureOptions) -> Picture:
        """Makes a picture.

        Args:
            prompt: what it shall show. What is too long for the text encoder is not looked at.
            options:

        Raises:
            UsageError: a size is no multiple of `description.step`, or an option is wrong.
        """
        height, width = self._size(options)
        scheduler = self._scheduler(options)
        x = self._noise(options, height, width) * np.float32(scheduler.start)
        guided = options.guidance > 1
        texts = [options.negative_prompt, prompt] if guided else [prompt]
        states = self.encode_texts(texts)
        for i, time in enumerate(scheduler.times):
            seen = self.denoise(np.repeat(scheduler.scaled(x, i), len(texts), axis=0), float(time), states)
            if guided:
                without, with_text = seen[:1], seen[1:]
                seen = without + np.float32(options.guidance) * (with_text - without)
            x = np.asarray(scheduler.step(seen, i, x), np.float32)
            if options.callback is not None:
                options.callback(i, x[0])
        return Picture.of(self.decode(x)[0])

    # ---- the parts -----------------------------------------------------------------------------------------------

    def encode_texts(self, texts: list[str]) -> Array:
        """The vectors of the tokens of texts: float32 [texts, length, features]."""
        return self._run("text_encoder", input_ids=np.array([self.tokens(text) for text in texts], np.int32))

    def denoise(self, x: Array, time: float, states: Array) -> Array:
        """What the UNet makes of latent images.

        Args:
            x: float32 [images, channels, height, width]. time: the step of the training. states: vectors of texts.
        """
        steps = np.full(len(x), time, np.float32)
        return self._run("unet", sample=x.astype(np.float32), timestep=steps, encoder_hidden_states=states)

    def decode(self, x: Array) -> Array:
        """The pictures of latent images, float32 [images, 3, height, width], mostly from -1 to 1."""
        own = self.description
        return self._run("vae_decoder", latents=x / np.float32(own.scaling) + np.float32(own.shift))

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, filled up or cut off; the mark at its end stays."""
        own = self.description
        found = list(self.tokenizer.encode(text))
        if found and not 0 <= min(found) <= max(found) < own.vocab_size:
            raise FormatError("the tokenizer has tokens that the text encoder does not know", where=own.name)
        if len(found) > own.length:
            found = [*found[: own.length - 1], found[-1]]
        return found + [own.padding] * (own.length - len(found))

    def _run(self, name: str, **inputs: Array) -> Array:
        with self._lock:
            (found,) = self._sessions[name].run(inputs).values()
        return np.asarray(found)

    def _size(self, options: PictureOptions) -> tuple[int, int]:
        own = self.description
        height, width = options.height or own.height, options.width or own.width
        if height % own.step or width % own.step:
            raise UsageError(f"{width} x {height} pixels are no multiples of {own.step}", where=own.name)
        if height * width > _MOST_PIXELS:
            raise UsageError(f"a picture of {width} x {height} pixels is too large")
        return height, width

    def _scheduler(self, options: PictureOptions) -> Scheduler:
        noise = Noise.of(self.description.scheduler, options.scheduler, where=self.description.name)
        return make(noise, options.steps)

    def _noise(self, options: PictureOptions, height: int, width: int) -> Array:
        """What the picture is made of: float32 [1, channels, height, width]."""
        own = self.description
        shape = (own.channels, height // own.scale, width // own.scale)
        if options.latents is None:
            return np.random.Generator(np.random.Philox(options.seed)).standard_normal((1, *shape), np.float32)
        given = np.asarray(options.latents, np.float32)
        if given.shape != shape:
            raise UsageError(f"latents have the shape {list(given.shape)}", hint=f"it must be {list(shape)}")
        return given[None]
