"""Programs of torch.export: blocks that run decides on, states, and all forms that arguments and results have."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops.map import map as rows_of  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch_oracle import Call, check, difference, flat, numpy_of  # noqa: E402

import minnow  # noqa: E402
from minnow.converter import read  # noqa: E402
from minnow.errors import UnsupportedError  # noqa: E402
from minnow.optimizer import optimize  # noqa: E402
from minnow.schema.ir import Model  # noqa: E402
from minnow.schema.mnn import encode  # noqa: E402

cond, while_loop, tree = torch.cond, torch.while_loop, torch.utils._pytree
S = Dim("s", min=2, max=512)


def x(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def copied(args: Any) -> Any:
    return tree.tree_map(lambda a: a.clone() if isinstance(a, torch.Tensor) else a, args)


def model_of(
    module: Any, args: Any, dynamic: Any = None, core: bool = False, **options: Any
) -> tuple[Any, Model, bytes]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args, named = (copied(args[:-1]), copied(args[-1])) if isinstance(args[-1], dict) else (copied(args), None)
        program = torch.export.export(module, args, named, dynamic_shapes=dynamic, **options)
        program = program.run_decompositions() if core else program
        torch.export.save(program, Path(folder) / "m.pt2")
        model = read(Path(folder) / "m.pt2")
        optimize(model)
        return program, model, encode(model)


def compare(function: Any, *runs: Any, dynamic: Any = None, **options: Any) -> Model:
    """Exports with the arguments of the first run; one session gives what PyTorch gives in all runs, one by one."""
    module = function.eval() if isinstance(function, torch.nn.Module) else Call(function)
    program, model, content = model_of(
        module, runs[0], (dynamic,) if dynamic and module is not function else dynamic, **options
    )
    session = minnow.load(content, threads=1)
    eager = program.module()
    for run in runs:
        args, named = (run[:-1], run[-1]) if isinstance(run[-1], dict) else (run, {})
        with torch.no_grad():
            want = flat(eager(*copied(args), **copied(named)))
        arrays = [numpy_of(a) for a in tree.tree_leaves((args, named)) if isinstance(a, torch.Tensor)]
        results = session.run(dict(zip([n for n, _ in model.user_inputs], arrays, strict=True)))
        assert len(results) == len(want)
        for (name, got), w in zip(results.items(), want, strict=True):
            assert difference(got, w) <= 2e-5, name
    return model


def nested(x: Any) -> Any:
    def more(x: Any) -> Any:
        return cond(x.sum() > 5, lambda x: (x * 2, x.sum()), lambda x: (x * 3, x.mean()), (x,))

    return cond(x.sum() > 0, more, lambda x: (x - 1, x.amax()), (x,))


def counted(x: Any, n: Any) -> Any:
    return while_loop(lambda i, x: (i < n) & (x.sum() < 100), lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))


def accumulated(x: Any) -> Any:
    return scan(lambda c, x: (c + x, c * x), torch.zeros(3), x)


N = torch.tensor
RUNS: dict[str, tuple[Callable[..., Any], Sequence[Any], Any]] = {
    "cond": (nested, [(x(3).abs(),), (-x(3).abs(),), (x(3).abs() * 50,)], None),
    "cond of a size": (
        lambda x: cond(torch.tensor(x.shape[0] > 4), lambda x: x + 1, lambda x: x - 1, (x,)),
        [(x(3, 2),), (x(6, 2),)], ({0: S},),
    ),
    "while": (counted, [(x(3).abs(), N(4)), (x(3).abs(), N(0)), (x(3).abs(), N(40))], None),
    "map": (lambda x, y: rows_of(lambda x, y: x.sin() * y, x, y), [(x(4, 3), x(3))], None),
    "map of many": (lambda x, y: rows_of(lambda x, y: (x.sin() * y, x.sum()), x, y), [(x(400, 3), x(3))], None),
    "map of open": (
        lambda x, y: rows_of(lambda x, y: x.sin() * y, x, y), [(x(4, 3), x(3)), (x(9, 3), x(3))], ({0: S}, None),
    ),
    "scan": (accumulated, [(x(4, 3),)], None),
    "scan of many": (accumulated, [(x(99, 3),)], None),
    "scan of open": (accumulated, [(x(4, 3),), (x(9, 3),)], ({0: S},)),
    "scan from the end": (
        lambda x: scan(lambda c, x: (c * 0.5 + x, (c * x, x + 1)), torch.zeros(3), x, reverse=True), [(x(4, 3),)], None,
    ),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", RUNS)
def test_blocks(case: str) -> None:
    function, runs, dynamic = RUNS[case]
    compare(function, *runs, dynamic=dynamic)


class Remembers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(3))
        self.register_buffer("count", torch.zeros(2, dtype=torch.long))
        self.register_buffer("square", torch.ones(2, 2), persistent=False)

    def forward(self, x: Any) -> Any:
        self.sum.mul_(0.5).add_(x)
        self.count[0] += 1
        self.square[:, 1] = x[:2]
        return x + self.sum, self.count * 2, self.square.clone()


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norms = torch.nn.Sequential(torch.nn.BatchNorm2d(4), torch.nn.GroupNorm(2, 4), torch.nn.LayerNorm(6))
        self.linear = torch.nn.Linear(4, 2)
        self.shift = torch.tensor([1.0, 2.0])

    def forward(self, x: Any) -> Any:
        y = self.norms(self.conv(x)).relu().mean((2, 3))
        return self.linear(y) + self.shift + torch.tensor(2.0), self.shift


def changes(x: Any) -> Any:
    y = x.clone()
    z = y.view(-1)
    z[1:4].mul_(3)
    w = y[:, ::2]
    w.relu_()
    return y, z, w


@pytest.mark.sampled(3)
@pytest.mark.parametrize("core", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_all_forms_of_a_program(core: bool, strict: bool) -> None:
    options = {"core": core, "strict": strict}
    compare(Layers(), (x(2, 3, 8, 8),), (x(5, 3, 8, 8),), dynamic=({0: S},), **options)
    compare(changes, (x(3, 4),), **options)
    model = compare(Remembers(), (x(3),), (x(3) + 1,), (x(3) - 2,), **options)
    assert len(model.states) == 3


class Named(torch.nn.Module):
    def forward(self, x: Any, *more: Any, scale: Any, mask: Any = None, **others: Any) -> Any:
        return {"a": x * scale if mask is None else x * mask, "b": [sum(more), (others["z"], None)]}


ARGUMENTS: dict[str, tuple[Any, Any]] = {
    "by name": (Named(), (x(3), x(3), x(3), {"scale": x(3), "mask": None, "z": x(2)})),
    "in another order": (Named(), (x(3), x(3), {"z": x(2), "mask": x(3), "scale": x(3)})),
    "nested": (
        lambda a, d: {"u": (a[0] + d["k"], [a[1], d["l"][0] * 2]), "v": d["k"]},
        ([x(3), x(4)], {"k": x(3), "l": (x(2),)}, {}),
    ),
    "constants": (lambda x, n, f, t, s, o: x * n + f if t and s == "s" else o, (x(3), 3, 2.5, True, "s", None)),
    "results that are arguments": (lambda x, y: (x, y, x + y, x, x.t(), y[1:]), (x(3, 2), x(3, 2))),
    "results that are constants": (lambda x: (x, 3, 2.5, True, None), (x(3),)),
    "changed arguments": (lambda x, y: x.add_(1) * y, (x(3), x(3))),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_and_results(case: str) -> None:
    function, args = ARGUMENTS[case]
    compare(function, args)


def test_numbers_as_arguments() -> None:
    program, model, content = model_of(Call(lambda x, n: x.view(n, -1) * n), (x(6, 4), 3), (({0: S}, Dim.DYNAMIC),))
    session = minnow.load(content, threads=1)
    for given, n in ((x(6, 4), 3), (x(8, 4), 2)):
        (got,) = session.run(
            dict(zip([n for n, _ in model.inputs], [given.numpy(), numpy_of(n)], strict=True))
        ).values()
        assert difference(got, numpy_of(program.module()(given, n))) <= 2e-5


def turned(x: Any) -> Any:
    y = x * 2
    z = y.view(-1)
    y.t_()
    y[:, ::2].relu_()
    y.unsqueeze_(1).add_(1)
    return z, y, y.squeeze_(1).transpose_(0, 1)


@pytest.mark.parametrize("shape", [(3, 4), (4, 4), (1, 5)])
def test_views_that_take_the_place_of_a_tensor(shape: tuple[int, ...]) -> None:
    check(turned, x(*shape))


def test_a_shape_that_only_the_run_decides_to_change() -> None:
    class Turned(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            if bool(x.sum() > 0):
                y.t_()
            return y

    with pytest.raises(UnsupportedError, match="in-place"):
        check(Turned(), x(3, 3), roads=["script"])


def test_mixed_precision_is_refused_by_name() -> None:
    def mixed(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x.t()

    with pytest.raises(UnsupportedError, match="mixed precision"):
        model_of(Call(mixed), (x(3, 3),))
