"""Does each step of the optimizer keep the numbers? The numpy reference is run after each, on the same inputs."""

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
"""Share of an output's scale that sums in another order, or folded factors, may move it by without any question."""
_RUNS = 2
_TRIES = 40
_PATIENCE = 1.0
"""Seconds that inputs get at least."""
_NUDGES = (1 + 1e-6, 1 - 1e-6, 1 + 4e-6)
_AMPLIFIED = 8.0
"""What outputs may move by, in units of what they move by for inputs that are nearly the same."""
_WORTHLESS = 0.3
"""Noise beyond this share of the scale judges nobody."""


class Proof:
    """A model's numbers on a few random inputs, by the reference, to hold later states of the model to.

    Attributes:
        candidates: the inputs, and what was chosen for open extents.
        numbers: the outputs for each, by name.

    Args:
        model: the model; it may change afterwards.
        data: inputs to run on instead of random ones.
        seconds: no more inputs are tried after so many.
        tolerance: what outputs of floats may be off by, as a share of their scale; None: what rounding may do.

    Raises:
        VerifyError: the reference runs on none of the inputs.
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
                numbers = _run(model, candidate, patience)  # random numbers may make a loop of rounds without end
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
                "nothing can be compared: the reference runs the model on no input tried",
                why=refused,
                hint="give the shapes of the inputs, `--input NAME=1x3x...`",
            )

    def differences(self, model: Model, update: bool = False) -> list[OutputComparison]:
        """The outputs that are no longer what they were, with the input shapes in `reason`.

        Args:
            model: a later state of the model.
            update: later states are held to the numbers of this one.

        Raises:
            RuntimeError: the reference cannot run it any more.
            InternalError: the graph is not valid.
        """
        self.validate(model)
        now = [_run(model, candidate) for candidate in self.candidates]
        found = self.compared(now)
        if update and not found:
            self.numbers = now
        return found

    def validate(self, model: Model) -> None:
        """Raises InternalError where a later state is not valid, and the model was."""
        if self._was_valid:
            verify(model)

    def compared(self, now: Sequence[Mapping[str, Array]]) -> list[OutputComparison]:
        """The outputs, one mapping for each of `candidates`, that are not what the reference says."""
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
        """By how much the outputs move where the inputs hardly do: so much may be rounding."""
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
                # A shape that depends on the numbers, or a NaN that comes and goes, says nothing of how far off it is.
                noise[o.name] = max(noise.get(o.name, 0.0), 1.0 if needed == float("inf") else needed)
        return noise


def copy_of(model: Model) -> Model:
    """The model with a graph of its own."""
    return replace(model, graph=model.graph.clone(), notices=list(model.notices))


def _is_valid(model: Model) -> bool:
    """What nobody reads may be wrong in a model as it is read: steps cannot be blamed for that."""
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
    """The same with floats of both signs, unless the model has no numbers for them."""
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
    """To be called after every step of the optimizer: ends it at the first one that changes the numbers.

    Attributes:
        checked, skipped: steps that have changed the graph, and were compared or, for lack of time, not.

    Args:
        model: the model, before the first step.
        hits: how often each rule and pass has been applied until now.
        seconds: steps after so many are compared together, by `finish`.
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
        """Raises VerifyError when the step has changed the numbers, or the reference cannot run the graph any more."""
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
        """Compares what there was no time for, all at once. Gives a notice where that was so, else ""."""
        if not self.skipped:
            return ""
        steps = ", ".join(self.skipped)
        fired = {name: n - self._before.get(name, 0) for name, n in self._hits().items()}
        self._compare(f"one of the last steps ({steps})", {k: n for k, n in fired.items() if n}, model)
        return (
            f"after {self._seconds:g} s only all further steps together were compared with the reference: {steps} "
            "(--check-limit gives it more time)"
        )

    def _compare(self, what: str, fired: Mapping[str, int], model: Model) -> None:
        names = ", ".join(f"{name} ({n} times)" if n > 1 else name for name, n in fired.items()) or "none"
        try:
            found = self.proof.differences(model, update=True)
        except (RuntimeError, MinnowError) as e:
            raise self._error(f"{what} leaves a graph that cannot be run", f"{e}\n       applied in it: {names}") from e
        if found:
            rows = [str(c) for c in found[:4]] + ([f"and {len(found) - 4} more"] if len(found) > 4 else [])
            raise self._error(f"{what} changes the numbers", "\n       ".join([*rows, f"applied in it: {names}"]))

    def _error(self, message: str, why: str) -> VerifyError:
        hint = "leave out what is wrong with `--passes -NAME`"
        hint = f"`{self._bisect}` finds what does it; {hint}" if self._bisect else hint
        return VerifyError(message, where=self._where, why=why, hint=hint)


def _look(graph: Graph) -> int:
    """Tells graphs apart whose numbers have to be compared again; two states of one graph, not any two graphs."""
    return hash(tuple((node.op, node.inputs, *(v.type for v in node.outputs)) for g in graph.walk() for node in g))


__all__ = ["Proof", "StepCheck", "copy_of"]
