"""Quantized layers in files: Minnow's engine and MNN's runtime compute what the reference does with the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.weight_layers import CASES
from oracles import mnn_oracle

import minnow
from minnow.optimizer.facts.format import engine_only, foreign_values
from minnow.optimizer.quantize.compress import Compressor, Recipe
from minnow.schema.ir import Model
from minnow.schema.mnn import save
from minnow.schema.registry.interpreter import evaluate

RECIPES: dict[str, Recipe] = {
    **{f"int{bits}": Recipe(width=bits, method="mse") for bits in (8, 7, 6, 5, 4, 3, 2)},  # type: ignore[arg-type]
    "int8 symmetric": Recipe(width=8, symmetric=True),
    "int4 symmetric": Recipe(width=4, symmetric=True, method="mse"),
    "int2 symmetric": Recipe(width=2, symmetric=True, method="mse"),
    "int4 block": Recipe(width=4, block=32, method="mse"),
    "int3 block symmetric": Recipe(width=3, block=16, symmetric=True),
    "int4 block half": Recipe(width=4, block=32, half_scales=True, method="hqq"),
    "int8 half": Recipe(width=8, half_scales=True),
    "int5 symmetric half": Recipe(width=5, symmetric=True, half_scales=True),
    "fp16": Recipe(width=16, constants=16),
    "bf16": Recipe(width=-16),
}
FOR_MNN = [name for name in RECIPES if name != "bf16"]  # which MNN's runtime does not load
FLOAT = ("GRU",)
"""Layers that stay float: the format has their weights in another order."""


def error(got: Any, want: Any) -> float:
    assert got.shape == want.shape
    return float(np.abs(got - want).max() / np.abs(want).max())


def quantized(name: str, recipe: Recipe) -> tuple[Model, Model]:
    """The float model, and the one with smaller weights."""
    model = CASES[name].model()
    compressor = Compressor(model, recipe)
    assert bool(compressor.layers) == (name not in FLOAT)
    made, results = compressor.apply()
    assert any(r.after < r.before for r in results) == (name not in FLOAT)
    return model, made


@pytest.mark.sampled(6)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", CASES)
def test_the_engine_computes_what_the_reference_does(name: str, recipe: str, tmp_path: Path) -> None:
    case = CASES[name]
    model, made = quantized(name, RECIPES[recipe])
    inputs = case.inputs()
    (want,) = evaluate(made.graph, list(inputs.values()))
    before, after = save(model, tmp_path / "f.mnn"), save(made, tmp_path / "q.mnn")
    got = minnow.load(tmp_path / "q.mnn").run(inputs)["y"]
    assert error(got, want) < 1e-5
    assert after < before + 4000
    assert save(made, tmp_path / "again.mnn") == after
    assert (tmp_path / "again.mnn").read_bytes() == (tmp_path / "q.mnn").read_bytes()


@mnn_oracle.needs_mnn
@pytest.mark.slow
@pytest.mark.parametrize("recipe", FOR_MNN)
def test_mnn_computes_what_the_reference_does(recipe: str, tmp_path: Path) -> None:
    jobs, wants, names = [], [], []
    for name, case in CASES.items():
        _, made = quantized(name, RECIPES[recipe])
        if engine_only(made.graph) or foreign_values(made.graph):
            continue
        names.append(name)
        jobs.append(mnn_oracle.Job(made, case.inputs()))
        wants.append(evaluate(made.graph, list(case.inputs().values()))[0])
    assert names == list(CASES)
    bad = []
    for name, want, answer in zip(names, wants, mnn_oracle.run(jobs, tmp_path), strict=True):
        if answer.outputs is None:
            bad.append(f"{name}: {answer.log}")
        elif (e := error(answer.outputs[0], want)) > 1e-4:
            bad.append(f"{name}: {e}")
    assert not bad, "\n".join(bad)
