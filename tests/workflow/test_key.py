"""Keys of cells: they change with whatever changes an output, and with nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from minnow.schema.errors import FormatError
from minnow.workflow import key
from minnow.workflow.cell import Budget, Cell, Limits, Place
from minnow.workflow.key import FileHashes, key_of, key_parts, source_files


def save(path: Path, value: float = 1.0, external: str = "") -> Path:
    """A model with one weight, in a file of its own perhaps; below a branch, where it is hard to find."""
    weight = numpy_helper.from_array(np.full((4, 4), value, np.float32), "w")
    branch = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "b", [],
        [helper.make_tensor_value_info("y", 1, [1, 4])], [weight],
    )  # fmt: skip
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    inputs = [helper.make_tensor_value_info("x", 1, [1, 4]), helper.make_tensor_value_info("c", 9, [])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, [1, 4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    if external:
        for attribute in model.graph.node[0].attribute:
            onnx.external_data_helper.set_external_data(attribute.g.initializer[0], external, 0, 64)
            attribute.g.initializer[0].ClearField("raw_data")
        (path.parent / external).write_bytes(np.full((4, 4), value, np.float32).tobytes())
    path.write_bytes(model.SerializeToString())
    return path


def cell(source: Path, **more: object) -> Cell:
    return Cell(**{"model": "m", "variant": "", "source": str(source), "output": "o.mnn", **more})  # type: ignore[arg-type]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "a.onnx")


def test_what_does_not_change_an_output_does_not_change_its_key(model: Path, tmp_path: Path) -> None:
    first = key_of(cell(model))
    assert len(first) == 64
    copy = tmp_path / "elsewhere" / "b.onnx"
    copy.parent.mkdir()
    shutil.copy(model, copy)
    os.utime(copy, (1, 1))
    same = cell(
        copy, model="n", variant="v", output="other.mnn", budgets=(Budget("bytes", 1),), limits=Limits(1, 1),
        place=Place("f", 3), options={"optimize": 2, "verify": True, "passes": [], "output": "x"},
    )  # fmt: skip
    assert key_of(same) == first


@pytest.mark.parametrize(
    "options",
    [{"optimize": 1}, {"target": "minnow"}, {"verify": False}, {"inputs": {"x": [1, 4]}}, {"passes": ["-fold"]}],
)
def test_options_change_the_key(model: Path, options: dict[str, object]) -> None:
    assert key_of(cell(model, options=options)) != key_of(cell(model))


def test_equal_options_give_equal_keys(model: Path) -> None:
    keys = {
        key_of(cell(model, options={"tolerance": 1, "passes": ["-a", "-b"]})),
        key_of(cell(model, options={"passes": ("-a", "-b"), "tolerance": 1.0})),
    }
    assert len(keys) == 1


def test_the_source_changes_the_key(model: Path) -> None:
    first = key_of(cell(model))
    save(model, 2.0)
    assert key_of(cell(model)) != first


def test_external_data_below_a_branch_changes_the_key(tmp_path: Path) -> None:
    model = save(tmp_path / "a.onnx", external="w.bin")
    assert list(source_files(model, {})) == ["", "w.bin"]
    first = key_of(cell(model))
    (tmp_path / "w.bin").write_bytes(bytes(64))
    second = key_of(cell(model))
    (tmp_path / "w.bin").unlink()
    assert len({first, second, key_of(cell(model))}) == 3


def test_external_data_outside_of_the_folder_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    (tmp_path / "in").mkdir()
    model = save(tmp_path / "in" / "a.onnx", external="../secret.bin")
    assert secret.exists()
    assert source_files(model, {}) == {"": model, "../secret.bin": None}


def test_data_and_companions_count_by_their_content(model: Path, tmp_path: Path) -> None:
    data, other = tmp_path / "x.npz", tmp_path / "y.npz"
    np.savez(data, x=np.ones((1, 4)))
    shutil.copy(data, other)
    first = key_of(cell(model, options={"data": [str(data)]}))
    assert key_of(cell(model, options={"data": [str(other)]})) == first
    np.savez(other, x=np.zeros((1, 4)))
    assert key_of(cell(model, options={"data": [str(other)]})) != first


def test_all_files_of_a_folder_count(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"\x08\x01")
    (folder / "variables" / "v.index").write_bytes(b"1")
    first = key_of(cell(folder))
    by_file = key_of(cell(folder / "saved_model.pb"))
    (folder / "variables" / "v.index").write_bytes(b"2")
    assert key_of(cell(folder)) != first
    assert key_of(cell(folder / "saved_model.pb")) != by_file


def test_the_partner_of_a_caffe_file_counts(tmp_path: Path) -> None:
    net = tmp_path / "a.prototxt"
    net.write_text('name: "a"\nlayer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 } } }\n')
    first = key_of(cell(net))
    (tmp_path / "a.caffemodel").write_bytes(b"\x0a\x01a")
    assert key_of(cell(net)) != first


def test_the_side_file_of_a_mnn_file_counts(tmp_path: Path) -> None:
    (tmp_path / "a.mnn").write_bytes(b"model")
    first = key_of(cell(tmp_path / "a.mnn"))
    (tmp_path / "a.mnn.weight").write_bytes(b"weights")
    assert key_of(cell(tmp_path / "a.mnn")) != first


@pytest.mark.parametrize("part", ["minnow", "code", "engine", "schema", "numpy"])
def test_the_build_changes_the_key(model: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, build = key_of(cell(model)), key.build()
    assert len(build["code"]) == len(build["engine"]) == len(build["schema"]) == 64
    monkeypatch.setattr(key, "build", lambda: {**build, part: "other"})
    assert key_of(cell(model)) != first


def test_a_missing_source_has_no_key(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot read the file"):
        key_of(cell(tmp_path / "none.onnx"))
    (tmp_path / "text.onnx").write_text("no model")
    assert key_of(cell(tmp_path / "text.onnx"))  # its conversion fails, always in the same way


def test_damage_does_not_break_the_search_for_external_data(tmp_path: Path) -> None:
    data = save(tmp_path / "a.onnx", external="w.bin").read_bytes()
    for i in range(0, len(data), 7):
        (tmp_path / "b.onnx").write_bytes(data[:i] + b"\xff" + data[i + 1 :])
        assert key_parts(cell(tmp_path / "b.onnx"))["sources"][""]


def test_files_are_read_again_only_after_a_change(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = FileHashes()
    first = hashes.of(model)
    stat = model.stat()
    read: Callable[..., object] = key.hashlib.sha256
    calls = []
    monkeypatch.setattr(key.hashlib, "sha256", lambda *a: calls.append(1) or read(*a))
    assert hashes.of(model) == first
    assert not calls
    save(model, 3.0)
    os.utime(model, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # a change that hides
    assert model.stat().st_size == stat.st_size
    assert hashes.of(model) != first
    assert replace(cell(model)) == cell(model)


@pytest.mark.parametrize("name", ["op_plugins", "testdir"])
def test_files_that_an_option_names_count_by_their_content(model: Path, tmp_path: Path, name: str) -> None:
    folders = [tmp_path / folder for folder in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        (folder / "given.py").write_text("first")
    paths = [folder / "given.py" if name == "op_plugins" else folder for folder in folders]
    keys = [key_of(cell(model, options={name: [str(path)] if name == "op_plugins" else str(path)})) for path in paths]
    assert keys[0] == keys[1] != key_of(cell(model))
    (folders[1] / "given.py").write_text("second")
    assert key_of(cell(model, options={name: [str(paths[1])] if name == "op_plugins" else str(paths[1])})) != keys[0]
