"""Times `minnow.numpy` and `minnow.expr` against numpy, in turns: single ops at once, and chains of ops as graphs.

    python bench/express.py [--size 1000000] [--rounds 60] [--threads 1]

Prints the ratio of the best times for each op (at most 1.2 is wanted, as numpy itself computes them), and how many
times faster chains of ten elementwise ops are than numpy (at least 3 is wanted): read as an array without a copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

import minnow.numpy as mnp
from minnow import expr

Function = Callable[[], Any]

AT_ONCE = {
    "add": lambda np, a, b: np.add(a, b),
    "a * b": lambda np, a, b: a * b,
    "a - 1.5": lambda np, a, b: a - np.float32(1.5),
    "divide": lambda np, a, b: np.divide(a, b),
    "maximum": lambda np, a, b: np.maximum(a, b),
    "greater": lambda np, a, b: np.greater(a, b),
    "where": lambda np, a, b: np.where(a > b, a, b),
    "exp": lambda np, a, b: np.exp(a),
    "log": lambda np, a, b: np.log(b),
    "sqrt": lambda np, a, b: np.sqrt(b),
    "tanh": lambda np, a, b: np.tanh(a),
    "sin": lambda np, a, b: np.sin(a),
    "power": lambda np, a, b: np.power(b, a),
    "clip": lambda np, a, b: np.clip(a, -1, 1),
    "sum": lambda np, a, b: np.sum(a),
    "mean": lambda np, a, b: np.mean(a),
    "argmax": lambda np, a, b: np.argmax(a),
    "std": lambda np, a, b: np.std(a),
    "cumsum": lambda np, a, b: np.cumsum(a, 0),
    "sort": lambda np, a, b: np.sort(a),
    "concatenate": lambda np, a, b: np.concatenate([a, b]),
    "reshape": lambda np, a, b: np.reshape(a, (1000, -1)),
    "transpose": lambda np, a, b: np.transpose(np.reshape(a, (1000, -1))),
    "a[::-1]": lambda np, a, b: a[::-1],
    "percentile": lambda np, a, b: np.percentile(a, 30),
}


def linear(np: Any, a: Any) -> Any:
    for _ in range(5):
        a = (a + np.float32(1.5)) * np.float32(0.5)
    return a


def mixed(np: Any, a: Any) -> Any:
    b = np.sqrt(np.abs(a) + np.float32(1))
    b = np.tanh(b * np.float32(0.5)) - a
    return np.maximum(b * b, np.float32(0.25)) / (np.float32(2) + b * b)


def gelu(np: Any, a: Any) -> Any:
    cube = a * a * a * np.float32(0.044715) + a
    return a * np.float32(0.5) * (np.tanh(cube * np.float32(0.79788)) + np.float32(1)) - a * np.float32(0.1)


def normalization(np: Any, a: Any) -> Any:
    b = (a - np.float32(0.45)) * np.float32(4.4)
    b = np.minimum(np.maximum(b, np.float32(-2)), np.float32(2))
    return np.exp(-b) * np.float32(0.25) + np.abs(b) * np.float32(0.5) - np.float32(1)


CHAINS = [linear, mixed, gelu, normalization]


def best(functions: list[Function], rounds: int) -> list[float]:
    """The best time of each function in milliseconds, taken in turns."""
    times = [[] for _ in functions]  # type: list[list[float]]
    for _ in range(rounds):
        for function, row in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            row.append(1e3 * (time.perf_counter() - start))
    return [min(row) for row in times]


class Plain:
    """numpy with its own functions, as the functions above call it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@click.command()
@click.option("--size", default=1_000_000, help="Number of floats.")
@click.option("--rounds", default=60, help="Number of turns.")
@click.option("--threads", default=0, help="Threads of the engine; 0: all.")
def main(size: int, rounds: int, threads: int) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=size).astype(np.float32)
    b = np.abs(rng.normal(size=size)).astype(np.float32) + np.float32(0.1)
    x, y = expr.Var.from_array(a), expr.Var.from_array(b)
    print(f"at once, {size:,} floats: ratio to numpy, ms of numpy")
    for name, op in AT_ONCE.items():
        plain, ours = best([lambda op=op: op(Plain(), a, b), lambda op=op: op(mnp, x, y)], rounds)  # type: ignore[misc]
        print(f"  {name:12} {ours / plain:6.2f}  {plain:8.3f}")
    if threads:
        expr.set_thread_number(threads)
    expr.lazy_eval(True)
    print("chains of 10 elementwise ops as graphs: times faster than numpy (kept graph; graph made anew), ms of numpy")
    for chain in CHAINS:
        source = expr.placeholder([size])
        kept = chain(mnp, source)

        def again(source: expr.Var = source, kept: expr.Var = kept) -> Any:
            source.write(a)
            return np.asarray(kept)

        def anew(chain: Any = chain) -> Any:
            return np.asarray(chain(mnp, x))

        np.testing.assert_allclose(again(), chain(Plain(), a), 1e-4, 1e-5)
        plain, ours, new = best([lambda chain=chain: chain(Plain(), a), again, anew], rounds)  # type: ignore[misc]
        print(f"  {chain.__name__:14} {plain / ours:6.2f} {plain / new:6.2f}  {plain:8.3f}")


if __name__ == "__main__":
    main()
