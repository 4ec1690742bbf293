"""Accepts the flags of MNN's own converter, but returns a nonzero exit code for every failure.

Some flags are supported; some do not change what the file computes, and are ignored with a note; others are refused.
"""

from __future__ import annotations

from typing import Any

import click

from minnow.cli._log import note
from minnow.cli._option import FORMAT, MODEL_FILE, Command
from minnow.schema.errors import UnsupportedError, UsageError

_FLAGS = ("--modelFile", "--MNNModel", "--OP", "--bizCode", "--JsonFile", "--info")

# name -> default value of MNN's converter; other values are refused
_REFUSED: dict[str, str] = {
    "keepInputFormat": "1", "weightQuantBits": "0", "weightQuantScaleBit": "32", "compressionParamsFile": "",
    "inputConfigFile": "", "customOpLibs": "", "testdir": "", "JsonFile": "",
}  # fmt: skip
_REFUSED_FLAGS = ("fp16", "forTraining", "hqq", "saveStaticModel", "transformerFuse", "splitBlockQuant",
                  "allowCustomOp", "rknn")  # fmt: skip
# ignored: they do not change the outputs
_IGNORED = ("optimizePrefer", "targetVersion", "authCode", "testconfig", "thredhold", "weightQuantAsymmetric",
            "weightQuantBlock", "alignDenormalizedValue", "useGeluApproximation", "convertMatmulToConv",
            "transformerFuseC4", "transformerFuseQkvProj", "transformerFuseGateUpProj",
            "transformerFuseLnProj")  # fmt: skip
_IGNORED_FLAGS = ("debug", "detectSparseSpeedUp", "groupConvNative", "useOriginRNNImpl", "dumpPass", "benchmarkModel")


def is_compatible(args: list[str]) -> bool:
    """Whether a command line has a flag that only MNN's converter has."""
    return any(a.partition("=")[0] in _FLAGS for a in args)


def _options(function: Any) -> Any:
    for name in (*_REFUSED, *_IGNORED):
        function = click.option(f"--{name}", name, default=None, hidden=True)(function)
    for name in (*_REFUSED_FLAGS, *_IGNORED_FLAGS):
        function = click.option(f"--{name}", name, is_flag=True, hidden=True)(function)
    return function


@click.command(cls=Command, context_settings={"allow_extra_args": False, "ignore_unknown_options": False})
@click.option("-f", "--framework", "framework", required=True)
@click.option("--modelFile", "model_file", type=MODEL_FILE)
@click.option("--MNNModel", "mnn_model")
@click.option("--prototxt", default="")
@click.option("--bizCode", "biz_code", default="")
@click.option("--batch", type=click.IntRange(1))
@click.option("--optimizeLevel", "optimize_level", type=click.IntRange(0, 2), default=1)
@click.option("--OP", "list_operators", is_flag=True)
@click.option("--info", is_flag=True)
@click.option("--saveExternalData", "side_file", is_flag=True)
@FORMAT
@_options
@click.pass_context
def command(
    ctx: click.Context, /, framework: str, model_file: str | None, mnn_model: str | None, biz_code: str,
    batch: int | None, optimize_level: int, list_operators: bool, info: bool, side_file: bool,
    prototxt: str, format_: str, **others: Any,
) -> None:  # fmt: skip
    """Convert with the flags of MNN's own converter."""
    from minnow.cli import convert, inspect, ops

    if list_operators:
        ctx.invoke(ops.command, framework=framework, format_=format_)
        return
    refused = [
        f"--{n}"
        for n, default in _REFUSED.items()
        if others[n] not in (None, default, "true" if default == "1" else default)
    ]
    refused += [f"--{n}" for n in _REFUSED_FLAGS if others[n]]
    if refused:
        raise UnsupportedError("unsupported options of MNN's converter", items=refused)
    if model_file is None:
        raise UsageError("--modelFile is missing")
    if info:
        ctx.invoke(inspect.command, model=model_file, format_=format_)
        return
    if mnn_model is None:
        raise UsageError("--MNNModel is missing", hint="give the file to write")
    ignored = [f"--{n}" for n in (*_IGNORED, *_IGNORED_FLAGS) if others[n]]
    if ignored:
        note(f"ignored options: {', '.join(ignored)}")
    ctx.invoke(
        convert.command,
        source=model_file,
        output=mnn_model,
        framework=framework,
        batch=batch,
        weights=prototxt,
        optimize=0 if optimize_level == 0 else 2,
        biz_code=biz_code,
        side_file=side_file or None,
        format_=format_,
    )
