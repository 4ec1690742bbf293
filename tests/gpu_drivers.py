"""The GPUs of the tests are computed in software: PoCL is the driver of OpenCL, lavapipe that of Vulkan.

A process has them only if it runs nothing but the tests of GPUs: TensorFlow exports its LLVM, which PoCL's newer
compiler would then use, and the process ends. `MINNOW_TEST_DEVICES=opencl,cuda` makes these tests run on devices that
this machine has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPENCL = Path("/etc/OpenCL/vendors/pocl.icd")
VULKAN = Path("/usr/share/vulkan/icd.d")
NONE = ROOT / "build" / "no-drivers"  # which does not exist
TESTS = (ROOT / "tests/kernels/gpu", ROOT / "tests/runtime/backend/test_models_on_gpus.py")


def choose(arguments: Sequence[str], folder: Path) -> None:
    """Before anything loads a driver, and for the processes that tests start. `arguments` are pytest's, in `folder`."""
    if "MINNOW_TEST_DEVICES" in os.environ:
        return
    paths = [(folder / argument.partition("::")[0]).resolve() for argument in arguments]
    if not paths or not all(any(path.is_relative_to(tests) for tests in TESTS) for path in paths):
        os.environ["OCL_ICD_VENDORS"] = os.environ["VK_ICD_FILENAMES"] = str(NONE)
        return
    if OPENCL.exists():
        os.environ.setdefault("OCL_ICD_VENDORS", str(OPENCL))
    for driver in VULKAN.glob("lvp_icd.*"):
        os.environ.setdefault("VK_ICD_FILENAMES", str(driver))
    # It keeps the programs that it has compiled, by default in the user's home.
    os.environ.setdefault("POCL_CACHE_DIR", str(ROOT / "build" / "pocl"))


def full_name(device: str) -> str:
    """What the engine calls it: "cuda" is "cuda:0"."""
    return device if ":" in device else f"{device}:0"
