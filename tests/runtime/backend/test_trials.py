"""Which placement `device="auto"` and lists of devices come to: by measured speeds, and by trying."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_oracle import f32, model_of, normal

import minnow
from minnow.cli._app import run as command_line
from minnow.runtime import _engine
from minnow.runtime.benchmark.roofline import _processor
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

SIZE, LAYERS = 320, 4
RNG = np.random.default_rng(0)

# Runs until nothing more is tried; what it then is, and what each of the placements took.
SCRIPT = """
import json, sys
import numpy as np
import minnow
session = minnow.load(sys.argv[1], device=sys.argv[2], threads=1)
x = {i.name: np.ones(i.shape, np.float32) for i in session.inputs}
for _ in range(40):
    y = session.run(x)
print(json.dumps([session.placement(), float(sum(np.abs(v).max() for v in y.values()))]))
"""


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two chains of products that do not depend on each other, and their sum."""
    graph = Graph()
    b = Builder(graph)
    ends = []
    for name in ("left", "right"):
        y = graph.add_param(f32(SIZE, SIZE), name)
        for _ in range(LAYERS):
            y = b.MatMul(y, (normal(RNG, SIZE, SIZE) / SIZE).astype(np.float32))
        ends.append(y)
    graph.outputs = [b.Add(*ends)]
    path = tmp_path_factory.mktemp("towers") / "towers.mnn"
    path.write_bytes(encode(model_of(graph)))
    return path


def settled(model: Path, devices: str, folder: Path, known: dict[str, Any] | str, **variables: str) -> Any:
    (folder / "minnow").mkdir(exist_ok=True)
    text = known if isinstance(known, str) else json.dumps(known)
    (folder / "minnow" / "roofline.json").write_text(text)
    env = {k: v for k, v in os.environ.items() if k not in ("MINNOW_CALIBRATION", "MINNOW_PLACEMENT")}
    env |= {"XDG_CACHE_HOME": str(folder), **variables}
    command = [sys.executable, "-c", SCRIPT, str(model), devices]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def seconds_of_product(model: Path) -> float:
    """Of one of the products of the model, on one thread of this processor now."""
    session = minnow.load(model, threads=1)
    rows = session.profile({i.name: np.ones(i.shape, np.float32) for i in session.inputs}, 5)
    return min(row["ms"] for row in rows if row["macs"]) * 1e-3


def speed(product: float, launch: float) -> dict[str, dict[str, float]]:
    """What is kept of this processor, given a product's seconds; and of a fake device, whose kernels take `launch`."""
    cpu = f"{_processor()} {_engine.isa()} 1 {minnow.__version__}"
    return {
        cpu: {"flops": 2 * SIZE**3 / product, "bytes": 1e10},
        f"fake:0 {minnow.__version__}": {
            "flops": 1e15,
            "bytes": 1e14,
            "launch": launch,
            "copy": 2e-5,
            "copy_bytes": 1e11,
        },
    }


def devices_of(rows: list[dict[str, str]]) -> list[str]:
    return [row["device"] for row in rows if row["op"] in ("MatMul", "Linear")]


def milliseconds(rows: list[dict[str, str]]) -> dict[str, float]:
    """What each placement took: "side by side", "on cpu", "on fake:0"."""
    text = rows[0]["why"].partition("measured: ")[2]
    return {what.partition(" ms ")[2]: float(what.partition(" ms ")[0]) for what in text.split(", ")}


def test_independent_chains_run_on_both_at_the_same_time(
    fake: pytest.MonkeyPatch, towers: Path, tmp_path: Path
) -> None:
    seen = []
    for _ in range(8):  # other processes may take the processor in the meantime
        product = seconds_of_product(towers)
        rows, _ = settled(
            towers, "cpu,fake", tmp_path, speed(product, product), MINNOW_FAKE_KERNEL_US=str(round(product * 1e6))
        )
        took = milliseconds(rows)
        seen.append(took)
        if took["side by side"] < 0.9 * min(took["on cpu"], took["on fake:0"]):
            break
    else:
        pytest.fail(f"{seen}")
    if took["side by side"] == min(took.values()):
        assert min(devices_of(rows).count("cpu"), devices_of(rows).count("fake:0")) >= LAYERS - 1


def test_a_device_that_is_slower_than_it_seems_is_not_kept(
    fake: pytest.MonkeyPatch, towers: Path, tmp_path: Path
) -> None:
    rows, result = settled(towers, "cpu,fake", tmp_path, speed(1, 1e-6), MINNOW_FAKE_KERNEL_US="20000")
    assert set(devices_of(rows)) == {"cpu"}
    took = milliseconds(rows)
    assert took["on cpu"] == min(took.values())
    session = minnow.load(towers, threads=1)
    want = session.run({i.name: np.ones(i.shape, np.float32) for i in session.inputs})
    assert result == pytest.approx(float(sum(np.abs(v).max() for v in want.values())))


@pytest.mark.parametrize("known", ["{", '{"fake:0 %s": 3}', '{"fake:0 %s": {"flops": "many", "launch": -1}}'])
def test_without_a_file_the_device_is_measured(
    fake: pytest.MonkeyPatch, towers: Path, tmp_path: Path, known: str
) -> None:
    known = known.replace("%s", minnow.__version__)
    rows, _ = settled(towers, "fake", tmp_path, known)
    assert set(devices_of(rows)) == {"fake:0"}  # named alone, it is preferred
    if known != "{":
        return
    rows, _ = settled(towers, "cpu,fake", tmp_path, known, MINNOW_FAKE_KERNEL_US="20000")
    assert {"cpu"} <= set(devices_of(rows))
    assert "measured: " in rows[0]["why"]


def test_each_shape_is_tried_and_results_stay(fake: pytest.MonkeyPatch) -> None:
    graph = Graph()
    b = Builder(graph)
    graph.outputs = [b.Softmax(b.MatMul(graph.add_param(f32("n", 8)), normal(RNG, 8, 5)), axis=1)]
    data = encode(model_of(graph))
    session, own = minnow.load(data, device="cpu,fake"), minnow.load(data)
    for run in range(60):
        x = {"in0": normal(RNG, 1 + run % 3, 8)}
        (got,), (want,) = session.run(x).values(), own.run(x).values()
        np.testing.assert_array_equal(got, want)
    assert all("measured: " in row["why"] for row in session.placement({"in0": (2, 8)}))
    assert not any("measured: " in row["why"] for row in session.placement({"in0": (9, 8)}))


def test_the_benchmark_keeps_the_speed_of_the_device(
    fake: pytest.MonkeyPatch, towers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert command_line(["benchmark", str(towers), "--device", "fake", "--runs", "1"]) == 0
    kept = json.loads((tmp_path / "minnow" / "roofline.json").read_text())
    row = kept[f"fake:0 {minnow.__version__}"]
    assert row.keys() == {"flops", "bytes", "launch", "copy", "copy_bytes"}
    assert min(row.values()) > 0
    assert any("flops" in other and "launch" not in other for other in kept.values())
