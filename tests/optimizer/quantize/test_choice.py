"""Which layer gets how many bits, on made-up layers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from models.weight_layers import CASES

from minnow.optimizer.quantize.choice import Rung, moves_of, reasons_of, rungs_of, undone, uniform
from minnow.optimizer.quantize.compress import Compressor, Recipe, Width
from minnow.optimizer.quantize.layers import matches
from minnow.optimizer.quantize.sensitivity import output_error
from minnow.schema.registry.interpreter import evaluate

WIDTHS: tuple[Width, ...] = (0, 8, 6, 4, 2)


def ladders(seed: int, layers: int) -> dict[str, list[Rung]]:
    rng = np.random.default_rng(seed)
    found = {}
    for k in range(layers):
        size, scale = int(rng.integers(1, 9)) * 100, float(rng.uniform(0.1, 3))
        errors = np.cumsum(rng.uniform(0, scale, len(WIDTHS) - 1))
        rungs = [Rung(w, size * w // 8, float(e)) for w, e in zip(WIDTHS[1:], errors, strict=True)]
        found[f"l{k}"] = [Rung(0, size * 4, 0.0), *rungs]
    return found


def total(rungs: dict[str, list[Rung]], widths: dict[str, Width]) -> tuple[int, float]:
    chosen = [next(r for r in rungs[name] if r.width == width) for name, width in widths.items()]
    return sum(r.bytes for r in chosen), sum(r.error**2 for r in chosen)


@pytest.mark.parametrize("seed", range(6))
def test_no_choice_of_that_size_has_a_smaller_error(seed: int) -> None:
    rungs = ladders(seed, 4)
    choices = [total(rungs, dict(zip(rungs, w, strict=True))) for w in product(WIDTHS, repeat=4)]
    widths: dict[str, Width] = dict.fromkeys(rungs, 0)
    for move in moves_of(rungs, {}):
        widths[move.layer] = move.rung.width
        size, error = total(rungs, widths)
        assert error <= min(e for s, e in choices if s <= size) + 1e-9


def test_a_layer_that_the_outputs_depend_on_gives_up_bits_last() -> None:
    rungs = ladders(1, 2)
    rungs["l1"] = rungs["l0"]
    names = [move.layer for move in moves_of(rungs, {"l0": 1e6, "l1": 1.0})]
    count = len(names) // 2
    assert names == ["l1"] * count + ["l0"] * count


def test_moves_are_taken_back_while_there_is_room() -> None:
    rungs = ladders(2, 3)
    moves = moves_of(rungs, {})
    widths = {move.layer: move.rung.width for move in moves}
    size, error = total(rungs, widths)
    for room in (0, 50, 300, 10**6):
        more, less = total(rungs, undone(widths, rungs, moves, room))
        assert size <= more <= size + room
        assert less <= error
    assert undone(widths, rungs, moves, 10**6) == dict.fromkeys(rungs, 0)


def test_reasons_name_the_next_step() -> None:
    rungs = ladders(3, 2)
    moves = moves_of(rungs, {})
    reasons = reasons_of(rungs, moves, 0)
    first = moves[0]
    saved = rungs[first.layer][0].bytes - first.rung.bytes
    assert f"int{first.rung.width} would save {saved} bytes" in reasons[first.layer]
    assert set(reasons_of(rungs, moves, len(moves)).values()) == {"fewer bits would save nothing"}
    assert uniform(rungs, 5) == {"l0": 6, "l1": 6}


@pytest.mark.parametrize("name", ["conv", "groups", "depthwise", "deconv", "product", "linear 3"])
def test_errors_of_outputs_are_those_that_are_measured(name: str) -> None:
    """For inputs whose channels are independent, and of very different sizes."""
    case = CASES[name]
    model = case.model()
    compressor = Compressor(model, Recipe(width=4))
    (layer,) = compressor.layers
    rng = np.random.default_rng(0)
    axis = len(case.run) - 1 if layer.form == "product" else 1
    shape = [1] * len(case.run)
    shape[axis] = case.run[axis]
    x = (rng.standard_normal((20, *case.run)) * np.geomspace(0.01, 10, case.run[axis]).reshape(shape)).astype(
        np.float32
    )
    moment = np.square(x).mean(tuple(a for a in range(x.ndim) if a != axis + 1))
    predicted = output_error(layer, layer.numbers(), compressor.numbers(layer, 4), moment)
    made, _ = compressor.apply()
    bias = evaluate(model.graph, [np.zeros(case.run, np.float32)])[0]
    errors, sizes = 0.0, 0.0
    for one in x:
        want, got = (evaluate(m.graph, [one])[0].astype(np.float64) for m in (model, made))
        errors += float(np.square(got - want).sum())
        sizes += float(np.square(want - bias).sum())
    assert predicted == pytest.approx(np.sqrt(errors / sizes), rel=0.35)


def test_tables_have_the_widths_of_bytes() -> None:
    compressor = Compressor(CASES["table"].model(), Recipe())
    (ladder,) = rungs_of(compressor, 2, {}).values()
    assert [r.width for r in ladder] == [0, 16, 8, 4, 2]
    assert [r.bytes for r in ladder] == sorted((r.bytes for r in ladder), reverse=True)


def test_patterns_are_for_names_and_ops() -> None:
    (layer,) = Compressor(CASES["conv"].model(), Recipe()).layers
    assert [matches(layer, p) for p in ("Conv", "C*v", layer.name, "MatMul", "conv")] == [
        True,
        True,
        True,
        False,
        False,
    ]
