"""Converts one cell in this process, and says what became of it. Any error is a check of the result, never raised.

`convert_cell` converts, verifies and measures; `with_budgets` compares the metrics with the budgets. They are apart,
since a result from a cache must be compared with the budgets of today.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from minnow.schema.errors import MinnowError, UnsupportedError, UsageError, VerifyError, WriteError
from minnow.schema.notice import kind_of
from minnow.workflow.cell import Budget, Cell
from minnow.workflow.metric import METRICS, shown
from minnow.workflow.receipt import COMPANIONS
from minnow.workflow.result import CellResult, Check, Status
from minnow.workflow.rule import RULES, rule_of

if TYPE_CHECKING:
    from minnow.conversion_report import Report
    from minnow.optimizer.effect import Effect
    from minnow.options.convert import ConvertOptions
    from minnow.runtime.verify.verification import Verification

_TEMPORARY = re.compile(r"\.([^/\s]+)\.[0-9a-f]{12}\.part")
"""The names that outputs have before they are complete; messages have the final name."""


def convert_cell(cell: Cell, output: Path | None = None, source: Path | None = None) -> CellResult:
    """Converts, verifies and measures a model; budgets are left to `with_budgets`.

    Args:
        cell: what to convert. The folder of the output is made if it does not exist.
        output: another file to write than that of the cell, for example in a folder for this run only.
        source: where the source is, if it has been downloaded already.

    Returns:
        The result, without `key`; its `sha256` is that of the output, and `before` and `metrics` are measured. The
        output has been written only if no check failed.
    """
    begin = time.perf_counter()
    result = CellResult(model=cell.model, variant=cell.variant, source=cell.source, output=cell.output, checks=(),
                        place=cell.place)  # fmt: skip
    if cell.excluded:
        return replace(result, checks=(Check("convert", "skipped", message=cell.excluded),))
    destination = Path(cell.output) if output is None else output
    try:
        options = options_of(cell)
        result = replace(result, reproduce=reproduce(cell, options))
        with nullcontext(source) if source is not None else local(cell.source) as path:
            try:
                result = _converted(result, path, replace(options, output=destination))
            except Exception as e:  # noqa: BLE001  (a defect is a row of the report, and other cells go on)
                result = replace(result, checks=failure(e, time.perf_counter() - begin))
            checks = tuple(_public(check, path, cell, destination) for check in result.checks)
            result = replace(result, checks=checks)
    except MinnowError as e:
        result = replace(result, checks=failure(e, time.perf_counter() - begin))
    return replace(result, seconds={**result.seconds, "total": time.perf_counter() - begin})


def converted(cell: dict[str, Any], output: str, source: str) -> dict[str, Any]:
    """As `convert_cell`, with JSON-ready values: for child processes."""
    return asdict(convert_cell(Cell.of(cell), Path(output), Path(source)))


def options_of(cell: Cell) -> ConvertOptions:
    """The options of a cell's conversion.

    Raises:
        UsageError: a field is unknown, or its value is out of range.
    """
    from minnow.options.convert import ConvertOptions

    try:
        return ConvertOptions(**cell.options, output=cell.output)
    except TypeError as e:
        raise UsageError("wrong options of a conversion", where=cell.name, why=str(e)) from None


def reproduce(cell: Cell, options: ConvertOptions) -> str:
    """A command line that does the same as a cell."""
    from minnow.options.text import words

    if is_url(cell.source):
        return shlex.join(["mnnconvert", "ci", "--only", cell.name])
    return shlex.join(["mnnconvert", "convert", cell.source, *words(options)])


def is_url(source: str) -> bool:
    """Whether a source is a URL rather than a path."""
    return "://" in source


@contextmanager
def local(source: str) -> Iterator[Path]:
    """The path of a source; a URL is downloaded to a temporary folder, which is removed after the block.

    Raises:
        UsageError: fsspec, or what it needs for this kind of URL, is not installed. FormatError: it cannot be fetched.
    """
    if not is_url(source):
        yield Path(source)
        return
    from minnow.workflow.fetch import fetched

    with tempfile.TemporaryDirectory(prefix="minnow-") as folder:
        yield fetched(source, Path(folder))


def companions(path: Path) -> list[Path]:
    """The companion files of an output that exist."""
    return [p for p in (path.with_name(path.name + suffix) for suffix in COMPANIONS) if p.exists()]


def with_budgets(cell: Cell, result: CellResult) -> CellResult:
    """Adds a check for each budget of a cell whose metric has been measured.

    A budget whose metric is unknown passes with a note: one of a model that could not be converted is left out.
    """
    if result.status in ("failed", "error", "skipped"):
        return result
    found = [budget_check(b, result) for b in cell.budgets if METRICS[b.metric].measured == "converted"]
    return replace(result, checks=(*result.checks, *found))


def budget_check(budget: Budget, result: CellResult) -> Check:
    """The comparison of one metric with its budget."""
    metric, name = METRICS[budget.metric], f"budget:{budget.metric}"
    value, limit, of = result.metrics.get(budget.metric), budget.limit, ""
    if budget.relative:
        base = result.before.get(budget.metric)
        if base is None:
            return Check(name, "passed", message=f"no baseline: the {metric.title} of the source is unknown")
        limit, of = budget.limit * base, f" ({100 * budget.limit:g} % of the source)"
    if value is None:
        return Check(name, "passed", message=f"the {metric.title} is unknown", limit=limit)
    said = f"{shown(value, metric.unit)}, at most {shown(limit, metric.unit)}{of}"
    if value <= limit:
        return Check(name, "passed", message=said, value=value, limit=limit)
    rule = RULES[f"budget-{budget.metric.replace('_', '-')}"]
    return Check(name, "failed", rule.name, f"{metric.title}: {said}", value=value, limit=limit)


def failure(error: Exception, seconds: float = 0.0) -> tuple[Check, ...]:
    """The checks of a conversion that has raised an error: which rule, where, and which nodes."""
    rule = rule_of(error)
    if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError):
        rule = RULES["out-of-memory"]
    if isinstance(error, VerifyError) and (found := _verification(error)) is not None:
        return (Check("convert", "passed", seconds=seconds), *_outputs(found))
    if isinstance(error, OSError) and rule.name == "internal-error":
        rule = RULES["output-not-written"]
        error = WriteError("cannot write", where=str(error.filename or ""), why=error.strerror or str(error))
    if isinstance(error, MinnowError):
        message = error.message + (f": {error.why.splitlines()[0]}" if error.why else "")
        nodes = tuple(n for r in error.refused for n in r.nodes) if isinstance(error, UnsupportedError) else ()
        status: Status = "failed" if rule.name == "verification-failed" else "error"
        return (Check("convert", status, rule.name, message, str(error), nodes, seconds),)
    message = f"{type(error).__name__}: {error}".splitlines()[0]
    return (Check("convert", "error", rule.name, message, _place(error), seconds=seconds),)


def _verification(error: VerifyError) -> Verification | None:
    return cast("Verification | None", error.verification)


def _converted(result: CellResult, source: Path, options: ConvertOptions) -> CellResult:
    """Converts. Raises what `minnow.convert` does."""
    from minnow.convert import convert_file

    output = Path(options.output or "")
    if not source.exists():
        from minnow.converter.formats import check_readable

        check_readable(source)  # says that it is missing, before a folder is made for its output
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise WriteError("cannot make the folder of the output", where=str(output.parent), why=str(e.strerror)) from e
    report = convert_file(source, options)
    checks = [Check("convert", "passed", seconds=sum(v for k, v in report.seconds.items() if k != "verify"))]
    metrics = {"bytes": float(sum(p.stat().st_size for p in (output, *companions(output)))), **_cost(report.after)}
    if report.verification is not None:
        checks += _outputs(report.verification, report.seconds.get("verify", 0.0))
        metrics["max_error"] = _max_error(report.verification)
    checks += [Check("convert", "passed", kind_of(text), text) for text in _notices(report)]
    return replace(
        result,
        checks=tuple(checks),
        sha256=sha256_of(output),
        reference="" if report.verification is None else report.verification.reference,
        metrics=metrics,
        before={"bytes": float(_source_bytes(source, options)), **_cost(report.before)},
        seconds=dict(report.seconds),
    )


def _source_bytes(source: Path, options: ConvertOptions) -> int:
    """Bytes of all files of a source, and of the other file that the options name."""
    from minnow.workflow.key import source_files

    files = [*source_files(source, vars(options)).values(), Path(options.companion) if options.companion else None]
    return sum(path.stat().st_size for path in files if path is not None)


def _cost(effect: Effect) -> dict[str, float]:
    known = {"nodes": effect.total, "macs": effect.macs, "peak_memory": effect.peak_bytes}
    return {name: float(number) for name, number in known.items() if number is not None}


def _max_error(verification: Verification) -> float:
    """The smallest tolerance with which all outputs pass. Errors that pass with any tolerance do not count."""
    found = [o for case in verification.cases for o in case.outputs if not (o.random or o.by_floor)]
    return max((o.needed for o in found), default=0.0)


def _notices(report: Report) -> list[str]:
    """The notices that are not about verification, which has checks of its own."""
    return [text for text in report.notices if not text.startswith("inconclusive:")]


def _outputs(verification: Verification, seconds: float = 0.0) -> list[Check]:
    """A check for each output, by the run in which it is worst; the first has the time of all."""
    checks = []
    failed = {o.name: o for c in verification.cases for o in c.outputs if not o.passed}
    for name, worst in verification.worst.items():
        o = failed.get(name, worst) if worst.passed else worst
        text = str(o).partition("  ")[2].partition(": ")[2]
        if not o.passed:
            checks.append(Check(f"verify:{name}", "failed", "verification-failed", text, str(verification)))
        elif o.inconclusive:
            checks.append(Check(f"verify:{name}", "warning", "verification-inconclusive", text))
        else:
            checks.append(Check(f"verify:{name}", "passed", message=text))
    broken = [c.error for c in verification.cases if c.error]
    if broken or not checks:
        message = broken[0].splitlines()[0] if broken else verification.note or "nothing was compared"
        checks.append(Check("verify", "failed", "verification-failed", message, str(verification)))
    if verification.note and all(c.status == "passed" for c in checks):
        checks.append(Check("verify", "passed", "notice", verification.note))
    return [replace(checks[0], seconds=seconds), *checks[1:]]


def sha256_of(path: Path) -> str:
    """The hash of a file."""
    import hashlib

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _public(check: Check, source: Path, cell: Cell, destination: Path) -> Check:
    """A check whose texts have no paths of temporary files, which differ from run to run."""

    def text(old: str) -> str:
        new = old if _is_path(source, cell.source) else old.replace(os.fspath(source), cell.source)
        new = _TEMPORARY.sub(r"\1", new)
        return new if _is_path(destination, cell.output) else new.replace(os.fspath(destination), cell.output)

    return replace(check, message=text(check.message), details=text(check.details))


def _is_path(path: Path, text: str) -> bool:
    """Whether a text is this very path."""
    return os.fspath(path) == text


def _place(error: BaseException) -> str:
    """The line of ours in which an unexpected error came up."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"at {place}"
