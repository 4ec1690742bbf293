"""The command line as a user meets it: transcripts, exit codes, nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
COMMAND = Path(sys.executable).with_name("mnnconvert")


def run(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(DIGITS, output=path)
    return path


def test_convert_prints_the_verification_and_exits_0(tmp_path):
    done = run("convert", DIGITS, "-o", tmp_path / "d.mnn")
    assert done.returncode == 0, done.stderr
    assert "PASS" in done.stdout
    assert "minimum passing tolerance" in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["d.mnn"]


def test_the_bare_command_converts(tmp_path):
    assert run(DIGITS, "-o", tmp_path / "d.mnn", "--no-verify").returncode == 0
    assert (tmp_path / "d.mnn").exists()


def test_flags_of_mnns_tool_convert(tmp_path):
    done = run("-f", "ONNX", "--modelFile", DIGITS, "--MNNModel", tmp_path / "d.mnn", "--bizCode", "shop")
    assert done.returncode == 0, done.stderr
    from minnow.schema.mnn import wire

    assert wire.read((tmp_path / "d.mnn").read_bytes())["bizCode"] == "shop"


def test_flags_of_mnns_tool_that_are_not_carried_out_are_refused(tmp_path):
    done = run("-f", "ONNX", "--modelFile", DIGITS, "--MNNModel", tmp_path / "d.mnn", "--forTraining")
    assert done.returncode == 3
    assert "--forTraining" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 99, DIGITS.read_bytes()[:-400]])
def test_unreadable_input_exits_6_and_leaves_nothing(tmp_path, content):
    source = tmp_path / "in.onnx"
    if content is not None:
        source.write_bytes(content)
    target = tmp_path / "out"
    target.mkdir()
    done = run("convert", source, "-o", target / "m.mnn")
    assert done.returncode == 6, done.stderr
    assert done.stderr.startswith("error: ")
    assert "in.onnx" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(target.iterdir())


def test_an_unsupported_operator_exits_3_with_the_whole_list(tmp_path):
    nodes = [helper.make_node("Alpha", ["x"], ["a"], name="one"), helper.make_node("Beta", ["a"], ["y"], name="two")]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:])), str(tmp_path / "m.onnx"))
    done = run("convert", tmp_path / "m.onnx", "--format", "json")
    assert done.returncode == 3
    assert len(json.loads(done.stdout)["items"]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    "args",
    [
        ["--bogus"],
        ["convert"],
        ["convert", "a", "-O", "9"],
        ["convert", "a", "--input", "x=1xq"],
        ["run", "a", "--threads", "0"],
    ],
)
def test_a_wrong_call_exits_2(args):
    done = run(*args)
    assert done.returncode == 2
    assert done.stderr


def test_a_folder_that_does_not_exist_exits_2(tmp_path):
    assert run("convert", DIGITS, "-o", tmp_path / "no" / "d.mnn").returncode == 2


def test_verify_passes_and_fails(digits, tmp_path):
    done = run("verify", DIGITS, digits)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASS")
    # Another model's weights: one bit of the numbers in the file is not what the source says.
    model = onnx.load(str(DIGITS))
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor) * np.float32(1.05)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    onnx.save(model, str(tmp_path / "other.onnx"))
    done = run("verify", tmp_path / "other.onnx", digits)
    assert done.returncode == 4
    assert "FAIL" in done.stdout


def test_verify_json_says_what_would_pass(digits):
    document = json.loads(run("verify", DIGITS, digits, "--format", "json").stdout)
    assert document["passed"] is True
    assert all(o["needed"] <= o["tolerance"] for c in document["cases"] for o in c["outputs"])


def test_run_reads_and_writes_npz(digits, tmp_path):
    session = minnow.load(digits)
    rng = np.random.default_rng(0)
    inputs = {
        i.name: rng.random([d if isinstance(d, int) else 3 for d in i.shape]).astype(i.dtype) for i in session.inputs
    }
    np.savez(tmp_path / "in.npz", **inputs)
    done = run("run", digits, "--data", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as got:
        for name, want in session.run(inputs).items():
            np.testing.assert_array_equal(got[name], want)


def test_run_names_a_missing_input(digits, tmp_path):
    np.savez(tmp_path / "in.npz", wrong=np.zeros(1))
    done = run("run", digits, "--data", tmp_path / "in.npz")
    assert done.returncode == 2
    assert minnow.load(digits).inputs[0].name in done.stderr


def test_random_inputs_stay_within_the_tables_they_are_looked_up_in(tmp_path):
    table = numpy_helper.from_array(np.eye(2, dtype=np.float32), "table")
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    given = [helper.make_tensor_value_info("ids", TensorProto.INT64, [64])]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 2])]
    graph = helper.make_graph(nodes, "g", given, result, [table])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn")
    for command in (["run"], ["benchmark", "--runs", "2", "--no-profile"]):
        done = run(*command, tmp_path / "m.mnn")
        assert done.returncode == 0, done.stderr
    np.savez(tmp_path / "in.npz", ids=np.full(64, 2))
    done = run("benchmark", tmp_path / "m.mnn", "--data", tmp_path / "in.npz")
    assert done.returncode != 0
    assert "2" in done.stderr


def test_run_refuses_a_damaged_model(digits, tmp_path):
    data = digits.read_bytes()
    for n in (0, 3, 100, len(data) // 2, len(data) * 9 // 10):
        (tmp_path / "cut.mnn").write_bytes(data[:n])
        assert run("run", tmp_path / "cut.mnn").returncode == 6


def test_inspect_shows_both_formats(digits):
    for path in (DIGITS, digits):
        done = run("inspect", path, "--format", "json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["nodes"]


def test_benchmark_shows_times_and_schemes(digits):
    done = run("benchmark", digits, "--runs", "5", "--no-roofline", "--format", "json")
    assert done.returncode == 0, done.stderr
    (timing,) = json.loads(done.stdout)
    assert 0 < timing["median_s"] <= timing["p90_s"] <= timing["p99_s"]
    assert timing["peak_bytes"] > 0
    assert {"op", "scheme", "ms", "macs", "bytes"} <= set(timing["profile"][0])


def test_benchmark_compares_with_the_roofline(digits, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = run("benchmark", digits, "--runs", "5", "--format", "json")
    assert done.returncode == 0, done.stderr
    (timing,) = json.loads(done.stdout)
    assert min(timing["limits"].values()) > 0
    assert all(row["roofline"] >= 0 for row in timing["profile"])
    assert (tmp_path / "minnow" / "roofline.json").exists()
    done = run("benchmark", digits, "--runs", "5")
    assert done.returncode == 0, done.stderr
    assert "GFLOP/s" in done.stdout
    assert "roofline:" in done.stdout


def test_benchmark_against_a_peer_gives_a_ratio(digits):
    flags = ("--runs", "5", "--no-roofline", "--format", "json")
    done = run("benchmark", digits, "--against", "onnxruntime", "--source", DIGITS, *flags)
    assert done.returncode == 0, done.stderr
    own, peer = json.loads(done.stdout)
    assert (own["name"], peer["name"]) == ("minnow", "onnxruntime")
    assert peer["ratio"] > 0
    assert not peer["error"]


def test_every_command_has_help():
    from minnow.cli._app import app

    for name in app.list_commands(None):
        done = run(name, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith("Usage: ")


@pytest.mark.parametrize(
    ("args", "code", "hint"),
    [
        (["convrt", "digits.onnx"], 2, "`mnnconvert convert`?"),
        (["help"], 2, "`mnnconvert --help` lists the commands"),
        (["digit.onnx"], 6, "try: digits.onnx?"),
        (["run", "digits.onnx"], 6, "`mnnconvert digits.onnx -o digits.mnn` converts"),
        (["verify", "digits.onnx", "digits.onnx"], 6, "`mnnconvert digits.onnx -o digits.mnn` converts"),
        (["digits.onnx", "digits.mnn"], 2, "the output file is given with -o"),
    ],
)
def test_a_typical_slip_gets_a_hint(args, code, hint, tmp_path, monkeypatch, capsys):
    from minnow.cli._app import run as run_here

    (tmp_path / "digits.onnx").write_bytes(DIGITS.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert run_here(args) == code
    assert hint in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["digits.onnx"]


def test_a_folder_or_file_without_a_suffix_is_a_source(tmp_path):
    (tmp_path / "model").write_bytes(DIGITS.read_bytes())
    assert run("model", "-o", "m.mnn", "--no-verify", cwd=tmp_path).returncode == 0
