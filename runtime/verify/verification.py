"""Runs the source model and the converted file on the same inputs and compares every output."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from minnow.runtime.verify.samples import PIXELS, Candidate, Search, Size
from minnow.runtime.verify.source import Source, TwoRuns, coarse_outputs, open_source, random_outputs, rounded_outputs
from minnow.runtime.verify.weights import stored_weights
from minnow.schema.errors import MinnowError, StoppedError, UsageError
from minnow.schema.ir import Model
from minnow.schema.mnn.container import flat

_log = logging.getLogger("minnow.verify")

Array = np.ndarray[Any, Any]

ANY = 1e9
"""A tolerance that all finite numbers pass."""
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

    def add_note(self, text: str) -> None:
        self.note = "; ".join(filter(None, [self.note, text]))

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

    @property
    def needed(self) -> float:
        """The largest error of an output, as a fraction of its largest magnitude."""
        return max((o.needed for o in self.worst.values()), default=0.0)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {**asdict(self), "verdict": self.verdict, "passed": self.passed}

    def __str__(self) -> str:
        runs = f"{len(self.cases)} run{'s' if len(self.cases) != 1 else ''}"
        shapes = dict.fromkeys(", ".join(f"{n}{list(s)}" for n, s in c.shapes.items()) for c in self.cases)
        head = f"{self.verdict.upper()}  {runs} against {self.reference}"
        rows = [f"{head}: {'; '.join(shapes)}" if shapes else head]
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
    return SourceRuns(source, options).compare(target, options.tolerance, details)


class SourceRuns:
    """Comparisons of several files with one source, which is read once, and run once for the same inputs.

    Args:
        source: the source model.
        options: of all comparisons.
    """

    def __init__(self, source: Path, options: VerifyOptions) -> None:
        from minnow.converter import read

        self._source, self._options = source, options
        self._given = Inputs.of(options.inputs)  # reading names those given by position
        reading = {**options.for_reader(), "inputs": self._given}
        batch = reading.pop("batch")
        self._model = read(source, options.framework, batch=batch, **reading)
        reading.pop("op_plugins")
        check_burden(self._model, {}, str(source))
        reference, self._note = open_source(source, self._model, options.framework, **reading)
        self._reference: Source = TwoRuns(reference) if self._model.states else reference
        self._wanted: dict[tuple[Any, ...], tuple[_Wanted, str]] = {}

    def compare(self, target: Path, tolerance: float | None, details: bool = False) -> Verification:
        """The comparison with a file; `tolerance` takes the place of that of the options."""
        options, reference = replace(self._options, tolerance=tolerance), self._reference
        _log.info("compare with %s%s", reference.name, f": {self._note}" if self._note else "")
        out = Verification(str(self._source), str(target), reference.name, note=self._note)
        # A tolerance of the user is for the inputs that a calibrated file is meant for, too.
        weights = stored_weights(target)
        ranges = weights.ranges if weights is not None else {}
        key = tuple(sorted(ranges.items()))
        if key not in self._wanted:
            self._wanted[key] = _wanted(out, self._model, reference, options, self._given.arrays, ranges), out.note
        wanted, out.note = self._wanted[key]
        # One after the other, so that the weights are never in memory twice.
        reference.close()
        _compare(out, wanted, reference, _Target(target, self._model, options, details, wanted.is_random))
        if options.testdir:
            from minnow.runtime.verify.folder import check

            found = check(Path(options.testdir), target, options.testdir_tolerance, options.only(RunOptions))
            out.cases += found.cases
            out.add_note(found.note)
        return out


_Run = tuple[Candidate, dict[str, Array]]
"""Inputs, and the outputs of the source for them."""


@dataclass
class _Wanted:
    """What the file is compared with.

    Attributes:
        runs: inputs, and the outputs of the source for them.
        extra: a few more, which test outputs that none of `runs` tests.
        is_random: the inputs were not given.
        arrays: the inputs whose values were given nevertheless.
        outputs: tells which of them runs have tested.
    """

    runs: list[_Run]
    extra: list[_Run]
    is_random: bool
    arrays: Mapping[str, Any]
    outputs: Judged


def _wanted(
    out: Verification,
    model: Model,
    reference: Source,
    options: VerifyOptions,
    given: Mapping[str, Any],
    ranges: Mapping[str, tuple[float, float]],
) -> _Wanted:
    """Runs the source on the data, or on random inputs in these ranges."""
    arrays = {n: typed(given, n, model) for n, _ in model.user_inputs if n in given}
    data = samples(() if options.data is None else options.data, model, given)
    if not data and arrays.keys() == dict(model.user_inputs).keys():
        data = [Sample(complete(arrays, model))]
    if data:
        runs = [_data_run(reference, sample) for sample in data]
    else:
        seeds = range(options.seed, options.seed + options.runs) if options.seeds is None else options.seeds
        runs = _random_runs(out, model, reference, seeds, arrays, ranges)
    judged = Judged(model)
    extra: list[_Run] = []
    if runs and (data[0].picture if data else not ranges):
        extra = _livelier_runs(judged, reference, runs, arrays, data[0].picture if data else "")
    return _Wanted(runs, extra, not data, arrays, judged)


class _Target:
    """The converted file, and how its outputs are compared.

    Attributes:
        is_strict: the tolerance was given: nothing else makes an error pass.
        rounded: the outputs behind a rounding step.
        weights: what the file says of its weights.
    """

    def __init__(self, path: Path, model: Model, options: VerifyOptions, details: bool, is_random: bool) -> None:
        from minnow.runtime.session import load

        loaded = load(path, **vars(options.only(RunOptions)))
        self._session: Any = TwoRuns(loaded) if model.states else loaded
        self._drawn, self.rounded = random_outputs(model), rounded_outputs(model)
        self._tolerance, self._precision, self._details = options.tolerance, options.precision, details
        self.is_strict = options.tolerance is not None
        self._coarse = {} if self.is_strict or options.precision == "low" else coarse_outputs(model)
        self.weights = None if self.is_strict else stored_weights(path, is_random)
        if self.weights is not None and (least := self.weights.tolerance):
            self._tolerance = least
            self._coarse = {name: max(own, least) for name, own in self._coarse.items()}

    def run(self, inputs: dict[str, Array], want: Mapping[str, Any], steps: Mapping[str, float] | None = None) -> Case:
        """Runs the file, and compares.

        Args:
            want: the outputs of the source.
            steps: tolerances of single outputs.
        """
        case = Case({key: tuple(array.shape) for name, value in inputs.items() for key, array in flat(name, value)})
        try:
            results = self._session.run(inputs)
        except StoppedError:
            raise
        except MinnowError as e:
            case.error = str(e)
            return case
        got = flattened(results)
        tolerances = {**self._coarse, **(steps or {})}
        floor = 0.0 if self.is_strict else FLOOR
        for name, array in flattened(want).items():
            if name in self._drawn:
                case.outputs.append(compare_random(name, got.get(name), np.asarray(array)))
                continue
            step = 0.0 if self.is_strict else _quanta(array, name in self.rounded)
            tolerance = tolerances.get(name, self._tolerance)
            found = compare(name, got.get(name), array, tolerance, self._precision, step, floor, self._details)
            case.outputs.append(found)
        return case


def _compare(out: Verification, wanted: _Wanted, reference: Source, target: _Target) -> None:
    """Runs the file on all inputs; adds the comparisons, and notes on what limits them."""
    weights = target.weights
    if weights is not None and weights.tolerance:
        out.add_note(weights.note)
    wants: list[Mapping[str, Array]] = []
    for k, run in enumerate((*wanted.runs, *wanted.extra)):
        found = _compared(out, wanted, reference, target, run, is_extra=k >= len(wanted.runs))
        if found is None:
            continue
        case, want = found
        _log.debug("run %d, %s: %s", k, case.shapes, case.error or "; ".join(map(str, case.outputs)))
        out.cases.append(case)
        wants.append(flattened(want))
    if weights is not None and not weights.tolerance and not all(c.passed for c in out.cases):
        out.add_note(weights.note)
    mark([c.outputs for c in out.cases], wanted.outputs.unexcited(wants), wanted.outputs.faint(wants))


def _compared(
    out: Verification, wanted: _Wanted, reference: Source, target: _Target, run: _Run, is_extra: bool
) -> tuple[Case, Mapping[str, Any]] | None:
    """One comparison, and the outputs of the source in it; None where the source itself differs too much for it.

    What the source also shows, for nearly the same inputs or without its optimizations, is not an error of the file.
    """
    (candidate, want), excuses = run, not target.is_strict
    case = target.run(candidate.inputs, want)
    if not case.passed and excuses and (steps := _steps(reference, candidate.inputs, want, case, target.rounded)):
        case = target.run(candidate.inputs, want, steps)
        out.note = "the source rounds to few bits: the tolerance is its own variation for nearly equal inputs"
    if not case.passed and is_extra and _amplifies(reference, candidate.inputs, case):
        return None
    if not case.passed and excuses and wanted.is_random and (noise := _noise(reference, candidate.inputs, want, case)):
        scaled = {**candidate.scaled(PIXELS).inputs, **wanted.arrays}
        want = reference.run(scaled)
        case = target.run(scaled, want)
        out.note = f"{noise}: compared on inputs in [0, {PIXELS:g}) instead"
    return case, want


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
    out: Verification,
    model: Model,
    reference: Source,
    seeds: Sequence[int],
    arrays: Mapping[str, Any],
    ranges: Mapping[str, tuple[float, float]],
) -> list[_Run]:
    """Candidates and the outputs of the source for them: one per seed, and for dynamic dimensions a second size.

    Args:
        arrays: values of the inputs that are not random.
        ranges: where the floats of inputs lie, if not in [0, 1).
    """

    def run(candidate: Candidate) -> dict[str, Array]:
        check_burden(model, candidate.symbols, out.source)
        candidate.inputs = {**candidate.within(ranges).inputs, **arrays}
        return reference.run(candidate.inputs)

    runs: list[_Run] = []
    search = Search(model, seeds, run)
    sizes: set[Size] = set()
    for candidate, want in search:
        runs.append((candidate, want))
        sizes.add(candidate.size)
        if len(sizes) > 1 or (len(runs) >= len(seeds) and not candidate.size):
            break
        if len(runs) >= len(seeds):
            search.done |= sizes
    if not runs:
        refused = _first_reason(str(search.refused or ""))
        out.note = f"the source model itself ran with none of the inputs tried ({refused}); give shapes or data"
        if model.source == "torchscript":
            out.note += ", or element types, which TorchScript does not record: `--input NAME=int64[1,128]`"
    return runs


def _first_reason(text: str) -> str:
    """The first line of a source's error; behind TensorFlow's, which ends with a colon, the one that says why."""
    first, *rest = text.splitlines() or ["no reason given"]
    if not first.endswith(":"):
        return first
    reasons = (line for line in rest if line and not line.startswith((" ", "\t", "Detected at")))
    return f"{first} {next(reasons, '')}".strip()


def _noise(reference: Source, inputs: dict[str, Array], want: Mapping[str, Any], case: Case) -> str:
    """A note if two runs of the source differ by more than the tolerance, which makes the inputs useless; else ""."""
    if case.error:
        return ""
    once, again = flattened(want), reference.run_again(inputs)
    twice = None if again is None else flattened(again)
    for o in case.outputs if twice is not None else ():
        noise = compare(o.name, np.asarray((twice or {})[o.name]), np.asarray(once[o.name]), o.tolerance)
        if not noise.passed and not o.passed:
            return f"the source runtime differs by {noise.needed:.2g} without its optimizations on inputs in [0, 1)"
    return ""


def _steps(
    reference: Source, inputs: dict[str, Array], want: Mapping[str, Any], case: Case, rounded: frozenset[str]
) -> dict[str, float]:
    """Tolerances for outputs behind a rounding step: several times the source's variation for nearly equal inputs.

    Sums in another order differ in the last bit; where that decides a rounding, the result differs by a whole step.
    """
    failed = {o.name: o for o in case.outputs if not o.passed and o.name.partition("[")[0] in rounded}
    if case.error or not failed:
        return {}
    once = flattened(want)
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


def largest_error(source: Path, target: Path, options: RunOptions) -> float:
    """The largest error of an output, as a fraction of its largest magnitude, for the random inputs of a verification.

    0 if there is none, or if the models do not run with random inputs.
    """
    asked = VerifyOptions(**vars(options), tolerance=ANY)
    try:
        found = compare_files(source, target, asked)
    except StoppedError:
        raise
    except MinnowError as e:
        _log.debug("the error for random inputs is not known: %s", e)
        return 0.0
    return found.needed


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
