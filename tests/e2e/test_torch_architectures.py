"""Architectures that people convert, with random weights, exported and traced: the engine gives what PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_architectures import ARCHITECTURES, make  # noqa: E402
from torch_oracle import ROADS, difference, flat, model_of, run  # noqa: E402

pytestmark = pytest.mark.skipif(not (find_spec("transformers") and find_spec("timm")), reason="they make the models")


@pytest.mark.slow
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.__name__)
def test_architecture(architecture: Callable[[], Any], road: str) -> None:
    module, inputs = make(architecture)
    with torch.no_grad():
        wanted = flat(module(*inputs))
    got = run(model_of(module, inputs, road), inputs)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        assert difference(g, w) <= 1e-4
