"""Models of transformers exported for any batch and length: right at all sizes, and hardly larger than for one size."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_architectures import bert, gpt2, llama, make, vit  # noqa: E402
from torch_oracle import difference, exported, flat  # noqa: E402

import minnow  # noqa: E402
from minnow.converter.torch.reader import translate  # noqa: E402
from minnow.optimizer import optimize  # noqa: E402
from minnow.schema.mnn import encode  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not (find_spec("transformers") and find_spec("timm")), reason="they make the models"),
    pytest.mark.slow,
]


def _sized(x: torch.Tensor, batch: int, length: int | None) -> torch.Tensor:
    """The tensor with another batch, and another length where it has one."""
    if length is None:
        return torch.randn(batch, *x.shape[1:], generator=torch.Generator().manual_seed(batch))
    made = torch.randint(0, 2 if x.max() < 2 else 101, (batch, length), generator=torch.Generator().manual_seed(length))
    made[:, 0] = 1
    return made


@pytest.mark.parametrize("architecture", [bert, gpt2, llama, vit], ids=lambda a: a.__name__)
def test_dynamic_sizes(architecture: Callable[[], Any]) -> None:
    module, example = make(architecture)
    is_text = not example[0].dtype.is_floating_point
    example = tuple(torch.cat([x, x]) for x in example)
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", min=2, max=64)
    axes = {0: batch, 1: length} if is_text else {0: batch}
    fixed = translate(exported(module, example), "fixed")
    model = translate(exported(module, example, {"xs": tuple(axes for _ in example)}), "open")
    few, many = (sum(optimize(m).after.values()) for m in (fixed, model))
    assert many <= 1.2 * few
    session = minnow.load(encode(model), threads=1)
    names = [n for n, _ in model.inputs]
    for sizes in ((1, 2), (2, 13), (3, 7), (5, 31)):
        inputs = [_sized(x, sizes[0], sizes[1] if is_text else None) for x in example]
        with torch.no_grad():
            wanted = flat(module(*inputs))
        results = session.run(dict(zip(names, (np.asarray(x) for x in inputs), strict=True)))
        for (name, _), want in zip(model.outputs, wanted, strict=True):
            assert difference(results[name], want) <= 1e-4, sizes
