"""Every gradient rule against finite differences of the op's reference, and against PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sampling
from oracles.finite_difference import Case, case_of, ops_with_gradient

from minnow.schema.ops import Sample, get

OPS = [op.name for op in ops_with_gradient()]
# Rounding is taken for no change there, which is not what a difference sees.
STRAIGHT_THROUGH = {"Cast", "QuantizeLinear", "RoundTo"}


def _has_slope(name: str, sample: Sample) -> bool:
    """Left out: which of two updates of one place wins, and what a rule refuses."""
    if name == "ScatterElements" and sample.attrs.get("reduction", "none") == "none":
        return sample.attrs.get("axis", 0) == 0
    if name == "DequantizeLinear":
        x = sample.inputs[0]
        return x is not None and x.dtype in (np.int8, np.uint8) and not sample.attrs.keys() & {"block_size", "to"}
    return name != "RoiAlign" or sample.attrs.get("mode") != "max"


def _cases(name: str, most: int = 2) -> Iterator[tuple[Sample, Case]]:
    """Of every day the first `most`; the numbers are the same in both tests."""
    rng = np.random.default_rng(1)
    seen = 0
    for sample in get(name).cases():
        case = case_of(get(name), sample, rng) if _has_slope(name, sample) else None
        if case is None or (sampling.everyday and case.count > 20_000):
            continue
        yield sample, case
        seen += 1
        if sampling.everyday and seen == most:
            return


@pytest.mark.parametrize("name", sorted(set(OPS) - STRAIGHT_THROUGH))
def test_a_rule_is_the_slope_of_the_reference(name: str) -> None:
    rng = np.random.default_rng(2)
    seen = 0
    for sample, case in _cases(name):
        exact = all(case.operands[i].dtype == np.float64 for i in case.floats)  # type: ignore[union-attr]
        for i, error in case.errors(rng):
            assert error < (2e-5 if exact else 5e-3), (str(sample), i, error)
            seen += 1
    assert seen, "no sample has floats"


def _in_torch(torch: Any, case: Case, function: Any) -> list[Any] | None:
    """The gradients by PyTorch; None for attributes that it has not."""
    tensors = [None if a is None else torch.from_numpy(np.array(a)) for a in case.operands]
    for i in case.floats:
        tensors[i].requires_grad_(True)
    padded = [*tensors, *(None for o in case.op.inputs[len(tensors) :] if not o.variadic)]
    results = function(*padded, **case.op.bind(len(tensors), case.attrs))
    if results is None:
        return None
    results = results if isinstance(results, tuple) else (results,)
    pairs = zip(results, case.weights, strict=False)
    loss = sum((y * torch.from_numpy(w).to(y.dtype)).sum() for y, w in pairs if w is not None)
    if not loss.requires_grad:
        return [np.zeros(case.operands[i].shape) for i in case.floats]  # type: ignore[union-attr]
    loss.backward()
    return [np.zeros(tensors[i].shape) if tensors[i].grad is None else tensors[i].grad.numpy() for i in case.floats]


def _torch_names() -> list[str]:
    from oracles.torch_functions import TORCH

    return sorted(TORCH)


@pytest.mark.parametrize("name", _torch_names())
def test_a_rule_gives_what_autograd_gives(name: str) -> None:
    import torch
    from oracles.torch_functions import TORCH

    compared = 0
    close = 1e-5 if name == "Resize" else 1e-9  # we place its samples in float32, as all runtimes do
    for sample, case in _cases(name, 1):
        expected = _in_torch(torch, case, TORCH[name])
        if expected is None:
            continue
        compared += 1
        exact = all(case.operands[i].dtype == np.float64 for i in case.floats)  # type: ignore[union-attr]
        for got, want in zip(case.gradients(), expected, strict=True):
            size = max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(got, want, rtol=0, atol=size * (close if exact else 2e-5), err_msg=str(sample))
    assert compared or sampling.everyday, "PyTorch has none of the samples"
