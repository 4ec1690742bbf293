"""Calls all names of `minnow.expr` and `minnow.numpy` with arguments of any kind: they give a result or a known error.

    python tests/express/fuzz_express.py [--calls 100000] [--seed 0]

Arguments are arrays of all types, not contiguous ones, empty ones, Vars of all states, numbers, nested lists, names,
functions. Allowed are the errors of `minnow.errors`, TypeError for a wrong number of arguments, and MemoryError.
"""

from __future__ import annotations

import argparse
import random
import resource
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from minnow import expr
from minnow.errors import InternalError, MinnowError
from minnow.expr import Var
from minnow.expr.names import Name, all_names

LEFT_OUT = {
    "save",
    "lazy_eval",
    "set_thread_number",
    "set_global_executor_config",
    "set_lazy_mode",
    "fromfile",
    "loadtxt",
}
"""They write files or change the process."""

DTYPES = ["f4", "f8", "f2", "i4", "i8", "i2", "i1", "u1", "u2", "u8", "?", ">f4", "c8", "U3", "O", "M8[s]"]


def shape_of(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice([0, 1, 1, 2, 2, 3, 4, 5]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 4])))


def array_of(rng: random.Random) -> np.ndarray[Any, Any]:
    dtype = rng.choice(DTYPES if rng.random() < 0.2 else DTYPES[:8])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape = shape_of(rng)
        made = np.random.default_rng(rng.getrandbits(32)).normal(size=shape) * rng.choice([1, 3, 100, 1e9])
        array = np.asarray(made).astype(dtype) if dtype not in ("U3", "O", "M8[s]") else np.zeros(shape, dtype)
    if array.ndim and rng.random() < 0.3:
        array = array[..., ::-1] if rng.random() < 0.5 else array.T
    return array


def var_of(rng: random.Random) -> Var:
    if rng.random() < 0.2:
        x = expr.placeholder(shape_of(rng), rng.choice([expr.NCHW, expr.NHWC, expr.NC4HW4]))
        if rng.random() < 0.7:
            x.write(np.ones(x.shape, np.float32))
        return x + 1 if rng.random() < 0.5 else x
    while True:
        try:
            return Var.from_array(array_of(rng), rng.choice([expr.NCHW, expr.NHWC, expr.NC4HW4]))
        except MinnowError:
            continue


def argument(rng: random.Random, depth: int = 0) -> Any:
    kinds: list[Callable[[], Any]] = [
        *[lambda: var_of(rng)] * 6,
        *[lambda: array_of(rng)] * 2,
        *[lambda: rng.choice([0, 1, -1, 2, 3, 7, -5, 2**31, 2**63, 2**70])] * 3,
        lambda: rng.choice([0.0, 0.5, -1.5, 1e30, float("nan"), float("inf")]),
        lambda: rng.choice([True, False, None, "text", "", "float32", b"bytes", object(), 1j, {}, {1: 2}, print]),
        lambda: rng.choice([expr.NHWC, expr.VALID, expr.float, expr.int, np.float64, np.dtype("i8"), expr.REFLECT]),
        lambda: rng.choice([slice(None), Ellipsis, slice(1, None, -1), lambda *a: a[0] if a else 1, range(3)]),
    ]
    if depth < 2:
        kinds += [lambda: [argument(rng, depth + 1) for _ in range(rng.choice([0, 1, 2, 2, 3, 4]))]] * 2
        kinds += [lambda: [rng.choice([0, 1, 2, 3, -1]) for _ in range(rng.choice([1, 2, 2, 3, 4]))]] * 3
        kinds += [lambda: tuple(argument(rng, depth + 1) for _ in range(rng.choice([0, 1, 2])))]
    return rng.choice(kinds)()


OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: b - a, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a // b,
    lambda a, b: a % b, lambda a, b: a**b, lambda a, b: a & b, lambda a, b: a == b, lambda a, b: a < b,
    lambda a, b: a @ b, lambda a, b: a[b], lambda a, b: a.write(b), lambda a, b: a.reshape(b), lambda a, b: a.astype(b),
    lambda a, b: a.__setitem__(b, 1), lambda a, b: a.replace(b), lambda a, b: a.resize(b), lambda a, b: len(a),
    lambda a, b: a.set_inputs(b), lambda a, b: a.copy_from(b), lambda a, b: a.item(b), lambda a, b: list(a),
    lambda a, b: Var(b), lambda a, b: a.set_order(b), lambda a, b: a.reorder(b), lambda a, b: a.fill(b),
]  # fmt: skip


def used(result: Any) -> None:
    """Reads what came out, unless it waits for a placeholder."""
    for value in result if isinstance(result, (list, tuple)) else [result]:
        if isinstance(value, Var):
            repr(value)
            if value._is_known():
                value.read()
                assert value.shape == list(np.asarray(value).shape)


@contextmanager
def little_memory() -> Iterator[None]:
    """A gigabyte more than there is now: what asks for more is refused, not killed."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def targets() -> list[Name]:
    return [
        e
        for p in ("expr", "numpy")
        for e in all_names(p)
        if e.callable and not isinstance(e.value, type) and e.name not in LEFT_OUT
    ]


def call(rng: random.Random, names: list[Name]) -> str:
    """One random call. Gives what it was; raises what is not an error of ours."""
    is_lazy = rng.random() < 0.4
    expr.lazy_eval(is_lazy)
    args = [argument(rng) for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 5]))]
    text = ""
    try:
        if rng.random() < 0.25:
            number = rng.randrange(len(OPERATORS))
            text = f"operator {number} {args[:1]!r:.300}"
            used(OPERATORS[number](var_of(rng), args[0]))
        else:
            entry = rng.choice(names)
            text = f"{entry.ours}({', '.join(f'{a!r:.200}' for a in args)})"
            used(entry.value(*args))
    except InternalError as error:
        raise AssertionError(f"{text}: {error!r}") from error
    except (MinnowError, TypeError, MemoryError):
        pass
    except Exception as error:
        raise AssertionError(f"lazy {is_lazy}: {text}: {error!r}") from error
    finally:
        expr.lazy_eval(False)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    names = targets()
    warnings.simplefilter("ignore")
    found: dict[str, str] = {}
    for i in range(chosen.calls):
        try:
            with little_memory():
                call(random.Random(chosen.seed * 10_000_000 + i), names)
        except AssertionError as error:
            text = str(error)
            key = text.partition("(")[0] + text[-60:]
            if key not in found:
                found[key] = text
                print(chosen.seed * 10_000_000 + i, text[:700], flush=True)  # noqa: T201
    print(f"{chosen.calls} calls, {len(found)} kinds of findings")  # noqa: T201
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
