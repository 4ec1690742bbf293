"""What modules take and give: tuples, lists, dicts, numbers, nothing; the same tensor twice, inputs, constants."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_scripted import converted, same

import minnow
from minnow.converter.torch.program.child import dump
from minnow.converter.torch.program.script import program_of
from minnow.converter.torch.reader import translate
from minnow.schema.errors import MinnowError, UnsupportedError, UsageError

torch.manual_seed(8)
X, Y = torch.randn(3, 5), torch.randn(3, 5)


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def takes_tuple(p: tuple[Tensor, Tensor]) -> Tensor:
    a, b = p
    return a - b


def takes_nested(p: tuple[Tensor, tuple[Tensor, int]], k: float) -> Tensor:
    return p[0] + p[1][0] * p[1][1] * k


def takes_list(xs: list[Tensor]) -> Tensor:
    y = xs[0]
    for x in xs[1:]:
        y = y * 2 + x
    return y


def takes_dict(d: dict[str, Tensor], z: Tensor) -> Tensor:
    return d["b"] - d["a"] * 2 + z


def takes_list_of_tuples(xs: list[tuple[Tensor, Tensor]]) -> Tensor:
    return torch.stack([a - b for a, b in xs])


def takes_dict_of_lists(d: dict[str, list[Tensor]]) -> Tensor:
    return d["x"][0] + d["x"][1] * d["y"][0]


def takes_numbers(x: Tensor, i: int, f: float, c: bool) -> Tensor:
    return x * f + i if c else x - i


def takes_number_list(x: Tensor, sizes: list[int]) -> Tensor:
    return x.reshape(sizes)


def takes_named(p: Pair) -> Tensor:
    return p.first - p.second


class Defaults(nn.Module):
    def forward(self, x, i: int = 3, f: float = 0.5, c: bool = True, s: str = "a", y: Tensor | None = None):
        z = x * f + i if c else x
        if y is not None:
            z = z + y
        return z + len(s)


def gives_nested(x: Tensor) -> tuple[Tensor, tuple[Tensor, list[Tensor]], dict[str, Tensor]]:
    return x + 1, (x * 2, [x, x - 1]), {"a": x.sum(), "b": x}


def gives_nothing_too(x: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    y: Tensor | None = None
    return x + 1, y, x


def gives_numbers(x: Tensor) -> tuple[int, float, bool, Tensor]:
    return x.size(0), 1.5, x.dim() == 2, x * 2


def gives_number(x: Tensor) -> int:
    return int(x.sum().item() * 10)


def gives_twice(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x * 2
    return y, y, y.view(5, 3)


def gives_input(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return y, x


def gives_constant(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.arange(4), torch.ones(2, 3) * 2


def gives_changed_input(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    x *= 3
    return x, y


def gives_named(x: Tensor) -> Pair:
    return Pair(x + 1, x * 2)


def gives_dict(x: Tensor) -> dict[str, Tensor]:
    return {"scores": x.softmax(1), "input": x}


class Many(nn.Module):
    def forward(self, xs: list[Tensor], d: dict[str, Tensor], n: int, f: float = 2.0, y: Tensor | None = None):
        z = torch.cat(xs) * f + n
        if y is not None:
            z = z + y
        return {"out": z, "sum": d["k"].sum()}


CASES = [
    (takes_tuple, ((X, Y),)),
    (takes_nested, ((X, (Y, 3)), 0.5)),
    (takes_list, ([X, Y, X * 2],)),
    (takes_dict, ({"a": X, "b": Y}, X)),
    (takes_list_of_tuples, ([(X, Y), (Y, X)],)),
    (takes_dict_of_lists, ({"x": [X, Y], "y": [X + 1]},)),
    (takes_named, (Pair(X, Y),)),
    (takes_numbers, (X, 3, 0.25, True)),
    (takes_numbers, (X, 3, 0.25, False)),
    (Defaults(), (X,)),
    (gives_nested, (X,)),
    (gives_nothing_too, (X,)),
    (gives_numbers, (X,)),
    (gives_number, (X,)),
    (gives_twice, (X,)),
    (gives_input, (X, Y)),
    (gives_constant, (X,)),
    (gives_changed_input, (X,)),
    (gives_named, (X,)),
    (gives_dict, (X,)),
    (Many(), ([X, Y], {"k": X[0]}, 3)),
]


@pytest.mark.parametrize(("function", "args"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_whole(function, args):
    same(function, args)


def test_names():
    model, _ = converted(gives_nested, (X,))
    assert [n for n, _ in model.outputs] == ["output_0", "output_1.0", "output_1.1.0", "output_1.1.1", "output_2.a",
                                             "output_2.b"]  # fmt: skip
    model, _ = converted(gives_dict, (X,))
    assert [n for n, _ in model.outputs] == ["scores", "input"]
    model, _ = converted(takes_nested, ((X, (Y, 3)), 0.5))
    assert [n for n, _ in model.inputs] == ["p.0", "p.1.0", "p.1.1", "k"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "many.pt"
    torch.jit.script(Many().eval()).save(str(path))
    return path


@pytest.fixture(scope="module")
def document(path):
    return dump(str(path), io.BytesIO())


SHAPES = {"xs.0": (3, 5), "xs.1": (3, 5), "d.k": (4,)}


@pytest.mark.slow
def test_convert_with_numbers_and_optional(path, tmp_path):
    out = tmp_path / "many.mnn"
    minnow.convert(path, output=out, inputs={**SHAPES, "n": (7,), "y": (6, 5)})
    y = torch.randn(6, 5)
    given = {"xs.0": X.numpy(), "xs.1": Y.numpy(), "d.k": np.arange(4, dtype=np.float32), "y": y.numpy()}
    got = minnow.load(out).run(given)
    want = Many()([X, Y], {"k": torch.arange(4.0)}, 7, y=y)
    np.testing.assert_allclose(got["out"], want["out"].numpy(), rtol=1e-6)


def test_command(path, tmp_path):
    out = tmp_path / "many.mnn"
    options = ["--input", "xs.0=3x5", "--input", "xs.1=3x5", "--input", "d.k=4", "--input", "n=2"]
    command = [
        sys.executable,
        "-c",
        "from minnow.cli import main; main()",
        "convert",
        str(path),
        *options,
        "-o",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    given = {"xs.0": X.numpy(), "xs.1": Y.numpy(), "d.k": np.arange(4, dtype=np.float32)}
    np.testing.assert_allclose(minnow.load(out).run(given)["out"], torch.cat([X, Y]) * 2 + 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "error", "said"),
    [
        ({}, UsageError, "xs"),
        ({"xs.0": (3, 5)}, UsageError, "d"),
        ({**SHAPES, "nothing": (1,)}, UsageError, "nothing"),
        ({**SHAPES, "n": (1, 2)}, UsageError, "n"),
        ({**SHAPES, "xs.x": (1, 2)}, UsageError, "xs.x"),
        ({"xs.0": (3, 5), "xs.2": (3, 5), "d.k": (4,)}, UsageError, "xs"),
        ({"xs": (3, 5), "d.k": (4,)}, UsageError, "xs"),
    ],
)
def test_errors(path, document, inputs, error, said):
    with pytest.raises(error, match=said):
        translate(program_of(path, document, np.zeros(0, np.uint8), inputs), str(path), inputs)


def gives_text(x: Tensor) -> tuple[Tensor, str]:
    return x, "text"


def takes_text(x: Tensor, s: str) -> Tensor:
    return x + len(s)


def test_refusals():
    with pytest.raises(UnsupportedError, match="str"):
        converted(gives_text, (X,))
    with pytest.raises(MinnowError, match="'s'"):
        converted(takes_text, (X, "a"))


def test_damaged_file(tmp_path):
    import zipfile

    path = tmp_path / "bad.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bad/code/__torch__.py", "def f(")
        archive.writestr("bad/data.pkl", b"\x80\x02}.")
        archive.writestr("bad/version", "3")
    with pytest.raises(MinnowError, match="not as PyTorch writes it"):
        minnow.convert(path, output=tmp_path / "x.mnn")
