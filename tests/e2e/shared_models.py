"""The real models that lie beside the checkout, with recorded inputs and outputs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(__file__).parents[3] / "shared" / "models"

needs_models = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder ../shared/models is not there")


@dataclass(frozen=True)
class RealModel:
    """One file, with its recorded run if there is one."""

    path: Path
    recorded: Path | None

    def __str__(self) -> str:
        return self.path.name

    def recording(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Recorded inputs and outputs by name."""
        assert self.recorded is not None
        with np.load(self.recorded) as file:
            arrays = {k.replace("|", "/"): file[k] for k in file.files}
        return tuple({k[len(p) :]: v for k, v in arrays.items() if k.startswith(p)} for p in ("in__", "out__"))  # type: ignore[return-value]


def onnx_models() -> list[RealModel]:
    """Every ONNX file of the manifest."""
    if not SHARED.is_dir():
        return []
    manifest = json.loads((SHARED / "manifest.json").read_text())
    found = []
    for entry in manifest["models"]:
        if entry["framework"] == "onnx":
            for file in sorted(f["file"] for f in entry["files"] if f["file"].endswith(".onnx")):
                path = SHARED / file
                recorded = path.parent / "ref" / f"{path.name}.npz"
                found.append(RealModel(path, recorded if recorded.exists() else None))
    return found
