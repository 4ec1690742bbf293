"""`LanguageModel`: a session of the step graph, with the cache of keys and values of all sequences."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.llm.cache import Blocks, CachedSequence
from minnow.llm.description import MODEL, VISION, Description
from minnow.llm.image.vision import FIRST, Vision
from minnow.runtime.session import Session, TensorInfo, load
from minnow.schema.errors import FormatError, UsageError

Array = np.ndarray[Any, Any]

CACHE_BLOCKS = "cache_blocks"
"""The dynamic dimension of the caches."""
CHUNK = 512
"""The most tokens of one sequence that a run takes; more are taken in several runs."""
_NEEDED = ("input_ids", "starts", "lengths", "blocks")
_SMALL_TABLE = 1024
"""So many blocks of a sequence are always passed: the shapes, and with them the plan, stay the same."""
_SCALE_BYTES = 4


class LanguageModel:
    """Continues sequences of tokens, any number of them at a time.

    Results do not depend on which sequences share a step, as far as the products of the model do not.

    Args:
        session: of the step graph; no one else may run it.
        description: what `llm.json` says.
        cache: numbers of keys and values in the cache: "f16", "f32" or "int8"; "" for those of the file.
        cached_tokens: the most tokens in the cache, of all sequences; None: as many as there is memory for.
        vision: the encoder of images of a model that sees.

    Raises:
        FormatError: the model is no step graph, or does not fit its description.
    """

    def __init__(
        self, session: Session, description: Description, *, cache: str = "", cached_tokens: int | None = None,
        vision: Vision | None = None,
    ) -> None:  # fmt: skip
        self.session, self.description, self.vision = session, description, vision
        self._names = {info.name for info in session.inputs}
        self._lock = threading.Lock()
        self.blocks: Blocks | None = None
        if description.kind != "generate":
            return
        caches = _caches_of(session)
        if missing := [name for name in _NEEDED if name not in self._names]:
            raise FormatError(f"the language model has no input '{missing[0]}'", hint="convert the model again")
        if (vision is not None) != ("image_rows" in self._names):
            raise FormatError("the language model does not fit its encoder of images", hint="convert the model again")
        if not caches or any(
            info.shape is None or info.shape[_token_axis(info)] != description.block for info in caches
        ):
            raise FormatError(f"the language model has no caches in blocks of {description.block} tokens")
        if cache:
            session.retype_states({info.name: _retyped(info, cache) for info in caches})
        most = None if cached_tokens is None else max(-(-cached_tokens // description.block), 1)
        self.blocks = Blocks(
            description.block,
            lambda size: session.resize_states(CACHE_BLOCKS, size),
            lambda source, target: session.copy_in_states(CACHE_BLOCKS, source, target),
            most,
        )

    @classmethod
    def load(
        cls,
        folder: str | Path,
        description: Description | None = None,
        *,
        cache: str = "f16",
        cached_tokens: int | None = None,
        vision: str | Path | None = None,
        **options: Any,
    ) -> LanguageModel:
        """The model of a folder.

        Args:
            folder: that `mnnconvert` has written.
            description: what its `llm.json` says; read if it is None.
            cache, cached_tokens: as above.
            vision: the folder with the encoder of images, if it is another one.
            options: those of `minnow.load`.
        """
        description = description or Description.read(folder)
        eyes = None
        if description.image is not None:
            encoder = load(str(Path(vision or folder) / VISION), **options)
            eyes = Vision(encoder, description.image, description.hidden_size)
        session = load(str(Path(folder) / MODEL), **options)
        return cls(session, description, cache=cache, cached_tokens=cached_tokens, vision=eyes)

    def sequence(self, tokens: Sequence[int] = ()) -> CachedSequence:
        """A new sequence, which starts with as many of these tokens as are cached; at least the last one is not."""
        with self._lock:
            return CachedSequence(self._cache(), tokens)

    def step(self, work: Iterable[tuple[Sequence[int], CachedSequence, int]]) -> Array:
        """Appends tokens to sequences.

        Args:
            work: for each sequence the new tokens, the sequence, and for how many of the last of these logits are
                wanted.

        Returns:
            float32 [sum of wanted, vocabulary].

        Raises:
            UsageError: a token is not in the vocabulary, a sequence gets longer than the model's context, or stands
                there twice.
            CacheFullError: the cache has no room for the tokens.
            The errors of `Session.run`.
            After an error all sequences have the tokens that they had.
        """
        rows = [(list(map(int, tokens)), sequence, int(wanted)) for tokens, sequence, wanted in work]
        self._check(rows)
        before = [len(sequence) for _, sequence, _ in rows]
        with self._lock:
            try:
                parts = list(self._parts(rows))
            except BaseException:
                for (_, sequence, _), length in zip(rows, before, strict=True):
                    sequence.rewind(length)
                raise
        found: list[list[Array]] = [[] for _ in rows]
        for logits, owners in parts:
            for i, begin, end in owners:
                found[i].append(logits[begin:end])
        if not (whole := [part for mine in found for part in mine]):
            return np.zeros((0, self.description.vocab_size), np.float32)
        return whole[0] if len(whole) == 1 else np.concatenate(whole)

    def embed(self, texts: Sequence[Sequence[int]]) -> Array:
        """The vectors of texts, each given by its tokens: float32 [texts, size]."""
        return self._padded_run([(list(tokens), None) for tokens in texts])

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Array:
        """How well texts answer queries: float32 [pairs]. Of each its tokens, and their kinds: 0 query, 1 text."""
        return self._padded_run([(list(tokens), list(kinds)) for tokens, kinds in pairs]).reshape(len(pairs), -1)[:, 0]

    # --- the parts of a step ---

    def _cache(self) -> Blocks:
        if self.blocks is None:
            raise UsageError("the language model continues no texts", where=self.description.name)
        return self.blocks

    def _check(self, rows: list[tuple[list[int], CachedSequence, int]]) -> None:
        context, vocabulary = self.description.context, self.description.vocab_size
        self._cache()
        if len({id(sequence) for _, sequence, _ in rows}) < len(rows):
            raise UsageError("a sequence stands twice in a step")
        for tokens, sequence, wanted in rows:
            if not sequence.is_open:
                raise UsageError("the sequence is closed")
            if len(sequence) + len(tokens) > context:
                raise UsageError(
                    f"{len(sequence) + len(tokens):,} tokens are more than the model's context of {context:,}",
                    hint="begin a new text, or rewind the sequence",
                )
            if not 0 <= wanted <= len(tokens):
                raise UsageError(f"logits of {wanted} tokens are wanted, and {len(tokens)} are given")
            known = tokens if self.vision is None else [token for token in tokens if token < FIRST]
            if known and not 0 <= min(known) <= max(known) < vocabulary:
                raise UsageError(f"a token is not one of the {vocabulary:,} of the vocabulary")

    def _parts(self, rows: list[tuple[list[int], CachedSequence, int]]) -> Iterable[tuple[Array, list[Any]]]:
        """Logits run by run, and which rows of them belong to which of the sequences."""
        at = [0] * len(rows)
        while any(begin < len(tokens) for begin, (tokens, _, _) in zip(at, rows, strict=True)):
            batch, owners, first = [], [], 0
            for i, (tokens, sequence, wanted) in enumerate(rows):
                begin, end = at[i], min(at[i] + CHUNK, len(tokens))
                if begin == end:
                    continue
                asked = max(end - max(len(tokens) - wanted, begin), 0)
                batch.append((tokens[begin:end], sequence, asked))
                if asked:
                    owners.append((i, first, first + asked))
                first += asked
                at[i] = end
            yield self._run(batch), owners

    def _run(self, batch: list[tuple[list[int], CachedSequence, int]]) -> Array:
        for tokens, sequence, _ in batch:
            sequence.reserve(len(tokens))
        logits = self._logits(batch)
        for tokens, sequence, _ in batch:
            sequence.append(tokens)
        return logits

    def _logits(self, batch: list[tuple[list[int], CachedSequence, int]]) -> Array:
        counts = [len(tokens) for tokens, _, _ in batch]
        total, wanted = sum(counts), sum(asked for _, _, asked in batch)
        tokens, rows = rounded(total), rounded(wanted)
        sequences = rounded(len(batch))
        most = -(-self.description.context // self.description.block)
        if most > _SMALL_TABLE:
            longest = max(len(sequence.blocks) for _, sequence, _ in batch)
            most = min(most, max(_SMALL_TABLE, 1 << (longest - 1).bit_length()))
        ids, positions, chosen = (np.zeros(n, np.int32) for n in (tokens, tokens, rows))
        starts, lengths = np.full(sequences + 1, total, np.int32), np.zeros(sequences, np.int32)
        table = np.zeros((sequences, most), np.int32)
        images: list[int] = []  # rows that are of images
        begin = first = 0
        for s, (new, sequence, asked) in enumerate(batch):
            end = begin + len(new)
            if self.vision is None:
                ids[begin:end] = new
            else:
                ids[begin:end] = [token if token < FIRST else self.vision.description.token for token in new]
                images += [begin + i for i, token in enumerate(new) if token >= FIRST]
            positions[begin:end] = np.arange(len(sequence), len(sequence) + len(new))
            starts[s], lengths[s] = begin, len(sequence)
            table[s, : len(sequence.blocks)] = sequence.blocks
            chosen[first : first + asked] = np.arange(end - asked, end)
            begin, first = end, first + asked
        feeds = {"input_ids": ids, "positions": positions, "starts": starts, "lengths": lengths, "blocks": table,
                 "rows": chosen}  # fmt: skip
        if self.vision is not None:
            new = [token for tokens, _, _ in batch for token in tokens if token >= FIRST]
            feeds |= self._images(self.vision, images, new)
        results = self.session.run({name: array for name, array in feeds.items() if name in self._names})
        logits: Array = next(iter(results.values()))
        return logits[:wanted] if "rows" in self._names else logits[chosen[:wanted]]

    def _images(self, vision: Vision, rows: list[int], tokens: list[int]) -> dict[str, Array]:
        """Which rows are of images, and their vectors. The last one is there several times, for few shapes."""
        if not rows:
            none = np.zeros((0, self.description.hidden_size), np.float32)
            return {"image_rows": np.zeros(0, np.int32), "image_embeddings": none}
        places = np.minimum(np.arange(rounded(len(rows))), len(rows) - 1)
        return {
            "image_rows": np.asarray(rows, np.int32)[places],
            "image_embeddings": vision.vectors(tokens)[places],
        }

    def _padded_run(self, texts: list[tuple[list[int], list[int] | None]]) -> Array:
        longest = rounded(max((len(tokens) for tokens, _ in texts), default=0))
        ids, mask, kinds = (np.zeros((len(texts), longest), np.int32) for _ in range(3))
        for row, (tokens, types) in enumerate(texts):
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
            if types is not None:
                kinds[row, : len(types)] = types
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
        results = self.session.run({name: array for name, array in feeds.items() if name in self._names})
        found: Array = next(iter(results.values()))
        return found


def rounded(count: int) -> int:
    """The next of few numbers from `count` on, at most a fourth larger: so that few shapes have to be planned for."""
    if count <= 8:
        return count
    step = 1 << (count - 1).bit_length() - 3
    return -(-count // step) * step


def _caches_of(session: Session) -> list[TensorInfo]:
    return [info for info in session.state_infos if info.shape is not None and info.shape[:1] == (CACHE_BLOCKS,)]


def _token_axis(info: TensorInfo) -> int:
    """The axis of the tokens of a block: the last of keys, the one before of values."""
    return 3 if info.name.startswith("key_cache") else 2


def _retyped(info: TensorInfo, cache: str) -> tuple[str, Sequence[int]]:
    """The dtype and shape of an empty cache with other numbers: those of 8 bits have their scale behind them."""
    dtypes = {"f16": "float16", "f32": "float32", "int8": "int8"}
    if cache not in dtypes:
        raise UsageError(f"cache is {cache!r}", hint=f"one of {', '.join(dtypes)}")
    shape = [0, *(int(d) for d in (info.shape or ())[1:])]
    axis = 5 - _token_axis(info)
    shape[axis] += _SCALE_BYTES * ((cache == "int8") - (info.dtype == "int8"))
    return dtypes[cache], shape
