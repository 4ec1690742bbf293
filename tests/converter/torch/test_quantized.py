"""Quantized modules: the integers of PyTorch's own kernels, or at most one quantum away."""

import warnings

import numpy as np
import pytest
import torch
import torch.ao.nn.quantized as nnq
from torch import nn
from torch_scripted import converted, same

torch.manual_seed(10)
torch.backends.quantized.engine = "qnnpack"
warnings.filterwarnings("ignore", category=DeprecationWarning)
warnings.filterwarnings("ignore", category=UserWarning)


def quanta(step):
    """How many steps two results are apart."""

    def off(got, want):
        if got.shape != want.shape or got.dtype != want.dtype:
            return float("inf")
        return float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max() / step) if got.size else 0.0

    return off


class Steps(nn.Module):
    """Quantizes, runs something, and gives what its integers stand for."""

    def __init__(self, inner, scale=0.04, zero=110):
        super().__init__()
        self.quant = nnq.Quantize(torch.tensor([scale]), torch.tensor([zero]), torch.quint8)
        self.inner = inner

    def forward(self, x):
        return self.inner(self.quant(x)).dequantize()


def quantized_weight(w, channels, axis=0):
    if not channels:
        return torch.quantize_per_tensor(w, float(w.abs().max()) / 127, 0, torch.qint8)
    n = w.shape[axis]
    scales = w.transpose(0, axis).reshape(n, -1).abs().amax(1).double() / 127
    return torch.quantize_per_channel(w, scales, torch.zeros(n, dtype=torch.int64), axis, torch.qint8)


def conv(n, relu=False, channels=False, bias=True, **options):
    import torch.ao.nn.intrinsic.quantized as nniq

    kind = getattr(nniq if relu else nnq, f"Conv{'ReLU' if relu else ''}{n}d")
    made = kind(4, 6, 3, bias=bias, **options)
    groups = options.get("groups", 1)
    w = torch.randn(6, 4 // groups, *[3] * n) * 0.2
    made.set_weight_bias(quantized_weight(w, channels), torch.randn(6) if bias else None)
    made.scale, made.zero_point = 0.05, 121
    return made


def linear(relu=False, channels=False, bias=True):
    import torch.ao.nn.intrinsic.quantized as nniq

    made = (nniq.LinearReLU if relu else nnq.Linear)(5, 7, bias)
    made.set_weight_bias(quantized_weight(torch.randn(7, 5) * 0.3, channels), torch.randn(7) if bias else None)
    made.scale, made.zero_point = 0.03, 118
    return made


def transposed(n, channels=False, **options):
    made = getattr(nnq, f"ConvTranspose{n}d")(4, 6, 3, **options)
    groups = options.get("groups", 1)
    made.set_weight_bias(quantized_weight(torch.randn(4, 6 // groups, *[3] * n) * 0.2, channels, 1), torch.randn(6))
    made.scale, made.zero_point = 0.05, 121
    return made


IMAGES = {1: (2, 4, 9), 2: (2, 4, 7, 9), 3: (1, 4, 5, 6, 5)}
LAYERS = [
    *[(f"conv{n}{'relu' if r else ''}{'channels' if c else ''}", conv(n, r, c), IMAGES[n])
      for n in (1, 2) for r in (False, True) for c in (False, True)],
    ("conv strided", conv(2, padding=1, stride=2), IMAGES[2]),
    ("conv dilated", conv(2, padding=(2, 1), dilation=2, bias=False), IMAGES[2]),
    ("conv groups", conv(2, channels=True, groups=2, padding=1), IMAGES[2]),
    ("linear", linear(), (3, 5)),
    ("linear relu", linear(True), (2, 3, 5)),
    ("linear channels", linear(channels=True), (3, 5)),
    ("linear bare", linear(bias=False), (1, 5)),
    ("transposed 1", transposed(1), IMAGES[1]),
    ("transposed 2", transposed(2, stride=2, padding=1, output_padding=1), IMAGES[2]),
    ("transposed groups", transposed(2, groups=2, stride=2), IMAGES[2]),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("layer", "shape"), [c[1:] for c in LAYERS], ids=[c[0] for c in LAYERS])
def test_layers(layer, shape):
    same(Steps(layer).eval(), (torch.randn(shape),), tolerance=1.001, off=quanta(layer.scale))


class Ops(nn.Module):
    """Two quantized operands."""

    def __init__(self, inner):
        super().__init__()
        self.a = nnq.Quantize(torch.tensor([0.04]), torch.tensor([110]), torch.quint8)
        self.b = nnq.Quantize(torch.tensor([0.05]), torch.tensor([100]), torch.quint8)
        self.inner = inner

    def forward(self, x, y):
        return self.inner(self.a(x), self.b(y)).dequantize()


class Add(nn.Module):
    def forward(self, a, b):
        return torch.ops.quantized.add(a, b, 0.07, 120)


class AddRelu(nn.Module):
    def forward(self, a, b):
        return torch.ops.quantized.add_relu(a, b, 0.07, 10)


class Mul(nn.Module):
    def forward(self, a, b):
        return torch.ops.quantized.mul(a, b, 0.07, 120)


class MulScalar(nn.Module):
    def forward(self, a, b):
        return torch.ops.quantized.mul(torch.ops.quantized.mul_scalar(a, 0.5), b, 0.07, 120)


class AddScalar(nn.Module):
    def forward(self, a, b):
        return torch.ops.quantized.add(torch.ops.quantized.add_scalar(a, 0.5), b, 0.07, 120)


class Cat(nn.Module):
    def forward(self, a, b):
        return torch.ops.quantized.cat([a, b], 1, 0.06, 118)


@pytest.mark.parametrize("inner", [Add, AddRelu, Mul, Cat, MulScalar, AddScalar], ids=lambda m: m.__name__)
def test_arithmetic(inner):
    same(Ops(inner()).eval(), (torch.randn(2, 3, 5), torch.randn(2, 3, 5)), tolerance=1.001, off=quanta(0.07))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("source", "shape", "step"), [
    (nnq.Hardswish(0.05, 100), (2, 4, 7, 9), 0.05),
    (nnq.Sigmoid(1 / 256, 0), (2, 4, 7, 9), 1 / 256),
    (nnq.ELU(0.04, 100), (2, 4, 7), 0.04),
    (nnq.LeakyReLU(0.04, 100, 0.1), (2, 4, 7), 0.04),
    (nnq.ReLU6(), (2, 4, 7), 0.04),
    (nn.ReLU(), (2, 4, 7), 0.04),
    (nn.Hardtanh(), (2, 4, 7), 0.04),
    (nn.MaxPool2d(2, ceil_mode=True), (2, 4, 7, 9), 0.04),
    (nn.AvgPool2d(2), (2, 4, 7, 9), 0.04),
    (nn.AdaptiveAvgPool2d(1), (2, 4, 7, 9), 0.04),
    (nn.AdaptiveAvgPool2d((2, 3)), (2, 4, 7, 9), 0.04),
    (nn.Upsample(scale_factor=2, mode="nearest"), (2, 4, 7, 9), 0.04),
    (nn.Upsample(scale_factor=2, mode="bilinear"), (2, 4, 7, 9), 0.04),
    (nn.Flatten(), (2, 4, 7), 0.04),
    (nn.Identity(), (2, 4, 7), 0.04),
    (nn.Sigmoid(), (2, 4, 7), 1 / 256),
    (nn.Tanh(), (2, 4, 7), 2 / 256),
    (nn.ZeroPad2d(1), (2, 4, 7, 9), 0.04),
], ids=lambda c: type(c).__name__ if isinstance(c, nn.Module) else "")  # fmt: skip
def test_functions(source, shape, step):
    same(Steps(source).eval(), (torch.randn(shape) * 2,), tolerance=1.001, off=quanta(step))


class Moves(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = nnq.Quantize(torch.tensor([0.04]), torch.tensor([110]), torch.quint8)

    def forward(self, x):
        x = self.quant(x)
        x = x.permute(0, 2, 1).contiguous().reshape(2, -1, 2)[:, 1:]
        a, b = x.chunk(2, 1)
        return (torch.cat([x, x], 1).transpose(1, 2).dequantize(), x.int_repr(), x.q_scale(), x.q_zero_point(),
                a.unsqueeze(0).dequantize(), x.max(1)[0].dequantize(), b.mean(1).dequantize(), x.size(1),
                x.is_quantized)  # fmt: skip


def test_moves():
    same(Moves().eval(), (torch.randn(2, 4, 7),), tolerance=1.001, off=quanta(0.04))


@pytest.mark.parametrize("move", [
    lambda x: x.clone(), lambda x: x.flip(2), lambda x: x.index_select(1, torch.tensor([1, 0])),
    lambda x: torch.channel_shuffle(x, 2), lambda x: torch.pixel_shuffle(x, 2), lambda x: x.contiguous(),
    lambda x: nn.functional.dropout(x, 0.5, training=False),
], ids=["clone", "flip", "index_select", "channel_shuffle", "pixel_shuffle", "contiguous", "dropout"])  # fmt: skip
def test_what_moves_elements_keeps_the_integers(move):
    class Moved(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = nnq.Quantize(torch.tensor([0.04]), torch.tensor([110]), torch.quint8)

        def forward(self, x):
            return move(self.quant(x)).int_repr()

    x = torch.randn(2, 4, 3, 5)
    model, _ = converted(torch.jit.trace(Moved().eval(), (x,)), (x,))
    assert not {"DequantizeLinear", "Cast", "Mul"} & {node.op for node in model.graph}


def norms():
    w, b = nn.Parameter(torch.rand(4) + 0.5), nn.Parameter(torch.randn(4))
    return [
        nnq.BatchNorm2d(4),
        nnq.LayerNorm((7, 9), nn.Parameter(torch.rand(7, 9)), nn.Parameter(torch.randn(7, 9)), 0.04, 120),
        nnq.GroupNorm(2, 4, w, b, 0.04, 120), nnq.InstanceNorm2d(4, w, b, 0.04, 120),
    ]  # fmt: skip


@pytest.mark.parametrize("layer", norms(), ids=lambda m: type(m).__name__)
def test_norms(layer):
    if isinstance(layer, nnq.BatchNorm2d):
        layer.scale, layer.zero_point = torch.tensor(0.04), torch.tensor(120)
        with torch.no_grad():
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    same(Steps(layer).eval(), (torch.randn(2, 4, 7, 9),), tolerance=1.001, off=quanta(0.04))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.depth = nn.Conv2d(8, 8, 3, groups=8, padding=1)
        self.skip = nn.quantized.FloatFunctional()
        self.linear = nn.Linear(8, 5)

    def forward(self, x):
        x = self.relu(self.norm(self.conv(self.quant(x))))
        x = self.skip.add(x, self.depth(x))
        x = nn.functional.max_pool2d(x, 2).mean([2, 3])
        return self.dequant(self.linear(x))


@pytest.mark.parametrize("traced", [False, True])
def test_static(traced):
    from torch.ao import quantization as ao

    net = Net().eval()
    ao.fuse_modules(net, [["conv", "norm", "relu"]], inplace=True)
    net.qconfig = ao.get_default_qconfig("qnnpack")
    ready = ao.prepare(net)
    for _ in range(3):
        ready(torch.randn(2, 3, 12, 11))
    made = ao.convert(ready)
    x = torch.randn(2, 3, 12, 11)
    source = torch.jit.trace(made, (x,)) if traced else made
    # Each layer may be a quantum away; the last one adds up what the others are.
    same(source, (x,), tolerance=4.001, off=quanta(made.linear.scale))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.rnn = kind(5, 7, **options)

    def forward(self, x):
        y, h = self.rnn(x)
        return y, h


class Float(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))

    def forward(self, x):
        return self.net(x)


@pytest.fixture
def fbgemm(monkeypatch):
    """What is quantized as it runs depends on the engine; Minnow computes as the one for servers does."""
    monkeypatch.setattr(torch.backends.quantized, "engine", "fbgemm")
    yield
    torch.backends.quantized.engine = "qnnpack"


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_dynamic_linear(dtype, fbgemm):
    made = torch.ao.quantization.quantize_dynamic(Float().eval(), {nn.Linear}, dtype=dtype)
    same(made, (torch.randn(4, 5),), (torch.randn(4, 5) * 5,), tolerance=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2, "batch_first": True}])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_dynamic_recurrent(kind, options, dtype, fbgemm):
    made = torch.ao.quantization.quantize_dynamic(Recurrent(kind, **options).eval(), {kind}, dtype=dtype)
    same(made, (torch.randn(4, 3, 5),), tolerance=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_dynamic_cells(kind, fbgemm):
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = kind(5, 7)

        def forward(self, x):
            return self.cell(x)

    made = torch.ao.quantization.quantize_dynamic(Cell().eval(), {kind}, dtype=torch.qint8)
    same(made, (torch.randn(3, 5),), tolerance=1e-5)


class Embedded(nn.Module):
    def __init__(self, bag):
        super().__init__()
        w = torch.randn(11, 8)
        self.inner = nnq.EmbeddingBag(11, 8, mode="sum") if bag else nnq.Embedding(11, 8)
        scales = (w.amax(1) - w.amin(1)) / 255
        self.inner.set_weight(torch.quantize_per_channel(w, scales, -w.amin(1) / scales, 0, torch.quint8))
        self.bag = bag

    def forward(self, i):
        return self.inner(i)


@pytest.mark.parametrize("bag", [False, True])
def test_embedding(bag):
    same(Embedded(bag).eval(), (torch.randint(0, 11, (3, 4)),), tolerance=1e-5)
