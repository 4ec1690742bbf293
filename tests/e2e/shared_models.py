"""The real models that lie beside the checkout, with recorded inputs and outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minnow

SHARED = Path(__file__).parents[3] / "shared" / "models"

needs_models = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder ../shared/models is not there")


Converted = Callable[["RealModel"], Path]


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


def models(framework: str, suffix: str) -> list[RealModel]:
    """Every file of the manifest of a format; without a suffix, every folder."""
    if not SHARED.is_dir():
        return []
    manifest = json.loads((SHARED / "manifest.json").read_text())
    found = []
    for entry in manifest["models"]:
        if entry["framework"] != framework:
            continue
        files = sorted(f["file"] for f in entry["files"] if suffix and f["file"].endswith(suffix))
        for file in files if suffix else [f"{framework}/{entry['name']}"]:
            path = SHARED / file
            recorded = path.parent / "ref" / f"{path.name}.npz" if suffix else path / "ref" / f"{framework}.npz"
            found.append(RealModel(path, recorded if recorded.exists() else None))
    return found


def converter(
    folder: Path,
    judge: str = "",
    inputs: Mapping[str, Any] | None = None,
    on_recording: Collection[str] = (),
    verify: bool = True,
) -> Converted:
    """Gives the path of the `.mnn` of a model, which is converted, and verified, once.

    Args:
        judge: what the result has to be compared with, by a part of its name.
        inputs: shapes of the inputs, by the name of the model's file.
        on_recording: names of models that are compared on the recorded inputs, because random ones test nothing.
        verify: off for tests that judge the results themselves: a reference may take many times as long as the engine.
    """

    def convert(model: RealModel) -> Path:
        target = folder / f"{model.path.name}.mnn"
        if not target.exists():
            arrays = model.recording()[0] if model.path.name in on_recording else {}
            shapes = (inputs or {}).get(model.path.name)
            if all(name.isdigit() for name in arrays):  # the inputs are counted, and have no names
                given, data = [arrays[str(i)] for i in range(len(arrays))] or shapes, {}
            else:
                given, data = shapes, {name.removesuffix(":0"): array for name, array in arrays.items()}
            if not verify:
                minnow.convert(model.path, output=target, inputs=given, trust=True, verify=False)
                return target
            checked = [data] if data else ()
            report = minnow.convert(model.path, output=target, inputs=given, data=checked, trust=True)
            assert report.verification is not None
            assert report.verification.passed
            assert judge in report.verification.reference
        return target

    return convert
