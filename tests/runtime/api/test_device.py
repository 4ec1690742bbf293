"""Where a model runs, as users choose and see it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from engine_oracle import f32, model_of

import minnow
from minnow.cli._app import run as command_line
from minnow.cli.benchmark import _profile
from minnow.schema.errors import DeviceError, UsageError
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder


def model(*dims: int | str) -> bytes:
    """y = cumulative sums of softmax(x)."""
    graph = Graph()
    b = Builder(graph)
    graph.outputs = [b.CumSum(b.Softmax(graph.add_param(f32(*dims)), axis=1), np.int64(1))]
    return encode(model_of(graph))


def test_a_device_that_is_not_there_is_an_error() -> None:
    why = r"there is no libminnow_nowhere\.so in this build"
    for make in (minnow.load, lambda m, device: minnow.Model(m).session(device=device)):
        with pytest.raises(DeviceError, match=rf"the device 'nowhere:1' is not available: {why}\. Available here: cpu"):
            make(model(2, 3), device="nowhere:1")
    with pytest.raises(UsageError, match=r"'no where' is no device; devices are called \"cpu\", \"auto\""):
        minnow.load(model(2, 3), device="no where")


def test_auto_is_the_cpu_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MINNOW_BACKENDS", str(tmp_path))
    x = np.ones((2, 3), np.float32)
    own, auto = (minnow.load(model(2, 3), device=d) for d in ("cpu", "auto"))
    assert auto.run({"in0": x})["out0"].tobytes() == own.run({"in0": x})["out0"].tobytes()
    assert {row["device"] for row in auto.placement()} == {"cpu"}


@pytest.mark.parametrize("command", ["run", "benchmark", "verify"])
def test_the_commands_have_the_flag(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mnn").write_bytes(model(2, 3))
    source = [str(Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx")] if command == "verify" else []
    assert command_line([command, *source, str(tmp_path / "m.mnn"), "--device", "nowhere"]) == 7
    assert "the device 'nowhere' is not available" in capfd.readouterr().err


def test_placement_without_a_run() -> None:
    session = minnow.load(model("n", 3))
    with pytest.raises(UsageError, match="run the model first"):
        session.placement()
    rows = session.placement({"in0": (4, 3)})
    assert [(r["op"], r["device"], r["why"]) for r in rows] == [("Softmax", "cpu", ""), ("CumSum", "cpu", "")]
    with pytest.raises(UsageError, match="axis 1 is fixed"):
        session.placement({"in0": (4, 4)})
    with pytest.raises(UsageError, match="no input 'x'"):
        session.placement({"x": (4, 3)})
    session.run({"in0": np.ones((2, 3), np.float32)})
    assert session.placement() == rows
    profile = session.profile({"in0": np.ones((2, 3), np.float32)}, 1)
    assert [{k: r[k] for k in ("name", "op", "device", "why")} for r in profile] == rows


def test_the_table_has_a_column_for_devices_if_others_are_in_use() -> None:
    def node(name: str, op: str, device: str, why: str) -> dict[str, object]:
        return {
            **dict.fromkeys(("ms", "macs", "bytes", "copied"), 1),
            "name": name,
            "op": op,
            "scheme": "",
            "device": device,
            "why": why,
        }

    here = [node("a", "Conv", "cpu", ""), node("b", "Relu", "cpu", "")]
    assert "device" not in _profile(SimpleNamespace(profile=here, limits={}))
    why = "far:0 has no kernel for Relu"
    there = [node("a", "Conv", "far:0", "1 us on far:0, 9 us on cpu"), node("b", "Relu", "cpu", why)]
    lines = _profile(SimpleNamespace(profile=there, limits={})).splitlines()
    assert lines[0].split()[:4] == ["op", "scheme", "device", "nodes"]
    assert [line.split()[:5] for line in lines if line.endswith(why)] == [["b", "Relu", "cpu", "1.000", "1"]]
    assert any(line.startswith("a") and line.endswith("1 us on far:0, 9 us on cpu") for line in lines)


def test_json_has_the_device_of_each_node(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mnn").write_bytes(model(2, 3))
    flags = ["--runs", "1", "--no-roofline", "--format", "json"]
    assert command_line(["benchmark", str(tmp_path / "m.mnn"), *flags]) == 0
    (timing,) = json.loads(capfd.readouterr().out)
    assert [(row["op"], row["device"]) for row in timing["profile"]] == [("Softmax", "cpu"), ("CumSum", "cpu")]
