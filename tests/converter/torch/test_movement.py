"""PyTorch's operators that put tensors together, repeat and turn them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_oracle import Call, check, exported  # noqa: E402

from minnow.converter.torch.reader import translate  # noqa: E402
from minnow.schema.registry.interpreter import evaluate  # noqa: E402

Function = Callable[..., Any]


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def _all(functions: list[Function], *args: torch.Tensor, **keywords: Any) -> None:
    check(lambda *xs: tuple(f(*xs) for f in functions), *args, **keywords)


def test_together() -> None:
    functions: list[Function] = [
        lambda x, m, v: torch.cat([x, x * 2], 1),
        lambda x, m, v: torch.cat([x, x[..., :1]], -1),
        lambda x, m, v: torch.cat([v[:0], m]),
        lambda x, m, v: torch.concat([m]),
        lambda x, m, v: torch.stack([x, x], -1),
        lambda x, m, v: torch.stack([v[0], v[1]]),
        lambda x, m, v: torch.hstack([v, v[:2]]),
        lambda x, m, v: torch.hstack([x, x]),
        lambda x, m, v: torch.hstack([v[0], v[1]]),
        lambda x, m, v: torch.vstack([v, m[:, :4]]),
        lambda x, m, v: torch.dstack([v, v]),
        lambda x, m, v: torch.dstack([m, m]),
        lambda x, m, v: torch.column_stack([v, v]),
        lambda x, m, v: torch.column_stack([m, v[:3]]),
        lambda x, m, v: torch.block_diag(m, v, v[0]),
        lambda x, m, v: torch.block_diag(m),
        lambda x, m, v: torch.meshgrid(v, v[:2], indexing="ij"),
        lambda x, m, v: torch.meshgrid(v, v[:2], v[:3], indexing="xy"),
        lambda x, m, v: torch.meshgrid(v, indexing="xy"),
        lambda x, m, v: torch.cartesian_prod(v, v[:3], v[:2]),
        lambda x, m, v: torch.cartesian_prod(v),
    ]
    _all(functions, _x(2, 3, 5), _x(3, 5), _x(4))


def test_operands_of_several_types_become_one_type() -> None:
    for dtype in (torch.int64, torch.float16, torch.float64, torch.bool):
        check(lambda x, y: (torch.cat([x, y]), torch.stack([y, x])), _x(3, 5), torch.arange(15).view(3, 5).to(dtype))


def test_combinations() -> None:
    # The export of these by PyTorch fails for itself.
    _all([lambda v: torch.combinations(v, 2), lambda v: torch.combinations(v, 3, True)], _x(4), roads=["trace"])


def test_repeated() -> None:
    functions: list[Function] = [
        lambda x, m, r: m.repeat(2, 1, 3),
        lambda x, m, r: m.repeat(2, 3),
        lambda x, m, r: m.repeat(1, 1),
        lambda x, m, r: m.repeat(0, 1),
        lambda x, m, r: m[0, 0].repeat(2, 3),
        lambda x, m, r: m.tile(2),
        lambda x, m, r: x.tile(2, 1, 2, 1),
        lambda x, m, r: m.repeat_interleave(3),
        lambda x, m, r: m[0, 0].repeat_interleave(3),
        lambda x, m, r: x.repeat_interleave(2, 1),
        lambda x, m, r: x.repeat_interleave(2, -1),
        lambda x, m, r: x.repeat_interleave(0, 0),
        lambda x, m, r: torch.repeat_interleave(r),
        lambda x, m, r: x.repeat_interleave(r, 1),
        lambda x, m, r: x.repeat_interleave(r[:1], 1),
        lambda x, m, r: m.repeat_interleave(r, 0, output_size=5),
    ]
    _all(functions, _x(2, 3, 5), _x(3, 5), torch.tensor([2, 0, 3]))


def test_turned() -> None:
    functions: list[Function] = [
        lambda x, m: x.flip(0, -1),
        lambda x, m: x.flip([]),
        lambda x, m: x.fliplr(),
        lambda x, m: x.flipud(),
        *[lambda x, m, k=k: torch.rot90(x, k, (1, 2)) for k in (0, 1, 2, 3, -1, 5)],
        lambda x, m: torch.rot90(x, 1, (2, 0)),
        lambda x, m: m.roll(2),
        lambda x, m: m.roll(15),
        lambda x, m: m.roll(-1, 0),
        lambda x, m: x.roll((1, -7), (0, 2)),
    ]
    _all(functions, _x(2, 3, 5), _x(3, 5))
    _all(functions, _x(2, 3, 5) > 0, _x(3, 5) > 0)


def test_diagonals() -> None:
    functions: list[Function] = [
        lambda x, m: x.tril(),
        lambda x, m: x.triu(1),
        lambda x, m: x.tril(-2),
        lambda x, m: m[0].diag(),
        lambda x, m: m[0].diag(2),
        lambda x, m: m[0].diag(-1),
        lambda x, m: m.diag(1),
        lambda x, m: m.diag(-2),
        *[lambda x, m, k=k: torch.diag_embed(x, k) for k in (0, 1, -2)],
        lambda x, m: torch.diag_embed(x, 1, 0, 2),
        lambda x, m: torch.diag_embed(x, 1, 2, 0),
        lambda x, m: torch.diag_embed(x, -1, -3, -1),
        lambda x, m: torch.diagflat(m, 1),
        lambda x, m: torch.diagflat(m[0, 0]),
    ]
    x, m = _x(2, 3, 5), _x(3, 5)
    x[0, 0, 1], m[0, 0] = float("nan"), float("inf")
    _all(functions, x, m)
    _all(functions, x > 0, m > 0)
    check(lambda x: (x + torch.tril_indices(3, 5, 1), x + torch.triu_indices(3, 5, -1)), torch.tensor([[2]]))


def test_extents_that_only_the_run_knows() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        return (
            x.repeat(n, 1), x.repeat_interleave(2, 0), x.repeat_interleave(2), x.roll(3, 0), x.roll(-1), x.flip(0),
            torch.diag_embed(x[:, 0], 1), torch.cat([x, x[:1]]), torch.meshgrid(x[:, 0], x[0], indexing="ij"),
            torch.stack([x, x]).flatten(0, 1), torch.hstack([x, x]), x.tril(1), x.t().reshape(-1, 2, n),
        )  # fmt: skip

    program = exported(Call(function), [_x(5, 6)], dynamic=(({0: torch.export.Dim("rows", min=4, max=64)},),))
    graph = translate(program, "x").graph
    for rows in (4, 9):
        x = _x(rows, 6)
        want = [y for r in function(x) for y in (r if isinstance(r, (tuple, list)) else [r])]
        for got, y in zip(evaluate(graph, [x.numpy()]), want, strict=True):
            assert got.shape == y.shape
            assert (got == y.numpy()).all()
