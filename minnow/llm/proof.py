"""Compares the folder of a language model with its checkpoint: the engine with the reference implementation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.llm.image.vision import FIRST, Vision
from minnow.llm.model import LanguageModel
from minnow.llm.tokenizer import Tokenizer
from minnow.runtime.session import load
from minnow.schema.errors import VerifyError
from minnow.schema.notice import Notice
from minnow.schema.registry.interpreter import evaluate
from minnow.written_file import packed_path

if TYPE_CHECKING:
    from minnow.converter.llm.checkpoint import Checkpoint
    from minnow.llm.description import Description
    from minnow.schema.ir import Model

Array = np.ndarray[Any, Any]

MOST_WEIGHTS = 1_000_000_000
"""Of larger models the reference implementation would take minutes."""
CLOSE = 2e-3
"""The most that results may differ, relative to the largest."""
_LENGTHS = (6, 3)
"""Tokens of the texts."""
_TEXTS = ("It isn't 1,234.5 km\tto  Zürich...\r\n\n  def f(x):\n    return x**2", "北京 - Москва - हिन्दी 👩\u200d👧")
_ROWS = slice(1, 3)
"""Of the first text, those that are rows of an image, in models that see."""


def compare(
    checkpoint: Checkpoint, path: Path, eyes: Path | None, description: Description, lossy: bool = False
) -> Notice:
    """What comes of the comparison, in words.

    Args:
        checkpoint: the source.
        path: the file of the graph that was made of it. eyes: that of its encoder of images, if it sees.
        description: of it.
        lossy: its weights were made smaller, so that the results may differ.

    Raises:
        VerifyError: the results differ.
    """
    from minnow.converter.llm.build import build
    from minnow.converter.llm.llava import image_graph
    from minnow.schema.ir import DType

    model = build(checkpoint, cache=DType.F32)
    encoder = None if checkpoint.sight is None else image_graph(checkpoint)
    graphs = [model.graph] if encoder is None else [model.graph, encoder.graph]
    constants = [v for graph in graphs for v in graph.constants() if v.data is not None]
    if (count := sum(v.type.count or 0 for v in constants)) > MOST_WEIGHTS:
        return _too_large(count)
    dice = np.random.default_rng(0)
    texts = [dice.integers(0, description.vocab_size, n).tolist() for n in _LENGTHS]
    vision, vectors, seen = None, None, 0.0
    if encoder is not None and eyes is not None and description.image is not None:
        pixels = dice.standard_normal((1, 3, *[description.image.size] * 2)).astype(np.float32)
        vision = Vision(load(str(eyes)), description.image, description.hidden_size)
        vectors, found = np.asarray(evaluate(encoder.graph, [pixels])[0])[0], vision.see(pixels[0])
        seen = _error(found.vectors, vectors)
        texts[0][_ROWS] = found.tokens[: _ROWS.stop - _ROWS.start]
    want = _reference(model, texts, vectors, description.kind)
    error = float(np.max([seen, _error(_engine(_opened(path, description, vision), texts), want)]))  # or not a number
    return _verdict(error, checkpoint, lossy)


def compare_read(checkpoint: Checkpoint, folder: Path, *, lossy: bool, same_tokens: bool) -> Notice:
    """What comes of the comparison of a folder of MNN-LLM, read again, with its checkpoint: of the logits of two texts,
    both by the reference implementation, and of the tokens of others.

    Args:
        checkpoint: the source. folder: what was made of it.
        lossy: its weights were made smaller, or rounded, so that the results may differ.
        same_tokens: texts have the same tokens.

    Raises:
        VerifyError: the results differ.
    """
    from minnow.converter.llm.build import build, sizes_of
    from minnow.converter.llm.checkpoint import open_checkpoint
    from minnow.schema.ir import DType

    made = open_checkpoint(folder)
    if same_tokens and _tokens(checkpoint) != _tokens(made):
        raise VerifyError(
            "the tokens of the converted language model differ from those of its checkpoint", where=str(checkpoint.path)
        )
    first, second = (build(c, cache=DType.F32) for c in (checkpoint, made))
    count = sum(v.type.count or 0 for v in first.graph.constants() if v.data is not None)
    if count > MOST_WEIGHTS:
        return _too_large(count)
    vocab = min(sizes_of(c).vocab for c in (checkpoint, made))
    dice = np.random.default_rng(0)
    texts = [dice.integers(0, vocab, n).tolist() for n in _LENGTHS]
    want, got = (_reference(model, texts, None, "generate") for model in (first, second))
    return _verdict(_error(got, want) if got.shape == want.shape else np.nan, checkpoint, lossy)


def _tokens(checkpoint: Checkpoint) -> list[list[int]]:
    """Those of some texts, without what is put around them."""
    assert checkpoint.tokenizer is not None
    tokenizer = Tokenizer.from_json(checkpoint.tokenizer(), engine="minnow")
    return [tokenizer.encode(text, special=False) for text in _TEXTS]


def _too_large(count: int) -> Notice:
    text = f"not verified: the reference implementation would take long for {count / 1e9:.1f} billion weights"
    return Notice(text, "not-run")


def _verdict(error: float, checkpoint: Checkpoint, lossy: bool) -> Notice:
    """What to say of a difference. Raises VerifyError."""
    if not error <= (np.inf if lossy else CLOSE):
        raise VerifyError(
            "the results of the converted language model differ from those of its checkpoint",
            where=str(checkpoint.path),
            why=f"by up to {error:.2g} of the largest",
            hint="`--no-verify` writes the folder nevertheless; `-O0` shows whether an optimization is the cause",
        )
    text = f"results differ by up to {error:.2g} of the largest from those of the reference implementation"
    if lossy:
        return Notice(f"{text}, for the weights are smaller", "lossy-form")
    return Notice(f"verified: {text}", "verified")


def _error(got: Array, want: Array) -> float:
    """The largest difference, relative to the largest number; not a number if there is one that is none."""
    most = max(float(np.abs(want).max()), 1e-30)
    return float(np.abs(got - want).max()) / most if np.isfinite(got).all() else np.nan


def _reference(model: Model, texts: list[list[int]], vectors: Array | None, kind: str) -> Array:
    """The logits of all tokens, or what an encoder gives for each text, without padding."""

    def run(values: dict[str, Any]) -> Array:
        arrays = [
            np.asarray(values[name], type.dtype.numpy)
            if name in values
            else np.zeros([n if isinstance(n, int) else blocks for n in type.shape or ()], type.dtype.numpy)
            for name, type in model.inputs
        ]
        return np.asarray(evaluate(model.graph, arrays)[0])

    blocks = len(texts)
    if kind != "generate":
        return np.concatenate(
            [run({"input_ids": [t], "attention_mask": [[1] * len(t)], "token_type_ids": [[0] * len(t)]}) for t in texts]
        )
    lengths = [len(t) for t in texts]
    images = {}
    if vectors is not None:
        rows = range(_ROWS.start, _ROWS.stop)
        images = {"image_rows": rows, "image_embeddings": vectors[: len(rows)]}
    return run(
        {
            **images,
            "input_ids": [0 if token >= FIRST else token for t in texts for token in t],
            "positions": [i for n in lengths for i in range(n)],
            "starts": np.cumsum([0, *lengths]),
            "lengths": [0] * blocks,
            "blocks": [[i] for i in range(blocks)],
            "rows": range(sum(lengths)),
        }
    )


def write_packed(path: Path, eyes: Path | None, description: Description) -> int:
    """Writes companion files with the weights of a model as this processor reads them; the bytes of these files.

    Runs of several tokens and of one pack them, and of an image, with the options that language models are loaded with
    by default.
    """
    from minnow.options.generate import LanguageOptions

    vision, sessions = None, []
    precision = LanguageOptions().precision
    if eyes is not None and description.image is not None:
        session = load(str(eyes), precision=precision)
        vision = Vision(session, description.image, description.hidden_size)
        vision.see(np.zeros((3, *[description.image.size] * 2), np.float32))
        sessions.append((session, packed_path(eyes)))
    model = _opened(path, description, vision, precision=precision)
    for texts in ([[0] * n for n in _LENGTHS], [[0]]):
        _engine(model, texts)
    sessions.append((model.session, packed_path(path)))
    for session, packed in sessions:
        session.write_packed(packed)
    return sum(packed.stat().st_size for _, packed in sessions)


def _opened(path: Path, description: Description, vision: Vision | None, **options: Any) -> LanguageModel:
    """The engine's model of a file, with a cache of float32."""
    cache = "f32" if description.kind == "generate" else ""
    return LanguageModel(load(str(path), **options), description, cache=cache, vision=vision)


def _engine(model: LanguageModel, texts: list[list[int]]) -> Array:
    """The same, as the session of the file gives it."""
    if model.description.kind == "embed":
        return model.embed(texts)
    if model.description.kind == "rerank":
        return np.asarray(model.session.run(_padded(model, texts))["scores"])
    return model.step([(t, model.sequence(), len(t)) for t in texts])


def _padded(model: Any, texts: list[list[int]]) -> dict[str, Array]:
    longest = max(map(len, texts))
    ids, mask, kinds = (np.zeros((len(texts), longest), np.int32) for _ in range(3))
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = text, 1
    named = {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
    return {info.name: named[info.name] for info in model.session.inputs}
