"""Weights that a file has as packed bytes, and nodes that expand them: layers compute with them as they are packed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.weight_layers import LayerCase, weights

import minnow
from minnow.optimizer.quantize.compress import Compressor, Recipe
from minnow.schema.ir import Model, Value
from minnow.schema.mnn import save
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RECIPES = {
    "8": Recipe(width=8),
    "4": Recipe(width=4),
    "2": Recipe(width=2),
    "4 symmetric": Recipe(width=4, symmetric=True),
    "4 block": Recipe(width=4, block=32),
    "8 block half": Recipe(width=8, block=16, half_scales=True),
    "2 block symmetric half": Recipe(width=2, block=32, half_scales=True, symmetric=True),
}
Build = Callable[[Builder, Value, np.random.Generator], Value]


def recurrent(op: str, hidden: int, batch: int = 1, features: int = 64, steps: int = 4, **attrs: Any) -> LayerCase:
    directions = 2 if attrs.get("direction") == "bidirectional" else 1

    def build(b: Builder, x: Value, rng: np.random.Generator) -> Value:
        w, r = (weights(rng, directions * GATES[op] * hidden, n) for n in (features, hidden))
        parts = [Value.constant(v.reshape(directions, -1, v.shape[-1]) / np.float32(n)) for v, n in ((w, 8), (r, 8))]
        bias = Value.constant(weights(rng, directions, 2 * GATES[op] * hidden))
        return b.node(op, [x, *parts, bias], {"hidden": hidden, **attrs}, 3 if op == "LSTM" else 2).outputs[0]

    shape = (steps, batch, features)
    return LayerCase(shape, shape, build)


def stack(rows: int, inputs: int, outputs: int, *matrices: int) -> LayerCase:
    def build(b: Builder, x: Value, rng: np.random.Generator) -> Value:
        y: Value = b.MatMul(x, weights(rng, *matrices, inputs, outputs))
        return y

    shape = (*matrices, rows, inputs)
    return LayerCase(shape, shape, build)


def transposed(
    inputs: int, outputs: int, height: int, width: int, kernel: int = 3, group: int = 1, batch: int = 1, **attrs: Any
) -> LayerCase:
    def build(b: Builder, x: Value, rng: np.random.Generator) -> Value:
        w = weights(rng, inputs, outputs // group, kernel, kernel)
        y: Value = b.ConvTranspose(
            x,
            w,
            weights(rng, outputs),
            **{"strides": (2, 2), "pads": (1, 0, 1, 1), "dilations": (1, 1), "output_padding": (0, 0), "group": group}
            | attrs,
        )
        return y

    shape = (batch, inputs, height, width)
    return LayerCase(shape, shape, build)


def convolution(inputs: int, outputs: int, height: int, width: int, group: int, **attrs: Any) -> LayerCase:
    def build(b: Builder, x: Value, rng: np.random.Generator) -> Value:
        w = weights(rng, outputs, inputs // group, 3, 3)
        more = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": group} | attrs
        y: Value = b.Conv(x, w, weights(rng, outputs), **more)
        return y

    shape = (2, inputs, height, width)
    return LayerCase(shape, shape, build)


CASES = {
    "LSTM": recurrent("LSTM", 96),
    "LSTM of odd units": recurrent("LSTM", 77),
    "LSTM of rows": recurrent("LSTM", 64, batch=3),
    "LSTM of many rows": recurrent("LSTM", 96, batch=21),
    "LSTM both ways": recurrent("LSTM", 160, direction="bidirectional"),
    "LSTM backward": recurrent("LSTM", 64, direction="reverse"),
    "GRU": recurrent("GRU", 96),
    "GRU of odd units": recurrent("GRU", 91, batch=2),
    "GRU, reset after": recurrent("GRU", 96, linear_before_reset=True),
    "GRU both ways": recurrent("GRU", 64, direction="bidirectional"),
    "RNN": recurrent("RNN", 160),
    "large LSTM": recurrent("LSTM", 416),
    "large GRU": recurrent("GRU", 400, batch=2),
    "stack": stack(1, 160, 192, 3),
    "stack of rows": stack(7, 96, 64, 2, 3),
    "stack of many rows": stack(40, 128, 160, 2),
    "deconv": transposed(128, 64, 4, 5),
    "deconv of two images": transposed(64, 64, 3, 3, batch=2),
    "deconv to more channels": transposed(64, 128, 3, 3, kernel=2, activation="relu"),
    "deconv of uneven channels": transposed(96, 64, 4, 4, activation="silu"),
    "deconv of many pixels": transposed(256, 128, 20, 15, kernel=4),
    "deconv in groups": transposed(128, 64, 4, 4, group=2),
    "conv in groups": convolution(128, 64, 3, 3, group=2),
    "conv in groups of many pixels": convolution(256, 192, 12, 10, group=4, activation="silu"),
    "deconv with dilation": transposed(64, 64, 3, 4, dilations=(2, 1), strides=(1, 3)),
}


def made(case: LayerCase, recipe: Recipe, target: str) -> Model:
    for_mnn = target == "mnn"
    compressor = Compressor(case.model(target), Recipe(**{**vars(recipe), "for_mnn": for_mnn}))
    assert compressor.layers
    model, results = compressor.apply()
    assert all(r.after < r.before for r in results)
    return model


@pytest.mark.sampled(8)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", CASES)
def test_layers_compute_with_packed_weights(name: str, recipe: str, tmp_path: Path) -> None:
    case = CASES[name]
    target = "minnow" if "GRU" in name or "groups" in name else "mnn"
    model = made(case, RECIPES[recipe], target)
    save(model, tmp_path / "q.mnn")
    inputs = case.inputs()
    (want,) = evaluate(model.graph, list(inputs.values()))
    results = []
    for threads in (1, 2, 3):
        session = minnow.load(tmp_path / "q.mnn", threads=threads)
        results.append(session.run(inputs)["y"])
    assert float(np.abs(results[0] - want).max()) < 2e-5 * float(np.abs(want).max())
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    layers = ("LSTM", "GRU", "RNN", "MatMul", "ConvTranspose", "Conv")
    rows = [row for row in session.profile(inputs, runs=1) if row["op"] in layers]
    assert [row["scheme"][:9] for row in rows] == ["quantized"]


PEAK = """
import sys
import numpy as np
import minnow

def memory(name):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))

before = memory("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
minnow.load(sys.argv[1], threads=1).run({"x": np.zeros([int(n) for n in sys.argv[2:]], np.float32)})
print(memory("VmHWM") - before)
"""


@pytest.mark.parametrize(
    ("case", "target"),
    [
        (recurrent("LSTM", 1024, features=1024), "mnn"),
        (recurrent("GRU", 1024, features=1024), "minnow"),
        (stack(2, 1024, 1024, 8), "mnn"),
        (transposed(2048, 1024, 3, 3, kernel=4), "mnn"),
    ],
    ids=["LSTM", "GRU", "stack", "deconv"],
)
def test_peak_memory_is_that_of_the_file(case: LayerCase, target: str, tmp_path: Path) -> None:
    size = save(made(case, Recipe(width=4), target), tmp_path / "q.mnn")
    command = [sys.executable, "-c", PEAK, str(tmp_path / "q.mnn"), *map(str, case.run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1.3 * size + 9e6


def test_what_only_looks_like_it_is_left_as_it_is(tmp_path: Path) -> None:
    """Other factors than those of the bits: the nodes compute what they say."""
    case = recurrent("LSTM", 64)
    for number, other in ((16.0, 8.0), (1 / 16, 1 / 8), (8.0, 9.0)):
        model = made(case, Recipe(width=4, symmetric=True), "mnn")
        changed = 0
        for node in model.graph:
            for i in range(len(node.inputs)):
                data = node.input(i).array if node.has_input(i) else None
                if node.op in ("Mul", "Sub") and data is not None and data.size == 1 and float(data) == number:
                    node.set_input(i, Value.constant(np.asarray(other, np.float32)))
                    changed += 1
        assert changed
        save(model, tmp_path / "q.mnn")
        (want,) = evaluate(model.graph, list(case.inputs().values()))
        got = minnow.load(tmp_path / "q.mnn").run(case.inputs())["y"]
        np.testing.assert_allclose(got, want, atol=2e-5 * float(np.abs(want).max()))
