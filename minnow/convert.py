"""`minnow.convert`: reads a source model, optimizes it, and writes and verifies a `.mnn` file."""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from minnow.converter.formats import find_format, is_mnn
from minnow.options.convert import BisectOptions, ConvertOptions, Progress
from minnow.options.optimize import ExplainOptions, OptimizeOptions
from minnow.options.read import ReadOptions
from minnow.options.run import LimitOptions
from minnow.options.signature import takes
from minnow.options.text import words
from minnow.output import replaced, target_of, writing
from minnow.schema.errors import UnsupportedError, UsageError, VerifyError
from minnow.schema.notice import Notice, kind_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

    from minnow.optimizer.effect import Effect
    from minnow.optimizer.pipeline import Summary
    from minnow.optimizer.rewrite import Trace
    from minnow.optimizer.rewrite.lineage import Lineage
    from minnow.report.quantization import Quantization
    from minnow.runtime.verify import Verification
    from minnow.schema.ir import Model

_log = logging.getLogger("minnow.convert")

_ANY = 1e9
"""A tolerance that all finite numbers pass."""

PACKED = ".packed"
"""The suffix of the companion file with packed weights."""


@dataclass
class Report:
    """The result of a conversion.

    Attributes:
        source, output: paths of the two files.
        framework: format of the source.
        source_bytes, output_bytes: their sizes in bytes.
        nodes_before, nodes_after: number of nodes by op, as read and as written.
        before, after: cost of the graph (operations, memory traffic, peak memory), as read and as written.
        seconds: time of each step by name: read, optimize, write, verify.
        notices: notes for the user, one sentence each.
        statistics: per rule and pass: tries, hits (applications), nodes removed, and milliseconds.
        explained: (rule, node, reason) for each node that the rule named by `explain` did not apply to.
        applied: (rule, node) for each node that it applied to.
        unused: by name the reason why a rule or pass did not run at all.
        verification: the comparison with the source; None if it was switched off.
        checked: the comparison with the folder `testdir`, if there is one.
        limits: what MNN's own runtime may do otherwise, depending on the numbers of a run, and the nodes that do it.
        quantization: what became of the weights, if they were to become smaller.
    """

    source: str
    output: str
    framework: str
    source_bytes: int
    output_bytes: int
    nodes_before: dict[str, int]
    nodes_after: dict[str, int]
    before: Effect
    after: Effect
    seconds: dict[str, float]
    notices: list[str] = field(default_factory=list)
    statistics: dict[str, dict[str, float]] = field(default_factory=dict)
    explained: list[tuple[str, str, str]] = field(default_factory=list)
    applied: list[tuple[str, str]] = field(default_factory=list)
    unused: dict[str, str] = field(default_factory=dict)
    verification: Verification | None = None
    checked: Verification | None = None
    limits: dict[str, list[str]] = field(default_factory=dict)
    quantization: Quantization | None = None

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        table = asdict(self)
        table["verification"] = None if self.verification is None else self.verification.as_dict()
        table["checked"] = None if self.checked is None else self.checked.as_dict()
        table["quantization"] = None if self.quantization is None else self.quantization.as_dict()
        return table

    def __str__(self) -> str:
        before, after = sum(self.nodes_before.values()), sum(self.nodes_after.values())
        rows = [
            f"{self.source} ({self.framework}, {readable_size(self.source_bytes)}, {before} nodes)"
            f" -> {self.output} ({readable_size(self.output_bytes)}, {after} nodes)"
        ]
        rows += [f"note: {text}" for text in self.notices]
        if self.limits:
            rows.append(f"MNN's own runtime may differ in some nodes: {_counts(self.limits)}")
        if self.verification is not None:
            rows.append(str(self.verification))
        if self.quantization is not None:
            rows += ["", str(self.quantization), ""]
        if self.checked is not None:
            rows.append(str(self.checked))
        times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.seconds.items())
        return "\n".join([*rows, f"time: {times}"])


@takes(ConvertOptions)
def convert(source: str | os.PathLike[str] | ExportedProgram | Module, options: ConvertOptions) -> Report:
    """Converts a model to a `.mnn` file, or optimizes a `.mnn` file.

    Args:
        source: path of the model file; or a PyTorch module, or an ExportedProgram of torch.export.
        options:

    Returns:
        The report; its `verification` compares the outputs with those of the source. If its verdict is "inconclusive",
        some output was not tested by random inputs: the file is written, and a notice says so.

    Raises:
        UsageError: an argument is wrong.
        FormatError, ModelError: the source cannot be read or is invalid.
        UnsupportedError: the source contains unsupported operators, or with `strict_target` operators that MNN's own
            runtime cannot run; all of them are listed.
        WriteError: the output cannot be written.
        VerifyError: the outputs differ from those of the source, or with `check_each` an optimizer step changes them;
            no file is written.
        DeadlineError: the timeout of the verification has passed.
    """
    if isinstance(source, (str, os.PathLike)):
        if options.example_inputs is not None or options.dynamic_shapes is not None:
            hint = "give the input shapes of a file as inputs={'x': (1, 3)}"
            raise UsageError("example_inputs and dynamic_shapes are for PyTorch modules, not for files", hint=hint)
        return convert_file(Path(source), options)

    from minnow.converter.torch.program.live import archived, is_scripted

    if options.inputs is None and is_scripted(source):
        options = replace(options, inputs=options.example_inputs)
    if options.output is None:
        raise UsageError("a PyTorch module has no file name to derive the output from", hint="give output='model.mnn'")
    with archived(source, options.example_inputs, options.dynamic_shapes) as path:
        return convert_file(Path(path), replace(options, trust=True))


def convert_file(source: Path, options: ConvertOptions) -> Report:
    """Converts a model file; see `convert`."""
    if not is_mnn(source, options.framework) and (format := find_format(source, options.framework)).makes_folders:
        # The package of this name has a conversion of its own.
        conversion = import_module(f"minnow.{format.name}.conversion")
        made: Report = conversion.convert_folder(source, options)
        return made
    if options.mnn_llm:
        raise UsageError("`--mnn-llm` is for language models", where=str(source))
    destination = Path(options.output) if options.output is not None else source.with_suffix(".mnn")
    if target_of(destination if options.output is None else options.output) == Path(os.path.realpath(source)):
        raise UsageError("the output file is the source file", where=str(destination))
    if options.prune and options.compression is None:
        from minnow.quantize import Compression

        options = replace(options, compression=Compression.pruning(options))
    _log.info("convert %s to %s", source, destination)
    step = Clock(options.progress or (lambda name: None))

    if options.side_file:
        from minnow.schema.mnn.side_file import side_path

        target_of(side_path(destination))
    if options.prepack:
        target_of(packed_path(destination))
    prefix = _prefix(source, options, step)
    model, summary, log = prefix.model, prefix.summary, prefix.log
    options = replace(options, inputs=prefix.inputs)

    from minnow.optimizer.effect import effect_of
    from minnow.schema.mnn import save
    from minnow.schema.mnn.encoder import has_two_graphs
    from minnow.schema.mnn.form import FileForm
    from minnow.schema.mnn.side_file import SUFFIX, side_path

    form: FileForm = options.form or FileForm()
    if form.convolutions:
        from minnow.optimizer.layout.product import products_to_convolutions

        model = model.clone()  # which the next conversion may use
        products_to_convolutions(model.graph)
    custom = _custom_ops(model)
    if options.side_file or options.compression is not None or not has_two_graphs(model, form):
        model = _one_graph(model)
    mnn = options.target == "mnn"
    if options.strict_target and mnn:
        _check_target(model, str(source))
    exact = partial(save, biz_code=options.biz_code, side_file=options.side_file, form=form.comparable)

    with replaced(destination, beside=(SUFFIX, PACKED)) as temporary:
        with step("write"), writing(destination):
            written = exact(model, temporary)
        report = Report(
            source=str(source),
            output=str(destination),
            framework="mnn" if is_mnn(source, options.framework) else model.source,
            source_bytes=path_bytes(source),
            output_bytes=written,
            nodes_before=summary.before,
            nodes_after=summary.after,
            before=prefix.before,
            after=effect_of(model.graph),
            seconds=step.seconds,
            notices=list(model.notices),
            statistics=summary.statistics,
            explained=log.reasons,
            applied=log.applications,
            limits=_limits(model) if mnn else {},
            unused={name: why for name, why in log.unused.items() if why},
        )
        if custom:
            text = f"not verified: only a runtime with a plugin has the operators {', '.join(custom)}"
            report.notices.append(Notice(text, "not-run"))
        elif options.verify:
            with step("verify"):
                _verify(report, source, temporary, options)
                if model.portable is not None:
                    _verify_second(report, source, model, options)
        smaller = options.compression
        if smaller is not None:
            from minnow.optimizer.quantize.layers import source_names

            with step("quantize"):
                names = source_names(prefix.model.graph, prefix.lineage)
                done = smaller.perform(model, options, partial(exact, form=form), not custom, names)
            model, report.quantization = done.model, done.quantization
            report.after = effect_of(model.graph)
            report.notices += done.notices
        if form != form.comparable or smaller is not None:
            with step("write"), writing(destination):
                report.output_bytes = exact(model, temporary, form=form)
            if report.quantization is not None:
                report.quantization.after_bytes = report.output_bytes
            if options.verify and not custom:
                with step("verify"):
                    _verify_form(report, source, temporary, options, form.lossy or smaller is not None)
        if options.testdir:
            with step("check"):
                _check_folder(report, temporary, options)
        if options.prepack:
            with step("prepack"):
                written = _prepack(temporary, options, report.verification)
            text = f"packed weights ({readable_size(written)}) are in the companion file"
            report.notices.append(Notice(f"{text} {packed_path(destination).name}", "companion-file"))
        if side_path(temporary).exists():
            report.notices.append(
                Notice(
                    f"the weights are in the companion file {side_path(destination).name}: keep both files together",
                    "companion-file",
                )
            )
    for notice in report.notices:
        _log.info("note: %s", notice)
    _log.info("written: %s, %s", destination, readable_size(report.output_bytes))
    return report


@dataclass
class _Prefix:
    """The steps of a conversion up to the optimized model. What follows writes and verifies it without changing it."""

    model: Model
    inputs: Any
    before: Effect
    summary: Summary
    log: Trace
    lineage: Lineage


_shared: ContextVar[dict[Any, _Prefix] | None] = ContextVar("shared", default=None)


@contextmanager
def shared_prefix() -> Iterator[None]:
    """Conversions in the block that follow each other read and optimize a model once, if only the writing differs.

    The files must not change meanwhile.
    """
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def prefix_options(options: ConvertOptions) -> dict[str, Any]:
    """The options that reading and optimizing depend on, as far as they differ from their defaults."""
    names = {f.name for kind in (ReadOptions, OptimizeOptions, ExplainOptions) for f in fields(kind)}
    return {name: value for name, value in options.changed().items() if name in names}


def _prefix(source: Path, options: ConvertOptions, step: Clock) -> _Prefix:
    """Reads and optimizes a model, unless the conversion before has done the same."""
    shared = _shared.get()
    key = (os.path.realpath(source), repr(sorted(prefix_options(options).items())))
    if shared is not None and key in shared:
        return shared[key]
    # Slow imports follow late, so that a missing or invalid file is reported at once.
    from minnow.converter import read

    inputs = options.inputs
    if inputs is not None:
        from minnow.converter.inputs.given import Inputs

        inputs = Inputs.of(inputs)  # reading names those given by position
        options = replace(options, inputs=inputs)
    with step("read"):
        model = read(source, options.framework, **options.for_reader())

    from minnow.optimizer.effect import effect_of

    before = effect_of(model.graph)
    _log.info("%s, %d nodes, inputs: %s", model.source, before.total, ", ".join(f"{n} {t}" for n, t in model.inputs))
    from minnow.optimizer.rewrite.lineage import Lineage

    lineage = Lineage()
    made = _Prefix(model, inputs, before, *optimized(model, source, options, step, lineage), lineage)
    _log.info("%d nodes after the optimizer", sum(made.summary.after.values()))
    for name, row in made.summary.statistics.items():
        if row["hits"]:
            _log.debug("%s: %d times, %d nodes removed, %.1f ms", name, row["hits"], row["removed"], row["ms"])
    if shared is not None:
        shared.clear()  # one model at a time is in memory
        shared[key] = made
    return made


def optimized(
    model: Model, source: Path, options: ConvertOptions, step: Clock, lineage: Lineage
) -> tuple[Summary, Trace]:
    """Optimizes the model in place, with a check after each step if `check_each` is set."""
    from minnow.optimizer import optimize
    from minnow.optimizer.rewrite import Trace

    rule, _, node = options.explain.partition("@")
    # Only parameters of single layers ask where nodes come from.
    watch = lineage if options.compression is not None and options.compression.recipe.layers else None
    log = Trace(explain=frozenset(filter(None, [rule])), node=node, watch=watch)
    check = None
    if options.check_each:
        from minnow.runtime.verify.proof import StepCheck

        with step("check"):
            bisect = bisect_command(source, options)
            check = StepCheck(model, log.hits, seconds=options.check_limit, where=str(source), bisect=bisect)
    with step("optimize"):
        summary = optimize(
            model,
            int(options.optimize),
            target=options.target,
            passes=options.passes,
            int64=options.int64,
            log=log,
            check=check,
        )
    if check is not None and (notice := check.finish(model)):
        model.notices.append(Notice(notice, "check-incomplete"))
    return summary, log


def _verify(report: Report, source: Path, written: Path, options: ConvertOptions) -> None:
    """Compares the written file with its source. Raises VerifyError if their outputs differ."""
    from minnow.options.verify import VerifyOptions
    from minnow.runtime.verify.verification import compare_files

    found = compare_files(source, written, replace(options.only(VerifyOptions), testdir=""))
    report.verification = found
    found.target = report.output
    if found.verdict == "inconclusive":
        report.notices.append(_untested(found))
    if found.verdict == "fail":
        error = VerifyError(
            "the outputs of the converted model differ from those of its source",
            where=str(source),
            why=str(found),
            hint="`--no-verify` writes the file nevertheless; `-O0` shows whether an optimization is the cause",
        )
        error.verification = found
        raise error


def _verify_form(report: Report, source: Path, written: Path, options: ConvertOptions, lossy: bool) -> None:
    """Compares a file in another form than the one that was verified.

    If its weights are compressed, a notice tells the error; if the engine does not run the form, a notice says so.

    Raises:
        VerifyError: the outputs differ, or those of compressed weights are NaN.
    """
    from minnow.options.verify import VerifyOptions
    from minnow.runtime.verify.verification import compare_files

    asked = replace(options.only(VerifyOptions), testdir="")
    try:
        found = compare_files(source, written, replace(asked, tolerance=_ANY) if lossy else asked)
    except UnsupportedError as e:
        why = e.message.removeprefix(f"{written}: ")
        text = f"the graph is verified, but not this form of the file, which Minnow's engine does not run: {why}"
        report.notices.append(Notice(text, "not-run"))
        return
    found.target = report.output
    if found.verdict == "fail":
        message = "the outputs of the model in this form differ from those of its source"
        raise VerifyError(message, where=str(source), why=str(found))
    if not lossy:
        return
    worst = max((o.needed for o in found.worst.values()), default=0.0)
    text = f"the outputs of the file with compressed weights differ by up to {worst:.2g} of their largest magnitude"
    report.notices.append(Notice(text, "lossy-form"))


def _verify_second(report: Report, source: Path, model: Model, options: ConvertOptions) -> None:
    """Compares the graph for MNN's own runtime, run by Minnow's engine, with the source; a notice tells the error.

    Raises:
        VerifyError: its outputs have other shapes, or are NaN.
    """
    from minnow.options.verify import VerifyOptions
    from minnow.runtime.verify.verification import compare_files
    from minnow.schema.mnn import save

    asked = replace(options.only(VerifyOptions), testdir="", tolerance=_ANY)
    assert model.portable is not None
    with TemporaryDirectory() as folder:
        alone = Path(folder, "second.mnn")
        save(replace(model, graph=model.portable, portable=None), alone)
        found = compare_files(source, alone, asked)
    if found.verdict == "fail":
        message = "the outputs of the second graph, for MNN's own runtime, differ from those of the source"
        raise VerifyError(message, where=str(source), why=str(found), hint="use `--target minnow`, or `--no-verify`")
    worst = max((o.needed for o in found.worst.values()), default=0.0)
    text = f"the outputs of the second graph, run as MNN does, differ by up to {worst:.2g} of their largest magnitude"
    report.notices.append(Notice(text, "second-graph"))


def _check_folder(report: Report, written: Path, options: ConvertOptions) -> None:
    """Compares the file with the outputs in a folder. Raises VerifyError if they differ."""
    from minnow.options.run import RunOptions
    from minnow.runtime.verify.folder import check

    run = replace(options.only(RunOptions), **(options.testdir_run or {}))
    found = check(Path(options.testdir), written, options.testdir_tolerance, run)
    found.target = report.output
    report.checked = found
    if found.verdict == "fail":
        error = VerifyError("the outputs differ from those in the folder", where=str(options.testdir), why=str(found))
        error.verification = found
        raise error


def _one_graph(model: Model) -> Model:
    """The model without a second graph: it is only in files of the usual form."""
    if model.portable is None:
        return model
    kept = [n for n in model.notices if kind_of(n) != "second-graph"]
    text = "MNN's own runtime cannot run the quantized layers: in this form the file has no second graph for it"
    return replace(model, portable=None, limits={}, notices=[*kept, Notice(text, "not-for-mnn")])


def _limits(model: Model) -> dict[str, list[str]]:
    from minnow.optimizer.facts.limits import limits_of, name_of

    graph = model.portable or model.graph
    found = {reason: [name_of(node) for node in nodes] for reason, nodes in limits_of(graph, always=False).items()}
    return {**model.limits, **found}


def _counts(limits: dict[str, list[str]]) -> str:
    return "; ".join(f"{reason} ({len(nodes)})" for reason, nodes in limits.items())


def _custom_ops(model: Model) -> list[str]:
    """The names of the operators that nothing defines."""
    from minnow.schema.ops.raw import is_custom

    found = (node.attrs["main"]["type"] for part in model.graph.walk() for node in part if is_custom(node))
    return sorted(set(found))


def _check_target(model: Model, where: str) -> None:
    """Raises UnsupportedError with all nodes that MNN's own runtime cannot run."""
    from minnow.optimizer.facts.format import foreign_nodes

    if refused := foreign_nodes(model.portable or model.graph):
        raise UnsupportedError(
            "MNN's own runtime cannot run the model",
            where=where,
            hint="without `--strict-target` the file is written, and runs with Minnow's engine",
            refused=refused,
        )


def bisect_command(source: Path, options: ConvertOptions) -> str:
    """The command line that finds the optimizer rewrite which changes the outputs of a conversion."""
    same = BisectOptions(**vars(options.only(ReadOptions)), **vars(options.only(OptimizeOptions)))
    return shlex.join(["mnnconvert", "debug", "bisect", os.fspath(source), *words(same)])


def packed_path(path: Path) -> Path:
    """The path of the companion file with packed weights."""
    return path.with_name(path.name + PACKED)


def _untested(verification: Verification) -> str:
    """The notice for an inconclusive verification: the outputs that were not tested."""
    names = list(dict.fromkeys(o.name for c in verification.cases for o in c.outputs if o.inconclusive))
    shown = ", ".join(f"'{n}'" for n in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"inconclusive: the inputs did not test {shown}; verify with real inputs (`--data`)"


def _prepack(path: Path, options: ConvertOptions, verification: Verification | None) -> int:
    """Writes the packed weights of a model to its companion file; returns the size of that in bytes.

    How a weight is packed can depend on the input sizes, so the model is run once: dynamic dimensions have the sizes of
    the last verification run, or 1 without one.
    """
    from minnow.runtime.session import load
    from minnow.runtime.verify.samples import random_inputs

    session = load(path, **vars(options.only(LimitOptions)))
    known = {} if verification is None or not verification.cases else verification.cases[-1].shapes
    names = {info.name for info in session.inputs if not info.container}
    said = {name: one.shape for name, one in (options.inputs or {}).items() if one.shape is not None}
    session.run(random_inputs(path, {k: v for k, v in (known or said).items() if k in names}))
    session.write_packed(packed_path(path))
    return packed_path(path).stat().st_size


def path_bytes(path: Path) -> int:
    """Size of a file, or of all files in a folder."""
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


class Clock:
    """Measures the time of the steps, and reports their names as progress."""

    def __init__(self, progress: Progress) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self._name = ""
        self._begin = 0.0

    def __call__(self, name: str) -> Clock:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._progress(self._name)
        _log.info("%s", self._name)
        self._begin = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self.seconds[self._name] = time.perf_counter() - self._begin
        _log.info("%s: %.2f s", self._name, self.seconds[self._name])


def readable_size(n: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.2f} GB"


__all__ = ["Report", "convert"]
