"""The GPUs of the tests are computed in software: PoCL is the driver of OpenCL, lavapipe that of Vulkan.

`MINNOW_TEST_DEVICES=opencl,cuda` makes them run on devices that this machine has.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPENCL = Path("/etc/OpenCL/vendors/pocl.icd")
VULKAN = Path("/usr/share/vulkan/icd.d")


def use_software() -> None:
    """Before anything loads a driver, and for the processes that tests start."""
    if "MINNOW_TEST_DEVICES" in os.environ:
        return
    if OPENCL.exists():
        os.environ.setdefault("OCL_ICD_VENDORS", str(OPENCL))
    for driver in VULKAN.glob("lvp_icd.*"):
        os.environ.setdefault("VK_ICD_FILENAMES", str(driver))
    # It keeps the programs that it has compiled, by default in the user's home.
    os.environ.setdefault("POCL_CACHE_DIR", str(ROOT / "build" / "pocl"))
