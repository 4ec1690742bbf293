"""Programs as MNN's users write them run with Minnow, and get the right answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

HERE = Path(__file__).parent / "programs"
EXAMPLE = Path(__file__).parents[2] / "examples" / "express" / "classify.py"
CLASSES = 10


def run(folder: Path, program: Path, *arguments: str, start: tuple[str, ...] = ("-m", "minnow.compat")) -> list[str]:
    """The lines that a program prints."""
    done = subprocess.run(
        [sys.executable, *start, str(program), *arguments],
        capture_output=True, text=True, cwd=folder, check=False, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def classified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A folder with a classifier and a photo, and the class that numpy finds with the weights."""
    folder = tmp_path_factory.mktemp("classifier")
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((8, 3, 1, 1)).astype(np.float32)
    last = rng.standard_normal((8, CLASSES)).astype(np.float32)
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, ("N", 3, 224, 224)), "data")
    b = Builder(graph)
    y = b.Conv(x, weight, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
    y = b.Softmax(b.MatMul(b.ReduceMean(y, axes=(2, 3), keepdims=False), last), axis=1)
    graph.outputs = [y]
    (folder / "model.mnn").write_bytes(encode(Model(graph, [("data", x.type)], [("prob", y.type)])))
    spots = rng.integers(0, 100, (6, 8, 3)).astype(np.uint8) + np.array([150, 60, 5], np.uint8)
    photo = cv2.resize(spots, (320, 260), interpolation=cv2.INTER_CUBIC)
    assert cv2.imwrite(str(folder / "photo.png"), photo)
    image: Any = (cv2.resize(photo[..., ::-1], (224, 224)) - (103.94, 116.78, 123.68)) * 0.017
    scores = weight[:, :, 0, 0] @ image.mean((0, 1)) @ last
    ranked = np.sort(scores)
    assert ranked[-1] - ranked[-2] > 0.05, "the photo is not clear"
    return folder, int(scores.argmax())


def test_the_example_finds_the_class(classified: tuple[Path, int]) -> None:
    folder, want = classified
    assert run(folder, EXAMPLE, "model.mnn", "photo.png", "data", "prob", start=()) == [str(want)]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) for n in ("numpy_cv", "session", "express")])
def test_a_classifier_finds_the_class(classified: tuple[Path, int], name: str) -> None:
    folder, want = classified
    lines = run(folder, HERE / f"{name}.py", "model.mnn", "photo.png", "data", "prob")
    found = [line for line in lines if line.startswith("class")]
    assert set(found) == {f"class {want}"}


@pytest.mark.parametrize(
    "name", ["save_parameters", *(pytest.param(n, marks=pytest.mark.slow) for n in ("gradient", "solve", "train"))]
)
def test_training_programs_run(name: str, tmp_path: Path) -> None:
    run(tmp_path, HERE / f"{name}.py")
    assert list(tmp_path.iterdir()), "it has written what it computes"


@pytest.mark.slow
def test_weights_of_a_file_are_trained_with_rounding(classified: tuple[Path, int]) -> None:
    folder, _ = classified
    lines = run(folder, HERE / "quantize.py", "model.mnn")
    assert lines[0] == "inputs data outputs prob"
    assert (folder / "quantized.mnn").exists()
