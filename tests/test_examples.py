"""The examples run: the demo by `./dev demo` in CI, C and C++ programs by test_embedding.py, the other scripts here."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
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
    "express/classify.py": "tests/compat/test_programs.py",
    "plugin/plugin.cpp": "tests/runtime/backend/test_plugins.py",
    "quantize/photos.py": "tests/test_examples.py",
    "text/story.c": "tests/llm/test_c_text.py",
    "train/digits.py": "tests/optim/test_training.py",
    "train/finetune.py": "tests/optim/test_training.py",
    "quantize/table.py": "tests/test_examples.py",
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


def rows_of(*arguments: object) -> list[dict[str, str]]:
    """The table that examples/quantize/table.py prints."""
    command = [sys.executable, str(ROOT / "examples" / "quantize" / "table.py"), *map(str, arguments)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    first, _, *others = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(first, row, strict=True)) for row in others]


def test_the_table_of_digits_has_each_form_with_its_accuracy_and_size() -> None:
    rows = {row["form"]: row for row in rows_of("--rounds", 3, "--sparsity", 0.6)}
    assert list(rows) == ["fp32", "fp16", "bf16", "int8 weights", "int4 weights", "60% zeros", "int8"]
    accuracy = {form: float(row["accuracy"].rstrip("%")) for form, row in rows.items()}
    assert accuracy["fp32"] > 97
    lost = {form: accuracy["fp32"] - a for form, a in accuracy.items()}
    assert lost.pop("60% zeros") < 6  # by magnitude without calibration 42
    assert max(lost.values()) < 2
    size = {form: int(row["bytes"].split()[0].replace(",", "")) for form, row in rows.items()}
    assert size["fp32"] > 1.9 * size["fp16"] > 1.9 * size["int8 weights"] > 2.5 * size["int4 weights"]
    decibels = [float(rows[form]["SQNR dB"]) for form in ("fp16", "bf16", "int8 weights", "int4 weights")]
    assert decibels == sorted(decibels, reverse=True)
    assert float(rows["int8"]["SQNR dB"]) > 25
    assert all(float(row["ms"].split()[0]) > 0 for row in rows.values())


def test_the_table_of_a_detector_counts_the_faces_that_both_find(tmp_path: Path) -> None:
    """A detector whose scores are pixels: the same boxes are found by all forms, and the float model finds some."""
    import cv2
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (16, 1)) + np.arange(16, dtype=np.float32)[:, None] * 2
    constants = {
        "w": np.eye(2, 3, dtype=np.float32).reshape(2, 3, 1, 1), "to": np.array([1, 2, 16]),
        "none": np.zeros(1, np.float32), "boxes_at": boxes[None],
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"]),
        helper.make_node("Reshape", ["y", "to"], ["r"]),
        helper.make_node("Transpose", ["r"], ["scores"], perm=[0, 2, 1]),
        helper.make_node("ReduceMean", ["x"], ["m"], keepdims=0),
        helper.make_node("Mul", ["m", "none"], ["zero"]),
        helper.make_node("Add", ["boxes_at", "zero"], ["boxes"]),
    ]
    graph = helper.make_graph(
        nodes, "faces", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16, k]) for n, k in (("scores", 2), ("boxes", 4))],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "f.onnx")
    (tmp_path / "photos").mkdir()
    random = np.random.default_rng(0)
    for k in range(2):
        cv2.imwrite(str(tmp_path / "photos" / f"{k}.png"), random.choice(np.array([40, 240], np.uint8), (4, 4, 3)))
    rows = rows_of(tmp_path / "f.onnx", tmp_path / "photos", "--boxes", "scores,boxes", "--rounds", 2)
    (column,) = [c for c in rows[0] if c.startswith("F1 for")]
    assert int(column.split()[2]) > 10
    assert [row[column] for row in rows] == ["100.0%"] * 6
