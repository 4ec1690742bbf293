"""The report of one model as an HTML page: converts it if need be, compares, times, and writes the page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import minnow
from minnow.converter.formats import is_mnn
from minnow.options.report import ReportCommand
from minnow.options.run import RunOptions
from minnow.options.verify import VerifyOptions
from minnow.output import target_of, write_text
from minnow.schema.errors import MinnowError, StoppedError, UsageError

if TYPE_CHECKING:
    from minnow.optimizer.effect import Effect
    from minnow.optimizer.rewrite.lineage import Lineage
    from minnow.report.page.content import ModelPage
    from minnow.runtime.verify.verification import Verification
    from minnow.schema.ir import Graph, Model, Node

_VERIFY_RUNS = 3
_PROFILE_RUNS = 20

Progress = Callable[[str], object]


@dataclass(frozen=True)
class Written:
    """What became of a report: its path and size, and the verdict of the verification, "" without one."""

    output: str
    bytes: int
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return dict(vars(self))

    def __str__(self) -> str:
        verdict = f"{self.verdict.upper()}  " if self.verdict else ""
        return f"{verdict}{self.output}: {self.bytes / 1000:.0f} kB"


@dataclass
class _Subject:
    """The model of a report.

    Attributes:
        name: for the title.
        path: the `.mnn` file.
        after: the model in it.
        lineage: of its nodes, if it was converted now.
        source: path of the source; None without one.
        before: the source, as read, before any change.
        effect: the cost of the source.
        output_bytes: size of the `.mnn` file.
        notices: of the conversion.
        names: the nodes by the names that the engine has for them.
    """

    name: str
    path: Path
    after: Model
    lineage: Lineage | None = None
    source: Path | None = None
    before: Model | None = None
    effect: Effect | None = None
    output_bytes: int = 0
    notices: list[str] = field(default_factory=list)
    names: dict[str, Node] = field(default_factory=dict)


def write_report(model: Path, source: Path | None, options: ReportCommand, progress: Progress | None = None) -> Written:
    """Writes the report of a model.

    Args:
        model: a `.mnn` file, or a source, which is converted.
        source: of a `.mnn` file, the model that it was made of.
        options: what is measured, and where the page is written.
        progress: called with the name of each step when it starts.

    Raises:
        UsageError: an argument is wrong.
        FormatError, ModelError, UnsupportedError: a model cannot be read or converted.
        WriteError: the page cannot be written.
    """
    step = progress or (lambda name: None)
    target_of(options.output)
    for path in filter(None, (model, source)):
        if os.path.realpath(path) == os.path.realpath(options.output):
            raise UsageError("the output file is a model of the report", where=str(path))
    from minnow.report.page.sections import render

    with _subject(model, source, options, step) as subject:
        page = _gathered(subject, options, step)
    step("draw")
    content = render(page)
    write_text(options.output, content)
    verdict = "" if page.verification is None else page.verification.verdict
    return Written(os.fspath(options.output), len(content.encode()), verdict)


@contextmanager
def _subject(model: Path, source: Path | None, options: ReportCommand, step: Progress) -> Iterator[_Subject]:
    """Reads the models, and converts a source to a temporary file, which is there in the block."""
    from minnow.converter import read
    from minnow.optimizer.effect import effect_of

    reading = options.for_reader()
    step("read")
    if is_mnn(model, options.framework if source is None else None):
        subject = _Subject(model.name, model, read(model), output_bytes=model.stat().st_size)
        subject.names = _names(subject.after.graph, subject.after.graph)
        if source is not None:
            subject.source, subject.before = source, read(source, options.framework, **reading)
            subject.effect = effect_of(subject.before.graph)
        yield subject
        return
    if source is not None:
        hint = "give the .mnn file first, then its source; or only the source, which is then converted"
        raise UsageError("SOURCE is for a .mnn file", where=str(model), hint=hint)

    from minnow.optimizer import optimize
    from minnow.optimizer.rewrite import Trace
    from minnow.optimizer.rewrite.lineage import Lineage
    from minnow.schema.mnn import save

    opened = read(model, options.framework, **reading)
    effect, before, lineage = effect_of(opened.graph), opened.clone(), Lineage()
    step("convert")
    optimize(
        opened, options.optimize, target=options.target, passes=options.passes, int64=options.int64,
        log=Trace(watch=lineage),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{model.stem}.mnn"
        size = save(opened, path)
        names = _names(opened.graph, read(path).graph)
        yield _Subject(model.name, path, opened, lineage, model, before, effect, size, opened.notices, names)


def _gathered(subject: _Subject, options: ReportCommand, step: Progress) -> ModelPage:
    """All that the page shows."""
    from minnow.optimizer.effect import effect_of
    from minnow.report.page.content import Change, Memory, ModelPage, quantized_layers
    from minnow.report.page.graph import GraphView

    verification, unverified = None, "There is no source to compare with: give it after MODEL."
    if subject.source is not None:
        step("verify")
        verification, unverified = _verified(subject, options)
    timings: list[Any] = []
    untimed = "The times were not measured (--no-time)."
    if options.time:
        step("time")
        timings, untimed = _timed(subject, options, verification)
    step("lay out")
    profile = timings[0].profile if timings else []
    view = GraphView.of(subject.after.graph, _facts(subject, profile))
    change = Change(subject.effect, effect_of(subject.after.graph), _bytes(subject.source), subject.output_bytes)
    made_of = "" if subject.before is None else f" from {subject.before.source}"
    return ModelPage(
        title=subject.name,
        subtitle=f".mnn{made_of}, {change.after.total} nodes",
        change=change,
        graph=view,
        memory=Memory.of(subject.after.graph, timings[0].memory.get("arena_bytes", 0) if timings else 0),
        verification=verification,
        unverified=unverified,
        timings=timings,
        untimed=untimed,
        limits=timings[0].limits if timings else {},
        quantized=quantized_layers(subject.after.graph, view),
        notices=subject.notices,
        names=subject.names,
        footer=f"Written by Minnow {minnow.__version__}.",
    )


def _verified(subject: _Subject, options: ReportCommand) -> tuple[Verification | None, str]:
    """The comparison with the source, or why there is none."""
    from minnow.runtime.verify.verification import compare_files

    assert subject.source is not None
    asked = replace(options.only(VerifyOptions), runs=_VERIFY_RUNS)
    try:
        found = compare_files(subject.source, subject.path, asked, details=True)
    except (StoppedError, UsageError):
        raise
    except MinnowError as e:
        return None, f"The models could not be compared: {e.message}"
    found.target = subject.path.name
    return found, ""


def _timed(subject: _Subject, options: ReportCommand, verification: Verification | None) -> tuple[list[Any], str]:
    """The timings, or why there are none. Dynamic dimensions have the sizes of the first run that was compared."""
    from minnow.runtime.benchmark.benchmark import benchmark
    from minnow.runtime.benchmark.roofline import roofline
    from minnow.runtime.session import load
    from minnow.runtime.verify.data import read_npz
    from minnow.runtime.verify.samples import random_inputs

    running = replace(options.only(RunOptions), threads=options.threads or 1)
    session = load(subject.path, **vars(replace(running, threads=1)))
    if held := next((info for info in session.inputs if info.container), None):
        return [], f"Only models with array inputs can be timed; input '{held.name}' is a {held.container}."
    files = [options.data] if isinstance(options.data, (str, os.PathLike)) else list(options.data)
    own = [f for f in files if os.fspath(f).endswith(".npz")]
    given: dict[str, Any] = dict(options.inputs or {})
    if not given and verification is not None and verification.cases:
        names = {info.name for info in session.inputs}
        given = {n: shape for n, shape in verification.cases[0].shapes.items() if n in names}
    arrays = read_npz(own[0]) if own else random_inputs(subject.path, given)
    outputs = [info.name for info in session.outputs]
    del session
    timings = benchmark(
        subject.path, arrays, outputs, against=options.against, source=subject.source, session=running,
        runs=options.runs, profile_runs=min(options.runs, _PROFILE_RUNS),
    )  # fmt: skip
    if timings[0].profile:
        limit = roofline(running.threads or 1, timings[0].version)
        timings[0].limits = vars(limit)
        for row in timings[0].profile:
            row |= limit.rates(row)
    return timings, ""


def _facts(subject: _Subject, profile: list[dict[str, Any]]) -> dict[Node, Any]:
    """What is known of each node: its cost, its time, and where it comes from."""
    from minnow.optimizer.effect import costs_of
    from minnow.optimizer.rewrite.lineage import ancestry_of
    from minnow.report.page.graph import NodeFacts

    known = {} if subject.before is None else _origins(subject.before.graph)
    times: dict[str, list[dict[str, Any]]] = {}
    for row in profile:
        times.setdefault(row["name"], []).append(row)
    names = {node: name for name, node in subject.names.items()}
    found: dict[Node, Any] = {}
    for node, cost in costs_of(subject.after.graph).items():
        rows = times.pop(names.get(node, ""), [])
        if subject.lineage is not None:
            ancestry = subject.lineage.of(node)
            sources, rules = ancestry.sources, ancestry.rules
        else:
            sources, rules = tuple(dict.fromkeys(known[v.name] for v in node.outputs if v.name in known)), ()
        sources = tuple(ancestry_of(s).sources[0] if ancestry_of(s).sources else s for s in sources)
        found[node] = NodeFacts(
            ms=sum(row["ms"] for row in rows) if rows else None,
            macs=cost.macs,
            bytes=cost.bytes,
            scheme=", ".join(dict.fromkeys(row["scheme"] for row in rows if row["scheme"])),
            sources=sources,
            rules=rules,
        )
    return found


def _names(graph: Graph, written: Graph, prefix: str = "") -> dict[str, Node]:
    """The nodes of a graph by the names that the engine has for them.

    The engine knows the names in the file, of nodes in bodies after those of the nodes around them. The file has the
    nodes in the same order, and may have more.
    """
    found: dict[str, Node] = {}
    rest = iter(written)
    for node in graph:
        twin = next((other for other in rest if other.op == node.op), None)
        if twin is None:
            break
        found.setdefault(prefix + twin.name, node)
        for body, other in zip(node.subgraphs.values(), twin.subgraphs.values(), strict=False):
            found |= {n: v for n, v in _names(body, other, f"{prefix}{twin.name}/").items() if n not in found}
    return found


def _origins(graph: Graph) -> dict[str, str]:
    """The origin of the node that gives each value of a source."""
    return {v.name: node.origin for g in graph.walk() for node in g for v in node.outputs if v.name}


def _bytes(path: Path | None) -> int:
    """Size of a file, or of all files in a folder."""
    if path is None:
        return 0
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


__all__ = ["Written", "write_report"]
