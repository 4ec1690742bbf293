"""Vulkan: devices that lack something, errors of drivers, the cache, and the validation layer of the API."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.gpu.test_ops_on_gpu import is_there
from tests.kernels.gpu.vulkan_loader import ROOT, run

LAYER = Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")
FEW = "Conv MatMul Reshape LSTM"  # with several kernels in a row, copies, and shared memory

OPS = """
import sys
from tests.kernels.gpu.test_ops_on_gpu import OPS, check
computed, wrong = 0, []
for name in {names}:
    n, _, failures = check(name, "vulkan", {precision})
    computed += n
    wrong += failures
print(computed, "computed")
print("\\n".join(wrong[:10]))
sys.exit(bool(wrong))
"""

MODEL = """
import numpy as np, minnow
data = np.load("examples/digits/digits_test.npz")["images"]
minnow.convert("examples/digits/digits.onnx", output="{folder}/digits.mnn", target="minnow")
host, session = minnow.load("{folder}/digits.mnn"), minnow.load("{folder}/digits.mnn", device="vulkan")
for begin in [0, 0, 0, 8, 16, 0]:  # recorded the second time, replayed from then
    x = {{"image": data[begin : begin + 8]}}
    for name, want in host.run(x).items():
        np.testing.assert_allclose(session.run(x)[name], want, rtol=1e-4, atol=1e-5)
assert any(row["device"].startswith("vulkan") for row in session.placement())
"""

pytestmark = pytest.mark.skipif(not is_there("vulkan"), reason="this machine has no Vulkan")


def ops(names: str, precision: int = 0) -> str:
    return OPS.format(names=repr(names.split()) if names else "OPS", precision=precision)


LAYERS = """
import minnow
from minnow.schema.mnn import encode
from tests.kernels.gpu.test_vulkan_layers import network
from tests.runtime.engine_oracle import model_of, run

graph, inputs = network()
for precision in ("high", "low"):
    session = minnow.load(encode(model_of(graph)), device="vulkan", precision=precision)
    for _ in range(4):
        run(session, inputs)
"""

DEVICES = {
    "memory of its own": {"SHIM_DISCRETE": "1"},
    "no small types": {"SHIM_LACKS": "small"},
    "no 64-bit integers": {"SHIM_LACKS": "int64"},
    "short buffers": {"SHIM_RANGE": "65536"},
}


def test_on_a_device_with_memory_of_its_own(tmp_path: Path) -> None:
    done = run(ops(FEW), tmp_path, **DEVICES["memory of its own"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 50, done.stdout


def test_no_remainder_of_a_negative_integer_is_taken(tmp_path: Path) -> None:
    done = run(ops("Pad ReduceMean"), tmp_path, SHIM_REMAINDER="unsigned")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_no_op_takes_the_remainder_of_a_negative_integer(tmp_path: Path) -> None:
    done = run(ops(""), tmp_path, SHIM_REMAINDER="unsigned")
    assert done.returncode == 0, done.stdout + done.stderr


SPECIAL = {"SignedZeroInfNanPreserve": {16, 32}}
FLOATS = {
    "0": SPECIAL | {"DenormPreserve": {16, 32, 64}},  # 32 bits may be chosen by themselves, the others together
    "1": SPECIAL | {"DenormPreserve": {16, 32}},  # each width by itself
    "2": SPECIAL | {"DenormPreserve": {16, 32, 64}},  # all together
    "lacks": {},
}
INDEPENDENCE = {"0": "32 bits only", "1": "all", "2": "none", "lacks": "no extension"}


@pytest.mark.parametrize("floats", FLOATS, ids=lambda f: INDEPENDENCE[f])
def test_kernels_ask_to_keep_nan_and_subnormal_numbers(floats: str, tmp_path: Path) -> None:
    """SPIR-V as the driver gets it is valid, and has the modes that the device offers."""
    if not all(map(shutil.which, ["spirv-val", "spirv-dis"])):
        pytest.skip("needs spirv-val and spirv-dis (Debian: spirv-tools)")
    variables = {"SHIM_LACKS": "floats"} if floats == "lacks" else {"SHIM_FLOATS": floats}
    done = run(ops("Pad ReduceMean"), tmp_path, SHIM_MODULES=str(tmp_path), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    shaders = list(tmp_path.glob("*.spv"))
    assert len(shaders) > 1
    for shader in shaders:
        assert modes_of(shader) == FLOATS[floats], shader


def modes_of(shader: Path) -> dict[str, set[int]]:
    """The widths of floats by mode, of a valid shader."""
    valid = subprocess.run(
        ["spirv-val", "--target-env", "vulkan1.1", shader], capture_output=True, text=True, check=False
    )
    assert valid.returncode == 0, valid.stderr
    text = subprocess.run(["spirv-dis", shader], capture_output=True, text=True, check=True).stdout
    modes: dict[str, set[int]] = {}
    for mode, width in re.findall(r"OpExecutionMode %main (DenormPreserve|SignedZeroInfNanPreserve) (\d+)", text):
        modes.setdefault(mode, set()).add(int(width))
    assert set(modes) == set(re.findall(r"OpCapability (DenormPreserve|SignedZeroInfNanPreserve)", text))
    return modes


@pytest.mark.slow
@pytest.mark.parametrize("device", ["small types", "no small types"])
def test_all_shaders_stay_valid_with_modes_of_floats(device: str, tmp_path: Path) -> None:
    if not all(map(shutil.which, ["spirv-val", "spirv-dis"])):
        pytest.skip("needs spirv-val and spirv-dis (Debian: spirv-tools)")
    done = run(ops(""), tmp_path, SHIM_FLOATS="2", SHIM_MODULES=str(tmp_path), **DEVICES.get(device, {}))
    assert done.returncode == 0, done.stdout + done.stderr
    shaders = list(tmp_path.glob("*.spv"))
    assert len(shaders) > 50
    for shader in shaders:
        assert modes_of(shader) == FLOATS["2"], shader


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0, 2])
@pytest.mark.parametrize("device", DEVICES)
def test_all_ops_on_devices_that_lack_something(device: str, precision: int, tmp_path: Path) -> None:
    done = run(ops("", precision), tmp_path, **DEVICES[device])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("shim", [False, True])
def test_a_model_is_recorded_and_replayed(shim: bool, tmp_path: Path) -> None:
    done = run(MODEL.format(folder=tmp_path), tmp_path, shim, **({"SHIM_DISCRETE": "1"} if shim else {}))
    assert done.returncode == 0, done.stdout + done.stderr


ERRORS = """
import numpy as np, minnow
from minnow.runtime import _engine
from minnow.schema.errors import DeviceError
data = np.load("examples/digits/digits_test.npz")["images"][:8]
minnow.convert("examples/digits/digits.onnx", output="{folder}/digits.mnn", target="minnow")
host = minnow.load("{folder}/digits.mnn")
x = {{"image": data}}
for _ in range(3):
    try:
        session = minnow.load("{folder}/digits.mnn", device="vulkan")
        for _ in range(5):
            session.run(x)
        print("no error")
    except DeviceError as error:
        print(error)
print(len(host.run(x)))
"""


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SHIM_FULL": "100000"}, "no memory on the device"),
        ({"SHIM_LOST": "0"}, "the device is lost"),
        ({"SHIM_LOST": "2"}, "the device is lost"),
        ({"SHIM_LOST": "5", "SHIM_DISCRETE": "1"}, "the device is lost"),
    ],
)
def test_an_error_of_the_driver_is_told_and_the_process_goes_on(
    variables: dict[str, str], message: str, tmp_path: Path
) -> None:
    done = run(ERRORS.format(folder=tmp_path), tmp_path, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stdout
    assert all(message in line for line in lines[:3]), done.stdout


def changed(content: bytes) -> dict[str, bytes]:
    middle = len(content) // 2
    return {
        "empty": b"",
        "cut": content[:middle],
        "longer": content + b"\0",
        "garbage": bytes(range(256)) * 8,
        "one bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
    }


@pytest.mark.parametrize("kind", ["vulkan", "opencl"])
def test_a_cache_that_was_damaged_is_made_again(kind: str, tmp_path: Path) -> None:
    if not is_there(kind):
        pytest.skip(f"this machine has no {kind}")
    code = ops("MatMul").replace('"vulkan"', f'"{kind}"')
    assert run(code, tmp_path, False).returncode == 0
    (file,) = list((tmp_path / "minnow" / kind).iterdir())[:1]
    content = file.read_bytes()
    assert content.startswith(b"minnow cache 1 ")
    for what, damaged in changed(content).items():
        file.write_bytes(damaged)
        done = run(code, tmp_path, False)
        assert done.returncode == 0, what + done.stdout + done.stderr
        assert file.read_bytes().startswith(b"minnow cache 1 "), what
    file.unlink()
    file.mkdir()
    assert run(code, tmp_path, False).returncode == 0
    assert not list((tmp_path / "minnow" / kind).glob("*.part"))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["model", "layers", "precision high", "precision low"])
def test_the_validation_layer_finds_nothing(what: str, tmp_path: Path) -> None:
    if not LAYER.exists():
        pytest.skip("needs the validation layer (Debian: vulkan-validationlayers)")
    code = MODEL.format(folder=tmp_path) if what == "model" else ops("", 2 if "low" in what else 0)
    done = run(
        code if what != "layers" else LAYERS,
        tmp_path,
        VK_INSTANCE_LAYERS="VK_LAYER_KHRONOS_validation",
        VK_LAYER_ENABLES="VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
        VK_LOADER_DEBUG="layer",
        SHIM_DISCRETE="1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "VK_LAYER_KHRONOS_validation" in done.stderr, "the layer was not loaded"
    found = [line for line in (done.stdout + done.stderr).splitlines() if "VUID" in line or "SYNC-" in line]
    assert not found, "\n".join(found[:5])


@pytest.mark.slow
def test_all_shaders_are_valid_and_can_be_translated_to_metal(tmp_path: Path) -> None:
    """SPIRV-Cross turns each text's SPIR-V into the language of Metal; nothing here compiles that further."""
    tools = ["glslc", "spirv-val", "spirv-cross"]
    if not all(map(shutil.which, tools)):
        pytest.skip(f"needs {', '.join(tools)} (Debian: glslc, spirv-tools, spirv-cross)")
    texts = sorted((ROOT / "kernels/gpu/text").glob("*.gpu"))
    make = [sys.executable, ROOT / "cmake/gpu_texts.py", "vulkan", tmp_path / "texts.cpp", *texts]
    subprocess.run(make, check=True)
    shaders = sorted((tmp_path / "gpu_spirv").glob("*.spv"))
    with_subgroups = [path.stem for path in texts if re.search(r"GROUP_(SUM|MAX)\(", path.read_text())]
    assert len(shaders) == 2 * len(texts) + len(with_subgroups) > 2 * len(texts)
    for shader in shaders:
        for command in (["spirv-val", "--target-env", "vulkan1.1"], ["spirv-cross", "--msl", "--msl-version", "20300"]):
            done = subprocess.run([*command, shader], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{shader.name}, {command[0]}: {done.stderr}"
        assert "kernel void main0(" in done.stdout, shader.name
