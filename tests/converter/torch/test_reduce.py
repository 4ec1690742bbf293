"""Reductions, running sums, orders, and tensors made from numbers, of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_oracle import check, difference, exported, flat, model_of, run  # noqa: E402

from minnow.converter.torch.reader import translate  # noqa: E402

inf, nan = float("inf"), float("nan")


def _x(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) + 1)) * 3


def _plain(made: Any) -> Any:
    """Results without the names that PyTorch gives them: no file has those."""
    return tuple(_plain(m) for m in made) if isinstance(made, (tuple, list)) else made


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, -1), keepdim=True), x.sum(dim=[]), x.sum(0, dtype=torch.float64)),
    "mean": lambda x: (x.mean(), x.mean(1), x.mean((0, -1), keepdim=True), x.mean(0, dtype=torch.float64)),
    "prod": lambda x: (x.prod(), x.prod(1), x.prod(-1, keepdim=True)),
    "extremes": lambda x: (x.max(), x.min(), x.amax(), x.amax((0, 1)), x.amin(-1, keepdim=True),
                           torch.aminmax(x, dim=1)),
    "places": lambda x: (x.max(1), x.min(0, keepdim=True), x.argmax(), x.argmin(-1), x.argmax(1, keepdim=True),
                         x.argmin(keepdim=True)),
    "logical": lambda x: (x.any(), x.all(1), (x > 1).any(0), (x > -9).all(), torch.any(x > 1, (0, 2), True)),
    "var": lambda x: (x.var(), x.var(1), x.var(1, unbiased=False), x.var((0, 1), correction=2, keepdim=True),
                      torch.var_mean(x, 1), torch.var_mean(x)),
    "std": lambda x: (x.std(), x.std(1), x.std(-1, correction=0), torch.std_mean(x, (0, 2), keepdim=True)),
    "norm": lambda x: (x.norm(), x.norm(1), x.norm(3, 1), x.norm(inf, 1), x.norm(-inf, 0, keepdim=True), x.norm(0, 1)),
    "vector_norm": lambda x: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1.5, (0, 1)),
                              torch.linalg.vector_norm(x, 1, -1, True, dtype=torch.float64)),
    "sums": lambda x: (torch.logsumexp(x, 1), torch.nansum(x, 1), torch.nanmean(x, (0, 1)), torch.count_nonzero(x, 1)),
    "dist": lambda x: (torch.dist(x, x * 2), torch.dist(x, x * 2, 1)),
    "running": lambda x: (x.cumsum(1), x.cumsum(-1, dtype=torch.float64), x.cumprod(0), torch.logcumsumexp(x, 1)),
    "running extremes": lambda x: (torch.cummax(x, 1), torch.cummin(x, -1)),
    "median": lambda x: (x.median(), x.median(1), x.nanmedian(), x.nanmedian(-1, keepdim=True), x.kthvalue(2, 1)),
    "mode": lambda x: (x.round().mode(1), x.round().mode()),
    "quantile": lambda x: (torch.quantile(x, 0.3), torch.quantile(x, torch.tensor([0.1, 0.75]), 1, True),
                           torch.nanquantile(x, 0.6, -1), torch.quantile(x, 0.4, 1, interpolation="nearest"),
                           torch.quantile(x, 0.4, 2, interpolation="midpoint")),
    "histograms": lambda x: (torch.histogram(x, 4), torch.histogram(x, torch.tensor([-3.0, 0, 4]), density=True),
                             torch.histogramdd(x, 2)[0], torch.renorm(x, 2, 1, 5.0), x.sum_to_size(5, 1)),
    "counts": lambda x: (torch.histc(x, 7), torch.histc(x, 5, -2, 3), torch.isin(x.round(), torch.tensor([1.0, 3.0]))),
    "differences": lambda x: (x.diff(), x.diff(2, 1), x.diff(dim=1, append=x), torch.gradient(x, dim=1),
                              torch.gradient(x, spacing=2.0, dim=2, edge_order=2)),
    "integrals": lambda x: (torch.trapezoid(x), torch.trapezoid(x, dx=0.5, dim=1), torch.cumulative_trapezoid(x),
                            torch.trapezoid(x, torch.arange(7.0) ** 2)),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    check(lambda x: _plain(REDUCTIONS[name](x)), _x(3, 5, 7))


# Of others, PyTorch refuses them, or gives what depends on the order that it computes in.
DEFINED = [n for n in REDUCTIONS if n not in ("counts", "histograms", "integrals", "mode", "var", "std", "differences")]


@pytest.mark.parametrize("name", DEFINED)
def test_what_is_no_number(name: str) -> None:
    x = torch.tensor([[[nan, 1.0, 3.0], [2.0, nan, 0.0]], [[-inf, inf, -2.0], [5.0, 5.0, inf]]])
    run = REDUCTIONS[name]
    check(lambda x: _plain(run(x)), x, roads=["export"], engine=name in ("extremes", "places", "median", "sum"))


SIZED: dict[str, Callable[[Any], Any]] = {
    "reductions": lambda x: (x.var(), x.std(1), torch.var_mean(x, 0), x.mean(0), x.norm(), (x > 0).all(0), x.prod(0)),
    "places": lambda x: (x.argmax(), x.max(0), x.cumsum(0), x.argmax(keepdim=True), torch.cummax(x, 1)),
    "orders": lambda x: (x.median(), x.median(0), x.nanmedian(0), x.quantile(0.3, 0), torch.nanquantile(x, 0.4, 0)),
    "created": lambda x: (torch.zeros(x.shape[0], 2), torch.ones_like(x), x.new_zeros(x.size(0) + 1),
                          torch.eye(x.shape[0]), torch.arange(x.shape[0]), torch.arange(1, x.shape[0] * 2, 2) * 2.5),
    "filled": lambda x: (x.clone().fill_(3), x.masked_fill(x > 0, 1), torch.isreal(x), x / x.shape[0]),
    "counts": lambda x: (torch.histc(x, 5), x.round().mode(0), x.diff(dim=0), torch.trapezoid(x, dim=0)),
    "running": lambda x: (torch.cummax(x.round(), 0), torch.cummin(x.int(), 0), torch.logcumsumexp(x, 0)),
    "series": lambda x: (torch.special.chebyshev_polynomial_t(x / 4, x.int()), torch.special.zeta(x, x + 4)),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SIZED)
def test_extents_that_only_the_run_knows(name: str) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return _plain(SIZED[name](x))

    program = exported(Module(), [_x(6, 5)], {"x": {0: torch.export.Dim("n", min=4, max=50)}})
    x = _x(9, 5)
    got = run(translate(program, name), [x])
    for g, w in zip(got, flat(Module()(x)), strict=True):
        assert difference(g, w) <= 2e-5


class _Decided(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        z = torch.zeros(x.size(0), 3, dtype=x.dtype, device=x.device)
        z += torch.max(x, 1)[0].unsqueeze(1)
        m = x.std(0) + torch.tensor([1.0, float(x.size(0))]).sum()
        if torch.allclose(x, y):
            m = m * 2
        if bool((x > 3).any()) or torch.equal(x, y):
            m = m + torch.tensor(x.sum().item())
        q = x > 0.6
        q |= x < 0.1
        q ^= x < 2
        return z, m, q


@pytest.mark.parametrize("off", [0.0, 1.0])
def test_what_the_run_decides(off: float) -> None:
    x = _x(3, 5)
    check(_Decided(), x, x + off, roads=["script"])


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool, torch.float16, torch.float64], ids=str)
def test_other_types(dtype: Any) -> None:
    x = torch.tensor([[[0, 3, 1], [2, 1, 0]], [[1, 1, 2], [5, 0, 4]]]).to(dtype)

    def run(x: Any) -> Any:
        made = [
            x.sum(),
            x.sum(1),
            x.sum(1, dtype=torch.float32),
            x.prod(1),
            x.amax(1),
            x.max(),
            x.max(1),
            x.any(1),
            x.all(),
            x.cumsum(1),
            x.cumprod(0),
            x.mean(1, dtype=torch.float32),
            x.count_nonzero(),
            x.cummax(1),
        ]
        if dtype is not torch.bool:
            made += [x.argmax(1), x.diff(), x.median(1).values, x.min(-1).values, x.kthvalue(2).values]
        else:
            made += [x.diff(), x.min(1)]
        if dtype.is_floating_point:
            made += [x.mean(), x.std(1), x.var(1), x.norm(), x.logsumexp(1)]
        return _plain(made)

    check(run, x)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0, 3), (2, 0)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    def run(x: Any) -> Any:
        axis = 0 if x.numel() or shape == (2, 0) else 1
        made = [
            x.sum(),
            x.sum(0),
            x.mean(-1),
            x.prod(),
            x.any(),
            x.all(0),
            x.cumsum(0),
            x.norm(),
            x.var(0),
            x.logsumexp(-1),
            torch.count_nonzero(x),
            torch.zeros_like(x),
            torch.full_like(x, 3),
        ]
        if x.numel():
            made += [x.max(), x.argmax(), x.max(axis), x.cummax(0), x.median(), x.quantile(0.5)]
        return _plain(made)

    check(run, _x(*shape) if 0 not in shape else torch.zeros(shape), engine=0 not in shape)


CREATED: dict[str, Callable[[Any], Any]] = {
    "constants": lambda x: (torch.zeros(2, 3), torch.ones(3, dtype=torch.int32), torch.full((2, 2), 7),
                            torch.full((2,), 1.5), torch.zeros(0, 3), torch.zeros(())),
    "like": lambda x: (torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64), torch.full_like(x, -2),
                       x.new_zeros(3), x.new_ones((2, 1), dtype=torch.bool), x.new_full((3,), 0.5)),
    "ranges": lambda x: (torch.arange(7), torch.arange(2, 9, 3), torch.arange(0.5, 3, 0.3), torch.arange(5, -2, -2),
                         torch.arange(4, dtype=torch.float32), torch.arange(3, 3)),
    "even": lambda x: (torch.linspace(0, 1, 7), torch.linspace(-3, 5, 1), torch.linspace(0, 10, 4, dtype=torch.int32),
                       torch.logspace(0, 2, 5), torch.logspace(-1, 1, 3, 2.0), torch.linspace(1, 2, 0)),
    "windows": lambda x: (torch.hann_window(9), torch.hamming_window(8, False), torch.blackman_window(7), torch.ones(1),
                          torch.bartlett_window(6, periodic=False), torch.kaiser_window(11, True, 5.0),
                          torch.hamming_window(5, True, 0.6, 0.3), torch.hann_window(1), torch.hann_window(0)),
    "patterns": lambda x: (torch.eye(3), torch.eye(2, 5), torch.eye(2, dtype=torch.int64), torch.tril_indices(3, 4, -1),
                           torch.triu_indices(4, 3, 1)),
    "numbers": lambda x: (torch.scalar_tensor(3), torch.tensor([1, 2, 3]), torch.tensor([[1.5], [2.0]])),
}  # fmt: skip


@pytest.mark.parametrize("name", CREATED)
def test_created(name: str) -> None:
    check(lambda x: (*CREATED[name](x), x + 1), _x(2, 3))


def test_random_numbers_have_their_range() -> None:
    class Random(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            some = torch.multinomial(torch.tensor([0.1, 0.0, 0.7, 0.2]), 3)
            many = torch.multinomial(torch.tensor([[0.1, 0.0, 0.7, 0.2]]), 5000, True)
            return (torch.rand(1000), torch.randn_like(x), torch.randint(3, 7, (1000,)), torch.bernoulli(x * 0 + 0.25),
                    torch.rand_like(x) + torch.normal(x * 0 + 5, 2.0), some, many)  # fmt: skip

    x = torch.zeros(5000)
    for road in ("export", "trace"):
        uniform, normal, integers, coins, sums, some, many = run(model_of(Random(), [x], road), [x])
        assert 0 <= uniform.min() < 0.05
        assert 0.95 < uniform.max() < 1
        assert abs(normal.mean()) < 0.1
        assert abs(normal.std() - 1) < 0.1
        assert sorted(set(integers.tolist())) == [3, 4, 5, 6]
        assert set(coins.tolist()) == {0.0, 1.0}
        assert abs(coins.mean() - 0.25) < 0.05
        assert abs(sums.mean() - 5.5) < 0.3
        assert sorted(some.tolist()) == [0, 2, 3]
        assert abs((many == 2).mean() - 0.7) < 0.03
        assert not (many == 1).any()
