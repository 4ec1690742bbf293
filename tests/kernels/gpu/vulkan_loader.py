"""Processes with other Vulkan devices than this machine has: vulkan_shim.cpp stands in front of the system's loader."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SHIM = Path(__file__).with_name("vulkan_shim.cpp")


def _system_loader() -> str:
    """The path of the system's loader, as the linker's cache has it."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        if line.split()[:1] == ["libvulkan.so.1"]:
            return line.split()[-1]
    pytest.skip("this machine has no Vulkan loader")


def _shim() -> Path:
    """The folder with the compiled shim."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None or not Path("/usr/include/vulkan/vulkan.h").exists():
        pytest.skip("needs a C++ compiler and the headers of Vulkan")
    folder = ROOT / "build" / "vulkan_shim" / hashlib.sha256(SHIM.read_bytes()).hexdigest()[:16]
    library = folder / "libvulkan.so.1"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"{os.getpid()}.so"
        command = [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([*command, SHIM, "-o", made, "-ldl"], check=True, capture_output=True)
        made.replace(library)
    return folder


def run(code: str, cache: Path, shim: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python code in a process of its own, with the shim and its variables; its cache is a folder of the test."""
    env = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT), "MINNOW_PLACEMENT": "greedy"} | variables
    if shim:
        env |= {"SHIM_REAL": _system_loader(), "LD_LIBRARY_PATH": str(_shim())}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env, cwd=ROOT)
