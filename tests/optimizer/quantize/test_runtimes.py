"""Quantized layers in files: Minnow's engine and MNN's runtime compute what the reference does with the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import weight_streams as streams
from models.weight_layers import CASES, LayerCase
from oracles import mnn_oracle

import minnow
from minnow.optimizer.facts.format import engine_only, foreign_values
from minnow.optimizer.quantize.compress import Compressor, Recipe, Width
from minnow.schema.ir import Model, Value
from minnow.schema.mnn import encode, read_file, save, wire
from minnow.schema.ops import Builder
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


@pytest.mark.parametrize("name", CASES)
def test_files_for_minnow_only_have_the_same_weights(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    compressor = Compressor(case.model("minnow"), Recipe(width=4, block=32, method="mse", for_mnn=False))
    made, _ = compressor.apply()
    save(made, tmp_path / "q.mnn")
    (want,) = evaluate(made.graph, list(case.inputs().values()))
    assert error(minnow.load(tmp_path / "q.mnn").run(case.inputs())["y"], want) < 1e-5


def pointwise(outputs: int, inputs: int) -> LayerCase:
    def build(b: Builder, x: Value, rng: np.random.Generator) -> Value:
        w = rng.standard_normal((outputs, inputs, 1, 1)).astype(np.float32)
        y: Value = b.Conv(x, w, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
        return y

    return LayerCase((1, inputs, 1, 2), (1, inputs, 1, 2), build)


WIDE = {
    "many rows": pointwise(70000, 8),
    "long rows": pointwise(2, 70000),
    "the longest short rows": pointwise(2, 65535),
}


@mnn_oracle.needs_mnn
@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 3])
@pytest.mark.parametrize("name", WIDE)
def test_shapes_beyond_16_bits(name: str, bits: Width, tmp_path: Path) -> None:
    case = WIDE[name]
    made, _ = Compressor(case.model(), Recipe(width=bits)).apply()
    data = encode(made)
    (quan,) = (op["main"]["quanParameter"] for op in wire.read(data)["oplists"] if op["type"] == "Convolution")
    assert quan.get("shapeInt32", False) == ("longest" not in name)
    assert data == encode(made)
    (want,) = evaluate(made.graph, list(case.inputs().values()))
    assert error(minnow.load(data).run(case.inputs())["y"], want) < 1e-5
    (answer,) = mnn_oracle.run([mnn_oracle.Job(made, case.inputs())], tmp_path)
    assert answer.outputs is not None, answer.log
    assert error(answer.outputs[0], want) < 1e-5


@mnn_oracle.needs_mnn
@pytest.mark.parametrize("recipe", ["int3 block symmetric", "int4 block half", "fp16"])
@pytest.mark.parametrize("name", ["conv", "product", "table"])
def test_a_companion_file_has_the_streams(name: str, recipe: str, tmp_path: Path) -> None:
    case = CASES[name]
    _, made = quantized(name, RECIPES[recipe])
    save(made, tmp_path / "q.mnn", side_file=True)
    # Constants in float16 stay in the file: MNN's runtime does not load them from another one.
    outside = (tmp_path / "q.mnn.weight").stat().st_size
    assert outside > 1000 or (outside == 0 and recipe == "fp16" and name != "conv")
    (want,) = evaluate(made.graph, list(case.inputs().values()))
    assert error(minnow.load(tmp_path / "q.mnn").run(case.inputs())["y"], want) < 1e-5
    again = read_file(tmp_path / "q.mnn")
    assert save(again, tmp_path / "again.mnn", side_file=True) > 0
    assert error(minnow.load(tmp_path / "again.mnn").run(case.inputs())["y"], want) < 1e-5
    (answer,) = mnn_oracle.run([mnn_oracle.Job(made, case.inputs(), side_file=True)], tmp_path / "mnn")
    assert answer.outputs is not None, answer.log
    assert error(answer.outputs[0], want) < 1e-4


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name.startswith("int")])
def test_streams_have_the_numbers_of_the_graph(recipe: str) -> None:
    """As a reader has it that is written from the description of the format alone."""
    _, made = quantized("conv", RECIPES[recipe])
    (node,) = (n for n in made.graph if n.op == "Conv")
    (quan,) = (op["main"]["quanParameter"] for op in wire.read(encode(made))["oplists"] if op["type"] == "Convolution")
    want = node.input(1).array
    assert want is not None
    np.testing.assert_allclose(streams.numbers(quan).reshape(want.shape), want, rtol=1e-5, atol=1e-6)
    _, bits = streams.codes(np.asarray(quan["buffer"]).tobytes(), False)
    assert bits == RECIPES[recipe].width == quan["aMaxOrBits"]
