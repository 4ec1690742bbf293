"""Libraries of users: examples/plugin, built as its CMakeLists.txt says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake import build as build_fake

import minnow

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "plugin"
SCRIPT = """
import json, sys
import numpy as np
import minnow
session = minnow.load(sys.argv[1], device=sys.argv[2], threads=1)
x = {"image": np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)}
rows = session.profile(x, 1)
print(json.dumps([[(r["op"], r["device"], r["scheme"]) for r in rows], session.run(x)["probability"].tolist()]))
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    version = f"-DMINNOW_VERSION={minnow.__version__}"
    subprocess.run(["cmake", "-S", EXAMPLE, "-B", folder, version], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", folder], check=True, capture_output=True)
    return folder / "libexample.so"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(ROOT / "examples" / "digits" / "digits.onnx", output=path, verify=False)
    return path


def run(model: Path, device: str, plugins: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "MINNOW_PLUGINS": plugins, **variables}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(model), device], env=env, capture_output=True, text=True, check=False
    )


def test_its_kernel_comes_before_our_own(plugin: Path, digits: Path) -> None:
    own, other = (json.loads(run(digits, "cpu", plugins).stdout) for plugins in ("", str(plugin)))
    assert ["Softmax", "cpu", "example_softmax"] not in own[0]
    assert ["Softmax", "cpu", "example_softmax"] in other[0]
    assert other[1][0] == pytest.approx(own[1][0], rel=1e-5, abs=1e-7)


def test_its_device_runs_a_model(plugin: Path, digits: Path) -> None:
    want = json.loads(run(digits, "cpu", "").stdout)[1][0]
    done = run(digits, "example", str(plugin), MINNOW_PLACEMENT="greedy")
    rows, got = json.loads(done.stdout)
    assert {device for op, device, _ in rows if op in ("Conv", "MaxPool", "Softmax")} == {"example:0"}
    assert got[0] == pytest.approx(want, rel=1e-5, abs=1e-7)
    assert "Available here: cpu, example" in run(digits, "nowhere", str(plugin)).stderr


def test_what_is_no_plugin_is_an_error(plugin: Path, digits: Path, tmp_path: Path) -> None:
    fake = build_fake(ROOT / "build" / "fake_device") / "libminnow_fake.so"
    for plugins, kind, text in (
        ("plugin.so", "UsageError", "MINNOW_PLUGINS names 'plugin.so'; it takes absolute paths"),
        (f"{plugin}:./{plugin.name}", "UsageError", "it takes absolute paths"),
        (f"{plugin}:", "UsageError", "it takes absolute paths"),
        (str(tmp_path / "no.so"), "UsageError", "cannot be opened"),
        (str(fake), "DeviceError", "which is no plugin"),
    ):
        done = run(digits, "cpu", plugins)
        assert done.returncode != 0
        assert kind in done.stderr
        assert text in done.stderr


def test_one_of_another_version_is_refused(plugin: Path, digits: Path, tmp_path: Path) -> None:
    # The version is a string in the library.
    other = tmp_path / "other.so"
    version = minnow.__version__.encode()
    content = plugin.read_bytes()
    assert version + b"\0" in content
    other.write_bytes(content.replace(version + b"\0", b"9" * len(version) + b"\0"))
    done = run(digits, "cpu", str(other))
    assert "DeviceError" in done.stderr
    assert f"belongs to Minnow {'9' * len(version)}, and this is {minnow.__version__}" in done.stderr
