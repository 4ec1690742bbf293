"""Pruned layers: which weights become 0, what files have, and that Minnow's engine and MNN's runtime read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.weight_layers import CASES
from oracles import mnn_oracle
from sampling import one_in

import minnow
from minnow.optimizer.quantize.compress import Compressor, Recipe
from minnow.optimizer.quantize.prune import BLOCKS, Prune, Seen, by_output, can_prune, fitted_to, pruned
from minnow.schema.ir import Model, QuantizedBlob
from minnow.schema.ir.compressed import listed, listed_bytes
from minnow.schema.mnn import save, wire
from minnow.schema.mnn.form import ops
from minnow.schema.registry.interpreter import evaluate

RECIPES: dict[str, Recipe] = {
    "float": Recipe(width=32, prune="magnitude", sparsity=0.7),
    "float, few zeros": Recipe(width=32, prune="block1x8", sparsity=0.55),
    "int8": Recipe(width=8, prune="block1x4", sparsity=0.8, method="mse"),
    "int3": Recipe(width=3, prune="magnitude", sparsity=0.9, half_scales=True),
}


def error(got: Any, want: Any) -> float:
    assert got.shape == want.shape
    return float(np.abs(got - want).max() / np.abs(want).max())


def smaller(name: str, recipe: Recipe) -> Model:
    compressor = Compressor(CASES[name].model(), recipe)
    made, results = compressor.apply()
    for layer, result in zip(compressor._all, results, strict=True):
        if layer.name in compressor.kept:
            continue
        if can_prune(layer) and result.after < result.before:
            assert result.density <= 1 - recipe.sparsity + 0.13, result  # a block of a small layer is a large share
        assert result.after <= result.before
    return made


@pytest.mark.sampled(3)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", CASES)
def test_the_engine_computes_what_the_reference_does(name: str, recipe: str, tmp_path: Path) -> None:
    made, inputs = smaller(name, RECIPES[recipe]), CASES[name].inputs()
    (want,) = evaluate(made.graph, list(inputs.values()))
    save(made, tmp_path / "p.mnn")
    assert error(minnow.load(tmp_path / "p.mnn").run(inputs)["y"], want) < 1e-5


@mnn_oracle.needs_mnn
@pytest.mark.parametrize("recipe", RECIPES)
def test_mnn_computes_what_the_reference_does(recipe: str, tmp_path: Path) -> None:
    names = list(CASES)
    models = {name: smaller(name, RECIPES[recipe]) for name in names}
    jobs = [mnn_oracle.Job(made, CASES[name].inputs()) for name, made in models.items()]
    bad = []
    for name, answer in zip(names, mnn_oracle.run(jobs, tmp_path), strict=True):
        want = evaluate(models[name].graph, list(CASES[name].inputs().values()))[0]
        if answer.outputs is None:
            bad.append(f"{name}: {answer.log}")
        elif not answer.outputs:
            bad.append(f"{name}: no outputs: {answer.log}")
        elif (e := error(answer.outputs[0], want)) > 1e-4:
            bad.append(f"{name}: {e}")
    assert not bad, "\n".join(bad)


def stream_kinds(path: Path) -> set[int]:
    net = wire.read(path.read_bytes())
    return {op["main"]["quanParameter"].get("type", 0) for op in ops(net) if "quanParameter" in (op.get("main") or {})}


def test_files_list_what_is_not_zero(tmp_path: Path) -> None:
    name = next(n for n in CASES if Compressor(CASES[n].model(), RECIPES["float"]).layers)
    for recipe, kind in (("float", 0), ("int8", 2)):
        save(smaller(name, RECIPES[recipe]), tmp_path / "p.mnn")
        assert stream_kinds(tmp_path / "p.mnn") == {kind}


@pytest.mark.parametrize("prune", BLOCKS)
@pytest.mark.parametrize("sparsity", [0.6, 0.75, 0.9])
def test_the_least_blocks_become_zero(prune: Prune, sparsity: float) -> None:
    compressor = Compressor(_any(), RECIPES["float"])
    layer = compressor.layers[0]
    before, after = by_output(layer, layer.numbers()), by_output(layer, pruned(layer, prune, sparsity))
    gone = after == 0
    np.testing.assert_array_equal(after[~gone], before[~gone])
    block = BLOCKS[prune]
    assert -1e-9 <= gone.mean() - sparsity <= block / gone.size + 1e-9
    scores: dict[bool, list[float]] = {True: [], False: []}
    for i in range(0, len(gone), block):
        for j in range(gone.shape[1]):
            assert len(set(gone[i : i + block, j])) == 1
            scores[bool(gone[i, j])].append(float(np.mean(np.square(before[i : i + block, j], dtype=np.float64))))
    assert max(scores[True]) <= min(scores[False])


def _any() -> Model:
    return next(CASES[n].model() for n in CASES if Compressor(CASES[n].model(), RECIPES["float"]).layers)


@pytest.mark.parametrize("bits", [2, 5, 8])
@pytest.mark.parametrize("density", [0.0, 0.001, 0.02, 0.3])
def test_a_list_of_codes_has_all_numbers(bits: int, density: float) -> None:
    rng = np.random.default_rng(bits)
    half = 1 << (bits - 1)
    codes = np.full((7, 1000), half, np.uint8)
    some = rng.random(codes.shape) < density
    codes[some] = rng.integers(0, 2 * half, int(some.sum()))
    blob = QuantizedBlob(codes, bits, np.ones(7, np.float32), None, codes.shape, is_sparse=True)
    assert blob.is_sparse == (listed_bytes(codes, bits) < -(-codes.size * bits // 8))
    found = listed(blob)
    back = np.full(codes.size, half, np.uint8)
    back[np.cumsum(found.steps, dtype=np.int64)] = found.codes
    np.testing.assert_array_equal(back.reshape(codes.shape), codes)
    size = -(-found.steps.size * found.step_bits // 8) + -(-found.steps.size * bits // 8)
    assert size == listed_bytes(codes, bits)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("prune", BLOCKS)
def test_fitted_weights_have_a_smaller_error(prune: Prune) -> None:
    """For correlated inputs, as those of networks are: of products and of a strided, dilated and padded convolution."""
    rng = np.random.default_rng(3)
    for name, case in CASES.items():
        layers = [la for la in Compressor(case.model(), RECIPES["float"]).layers if can_prune(la)]
        shape = next(iter(case.inputs().values())).shape
        if not layers or layers[0].node.op == "ConvTranspose" or layers[0].node.attrs.get("group", 1) != 1:
            continue
        layer = layers[0]
        mixed = rng.standard_normal((8, *shape)).cumsum(axis=-1).cumsum(axis=2 if len(shape) > 2 else -1)
        x = mixed.reshape(-1, *shape[1:]).astype(np.float32)
        seen = Seen.of(layer, x)
        if seen is None:
            continue
        squares = seen.squares
        want = by_output(layer, layer.numbers()).astype(np.float64)
        assert len(squares) == want.shape[1], name
        both = pruned(layer, prune, 0.7), fitted_to(layer, prune, 0.7, seen)[0]
        plain, fitted = (by_output(layer, numbers).astype(np.float64) for numbers in both)
        assert (fitted == 0).mean() == pytest.approx(0.7, abs=0.1)
        lost = [float(np.einsum("oi,ij,oj", d, squares, d)) for d in (plain - want, fitted - want)]
        assert lost[1] < lost[0], name


@pytest.mark.sampled(3)
@pytest.mark.parametrize("prune", BLOCKS)
def test_fitted_weights_are_the_best_for_what_stays(prune: Prune) -> None:
    """By the least squares of numpy for each output, of inputs that depend on each other."""
    rng = np.random.default_rng(5)
    case = CASES[next(n for n in CASES if (m := Compressor(CASES[n].model(), RECIPES["float"]).layers) and
                      m[0].form == "product")]  # fmt: skip
    layer = Compressor(case.model(), RECIPES["float"]).layers[0]
    want = by_output(layer, layer.numbers()).astype(np.float64)
    inputs = want.shape[1]
    x = np.maximum(rng.standard_normal((20 * inputs, inputs)).cumsum(1), 0)
    seen = Seen.of(layer, x)
    assert seen is not None
    fitted = by_output(layer, fitted_to(layer, prune, 0.6, seen)[0]).astype(np.float64)
    plain = by_output(layer, pruned(layer, prune, 0.6)).astype(np.float64)
    assert np.linalg.norm(x @ (fitted - want).T) < 0.8 * np.linalg.norm(x @ (plain - want).T)
    fitted, want = fitted[:: one_in(6)], want[:: one_in(6)]  # numpy takes its time for each output
    lost = np.linalg.norm(x @ (fitted - want).T)
    best = np.zeros_like(want)
    for row in range(len(want)):
        kept = np.flatnonzero(fitted[row])
        best[row, kept] = np.linalg.lstsq(x[:, kept], x @ want[row], rcond=None)[0]
    assert lost < 1.01 * np.linalg.norm(x @ (best - want).T) + 1e-6


@pytest.mark.parametrize("name", ["product", "pointwise"])
def test_a_layer_makes_up_for_what_its_inputs_have_lost(name: str) -> None:
    """Its outputs are near to those for the inputs of the float model, which numpy computes."""
    rng = np.random.default_rng(6)
    case = CASES[name]
    layer = next(la for la in Compressor(case.model(), RECIPES["float"]).layers if can_prune(la))
    channels = 1 if name == "pointwise" else -1
    wanted = rng.standard_normal((64, *case.run[1:])).cumsum(channels).astype(np.float32)
    lost = (0.4 * wanted + 0.2 * np.roll(wanted, 1, channels) - 0.5).astype(np.float32)
    both, alone = Seen.of(layer, lost, wanted), Seen.of(layer, lost)
    assert both is not None
    assert alone is not None
    weights = by_output(layer, layer.numbers()).astype(np.float64)
    reads, should = (np.moveaxis(x, channels, -1).reshape(-1, weights.shape[1]) for x in (lost, wanted))
    outputs = should @ weights.T

    def error_of(seen: Seen, bias: bool) -> float:
        made, shift = fitted_to(layer, "block1x4", 0.6, seen, bias)
        assert (shift is not None) == bias
        got = reads @ by_output(layer, made).T.astype(np.float64) + (0 if shift is None else shift)
        return float(np.square(got - outputs).mean() / np.square(outputs).mean())

    assert error_of(both, True) < 0.9 * error_of(both, False) < 0.5 * error_of(alone, False)


def test_convolutions_of_few_channels_stay_as_they_are() -> None:
    for case in CASES.values():
        for layer in Compressor(case.model(), Recipe(width=8)).layers:
            if layer.node.op == "Conv" and layer.shape[1] <= 4:
                assert not can_prune(layer)
