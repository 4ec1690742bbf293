"""The cases: an operator of PyTorch's database and a road, with samples of its arguments."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

ROADS = ("export", "trace")
SEED = 7


@lru_cache(None)
def operators() -> dict[str, Any]:
    """Operators with samples of float32, by name and variant."""
    found = {}
    for info in op_db:
        if torch.float32 in info.dtypes and "empty" not in info.name:  # which hold anything
            found[f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name] = info
    return found


def names() -> list[str]:
    """The cases: "operator:road"."""
    return [f"{name}:{road}" for name in operators() for road in ROADS]


class Sample(torch.nn.Module):
    """A call of an operator, as a module of the tensors among its arguments."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        super().__init__()
        self.function = function
        self.leaves, self.spec = pytree.tree_flatten(arguments)
        self.places = [i for i, x in enumerate(self.leaves) if isinstance(x, torch.Tensor)]
        self.tensors = [self.leaves[i].detach() for i in self.places]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for i, x in zip(self.places, tensors, strict=True):
            leaves[i] = x
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)

    def given(self) -> list[torch.Tensor]:
        """Copies of its tensors: a call may change them."""
        return [x.clone() for x in self.tensors]


def seed() -> None:
    """Makes random samples the same each time."""
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)


def samples(name: str, most: int) -> Iterator[Sample]:
    """At most so many samples of an operator, spread over all that there are; none whose results are random.

    Args:
        most: number of samples.
    """
    info = operators()[name]
    seed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = list(info.sample_inputs("cpu", torch.float32, requires_grad=False))
    step = max(1, len(known) // most)
    for sample in known[::step][:most]:
        yield Sample(info.op, ((sample.input, *sample.args), sample.kwargs))
