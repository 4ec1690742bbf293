"""Compares the folder of a diffusion pipeline with its source: the engine with the reference implementation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.schema.errors import VerifyError
from minnow.schema.notice import Notice

if TYPE_CHECKING:
    from minnow.converter.diffusion.pipeline import Pipeline
    from minnow.diffusion.description import Description
    from minnow.schema.ir import Model

MOST_WEIGHTS = 1_000_000_000
"""Of larger models the reference implementation would take minutes."""
CLOSE = 2e-3
"""The most that results may differ, relative to the largest."""
_TOKENS = 5
_TIME = 321.0


def compare(pipeline: Pipeline, files: Mapping[str, Path], description: Description) -> Notice:
    """What comes of the comparison of each model, for small random inputs, in words.

    Args:
        pipeline: the source. files: what was made of its models, by name. description: of it.

    Raises:
        VerifyError: the results differ.
    """
    from minnow.converter.diffusion.pipeline import graphs
    from minnow.runtime.session import load
    from minnow.schema.registry.interpreter import evaluate

    models = graphs(pipeline)
    count = sum(v.type.count or 0 for m in models.values() for v in m.graph.constants() if v.data is not None)
    if count > MOST_WEIGHTS:
        text = f"not verified: the reference implementation would take long for {count / 1e9:.1f} billion weights"
        return Notice(text, "not-run")
    worst = 0.0
    for name, model in models.items():
        inputs = _inputs(model, description)
        want = np.asarray(evaluate(model.graph, list(inputs.values()))[0])
        got = next(iter(load(str(files[name])).run(inputs).values()))
        most = max(float(np.abs(want).max()), 1e-30)
        error = float(np.abs(got - want).max()) / most if np.isfinite(got).all() else np.nan
        if not error <= CLOSE:
            raise VerifyError(
                f"the results of the converted {name} differ from those of its source",
                where=str(pipeline.path),
                why=f"by up to {error:.2g} of the largest",
                hint="`--no-verify` writes the folder nevertheless; `-O0` shows whether an optimization is the cause",
            )
        worst = max(worst, error)
    text = f"verified: results differ by up to {worst:.2g} of the largest from those of the reference implementation"
    return Notice(text, "verified")


def _inputs(model: Model, description: Description) -> dict[str, Any]:
    """Random values for the inputs of a model, small ones."""
    side = max(description.step // description.scale, 4)
    sizes = {"batch": 1, "length": min(_TOKENS, description.length), "height": side, "width": side}
    dice = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for name, type in model.inputs:
        shape = [sizes[n] if isinstance(n, str) else n for n in type.shape or ()]
        if name == "input_ids":
            found[name] = dice.integers(0, description.vocab_size, shape).astype(np.int32)
        elif name == "timestep":
            found[name] = np.full(shape, _TIME, np.float32)
        else:
            found[name] = dice.standard_normal(shape).astype(np.float32)
    return found
