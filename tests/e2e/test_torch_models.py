"""Real TorchScript models, all the way: convert, verify, reproduce the recorded run, know what they see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from e2e.shared_models import SHARED, Converted, RealModel, converter, models, needs_models
from PIL import Image

import minnow
from minnow.runtime.verify.comparison import compare

pytest.importorskip("torch")
pytestmark = [needs_models, pytest.mark.slow]  # each model is loaded by PyTorch in a process of its own

MODELS = [m for suffix in (".ts", ".ptl", ".pt", ".jit") for m in models("torchscript", suffix)]
SHAPES: dict[str, dict[str, Any]] = {
    "reddit.pt": {"byte_input": (1, 50)},
    "silero_vad.jit": {"x": (1, 512), "sr": (16000,)},
}
"""Of inputs whose shape no run finds, or not the recorded one."""
ON_RECORDING = {"reddit.pt"}
"""Its bytes are letters; it gives the same for all numbers below them, which random places are."""


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """Path of the verified `.mnn` of a model, converted once."""
    return converter(tmp_path_factory.mktemp("converted"), "PyTorch", SHAPES, ON_RECORDING)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_converts_and_verifies(model: RealModel, converted: Converted) -> None:
    assert converted(model).stat().st_size > 0


def _run(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """All outputs, for recorded inputs by their number; numbers that the file knows are left out."""
    session = minnow.load(path, threads=2)
    given = {info.name: inputs[str(i)] for i, info in enumerate(session.inputs)}
    return list(session.run(given).values())


@pytest.mark.parametrize("model", [m for m in MODELS if "quantized" not in str(m)], ids=str)
def test_reproduces_the_recorded_run(model: RealModel, converted: Converted) -> None:
    inputs, outputs = model.recording()
    got = _run(converted(model), inputs)
    assert len(got) == len(outputs)
    for name, array in zip(outputs, got, strict=True):
        result = compare(name, array, outputs[name])
        assert result.passed, str(result)


def named(name: str) -> RealModel:
    return next(m for m in MODELS if m.path.name == name)


def test_a_quantized_net_gives_the_numbers_of_the_kernels_that_it_was_made_for(converted: Converted) -> None:
    """The record is of other kernels, which saturate in between: the two agree on what the picture shows."""
    import torch

    model = named("mobilenet_quantized.pt")
    inputs, outputs = model.recording()
    (got,) = _run(converted(model), inputs)
    usual = torch.backends.quantized.engine
    torch.backends.quantized.engine = "qnnpack"
    try:
        with torch.no_grad():
            want = torch.jit.load(str(model.path)).eval()(torch.from_numpy(inputs["0"])).numpy()
    finally:
        torch.backends.quantized.engine = usual
    assert np.array_equal(got, want)
    best = outputs["0"].argsort(-1)[0, -2:]
    assert set(best) & set(got.argsort(-1)[0, -2:])


def test_a_quantized_net_knows_a_cat(converted: Converted) -> None:
    picture = Image.open(SHARED / "images" / "cat_720p.jpg").convert("RGB").resize((224, 224))
    pixels = np.asarray(picture, np.float32).transpose(2, 0, 1)[None] / 255
    mean, deviation = (np.array(v, np.float32).reshape(1, 3, 1, 1) for v in ([0.485, 0.456, 0.406],
                                                                            [0.229, 0.224, 0.225]))  # fmt: skip
    model = named("mobilenet_quantized.pt")
    (scores,) = _run(converted(model), {"0": (pixels - mean) / deviation})
    labels = (model.path.parent / "words.txt").read_text().splitlines()
    assert "cat" in labels[int(scores.argmax())]


def test_a_voice_detector_remembers(converted: Converted) -> None:
    """Chunk after chunk, as PyTorch's module answers that keeps its state."""
    import torch

    model = named("silero_vad.jit")
    module = torch.jit.load(str(model.path)).eval()
    session = minnow.load(converted(model), threads=1)
    rng = np.random.default_rng(0)
    for _ in range(5):
        chunk = rng.standard_normal((1, 512)).astype(np.float32)
        with torch.no_grad():
            want = module(torch.from_numpy(chunk), 16000).numpy()
        (got,) = session.run({"x": chunk}).values()
        assert np.allclose(got, want, atol=1e-5)
