"""The `.mnn` file of a conversion: written under a temporary name, verified, made smaller, packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from minnow.conversion_report import Clock, Report, readable_size
from minnow.options.convert import ConvertOptions
from minnow.options.run import LimitOptions
from minnow.output import writing
from minnow.schema.errors import UnsupportedError, VerifyError
from minnow.schema.notice import Notice

if TYPE_CHECKING:
    from minnow.optimizer.quantize.layers import Names
    from minnow.runtime.verify import Verification
    from minnow.runtime.verify.verification import SourceRuns
    from minnow.schema.ir import Model
    from minnow.schema.mnn.form import FileForm

_TRY_UNOPTIMIZED = "`--no-verify` writes the file nevertheless; `-O0` shows whether an optimization is the cause"
_TRY_INPUTS = "give shapes or data (`--input NAME=1x224`, `--data FILE.npz`), or write the file with `--no-verify`"

PACKED = ".packed"
"""The suffix of the companion file with packed weights."""


def packed_path(path: Path) -> Path:
    """The path of the companion file with packed weights."""
    return path.with_name(path.name + PACKED)


@dataclass
class WrittenFile:
    """A file in the making. Its steps follow each other in the order of the methods.

    Attributes:
        path: where it is now; `destination` is where it will be.
        source: the file that was converted.
        model: what is written; `compress` replaces it.
        form: how it is written in the end. Before that, it is written and verified in the comparable form.
        options: of the conversion.
        report: gets the results of all steps.
        step: measures their times.
        foreign: operators that only another runtime has. A file with any is not verified.
    """

    path: Path
    destination: Path
    source: Path
    model: Model
    form: FileForm
    options: ConvertOptions
    report: Report
    step: Clock
    foreign: Sequence[str]
    _runs: SourceRuns | None = field(default=None, init=False)

    def write(self) -> None:
        """Writes the file in the comparable form."""
        self._write(self.form.comparable)

    def _write(self, form: FileForm) -> None:
        with self.step("write"), writing(self.destination):
            self.report.output_bytes = self._save(self.model, self.path, form=form)

    def _save(self, model: Model, path: Path, form: FileForm) -> int:
        from minnow.schema.mnn import save

        return save(model, path, biz_code=self.options.biz_code, side_file=self.options.side_file, form=form)

    def verify(self) -> None:
        """Compares the file with its source, if the engine runs it. Raises VerifyError if their outputs differ."""
        if self.foreign:
            text = f"not verified: only a runtime with a plugin has the operators {', '.join(self.foreign)}"
            self.report.notices.append(Notice(text, "not-run"))
        elif self.options.verify:
            with self.step("verify"):
                self._verify_outputs()
                if self.model.portable is not None:
                    self._verify_second()

    def compress(self, names: Callable[[], Names]) -> None:
        """Makes the weights smaller, and writes the file in its last form, if that is asked for.

        Args:
            names: gives those of the nodes in the source.
        """
        compression = self.options.compression
        if compression is not None:
            from minnow.optimizer.effect import effect_of

            with self.step("quantize"):
                write = partial(self._save, form=self.form)
                done = compression.perform(self.model, self.options, write, not self.foreign, names())
            self.model, self.report.quantization = done.model, done.quantization
            self.report.after = effect_of(self.model.graph)
            self.report.notices += done.notices
        if self.form == self.form.comparable and compression is None:
            return
        self._write(self.form)
        if self.report.quantization is not None:
            self.report.quantization.after_bytes = self.report.output_bytes
        if self.options.verify and not self.foreign:
            with self.step("verify"):
                self._verify_form(self.form.lossy or compression is not None)

    def check_folder(self) -> None:
        """Compares the file with the outputs in the folder `testdir`. Raises VerifyError if they differ."""
        if not self.options.testdir:
            return
        from minnow.options.run import RunOptions
        from minnow.runtime.verify.folder import check

        run = replace(self.options.only(RunOptions), **(self.options.testdir_run or {}))
        with self.step("check"):
            found = check(Path(self.options.testdir), self.path, self.options.testdir_tolerance, run)
        found.target = self.report.output
        self.report.checked = found
        if found.verdict == "fail":
            where = str(self.options.testdir)
            error = VerifyError("the outputs differ from those in the folder", where=where, why=str(found))
            error.verification = found
            raise error

    def finish(self) -> None:
        """Writes the packed weights, and names the companion files."""
        from minnow.schema.mnn.side_file import side_path

        if self.options.prepack:
            with self.step("prepack"):
                written = _prepack(self.path, self.options, self.report.verification)
            name = packed_path(self.destination).name
            self.report.notices.append(
                Notice(f"packed weights ({readable_size(written)}) are in the companion file {name}", "companion-file")
            )
        if side_path(self.path).exists():
            name = side_path(self.destination).name
            self.report.notices.append(
                Notice(f"the weights are in the companion file {name}: keep both files together", "companion-file")
            )

    def _compared(self, written: Path, tolerance: float | None) -> Verification:
        """A file, compared with the source."""
        from minnow.options.verify import VerifyOptions
        from minnow.runtime.verify.verification import SourceRuns

        runs = self._runs or SourceRuns(self.source, replace(self.options.only(VerifyOptions), testdir=""))
        if self.options.compression is not None or self.model.portable is not None:
            self._runs = runs  # there is another file to compare
        return runs.compare(written, tolerance)

    def _verify_outputs(self) -> None:
        found = self.report.verification = self._compared(self.path, self.options.tolerance)
        found.target = self.report.output
        if found.verdict == "inconclusive":
            self.report.notices.append(_untested(found))
        if found.verdict == "fail":
            said, hint = "the outputs of the converted model differ from those of its source", _TRY_UNOPTIMIZED
            if not found.cases:
                said, hint = "the converted model was not compared with its source: no run succeeded", _TRY_INPUTS
            error = VerifyError(said, where=str(self.source), why=str(found), hint=hint)
            error.verification = found
            raise error

    def _verify_form(self, lossy: bool) -> None:
        """Compares a file in another form than the one that was verified.

        If its weights are compressed, a notice tells the error; if the engine does not run the form, a notice says so.

        Raises:
            VerifyError: the outputs differ, or those of compressed weights are NaN.
        """
        from minnow.runtime.verify.verification import ANY

        try:
            found = self._compared(self.path, ANY if lossy else self.options.tolerance)
        except UnsupportedError as e:
            why = e.message.removeprefix(f"{self.path}: ")
            text = f"the graph is verified, but not this form of the file, which Minnow's engine does not run: {why}"
            self.report.notices.append(Notice(text, "not-run"))
            return
        found.target = self.report.output
        if found.verdict == "fail":
            message = "the outputs of the model in this form differ from those of its source"
            raise VerifyError(message, where=str(self.source), why=str(found))
        if lossy:
            error = f"{found.needed:.2g} of their largest magnitude"
            self.report.notices.append(
                Notice(f"the outputs of the file with compressed weights differ by up to {error}", "lossy-form")
            )

    def _verify_second(self) -> None:
        """Compares the graph for MNN's own runtime, run by Minnow's engine, with the source; a notice tells the error.

        Raises:
            VerifyError: its outputs have other shapes, or are NaN.
        """
        from minnow.runtime.verify.verification import ANY
        from minnow.schema.mnn import save

        assert self.model.portable is not None
        with TemporaryDirectory() as folder:
            alone = Path(folder, "second.mnn")
            save(replace(self.model, graph=self.model.portable, portable=None), alone)
            found = self._compared(alone, ANY)
        if found.verdict == "fail":
            message = "the outputs of the second graph, for MNN's own runtime, differ from those of the source"
            hint = "use `--target minnow`, or `--no-verify`"
            raise VerifyError(message, where=str(self.source), why=str(found), hint=hint)
        error = f"{found.needed:.2g} of their largest magnitude"
        self.report.notices.append(
            Notice(f"the outputs of the second graph, run as MNN does, differ by up to {error}", "second-graph")
        )


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
