"""Modules in half, bfloat16 and double, and quantization as exported programs spell it."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
import torch.nn.functional as F
from torch import nn
from torch_oracle import check
from torch_scripted import same

torch.manual_seed(11)


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.embedding = nn.Linear(5, 7), nn.LayerNorm(7), nn.Embedding(11, 7)

    def forward(self, x, i):
        return F.gelu(self.norm(self.linear(x))) + self.embedding(i)


class Convolved(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.out(F.relu(self.norm(self.conv(x))).mean([2, 3])).softmax(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(5, 7)

    def forward(self, x):
        return self.rnn(x)[0]


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 7).half())
        self.register_buffer("bias", torch.randn(7).bfloat16())

    def forward(self, x):
        return x @ self.weight.float() + self.bias.to(x.dtype)


MODULES = [(Dense, (torch.randn(3, 5), torch.randint(0, 11, (3,)))), (Convolved, (torch.randn(1, 3, 9, 8),)),
           (Recurrent, (torch.randn(4, 2, 5),))]  # fmt: skip
DTYPES = [(torch.float16, 1e-2), (torch.bfloat16, 6e-2), (torch.float64, 1e-9)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("road", ["script", "trace", "export"])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize(("module", "args"), MODULES, ids=lambda m: getattr(m, "__name__", ""))
def test_whole_modules(module, args, dtype, tolerance, road):
    cast = [a.to(dtype) if a.is_floating_point() else a for a in args]
    check(module().to(dtype), *cast, roads=(road,), tolerance=tolerance)


@pytest.mark.parametrize("road", ["script", "trace", "export"])
def test_weights_of_other_types(road):
    check(Mixed(), torch.randn(3, 5), roads=(road,))


class HalfState(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3, dtype=torch.float16))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.total += x.half()
        self.count += 1
        return self.total.float() * self.count


def test_states_of_other_types():
    same(HalfState().eval(), *[(torch.randn(3),) for _ in range(3)], tolerance=4e-3)


class Decomposed(nn.Module):
    def forward(self, x, w):
        q = torch.ops.quantized_decomposed
        to = (-128, 127, torch.int8)
        y = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.04, 10, *to), 0.04, 10, *to)
        scales, zeros = torch.tensor([0.01, 0.02, 0.03]), torch.tensor([0, 1, 2])
        v = q.quantize_per_channel(w, scales, zeros, 0, -127, 127, torch.int8)
        return F.linear(y, q.dequantize_per_channel(v, scales, zeros, 0, -127, 127, torch.int8))


class Chosen(nn.Module):
    def forward(self, x):
        q = torch.ops.quantized_decomposed
        to = (-128, 127, torch.int8)
        scale, zero = q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
        y = q.dequantize_per_tensor.tensor(q.quantize_per_tensor.tensor(x, scale, zero, *to), scale, zero, *to)
        even, none = q.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, torch.int8)
        return y, scale, zero, even, none


class Rows(nn.Module):
    def forward(self, x):
        q = torch.ops.quantized_decomposed
        to = (-128, 127, torch.int8)
        scale, zero = q.choose_qparams_per_token_asymmetric(x, torch.int8)
        y = q.dequantize_per_token(q.quantize_per_token(x, scale, zero, *to), scale, zero, *to, torch.float32)
        step, none = q.choose_qparams_per_token(x, torch.int8)
        z = q.dequantize_per_token(q.quantize_per_token(x, step, none, *to), step, none, *to, torch.float32)
        return y, z, scale, zero


@pytest.mark.parametrize(
    ("module", "args"),
    [(Decomposed, (torch.randn(4, 5), torch.randn(3, 5))), (Chosen, (torch.randn(3, 7),)), (Rows, (torch.randn(3, 7),)),
     (Chosen, (torch.randn(3, 7).abs() + 1,)), (Rows, (torch.zeros(2, 3),))],
)  # fmt: skip
def test_exported_quantization(module, args):
    check(module(), *args, roads=("export",))
