"""What modules remember: every run in a row gives what PyTorch gives."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch_oracle import difference, exported, flat, numpy_of
from torch_scripted import converted, ends, same

import minnow
from minnow.converter.torch.reader import translate
from minnow.optimizer import optimize
from minnow.schema.errors import UnsupportedError
from minnow.schema.mnn import encode

torch.manual_seed(6)
RUNS = [(torch.randn(2, 3),), (torch.randn(2, 3).abs(),), (-torch.randn(2, 3).abs(),), (torch.randn(2, 3),)]


class Total(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x):
        self.total += x
        return self.total * 2


class Replaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.ones(2, 3))

    def forward(self, x):
        y = self.last + x
        self.last = x
        return y


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.f = 1.0

    def forward(self, x):
        self.n += 1
        self.f = self.f * 1.5
        return x * self.n + self.f


class CountInBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        if x.sum() > 0:
            self.n += 1
        return x * self.n


class InBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x):
        if x.sum() > 0:
            self.total += x
        else:
            self.total[0].zero_()
        return self.total.sum() + x


class SetInBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x):
        if x.sum() > 0:
            self.total = self.total + x
        return self.total + x


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 6, 3))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.cache[:, self.at] = x.unsqueeze(1)
        self.at += 1
        return self.cache.sum(1)


class CacheSlice(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(6, 2, 3))
        self.at = 0

    def forward(self, x):
        self.cache[self.at : self.at + 1] = x
        self.at = (self.at + 1) % 6
        return self.cache.sum(0)


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("past", torch.zeros(2, 4))

    def forward(self, x):
        self.past = torch.cat([self.past[:, 1:], x[:, :1]], 1)
        return self.past * 3


class NeverRead(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, 3))

    def forward(self, x):
        self.seen.copy_(x)
        return x + 1


class ReadBefore(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.full((3,), 2.0))

    def forward(self, x):
        y = x * self.state
        self.state.mul_(2).add_(x[0])
        return y


class ThroughView(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(3, 2))

    def forward(self, x):
        self.state.t()[1] += x[0]
        return self.state + 1


class Lazy(nn.Module):
    hidden: Tensor | None

    def __init__(self):
        super().__init__()
        self.hidden = None

    def forward(self, x):
        h = self.hidden
        if h is None:
            h = torch.zeros(2, 3)
        h = h * 0.5 + x
        self.hidden = h
        return h


class Listed(nn.Module):
    past: list[Tensor]

    def __init__(self):
        super().__init__()
        self.past = [torch.zeros(2, 3), torch.ones(2, 3)]

    def forward(self, x):
        y = self.past[0] + x
        self.past[0] = self.past[1]
        self.past[1] = x
        return y


class Listed2(nn.Module):
    past: list[Tensor]

    def __init__(self):
        super().__init__()
        self.past = [torch.zeros(2, 3), torch.ones(2, 3)]

    def forward(self, x):
        y = self.past[0] + x
        self.past = [self.past[1], x]
        return y


class Delayed(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(2, 3))
        self.register_buffer("b", torch.ones(2, 3) * 2)
        self.register_buffer("c", torch.ones(2, 3) * 3)

    def forward(self, x):
        y = self.a
        self.a = self.b
        self.b = x
        return y, self.c


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(3, 4)
        self.register_buffer("keys", torch.zeros(2, 8, 4))
        self.register_buffer("values", torch.zeros(2, 8, 4))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.keys.index_copy_(1, self.at, self.k(x).unsqueeze(1))
        self.values.index_copy_(1, self.at, self.v(x).unsqueeze(1))
        scores = self.q(x).unsqueeze(1) @ self.keys.transpose(1, 2)
        scores = scores.masked_fill(torch.arange(8) > self.at, float("-inf")).softmax(-1)
        self.at.add_(1)
        return (scores @ self.values).squeeze(1)


class Ring(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(3, 3))
        self.i = 0

    def forward(self, x):
        self.ring[self.i] = x[0]
        self.i += 1
        if self.i >= 3:
            self.i = 0
        return self.ring.sum(0)


class Saved(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(2, 3))

    def forward(self, x):
        y = self.state + x
        self.state = y
        y += 1
        return y * 2


class GrowingList(nn.Module):
    past: list[Tensor]

    def __init__(self):
        super().__init__()
        self.past = []

    def forward(self, x):
        self.past.append(x)
        return torch.stack(self.past).sum(0)


class GrowingTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("past", torch.zeros(0, 3))

    def forward(self, x):
        self.past = torch.cat([self.past, x], 0)
        return self.past.sum(0)


class Recurrent(nn.Module):
    hidden: tuple[Tensor, Tensor]

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(3, 4)
        self.hidden = (torch.zeros(2, 4), torch.ones(2, 4))

    def forward(self, x):
        self.hidden = self.lstm(x, self.hidden)
        return self.hidden[0]


class LazyPair(nn.Module):
    hidden: tuple[Tensor, Tensor] | None

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(3, 4)
        self.hidden = None

    def forward(self, x):
        h = self.lstm(x, self.hidden)
        self.hidden = h
        return h[0]


class ListedInBranch(nn.Module):
    past: list[Tensor]

    def __init__(self):
        super().__init__()
        self.past = [torch.zeros(2, 3), torch.ones(2, 3)]

    def forward(self, x):
        if x.sum() > 0:
            self.past[0] = x
        return self.past[0] + self.past[1]


class Dicted(nn.Module):
    past: dict[str, Tensor]

    def __init__(self):
        super().__init__()
        self.past = {"a": torch.zeros(2, 3), "b": torch.ones(2, 3)}

    def forward(self, x):
        self.past["a"] = self.past["a"] + x
        return self.past["a"] * self.past["b"]


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Total(), nn.Sequential()
        self.b.append(self.a)

    def forward(self, x):
        return self.a(x) + self.b(x)


class InLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))
        self.n = 0

    def forward(self, x):
        while self.total.sum() < 5:
            self.total += x.abs() + 1
            self.n += 1
        self.total.sub_(4)
        return self.total + self.n


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        with torch.no_grad():
            self.norm.running_mean.normal_()

    def forward(self, x):
        return self.norm(x)


class Flag(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = True

    def forward(self, x):
        if self.first:
            y = x * 0
        else:
            y = x
        self.first = False
        return y


MODULES = [
    Attention, Ring, Saved,
    Delayed, Recurrent, LazyPair, ListedInBranch, Dicted, Total, Replaced, Counter, CountInBranch, InBranch,
    SetInBranch, Cache, CacheSlice, Shifted, NeverRead, ReadBefore, ThroughView, Lazy, Listed, Listed2, Shared,
    InLoop, Norm, Flag,
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_scripted(module):
    same(module().eval(), *RUNS)


@pytest.mark.parametrize(
    "module", [Total, Cache, Shifted, NeverRead, ReadBefore, ThroughView, Shared, Norm], ids=lambda m: m.__name__
)
def test_exported(module):
    eager = module().eval()
    model = translate(exported(copy.deepcopy(eager), RUNS[0]), "test")
    (name,), outputs = ends(model)
    optimize(model)
    session = minnow.load(encode(model), threads=1)
    for (x,) in RUNS:
        with torch.no_grad():
            want = flat(eager(x.clone()))
        got = session.run({name: numpy_of(x)})
        assert all(difference(got[n], w) <= 2e-5 for n, w in zip(outputs, want, strict=True)), (got, want)


@pytest.mark.parametrize("module", [Total, Replaced, Cache, Shifted, ReadBefore], ids=lambda m: m.__name__)
def test_traced(module):
    traced = torch.jit.trace(module().eval(), RUNS[0], check_trace=False)
    fresh = module().eval()
    with torch.no_grad():
        for (_, b), (_, f) in zip(traced.named_buffers(), fresh.named_buffers(), strict=True):
            b.copy_(f)
    same(traced, *RUNS)


@pytest.mark.parametrize("module", [GrowingList, GrowingTensor], ids=lambda m: m.__name__)
def test_what_grows_is_refused(module):
    with pytest.raises(UnsupportedError, match="largest size"):
        converted(module().eval(), RUNS[0])
