"""Runs the source model and the converted file on the same inputs and compares every output."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from minnow.converter.inputs.given import Inputs
from minnow.options.run import RunOptions
from minnow.options.signature import takes
from minnow.options.verify import VerifyOptions
from minnow.runtime.verify.burden import check_burden
from minnow.runtime.verify.comparison import FLOOR, OutputComparison, compare, compare_random
from minnow.runtime.verify.data import Sample, complete, samples, typed
from minnow.runtime.verify.excitation import Judged, livelier, mark
from minnow.runtime.verify.samples import PIXELS, Candidate, candidates
from minnow.runtime.verify.source import Source, TwoRuns, coarse_outputs, open_source, random_outputs, rounded_outputs
from minnow.runtime.verify.weights import stored_weights
from minnow.schema.errors import MinnowError, StoppedError, UsageError
from minnow.schema.ir import Model
from minnow.schema.mnn.container import flat

_log = logging.getLogger("minnow.verify")

Array = np.ndarray[Any, Any]

_MAX_TRIES = 500

_NEARLY = (1 + 1e-6, 1 - 1e-6, 1 + 4e-6)
"""Factors that move inputs by about as much as sums in another order move results."""
_MANY_STEPS, _MOST_NOISE = 4.0, 0.1
"""Limits for outputs behind a rounding step: how many times the source's own variation an output may differ by, and the
largest variation (a fraction of the scale) at which the source is still used as a reference."""


TRY_DATA = (
    "real input with `--data FILE` (an .npz file or a picture), data=... in Python, since random input tests too little"
)


@dataclass
class Case:
    """One run of both models.

    Attributes:
        shapes: input shapes by name.
        outputs: one comparison for each output.
        error: the error message if the converted model did not run.
    """

    shapes: dict[str, tuple[int, ...]]
    outputs: list[OutputComparison] = field(default_factory=list)
    error: str = ""

    @property
    def passed(self) -> bool:
        return not self.error and bool(self.outputs) and all(o.passed for o in self.outputs)


Verdict = Literal["pass", "inconclusive", "fail"]


@dataclass
class Verification:
    """The result of a verification: all runs, and the verdict. Comparing nothing is a failure.

    Attributes:
        source, target: paths of the source model and of the converted file.
        reference: what computed the expected outputs, such as "onnxruntime 1.32.0".
        cases: one for each run.
        note: what limits the comparison, for example a source runtime that is not installed.
    """

    source: str
    target: str
    reference: str
    cases: list[Case] = field(default_factory=list)
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """ "fail": an output is wrong, or nothing ran; "inconclusive": none is wrong, but some were not tested."""
        if not self.cases or not all(c.passed for c in self.cases):
            return "fail"
        return "inconclusive" if any(o.inconclusive for c in self.cases for o in c.outputs) else "pass"

    @property
    def passed(self) -> bool:
        return self.verdict == "pass"

    @property
    def worst(self) -> dict[str, OutputComparison]:
        """For each output, the comparison that needs the largest tolerance."""
        table: dict[str, OutputComparison] = {}
        for case in self.cases:
            for o in case.outputs:
                if o.name not in table or o.needed > table[o.name].needed:
                    table[o.name] = o
        return table

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {**asdict(self), "verdict": self.verdict, "passed": self.passed}

    def __str__(self) -> str:
        runs = f"{len(self.cases)} run{'s' if len(self.cases) != 1 else ''}"
        shapes = dict.fromkeys(", ".join(f"{n}{list(s)}" for n, s in c.shapes.items()) for c in self.cases)
        rows = [f"{self.verdict.upper()}  {runs} against {self.reference}: {'; '.join(shapes)}"]
        rows += [f"  {o}" for o in self.worst.values()]
        rows += [f"  FAIL  {c.error}" for c in self.cases if c.error]
        if self.note:
            rows.append(f"  note: {self.note}")
        if self.verdict == "inconclusive":
            rows.append(f"  try: {TRY_DATA}")
        return "\n".join(rows)


@takes(VerifyOptions, 2)
def verify(source: str | os.PathLike[str], target: str | os.PathLike[str], options: VerifyOptions) -> Verification:
    """Compares a converted file with its source.

    Args:
        source: the source model.
        target: the `.mnn` file.
        options:

    Returns:
        The verification; its `verdict` is "inconclusive" if no output is wrong, but some output was not tested.

    Raises:
        FormatError, ModelError, UnsupportedError: a file cannot be read.
        UsageError: `data` does not fit the inputs.
        DeadlineError: the timeout has passed.
    """
    return compare_files(Path(source), Path(target), options)


def compare_files(source: Path, target: Path, options: VerifyOptions, details: bool = False) -> Verification:
    """As `verify`; with `details` the comparisons have the distribution of the errors."""
    from minnow.converter import read
    from minnow.runtime.session import load

    framework, data, tolerance, precision = options.framework, options.data, options.tolerance, options.precision
    seeds = range(options.seed, options.seed + options.runs) if options.seeds is None else options.seeds
    given = Inputs.of(options.inputs)
    reading = {**options.for_reader(), "inputs": given}
    batch = reading.pop("batch")
    model = read(source, framework, batch=batch, **reading)
    reading.pop("op_plugins")
    check_burden(model, {}, str(source))
    reference, note = open_source(source, model, framework, **reading)
    if model.states:
        reference = TwoRuns(reference)
    _log.info("compare with %s%s", reference.name, f": {note}" if note else "")
    out = Verification(str(source), str(target), reference.name, note=note)
    arrays = {n: typed(given.arrays, n, model) for n, _ in model.user_inputs if n in given.arrays}
    asked = samples(() if data is None else data, model, given.arrays)
    if not asked and arrays.keys() == dict(model.user_inputs).keys():
        asked = [Sample(complete(arrays, model))]
    if asked:
        runs = [_data_run(reference, sample) for sample in asked]
    else:
        runs = _random_runs(out, model, reference, seeds, arrays)
    judged = Judged(model)
    extra: list[_Run] = []
    if runs and (not asked or asked[0].picture):
        extra = _livelier_runs(judged, reference, runs, arrays, asked[0].picture if asked else "")
    # One after the other, so that the weights are never in memory twice.
    reference.close()
    loaded = load(target, **vars(options.only(RunOptions)))
    session = TwoRuns(loaded) if model.states else loaded
    drawn, rounded = random_outputs(model), rounded_outputs(model)
    strict = tolerance is not None
    coarse = {} if strict or precision == "low" else coarse_outputs(model)
    weights = None if strict else stored_weights(target)
    if weights is not None and weights.tolerance:
        tolerance = weights.tolerance
        coarse = {name: max(own, tolerance) for name, own in coarse.items()}
        out.note = "; ".join(filter(None, [out.note, weights.note]))
    run = partial(_run, session, tolerance=tolerance, strict=strict, drawn=drawn, precision=precision, details=details)
    wants: list[Mapping[str, Array]] = []
    for k, (candidate, want) in enumerate((*runs, *extra)):
        case = run(candidate.inputs, want, steps=coarse, quanta=rounded)
        if not case.passed and not strict and (steps := _steps(reference, candidate.inputs, case, rounded)):
            case = run(candidate.inputs, want, steps={**coarse, **steps})
            out.note = "the source rounds to few bits: the tolerance is its own variation for nearly equal inputs"
        if not case.passed and k >= len(runs) and _amplifies(reference, candidate.inputs, case):
            continue
        if not case.passed and not strict and not asked and (noise := _noise(reference, candidate.inputs, case)):
            scaled = {**candidate.scaled(PIXELS).inputs, **arrays}
            want = reference.run(scaled)
            case = run(scaled, want, steps=coarse)
            out.note = f"{noise}: compared on inputs in [0, {PIXELS:g}) instead"
        _log.debug("run %d, %s: %s", k, case.shapes, case.error or "; ".join(map(str, case.outputs)))
        out.cases.append(case)
        wants.append(flattened(want))
    if weights is not None and not weights.tolerance and not all(c.passed for c in out.cases):
        out.note = "; ".join(filter(None, [out.note, weights.note]))
    mark([c.outputs for c in out.cases], judged.unexcited(wants), judged.faint(wants))
    if options.testdir:
        from minnow.runtime.verify.folder import check

        found = check(Path(options.testdir), target, options.testdir_tolerance, options.only(RunOptions))
        out.cases += found.cases
        out.note = "; ".join(filter(None, [out.note, found.note]))
    return out


_Run = tuple[Candidate, dict[str, Array]]
"""Inputs, and the outputs of the source for them."""


def _data_run(reference: Source, sample: Sample) -> _Run:
    try:
        return Candidate(sample.inputs, {}), reference.run(sample.inputs)
    except RuntimeError as e:
        shapes = ", ".join(f"{n}{list(a.shape)}" for n, a in flattened(sample.inputs).items())
        raise UsageError(
            "the source does not run on the data",
            where=shapes,
            why=str(e)[:500],
            hint="`--input NAME=1x3x...` sets the size of the picture" if sample.picture else "",
        ) from None


def _livelier_runs(
    judged: Judged, reference: Source, runs: Sequence[_Run], arrays: Mapping[str, Any], picture: str
) -> list[_Run]:
    """A few more runs, with inputs that test outputs which none of `runs` tests."""
    wants = [flattened(want) for _, want in runs]
    left = {**judged.faint(wants), **judged.unexcited(wants)}
    found: list[_Run] = []
    for candidate in livelier(runs[0][0], picture) if left else ():
        candidate.inputs |= {n: a for n, a in arrays.items() if n != picture}
        try:
            want = reference.run(candidate.inputs)
        except RuntimeError:
            continue
        numbers = flattened(want)
        if all(np.isfinite(a.astype(np.float64)).all() for a in numbers.values()):
            now = {**judged.faint([*wants, numbers]), **judged.unexcited([*wants, numbers])}
            if now.keys() < left.keys():
                found.append((candidate, want))
                wants, left = [*wants, numbers], now
        if not left:
            break
    return found


def _amplifies(reference: Source, inputs: Mapping[str, Any], case: Case) -> bool:
    """Whether the source itself differs by as much for nearly equal inputs, which makes them useless."""
    failed = {o.name: o for o in case.outputs if not o.passed}
    try:
        once = flattened(reference.run(dict(inputs)))
        other = flattened(reference.run({n: moved(v, _NEARLY[0]) for n, v in inputs.items()}))
    except RuntimeError:
        return True
    return not case.error and not any(compare(n, other.get(n), once[n], o.tolerance).passed for n, o in failed.items())


def _random_runs(
    out: Verification, model: Model, reference: Source, seeds: Sequence[int], arrays: Mapping[str, Any]
) -> list[_Run]:
    """Candidates and the outputs of the source for them: one per seed, and for dynamic dimensions a second size.

    Args:
        arrays: values of the inputs that are not random.
    """
    runs: list[_Run] = []
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
        candidate.inputs |= arrays
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
        out.note = f"the source model itself ran with none of the inputs tried ({refused}); give shapes or data"
        if model.source == "torchscript":
            out.note += ", or element types, which TorchScript does not record: `--input NAME=int64[1,128]`"
    return runs


def _noise(reference: Source, inputs: dict[str, Array], case: Case) -> str:
    """A note if two runs of the source differ by more than the tolerance, which makes the inputs useless; else ""."""
    if case.error:
        return ""
    once, again = flattened(reference.run(inputs)), reference.run_again(inputs)
    twice = None if again is None else flattened(again)
    for o in case.outputs if twice is not None else ():
        noise = compare(o.name, np.asarray((twice or {})[o.name]), np.asarray(once[o.name]), o.tolerance)
        if not noise.passed and not o.passed:
            return f"the source runtime differs by {noise.needed:.2g} without its optimizations on inputs in [0, 1)"
    return ""


def _steps(reference: Source, inputs: dict[str, Array], case: Case, rounded: frozenset[str]) -> dict[str, float]:
    """Tolerances for outputs behind a rounding step: several times the source's variation for nearly equal inputs.

    Sums in another order differ in the last bit; where that decides a rounding, the result differs by a whole step.
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
    """All arrays by name, including those in lists, and the length of each list; None counts as an empty list."""
    lengths = {
        f"len({name})": np.array(0 if value is None else len(value))
        for name, value in values.items()
        if value is None or isinstance(value, list)
    }
    return lengths | {key: np.asarray(array) for name, value in values.items() for key, array in flat(name, value)}


def _quanta(array: Array, rounded: bool) -> float:
    """The absolute error that passes for integers that represent real numbers: one step, since rounding may differ."""
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
    details: bool = False,
    strict: bool = False,
) -> Case:
    """Runs the converted file and compares. With a `strict` tolerance nothing else makes an error pass."""
    floor = 0.0 if strict else FLOOR
    case = Case({key: tuple(array.shape) for name, value in inputs.items() for key, array in flat(name, value)})
    try:
        results = session.run(inputs)
    except StoppedError:
        raise
    except MinnowError as e:
        case.error = str(e)
        return case
    got, expected = flattened(results), flattened(want)
    case.outputs = [
        compare_random(n, got.get(n), np.asarray(a))
        if n in drawn
        else compare(
            n,
            got.get(n),
            a,
            (steps or {}).get(n, tolerance),
            precision,
            0.0 if strict else _quanta(a, n in quanta),
            floor,
            details,
        )
        for n, a in expected.items()
    ]
    return case
