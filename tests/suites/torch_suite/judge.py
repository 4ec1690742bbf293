"""What becomes of a case: each sample, run eagerly by PyTorch and by Minnow's engine from what a road makes of it."""

from __future__ import annotations

import warnings
from typing import Any
from unittest import mock

import numpy as np
import torch
from tf_suite.judge import difference
from torch_oracle import exported, flat, run, scripted

from minnow.converter.torch.program.child import RefusedError
from minnow.converter.torch.reader import translate
from minnow.schema.errors import MinnowError, ModelError, UnsupportedError
from torch_suite.case import Sample, samples

TOLERANCE = 1e-4
"""Of the largest number that is expected."""

ORDER = ("pass", "not made", "refused", "error", "wrong")
"""Outcomes, the worse the later. "not made": by PyTorch itself, or nothing that a model could give."""


def _eager(sample: Sample) -> Any:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sample(*sample.given())


def _leaves(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [v for part in x.values() for v in _leaves(part)]
    if isinstance(x, (list, tuple)):
        return [v for part in x for v in _leaves(part)]
    return [] if x is None else [x]


def _unfit(sample: Sample, result: Any) -> str:
    """Why a sample is none of inference in real numbers; "" if it is."""
    tensors = [x for x in (*_leaves(result), *sample.leaves) if isinstance(x, torch.Tensor)]
    if not any(isinstance(x, torch.Tensor) for x in _leaves(result)):
        return "gives no tensor"
    if any(x.is_complex() or x.layout is not torch.strided or x.is_quantized for x in tensors):
        return "complex or sparse"
    if any(not isinstance(x, (torch.Tensor, bool, int, float)) for x in _leaves(result)):
        return "gives no tensor"
    first, second = (flat(_seeded(sample, seed)) for seed in (1, 2))
    same = all(a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
               for a, b in zip(first, second, strict=True))  # fmt: skip
    return "" if same else "random"


def _seeded(sample: Sample, seed: int) -> Any:
    """The result with this seed, whatever the sample itself wants for one."""
    plant = torch.manual_seed
    plant(seed)

    def again(_: int) -> Any:
        return plant(seed)

    with mock.patch.object(torch, "manual_seed", again):
        return _eager(sample)


def attempt_sample(sample: Sample, road: str) -> tuple[str, str]:
    """The outcome of a sample and what was said."""
    try:
        result = _eager(sample)
        if unfit := _unfit(sample, result):
            return "not made", unfit
        want = flat(result)
        program = exported(sample, sample.given()) if road == "export" else scripted(sample, sample.given())
    except RefusedError as e:
        return "refused", str(e)
    except Exception as e:  # noqa: BLE001  (whatever PyTorch does not take)
        return "not made", f"{type(e).__name__}: {(str(e).splitlines() or [''])[0][:100]}"
    try:
        got = run(translate(program, road), sample.given())
    except UnsupportedError as e:
        return "refused", "; ".join(str(r.reason) for r in getattr(e, "refused", ())) or e.message
    except ModelError as e:
        return "error", str(e)
    except MinnowError as e:
        return "error", f"{type(e).__name__}: {e}"
    except Exception as e:  # noqa: BLE001  (no exception of another class may leave us: an error)
        return "error", f"{type(e).__name__}: {e}"
    if len(got) != len(want):
        return "wrong", f"{len(got)} results, not {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if text := difference(g, w, TOLERANCE):
            return "wrong", f"result {i}: {text}"
    return "pass", ""


def attempt(name: str, road: str, most: int) -> tuple[str, str]:
    """The outcome of an operator by a road: the worst of its samples; "not made" if there are no others."""
    outcomes = [attempt_sample(sample, road) for sample in samples(name, most)]
    made = [o for o in outcomes if o[0] != "not made"]
    return max(made or outcomes or [("not made", "no samples")], key=lambda o: ORDER.index(o[0]))
