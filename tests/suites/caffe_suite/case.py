"""How cases are declared: what a net is fed, its layers, and who says what comes out.

    case("pad", f32(2, 3, 7, 9), layer("Convolution", "num_output: 5 kernel_size: 3 pad: 1", weight(5, 3, 3, 3)))(
        lambda x, w: F.conv2d(x, w, padding=1)
    )

The function gets the inputs and then the weights of all layers as torch tensors, and gives the outputs. Without one,
`opencv(...)` declares a case whose outputs are those of OpenCV's own reader of the same files. torch is imported when
the first function runs, so that tests can read the declarations without it.
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Judge = Callable[..., Any]

INPUTS = ("x", "y", "z", "w", "v")
"""Names of the inputs of a net, in order."""

FORMS = ("layer", "v1", "v0")
"""How layers are written: as Caffe 1 does, as `layers` with enumerated types, and as these with a layer inside."""


class _Module:
    """A module that is imported when it is used first."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


torch: Any = _Module("torch")
F: Any = _Module("torch.nn.functional")


@dataclass(frozen=True)
class Given:
    """Numbers of an input or a weight: how they are drawn, and their shape."""

    draw: Callable[[np.random.Generator], Array]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        params: text inside the parameter message of the type, unless it begins with such a message.
        bottoms, tops: blob names.
        encoding: how its weights are stored: "", "legacy" (num, channels, height, width), "double" or "half".
    """

    type: str
    params: str
    weights: tuple[Given, ...]
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    name: str = ""
    encoding: str = ""


@dataclass(frozen=True)
class Case:
    """One declaration.

    Attributes:
        judge: function from tensors to the outputs; None: OpenCV.
        form: of the layers, one of FORMS; head: of the inputs: "layer", "dims" (input_dim) or "shape" (input_shape).
        tolerance: allowed error, relative to the largest expected number.
        rows: the outputs are boxes found, in whatever order, with rows of zeros for those not found: each image, label,
            score, and the box.
        instead: layers for OpenCV to judge by, which mean the same in its words.
    """

    name: str
    inputs: tuple[Given, ...]
    layers: tuple[Layer, ...]
    judge: Judge | None
    form: str = "layer"
    head: str = "layer"
    tolerance: float = 1e-4
    rows: bool = False
    instead: tuple[Layer, ...] = ()
    family: str = ""
    expected: tuple[str, ...] = field(default=())

    @property
    def outputs(self) -> list[str]:
        """The blobs that no layer reads, by the order of their layers."""
        if self.expected:
            return list(self.expected)
        last: dict[str, int] = {}
        for i, made in enumerate(self.layers):
            last.update(dict.fromkeys(made.tops, i))
        read = {b for i, made in enumerate(self.layers) for b in made.bottoms if last.get(b, i) < i}
        return [t for t in last if t not in read]

    def arrays(self) -> dict[str, Array]:
        """What the inputs are given, by name."""
        return {n: _drawn(g, f"{self.name}/{n}") for n, g in zip(INPUTS, self.inputs, strict=False)}

    def weights(self) -> list[list[Array]]:
        """The weights of every layer."""
        return [
            [_drawn(g, f"{self.name}/{i}/{k}") for k, g in enumerate(made.weights)]
            for i, made in enumerate(self.layers)
        ]


CASES: dict[str, Case] = {}


def _drawn(given: Given, seed: str) -> Array:
    return given.draw(np.random.default_rng(zlib.crc32(seed.encode())))


def f32(*shape: int, low: float = -3.0, high: float = 3.0) -> Given:
    """An input of uniform numbers."""
    return Given(lambda rng: rng.uniform(low, high, shape).astype(np.float32), shape)


def weight(*shape: int, low: float = -1.0, high: float = 1.0) -> Given:
    """A weight of uniform numbers."""
    return f32(*shape, low=low, high=high)


def value(data: Any) -> Given:
    """These very numbers."""
    array = np.array(data, np.float32)
    return Given(lambda rng: array, array.shape)


def whole(*shape: int, low: int, high: int) -> Given:
    """Whole numbers from `low` up to, not including, `high`."""
    return Given(lambda rng: rng.integers(low, high, shape).astype(np.float32), shape)


def distinct(*shape: int) -> Given:
    """Numbers that all differ, and by more than a rounding error: for what depends on their order."""
    count = int(np.prod(shape))
    return Given(lambda rng: (rng.permutation(count).reshape(shape) / count * 6 - 3).astype(np.float32), shape)


def layer(
    type: str, params: str = "", *weights: Given, at: str = "x", to: str = "out", name: str = "", encoding: str = ""
) -> Layer:
    """A layer that reads the blobs `at` and gives the blobs `to`, names with blanks between."""
    return Layer(type, params, weights, tuple(at.split()), tuple(to.split()), name, encoding)


def case(name: str, *parts: Given | Layer, **options: Any) -> Callable[[Judge], Judge]:
    """Declares a case: inputs, then layers; see `Case` for the options."""

    def add(judge: Judge) -> Judge:
        declare(name, parts, judge, **options)
        return judge

    return add


def opencv(name: str, *parts: Given | Layer, **options: Any) -> None:
    """Declares a case that OpenCV judges."""
    declare(name, parts, None, **options)


def declare(name: str, parts: Sequence[Given | Layer], judge: Judge | None, **options: Any) -> None:
    """Adds a case."""
    assert name not in CASES, f"{name} is declared twice"
    inputs = tuple(p for p in parts if isinstance(p, Given))
    layers = [p for p in parts if isinstance(p, Layer)]
    assert options.get("form", "layer") in FORMS
    options["instead"] = _named(options.get("instead", ()))
    CASES[name] = Case(name, inputs, _named(layers), judge, family=_family, **options)


def _named(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    return tuple(replace(made, name=made.name or f"{made.type.lower()}{i}") for i, made in enumerate(layers))


_family = ""


def load_all() -> dict[str, Case]:
    """All cases by name: those of every family beside this module."""
    global _family
    package = __name__.rpartition(".")[0]
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if info.name not in ("case", "write", "judge", "generate") and not info.name.startswith("test_"):
            _family = info.name
            importlib.import_module(f"{package}.{info.name}")
    return CASES
