"""Layers of quantized networks with constant weights, as networks have them: CUDA's tensor cores multiply these, while
operands that are computed go to the portable kernels. All results are the same to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType
from minnow.schema.ops import get
from tests.kernels.gpu.test_ops_on_gpu import DEVICES, is_there
from tests.kernels.test_ops import arrays, plain

LAYERS = ("QuantizedConv", "ConvInteger", "QuantizedMatMul", "MatMulInteger", "DynamicLinear")
FLOAT = {"DynamicLinear"}  # its activation is a float


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", LAYERS)
def test_constant_weights(name: str, device: str) -> None:
    if not is_there(device):
        pytest.skip(f"no {device}")
    op, computed = get(name), 0
    for sample in op.cases():
        try:
            got = _engine.run_op(
                name, plain(sample.attrs), arrays(sample), sample.n_outputs, 1, False, constants=True, device=device
            )
        except UnsupportedError:
            continue
        computed += 1
        for one, want in zip(got, op.evaluate(list(sample.inputs), sample.attrs), strict=True):
            assert one.dtype == want.dtype
            if name in FLOAT:
                np.testing.assert_allclose(one, want, rtol=2e-6, atol=2e-6, err_msg=f"{name} {sample}")
            else:
                np.testing.assert_array_equal(one, want, err_msg=f"{name} {sample}")
    if name not in FLOAT or device == "cuda":
        assert computed > 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1, 64, 14, 14, 96, 3, 1), (2, 24, 9, 9, 144, 1, 1), (1, 40, 13, 11, 40, 3, 40)])
def test_convolutions_of_networks(shape: tuple[int, ...], device: str) -> None:
    if not is_there(device):
        pytest.skip(f"no {device}")
    n, c, h, w, o, k, group = shape
    rng = np.random.default_rng(c)
    attrs = {"strides": (1, 1), "pads": (k // 2,) * 4, "dilations": (1, 1), "group": group, "to": DType.U8, "zero": 3}
    attrs |= {"min": 3, "max": 255}
    inputs = [
        rng.integers(0, 256, (n, c, h, w)).astype(np.uint8),
        rng.integers(0, 256, (o, c // group, k, k)).astype(np.uint8),
        np.uint8(131),
        np.uint8(117),
        rng.integers(-5000, 5000, (o, 1, 1)).astype(np.int32),
        rng.integers(2**30, 2**31, (o, 1, 1)).astype(np.int32),
        rng.integers(-12, -7, (o, 1, 1)).astype(np.int32),
    ]
    want = get("QuantizedConv").evaluate(inputs, attrs)[0]
    arrays_ = [np.asarray(v) for v in inputs]
    got = _engine.run_op("QuantizedConv", plain(attrs), arrays_, 1, 1, False, constants=True, device=device)[0]
    np.testing.assert_array_equal(got, want)
    assert len(np.unique(want)) > 50  # most are neither the least nor the greatest
