"""Options and value types that several commands share."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    from minnow.converter.inputs.given import Given


class _ModelFile(click.Path):
    """The path of a model, which is there and is not evidently something else: before anything big is imported."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            hint = "save it to a file first; './-' is one of that name"
            raise UsageError("the model is '-', but models are only read from files", hint=hint)
        from minnow.converter.formats import check_readable

        check_readable(Path(value))
        return super().convert(value, param, ctx)


class InputOption(click.ParamType):
    """`NAME=1x3x224x224` or `NAME=int64[1,128]`, "?" for what the model says; gives (name, what is said of it)."""

    name = "NAME=1x3x..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Given]:
        if isinstance(value, tuple):
            return value
        from minnow.converter.inputs.given import parsed

        name, _, text = str(value).rpartition("=")
        if not name:
            self.fail(f"{value!r} is not of the form NAME=1x3x224x224 or NAME=int64[1,128]", param, ctx)
        try:
            return name, parsed(text)
        except UsageError as e:
            self.fail(f"{value!r}: {e.message} ({e.hint})", param, ctx)


MODEL_FILE = _ModelFile()
FORMAT = click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", help="Form of the result on stdout."
)
INPUT = click.option(
    "--input",
    "inputs",
    type=InputOption(),
    multiple=True,
    help="Shape of an input, where the model leaves it open; with its element type, where the model has none: "
    "NAME=int64[1,128].",
)

TRUST = click.option(
    "--trust", is_flag=True, help="Let code of the model file run: a TorchScript program, to compare with it."
)

_READING = (
    click.option("-f", "--framework", help="Format of the source; found by content when left out."),
    INPUT,
    click.option(
        "--batch", type=click.IntRange(0), help="Number for the first dynamic dimension of each input, such as N."
    ),
    click.option("--signature", default="", help="Entry point of a source that has several."),
    click.option(
        "--inputs", "cut_inputs", default="", metavar="NAME,...",
        help="Tensors to begin at, instead of the source's inputs.",
    ),
    click.option(
        "--outputs", "cut_outputs", default="", metavar="NAME,...",
        help="Tensors to end at, instead of the source's outputs.",
    ),
    click.option(
        "--weights", "--prototxt", "weights", default="", metavar="PATH",
        help="The other file of a source that is two: Caffe's .caffemodel, or its .prototxt.",
    ),
    click.option("--dequantize", is_flag=True, help="Compute in float what the source computes with integers."),
    TRUST,
)  # fmt: skip


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how a source is to be read; the command gets them together, as `reading`."""

    @functools.wraps(command)
    def gathered(
        *args: Any, framework: str | None, inputs: Any, batch: int | None, signature: str, cut_inputs: str,
        cut_outputs: str, weights: str, dequantize: bool, trust: bool, **others: Any,
    ) -> Any:  # fmt: skip
        cut = {"cut_inputs": cut_inputs, "cut_outputs": cut_outputs}
        names = {key: [n for n in text.split(",") if n] for key, text in cut.items()}
        options = {
            "framework": framework,
            "inputs": dict(inputs) or None,
            "batch": batch,
            "signature": signature,
            **names,
        }
        options |= {"weights": weights, "dequantize": dequantize, "trust": trust}
        return command(*args, reading=options, **others)

    for option in reversed(_READING):
        gathered = option(gathered)
    return gathered


STRICT_TARGET = click.option(
    "--strict-target", is_flag=True,
    help="Refuse a model of which MNN's own runtime could not run every node, with exit code 3 and the nodes.",
)  # fmt: skip

_OPTIMIZING = (
    click.option(
        "-O", "optimize", type=click.IntRange(0, 3), default=2, show_default=True,
        help="Optimization: 0 none, 1 clean up and fold, 2 fuse, 3 also what may change the last bits.",
    ),
    click.option(
        "--target", type=click.Choice(["mnn", "minnow"]), default="mnn", show_default=True,
        help="Who is to run the file: MNN's own runtime too, or only Minnow's engine, with fewer nodes.",
    ),
    click.option("--passes", default="", help="Comma-separated passes to run; with a leading '-' to leave out."),
    click.option(
        "--int64", type=click.Choice(["auto", "narrow", "keep"]), default="auto", show_default=True,
        help="Make int32 of int64: where it provably fits, everywhere, or nowhere.",
    ),
)  # fmt: skip


def optimizing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the optimizer; the command gets them together, as `optimizing`, by `minnow.convert`'s names."""

    @functools.wraps(command)
    def gathered(*args: Any, optimize: int, target: str, passes: str, int64: str, **others: Any) -> Any:
        names = [p for p in passes.split(",") if p]
        chosen = {"optimize": optimize, "target": target, "passes": names, "int64": int64}
        return command(*args, optimizing=chosen, **others)

    for option in reversed(_OPTIMIZING):
        gathered = option(gathered)
    return gathered


THREADS = click.option("--threads", type=click.IntRange(1, 256), default=None, help="Threads of the session.")
TIMEOUT = click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=None, metavar="SECONDS",
    help="Time that planning, and each inference of the engine, may take; exit code 9 after that.",
)  # fmt: skip
PRECISION = click.option(
    "--precision", type=click.Choice(["high", "normal", "low"]), default="high",
    help="high: float32 everywhere; normal: 16 bits of each factor, where that is faster (AMX); low: 8 bits, bfloat16, "
    "where that is faster.",
)  # fmt: skip


def emit(value: Any, format_: str, text: Callable[[], str] | None = None) -> None:
    """Prints a result: as one JSON document, or as text."""
    if format_ == "json":
        click.echo(json.dumps(value, default=_plain))
    else:
        click.echo(text() if text is not None else str(value))


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], right: int = 1) -> str:
    """Text table; columns from `right` on are aligned to the right."""
    cells = [header, *([str(c) for c in row] for row in rows)]
    widths = [max(len(r[i]) for r in cells) for i in range(len(header))]
    lines = [
        "  ".join(
            c.rjust(w) if i >= right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
