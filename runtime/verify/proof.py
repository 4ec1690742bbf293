"""Checks that no step of the optimizer changes the outputs: runs the numpy reference implementation after each step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from minnow.runtime.verify.comparison import TOLERANCE, OutputComparison, compare, compare_random
from minnow.runtime.verify.samples import Candidate, small_candidates
from minnow.runtime.verify.source import Reference, coarse_outputs, random_outputs
from minnow.runtime.verify.verification import flattened, moved
from minnow.schema.errors import MinnowError, VerifyError
from minnow.schema.ir import DType, Graph, Model
from minnow.schema.registry.interpreter import within
from minnow.schema.registry.verify import verify

Array = np.ndarray[Any, Any]

ROUNDING = 2e-5
"""Fraction of an output's scale by which summation order and folded factors may change it."""
_RUNS = 2
_TRIES = 40
_PATIENCE = 1.0
"""Minimum time for one set of inputs, in seconds."""
_NUDGES = (1 + 1e-6, 1 - 1e-6, 1 + 4e-6)
_AMPLIFIED = 8.0
"""How many times their variation for nearly equal inputs outputs may change by."""
_WORTHLESS = 0.3
"""Outputs that vary by more than this fraction of their scale for nearly equal inputs are not compared."""


class Proof:
    """A model's outputs for a few random inputs, computed by the reference, to compare later states of the model with.

    Attributes:
        candidates: the inputs, and the sizes chosen for dynamic dimensions.
        numbers: for each of them the outputs by name.

    Args:
        model: the model; it may change afterwards.
        data: inputs to use instead of random ones.
        seconds: time after which no further inputs are tried.
        tolerance: the error that passes for floating-point outputs, as a fraction of their scale; None: `ROUNDING`.

    Raises:
        VerifyError: the reference can run the model with none of the inputs.
    """

    def __init__(
        self,
        model: Model,
        data: Sequence[Mapping[str, Array]] = (),
        seconds: float = 60.0,
        tolerance: float | None = None,
    ) -> None:
        self._tolerance = tolerance or ROUNDING
        self._first = copy_of(model)
        self._random = random_outputs(model)
        self._coarse = coarse_outputs(model)
        self._was_valid = _is_valid(model)
        self.candidates: list[Candidate] = []
        self.numbers: list[dict[str, Array]] = []
        refused = ""
        end = time.perf_counter() + seconds
        patience = max(seconds, _PATIENCE)
        sizes: list[dict[str, int]] = []
        given = (Candidate(dict(d), {}) for d in data) if data else small_candidates(model)
        for k, candidate in enumerate(given):
            if k >= _TRIES or (self.candidates and time.perf_counter() > end) or len(self.candidates) >= _RUNS:
                break
            if candidate.symbols and candidate.symbols in sizes:
                continue
            try:
                numbers = _run(model, candidate, patience)  # random values may make a loop endless
            except RuntimeError as e:
                refused = str(e).splitlines()[0]
                if time.perf_counter() > end:
                    break
                continue
            if self.candidates and not data:
                candidate, numbers = _signed(model, candidate, numbers, patience)
            sizes.append(candidate.symbols)
            self.candidates.append(candidate)
            self.numbers.append(numbers)
        if not self.candidates:
            raise VerifyError(
                "nothing can be compared: the reference implementation runs the model with none of the inputs tried",
                why=refused,
                hint="give the shapes of the inputs, `--input NAME=1x3x...`",
            )

    def differences(self, model: Model, update: bool = False) -> list[OutputComparison]:
        """The outputs that have changed, with the input shapes in `reason`.

        Args:
            model: a later state of the model.
            update: compare later states with the outputs of this one.

        Raises:
            RuntimeError: the reference implementation cannot run it any more.
            InternalError: the graph is invalid.
        """
        self.validate(model)
        now = [_run(model, candidate) for candidate in self.candidates]
        found = self.compared(now)
        if update and not found:
            self.numbers = now
        return found

    def validate(self, model: Model) -> None:
        """Raises InternalError if a later state is invalid although the model was valid."""
        if self._was_valid:
            verify(model)

    def compared(self, now: Sequence[Mapping[str, Array]]) -> list[OutputComparison]:
        """The outputs that differ from the reference; `now` has one mapping for each of `candidates`."""
        found = []
        for candidate, want, got in zip(self.candidates, self.numbers, now, strict=True):
            failed = [c for n in want if not (c := self._compare(n, got.get(n), want[n])).passed]
            noise = self._noise(candidate, failed) if failed else {}
            for comparison in failed:
                moves = noise.get(comparison.name, 0.0)
                if comparison.needed <= _AMPLIFIED * moves or moves > _WORTHLESS:
                    continue
                shapes = ", ".join(f"{n}{list(a.shape)}" for n, a in flattened(candidate.inputs).items())
                comparison.reason = "; ".join(filter(None, (comparison.reason, f"for {shapes}")))
                found.append(comparison)
        return found

    def _compare(self, name: str, got: Array | None, want: Array) -> OutputComparison:
        if name in self._random:
            return compare_random(name, got, want)
        known = self._coarse.get(name) or TOLERANCE.get(want.dtype.name, self._tolerance)
        tolerance = known if DType.of(want.dtype).is_float else None
        return compare(name, got, want, tolerance)

    def _noise(self, candidate: Candidate, failed: Sequence[OutputComparison]) -> dict[str, float]:
        """How much the outputs vary for nearly equal inputs: so much may be rounding."""
        first = _run(self._first, candidate)
        noise: dict[str, float] = {}
        for factor in _NUDGES:
            nudged = Candidate({n: moved(v, factor) for n, v in candidate.inputs.items()}, candidate.symbols)
            try:
                other = _run(self._first, nudged)
            except RuntimeError:
                continue
            for o in failed:
                needed = compare(o.name, other.get(o.name), first[o.name], 0.0).needed
                # If the shape or a NaN depends on the values, the error has no meaningful size.
                noise[o.name] = max(noise.get(o.name, 0.0), 1.0 if needed == float("inf") else needed)
        return noise


def copy_of(model: Model) -> Model:
    """A copy of the model with its own graph."""
    return replace(model, graph=model.graph.clone(), notices=list(model.notices))


def _is_valid(model: Model) -> bool:
    """Whether the model is valid as read: unused parts may be invalid in the source, which is no fault of a step."""
    try:
        verify(model)
    except MinnowError:
        return False
    return True


def _run(model: Model, candidate: Candidate, seconds: float = math.inf) -> dict[str, Array]:
    with np.errstate(all="ignore"), within(seconds):
        return flattened(Reference(model).run(candidate.inputs))


def _signed(
    model: Model, candidate: Candidate, numbers: dict[str, Array], seconds: float
) -> tuple[Candidate, dict[str, Array]]:
    """The same with floats of both signs, unless the model gives fewer finite values for these."""
    signed = Candidate({n: _both_signs(v) for n, v in candidate.inputs.items()}, candidate.symbols)
    try:
        got = _run(model, signed, seconds)
    except RuntimeError:
        return candidate, numbers
    return (signed, got) if _finite(got) >= _finite(numbers) else (candidate, numbers)


def _both_signs(value: Any) -> Any:
    if isinstance(value, list):
        return [_both_signs(v) for v in value]
    is_float = isinstance(value, np.ndarray) and DType.of(value.dtype).is_float
    return (value.astype(np.float64) * 4 - 2).astype(value.dtype) if is_float else value


def _finite(numbers: Mapping[str, Array]) -> int:
    return sum(int(np.isfinite(a.astype(np.float64)).sum()) for a in numbers.values())


class StepCheck:
    """Called after every step of the optimizer; stops it at the first step that changes the outputs.

    Attributes:
        checked: number of steps that changed the graph and were compared.
        skipped: names of the steps that were not compared one by one for lack of time.

    Args:
        model: the model, before the first step.
        hits: returns how often each rule and pass has been applied so far.
        seconds: time after which all further steps are compared together, by `finish`.
        where: the source, for messages.
        bisect: the command that finds the rule, for messages.
    """

    def __init__(
        self,
        model: Model,
        hits: Callable[[], Mapping[str, int]],
        *,
        seconds: float = 300.0,
        where: str = "",
        bisect: str = "",
    ) -> None:
        self._begin = time.perf_counter()
        self._seconds, self._where, self._bisect = seconds, where, bisect
        self._hits = hits
        self._before: dict[str, int] = {}
        self._seen = _look(model.graph)
        self._steps = 0
        self.proof = Proof(model, seconds=seconds)
        self.checked = 0
        self.skipped: list[str] = []

    def __call__(self, step: str, model: Model) -> None:
        """Raises VerifyError if the step has changed the outputs, or the reference cannot run the graph any more."""
        self._steps += 1
        hits = {name: n for name, n in self._hits().items() if n}
        look = _look(model.graph)
        if hits == self._before and look == self._seen:
            return
        if time.perf_counter() - self._begin > self._seconds:
            self.skipped.append(step)
            return
        fired = {name: n - self._before.get(name, 0) for name, n in hits.items() if n > self._before.get(name, 0)}
        self._before, self._seen = hits, look
        self._compare(f"step {self._steps}, {step},", fired, model)
        self.checked += 1

    def finish(self, model: Model) -> str:
        """Compares the skipped steps together. Returns a notice if there were any, else ""."""
        if not self.skipped:
            return ""
        steps = ", ".join(self.skipped)
        fired = {name: n - self._before.get(name, 0) for name, n in self._hits().items()}
        self._compare(f"one of the last steps ({steps})", {k: n for k, n in fired.items() if n}, model)
        return (
            f"after {self._seconds:g} s the remaining steps were compared with the reference together: {steps} "
            "(--check-limit sets the time)"
        )

    def _compare(self, what: str, fired: Mapping[str, int], model: Model) -> None:
        names = ", ".join(f"{name} ({n} times)" if n > 1 else name for name, n in fired.items()) or "none"
        try:
            found = self.proof.differences(model, update=True)
        except (RuntimeError, MinnowError) as e:
            raise self._error(
                f"{what} produces a graph that cannot be run", f"{e}\n       rules applied: {names}"
            ) from e
        if found:
            rows = [str(c) for c in found[:4]] + ([f"and {len(found) - 4} more"] if len(found) > 4 else [])
            raise self._error(f"{what} changes the outputs", "\n       ".join([*rows, f"rules applied: {names}"]))

    def _error(self, message: str, why: str) -> VerifyError:
        hint = "`--passes -NAME` leaves out the faulty rule"
        hint = f"`{self._bisect}` finds the faulty rule; {hint}" if self._bisect else hint
        return VerifyError(message, where=self._where, why=why, hint=hint)


def _look(graph: Graph) -> int:
    """A hash that changes when the outputs of a graph may have changed; only for states of the same graph."""
    return hash(tuple((node.op, node.inputs, *(v.type for v in node.outputs)) for g in graph.walk() for node in g))


__all__ = ["Proof", "StepCheck", "copy_of"]
