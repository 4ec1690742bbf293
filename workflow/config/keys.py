"""The keys of the configuration file. What a conversion can be asked for comes from the fields of `ConvertOptions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from functools import cache
from typing import Any

from minnow.options.convert import ConvertOptions
from minnow.options.option import choices, flags, is_names, plain_type, said
from minnow.workflow.config.kind import (
    Either,
    Flag,
    Key,
    Kind,
    List,
    Named,
    Number,
    Relative,
    Shapes,
    Size,
    Table,
    Text,
)
from minnow.workflow.metric import METRICS


@cache
def option_keys() -> Mapping[str, Key]:
    """The options of conversions: all fields of `ConvertOptions` that have a flag, without the output."""
    return {
        f.name: Key(_kind(f), said(f).doc, "" if f.default in (None, "", ()) else _toml(f.default))
        for f in fields(ConvertOptions)
        if flags(f) and f.name != "output"
    }


def _kind(f: Field[Any]) -> Kind:
    more, kind = said(f), plain_type(f)
    if f.name == "inputs":
        return Shapes()
    if choices(f):
        return Text(choices(f))
    if is_names(f):
        return List(Text(), alone=False)
    if more.metavar == "PATH":
        return List(Text(path=True)) if more.repeated else Text(path=True)
    if kind is bool:
        return Flag()
    if kind in (int, float):
        return Size() if more.unit > 1 else Number(kind is int, more.least, more.above, more.most)
    return Text()


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


LATENCY = Table(
    "latency",
    "How much slower than a baseline a model may be. Both are timed in turns, after all conversions; the limit is "
    "exceeded if the whole confidence interval of the ratio is above it.",
    lambda: {
        "ratio": Key(
            Number(above=0), "The largest ratio of the median latency to that of the baseline.", required=True
        ),
        "baseline": Key(
            Text(path=True, what="a path, or the name of a runtime"),
            "A `.mnn` file, for example that of the base branch; or a runtime: onnxruntime, litert, openvino, mnn, "
            "ncnn. Names in braces as in `output`, and `{output}` for the path of the output. If the file does not "
            "exist, the budget passes with a note.",
        ),
        "python": Key(
            Text(path=True),
            "The Python of an environment with another build of Minnow, for example that of the base branch: "
            "`base/bin/python`. It runs the baseline, or without one the same file. If it does not exist, the budget "
            "passes with a note.",
        ),
        "threads": Key(Number(True, least=1), "Number of threads of both.", "1"),
        "retries": Key(Number(True, least=0), "How many times it is measured again before a breach counts.", "2"),
    },
)


@cache
def _budget_keys() -> Mapping[str, Key]:
    keys = {}
    for m in METRICS.values():
        number: Kind = Size() if m.unit == "bytes" else Number(least=0)
        kind = LATENCY if m.measured == "timed" else Relative(number) if m.of_source else number
        keys[m.name] = Key(kind, m.help)
    return keys


BUDGETS = Table("budgets", "The largest values that pass; exit code 5 if one is exceeded.", _budget_keys)

LIMITS = Table(
    "limits",
    "Limits of the process that converts one model.",
    lambda: {
        "seconds": Key(Number(above=0), "Time after which it is stopped, exit code 9; by default there is none."),
        "memory": Key(
            Size(),
            "The most memory that it may take; with more the model fails. By default there is none, and the machine's "
            "free memory decides how many models are converted at a time.",
        ),
    },
)

_OWN = {
    "budgets": Key(BUDGETS, "Budgets, of the metrics that differ from those of the file."),
    "limits": Key(LIMITS, "Limits, if they differ from those of the file."),
}

VARIANT = Table(
    "variants.NAME", "One way to convert models: options, budgets and limits.", lambda: {**_OWN, **option_keys()}
)

MODEL = Table(
    "models.NAME",
    "A model, or several by a pattern. Its options count more than those of a variant.",
    lambda: {
        "source": Key(
            Text(path=True, what="a path, pattern or URL"),
            "The model file; a pattern such as `models/**/*.onnx`, for models called NAME.STEM; or a URL "
            "(`pip install 'minnow[fleet]'`).",
            required=True,
        ),
        "output": Key(Text(path=True), "The file to write, as `output` of the file."),
        "variants": Key(
            Either(Named(VARIANT)),
            "The variants of this model; as tables also with options for this model in this variant only. "
            "`variants = []` converts it once, without any.",
            "all",
        ),
        **_OWN,
        **option_keys(),
    },
)

EXCLUDE = Table(
    "exclude",
    "Cells that are left out, and reported as skipped. One that matches nothing is an error.",
    lambda: {
        "model": Key(Text(), "Name or pattern of models.", '"*"'),
        "variant": Key(Text(), "Name or pattern of variants.", '"*"'),
        "reason": Key(Text(), "Why; it is in the reports.", required=True),
    },
)

FILE = Table(
    "",
    "The top of the file.",
    lambda: {
        "output": Key(
            Text(path=True),
            "The file to write for each model: `{name}` is the model's name, `{stem}` the name of its file without "
            "suffix, `{folder}` the folder of its file, `{variant}` the variant (`default` without one).",
            '"{folder}/{stem}.mnn", with variants "{folder}/{stem}-{variant}.mnn"',
        ),
        "store": Key(Text(path=True), "Where `mnnconvert fleet` keeps its results: a folder, or a URL."),
        "models": Key(Named(MODEL), "The models by name.", required=True),
        "variants": Key(Named(VARIANT), "The ways to convert each model; without any, each is converted once."),
        "defaults": Key(Table("defaults", "Options of all conversions.", option_keys), "Options of all conversions."),
        "budgets": Key(BUDGETS, "Budgets of all conversions."),
        "limits": Key(LIMITS, "Limits of all conversions."),
        "exclude": Key(List(EXCLUDE, alone=False), "Cells that are left out."),
    },
)
