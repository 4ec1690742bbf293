"""None of this suite is for every day: to list PyTorch's samples alone takes seconds, in each process."""

from __future__ import annotations

from pathlib import Path

import sampling


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if sampling.everyday and collection_path.name == "test_torch_suite.py" else None
