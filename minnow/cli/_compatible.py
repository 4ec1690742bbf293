"""The command line of MNN's own converter, with an exit code for every failure.

`_mnn_flags` says what becomes of each flag. Here each that is carried out is taken from those that are given; one that
is left is an error.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minnow.cli._log import note
from minnow.cli._mnn_flags import MNN_FLAGS, STATES, GivenFlags, MnnFlag
from minnow.cli._option import FORMAT, MODEL_FILE, Command, emit
from minnow.cli._terminal import show, spinner
from minnow.schema.errors import MinnowError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from minnow.conversion_report import Report
    from minnow.options.convert import ConvertOptions

_FRAMEWORKS = {"tf": "tensorflow"}
_NHWC = ("tensorflow", "tflite")
_OLDEST = 3.6
_TYPES: dict[str, Any] = {"whole": int, "number": float, "text": str, "path": click.Path(), "yes": str}
_NO, _YES = ("0", "false", "no", "off"), ("1", "true", "yes", "on")


def is_compatible(args: list[str]) -> bool:
    """Whether a command line has a flag that only MNN's converter has."""
    return any(a.startswith("--") and _is_foreign(a[2:].partition("=")[0]) for a in args)


def _is_foreign(name: str) -> bool:
    return name in MNN_FLAGS and not MNN_FLAGS[name].own


def in_words_of_mnn(args: list[str]) -> list[str]:
    """`[convert] SOURCE -o FILE` with flags of MNN's converter as a line for that converter; others as they are."""
    words = args[1:] if args[0] == "convert" else list(args)
    if not words or words[0].startswith("-"):
        return words
    source, *rest = words
    names = [word.partition("=")[0] for word in rest]
    made = ["--modelFile", source]
    for word, name in zip(rest, names, strict=True):
        made.append("--MNNModel" + word[len(name) :] if name in ("-o", "--output") else word)
    if not {"-f", "--framework"} & set(names):
        from minnow.converter.formats import find_format, is_mnn

        made += ["--framework", "mnn" if is_mnn(source) else find_format(Path(source)).name]
    return made


class _Flag(click.Option):
    """The option for a flag, in the section of its state."""

    def __init__(self, flag: MnnFlag) -> None:
        names = [f"--{flag.name}", *([f"-{flag.short}"] if flag.short else [])]
        more: dict[str, Any] = {"is_flag": True} if flag.kind == "switch" else {"type": _TYPES[flag.kind]}
        if flag.kind == "yes":  # the value may be left out
            more |= {"is_flag": False, "flag_value": "1", "metavar": "[0|1]"}
        if flag.name == "modelFile":
            more["type"] = click.Path()
        super().__init__([*names, flag.key], default=None, help=flag.doc, **more)
        self.section = f"A flag that {STATES[flag.state]}"


def _options(function: Any) -> Any:
    for flag in reversed(MNN_FLAGS.values()):
        if flag.name not in ("help", "version"):  # of every command
            function = click.option(f"--{flag.name}", cls=_made(flag))(function)
    return function


def _made(flag: MnnFlag) -> Any:
    return lambda *_, **__: _Flag(flag)


@click.command(cls=Command, context_settings={"allow_extra_args": False, "ignore_unknown_options": False})
@_options
@FORMAT
@click.pass_context
def command(ctx: click.Context, /, format_: str, **values: Any) -> None:
    """Convert with the flags of MNN's own converter.

    `mnnconvert convert --help` shows Minnow's own, which do more.
    """
    # A number may be 0: that is given, while a switch that is not given is False.
    given = {flag.name: values.get(flag.key) for flag in MNN_FLAGS.values()}
    named = {name: value for name, value in given.items() if value is not None and value is not False}
    _Line(ctx, GivenFlags(named), format_).perform()


class _Line:
    """A command line while it is carried out."""

    def __init__(self, ctx: click.Context, given: GivenFlags, format_: str) -> None:
        self.ctx = ctx
        self.given = given
        self.format = format_
        self.parameters: Path | None = None
        self.recipe: Any = None

    def say(self, text: str) -> None:
        """Prints a line of MNN's converter, unless the result is to be JSON."""
        if self.format == "text":
            click.echo(text)

    def perform(self) -> None:
        """Finds out what is asked for: a list of operators, information, JSON, or a conversion."""
        given = self.given
        name = given.take("framework")
        if name is None:
            raise UsageError("--framework is missing", hint="-f ONNX, for example")
        framework = _FRAMEWORKS.get(name.lower(), name.lower())
        if given.take("OP"):
            self.operators(name, framework)
            return
        given.refuse()
        source = given.take("modelFile")
        if source is None:
            raise UsageError("--modelFile is missing")
        target, text = given.take("MNNModel"), given.take("JsonFile")
        if framework != "json":
            MODEL_FILE.convert(source, None, self.ctx)
        if given.take("info"):
            self.information(source)
        elif text is not None and target is None:
            self.dump(source, text, framework)
        elif target is None:
            raise UsageError("--MNNModel is missing", hint="give the file to write")
        elif text is None:
            action = self.build if framework == "json" else self.convert
            action(source, target, framework)
        else:
            hint = "give one of them: MNN ignores --JsonFile"
            raise UsageError("--JsonFile and --MNNModel are both given", hint=hint)

    def operators(self, name: str, framework: str) -> None:
        from minnow.cli.ops import operator_rows

        rows = operator_rows(framework)
        if self.format == "json":
            emit([row[0] for row in rows], "json")
            return
        names = [row[0] for row in rows if row[1]]
        show("\n".join([f"Dump {name} support Ops", *names, f"Total: {len(names)}"]))

    def information(self, source: str) -> None:
        from minnow.cli._mnn_info import info_text

        if self.format == "json":
            from minnow.cli import inspect

            self.ctx.invoke(inspect.command, model=source, format_="json")
            return
        show(info_text(Path(source)))

    def dump(self, source: str, target: str, framework: str) -> None:
        from minnow.json_file import write_json

        if framework != "mnn":
            raise UnsupportedError(
                "only .mnn files have a JSON form",
                where=source,
                hint=f"convert the {framework} model first: --MNNModel",
            )
        self.finish()
        self.notes(write_json(Path(source), Path(target)))
        self.say(f"MNNModel {source} has convert to JsonFile {target}.")

    def build(self, source: str, target: str, framework: str) -> None:
        from minnow.json_file import write_mnn

        for name in ("bizCode", "saveExternalData", "optimizeLevel"):
            if name in self.given:
                hint = "make the .mnn file first, and convert that: -f MNN"
                raise UnsupportedError(f"a file made of JSON is as the text says: it does not take --{name}", hint=hint)
        self.finish()
        self.notes(write_mnn(Path(source), Path(target)))
        self.say(f"JsonFile {source} has convert to MNNModel {target}.")
        self.say("Converted Success!")

    def convert(self, source: str, target: str, framework: str) -> None:
        from minnow.cli.convert import report_text
        from minnow.convert import convert_file

        dump = self.given.take("dumpPass")
        options = self.options(target, framework)
        self.finish()
        self.say(f"Start to Convert Other Model Format To MNN Model..., target version: {_OLDEST}")
        try:
            with spinner() as progress:
                report = convert_file(Path(source), replace(options, progress=progress))
        except MinnowError as e:
            self.say("Converted Failed!")
            self.checked(options, getattr(e, "verification", None))
            raise
        if self.parameters is not None and not self.parameters.exists():
            from minnow.cli._compression_file import write_guide

            write_guide(self.parameters, report.quantization.layers if report.quantization else [], self.recipe)
            self.say("CompressFileName not exist, create it")
        if dump:
            self.passes(report)
        emit(report, self.format, lambda: report_text(report, False, ""))
        self.say("Converted Success!")
        self.checked(options, report.checked)

    def options(self, target: str, framework: str) -> ConvertOptions:
        """The options of the conversion."""
        from minnow.cli._mnn_files import check_options, input_shapes
        from minnow.options.convert import ConvertOptions

        given = self.given
        if (version := given.take("targetVersion", _OLDEST)) < _OLDEST:
            hint = "convert with that version of MNN"
            raise UnsupportedError(
                f"files are of version {_OLDEST}, not of {version:g}", where="--targetVersion", hint=hint
            )
        level = given.take("optimizeLevel", 1)
        if level not in (0, 1, 2):
            raise UsageError(f"--optimizeLevel is {level}", hint="0, 1 or 2")
        shapes = given.take("inputConfigFile")
        config = given.take("testconfig")
        tolerance = given.take("thredhold", 0.01)
        folder = given.take("testdir", "")
        run: dict[str, Any] = {}
        if config is not None:
            run, texts = check_options(Path(config))
            self.notes(texts)
        if not folder and (config is not None or "thredhold" in given):
            note("--testconfig and --thredhold are for --testdir, which is not given")
        if shapes is not None and "saveStaticModel" not in given:
            note("--inputConfigFile is for --saveStaticModel, which is not given: the shapes stay as they are")
        return ConvertOptions(
            output=target,
            framework=framework,
            weights=given.take("prototxt", ""),
            batch=given.take("batch"),
            inputs=input_shapes(Path(shapes)) if shapes is not None and "saveStaticModel" in given else None,
            optimize=0 if level == 0 else 2,
            biz_code=given.take("bizCode", ""),
            side_file=given.take("saveExternalData"),
            custom_ops=bool(given.take("allowCustomOp")),
            testdir=folder,
            testdir_tolerance=tolerance,
            testdir_run=run,
            form=self.form(framework),
            compression=self.compression(),
        )

    def form(self, framework: str) -> Any:
        """How the file is written."""
        from minnow.schema.mnn.form import FileForm

        given = self.given
        keep = _yes("keepInputFormat", given.take("keepInputFormat", "1"))
        if not keep and framework in _NHWC:
            raise UnsupportedError(
                f"inputs of {framework} models are in NHWC, which has no conversion to channel blocks in the file",
                where="--keepInputFormat",
                hint="leave it out: the inputs are as in the source",
            )
        gelu = given.take("useGeluApproximation")
        product = given.take("convertMatmulToConv")
        return FileForm(
            auth_code=given.take("authCode", ""),
            blocked_border=not keep,
            flush=given.take("alignDenormalizedValue", 1) != 0,
            sparse=bool(given.take("detectSparseSpeedUp")),
            tanh_gelu=bool(gelu),
            convolutions=bool(product) if product is not None else self.quantizes(),
            static=bool(given.take("saveStaticModel")),
        )

    def quantizes(self) -> bool:
        """Whether weights become integers."""
        return self.given.take("weightQuantBits", 0) > 0 or self.given.take("compressionParamsFile") is not None

    def compression(self) -> Any:
        """How weights are made smaller; None if they are not."""
        from minnow.cli._compression_file import read_layers
        from minnow.optimizer.quantize.compress import FLOAT, HALF, Recipe
        from minnow.quantize import Compression

        given = self.given
        file = self.parameters = None if (path := given.take("compressionParamsFile")) is None else Path(path)
        own = read_layers(file) if file is not None and file.exists() else {}
        half, bits, hqq = bool(given.take("fp16")), given.take("weightQuantBits", 0), bool(given.take("hqq"))
        names = ("weightQuantAsymmetric", "weightQuantBlock", "weightQuantScaleBit", "hqq")
        asymmetric = _yes("weightQuantAsymmetric", given.take("weightQuantAsymmetric", "1"))
        block, scale_bits = given.take("weightQuantBlock", -1), given.take("weightQuantScaleBit", 32)
        if scale_bits not in (16, 32):
            raise UnsupportedError(f"scales in {scale_bits} bits", where="--weightQuantScaleBit", hint="32 or 16")
        if not bits and not own and (useless := [f"--{name}" for name in names if name in given]):
            note(f"without --weightQuantBits these have no effect: {', '.join(useless)}")
        if bits and not 2 <= bits <= 8:
            raise UsageError(f"--weightQuantBits is {bits}", hint="2 to 8; 0 for weights as they are")
        if hqq and bits and not asymmetric:
            note("--hqq is for --weightQuantAsymmetric 1: it has no effect")
        if not half and not bits and file is None:
            return None
        recipe = Recipe(
            width=bits or (HALF if half else FLOAT),
            block=max(block, 0),
            symmetric=not asymmetric,
            method="hqq" if hqq and asymmetric else "rtn",
            half_scales=scale_bits == 16,
            products=half and not bits,
            others=half and not bits,
            constants=int(half),
            layers=own,
        )
        self.recipe = recipe
        return Compression(recipe)

    def finish(self) -> None:
        """Notes on what is accepted only; nothing may be left then."""
        self.notes(list(self.given.notes()))
        self.given.finish()

    def notes(self, texts: list[str]) -> None:
        for text in texts:
            note(text)

    def passes(self, report: Report) -> None:
        """A line for each pass, in the words of MNN's converter."""
        for name, row in report.statistics.items():
            hits, removed = int(row["hits"]), int(row["removed"])
            what = f"{hits} times, {removed} nodes removed" if hits else "no change"
            self.say(f"[DumpPass] {name}: {what}")
        before, after = sum(report.nodes_before.values()), sum(report.nodes_after.values())
        self.say(f"[DumpPass] all: ops {before} -> {after}")

    def checked(self, options: ConvertOptions, found: Any) -> None:
        """The lines of MNN's converter about a check with a folder."""
        if not options.testdir or found is None or found.source != str(Path(options.testdir)):
            return
        from minnow.runtime.verify.folder import lines

        self.say(f"Check convert result by {options.testdir}, thredhold is {options.testdir_tolerance:g}")
        for line in lines(found):
            self.say(line)


def _yes(name: str, value: str) -> bool:
    if value.lower() not in (*_NO, *_YES):
        raise UsageError(f"--{name} is '{value}'", hint="1 or 0")
    return value.lower() in _YES
