"""Calls the functions of `minnow.cv` with arguments of all kinds: each returns, or raises an error that says why.

    .venv/bin/python tests/fuzz/image_calls.py --calls 100000 [--seed 0] [--only findContours]

Most arguments fit the function, some are of another type, shape or size. A call that raises anything else than
an error of Minnow or TypeError (a wrong number of arguments) is printed, with what repeats it; so are slow calls.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import inspect
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import minnow.cv as cv
from minnow.errors import MinnowError, UsageError
from minnow.expr import Var
from minnow.expr.names import all_names

DTYPES = (
    *("uint8", "uint8", "uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float32", "float64", "bool"),
)
NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    8,
    -1,
    -2,
    7.5,
    0.5,
    255,
    1e-9,
    1e9,
    -(2**31),
    2**31,
    2**40,
    float("nan"),
    float("inf"),
    1e300,
)
CHOICES: dict[str, tuple[Any, ...]] = {
    "adaptivemethod": (0, 1),
    "blocksize": (3, 5, 7, 31),
    "bordermode": (0, 1, 2, 4),
    "bordertype": (0, 1, 2, 4),
    "code": tuple(range(cv.COLOR_COLORCVT_MAX)),
    "connectivity": (4, 8),
    "contouridx": (-1, 0, 1),
    "ddepth": (-1, -1, 5, 6),
    "dstcn": (0, 0, 3, 4),
    "dtype": (-1, 0, 5, 6),
    "dx": (0, 1, 2),
    "dy": (0, 1, 2),
    "ext": (".jpg", ".png", ".bmp", ".webp"),
    "flags": (0, 1, 2, 3, 4, 8, 16, 17),
    "flipcode": (-1, 0, 1),
    "interpolation": tuple(range(7)),
    "linetype": (4, 8, 16),
    "line_type": (4, 8, 16),
    "ltype": (2, 4),
    "maxlevel": (0, 1, 5),
    "method": (1, 2, 3, 4),
    "mode": (0, 1, 2, 3, 4),
    "norm_type": (1, 2, 4, 32),
    "op": tuple(range(8)),
    "shape": (0, 1, 2),
    "shift": (0, 0, 1, 4, 16),
    "thickness": (-1, 1, 1, 2, 5, 32767),
    "thresholdtype": (0, 1),
    "type": (*range(5), 8, 16, 9),
}
"""Values for parameters with these names, in small letters."""
SIDES = (0, 1, 2, 3, 4, 5, 7, 9, 16, 33)


class Arguments:
    """Random values for parameters, chosen by their names."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = "uint8"
        self.shape: tuple[int, ...] = (5, 7)
        self.wildness = 0.03

    def begin(self) -> None:
        """Another type and shape for the images of the next call, in which now and then nothing fits."""
        self.wildness = 0.5 if self.rng.random() < 0.2 else 0.03
        self.dtype = str(self.rng.choice(DTYPES))
        channels = int(self.rng.choice([0, 0, 1, 2, 3, 3, 4, 5]))
        height, width = (int(v) for v in self.rng.choice(SIDES, 2))
        self.shape = (height, width, channels) if channels else (height, width)

    def array(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Any:
        shape, dtype = shape or self.shape, dtype or self.dtype
        values = self.rng.normal(size=shape) * self.rng.choice([1, 100, 1e5])
        if self.rng.random() < 0.02:
            values = np.where(self.rng.random(shape) < 0.3, np.nan, values)
        with np.errstate(all="ignore"):
            result = values.astype(dtype)
        kind = self.rng.integers(0, 8)
        if kind == 0 and result.ndim > 1:
            result = np.repeat(result, 2, axis=1)[:, ::2]
        elif kind == 1:
            result = np.asfortranarray(result)
        elif kind == 2:
            result = result[::-1]
        elif kind == 3:
            result.flags.writeable = False
        elif kind == 5 and result.ndim > 1:
            result = result.swapaxes(0, 1)
        elif kind == 6 and result.ndim > 1:
            result = result[:, ::-1]
        elif kind == 4:
            try:
                return Var(result)
            except UsageError:
                return result
        return result

    def points(self) -> Any:
        shape = (int(self.rng.choice([0, 1, 2, 3, 4, 9])), int(self.rng.choice([2, 2, 2, 3])))
        if self.rng.random() < 0.5:
            shape = (shape[0], 1, shape[1])
        reach = self.rng.choice([5, 40, 1e6, 2e9])
        dtype = str(self.rng.choice(["int32", "int32", "float32", "int64"]))
        return (self.rng.uniform(-0.3, 1, shape) * reach).astype(dtype)

    def number(self) -> Any:
        return NUMBERS[self.rng.integers(len(NUMBERS))] if self.rng.random() < 0.15 else int(self.rng.integers(0, 20))

    def wild(self) -> Any:
        choices: tuple[Callable[[], Any], ...] = (
            lambda: None,
            lambda: "text",
            lambda: b"bytes",
            dict,
            lambda: object(),
            list,
            lambda: (),
            lambda: True,
            self.number,
            self.array,
            self.points,
            lambda: [self.points() for _ in range(3)],
            lambda: [[1, 2], [3]],
            lambda: self.array((2, 3, 4, 5)),
            lambda: self.array((3,)),
            lambda: self.array(()),
            lambda: [self.array(), self.array()],
            lambda: 1 << 40,
            lambda: np.array("text"),
            lambda: np.zeros((3, 3), complex),
            lambda: tuple(self.number() for _ in range(int(self.rng.integers(0, 6)))),
        )
        return choices[self.rng.integers(len(choices))]()

    def of(self, name: str) -> Any:
        """A value for the parameter of this name."""
        if self.rng.random() < self.wildness:
            return self.wild()
        lower = name.lower()
        if lower in CHOICES and self.rng.random() < 0.9:
            return CHOICES[lower][self.rng.integers(len(CHOICES[lower]))]
        if lower == "m" and self.rng.random() < 0.7:
            return self.rng.normal(size=(int(self.rng.choice([2, 3])), 3))
        if lower in ("pt1", "pt2", "center", "offset", "dsize", "dstsize", "size", "ksize", "anchor", "patchsize"):
            reach = 1 << int(self.rng.choice([1, 3, 5, 8]))
            return tuple(int(v) for v in self.rng.integers(0 if "size" in lower else -reach, 2 * reach, 2))
        if lower in ("map1", "map2", "dstmap1"):
            return self.array(self.shape[:2] + (2,) * int(self.rng.integers(0, 2)), "float32")
        if lower in ("src", "src1", "src2", "img", "image", "m", "array", "dst", "hist"):
            return self.array() if self.rng.random() < 0.9 else self.points()
        if lower in ("images", "mv"):
            return [self.array() for _ in range(int(self.rng.integers(0, 4)))]
        if lower in ("points", "contour"):
            return self.points()
        if lower in ("pts", "contours"):
            return [self.points() for _ in range(int(self.rng.integers(0, 4)))]
        if lower in ("color", "bordervalue", "mean", "norm", "ranges", "histsize", "channels"):
            return [self.number() for _ in range(int(self.rng.integers(1, 5)))]
        if lower == "mask":
            return self.array(self.shape[:2], "uint8") if self.rng.random() < 0.5 else None
        if lower.startswith("weights"):
            return self.array(self.shape[:2], "float32")
        if lower == "hierarchy":
            return self.rng.integers(-2, 4, (1, 3, 4)).astype(np.int32)
        if lower == "objectpoints":
            return self.rng.normal(size=(int(self.rng.integers(0, 9)), 3))
        if lower == "imagepoints":
            return self.rng.normal(size=(int(self.rng.integers(0, 9)), 2))
        if lower == "cameramatrix":
            return np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
        if lower == "distcoeffs":
            return self.rng.normal(size=int(self.rng.choice([4, 5, 8, 12, 14, 3])))
        if lower in ("rvec", "tvec"):
            return self.rng.normal(size=(3, 1))
        if lower == "box":
            return ((self.number(), self.number()), (self.number(), self.number()), self.number())
        if lower in ("kernel", "kernelx", "kernely", "element"):
            return self.array((int(self.rng.choice([1, 3, 5])),) * 2, str(self.rng.choice(["float32", "uint8"])))
        return self.number()


FITTING: dict[str, Callable[[Arguments], list[Any]]] = {
    "Rodrigues": lambda r: [r.array((3,) * int(r.rng.integers(1, 3)), "float64")],
    "calcHist": lambda r: [[r.array((9, 7, 2), "uint8")], [int(r.rng.integers(2))], None, [8], [0, 256]],
    "cvtColorTwoPlane": lambda r: [r.array((6, 8), "uint8"), r.array((3, 4, 2), "uint8"), int(r.rng.integers(90, 98))],
    "getAffineTransform": lambda r: [r.array((3, 2), "float32"), r.array((3, 2), "float32")],
    "getDerivKernels": lambda r: [1, int(r.rng.integers(2)), int(r.rng.choice([3, 5, 7]))],
    "getPerspectiveTransform": lambda r: [r.array((4, 2), "float32"), r.array((4, 2), "float32")],
    "imdecode": lambda r: [cv.imencode(str(r.rng.choice(CHOICES["ext"])), np.zeros((5, 7, 3), np.uint8))[1]],
    "sepFilter2D": lambda r: [r.array((6, 8), "uint8"), -1, np.ones(3), np.ones(5)],
    "solve": lambda r: [r.array((4, 4), "float64"), r.array((4, 2), "float64")],
}
"""First arguments of functions for which random ones hardly ever fit together."""


def arguments_of(function: Callable[..., Any], random: Arguments) -> list[Any]:
    random.begin()
    fitting = FITTING.get(function.__name__)
    values = fitting(random) if fitting and random.wildness < 0.5 else []
    for parameter in list(inspect.signature(function).parameters.values())[len(values) :]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            values += [random.of(n) for n in ("pt1", "pt2", "color", "thickness")[: int(random.rng.integers(1, 5))]]
            break
        if parameter.default is not parameter.empty and random.rng.random() < 0.4:
            break
        if parameter.default is None and random.rng.random() < 0.7:
            values.append(None)
            continue
        values.append(random.of(parameter.name))
    return values


def run(
    calls: int, seed: int, only: str = "", longest: float = math.inf
) -> tuple[list[str], dict[str, collections.Counter[str]]]:
    """What went wrong, and how the calls of each function ended. Calls of more than `longest` seconds are findings."""
    without = {"imread", "imwrite", "haveImageReader", "haveImageWriter", "setNumThreads"}  # files, and settings
    functions = [
        entry.value
        for entry in all_names("cv")
        if entry.callable and entry.name not in without and only in ("", entry.name)
    ]
    ended: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    findings = []
    for call in range(calls):
        function = functions[call % len(functions)]
        values = arguments_of(function, Arguments(seed * 1_000_003 + call))
        start, found = time.perf_counter(), ""
        try:
            with np.errstate(all="ignore"):
                function(*values)
            ended[function.__name__]["returned"] += 1
        except (MinnowError, TypeError) as error:
            ended[function.__name__][type(error).__name__] += 1
            if isinstance(error, TypeError) and "argument" not in str(error):
                found = repr(error)
        except Exception as error:  # noqa: BLE001  (that is a finding)
            found = repr(error)
        if (seconds := time.perf_counter() - start) > longest:
            found += f" {seconds:.1f} s"
        if found:
            findings.append(f"{function.__name__}, seed {seed}, call {call}: {found}\n  {values!r:.400}")
    return findings, ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="the name of one function")
    parser.add_argument("--longest", type=float, default=5, help="seconds that a call may take")
    options = parser.parse_args()
    faulthandler.enable()
    findings, ended = run(options.calls, options.seed, options.only, options.longest)
    lines = [*findings, *(f"{name:28} {dict(counts)}" for name, counts in sorted(ended.items()))]
    sys.stdout.write("\n".join([*lines, f"{options.calls} calls, {len(findings)} findings\n"]))
    raise SystemExit(len(findings) > 0)


if __name__ == "__main__":
    main()
