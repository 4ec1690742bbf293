"""Branches and loops of TorchScript, whose conditions only a run can tell."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_scripted import converted, same

from minnow.schema.errors import UnsupportedError

torch.manual_seed(5)
X = torch.randn(3, 5)
SIGNS = [(X.abs(),), (-X.abs(),), (X * 0,)]


def branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x + 1
    return x * 2


def nested(x: Tensor) -> Tensor:
    y = x
    if x.sum() > 0:
        if x.max() > 1:
            y = y * 3
        else:
            y = y - 1
    elif x.min() < -1:
        y = -y
    return y + 1


def early(x: Tensor) -> Tensor:
    y = x + 1
    if y.sum() > 20:
        return y * 2
    y = y - 3
    if y.sum() < -50:
        return y.abs()
    return y


def rank(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x.sum(dim=0)
    else:
        y = x.reshape(-1)[:5]
    return y * 2


def other_shape(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x.sum(dim=0)
    else:
        y = x
    return y * 2


def other_dtype(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x > 0.5
    else:
        y = x < -5
    return y.sum()


def numbers(x: Tensor) -> tuple[Tensor, int, float]:
    n = 0
    f = 1.5
    if x.sum() > 0:
        n = 3
        f = 2.5
    elif x.sum() < 0:
        n = -2
    return x * n + f, n, f


def while_loop(x: Tensor) -> Tensor:
    while x.abs().sum() > 1.0:
        x = x / 2
    return x


def while_count(x: Tensor) -> tuple[Tensor, int]:
    n = 0
    while bool(x.abs().sum() > 1.0) and n < 5:
        x = x / 2
        n += 1
    return x, n


def break_(x: Tensor) -> Tensor:
    for i in range(10):
        x = x * 1.5 + i
        if x.sum() > 30:
            break
    return x


def continue_(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for i in range(6):
        if x[0, 0] * i > 1:
            continue
        y = y + x * i
    return y


def return_in_loop(x: Tensor) -> Tensor:
    for _ in range(7):
        x = x + 0.5
        if x.sum() > 10:
            return x * 10
    return x


def break_in_while_true(x: Tensor) -> Tensor:
    n = 0
    while True:
        x = x + 1
        n += 1
        if x.sum() > 40 or n > 8:
            break
    return x


def over_tensor(x: Tensor) -> Tensor:
    y = torch.zeros(5)
    for row in x:
        y = y * 0.5 + row
    return y


def trips(x: Tensor, n: int) -> Tensor:
    y = x
    for i in range(n):
        y = y + x * i
    return y


def range_step(x: Tensor, n: int) -> Tensor:
    y = x
    for i in range(1, n, 3):
        y = y + x * i
    return y


def append(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for i in range(3):
        y = x
        if x.sum() > 0:
            y = x * i
        found.append(y)
    return torch.stack(found)


def in_place(x: Tensor) -> Tensor:
    y = x.clone()
    if x.sum() > 0:
        y += 1
        y[0] = 7.0
    else:
        y[:, 1:3].mul_(3)
    return y * 2


def in_place_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    v = y[1]
    w = y.t()
    if x.sum() > 0:
        v.add_(100)
    else:
        w[2] = -1.0
    return y, w + v[0]


def in_place_of_loop(x: Tensor, n: int) -> Tensor:
    y = torch.zeros(6, 5)
    for i in range(n):
        y[i] = x[0] * i
    return y


def in_place_twice(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    row = y[0]
    for _ in range(n):
        row += 1
        if row.sum() > 3:
            y[1] = row
    return y


def grows(x: Tensor, n: int) -> Tensor:
    y = x
    for _ in range(n):
        y = torch.cat([y, x], 0)
    return y


def grows_known(x: Tensor) -> Tensor:
    y = x
    for _ in range(3):
        y = torch.cat([y, x], 0)
    return y


def nested_loops(x: Tensor, n: int) -> Tensor:
    total = torch.zeros(3, 5)
    for i in range(n):
        for j in range(i):
            total = total + x * j
        if total.sum() > 100:
            total = total / 10
    return total


def raising(x: Tensor) -> Tensor:
    if x.sum() < -1000:
        raise ValueError("too small")
    return x * 2


def raising_else(x: Tensor) -> Tensor:
    if bool(x.sum() > -1000):
        y = x + 1
    else:
        raise RuntimeError("never")
    return y * 2


def asserting(x: Tensor) -> Tensor:
    assert x.sum() > -1000, "no"
    assert x.size(1) == 5
    return x + 1


def dicts(x: Tensor) -> Tensor:
    d: dict[str, Tensor] = {}
    if x.sum() > 0:
        d = {"a": x, "b": x + 1}
    else:
        d = {"a": x * 2, "b": x}
    return d["a"] + d["b"]


def tuples(x: Tensor) -> Tensor:
    t = (x, 1)
    if x.sum() > 0:
        t = (x + 1, 2)
    return t[0] * t[1]


def optional(x: Tensor) -> Tensor:
    y: Tensor | None = None
    if x.size(0) == 3:
        y = x * 2
    if y is not None:
        return y + 1
    return x


def and_or(x: Tensor) -> Tensor:
    if (bool(x.sum() > 0) and bool(x.max() > 0.5)) or bool(x.min() < -1):
        return x * 5
    return x


def ternary(x: Tensor) -> Tensor:
    n = 2.0 if x.sum() > 0 else -3.0
    return x * n


def item_arithmetic(x: Tensor) -> tuple[Tensor, int, float]:
    n = int(x.abs().sum().item())
    m = n * 2 + 1
    f = float(n) / 3
    if m % 2 == 1 and m // 3 > 2:
        f = f**2
    return x * f, m, f


def index_by_number(x: Tensor, i: int) -> Tensor:
    return x[:, i] + x[i - 1, 0]


def slice_by_number(x: Tensor, i: int) -> Tensor:
    return x[:, :i].sum(1) + x[:, i:].sum(1) * 2


def argmax_loop(x: Tensor) -> Tensor:
    tokens = torch.zeros(1, dtype=torch.long)
    scores = x
    for _ in range(4):
        best = scores.sum(0).argmax().reshape(1)
        tokens = torch.cat([tokens, best])
        scores = scores - torch.nn.functional.one_hot(best, 5).to(scores.dtype) * 100
    return tokens


def list_of_branches(x: Tensor) -> list[Tensor]:
    if x.sum() > 0:
        return [x, x + 1]
    return [x - 1, x]


def only_in_place(x: Tensor) -> Tensor:
    y = torch.ones(3)
    if x.sum() > 0:
        y.zero_()
    return y


def bool_carried(x: Tensor) -> Tensor:
    done = False
    n = 0
    while not done:
        x = x * 0.5
        n += 1
        done = bool(x.abs().max() < 0.1) or n > 10
    return x


def append_in_both(x: Tensor) -> Tensor:
    out: list[Tensor] = []
    if x.sum() > 0:
        out.append(x)
    else:
        out.append(x * 2)
    return torch.stack(out)


def set_in_loop(x: Tensor) -> Tensor:
    h = [x, x * 2]
    while h[0].sum() > 1:
        h[0] = h[0] * 0.5
        h[1] = h[1] + 1
    return h[0] + h[1]


def set_key_in_branch(x: Tensor) -> Tensor:
    h = {"a": x, "b": x + 1}
    if x.sum() > 0:
        h["a"] = h["b"] * 2
    return h["a"] + h["b"]


def changed_after_branch(x: Tensor) -> Tensor:
    y = x.clone()
    z = y
    if x.sum() > 0:
        z = y * 2
    z += 1
    return z


def view_after_branch(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    v = y[0]
    if x.sum() > 0:
        y += 1
    v *= 2
    return y, v


def branch_in_loop(x: Tensor) -> tuple[Tensor, int]:
    y = x.clone()
    n = 0
    while y.abs().sum() > 1:
        if y.sum() > 3:
            y[0] *= 0.5
            y[1] -= y[0]
        else:
            y *= 0.3
        n += 1
        if n > 20:
            break
    return y, n


def swapped(x: Tensor) -> tuple[Tensor, Tensor]:
    a = x
    b = x * 2
    while a.sum() > 1:
        a, b = b * 0.25, a
    return a, b


def maybe_longer(x: Tensor) -> Tensor:
    y = torch.zeros(0, 5)
    for i in range(3):
        if x[i].sum() > 0:
            y = torch.cat([y, x[i : i + 1]], 0)
    return y


def best_of(x: Tensor) -> Tensor:
    best: Tensor | None = None
    for i in range(3):
        s = x[i]
        if best is None:  # noqa: SIM114
            best = s
        elif s.sum() > best.sum():
            best = s
    assert best is not None
    return best


def type_of_rounds(x: Tensor) -> Tensor:
    y = torch.tensor(0)
    while y < 2:
        y = y + x.abs().sum() + 0.25
    return y


def changed_by_mask(x: Tensor) -> Tensor:
    y = x.clone()
    if x.sum() > 0:
        y[y > 0.5] = 9.0
    else:
        y[torch.tensor([0, 2])] = -1.0
    return y


ONE = [append_in_both, set_in_loop, set_key_in_branch, changed_after_branch, view_after_branch, branch_in_loop, swapped,
       maybe_longer, best_of, type_of_rounds, changed_by_mask,
       branch, nested, early, other_dtype, numbers, while_loop, while_count, break_, continue_, return_in_loop, rank,
       break_in_while_true, over_tensor, append, in_place, in_place_view, grows_known, raising, raising_else, asserting,
       dicts, tuples, optional, and_or, ternary, item_arithmetic, argmax_loop, list_of_branches, only_in_place,
       bool_carried, other_shape]  # fmt: skip
TRIPS = [trips, range_step, in_place_of_loop, in_place_twice, grows, nested_loops]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("function", ONE, ids=lambda f: f.__name__)
def test_conditions_of_tensors(function):
    same(function, *SIGNS)


@pytest.mark.parametrize("function", TRIPS, ids=lambda f: f.__name__)
def test_numbers_of_rounds(function):
    same(function, *((X, n) for n in (4, 0, 1, 5)))


@pytest.mark.parametrize("function", [index_by_number, slice_by_number], ids=lambda f: f.__name__)
def test_places_by_number(function):
    same(function, *((X, n) for n in (1, 2, 3)))


@pytest.mark.parametrize("function", [branch, rank, over_tensor, early, in_place], ids=lambda f: f.__name__)
def test_open_extents(function):
    same(function, *SIGNS, (torch.randn(4, 5),), dynamic_axes=[0])


def append_in_one(x: Tensor) -> Tensor:
    out: list[Tensor] = [x]
    if x.sum() > 0:
        out.append(x)
    return torch.stack(out).sum(0)


def changed_alias(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    z = y
    if x.sum() > 0:
        z = y * 2
    z += 1
    return z, y


def changed_and_replaced(x: Tensor) -> Tensor:
    y = x.clone()
    while y.sum() > 1:
        y -= 1
        y = y * 0.5
    return y


def chosen_text(x: Tensor) -> Tensor:
    m = "a" if x.sum() > 0 else "b"
    if m == "a":
        return x * 2
    return x * 3


@pytest.mark.parametrize(
    ("function", "said"),
    [(append_in_one, "a list of 2 and a list of 1"), (changed_alias, "may share its memory"),
     (changed_and_replaced, "in place"), (chosen_text, "'a' and 'b'")],
    ids=lambda c: getattr(c, "__name__", ""),
)  # fmt: skip
def test_refusals(function, said):
    with pytest.raises(UnsupportedError, match=said):
        converted(function, (X,))


def two_types(x: Tensor) -> Tensor:
    y = torch.tensor(0)
    if x.sum() > 0:
        y = x.sum()
    return y


def test_notices():
    model, _ = converted(two_types, (X,))
    assert any("one type" in n for n in model.notices)
    model, _ = converted(raising, (X,))
    assert any("too small" in n for n in model.notices)
