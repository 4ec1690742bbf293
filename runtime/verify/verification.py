"""Runs source and converted file on the same inputs and compares every output."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from minnow.runtime.verify.burden import check_burden
from minnow.runtime.verify.comparison import OutputComparison, compare, compare_random
from minnow.runtime.verify.samples import Candidate, candidates
from minnow.runtime.verify.source import Source, TwoRuns, coarse_outputs, open_source, random_outputs, rounded_outputs
from minnow.schema.errors import MinnowError, UsageError
from minnow.schema.ir import TensorType
from minnow.schema.mnn.container import flat, gathered, opened

Array = np.ndarray[Any, Any]

_MAX_TRIES = 500

# Range of inputs to fall back to, that of pixels: models that normalize what they see are ill-conditioned on inputs
# that hardly differ from one another.
_PIXELS = 255.0

_NEARLY = (1 + 1e-6, 1 - 1e-6, 1 + 4e-6)
"""Factors that move inputs by about as much as sums in another order move results."""
_MANY_STEPS, _MOST_NOISE = 4.0, 0.1
"""What an output behind a rounding may differ by, in steps of the source; a source that moves by more judges nobody."""


@dataclass
class Case:
    """One run of both models.

    Attributes:
        shapes: input shapes. outputs: one comparison each.
        error: message of the converted model's error where it did not run.
    """

    shapes: dict[str, tuple[int, ...]]
    outputs: list[OutputComparison] = field(default_factory=list)
    error: str = ""

    @property
    def passed(self) -> bool:
        return not self.error and bool(self.outputs) and all(o.passed for o in self.outputs)


@dataclass
class Verification:
    """The outcome: all cases, and the verdict. Comparing nothing is a failure."""

    source: str
    target: str
    reference: str
    cases: list[Case] = field(default_factory=list)
    note: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.cases) and all(c.passed for c in self.cases)

    @property
    def worst(self) -> dict[str, OutputComparison]:
        """Per output the comparison that needs the largest tolerance."""
        table: dict[str, OutputComparison] = {}
        for case in self.cases:
            for o in case.outputs:
                if o.name not in table or o.needed > table[o.name].needed:
                    table[o.name] = o
        return table

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {**asdict(self), "passed": self.passed}

    def __str__(self) -> str:
        runs = f"{len(self.cases)} run{'s' if len(self.cases) != 1 else ''}"
        shapes = dict.fromkeys(", ".join(f"{n}{list(s)}" for n, s in c.shapes.items()) for c in self.cases)
        rows = [f"{'PASS' if self.passed else 'FAIL'}  {runs} against {self.reference}: {'; '.join(shapes)}"]
        rows += [f"  {o}" for o in self.worst.values()]
        rows += [f"  FAIL  {c.error}" for c in self.cases if c.error]
        if self.note:
            rows.append(f"  note: {self.note}")
        return "\n".join(rows)


def verify(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    framework: str | None = None,
    inputs: Mapping[str, Sequence[int | str]] | None = None,
    batch: int | None = None,
    data: Sequence[Mapping[str, Array]] = (),
    seeds: Sequence[int] = (0, 1, 2),
    tolerance: float | None = None,
    threads: int | None = None,
    precision: str = "high",
    **options: Any,
) -> Verification:
    """Compares a converted file with its source.

    Args:
        source: the source model. target: the `.mnn` file.
        framework: format of the source; None finds it by content.
        inputs: shapes by input name where the source leaves them open; "?" leaves an extent open.
        batch: takes the place of the first open extent of every input.
        data: input sets to compare on, instead of random ones.
        seeds: seeds of the random inputs; models with symbolic dims run at several sizes.
        tolerance: largest error as a fraction of the output's scale; None chooses by dtype and
            precision (see compare).
        threads, precision: of the session.
        options: how the source was read besides, as in `minnow.convert`: signature, cut_inputs, cut_outputs,
            dequantize.

    Returns:
        The verification; look at `passed`.

    Raises:
        FormatError, ModelError, UnsupportedError: a file cannot be read. UsageError: `data` does not fit the inputs.
    """
    from minnow.converter import read
    from minnow.runtime.session import load

    source, target = Path(source), Path(target)
    model = read(source, framework, inputs=dict(inputs or {}), batch=batch, **options)
    check_burden(model, {}, str(source))
    reference, note = open_source(source, model, framework, inputs=dict(inputs or {}), **options)
    if model.states:
        reference = TwoRuns(reference)
    out = Verification(str(source), str(target), reference.name, note=note)
    if data:
        runs = []
        for arrays in data:
            if missing := [n for n, t in model.user_inputs if not t.holds_tensors and n not in arrays]:
                raise UsageError(f"the data lacks the input '{missing[0]}'")
            given = Candidate({n: _given(arrays, n, t) for n, t in model.user_inputs}, {})
            runs.append((given, reference.run(given.inputs)))
    else:
        runs = _random_runs(out, model, reference, seeds)
    # One after the other, so that the weights are never in memory twice.
    reference.close()
    loaded = load(target, threads=threads, precision=precision)
    session = TwoRuns(loaded) if model.states else loaded
    drawn, rounded = random_outputs(model), rounded_outputs(model)
    coarse = {} if tolerance is not None or precision == "low" else coarse_outputs(model)
    for candidate, want in runs:
        case = _run(session, candidate.inputs, want, tolerance, drawn, precision, coarse, rounded)
        if not case.passed and (steps := _steps(reference, candidate.inputs, case, rounded)):
            case = _run(session, candidate.inputs, want, tolerance, drawn, precision, {**coarse, **steps})
            out.note = "the source rounds to few bits: held to the steps it makes itself when its inputs hardly move"
        if not case.passed and not data and (noise := _noise(reference, candidate.inputs, case)):
            scaled = candidate.scaled(_PIXELS).inputs
            case = _run(session, scaled, reference.run(scaled), tolerance, drawn, precision, coarse)
            out.note = f"{noise}: compared on inputs in [0, {_PIXELS:g}) instead"
        out.cases.append(case)
    return out


def _given(arrays: Mapping[str, Array], name: str, type: TensorType) -> Any:
    container, _ = opened(type, name)
    return gathered(arrays, name, container) if container else np.asarray(arrays[name])


def _random_runs(
    out: Verification, model: Any, reference: Source, seeds: Sequence[int]
) -> list[tuple[Candidate, dict[str, Array]]]:
    """Candidates and what the source gives for them: one per seed, and for symbolic dims a second size."""
    runs: list[tuple[Candidate, dict[str, Array]]] = []
    refused = ""
    wanted = len(seeds)
    sizes: set[tuple[tuple[str, int], ...]] = set()
    impossible: set[tuple[tuple[str, int], ...]] = set()
    for k, candidate in enumerate(candidates(model, seeds)):
        size = tuple(sorted(candidate.symbols.items()))
        if len(runs) >= wanted and (size in sizes or not size):
            if len(sizes) > 1 or not size:
                break
            continue
        if k >= _MAX_TRIES:
            break
        if size in impossible:
            continue
        check_burden(model, candidate.symbols, out.source)
        try:
            runs.append((candidate, reference.run(candidate.inputs)))
        except RuntimeError as e:
            refused = str(e).splitlines()[0]
            impossible.add(size)
            continue
        sizes.add(size)
        if len(sizes) > 1:
            break
    if not runs:
        out.note = f"the source itself ran on no input tried ({refused}); give shapes or data"
    return runs


def _noise(reference: Source, inputs: dict[str, Array], case: Case) -> str:
    """Says so when the source disagrees with itself by more than the tolerance: such inputs cannot judge anybody."""
    if case.error:
        return ""
    once, again = flattened(reference.run(inputs)), reference.run_again(inputs)
    twice = None if again is None else flattened(again)
    for o in case.outputs if twice is not None else ():
        noise = compare(o.name, np.asarray((twice or {})[o.name]), np.asarray(once[o.name]), o.tolerance)
        if not noise.passed and not o.passed:
            return f"with its optimizations the source itself differs by {noise.needed:.2g} on inputs in [0, 1)"
    return ""


def _steps(reference: Source, inputs: dict[str, Array], case: Case, rounded: frozenset[str]) -> dict[str, float]:
    """Tolerances for outputs behind a rounding: several times what the source differs by for nearly equal inputs.

    Sums in another order differ in the last bit, and where that decides a rounding, by a step of the rounded numbers.
    """
    failed = {o.name: o for o in case.outputs if not o.passed and o.name.partition("[")[0] in rounded}
    if case.error or not failed:
        return {}
    once = flattened(reference.run(inputs))
    others = [reference.run({n: moved(v, factor) for n, v in inputs.items()}) for factor in _NEARLY]
    again = reference.run_again(inputs)
    steps: dict[str, float] = {}
    for other in map(flattened, others if again is None else [*others, again]):
        for name, o in failed.items():
            needed = compare(name, other.get(name), once[name], o.tolerance).needed
            if o.tolerance < needed < _MOST_NOISE:
                steps[name] = max(steps.get(name, 0.0), _MANY_STEPS * needed)
    return steps


def moved(value: Any, factor: float) -> Any:
    """Floats times the factor, also those in lists."""
    if isinstance(value, list):
        return [moved(v, factor) for v in value]
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return (value * np.asarray(factor, value.dtype)).astype(value.dtype) if is_float else value


def flattened(values: Mapping[str, Any]) -> dict[str, Array]:
    """All arrays by name, those in lists too, and how many each list has: nothing is compared as nothing."""
    lengths = {
        f"len({name})": np.array(0 if value is None else len(value))
        for name, value in values.items()
        if value is None or isinstance(value, list)
    }
    return lengths | {key: np.asarray(array) for name, value in values.items() for key, array in flat(name, value)}


def _quanta(array: Array, rounded: bool) -> float:
    """How far apart numbers may be that stand for real ones: what is rounded to few bits may be rounded otherwise."""
    return 1.0 if rounded and array.dtype.kind in "iu" and array.dtype.itemsize <= 2 else 0.0


def _run(
    session: Any,
    inputs: dict[str, Array],
    want: dict[str, Array],
    tolerance: float | None,
    drawn: frozenset[str],
    precision: str,
    steps: Mapping[str, float] | None = None,
    quanta: frozenset[str] = frozenset(),
) -> Case:
    case = Case({key: tuple(array.shape) for name, value in inputs.items() for key, array in flat(name, value)})
    try:
        results = session.run(inputs)
    except MinnowError as e:
        case.error = str(e)
        return case
    got, expected = flattened(results), flattened(want)
    case.outputs = [
        compare_random(n, got.get(n), np.asarray(a))
        if n in drawn
        else compare(n, got.get(n), a, (steps or {}).get(n, tolerance), precision, _quanta(a, n in quanta))
        for n, a in expected.items()
    ]
    return case
