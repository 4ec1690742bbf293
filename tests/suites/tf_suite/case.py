"""How cases are declared: a body of TensorFlow, the inputs it is given, and the kinds of files made of it.

    @case("conv2d_same_stride2_odd", [f32(1, 7, 9, 3)], also="int8 half")
    def _(x):
        return tf.nn.conv2d(x, weight(3, 3, 3, 5), 2, "SAME")

TensorFlow is imported when the first body runs, so that tests can read the declarations without it.
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Body = Callable[..., Any]

KINDS = {
    "tf": "pb",  # a tf.function, its variables frozen: control flow is functional (While, If, PartitionedCall)
    "v1": "pb",  # the same with control flow lowered: Switch, Merge, Enter, Exit, NextIteration
    "graph": "pb",  # built in a tf.Graph as TensorFlow 1 did
    "saved": "saved",  # a SavedModel with its variables
    "builtin": "tflite",  # written op by op: the body says which, with what
    "lite": "tflite",  # float
    "half": "tflite",  # weights in float16
    "dynamic": "tflite",  # weights in int8, quantized while they are computed with
    "int8": "tflite",  # all integers, inputs and outputs too
    "uint8": "tflite",  # the same with uint8 at inputs and outputs
    "int8_float": "tflite",  # the same with float at inputs and outputs
    "int16": "tflite",  # activations in int16, weights in int8
}
"""Kinds of files, with their suffixes."""


class _TensorFlow:
    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("tensorflow"), name)


tf: Any = _TensorFlow()


@dataclass(frozen=True)
class Given:
    """An input: how its values are drawn, and the shape that the model declares for it (None: an open extent)."""

    draw: Callable[[np.random.Generator], Array]
    declared: tuple[int | None, ...] | None = None
    ranked: bool = True

    def open(self, *shape: int | None) -> Given:
        """The same with extents that the model leaves open."""
        return replace(self, declared=shape)

    def unranked(self) -> Given:
        return replace(self, ranked=False)

    def spec(self, name: str) -> Any:
        array = self.draw(np.random.default_rng(0))
        shape = self.declared if self.declared is not None else array.shape
        return tf.TensorSpec(shape if self.ranked else None, array.dtype, name)


def _floats(dtype: Any) -> Callable[..., Given]:
    def make(*shape: int, low: float = -3.0, high: float = 3.0) -> Given:
        return Given(lambda rng: rng.uniform(low, high, shape).astype(dtype))

    return make


def _integers(dtype: Any, low: int, high: int) -> Callable[..., Given]:
    def make(*shape: int, low: int = low, high: int = high) -> Given:
        """Values from `low` up to, not including, `high`."""
        return Given(lambda rng: rng.integers(low, high, shape).astype(dtype))

    return make


f16, f32, f64 = map(_floats, (np.float16, np.float32, np.float64))
i8 = _integers(np.int8, -100, 100)
i16 = _integers(np.int16, -1000, 1000)
i32 = _integers(np.int32, -50, 50)
i64 = _integers(np.int64, -50, 50)
u8 = _integers(np.uint8, 0, 255)
boolean = _integers(np.bool_, 0, 2)


def value(data: Any, dtype: Any = np.float32) -> Given:
    """An input with these very values."""
    return Given(lambda rng: np.array(data, dtype))


@dataclass
class Case:
    """One declaration.

    Attributes:
        kinds: of files to make of it.
        makes: the body takes no tensors, it gives what is to be called with them: a layer, or a tf.Module.
        steps: how often the model runs, each time with other inputs; what it keeps in variables lives on.
        tolerance: allowed error of floats, relative to the largest expected number.
    """

    name: str
    body: Body
    inputs: Sequence[Given]
    kinds: tuple[str, ...]
    makes: bool = False
    steps: int = 1
    tolerance: float = 1e-4

    def arrays(self, step: int = 0) -> list[Array]:
        """What the inputs are given."""
        return [g.draw(_generator(f"{self.name}/{i}/{step}")) for i, g in enumerate(self.inputs)]

    def build(self) -> Body:
        """The function of tensors, its weights the same in every process."""
        global _weights
        _weights = _generator(self.name)
        return self.body() if self.makes else self.body


CASES: dict[str, Case] = {}
_weights = np.random.default_rng(0)


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def case(
    name: str,
    inputs: Sequence[Given] = (),
    *,
    kinds: str = "tf lite",
    also: str = "",
    makes: bool = False,
    steps: int = 1,
    tolerance: float = 1e-4,
) -> Callable[[Body], Body]:
    """Declares a case: see `Case`; `also` adds kinds to the usual ones."""

    def add(body: Body) -> Body:
        assert name not in CASES, f"{name} is declared twice"
        chosen = tuple(dict.fromkeys((kinds + " " + also).split()))
        assert set(chosen) <= set(KINDS), chosen
        CASES[name] = Case(name, body, inputs, chosen, makes, steps, tolerance)
        return body

    return add


def weight(*shape: int, low: float = -1.0, high: float = 1.0, dtype: Any = np.float32) -> Array:
    """Numbers for a constant of the case that is being built."""
    return _weights.uniform(low, high, shape).astype(dtype)


def load_all() -> dict[str, Case]:
    """All cases by name: those of every family beside this module."""
    package = __name__.rpartition(".")[0]
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if info.name not in ("generate", "make", "case", "judge", "test_tf_suite"):
            importlib.import_module(f"{package}.{info.name}")
    return CASES


def identities(cases: dict[str, Case]) -> Iterator[tuple[str, Case, str]]:
    """(name.kind, case, kind) of every file to make."""
    for c in cases.values():
        for kind in c.kinds:
            yield f"{c.name}.{kind}", c, kind
