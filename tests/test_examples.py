"""The examples run: the demo by `./dev demo` in CI, the C and C++ programs by test_embedding.py, the training here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import minnow

ROOT = Path(__file__).parents[1]
RUN_BY = {
    "custom_op/distance.c": "tests/test_custom_op.py",
    "custom_op/distance.py": "tests/test_custom_op.py",
    "digits/demo.py": "dev",
    "digits/train.py": "tests/test_examples.py",
    "embed/recognize.c": "tests/test_embedding.py",
    "embed/recognize.cpp": "tests/test_embedding.py",
    **{f"embed/{name}.cpp": "tests/test_embedding.py" for name in ("camera", "watch", "stream", "sessions")},
    "plugin/plugin.cpp": "tests/runtime/backend/test_plugins.py",
}
"""What runs each example, itself run by `.ci/run`."""


def test_every_example_is_run_and_described() -> None:
    programs = {
        str(p.relative_to(ROOT / "examples")) for end in ("py", "c", "cpp") for p in ROOT.glob(f"examples/*/*.{end}")
    }
    assert programs == RUN_BY.keys()
    page = (ROOT / "examples" / "README.md").read_text()
    for name, runner in RUN_BY.items():
        path = Path(name)
        assert f"]({name})" in page
        assert path.name in (ROOT / runner).read_text() or path.stem in (ROOT / runner).read_text()
    assert "./dev demo" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.slow
def test_the_training_script_writes_a_model_that_recognizes_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("train", ROOT / "examples" / "digits" / "train.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    train = script.train
    monkeypatch.setattr(script, "HERE", tmp_path)
    monkeypatch.setattr(script, "train", lambda layers, x, y: train(layers, x, y, epochs=3))
    script.main()
    minnow.convert(tmp_path / "digits.onnx", output=tmp_path / "digits.mnn")
    test = np.load(tmp_path / "digits_test.npz")
    found = minnow.load(tmp_path / "digits.mnn").run({"image": test["images"]})["probability"].argmax(axis=1)
    assert np.mean(found == test["labels"]) > 0.5  # by chance 0.1
