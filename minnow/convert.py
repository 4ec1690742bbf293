"""`minnow.convert`: reads a source model, optimizes it, and writes and verifies a `.mnn` file."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minnow.conversion_report import Clock, Report, path_bytes
from minnow.converter.formats import find_format, is_mnn
from minnow.options.convert import BisectOptions, ConvertOptions
from minnow.options.optimize import ExplainOptions, OptimizeOptions
from minnow.options.read import ReadOptions
from minnow.options.signature import takes
from minnow.options.text import words
from minnow.output import replaced, target_of
from minnow.schema.errors import UnsupportedError, UsageError
from minnow.schema.notice import Notice, kind_of
from minnow.written_file import PACKED, WrittenFile, packed_path

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

    from minnow.optimizer.effect import Effect
    from minnow.optimizer.pipeline import Summary
    from minnow.optimizer.quantize.layers import Names
    from minnow.optimizer.rewrite import Trace
    from minnow.optimizer.rewrite.lineage import Lineage
    from minnow.schema.ir import Model
    from minnow.schema.mnn.form import FileForm

_log = logging.getLogger("minnow.convert")


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
    destination = _destination(source, options)
    if options.prune and options.compression is None:
        from minnow.quantize import Compression

        options = replace(options, compression=Compression.pruning(options))
    _log.info("convert %s to %s", source, destination)
    step = Clock(options.progress or (lambda name: None))
    prefix = _prefix(source, options, step)
    options = replace(options, inputs=prefix.inputs)

    from minnow.schema.mnn.form import FileForm
    from minnow.schema.mnn.side_file import SUFFIX

    form: FileForm = options.form or FileForm()
    model = _formed(prefix.model, options, form)
    if options.strict_target and options.target == "mnn":
        _check_target(model, str(source))
    report = _report(source, destination, model, prefix, options, step)
    with replaced(destination, beside=(SUFFIX, PACKED)) as temporary:
        file = WrittenFile(
            temporary, destination, source, model, form, options, report, step, foreign=_custom_ops(model)
        )
        file.write()
        file.verify()
        file.compress(prefix.names)
        file.check_folder()
        file.finish()
    report.log()
    return report


def _destination(source: Path, options: ConvertOptions) -> Path:
    """The file to write. Raises UsageError, WriteError if it, or a companion file, cannot be written."""
    destination = Path(options.output) if options.output is not None else source.with_suffix(".mnn")
    if target_of(destination if options.output is None else options.output) == Path(os.path.realpath(source)):
        raise UsageError("the output file is the source file", where=str(destination))
    if options.side_file:
        from minnow.schema.mnn.side_file import side_path

        target_of(side_path(destination))
    if options.prepack:
        target_of(packed_path(destination))
    return destination


def _formed(model: Model, options: ConvertOptions, form: FileForm) -> Model:
    """The model with the ops and graphs that the form of the file has."""
    from minnow.schema.mnn.encoder import has_two_graphs

    if form.convolutions:
        from minnow.optimizer.layout.product import products_to_convolutions

        model = model.clone()  # which the next conversion may use
        products_to_convolutions(model.graph)
    if options.side_file or options.compression is not None or not has_two_graphs(model, form):
        model = _one_graph(model)
    return model


def _report(
    source: Path, destination: Path, model: Model, prefix: _Prefix, options: ConvertOptions, step: Clock
) -> Report:
    """The report of a conversion before anything is written."""
    from minnow.optimizer.effect import effect_of

    return Report(
        source=str(source),
        output=str(destination),
        framework="mnn" if is_mnn(source, options.framework) else model.source,
        source_bytes=path_bytes(source),
        output_bytes=0,
        nodes_before=prefix.summary.before,
        nodes_after=prefix.summary.after,
        before=prefix.before,
        after=effect_of(model.graph),
        seconds=step.seconds,
        notices=list(model.notices),
        statistics=prefix.summary.statistics,
        explained=prefix.log.reasons,
        applied=prefix.log.applications,
        limits=_limits(model) if options.target == "mnn" else {},
        unused={name: why for name, why in prefix.log.unused.items() if why},
    )


@dataclass
class _Prefix:
    """The steps of a conversion up to the optimized model. What follows writes and verifies it without changing it."""

    model: Model
    inputs: Any
    before: Effect
    summary: Summary
    log: Trace
    lineage: Lineage

    def names(self) -> Names:
        """The names of the nodes in the source."""
        from minnow.optimizer.quantize.layers import source_names

        return source_names(self.model.graph, self.lineage)


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


__all__ = ["convert"]
