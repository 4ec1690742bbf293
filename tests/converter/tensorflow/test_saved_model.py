"""SavedModels and Keras files, beside what TensorFlow gives for them; without TensorFlow in this process."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minnow
from minnow.cli._app import run as main
from minnow.converter import read
from minnow.converter.formats import detect
from minnow.converter.tensorflow import frontend
from minnow.converter.tensorflow.file import keras_child
from minnow.converter.tensorflow.file.checksum import crc32c, mask
from minnow.converter.tensorflow.file.source import open_source
from minnow.converter.tensorflow.file.variables import Variables
from minnow.converter.tensorflow.message import GraphDef, SavedModel
from minnow.optimizer import optimize
from minnow.schema.errors import FormatError, ModelError, UnsupportedError, UsageError
from minnow.schema.mnn import encode

SHARED = Path(__file__).parents[4] / "shared/models/saved_model/dtln_500h"
needs_tensorflow = pytest.mark.skipif(not importlib.util.find_spec("tensorflow"), reason="TensorFlow makes the models")


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    if not importlib.util.find_spec("tensorflow"):
        pytest.skip("TensorFlow makes the models")
    folder = tmp_path_factory.mktemp("tensorflow")
    program = Path(__file__).with_name("tensorflow_models.py")
    done = subprocess.run([sys.executable, program, folder], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def compare(folder, name, record=None, level=2, **options):
    """Runs a model as often as TensorFlow has, and holds each output against what was recorded."""
    model = read(folder / name, **options)
    optimize(model, level)
    session = minnow.load(encode(model))
    recorded = np.load(folder / f"{record or name}.npz")
    steps = sorted({key.split("/")[1] for key in recorded})
    for step in steps:
        inputs = {k.split("/", 2)[2]: recorded[k] for k in recorded if k.startswith(f"in/{step}/")}
        wanted = {k.split("/", 2)[2]: recorded[k] for k in recorded if k.startswith(f"out/{step}/")}
        found = session.run(inputs)
        assert sorted(found) == sorted(wanted)
        for key, array in wanted.items():
            assert found[key].dtype == array.dtype
            scale = max(1.0, float(np.abs(array).max()))
            np.testing.assert_allclose(found[key], array, rtol=0, atol=1e-5 * scale, err_msg=f"{key}, step {step}")
    return model


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("name", ["states", "branches", "references", "resources", "partitioned", "keras_folder"])
def test_gives_what_tensorflow_gives(models, name, level):
    compare(models, name, level=level)


def test_entry_points_are_chosen_by_name(models, capsys):
    model = compare(models, "types", signature="times")
    assert [n for n, _ in model.inputs] == ["x"]
    assert str(model.inputs[0][1]) == "f32[?,3]"
    assert [n for n, _ in model.outputs] == ["length", "product"]
    compare(models, "types", "types_plus", signature="plus")
    assert [n for n, _ in read(models / "types").inputs] == ["a", "b"]  # the first one, as none is the usual one
    with pytest.raises(UsageError, match="no signature 'minus'") as e:
        read(models / "types", signature="minus")
    assert "plus, times" in e.value.hint
    assert main(["check", str(models / "types"), "--signature", "minus"]) == 2
    capsys.readouterr()
    assert main(["check", str(models / "types"), "--signature", "times"]) == 0
    shown = capsys.readouterr().out
    assert "input:  x: f32[?, 3]" in shown
    assert "output: product" in shown


def test_states_are_those_variables_that_runs_change(models):
    model = read(models / "states")
    kept = {s.input: s.value for s in model.states}
    assert len(kept) == 4
    assert {a.shape for a in kept.values()} == {(3,), (), (4, 3), (5, 3)}
    assert [n for n, _ in model.user_inputs] == ["x"]
    assert [n for n, _ in model.user_outputs] == ["after", "before", "count", "row", "window"]
    assert read(models / "types").states == []


def test_a_model_may_be_given_by_the_file_in_its_folder(models):
    for name in ("references/saved_model.pb", "partitioned/saved_model.pbtxt"):
        assert detect(models / name).frontend() is frontend
        assert [n for n, _ in read(models / name).user_inputs] == ["x"]


def test_tables_of_words_are_refused_by_name_and_can_be_cut_off(models, capsys):
    folder = models / "words"
    with pytest.raises(UnsupportedError, match="DT_STRING"):
        read(folder)
    assert main(["check", str(folder), "--format", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["refused"]
    with pytest.raises(UnsupportedError):
        read(folder, cut_inputs=["words"], inputs={"words": (2,)})
    options = {"cut_inputs": ["numbers"], "cut_outputs": ["rows"]}
    model = read(folder, **options)
    ((name, type),) = model.inputs
    assert name.endswith("/numbers")
    assert str(type) == "i64[2]"
    (found,) = minnow.load(encode(model)).run({name: np.array([2, 0])}).values()
    rows = np.load(models / "words.npz")["rows"]
    np.testing.assert_allclose(found, np.tanh(rows[[2, 0]]), atol=1e-6)
    with pytest.raises(UsageError, match="no tensor 'nothing'"):
        read(folder, cut_outputs=["nothing"])


@pytest.mark.parametrize(
    "name", ["network.keras", *(pytest.param(n, marks=pytest.mark.slow) for n in ("network.h5", "two_inputs.keras"))]
)
def test_keras_files(models, name, tmp_path):
    compare(models, name)
    if name == "network.keras":
        copy = shutil.copy(models / name, tmp_path / "model.zip")  # the content decides, not the name
        assert detect(Path(copy)).frontend() is frontend


def test_keras_files_without_tensorflow(models, monkeypatch, capsys):
    monkeypatch.setattr(keras_child, "version", lambda: None)
    with pytest.raises(UnsupportedError) as e:
        read(models / "network.keras")
    assert "pip install 'minnow[tensorflow]'" in e.value.hint
    assert main(["convert", str(models / "network.h5"), "-o", str(models / "never.mnn")]) == 3
    assert not (models / "never.mnn").exists()
    assert "minnow[tensorflow]" in capsys.readouterr().err


def test_weights_alone_are_no_model(models):
    with pytest.raises(FormatError, match="an HDF5 file without a model"):
        read(models / "only.weights.h5")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["states", "partitioned", "two_inputs.keras"])
def test_commands_take_them(models, name, tmp_path, capsys):
    source, target = str(models / name), str(tmp_path / "model.mnn")
    assert main(["convert", source, "-o", target, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["framework"] == "tensorflow"
    assert report["verification"]["reference"].startswith("tensorflow")
    assert main(["verify", source, target]) == 0
    assert main(["check", source]) == 0
    assert main(["inspect", source]) == 0
    capsys.readouterr()


def test_text_graphs_and_cuts_are_verified_against_tensorflow(tmp_path, capsys):
    pytest.importorskip("tensorflow")
    path = tmp_path / "graph.pbtxt"
    shape = "shape { dim { size: 2 } dim { size: 3 } }"
    path.write_text(f"""
        node {{ name: "x" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }}
                attr {{ key: "shape" value {{ {shape} }} }} }}
        node {{ name: "a" op: "Neg" input: "x" attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
        node {{ name: "b" op: "Exp" input: "a" attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
        node {{ name: "c" op: "Tanh" input: "b" attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
        versions {{ producer: 1000 }}""")
    for cut in ([], ["--inputs", "a:0"], ["--outputs", "b"], ["--inputs", "a", "--outputs", "b:0,c"]):
        target = str(tmp_path / "model.mnn")
        assert main(["convert", str(path), "-o", target, "--format", "json", *cut]) == 0
        report = json.loads(capsys.readouterr().out)["verification"]
        assert report["reference"].startswith("tensorflow")
        assert main(["verify", str(path), target, *cut]) == 0
        capsys.readouterr()


# ---- the file of variables


def test_checksums():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"") == 0

    def slowly(data):
        crc = 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        return crc ^ 0xFFFFFFFF

    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 127, 128, 129, 255, 257, 1000, 4097, 10001, 70003):
        data = rng.integers(0, 256, size).astype(np.uint8)
        assert crc32c(data.tobytes()) == crc32c(data) == slowly(data.tobytes())


def test_slices_are_found_or_put_together(models):
    variables = Variables(models / "partitioned/variables/variables")
    dtype, shape, blob = variables.read("net/w")
    whole = blob.numpy()
    assert (str(dtype), shape) == ("f32", (6, 4))
    for part in ("6 4 2,2:-", "6 4 1,4:-", "6 4 0,6:1,2", "6 4 -:-"):
        cut = [slice(None) if a == "-" else slice(int(a[0]), int(a[0]) + int(a[2])) for a in part.split()[2].split(":")]
        _, shape, blob = variables.read("net/w", part)
        assert shape == whole[tuple(cut)].shape
        np.testing.assert_array_equal(blob.numpy(), whole[tuple(cut)])
    for part in ("6 4 5,2:-", "6 5 -:-", "6 4 -", "6 4 -1,2:-", "a"):
        with pytest.raises(FormatError, match="slice"):
            variables.read("net/w", part)


def test_weights_are_mapped_not_read(models):
    source = open_source(models / "keras_folder")
    assert any(type(known[2]).__name__ == "MappedBlob" for n in source.graph.node if (known := source.load(n.name)))


def damaged(folder, tmp_path, change):
    copy = tmp_path / "damaged"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    change(copy)
    return copy


def rewrite(name, function):
    def change(folder):
        (path,) = folder.glob(name)
        path.write_bytes(function(path.read_bytes()))

    return change


def flip(data, at):
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


INDEX, DATA = "variables/variables.index", "variables/variables.data-*"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (rewrite(INDEX, lambda d: d[:-9]), "not a table of variables"),
        (rewrite(INDEX, lambda d: b""), "not a table of variables"),
        (rewrite(INDEX, lambda d: flip(d, 20)), "damaged"),
        (rewrite(INDEX, lambda d: flip(d, -1)), "not a table of variables"),
        (rewrite(DATA, lambda d: d[:-1]), "cut off"),
        (rewrite(DATA, lambda d: flip(d, 0)), "damaged"),
        (lambda f: next(f.glob(DATA)).unlink(), "cannot read the variables"),
        (rewrite("saved_model.pb", lambda d: d[: len(d) // 2]), "not a TensorFlow SavedModel"),
        (rewrite("saved_model.pb", lambda d: SavedModel().SerializeToString() + b"\x08\x01"), "holds no graph"),
    ],
)
def test_damage_is_told(models, tmp_path, change, what, capsys):
    copy = damaged(models / "resources", tmp_path, change)
    with pytest.raises(FormatError, match=what) as e:
        read(copy)
    assert "damaged" in e.value.where
    assert main(["convert", str(copy), "-o", str(tmp_path / "never.mnn")]) == 6
    assert not (tmp_path / "never.mnn").exists()
    capsys.readouterr()


def test_missing_variables_are_told(models, tmp_path):
    copy = damaged(models / "resources", tmp_path, lambda f: shutil.rmtree(f / "variables"))
    with pytest.raises(UnsupportedError, match="no value for the variable"):
        read(copy)


def test_compressed_tables_are_refused(models, tmp_path):
    def compress(data):
        """Marks the first block as compressed, under a checksum that is right."""
        variables = Variables.__new__(Variables)
        variables._bytes = data
        _, _, at = variables._handle(data[-48:], 0)
        start, size, _ = variables._handle(data[-48:], at)
        end = start + size
        marked = data[:end] + b"\x01" + data[end + 1 :]
        crc = mask(crc32c(marked[start : end + 1]))
        return marked[: end + 1] + crc.to_bytes(4, "little") + marked[end + 5 :]

    copy = damaged(models / "resources", tmp_path, rewrite(INDEX, compress))
    with pytest.raises(UnsupportedError, match="compressed tables"):
        read(copy)


@pytest.mark.parametrize("name", ["states", "references"])
def test_no_damage_breaks_the_reader(models, tmp_path, name):
    rng = random.Random(0)
    files = ["saved_model.pb", INDEX, DATA]
    for trial in range(60):
        file = files[trial % 3]

        def ruin(data):
            data = bytearray(data)
            for _ in range(rng.choice([1, 4])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(data[: rng.randrange(len(data)) if rng.random() < 0.3 else len(data)])

        copy = damaged(models / name, tmp_path, rewrite(file, ruin))
        with contextlib.suppress(FormatError, ModelError, UnsupportedError):
            encode(read(copy))


def test_a_graph_that_is_not_frozen_says_so(tmp_path):
    graph = GraphDef(node=[
        {"name": "v", "op": "VarHandleOp", "attr": {"dtype": {"type": 1}, "shared_name": {"s": b"v"}}},
        {"name": "y", "op": "ReadVariableOp", "input": ["v"], "attr": {"dtype": {"type": 1}}},
    ])  # fmt: skip
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.SerializeToString())
    with pytest.raises(UnsupportedError) as e:
        read(path)
    assert "no value for the variable 'v'" in str(e.value)
    assert "convert_variables_to_constants_v2" in str(e.value)


def test_folders_that_are_no_models(tmp_path, capsys):
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(FormatError):
        read(tmp_path)
    assert main(["check", str(tmp_path)]) == 6
    assert main(["check", str(tmp_path), "-f", "tensorflow"]) == 6
    capsys.readouterr()


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared models")
def test_variables_in_several_files():
    variables = Variables(SHARED / "variables/variables")
    assert variables.shards == 2
    shapes = {key: variables.read(key)[1] for key in variables if not key.startswith("_")}
    assert shapes["variables/13/.ATTRIBUTES/VARIABLE_VALUE"] == (256, 512)


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared models")
def test_a_model_that_cleans_speech():
    """Four LSTM layers, fused from loops, whose states are variables; spectra there and back."""
    model = read(SHARED)
    assert len(model.states) == 8
    optimize(model)
    assert sum(node.op == "LSTM" for node in model.graph) == 4
    session = minnow.load(encode(model))
    recorded = np.load(SHARED / "ref/saved_model.npz")
    frame, wanted = recorded["in__input_1"], recorded["out__conv1d_1"]
    first = session.run({"input_1": frame})["conv1d_1"]
    np.testing.assert_allclose(first, wanted, atol=1e-4 * np.abs(wanted).max())
    second = session.run({"input_1": frame})["conv1d_1"]
    assert np.abs(second - first).max() > 0.01 * np.abs(wanted).max()  # it has heard the first
    session.reset()
    np.testing.assert_array_equal(session.run({"input_1": frame})["conv1d_1"], first)


def test_two_names_for_one_input_are_refused(models, tmp_path):
    def rename(data):
        model = SavedModel.FromString(data)
        inputs = model.meta_graphs[0].signature_def["serving_default"].inputs
        inputs["other"].CopyFrom(inputs["x"])
        return model.SerializeToString()

    with pytest.raises(UnsupportedError, match="the same tensor"):
        read(damaged(models / "references", tmp_path, rewrite("saved_model.pb", rename)))
