"""What users see of a device: where nodes run and why, callbacks with arrays of the host, parts of the graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_oracle import f32, model_of, normal

import minnow
from minnow.cli._app import run as command_line
from minnow.schema.errors import UsageError
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
RNG = np.random.default_rng(0)


def model() -> bytes:
    """softmax(max_pool(conv(x))), with 5 channels, which fill no block."""
    graph = Graph()
    b = Builder(graph)
    w = normal(RNG, 5, 3, 1, 1)
    y = b.Conv(graph.add_param(f32(2, 3, 6, 4)), w, strides=(1, 1), pads=(0,) * 4, dilations=(1, 1))
    y.name = "inner"
    pooled = b.MaxPool(y, kernel=(2, 2), strides=(2, 2), pads=(0,) * 4, dilations=(1, 1))
    graph.outputs = [b.Softmax(pooled, axis=1)]
    return encode(model_of(graph))


@pytest.mark.parametrize("ops", ["all", "Conv", "MaxPool,Softmax"])
def test_each_node_has_its_device_and_the_reason(fake: pytest.MonkeyPatch, ops: str) -> None:
    fake.setenv("MINNOW_FAKE_OPS", ops)
    session = minnow.load(model(), device="fake")
    rows = {row["op"]: row for row in session.placement()}
    for op in ("Conv", "MaxPool", "Softmax"):
        if ops == "all" or op in ops:
            assert rows[op]["device"] == "fake:0"
            assert "us on fake:0, " in rows[op]["why"]
        else:
            assert (rows[op]["device"], rows[op]["why"]) == ("cpu", f"fake:0 has no kernel for {op}")
    assert {row["device"] for row in session.placement() if row["op"] in ("Upload", "Download")} == {"fake:0"}
    profile = session.profile({"in0": normal(RNG, 2, 3, 6, 4)}, 1)
    copied = {row["op"] for row in profile if row["copied"]}
    assert copied == {"Upload", "Download"}
    assert next(row["copied"] for row in profile if row["op"] == "Upload") in (4 * 2 * 3 * 6 * 4, 4 * 2 * 5 * 6 * 4)
    assert [{k: r[k] for k in ("name", "op", "device", "why")} for r in profile] == session.placement()


@pytest.mark.parametrize("ops", ["all", "Conv", "MaxPool,Softmax"])
def test_callbacks_and_parts_get_what_they_get_on_the_cpu(fake: pytest.MonkeyPatch, ops: str) -> None:
    fake.setenv("MINNOW_FAKE_OPS", ops)
    fake.setenv("MINNOW_FAKE_DELAY", "200")
    x, data = {"in0": normal(RNG, 2, 3, 6, 4)}, model()
    seen: dict[str, dict[str, list[Any]]] = {"cpu": {}, "fake": {}}
    for device, arrays in seen.items():

        def after(name: str, op: str, inputs: list[Any], outputs: list[Any], arrays: dict[str, Any] = arrays) -> None:
            arrays[op] = [*inputs, *outputs]

        session = minnow.load(data, device=device)
        for _ in range(3):  # the second is recorded where there is no callback, the third replayed
            arrays["run"] = list(session.run(x).values())
        arrays["observed"] = list(session.run(x, after=after).values())
        arrays["part"] = list(session.run(x, fetch=["inner", "in0"]).values())
        arrays["again"] = list(session.run(x).values())
    assert {"Upload", "Download"} <= seen["fake"].keys()
    for key, arrays in seen["cpu"].items():
        for one, other in zip(arrays, seen["fake"][key], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=key)
    np.testing.assert_array_equal(seen["fake"]["observed"][0], seen["cpu"]["run"][0])


def test_the_commands_run_on_it(fake: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "digits.mnn")
    minnow.convert(DIGITS, output=path, verify=False)
    assert command_line(["verify", str(DIGITS), path, "--device", "fake", "--runs", "1"]) == 0
    assert command_line(["run", path, "--device", "fake:1"]) == 0
    capfd.readouterr()
    assert (
        command_line(["benchmark", path, "--device", "fake", "--runs", "1", "--no-roofline", "--format", "json"]) == 0
    )
    (timing,) = json.loads(capfd.readouterr().out)
    assert {row["device"] for row in timing["profile"] if row["op"] == "Conv"} == {"fake:0"}
    assert command_line(["run", path, "--device", "fake:7"]) == 7
    assert "Available here: cpu, fake" in capfd.readouterr().err


def test_greedy_placement_takes_what_the_device_computes(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("MINNOW_FAKE_SECONDS", "100")
    fake.setenv("MINNOW_FAKE_OPS", "Conv,Softmax")
    x, data = {"in0": normal(RNG, 2, 3, 6, 4)}, model()
    ops = ("Conv", "MaxPool", "Softmax")
    slow = {row["op"]: row["device"] for row in minnow.load(data, device="fake").placement() if row["op"] in ops}
    assert slow == {"Conv": "cpu", "MaxPool": "cpu", "Softmax": "cpu"}
    fake.setenv("MINNOW_PLACEMENT", "greedy")
    session = minnow.load(data, device="fake")
    rows = {row["op"]: (row["device"], row["why"]) for row in session.placement() if row["op"] in ops}
    assert rows == {
        "Conv": ("fake:0", "MINNOW_PLACEMENT=greedy"),
        "MaxPool": ("cpu", "fake:0 has no kernel for MaxPool"),
        "Softmax": ("fake:0", "MINNOW_PLACEMENT=greedy"),
    }
    (got,), (want,) = session.run(x).values(), minnow.load(data).run(x).values()
    np.testing.assert_array_equal(got, want)
    fake.setenv("MINNOW_PLACEMENT", "all")
    with pytest.raises(UsageError, match="MINNOW_PLACEMENT is 'all'"):
        minnow.load(data, device="fake")


def test_inspect_shows_placements(fake: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mnn").write_bytes(model())
    fake.setenv("MINNOW_FAKE_OPS", "Conv,Softmax")
    assert command_line(["inspect", str(tmp_path / "m.mnn"), "--placement", "cpu,fake:1", "--format", "json"]) == 0
    rows = {row["op"]: row for row in json.loads(capfd.readouterr().out)["placement"]}
    assert {op: rows[op]["device"] for op in ("Conv", "MaxPool", "Softmax")} == {
        "Conv": "fake:1", "MaxPool": "cpu", "Softmax": "fake:1",
    }  # fmt: skip
    assert rows["MaxPool"]["why"] == "fake:1 has no kernel for MaxPool"
    assert command_line(["inspect", str(DIGITS), "--placement", "fake", "--input", "image=2x1x8x8"]) == 0
    assert "us on fake:0, " in capfd.readouterr().out
    assert command_line(["inspect", str(tmp_path / "m.mnn"), "--placement", "cpu,nowhere"]) == 7
    assert command_line(["inspect", str(tmp_path / "m.mnn"), "--input", "in0=1x3x6x4"]) == 2


def test_the_backend_of_onnx_runs_on_it(fake: pytest.MonkeyPatch) -> None:
    from minnow import backend

    assert backend.supports_device("CPU")
    assert backend.supports_device("FAKE:1")
    assert not backend.supports_device("FAKE:7")
    assert not backend.supports_device("no device")
    x = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    own, other = backend.prepare(str(DIGITS)), backend.prepare(str(DIGITS), "FAKE")
    assert {row["device"] for row in other.session.placement({"image": x.shape}) if row["op"] == "Conv"} == {"fake:0"}
    np.testing.assert_array_equal(other.run([x])[0], own.run([x])[0])
