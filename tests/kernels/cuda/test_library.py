"""The machine code of the CUDA kernels, which `./dev gpu` compiles: what is in it, without a GPU to run it on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("MINNOW_CUDA_BUILD", ""))
TOOLS = Path(os.environ.get("MINNOW_CUDA_TOOLS", ""))
LIBRARY = BUILD / "libminnow_cuda.so"
HOPPER = "sm_90a"

pytestmark = pytest.mark.skipif("MINNOW_CUDA_BUILD" not in os.environ, reason="`./dev gpu` compiles the CUDA kernels")

# What the sources ask for, and the instructions of Hopper that it must become.
INSTRUCTIONS = {
    r"mma\.sync\.": "HMMA",
    r"mma\.sync\.\S+\.s8\.s8\.s32": "IMMA",
    r"dp2a\.": "IDP",
    r"wgmma\.mma_async": "HGMMA",
    r"cp\.async\.c[ag]\b": "LDGSTS",
    r"cp\.async\.bulk\.tensor": "UTMALDG",
    r"ldmatrix\.": "LDSM",
}
# Bytes of a thread's numbers that a kernel may keep in memory: one of kernels/cuda for lack of registers; one of the
# portable texts also in arrays, such as the registers of elementwise programs.
MOST_SPILLED = 48
MOST_OF_TEXTS = 256


def tool(name: str, *arguments: str | Path) -> str:
    environment = {**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"}
    done = subprocess.run([TOOLS / name, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def instructions() -> dict[str, Counter[str]]:
    """By kernel: how often each instruction stands in its code for Hopper."""
    found: dict[str, Counter[str]] = {}
    kernel = ""
    for line in tool("cuobjdump", "-sass", "-arch", HOPPER, LIBRARY).splitlines():
        if header := re.match(r"\s*Function : (\S+)", line):
            kernel = header[1]
            found[kernel] = Counter()
        elif code := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", line):
            found[kernel][code[1]] += 1
    return found


@cache
def stacks() -> dict[str, int]:
    """By kernel: the bytes of its stack, of all architectures the most."""
    found: dict[str, int] = {}
    text = tool("cuobjdump", "-res-usage", LIBRARY)
    for name, size in re.findall(r"Function (\S+):\s+REG:\d+ STACK:(\d+)", text):
        found[name] = max(found.get(name, 0), int(size))
    return found


def cuda_sources() -> str:
    paths = (p for p in (ROOT / "kernels" / "cuda").rglob("*") if p.suffix in (".cu", ".cuh", ".h"))
    return "\n".join(path.read_text() for path in paths)


def test_each_kernel_has_code_for_hopper() -> None:
    assert len(instructions()) > 100
    assert set(instructions()) <= set(stacks())
    assert all(sum(count.values()) > 4 for count in instructions().values())


@pytest.mark.parametrize("asked", INSTRUCTIONS)
def test_what_sources_ask_for_is_in_the_machine_code(asked: str) -> None:
    if not re.search(asked, cuda_sources()):
        pytest.skip(f"no source asks for {asked}")
    assert any(count[INSTRUCTIONS[asked]] for count in instructions().values())


def test_kernels_of_tensor_cores_keep_their_numbers_in_registers() -> None:
    kernels = {name for name, count in instructions().items() if count["HMMA"] or count["HGMMA"] or count["IMMA"]}
    assert len(kernels) >= 8
    in_memory = {name: count["LDL"] + count["STL"] for name, count in instructions().items() if name in kernels}
    assert {name: n for name, n in in_memory.items() if n} == {}
    assert {name: stacks()[name] for name in kernels if stacks()[name]} == {}


def test_other_kernels_keep_nearly_all_in_registers() -> None:
    most = {name: MOST_OF_TEXTS if re.match(r"_ZN\d+text_", name) else MOST_SPILLED for name in stacks()}
    assert {name: size for name, size in stacks().items() if size > most[name]} == {}


def test_needs_no_library_of_cuda() -> None:
    """Without a driver it can be loaded, and says that there is none."""
    needed = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert "libc.so" in needed
    assert not re.search(r"cuda|cublas|cudnn|nvrtc", needed), needed
    code = "from minnow.runtime import _engine; _engine.run_op('Identity', {}, [1.0], device='cuda')"
    environment = {**os.environ, "MINNOW_BACKENDS": str(BUILD), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert "DeviceError" in done.stderr, done.stderr


def test_programs_that_check_kernels_were_built() -> None:
    for folder, kind in (("tests/kernels/cuda", "check"), ("bench/gpu", "time")):
        sources = [source for source in (ROOT / folder).iterdir() if source.suffix in (".cpp", ".cu")]
        assert len(sources) > 3
        for source in sources:
            name = f"{kind}_{source.stem.removeprefix(f'{kind}_')}"
            assert os.access(BUILD / f"cuda_{name}", os.X_OK), source
