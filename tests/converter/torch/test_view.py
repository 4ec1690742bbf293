"""Views of PyTorch tensors: what they give, and what a change of one does to all that share its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_oracle import check, exported  # noqa: E402

from minnow.converter.torch.reader import translate  # noqa: E402
from minnow.schema.errors import UnsupportedError  # noqa: E402
from minnow.schema.registry.interpreter import evaluate  # noqa: E402

Function = Callable[..., Any]


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


VIEWS: list[Function] = [
    lambda x: x.view(6, 5),
    lambda x: x.view(-1),
    lambda x: x.reshape(3, -1),
    lambda x: x.flatten(1),
    lambda x: x.unflatten(2, (5, 1)),
    lambda x: x.ravel(),
    lambda x: x.unsqueeze(-1),
    lambda x: x[:1].squeeze(0),
    lambda x: x.transpose(0, -1),
    lambda x: x.mT,
    lambda x: x[0].t(),
    lambda x: x.permute(2, 0, 1),
    lambda x: x.movedim(0, 2),
    lambda x: x.expand(2, 3, 5),
    lambda x: x[:, 0],
    lambda x: x[:, -1],
    lambda x: x[1],
    lambda x: x[..., ::2],
    lambda x: x[:, 1:],
    lambda x: x[:, 1:2],
    lambda x: x[..., -2:],
    lambda x: x[..., 1:-1],
    lambda x: x[:, :, 2:9],
    lambda x: x[1:1],
    lambda x: x.narrow(2, 1, 3),
    lambda x: x.unbind(1)[1],
    lambda x: x.split(2, 2)[1],
    lambda x: x.split([1, 2], 1)[0],
    lambda x: x.chunk(2, -1)[1],
    lambda x: x.tensor_split(2, 2)[0],
    lambda x: x.tensor_split((1, 3), 2)[1],
    lambda x: x.hsplit(3)[1],
    lambda x: x.vsplit([1])[1],
    lambda x: x.diagonal(0, 1, 2),
    lambda x: x.diagonal(-1, 0, 2),
    lambda x: x.diagonal(9, 0, 2),
    lambda x: x.as_strided((2, 2), (1, 3)),
    lambda x: x.unfold(2, 2, 2),
    # views of views
    lambda x: x.transpose(0, 1)[1][:, ::2],
    lambda x: x.view(-1)[3:20].view(-1),
    lambda x: x[0].transpose(0, 1)[2:3],
    lambda x: x.view(6, 5)[1:3].view(-1)[::3],
    # where the elements stand in memory decides whether these share it
    lambda x: x[0].reshape(-1),
    lambda x: x.transpose(0, 1).reshape(-1),
    lambda x: x.transpose(0, 1).reshape(3, 2, 5, 1),
    lambda x: x[:, 1].contiguous(),
    lambda x: x.contiguous(),
    lambda x: x[1].contiguous(),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("view", VIEWS, ids=range(len(VIEWS)))
def test_a_change_of_a_view_is_a_change_of_what_it_is_a_view_of(view: Function) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        base = x * 1
        before = base + 1
        part = view(base)
        part.mul_(2)
        part.add_(1)
        return base, part, before, base * 1

    check(function, _x(2, 3, 5))


def test_a_change_of_the_base_is_a_change_of_its_views() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        base = x * 1
        rows, flat = base[1:], base.view(-1)
        first = rows[0]
        base.mul_(3)
        flat.add_(1)
        first[1].mul_(5)
        return base, rows, flat, first

    check(function, _x(3, 5))


def test_places_are_set() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, c, d, e = x * 1, x * 2, x * 3, x * 4
        a[:, 0].add_(y)
        c[mask] = y[0] * 7
        d.transpose(0, 1)[at] = y
        e[1:, ::2][:, at] = y[1:, None]
        return a, c, d, e

    check(function, _x(3, 5), _x(3), _x(3, 5) > 0, torch.tensor([2, 0]))


def test_places_are_changed_by_what_python_writes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, c = x * 1, x * 2
        a[:, 0] += y
        a[1:, ::2] *= 2
        c[mask] *= 0.5
        c.view(-1)[::3] = 0
        c[0] = a[1]
        return a, c

    check(function, _x(3, 5), _x(3), _x(3, 5) > 0)


class _Places(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> list[torch.Tensor]:
        y, flat = x * 1, x * 2
        for i in range(n):
            y[i] = y[i] * 2
            y[:, i] = x[:, i] + y[:, i]
        y[:, n:] = x[:, n:] * 3
        i = 0
        while i < n:
            flat.view(-1)[i : i + 2].mul_(3)
            i += 2
        if n > 2:
            y[0].add_(1)
        else:
            y[:, -n].add_(5)
        return [y, flat, x.narrow(0, n - 1, 1), x[n - 1 :, ::2], x.select(1, -n), x[:, :-n], x.roll(n, 1), x.tril(n)]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_places_that_only_the_run_knows(n: int) -> None:
    check(_Places(), _x(3, 5), n, roads=["script"])


def test_a_change_is_refused_where_nobody_knows_whether_memory_is_shared() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            base = x * 1
            copy = base.transpose(0, 1).reshape(-1)
            copy.add_(1)
            return base, copy

    class Uses(Model):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return super().forward(x)[1:]

    rows = torch.export.Dim("rows", min=2, max=9)
    program = exported(Uses(), [_x(3, 5)], dynamic={"x": {0: rows}})
    (got,) = evaluate(translate(program, "x").graph, [_x(7, 5).numpy()])
    assert got.tolist() == (_x(7, 5).T.reshape(-1) + 1).tolist()
    with pytest.raises(UnsupportedError, match="may share its memory"):
        translate(exported(Model(), [_x(3, 5)], dynamic={"x": {0: rows}}), "x")


def test_shapes() -> None:
    functions: list[Function] = [
        lambda x: x.unfold(1, 2, 1),
        lambda x: x[0, 0].unfold(0, 3, 2),
        lambda x: x.expand(4, 2, 3, 5),
        lambda x: x[:, :1].expand(-1, 7, -1),
        lambda x: x[:1].expand_as(x),
        lambda x: torch.broadcast_to(x, (1, 2, 3, 5)),
        lambda x: x.tensor_split(4, 2),
        lambda x: x.tensor_split((-2, 1), 2),
        lambda x: x.dsplit(5),
        lambda x: x.vsplit([1, 5]),
        lambda x: x.split(2, 1),
        lambda x: x.unbind(-1),
        lambda x: x.chunk(4, 2),
        lambda x: x[:0].view(-1),
        lambda x: x[:0].view(0, 15),
        lambda x: x.flatten(),
        lambda x: x[0, 0, 0].flatten(),
        lambda x: x.squeeze(),
        lambda x: x[:1, :1].squeeze(),
        lambda x: x[:1, :1].squeeze((0, 2)),
        lambda x: x[:1, :1].squeeze(1),
        lambda x: x[0, 0, 0].expand(3),
        lambda x: x.adjoint(),
        lambda x: x[0].H,
        lambda x: torch.linalg.diagonal(x),
        lambda x: torch.moveaxis(x, (0, 1), (1, 2)),
        lambda x: torch.atleast_2d(x[0, 0], x[0, 0, 0]),
        lambda x: torch.atleast_3d(x[0, 0], x[0]),
        lambda x: torch.broadcast_tensors(x, x[:, :1], x[0]),
        lambda x: x.view_as(x[None]).reshape_as(x[..., None]),
        lambda x: torch.narrow(x, 2, -3, 2),
    ]
    check(lambda x: tuple(f(x) for f in functions), _x(2, 3, 5))


def test_copies_of_views() -> None:
    functions: list[Function] = [
        lambda x: torch.permute_copy(x, (1, 0, 2)),
        lambda x: torch.view_copy(x, (6, 5)),
        lambda x: torch.slice_copy(x, 1, 0, 2),
        lambda x: torch.split_copy(x, 2, 1),
        lambda x: torch.unsqueeze_copy(x, 1),
        lambda x: torch.diagonal_copy(x, 1, 1, 2),
        lambda x: torch.as_strided_copy(x, (2, 2), (5, 1), 3),
        lambda x: torch.select_scatter(x, x[:, 0], 1, -2),
        lambda x: torch.slice_scatter(x, x[..., :2], 2, 1, 5, 2),
        lambda x: torch.diagonal_scatter(x, x[:, :, 0], 1, 1, 2),
        lambda x: torch.as_strided_scatter(x, x[0, :2, :2], (2, 2), (1, 3), 2),
    ]
    check(lambda x: tuple(f(x) for f in functions), _x(2, 3, 5))


class _Symbolic(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


SYMBOLIC: list[tuple[Function, int]] = [  # a function of x[batch, time, 6], and how many nodes it takes
    (lambda x: x.view(x.shape[0], -1), 1),
    (lambda x: x.view(x.shape[0], x.shape[1], 2, 3), 1),
    (lambda x: x.view(x.shape[0], x.shape[1], 2, 3).transpose(1, 2), 2),
    (lambda x: x.reshape(x.shape[0] * x.shape[1], 6), 1),
    (lambda x: x.flatten(0, 1), 1),
    (lambda x: x.flatten(1), 1),
    (lambda x: x.unflatten(-1, (3, 2)), 1),
    (lambda x: x.expand(x.shape[0], -1, 6), 0),
    (lambda x: x[:, :1].expand(-1, 3, -1), 2),
    (lambda x: x[:, -1], 1),
    (lambda x: x[:, 1:], 1),
    (lambda x: x[:, : x.shape[1] - 1], 5),
    (lambda x: x.narrow(2, 1, 3), 1),
    (lambda x: x.split([2, 4], -1)[1], 1),
    (lambda x: x.unsqueeze(1).squeeze(1), 2),
    (lambda x: x.permute(2, 0, 1), 1),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("function", "most"), SYMBOLIC, ids=range(len(SYMBOLIC)))
def test_sizes_that_only_the_run_knows_take_few_nodes(function: Function, most: int) -> None:
    batch, time = torch.export.Dim("batch", min=4, max=64), torch.export.Dim("time", min=4, max=64)
    program = exported(_Symbolic(function), [_x(5, 6, 6)], dynamic={"x": {0: batch, 1: time}})
    model = translate(program, "x")
    x = _x(4, 7, 6)
    (got,) = evaluate(model.graph, [x.numpy()])
    assert got.shape == function(x).shape
    assert (got == function(x).numpy()).all()
    needed = set()
    todo = list(model.graph.outputs)
    while todo:
        node = todo.pop().producer
        if node is not None and node not in needed:
            needed.add(node)
            todo += [v for v in node.inputs if v is not None]
    assert len(needed) <= most, [n.op for n in needed]


def test_a_view_of_computed_sizes_is_changed() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        base = x * 1
        base[:, 1:].mul_(2)
        base[:, -1].add_(1)
        base.view(base.shape[0], -1)[:, ::2].add_(3)
        base[:, 1:-1].mul_(3)
        base.transpose(0, 1)[0].add_(5)
        return base, base + 1

    batch, time = torch.export.Dim("batch", min=4, max=64), torch.export.Dim("time", min=4, max=64)
    program = exported(_Symbolic(function), [_x(5, 6, 6)], dynamic={"x": {0: batch, 1: time}})
    graph = translate(program, "x").graph
    for shape in ((4, 7, 6), (9, 5, 6)):
        got = evaluate(graph, [_x(*shape).numpy()])
        for g, w in zip(got, function(_x(*shape)), strict=True):
            assert abs(g - w.numpy()).max() < 1e-6


def test_views_that_do_not_fit_are_refused() -> None:
    from minnow.converter.torch.program.program import Block, Input, Node, Program, Ref
    from minnow.schema.errors import MinnowError
    from minnow.schema.ir import DType, TensorType

    for target, *args in (
        ("view", [7]), ("view", [-1, 4]), ("select.int", 0, 9), ("select.int", 5, 0), ("narrow", 1, 3, 9),
        ("permute", [0]), ("expand", [5]), ("split_with_sizes", [1, 9], 0), ("squeeze.dim", 7), ("unfold", 0, 9, 1),
        ("diagonal", 0, 1, 1), ("movedim.int", 0, 5),
    ):  # fmt: skip
        nodes = [Node(f"aten::{target}", [Ref("x"), *args], outputs=["y"])]
        block = Block(["x"], nodes, [Ref("y")])
        given = [Input("x", "x", type=TensorType(DType.F32, (2, 3, 5)))]
        with pytest.raises(MinnowError):
            translate(Program(block, given, {}, "torch_export"), "x")
