"""PyTorch's indices: reading and writing at places, masks, order, and what is different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_oracle import check  # noqa: E402

Function = Callable[..., Any]
NAN, INF = float("nan"), float("inf")


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def _all(functions: list[Function], *args: torch.Tensor, **keywords: Any) -> None:
    def parts(y: Any) -> Any:
        return tuple(y) if isinstance(y, (tuple, list)) else y

    check(lambda *xs: tuple(parts(f(*xs)) for f in functions), *args, **keywords)


def _changed(functions: list[Function], *args: torch.Tensor, **keywords: Any) -> None:
    """Each function changes a copy of the first argument; it gets that, the first argument, and the others."""

    def change(f: Function, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        y = x * 1
        f(y, x, *rest)
        return y

    check(lambda *xs: tuple(change(f, *xs) for f in functions), *args, **keywords)


I = torch.tensor([2, -1, 0])  # noqa: E741
J = torch.tensor([[1], [3]])


def test_several_indices() -> None:
    functions: list[Function] = [
        lambda x, i, j: x[i],
        lambda x, i, j: x[:, i],
        lambda x, i, j: x[..., i],
        lambda x, i, j: x[i, i],
        lambda x, i, j: x[:, i, j],
        lambda x, i, j: x[:, :, i, j],
        lambda x, i, j: x[i, :, j],
        lambda x, i, j: x[:, i, :, j],
        lambda x, i, j: x[:, i, 1:3, j],
        lambda x, i, j: x[i, i, i, i],
        lambda x, i, j: x[:, None, i],
        lambda x, i, j: x[i[:0]],
        lambda x, i, j: x[[0, 2], :, [1, 3]],
        lambda x, i, j: x[:, [0, 2], [1, -3]],
        lambda x, i, j: x[:, [[0], [2]], [1, 3]],
    ]
    _all(functions, _x(3, 5, 7, 4), I, J)


def test_masks() -> None:
    functions: list[Function] = [
        lambda x, m, mask, row, first: m[mask],
        lambda x, m, mask, row, first: x[:, mask],
        lambda x, m, mask, row, first: x[:, row],
        lambda x, m, mask, row, first: x[first],
        lambda x, m, mask, row, first: m[row, :3],
        lambda x, m, mask, row, first: m.masked_select(mask),
        lambda x, m, mask, row, first: m.masked_select(row[:, None]),
        lambda x, m, mask, row, first: mask.nonzero(),
        lambda x, m, mask, row, first: mask.argwhere(),
        lambda x, m, mask, row, first: mask.nonzero(as_tuple=True),
        lambda x, m, mask, row, first: torch.where(mask),
        lambda x, m, mask, row, first: m[0, 0].nonzero(),
        lambda x, m, mask, row, first: torch.nonzero_static(row, size=2),
        lambda x, m, mask, row, first: torch.nonzero_static(mask, size=50, fill_value=9),
    ]
    row, first = torch.tensor([True, False, True, True, False]), torch.tensor([True, False, True])
    _all(functions, _x(3, 5, 7, 4), _x(5, 7), _x(5, 7) > 0, row, first)
    _all([lambda m, row, i: m[row, i], lambda m, row, i: m[row.to(torch.uint8)]], _x(5, 7), row, I, roads=["trace"])


def test_places_along_an_axis() -> None:
    functions: list[Function] = [
        lambda x, i: x.index_select(1, i),
        lambda x, i: x[0, 0, 0, 0].index_select(0, i[2]),
        lambda x, i: x.gather(2, i.view(1, 1, 3, 1).expand(2, 5, 3, 4)),
        lambda x, i: x[0, 0, 0, 0].gather(0, i[2]),
        lambda x, i: x.take(i),
        lambda x, i: x.take(i.view(3, 1)),
        lambda x, i: x[0, 0].take_along_dim(i.view(-1, 1)[:, :1], 0),
        lambda x, i: x[0, 0].take_along_dim(i.view(1, -1), 1),
        lambda x, i: x.take_along_dim(i),
        lambda x, i: x[0, 0, 0].gather(0, i[:0].view(2, 0)),
    ]
    _all(functions, _x(3, 5, 7, 4), I.abs())


def test_places_among_sorted_numbers() -> None:
    functions: list[Function] = [
        lambda v, m, x: torch.searchsorted(v, x),
        lambda v, m, x: torch.searchsorted(v, x, right=True, out_int32=True),
        lambda v, m, x: torch.searchsorted(m, x[:, :3]),
        lambda v, m, x: torch.searchsorted(v, 0.1, side="right"),
        lambda v, m, x: torch.bucketize(x, v),
        lambda v, m, x: torch.bucketize(0.3, v),
    ]
    x = _x(5, 7)
    x[0, :4] = torch.tensor([NAN, INF, -INF, 0.5])
    _all(functions, torch.tensor([-0.5, 0.5, 0.5, 1.0]), _x(5, 7).sort(-1)[0], x)
    check(lambda v, x, s: torch.searchsorted(v, x, sorter=s), _x(7), _x(3), _x(7).argsort())


def test_order() -> None:
    functions: list[Function] = [
        lambda x: x.sort(),
        lambda x: x.sort(dim=0, descending=True, stable=True),
        lambda x: x.argsort(0),
        lambda x: x.msort(),
        lambda x: x.topk(3, 0),
        lambda x: x.topk(2, largest=False),
        lambda x: x[0, 0].sort(),
        lambda x: x[:, :0].sort(),
    ]
    x = _x(5, 7)
    x[1, :4] = torch.tensor([NAN, INF, -INF, NAN])
    _all(functions, x)
    numbers = torch.randperm(35, generator=torch.Generator().manual_seed(1)).view(5, 7) * 7 - 120
    _all(functions, numbers.to(torch.int8))
    _all(functions[:4], numbers.to(torch.float16) % 5)
    stable: list[Function] = [lambda x: x.sort(stable=True), lambda x: x.sort(stable=True, descending=True)]
    _all(stable, torch.tensor([1, 0, 1, 0, 2, 1]))
    _all(stable, torch.tensor([True, False, True]))


def test_different() -> None:
    functions: list[Function] = [
        lambda x: torch.unique(x),
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda x: torch.unique(x, dim=1, return_inverse=True, return_counts=True),
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        lambda x: torch.unique_consecutive(x, dim=1, return_inverse=True, return_counts=True),
    ]
    _all(functions, torch.tensor([[3, 1, 1, 3], [1, 2, 2, 1]]))
    _all(functions[:4], torch.tensor([[0.5, INF, 0.5], [2, 2, INF]]))


def _set(y: torch.Tensor, at: Any, to: Any) -> None:
    y[at] = to


def test_places_are_set() -> None:
    functions: list[Function] = [
        lambda y, x, i, j: _set(y, i, x[0] * 2),
        lambda y, x, i, j: _set(y, (i, j), x[0, 0]),
        lambda y, x, i, j: _set(y, (slice(None), i, j), x[:, 0, 0][:, None, None]),
        lambda y, x, i, j: _set(y, (i, slice(None), j), x[0, 0, 0, 0]),
        lambda y, x, i, j: _set(y, (slice(1, 3), i), x[:2, :3] * 2),
        lambda y, x, i, j: _set(y, (..., i), 7.5),
        lambda y, x, i, j: y.index_put_((i.abs(), i), x[0, 0] * 2, accumulate=True),
        lambda y, x, i, j: y.index_put_((j % 2, j * 0), x[0, 0] * 2, accumulate=True),
        lambda y, x, i, j: y.transpose(0, 2).index_put_((i,), x[0, 0, 0]),
        lambda y, x, i, j: y.view(-1).put_(i, x[0, 0, 0, :3]),
        lambda y, x, i, j: y.put_(i.abs() % 2, x[0, 0, 0, :3], accumulate=True),
    ]
    _changed(functions, _x(3, 5, 7, 4), I, J)


def test_masks_are_set() -> None:
    functions: list[Function] = [
        lambda y, x, mask, row: _set(y, mask, 7),
        lambda y, x, mask, row: _set(y, mask, x[0, 0]),
        lambda y, x, mask, row: _set(y, mask, x[mask] * 2),
        lambda y, x, mask, row: _set(y, row, x[0]),
        lambda y, x, mask, row: _set(y, row, x[:1] * 2),
        lambda y, x, mask, row: _set(y, row, x[:3] * 2),
        lambda y, x, mask, row: _set(y[1:].t(), mask[1:].t(), 3),
        lambda y, x, mask, row: y.index_put_((mask,), x[0, :1], accumulate=True),
        lambda y, x, mask, row: y.masked_scatter_(mask, x * 2),
        lambda y, x, mask, row: y.masked_scatter_(row[:, None], x * 2),
        lambda y, x, mask, row: y.masked_fill_(mask, 3),
    ]
    row = torch.tensor([True, False, True, True, False])
    _changed(functions, _x(5, 7), _x(5, 7) > 0, row)
    _changed(functions[:7], _x(5, 7), _x(5, 7) > 9, row)
    check(lambda x, mask: _returned(x * 1, (slice(None), mask), x[:, mask] * 2), _x(3, 5, 7), _x(5, 7) > 0)


def _returned(y: torch.Tensor, at: Any, to: Any) -> torch.Tensor:
    y[at] = to
    return y


REDUCED: list[Function] = [
    *[
        lambda y, x, i, r=r, s=s: y.scatter_reduce_(0, i.view(-1, 1).expand(3, 4), x[:, 1:], r, include_self=s)
        for r in ("sum", "prod", "mean", "amax", "amin")
        for s in (True, False)
    ],
    *[
        lambda y, x, i, r=r, s=s: y.index_reduce_(1, i, x[:, :3], r, include_self=s)
        for r in ("prod", "mean", "amax", "amin")
        for s in (True, False)
    ],
]


def test_scattered() -> None:
    functions: list[Function] = [
        lambda y, x, i: y.scatter_(1, i.view(1, -1), x[:, 1:]),
        lambda y, x, i: y.scatter_(1, i.view(1, -1), 2.5),
        lambda y, x, i: y.scatter_(1, i.view(1, -1), 2.5, reduce="add"),
        lambda y, x, i: y.scatter_(1, i.view(1, -1), x[:, 1:], reduce="multiply"),
        lambda y, x, i: y.scatter_add_(0, i.view(1, -1).expand(2, 3), x[:, 1:]),
        lambda y, x, i: y.index_add_(0, i, x[:3], alpha=2),
        lambda y, x, i: y.index_add_(1, i, x[:, :3]),
        lambda y, x, i: y.index_fill_(1, i, 3.5),
        lambda y, x, i: y.t()[1:].index_copy_(1, i[1:], x.t()[1:, :2]),
        lambda y, x, i: y[0, 0].index_fill_(0, i[2], 3.5),
        *REDUCED,
    ]
    _changed(functions, _x(5, 7), torch.tensor([1, 1, 0]))
    check(lambda x: x.index_copy(1, torch.tensor([2, 1, 0]), x[:, 3:6]), _x(5, 7))


def test_reduced_integers() -> None:
    _changed(REDUCED, torch.arange(35).view(5, 7) * 3, torch.tensor([1, 1, 0]), engine=False)
