"""Exported programs with dynamic dimensions: inputs keep their symbols, and results are PyTorch's at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch_architectures import bert, convnext, gpt2, llama, make, vit  # noqa: E402
from torch_oracle import Call, difference, exported, flat, numpy_of  # noqa: E402

import minnow  # noqa: E402
from minnow.converter.torch.reader import translate  # noqa: E402
from minnow.errors import UsageError  # noqa: E402
from minnow.optimizer import optimize  # noqa: E402
from minnow.schema.mnn import encode  # noqa: E402

pytestmark = pytest.mark.slow

B, S = Dim("b", min=1, max=64), Dim("s", min=2, max=512)


def x(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def compare(module: Any, dynamic: Any, args: Sequence[Any], others: Sequence[Sequence[Any]]) -> None:
    """One file, made from `args`, gives what PyTorch gives for them and all others."""
    model = translate(exported(module, args, dynamic), "here")
    open_ = [d for _, t in model.inputs for d in t.shape or () if not isinstance(d, int)]
    assert open_, "no input keeps a symbol"
    optimize(model)
    session = minnow.load(encode(model), threads=1)
    for given in (args, *others):
        with torch.no_grad():
            want = flat(module(*given))
        names = [n for n, _ in model.user_inputs]
        results = session.run(dict(zip(names, map(numpy_of, given), strict=True)))
        for name, w in zip([n for n, _ in model.user_outputs], want, strict=True):
            assert difference(results[name], w) <= 2e-5, (name, [tuple(numpy_of(g).shape) for g in given])


def take(x: Any, n: Any) -> Any:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return x[:k] * 2


def rows(x: Any, w: Any) -> Any:
    i = torch.nonzero(x).squeeze(1)
    return w[i].sum(0), i.shape[0], w[i] * i.shape[0]


Case = tuple[Callable[..., Any], Any, Sequence[Any], Sequence[Sequence[Any]]]
CASES: dict[str, Case] = {
    "view": (lambda x: x.view(x.shape[0], -1), ({0: B},), (x(3, 4, 5),), [(x(7, 4, 5),), (x(1, 4, 5),)]),
    "heads": (
        lambda x: x.view(x.shape[0], x.shape[1], 2, 3).transpose(1, 2).reshape(x.shape[0], 2, -1),
        ({0: B, 1: S},), (x(3, 4, 6),), [(x(7, 5, 6),), (x(1, 9, 6),)],
    ),
    "expand": (
        lambda x, c: torch.cat([c.expand(x.shape[0], -1, -1), x], 1),
        ({0: B, 1: S}, None), (x(3, 4, 5), x(1, 1, 5)), [(x(7, 9, 5), x(1, 1, 5))],
    ),
    "arange": (lambda x: x + torch.arange(x.shape[1]), ({0: B, 1: S},), (x(3, 4),), [(x(7, 9),)]),
    "mask": (
        lambda x: x.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1) > 0, float("-inf")).softmax(-1),
        ({0: B, 1: S, 2: S},), (x(3, 4, 4),), [(x(7, 9, 9),)],
    ),
    "twice": (lambda x, y: x[:, ::2] + y, ({0: B, 1: 2 * S}, {0: B, 1: S}), (x(3, 8), x(3, 4)), [(x(5, 18), x(5, 9))]),
    "one more": (lambda x, y: x[1:] + y, ({0: S + 1}, {0: S}), (x(5), x(4)), [(x(9), x(8))]),
    "eight times": (lambda x: x.view(-1, 8, x.shape[1]).sum(0), ({0: 8 * B},), (x(16, 3),), [(x(40, 3),)]),
    "nonzero": (lambda x: torch.nonzero(x > 0), ({0: B},), (x(3, 4),), [(x(7, 4),)]),
    "chosen": (lambda x: x[x > 0] * 2, ({0: B},), (x(3, 4),), [(x(8, 4),), (-x(3, 4).abs(),)]),
    "item": (
        lambda y, n: take(y, n), ({0: S}, None), (x(9, 4), torch.tensor(3)),
        [(x(9, 4), torch.tensor(5)), (x(12, 4), torch.tensor(0))],
    ),
    "rows": (
        rows, ({0: S}, {0: S}), (torch.tensor([0, 1, 0, 2]), x(4, 5)),
        [(torch.tensor([0, 0, 0]), x(3, 5)), (torch.tensor([1, 1, 1, 0, 3]), x(5, 5))],
    ),
    "sizes": (lambda x: (x * 2, x.shape[0], x.shape[0] * 2 + 1, x.shape[0] / 3), ({0: B},), (x(3, 4),), [(x(8, 4),)]),
    "pad": (lambda x: torch.nn.functional.pad(x, (0, 8 - x.shape[-1] % 8)), ({1: S},), (x(3, 5),), [(x(3, 9),)]),
    "halves": (lambda x: x.split(x.shape[0] // 2, 0)[1] * x.chunk(2)[0], ({0: 2 * B},), (x(4, 6),), [(x(8, 6),)]),
    "rotate": (
        lambda x: torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1),
        ({0: B, 1: S},), (x(2, 4, 6),), [(x(8, 3, 6),)],
    ),
    "attention": (
        lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True),
        ({0: B, 2: S},), (x(2, 3, 4, 8),), [(x(1, 3, 9, 8),)],
    ),
    "resize": (
        lambda x: torch.nn.functional.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode="bilinear"),
        ({0: B, 2: S},), (x(2, 3, 4, 8),), [(x(1, 3, 9, 8),)],
    ),
    "largest": (
        lambda x, y: x.new_zeros(max(x.shape[0], y.shape[0]), 3) + 1,
        ({0: B}, {0: S}), (x(4, 3), x(6, 3)), [(x(7, 3), x(5, 3))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_sizes_that_the_run_decides(case: str) -> None:
    function, dynamic, args, others = CASES[case]
    compare(Call(function).eval(), (dynamic,), args, others)


LENGTH = Dim("length", min=2, max=60)
ARCHITECTURES = {
    bert: (({0: B, 1: LENGTH}, {0: B, 1: LENGTH}), [(3, 7), (3, 7)]),
    llama: (({0: B, 1: LENGTH},), [(3, 7)]),
    gpt2: (({0: B, 1: LENGTH},), [(3, 7)]),
    vit: (({0: B},), [(3, 3, 32, 32)]),
    convnext: (({0: B, 2: 32 * LENGTH, 3: 32 * LENGTH},), [(3, 3, 96, 96)]),
}


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.__name__)
def test_architectures(architecture: Any) -> None:
    module, inputs = make(architecture)
    dynamic, shapes = ARCHITECTURES[architecture]
    # What is exported with a batch of 1 keeps that.
    args = [torch.cat([i, i]) for i in inputs]

    def other(i: Any, shape: tuple[int, ...]) -> Any:
        if i.dtype.is_floating_point:
            return x(*shape)
        return torch.randint(0, int(i.max()) + 1, shape, generator=torch.Generator().manual_seed(1)).clamp(
            min=int(i.min())
        )

    compare(module, (dynamic,), args, [[other(i, s) for i, s in zip(inputs, shapes, strict=True)]])


def save(folder: Path, function: Callable[..., Any], dynamic: Any, *args: Any) -> Path:
    program = torch.export.export(Call(function).eval(), args, dynamic_shapes=(dynamic,))
    torch.export.save(program, folder / "model.pt2")
    return folder / "model.pt2"


def test_verification_keeps_to_what_the_program_takes(tmp_path: Path) -> None:
    few, many = Dim("few", min=3, max=5), Dim("many", min=20, max=21)
    source = save(tmp_path, lambda a, b: a[:, ::2] + b, ({0: few, 1: 2 * many}, {0: few, 1: many}), x(3, 40), x(3, 20))
    verification = minnow.convert(source).verification
    assert verification is not None
    assert verification.reference.startswith("PyTorch")
    shapes = [c.shapes for c in verification.cases]
    assert all(3 <= s["xs_1"][0] <= 5 and 20 <= s["xs_1"][1] <= 21 for s in shapes)
    assert all(s["xs_0"][1] == 2 * s["xs_1"][1] for s in shapes)


@pytest.mark.parametrize(("shape", "taken"), [
    ((24, 4), True), ((512, 4), True), ((12, 4), False), ((520, 4), False), ((0, 4), False),
])  # fmt: skip
def test_sizes_out_of_the_programs_range_are_refused(shape: tuple[int, ...], taken: bool, tmp_path: Path) -> None:
    source = save(tmp_path, lambda a: a.view(-1, 8, a.shape[1]), ({0: 8 * B},), x(16, 4))
    if taken:
        assert minnow.convert(source, inputs={"xs_0": shape}, verify=False).nodes_after
    else:
        with pytest.raises(UsageError, match="out of range"):
            minnow.convert(source, inputs={"xs_0": shape}, verify=False)


def test_a_symbol_that_is_fixed_fixes_what_is_computed_of_it(tmp_path: Path) -> None:
    source = save(tmp_path, lambda a, b: a[:, ::2] + b, ({1: 2 * S}, {1: S}), x(3, 8), x(3, 4))
    minnow.convert(source, inputs={"xs_1": (3, 5)}, verify=False)
    assert minnow.load(tmp_path / "model.mnn").inputs[0].shape == (3, 10)
