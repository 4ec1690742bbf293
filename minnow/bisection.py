"""Finds the first optimizer rewrite that changes the outputs of a model, and a small model that reproduces it."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from minnow.optimizer import optimize
from minnow.optimizer.rewrite import Application, Trace, passes, rules
from minnow.options.convert import BisectOptions
from minnow.options.optimize import OptimizeOptions
from minnow.options.read import ReadOptions
from minnow.options.signature import takes
from minnow.options.text import words
from minnow.output import target_of, write_text, written
from minnow.reduction import Case, Small, reduced
from minnow.runtime.verify.proof import Proof, copy_of
from minnow.schema.errors import MinnowError, UsageError
from minnow.schema.ir import Graph, Model

Array = np.ndarray[Any, Any]

_ENGINE_ROUNDING = 1e-4
_SHOWN = 3

_log = logging.getLogger("minnow.bisection")


@dataclass
class Culprit:
    """The rewrite that changes the outputs.

    Attributes:
        name: the rule or pass.
        place: where it is defined, such as "optimizer/passes/norm/layer.py:31".
        rewrite: its number among all rewrites of the conversion, from 1.
        node, origin: the node that it was applied to, and its origin in the source; empty for a pass.
        what: the difference that it makes.
        nodes: number of nodes of the small model; 0 if there is none.
        before, after: the small graph before and after the rewrite, as text.
        files: the files that were written.
        reproduce: the command line that finds the rewrite in the small model.
        note: why there is no small model.
    """

    name: str
    place: str
    rewrite: int
    node: str
    origin: str
    what: str
    nodes: int = 0
    before: str = ""
    after: str = ""
    files: list[str] = field(default_factory=list)
    reproduce: str = ""
    note: str = ""

    def __str__(self) -> str:
        rows = [f"{self.name} ({self.place}), rewrite {self.rewrite}, changes the outputs"]
        rows += [f"  at:     {self.node}"] * bool(self.node) + [f"  origin: {self.origin}"] * bool(self.origin)
        rows += ["  " + line for line in self.what.splitlines()]
        rows += [f"  note: {self.note}"] * bool(self.note)
        if self.nodes:
            rows += [f"before ({self.nodes} nodes):", self.before, "after:", self.after]
        rows += [f"written: {', '.join(self.files)}"] * bool(self.files)
        rows += [f"reproduce with: {self.reproduce}"] * bool(self.reproduce)
        return "\n".join(rows)


@dataclass
class Bisection:
    """The result of `bisect`.

    Attributes:
        source: path of the model.
        compared_by: what ran the optimized graphs: the numpy reference implementation or the engine.
        rewrites: number of rewrites, up to the culprit.
        runs: number of intermediate graphs that were run.
        culprit: None if no rewrite changes the outputs.
        note: an error that is not the optimizer's.
    """

    source: str
    compared_by: str
    rewrites: int = 0
    runs: int = 0
    culprit: Culprit | None = None
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.culprit is None and not self.note

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {**asdict(self), "passed": self.passed}

    def __str__(self) -> str:
        if self.culprit is not None:
            return str(self.culprit)
        if self.note:
            return self.note
        return f"{self.source}: none of {self.rewrites} rewrites changes the outputs, compared by {self.compared_by}"


@takes(BisectOptions)
def bisect(source: str | os.PathLike[str], options: BisectOptions) -> Bisection:
    """Finds the first rewrite of a conversion that changes the outputs.

    Args:
        source: a model of any format that can be converted, or a `.mnn` file.
        options:

    Raises:
        VerifyError: the outputs cannot be compared.
        UsageError: an argument is wrong.
        The errors of `minnow.convert` if the source cannot be read.
    """
    return bisect_file(Path(source), options)


def bisect_file(source: Path, options: BisectOptions) -> Bisection:
    """Bisects a model file; see `bisect`."""
    show = options.progress or (lambda name: None)

    def tell(name: str) -> None:
        _log.info("%s", name)
        show(name)

    if options.output is not None:
        target_of(options.output)
    tell("read")
    hunt = _Hunt(_read(source, options.only(ReadOptions)), options, tell)
    out = Bisection(str(source), "the engine" if options.engine else "the numpy reference implementation")
    first, last, what = hunt.bracket()
    out.rewrites, out.runs = last, hunt.runs
    if first < 0:
        out.note = f"{source}: the outputs differ without any optimization: {what}"
        return out
    if not what:
        return out
    last, what = hunt.narrow(first, last, what)
    out.runs = hunt.runs
    found = hunt.snapshot(last)
    out.culprit = Culprit(found.name, _place(found.name), last, found.node, found.origin, what)
    tell("reduce")
    small = None if found.case is None else reduced(found.case)
    if small is None:
        out.culprit.note = "no smaller part of the model reproduces the difference"
        return out
    _fill(out.culprit, small, options)
    return out


def _read(path: Path, options: ReadOptions) -> Model:
    from minnow.converter import read

    if path.suffix.lower() != ".mnn":
        return read(path, options.framework, **options.for_reader())
    if wrong := options.changed().keys() - {"weights", "prototxt", "trust"}:
        raise UsageError(f"the option '{min(wrong)}' is for source models, not for .mnn files", where=str(path))
    return read(path)


@dataclass
class _Snapshot:
    name: str
    node: str = ""
    origin: str = ""
    case: Case | None = None


class _Hunt:
    """Runs the pipeline repeatedly, each time up to some rewrite."""

    def __init__(self, model: Model, options: BisectOptions, tell: Callable[[str], None]) -> None:
        self.model, self.options, self.engine, self.tell = model, options, options.engine, tell
        tell("run the source")
        self.proof = Proof(model, options.data, tolerance=_ENGINE_ROUNDING if self.engine else None)
        self.runs = 0
        self.failed: Application | None = None
        self.step = ""

    def bracket(self) -> tuple[int, int, str]:
        """(good, bad, difference): after `good` rewrites the outputs are right, after `bad` they differ.

        The difference is "" if they never do; `good` is -1 if they do without any rewrite.
        """
        if self.engine and (what := self.wrong(self.model)):
            return -1, 0, what
        good = 0
        log = Trace()

        def check(step: str, model: Model) -> None:
            nonlocal good
            if log.rewrites != good or step in passes:
                self.tell(step)
                if what := self.wrong(model):
                    self.step = step
                    raise _FoundError(what)
                good = log.rewrites

        try:
            # With the engine, which takes longer to load than to run, only the final graph is compared here.
            model = self._optimized(log, None if self.engine else check)
        except _FoundError as found:
            return good, log.rewrites, str(found)
        except Exception as e:  # noqa: BLE001  (whatever a rule raises is what is looked for)
            if what := self.wrong(self.at(log.rewrites)):
                return good, log.rewrites, what
            self.failed = log.failing
            return log.rewrites, log.rewrites + 1, f"it raises {type(e).__name__}: {e}"
        return 0, log.rewrites, self.wrong(model)

    def narrow(self, good: int, bad: int, what: str) -> tuple[int, str]:
        """The number of the first rewrite that changes the outputs, by binary search, and the difference."""
        while self.failed is None and bad - good > 1:
            middle = (good + bad) // 2
            self.tell(f"rewrites {good} to {bad}")
            if found := self.wrong(self.at(middle)):
                bad, what = middle, found
            else:
                good = middle
        return bad, what

    def at(self, rewrites: int) -> Model:
        """The model after a number of rewrites."""
        return self._optimized(Trace(stop_after=rewrites))

    def snapshot(self, rewrite: int) -> _Snapshot:
        """The model before a rewrite."""
        seen: list[tuple[Application, Graph, int, list[int]]] = []
        model = copy_of(self.model)
        log = Trace(stop_after=rewrite)

        def watch(applied: Application) -> None:
            if log.rewrites == rewrite - 1:
                seen[:] = [_copied(model, applied)]

        log.watch = watch
        raised = ""
        try:
            self._optimized(log, model=model)
        except Exception as e:  # noqa: BLE001  (it is what is looked for)
            raised = type(e).__name__
            if log.failing is not None:
                seen[:] = [_copied(model, log.failing)]
        if not seen:
            return _Snapshot(self.step or "the optimizer")
        applied, graph, index, matched = seen[0]
        root = applied.root
        node = "" if root is None else " ".join(filter(None, (repr(root), root.name and f"'{root.name}'")))
        arrays = [
            [np.asarray(c.inputs[n]) for n, _ in self.model.inputs if n in c.inputs] for c in self.proof.candidates
        ]
        options = {"int64": self.options.int64} if applied.name == "narrow_types" else {}
        case = Case(applied.name, graph, index, matched, arrays, self.engine, raised, options)
        return _Snapshot(applied.name, node, root.origin if root is not None else "", case)

    def wrong(self, model: Model) -> str:
        """The difference of a model's outputs from the right ones; "" if there is none."""
        self.runs += 1
        try:
            if self.engine:
                self.proof.validate(model)
                found = self.proof.compared([self._by_engine(model, c.inputs) for c in self.proof.candidates])
            else:
                found = self.proof.differences(model)
        except (MinnowError, RuntimeError) as e:
            return f"the graph cannot be run after it: {e}"
        return "\n".join(map(str, found[:_SHOWN]))

    def _by_engine(self, model: Model, inputs: Mapping[str, Any]) -> dict[str, Array]:
        from minnow.runtime.session import load
        from minnow.runtime.verify.verification import flattened
        from minnow.schema.mnn import encode

        return flattened(load(encode(copy_of(model))).run(dict(inputs)))

    def _optimized(self, log: Trace, check: Any = None, model: Model | None = None) -> Model:
        model = model or copy_of(self.model)
        choices = vars(self.options.only(OptimizeOptions)).copy()
        with np.errstate(all="ignore"):
            optimize(model, choices.pop("optimize"), **choices, log=log, check=check)
        return model


class _FoundError(Exception):
    """Stops the pipeline at the first step that changes the outputs."""


def _copied(model: Model, applied: Application) -> tuple[Application, Graph, int, list[int]]:
    """A copy of the main graph, the index of the subgraph that is changed, and of the matched nodes in it."""
    index = next(i for i, g in enumerate(model.graph.walk()) if g is applied.graph)
    made = set(applied.made)
    matched = [i for i, n in enumerate(n for n in applied.graph if n not in made) if n in set(applied.matched)]
    places = [i for i, n in enumerate(applied.graph) if n in made]
    copy = model.graph.clone()
    inner = list(copy.walk())[index]
    nodes = list(inner)
    for i in reversed(places):
        inner.erase(nodes[i])
    return applied, copy, index, matched


def _place(name: str) -> str:
    item = rules.get(name) or passes.get(name)
    return "" if item is None else f"{item.module.removeprefix('minnow.').replace('.', '/')}.py:{item.line}"


def _fill(culprit: Culprit, small: Small, options: BisectOptions) -> None:
    from minnow.schema.ir.text import to_text

    culprit.nodes = len(small.graph)
    culprit.before = to_text(small.graph, {})
    culprit.after = small.after
    culprit.what = small.what or culprit.what
    if options.output is None:
        return
    from minnow.cli._data import write_npz
    from minnow.schema.mnn import save

    output = Path(options.output)
    model, arrays = small.model()
    text, inputs = (output.with_suffix(suffix) for suffix in (".txt", ".npz"))
    write_text(text, f"before:\n{culprit.before}\n\nafter {culprit.name}:\n{culprit.after}\n")
    with written(output) as part:
        save(model, part)
    write_npz(str(inputs), arrays)
    culprit.files = [str(output), str(text), str(inputs)]
    again = BisectOptions(
        **{**vars(options.only(OptimizeOptions)), "passes": (culprit.name,)}, engine=options.engine, data=(str(inputs),)
    )
    culprit.reproduce = shlex.join(["mnnconvert", "debug", "bisect", str(output), *words(again)])


__all__ = ["Bisection", "Culprit", "bisect"]
