"""Inputs to compare on: seeded random numbers, several sizes for symbolic dims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter.inputs.extent import computed, symbols_in
from minnow.converter.inputs.given import Inputs
from minnow.runtime.verify.source import compared_constants, looked_up
from minnow.schema.errors import UsageError
from minnow.schema.ir import UNKNOWN, DType, Model, TensorType
from minnow.schema.mnn import read_file
from minnow.schema.mnn.container import opened

Array = np.ndarray[Any, Any]

# Extents tried for symbolic dims, most plausible first. Models often want multiples of 32, or a frame of sound.
_BATCH = (1, 2)
_LENGTH = 8
"""Of sequences: random integers, which may be positions, are below it."""
_LARGEST = 2**25
"""Elements of an input: more than this is none of a size that anybody would give."""
PIXELS = 255.0
"""The largest number of a pixel."""
_EXTENTS = (64, 224, 96, 320, 576, 512, 288, 256, 128, 48, 32, 24, 16, 7, 1)


_PRIMES = (5, 7, 3, 11, 13)


@dataclass
class Candidate:
    """Inputs for one run, and what was chosen for the symbols in their shapes."""

    inputs: dict[str, Any]
    symbols: dict[str, int]

    def scaled(self, factor: float) -> Candidate:
        """The same with float inputs in [0, factor)."""
        return self.changed(lambda a: a * np.asarray(factor, a.dtype))

    def changed(self, change: Callable[[Array], Array], bytes_too: bool = False) -> Candidate:
        """The same with the numbers of floats as a function makes them, which gets those of bytes as shares of 255."""

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
    """What is known about the numbers that an input takes."""

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
        """A random array, or a list of a few where the container is, or holds, a sequence."""
        what = (self.type.dtype, shape, given or self.choices, turn, self.below)
        if "sequence" not in self.container:
            return random_array(rng, *what)
        return [random_array(rng, *what) for _ in range(_LENGTH)]


def random_inputs(path: Path, given: Any = None, seed: int = 0) -> dict[str, Any]:
    """Random inputs for a .mnn file, which its lookups and comparisons accept.

    Args:
        path: the file.
        given: what is said of the inputs, as `Inputs` takes it. An open extent is 1, unless the shape of an input gives
            the number for its name.
        seed: of the random numbers.

    Raises:
        UsageError: something is given for an input that the model does not have, or another type than it has.
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
    """As `candidates`, the least extents first, and at first no two alike: for what is slow, and to show mix-ups."""
    return candidates(model, (0, 1), _small_assignments)


def candidates(
    model: Model, seeds: Sequence[int], assignments: Callable[[dict[str, bool]], Iterator[dict[str, int]]] | None = None
) -> Iterator[Candidate]:
    """Inputs in the order in which to try them, without end in practice: the caller takes what the source accepts.

    Args:
        model: the source model.
        seeds: one seed per comparison wanted.
        assignments: extents for the symbols, of which it is said whether each looks like a batch.
    """
    inputs = _Input.of(model)
    symbols = _symbols({name: info.type for name, info in inputs.items()})
    cached = _cache_symbols(symbols) is not None
    for k, chosen in enumerate((assignments or _assignments)(symbols)):
        extents = _within(model.ranges, chosen)
        for seed in seeds:
            rng = np.random.default_rng([seed, k])
            arrays = {}
            for name, info in inputs.items():
                shape = tuple(
                    d if isinstance(d, int) else extents[_key(name, i, d)] for i, d in enumerate(info.type.shape or ())
                )
                # The mask of a decoder with a cache counts its tokens: all of them.
                given = (1,) if cached and "mask" in name.lower() else ()
                if math.prod(shape) > _LARGEST:
                    break
                arrays[name] = info.random(rng, shape, seed, given)
            else:
                yield Candidate(arrays, dict(extents))


def _within(ranges: Mapping[str, tuple[int, int | None]], chosen: Mapping[str, int]) -> dict[str, int]:
    """The extents as the source takes them: in its ranges, and computed where their names are formulas of others."""
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
    """Uniform floats in [0, 1), bytes, integers from 0 to `below` (or one of `choices` in turn), coin flips."""
    if dtype is DType.BOOL:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype.is_float:
        return np.asarray(rng.random(shape)).astype(dtype.numpy)
    if dtype in (DType.I8, DType.U8) and not choices:
        # Pixels, or numbers that stand for others: no places.
        return np.asarray(rng.integers(0, 256, shape, np.uint8)).view(dtype.numpy)
    if choices:
        return np.full(shape, choices[turn % len(choices)], dtype.numpy)
    return np.asarray(rng.integers(0, below, shape)).astype(dtype.numpy)


def _key(name: str, axis: int, dim: Any) -> str:
    # Unknown dims have no name that could tie them together.
    return f"{name}[{axis}]" if dim == UNKNOWN else str(dim)


def _symbols(types: Mapping[str, TensorType]) -> dict[str, bool]:
    """Symbol -> it looks like a batch: it stands first in some input of rank 2 and more."""
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
    """The symbols for the tokens that a decoder has seen, and for all of them, by what exporters call them."""
    past, total = ([s for s in symbols if word in s.lower()] for word in ("past", "total"))
    total += [s for s in past if "+" in s or "total" in s.lower()]
    past = [s for s in past if s not in total]
    return (past[0], total[0]) if len(past) == 1 and len(set(total)) == 1 else None


def _assignments(symbols: Mapping[str, bool]) -> Iterator[dict[str, int]]:
    """Extents for all symbols: first all that are no batch vary together, then fewer and fewer of them."""
    if not symbols:
        yield {}
        return
    if names := _cache_symbols(symbols):
        past, total = names
        for old, new in ((3, 1), (0, 5)):  # a token after others, and all tokens of a text at once
            extents = {s: 1 if is_batch else new for s, is_batch in symbols.items()}
            yield extents | {past: old, total: old + new}
    free = [s for s, is_batch in symbols.items() if not is_batch]
    for n in reversed(range(len(free) + 1)):
        for varying in combinations(free, n):
            for batch in _BATCH:
                for extent in _EXTENTS if varying else (1,):
                    yield {s: extent if s in varying else batch for s in symbols}
    # Symbols that must not agree: each has an extent of its own.
    yield {s: 1 if is_batch else _EXTENTS[i % 4] for i, (s, is_batch) in enumerate(symbols.items())}


def _small_assignments(symbols: Mapping[str, bool]) -> Iterator[dict[str, int]]:
    """Extents for all symbols: primes, each of its own; all 1; and then one extent for all, as small as it may be."""
    if symbols and _cache_symbols(symbols) is None:
        free = [s for s, is_batch in symbols.items() if not is_batch]
        yield {s: _PRIMES[free.index(s) % len(_PRIMES)] if s in free else 2 for s in symbols}
        yield dict.fromkeys(symbols, 1)
        for extent in sorted(_EXTENTS):
            yield {s: 1 if is_batch else extent for s, is_batch in symbols.items()}
    yield from _assignments(symbols)
