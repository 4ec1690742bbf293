"""Models that see, in the engine: logits of texts with images, compared with transformers on random weights."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from language_families import IMAGE_TOKEN, VOCABULARY, quiet, saved_seeing, seeing

from minnow import convert
from minnow.llm.model import LanguageModel
from minnow.schema.errors import FormatError, UnsupportedError, UsageError, VerifyError

CLOSE = 1e-4
"""The most that logits may differ; they are about 3."""
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama, clip": ("llama", "CLIPVision", {}),
    "llama, siglip, every row": (
        "llama tied, with biases", "SiglipVision",
        {"vision_feature_select_strategy": "full", "vision_feature_layer": -1, "projector_hidden_act": "gelu_new"},
    ),
    "mistral, several layers": ("mistral", "CLIPVision", {"vision_feature_layer": [-2, 1],
                                                          "multimodal_projector_bias": False}),
    "qwen2, every row": ("qwen2", "CLIPVision", {"vision_feature_select_strategy": "full"}),
}  # fmt: skip


def _pixels(model: Any, count: int, seed: int = 0) -> np.ndarray:
    size = model.config.vision_config.image_size
    return np.random.default_rng(seed).standard_normal((count, 3, size, size)).astype(np.float32)


def _tokens(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(3, IMAGE_TOKEN, count).tolist()


def _loaded(model: Any, folder: Path, **options: Any) -> LanguageModel:
    convert(saved_seeing(model, folder / "source"), output=folder / "made")
    return LanguageModel.load(folder / "made", cache="f32", threads=1, **options)


def _text(made: LanguageModel, pieces: list[list[int]], pixels: np.ndarray) -> tuple[list[int], list[int]]:
    """A text with an image between two pieces each: as tokens of transformers, and of ours."""
    theirs, ours = list(pieces[0]), list(pieces[0])
    for image, piece in zip(pixels, pieces[1:], strict=True):
        seen = made.vision.see(image)  # type: ignore[union-attr]
        theirs += [IMAGE_TOKEN] * len(seen.tokens) + piece
        ours += [*seen.tokens, *piece]
    return theirs, ours


def _wanted(model: Any, tokens: list[int], pixels: np.ndarray) -> np.ndarray:
    given = {"pixel_values": torch.tensor(pixels)} if len(pixels) else {}
    return quiet(lambda: model(torch.tensor([tokens]), **given).logits[0].numpy())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("images", [0, 1, 2])
def test_logits_are_those_of_transformers(name: str, images: int, tmp_path: Path) -> None:
    """Of a prompt as a whole, then token by token as transformers does with its cache; and of the prompt in parts."""
    text, tower, changes = MODELS[name]
    model = seeing(text, tower, **changes)
    made = _loaded(model, tmp_path)
    pixels = _pixels(model, images)
    # Every reference must live until its text has been computed.
    kept = [made.vision.see(image) for image in pixels]  # type: ignore[union-attr]
    pieces = [_tokens(n, n) for n in (3, 5, 2)[: images + 1]]
    theirs, ours = _text(made, pieces, pixels)
    want = _wanted(model, theirs, pixels)
    sequence = made.sequence()
    got = made.step([(ours, sequence, len(ours))])
    np.testing.assert_allclose(got, want, atol=CLOSE, rtol=0)
    more = _tokens(4, 9)
    given = {"pixel_values": torch.tensor(pixels)} if images else {}
    past = quiet(lambda: model(torch.tensor([theirs]), use_cache=True, **given)).past_key_values
    for token in more:
        out = quiet(lambda t=token: model(torch.tensor([[t]]), past_key_values=past, use_cache=True))
        got = made.step([([token], sequence, 1)])
        np.testing.assert_allclose(got[0], out.logits[0, 0].numpy(), atol=CLOSE, rtol=0)
    parts = made.sequence()
    cuts = sorted({min(n, len(ours)) for n in (0, 2, 7, 8, len(ours))})
    found = [made.step([(ours[a:b], parts, b - a)]) for a, b in pairwise(cuts)]
    np.testing.assert_allclose(np.concatenate(found), want, atol=CLOSE, rtol=0)
    assert len(kept) == images


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, LanguageModel]:
    model = seeing("llama", "CLIPVision")
    return model, _loaded(model, tmp_path_factory.mktemp("seeing"), cached_tokens=512)


def test_texts_with_and_without_images_share_a_step(small: tuple[Any, LanguageModel]) -> None:
    model, made = small
    pixels = _pixels(model, 2, seed=3)
    first, second = (made.vision.see(image) for image in pixels)  # type: ignore[union-attr]
    one = [*_tokens(4, 1), *first.tokens, 5]
    two = _tokens(6, 2)
    three = [*second.tokens, *_tokens(3, 3)]
    got = made.step([(t, made.sequence(), len(t)) for t in (one, two, three)])
    theirs = [[t if t < VOCABULARY else IMAGE_TOKEN for t in text] for text in (one, two, three)]
    want = [_wanted(model, t, p) for t, p in zip(theirs, (pixels[:1], pixels[:0], pixels[1:]), strict=True)]
    np.testing.assert_allclose(got, np.concatenate(want), atol=CLOSE, rtol=0)


def test_only_the_same_image_is_found_in_the_cache(small: tuple[Any, LanguageModel]) -> None:
    """The tokens of texts with different images are the same for transformers, and their keys are not."""
    model, made = small
    pixels = _pixels(model, 2, seed=4)
    first, second = (made.vision.see(image) for image in pixels)  # type: ignore[union-attr]
    begin, end = _tokens(20, 5), _tokens(30, 6)
    a, b = ([*begin, *image.tokens, *end] for image in (first, second))
    one = made.sequence(a)
    before = len(one)
    made.step([(a[before:], one, 1)])
    one.close()
    again, other = made.sequence(a), made.sequence(b)
    assert before == 0
    assert len(again) == 64
    assert len(other) == 0
    got = made.step([(b, other, len(b))])
    theirs = [t if t < VOCABULARY else IMAGE_TOKEN for t in b]
    np.testing.assert_allclose(got, _wanted(model, theirs, pixels[1:]), atol=CLOSE, rtol=0)
    got = made.step([(a[64:], again, len(a) - 64)])
    np.testing.assert_allclose(got, _wanted(model, theirs, pixels[:1])[64:], atol=CLOSE, rtol=0)


def test_images_are_computed_once_and_forgotten(small: tuple[Any, LanguageModel]) -> None:
    model, made = small
    vision = made.vision
    assert vision is not None
    pixels = _pixels(model, 12, seed=8)
    first = vision.see(pixels[0])
    assert vision.see(pixels[0].copy()) is first
    numbers = list(first.tokens)
    assert vision.see(pixels[1]).tokens.start == numbers[-1] + 1
    del first
    for image in pixels[1:]:
        vision.see(image)
    with pytest.raises(UsageError, match="an image of the prompt is not there any more"):
        made.step([(numbers, made.sequence(), 1)])
    assert list(vision.see(pixels[0]).tokens) == numbers
    for token in (VOCABULARY, -1, 1 << 31):
        with pytest.raises(UsageError, match="not one of the 97"):
            made.step([([token], made.sequence(), 1)])


def test_weights_in_few_bits(tmp_path: Path) -> None:
    """Those of the language model become smaller, and the encoder of images stays as it is."""
    from minnow import quantize

    source = saved_seeing(seeing("llama", "CLIPVision"), tmp_path / "source")
    convert(source, output=tmp_path / "plain")
    quantize(source, output=tmp_path / "small", weights="int8", method="rtn")
    sizes = [(tmp_path / f / "vision.mnn.weight").stat().st_size for f in ("plain", "small")]
    assert sizes[0] == sizes[1]
    plain, small = ((tmp_path / f / "model.mnn.weight").stat().st_size for f in ("plain", "small"))
    assert small < 0.7 * plain


def test_packed_weights_are_mapped(tmp_path: Path) -> None:
    source = saved_seeing(seeing("llama", "CLIPVision"), tmp_path / "source")
    tokens, results = _tokens(4, 1), []
    for prepack in (False, True):
        convert(source, output=tmp_path / "made", prepack=prepack)
        made = LanguageModel.load(tmp_path / "made", precision="normal")
        vision = made.vision
        assert vision is not None
        seen = vision.see(np.ones((3, *[vision.description.size] * 2), np.float32))
        text = [*tokens, *seen.tokens]
        results.append(made.step([(text, made.sequence(), len(text))]))
    np.testing.assert_array_equal(*results)
    assert (tmp_path / "made/vision.mnn.packed").stat().st_size > 0


def test_a_wrong_encoder_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is wrong in the file only; and nothing is written then."""
    from minnow.schema.ir import ArrayBlob
    from minnow.schema.mnn import save

    source = saved_seeing(seeing("llama", "CLIPVision"), tmp_path / "source")

    def changing(model: Any, path: Path, **options: Any) -> int:
        for value in model.graph.constants():
            if value.name == "embeddings.patch_embedding.weight":
                value.data = ArrayBlob(value.data.numpy() * np.float32(1.1))
        return save(model, path, **options)

    monkeypatch.setattr("minnow.schema.mnn.save", changing)
    with pytest.raises(VerifyError, match="differ from those of its checkpoint"):
        convert(source, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_refused(tmp_path: Path) -> None:
    source = saved_seeing(seeing("llama", "CLIPVision"), tmp_path / "source")
    with pytest.raises(UnsupportedError, match="models that see are not written for MNN"):
        convert(source, output=tmp_path / "mnn", mnn_llm=True)
    convert(source, output=tmp_path / "made")
    (tmp_path / "made/vision.mnn").unlink()
    with pytest.raises(FormatError):
        LanguageModel.load(tmp_path / "made")
