"""Inputs to compare on: seeded random values, with several sizes for dynamic dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from minnow.converter.inputs.dimension import computed, symbols_in
from minnow.converter.inputs.given import Inputs
from minnow.runtime.verify.source import compared_constants, looked_up
from minnow.schema.errors import StoppedError, UsageError
from minnow.schema.ir import UNKNOWN, DType, Model, TensorType
from minnow.schema.mnn import read_file
from minnow.schema.mnn.container import opened

Array = np.ndarray[Any, Any]

# Sizes tried for dynamic dimensions, most plausible first. Many models need multiples of 32, or an audio frame.
_BATCH = (1, 2)
_LENGTH = 8
"""Length of sequences; random integers are below it, since they may be positions."""
_LARGEST = 2**25
"""The largest number of elements of an input that is tried."""
PIXELS = 255.0
"""The largest value of a pixel."""
_SIZES = (64, 224, 96, 320, 576, 512, 288, 256, 128, 48, 32, 24, 16, 7, 1)


_PRIMES = (5, 7, 3, 11, 13)
_MOST_TRIES = 500
"""Candidates that are looked at for those that a runtime accepts."""

Result = TypeVar("Result")
Size = tuple[tuple[str, int], ...]


@dataclass
class Candidate:
    """Inputs for one run, and the sizes chosen for the symbols in their shapes."""

    inputs: dict[str, Any]
    symbols: dict[str, int]

    @property
    def size(self) -> Size:
        """The sizes, in an order of their own."""
        return tuple(sorted(self.symbols.items()))

    def scaled(self, factor: float) -> Candidate:
        """The same inputs with the floats multiplied by a factor."""
        return self.changed(lambda a: a * np.asarray(factor, a.dtype))

    def within(self, ranges: Mapping[str, tuple[float, float]]) -> Candidate:
        """The same inputs with the floats, which are in [0, 1), moved to these ranges."""
        moved = dict(self.inputs)
        for name, (low, high) in ranges.items():
            if isinstance(array := moved.get(name), np.ndarray) and DType.of(array.dtype).is_float:
                moved[name] = (low + (high - low) * array.astype(np.float64)).astype(array.dtype)
        return Candidate(moved, self.symbols)

    def changed(self, change: Callable[[Array], Array], bytes_too: bool = False) -> Candidate:
        """The same inputs with `change` applied to the floats and, with `bytes_too`, to 8-bit values divided by 255."""

        def of(array: Any) -> Any:
            if isinstance(array, list):
                return [of(a) for a in array]
            if array is None or array.size == 0:
                return array
            if DType.of(array.dtype).is_float:
                return change(array).astype(array.dtype)
            if bytes_too and array.dtype.kind in "iu" and array.dtype.itemsize == 1:
                return np.rint(PIXELS * change(array)).astype(np.uint8).view(array.dtype)
            return array

        return Candidate({n: of(v) for n, v in self.inputs.items()}, self.symbols)


@dataclass(frozen=True)
class _Input:
    """What is known about the values of an input."""

    container: str
    type: TensorType
    choices: Sequence[int]
    below: int

    @classmethod
    def of(cls, model: Model) -> dict[str, _Input]:
        found = {}
        for name, declared in model.user_inputs:
            container, type = opened(declared, name)
            choices = compared_constants(model.graph, name) if type.dtype.is_int else ()
            rows = looked_up(model.graph, name) if type.dtype.is_int else None
            found[name] = cls(container, type, choices, min(rows or _LENGTH, _LENGTH))
        return found

    def random(self, rng: np.random.Generator, shape: tuple[int, ...], turn: int, given: Sequence[int] = ()) -> Any:
        """A random array, or a list of arrays if the container is, or holds, a sequence."""
        what = (self.type.dtype, shape, given or self.choices, turn, self.below)
        if "sequence" not in self.container:
            return random_array(rng, *what)
        return [random_array(rng, *what) for _ in range(_LENGTH)]


def random_inputs(path: Path, given: Any = None, seed: int = 0) -> dict[str, Any]:
    """Random inputs for a .mnn file, with integers in the range of the tables that they index.

    Args:
        path: the file.
        given: shapes and element types of the inputs, as for `Inputs`. A dynamic dimension has the size 1, unless the
            shape of an input sets its symbol.
        seed: of the random numbers.

    Raises:
        UsageError: `given` names an input that the model does not have, or a type that differs from the model's.
    """
    inputs = _Input.of(read_file(path))
    said = Inputs.of(given).named(list(inputs))
    if unknown := sorted(set(said) - set(inputs)):
        raise UsageError(f"the model has no input '{unknown[0]}'", hint=f"its inputs: {', '.join(inputs)}")
    for name, one in said.items():
        one.check(name, inputs[name].type.dtype)
    shapes: dict[str, Sequence[Any]] = {name: one.shape for name, one in said.items() if one.shape is not None}
    rng = np.random.default_rng(seed)
    own = {name: i.type.shape or (UNKNOWN,) * len(shapes.get(name, ())) for name, i in inputs.items()}
    pairs = [pair for name, shape in shapes.items() for pair in zip(own[name], shape, strict=False)]
    numbers = {d: n for d, n in pairs if isinstance(n, int) and d != UNKNOWN}
    arrays = {}
    for name, info in inputs.items():
        asked = shapes.get(name, own[name])
        known = asked if len(asked) != len(own[name]) else map(_known, asked, own[name])
        shape = tuple(d if isinstance(d, int) else numbers.get(d, 1) for d in known)
        arrays[name] = info.random(rng, shape, seed)
    return arrays


def _known(given: Any, own: Any) -> Any:
    return own if given == UNKNOWN else given


def small_candidates(model: Model) -> Iterator[Candidate]:
    """As `candidates`, but with small sizes first, at first all different: fast, and swapped dimensions show."""
    return candidates(model, (0, 1), _small_assignments)


def candidates(
    model: Model, seeds: Sequence[int], assignments: Callable[[dict[str, bool]], Iterator[dict[str, int]]] | None = None
) -> Iterator[Candidate]:
    """Inputs in the order in which to try them, practically endless: the caller uses those that the source accepts.

    Args:
        model: the source model.
        seeds: one seed per comparison wanted.
        assignments: gives sizes for the symbols, from a mapping that says for each whether it looks like a batch.
    """
    inputs = _Input.of(model)
    symbols = _symbols({name: info.type for name, info in inputs.items()})
    cached = _cache_symbols(symbols) is not None
    for k, chosen in enumerate((assignments or _assignments)(symbols)):
        sizes = _within(model.ranges, chosen)
        for seed in seeds:
            rng = np.random.default_rng([seed, k])
            arrays = {}
            for name, info in inputs.items():
                shape = tuple(
                    d if isinstance(d, int) else sizes[_key(name, i, d)] for i, d in enumerate(info.type.shape or ())
                )
                # The mask of a decoder with a cache counts its tokens: all of them.
                given = (1,) if cached and "mask" in name.lower() else ()
                if math.prod(shape) > _LARGEST:
                    break
                arrays[name] = info.random(rng, shape, seed, given)
            else:
                yield Candidate(arrays, dict(sizes))


@dataclass
class Search(Generic[Result]):
    """Candidates that a runtime accepts, each with what it gives for them.

    Attributes:
        model, seeds: as for `candidates`.
        run: runs the candidate, or raises one of `refusals`. Sizes that were refused once are not tried again.
        done: sizes that are not wanted any more; the caller may add to it.
        refused: the last refusal, for a message.
    """

    model: Model
    seeds: Sequence[int]
    run: Callable[[Candidate], Result]
    refusals: tuple[type[Exception], ...] = (RuntimeError,)
    done: set[Size] = field(default_factory=set)
    refused: Exception | None = None

    def __iter__(self) -> Iterator[tuple[Candidate, Result]]:
        impossible: set[Size] = set()
        for k, candidate in enumerate(candidates(self.model, self.seeds)):
            if k >= _MOST_TRIES:
                return
            if candidate.size in self.done or candidate.size in impossible:
                continue
            try:
                result = self.run(candidate)
            except StoppedError:
                raise
            except self.refusals as e:
                self.refused = e
                impossible.add(candidate.size)
                continue
            yield candidate, result


def _within(ranges: Mapping[str, tuple[int, int | None]], chosen: Mapping[str, int]) -> dict[str, int]:
    """The sizes as the source accepts them: within its ranges, and computed where a symbol is a formula of others."""
    numbers = dict(chosen)
    for name in chosen:
        for symbol in symbols_in(name):
            numbers.setdefault(symbol, chosen[name])
    for symbol, (low, high) in ranges.items():
        if symbol in numbers:
            numbers[symbol] = max(low, min(numbers[symbol], numbers[symbol] if high is None else high))
    return {name: max(computed(name, numbers) or 0, 0) if symbols_in(name) else numbers[name] for name in chosen}


def random_array(
    rng: np.random.Generator,
    dtype: DType,
    shape: tuple[int, ...],
    choices: Sequence[int] = (),
    turn: int = 0,
    below: int = _LENGTH,
) -> Array:
    """Uniform floats in [0, 1), any 8-bit values, integers below `below` (or one of `choices` in turn), booleans."""
    if dtype is DType.BOOL:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype.is_float:
        return np.asarray(rng.random(shape)).astype(dtype.numpy)
    if dtype in (DType.I8, DType.U8) and not choices:
        # Pixels or quantized values, not indices.
        return np.asarray(rng.integers(0, 256, shape, np.uint8)).view(dtype.numpy)
    if choices:
        return np.full(shape, choices[turn % len(choices)], dtype.numpy)
    return np.asarray(rng.integers(0, below, shape)).astype(dtype.numpy)


def _key(name: str, axis: int, dim: Any) -> str:
    # Dimensions without a name are independent of each other.
    return f"{name}[{axis}]" if dim == UNKNOWN else str(dim)


def _symbols(types: Mapping[str, TensorType]) -> dict[str, bool]:
    """For each symbol whether it looks like a batch: it is the first dimension of an input of rank 2 or more."""
    found: dict[str, bool] = {}
    for name, type in types.items():
        for axis, dim in enumerate(type.shape or ()):
            if not isinstance(dim, int):
                key = _key(name, axis, dim)
                named_batch = "batch" in key.lower() or key.upper() in ("N", "B")
                first = axis == 0 and len(type.shape or ()) > 1
                found[key] = found.get(key, False) or named_batch or first
    return found


def _cache_symbols(symbols: Mapping[str, bool]) -> tuple[str, str] | None:
    """The symbols for the past tokens of a decoder and for all of its tokens, by the names that exporters use."""
    past, total = ([s for s in symbols if word in s.lower()] for word in ("past", "total"))
    total += [s for s in past if "+" in s or "total" in s.lower()]
    past = [s for s in past if s not in total]
    return (past[0], total[0]) if len(past) == 1 and len(set(total)) == 1 else None


def _assignments(symbols: Mapping[str, bool]) -> Iterator[dict[str, int]]:
    """Sizes for all symbols: first all that are not a batch vary together, then fewer and fewer of them."""
    if not symbols:
        yield {}
        return
    if names := _cache_symbols(symbols):
        past, total = names
        for old, new in ((3, 1), (0, 5)):  # a token after others, and all tokens of a text at once
            sizes = {s: 1 if is_batch else new for s, is_batch in symbols.items()}
            yield sizes | {past: old, total: old + new}
    free = [s for s, is_batch in symbols.items() if not is_batch]
    for n in reversed(range(len(free) + 1)):
        for varying in combinations(free, n):
            for batch in _BATCH:
                for size in _SIZES if varying else (1,):
                    yield {s: size if s in varying else batch for s in symbols}
    # Symbols that must not be equal: each has a size of its own.
    yield {s: 1 if is_batch else _SIZES[i % 4] for i, (s, is_batch) in enumerate(symbols.items())}


def _small_assignments(symbols: Mapping[str, bool]) -> Iterator[dict[str, int]]:
    """Sizes for all symbols: different primes; all 1; and then the same size for all, in ascending order."""
    if symbols and _cache_symbols(symbols) is None:
        free = [s for s, is_batch in symbols.items() if not is_batch]
        yield {s: _PRIMES[free.index(s) % len(_PRIMES)] if s in free else 2 for s in symbols}
        yield dict.fromkeys(symbols, 1)
        for size in sorted(_SIZES):
            yield {s: 1 if is_batch else size for s, is_batch in symbols.items()}
    yield from _assignments(symbols)
