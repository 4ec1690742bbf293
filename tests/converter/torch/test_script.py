"""The language of TorchScript: containers and text, classes, submodules, and modules that PyTorch has rewritten."""

# ruff: noqa: B905, PERF401, RUF005, RUF059, SIM905, UP031  (what is written here is the language under test)

import math
from enum import Enum
from typing import Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: F401, UP035

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_scripted import converted, same

import minnow
from minnow.schema.errors import MinnowError, UnsupportedError

torch.manual_seed(9)
X, Y = torch.randn(3, 5), torch.randn(3, 5)
IMAGE = torch.randn(1, 3, 9, 8)


def list_methods(x: Tensor) -> Tensor:
    xs = [x, x + 1]
    xs.append(x * 2)
    xs.extend([x - 1, x - 2])
    xs.insert(1, x * 5)
    last = xs.pop()
    first = xs.pop(0)
    xs.reverse()
    n = [3, 1, 2]
    n.sort()
    m = sorted([2, 9, 1])
    n.sort(reverse=True)
    k = n.index(1) + n.count(2) + len(n) + m[-1]
    both = xs + [last]
    copy = both.copy()
    copy.clear()
    del n[0]
    return torch.stack(both[::2]) * k + first + len(copy) + sum(n) + (10 if 2 in n else 0) + max(n) - min(m)


def dict_methods(x: Tensor) -> Tensor:
    d = {"a": x, "b": x + 1}
    d["c"] = x * 2
    d.update({"e": x * 3})
    y = d.pop("a")
    for k in d:
        y = y + d[k] * len(k)
    for v in d.values():
        y = y - v * 0.5
    for k, v in d.items():
        if k != "b":
            y = y + v
    if "zz" not in d:
        y = y + 1
    z = d.get("nothing")
    if z is not None:
        y = y + z
    y = y + d.get("b", x)
    y = y + d.setdefault("q", x * 7) + d["q"]
    i = {1: 2.5, 2: 3.5}
    return y * i[2] + len(d)


def dict_delete(x: Tensor) -> Tensor:
    d = {"a": x, "b": x + 1}
    del d["a"]
    e = dict(d)
    e.clear()
    k, v = d.popitem()
    return v + len(e) + len(d)


def text(x: Tensor) -> Tensor:
    s = "abc"
    n = 0
    if s.startswith("a") and s.endswith("c") and "b" in s:
        n += 1
    if s.upper() == "ABC" and s + "d" == "abcd" and s[1] == "b" and s[:2] == "ab":
        n += 2
    if f"{s}-{n}" == "abc-3":
        n += 4
    if f"{n} {s}" == "7 abc" and len(s) == 3:
        n += 8
    if "a,b".split(",")[1] == "b" and "-".join(["x", "y"]) == "x-y" and s.replace("a", "z") == "zbc":
        n += 16
    if "%d" % n == "31" and str(n) == "31" and int("12") == 12 and float("1.5") == 1.5:
        n += 32
    if " a ".strip() == "a" and "A".lower() == "a" and s.find("c") == 2:
        n += 64
    for c in s:
        if c == "b":
            n += 128
    return x * n


def iteration(x: Tensor) -> Tensor:
    y = x
    for i, v in enumerate([x, x * 2]):
        y = y + v * i
    for i, v in enumerate([x, x * 2], 3):
        y = y + v * i
    for a, b in zip([x, x + 1], [2, 3]):
        y = y + a * b
    for i in range(10, 0, -3):
        y = y + i
    for i in range(2, 7, 2):
        y = y - i
    for t in (1.5, 2, "a"):
        if isinstance(t, float):
            y = y * t
    ys = [v * 2 for v in [x, y]]
    ns = [i * i for i in range(4)]
    ds = {str(i): x * i for i in range(3)}
    return ys[0] + ys[1] + ns[-1] + ds["2"]


def list_slices(x: Tensor) -> Tensor:
    xs = [x * i for i in range(6)]
    a, b = xs[1:3]
    t = (x, 2, "s")
    u = t[1:]
    ns = [1, 2, 3] * 2
    ns[2] = 9
    ns[-1] += 5
    f = [0.5] * 3
    return a + b + torch.stack(xs[::-2]).sum(0) + xs[-1] + u[0] + ns[2] + ns[-1] + f[2] + len(xs[4:])


def refined(x: Tensor, flag: int | None = None) -> Tensor:
    if flag is not None:
        x = x + flag
    v: int | Tensor = x
    if isinstance(v, Tensor):
        return v * 2
    return x


def numbers(x: Tensor) -> Tensor:
    n = x.size(0)
    h = n // 2 + n % 2 - (-n) // 2
    f = float(n) / 4 + n**2 + 2.0**n + abs(-n) + round(2.5) + int(3.7) + math_of(n)
    b = (bool(n) and not (n > 3)) or n != 3
    k = (n << 2) | 1 & 3 ^ 2
    return x * h + f + (1 if b else 0) + k + divmod(7, n)[1] + min(n, 2) + max(1.5, float(n))


def math_of(n: int) -> float:
    return math.sqrt(n) + math.log(n) + math.exp(0.5) + math.pi + math.floor(2.5) + math.ceil(1.2) + math.sin(0.3)


class Point(NamedTuple):
    x: Tensor
    k: int


def named_tuple(x: Tensor) -> Tensor:
    p = Point(x, 3)
    q = p._replace(k=4) if False else Point(p.x * 2, p.k + 1)
    a, b = q
    return a * b + p[0]


@torch.jit.script
class Box:
    def __init__(self, x: Tensor, n: int):
        self.x = x
        self.n = n
        self.all: list[Tensor] = [x]

    def grow(self, by: int) -> int:
        self.n += by
        self.x = self.x * self.n
        self.all.append(self.x)
        return self.n

    def value(self) -> Tensor:
        return torch.stack(self.all).sum(0)


def user_class(x: Tensor) -> Tensor:
    box = Box(x, 2)
    other = Box(x + 1, 1)
    n = box.grow(3)
    if x.sum() > 1000:
        box.n += 100
    return box.value() + other.value() * n + box.n


class Color(Enum):
    RED = 1
    GREEN = 2


def enums(x: Tensor) -> Tensor:
    c = Color.GREEN
    if c == Color.RED:
        return x
    return x * c.value + len(c.name) + (5 if c != Color.RED else 0)


def more_numbers(x: Tensor) -> Tensor:
    n = x.size(1)
    f = math.fmod(7.5, 2.0) + math.copysign(2.0, -1.0) + math.degrees(1.0) + math.factorial(n) + math.atan2(1.0, 2.0)
    ns = [5, 3, 5]
    ns.remove(3)
    return x * f + ns.count(5) + ns.index(5) + len(hex(n)) + ord("a") + len(chr(65)) + math.gcd(12, 18)


def bits(x: Tensor) -> Tensor:
    n = (x * 9).abs().long()
    a = n.clone()
    a &= 6
    b = n.clone()
    b |= a
    b ^= 5
    c = (x > 0) & (n > 2) | ~(x < 1)
    return torch.as_tensor([1]) + torch.as_tensor(2.5) + a * b + (n & 3) + c.long()


def sizes(x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    s = list(x.shape)
    y = x.view(b, c, h * w).transpose(1, 2).reshape(b, -1, c)
    z = torch.zeros([b, c], dtype=x.dtype, device=x.device)
    return y.sum(1) + z + x.new_ones(b, c) * s[2] + x.shape[-1] + x.numel() + x.dim() + len(x.shape)


def dtypes(x: Tensor) -> Tensor:
    y = x.to(torch.float64).to(torch.int64)
    if y.dtype == torch.int64 and x.dtype != torch.float16 and not x.is_cuda and x.is_floating_point():
        y = y + 1
    return y.to(dtype=x.dtype, device=torch.device("cpu")) + torch.tensor([1, 2, 3, 4, 5]) + torch.tensor(2.5)


def tensors_from_lists(x: Tensor) -> Tensor:
    n = x.size(1)
    return x + torch.tensor([[float(n), 2.0, 3.0, 4.0, 5.0]]) + torch.tensor([i * 2 for i in range(n)])


def type_names(x: Tensor) -> Tensor:
    a, b = torch.broadcast_tensors(x, torch.ones(1, 5))
    mask = torch.jit.annotate(list[Tensor], [])
    mask.append(a > b)
    values, indices = x.topk(2, 1)
    return torch.where(mask[0], a, b).sum() + values.sum() + indices.sum()


def assertion(x: Tensor) -> Tensor:
    if x.size(1) != 5:
        raise ValueError(f"{x.size(1)} is not 5")
    assert x.dim() == 2, "rank"
    torch._assert(x.size(0) == 3, "rows")
    return x * 2


def with_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
    return y.detach()


FUNCTIONS = [
    list_methods, dict_methods, dict_delete, text, iteration, list_slices, refined, numbers, named_tuple, user_class,
    dtypes, tensors_from_lists, type_names, assertion, with_no_grad,
    bits, enums, more_numbers,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions(function):
    same(function, (X,))


def test_sizes():
    same(sizes, (IMAGE,))


class Block(nn.Module):
    scale: torch.jit.Final[int]

    def __init__(self, n, scale=2):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.scale = scale
        self.names = ["a", "b"]
        self.table = {"a": 1.5, "b": 2.5}

    def forward(self, x):
        for name in self.names:
            x = x + self.table[name]
        return F.relu(self.linear(x)) * self.scale


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(5), Block(5, 3)])
        self.named = nn.ModuleDict({"one": Block(5), "two": nn.Identity()})
        self.chain = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 5))
        self.shared = self.blocks[0]
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(5)) for _ in range(2)])

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x) + i
        for name, block in self.named.items():
            x = block(x) if name == "one" else x + 1
        for layer in self.chain:
            x = layer(x)
        x = self.blocks[1](self.shared(x))
        for w in self.weights:
            x = x * w
        return self.chain(x)


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Interfaced(nn.Module):
    layer: Layer
    other: Layer

    def __init__(self):
        super().__init__()
        self.layer = Block(5)
        self.other = Block(5, 4)

    def forward(self, x):
        for layer in (self.layer, self.other):
            x = layer.forward(x)
        return x


class Exported(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block(5)

    def forward(self, x):
        return self.helper(x, 2) + self.again(x)

    def helper(self, x, n: int):
        return self.block(x) * n

    @torch.jit.export
    def again(self, x):
        return x - 1

    @torch.jit.unused
    def never(self, x):
        return x.numpy()

    @torch.jit.ignore
    def other(self, x):
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(8, 4)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = self.drop(F.relu(self.norm(self.conv(x))))
        x = F.max_pool2d(x, 2)
        if self.training:
            x = x * 100
        return self.out(x.mean([2, 3]))


@pytest.mark.parametrize("module", [Containers, Interfaced, Exported], ids=lambda m: m.__name__)
def test_modules(module):
    same(module().eval(), (X,))


def test_frozen():
    same(torch.jit.freeze(torch.jit.script(Net().eval())), (IMAGE,))
    same(torch.jit.freeze(torch.jit.script(Containers().eval())), (X,))


def test_saved_in_training_mode():
    """Such a file is converted for inference, as PyTorch runs it after `eval`."""
    net = Net()
    scripted = torch.jit.script(net.train())
    eager = net.eval()
    model, _ = converted(scripted, (IMAGE,))
    from minnow.schema.registry.interpreter import evaluate

    with torch.no_grad():
        want = eager(IMAGE)
    torch.testing.assert_close(torch.from_numpy(evaluate(model.graph, [IMAGE.numpy()])[0]), want, rtol=1e-4, atol=1e-5)


def test_optimized_for_inference(tmp_path):
    """PyTorch itself cannot load what it has made for the processor at hand."""
    optimized = torch.jit.optimize_for_inference(torch.jit.script(Net().eval()))
    with pytest.raises(MinnowError, match="optimize_for_inference"):
        minnow.convert(optimized, output=tmp_path / "x.mnn", inputs={"x": (1, 3, 9, 8)})


def test_traced_with_parts():
    class Parts(nn.Module):
        def forward(self, x, y):
            return x + y, {"a": x * 2}, [y, x]

    same(torch.jit.trace(Parts(), (X, Y), strict=False), (X, Y))


class Unknown(nn.Module):
    def forward(self, x, n: int):
        found: list[Tensor] = []
        for i in range(n):
            found.append(x * i)
        return torch.stack(found)


def test_refusals():
    with pytest.raises(UnsupportedError, match="list"):
        converted(Unknown(), (X, 3))

    def fails(x: Tensor) -> Tensor:
        raise ValueError("it is so")

    with pytest.raises(MinnowError, match="it is so"):
        converted(torch.jit.script(fails), (X,))


def test_notice_of_exceptions():
    def checked(x: Tensor) -> Tensor:
        if x.sum() < 0:
            raise ValueError("negative sum")
        return x

    model, _ = converted(torch.jit.script(checked), (X,))
    assert any("negative sum" in n for n in model.notices)
