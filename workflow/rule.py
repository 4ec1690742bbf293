"""The reasons why a check does not pass. Their names are stable: reports and CI settings refer to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from minnow.schema import errors
from minnow.workflow.metric import METRICS

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Rule:
    """One reason.

    Attributes:
        name: stable, lower case with hyphens.
        title: one short sentence.
        help: what it means and what to do.
        level: how bad it is.
        exit_code: of a run in which it is the only reason.
        tags: what it is about, for filters of reports.
    """

    name: str
    title: str
    help: str
    level: Level = "error"
    exit_code: int = 1
    tags: tuple[str, ...] = ()


_NOTES = (
    ("lossy-cast", "Integers were narrowed without a proof that they fit.", ("numbers",),
     "It was asked for by `int64 = \"narrow\"`. Use `auto` to narrow only what provably fits in 32 bits, or make sure "
     "that the values named in the message are small."),
    ("shape-assumed", "A shape was assumed, since the file does not tell it.", ("shapes",),
     "Give the shapes of the inputs, for example `inputs = { x = \"1x3x224x224\" }`, so that they are what you mean."),
    ("type-assumed", "An element type was assumed or made the same for several values.", ("numbers",),
     "Give the types of the inputs, for example `inputs = { x = \"float64[1,3]\" }`, if they are others."),
    ("layer-left-out", "A layer of the source that is not for inference was left out.", ("graph",),
     "Nothing has to be done if it is for training only. If its results became inputs, feed them."),
    ("error-left-out", "The source can raise an error, which the converted model never does.", ("graph",),
     "Check the inputs before a run in the way in which the source did."),
    ("name-changed", "An output has another name than in the source.", ("graph",),
     "Use the new name where outputs are read by name."),
    ("complex-as-pairs", "A complex tensor has its real and imaginary parts along a last dimension.", ("numbers",),
     "Feed and read such tensors with that last dimension of size 2."),
    ("not-for-mnn", "The runtime of MNN cannot run the file, or computes parts of it differently.", ("target",),
     "Nothing has to be done if Minnow's engine runs it. Otherwise see the message; `strict_target` refuses such "
     "files."),
    ("second-graph", "The file holds a second graph, for the runtime of MNN.", ("target",),
     "Nothing has to be done if Minnow's engine runs the file. In MNN's runtime results of quantized layers may differ "
     "by a step of their integers; `target = \"minnow\"` writes a smaller file without that graph."),
    ("check-incomplete", "Not every step of the optimizer was checked.", ("verification",),
     "Raise `check_limit` if each step is to be checked."),
    ("not-run", "The file is not verified, since Minnow's engine does not run it.", ("verification",),
     "Run it with the runtime that it is for, and compare its outputs with those of the source."),
    ("verified", "A language model gives the results of the reference implementation.", ("verification",),
     "Nothing has to be done."),
    ("lossy-form", "Compressed weights change the outputs.", ("numbers",),
     "Compare the error with what the application allows; more bits make it smaller."),
    ("companion-file", "The output has a companion file.", ("files",),
     "Keep both files together, and publish both."),
    ("no-tokenizer", "The source has no tokenizer.", ("files",),
     "Put a tokenizer.json into the folder, or give the model numbers of tokens."),
    ("notice", "A note of the conversion.", (), "Nothing has to be done."),
)  # fmt: skip
"""Notes: name, title, tags, help. The kinds of notices of a conversion (`minnow.schema.notice`) are among them."""

RULES = {
    rule.name: rule
    for rule in (
        Rule("unreadable-source", "The source file cannot be read.",
             "It is missing, truncated, or not of a supported format. Check the path, and that Git LFS has fetched the "
             "file: `git lfs pull`.",
             exit_code=errors.FormatError.exit_code, tags=("source",)),
        Rule("invalid-model", "The model in the file is invalid.",
             "Types, shapes or references do not fit, or a limit on sizes is exceeded. Check the file with the "
             "framework that wrote it, and export it again.",
             exit_code=errors.ModelError.exit_code, tags=("source",)),
        Rule("unsupported-operator", "The model contains unsupported operators.",
             "The message lists all of them with their nodes. `mnnconvert check MODEL` shows them with what to try; "
             "`mnnconvert ops -f FORMAT` lists what is supported.",
             exit_code=errors.UnsupportedError.exit_code, tags=("operators",)),
        Rule("verification-failed", "The outputs differ from those of the source.",
             "No file was written. `mnnconvert debug bisect MODEL` finds the first rewrite that changes an output. If "
             "the difference is acceptable, raise `tolerance`.",
             exit_code=errors.VerifyError.exit_code, tags=("verification",)),
        Rule("verification-inconclusive", "Some outputs were not tested by the inputs.",
             "They were constant or random, for example. Give real inputs to verify with: `data`.",
             level="warning", exit_code=0, tags=("verification",)),
        Rule("device-unavailable", "The device is not available.", "Choose another device, or another machine.",
             exit_code=errors.DeviceError.exit_code, tags=("environment",)),
        Rule("output-not-written", "The output cannot be written.",
             "Check the folder, its permissions and the free space on the disk.",
             exit_code=errors.WriteError.exit_code, tags=("environment", "files")),
        Rule("stopped", "The conversion was stopped by its time limit.",
             "Raise the limit of seconds, or use a faster machine. The log shows the last step.",
             exit_code=errors.StoppedError.exit_code, tags=("environment",)),
        Rule("out-of-memory", "The conversion needs more memory than its limit.",
             "Raise the limit of memory, or run fewer conversions at a time: `--jobs`.",
             exit_code=errors.ModelError.exit_code, tags=("environment",)),
        Rule("crashed", "The process of the conversion has ended without a result.",
             "This is a bug in Minnow or in a library; please report it with the log.", tags=("bug",)),
        Rule("internal-error", "A bug in Minnow.",
             "Please report it with the log; MINNOW_DEBUG=1 shows the traceback.", tags=("bug",)),
        Rule("wrong-options", "The options of the variant do not fit the model.",
             "Correct the configuration at the line that is named.",
             exit_code=errors.UsageError.exit_code, tags=("configuration",)),
        Rule("stale-output", "The output does not belong to the sources and options as they are now.",
             "Run `mnnconvert ci`, and commit or publish the outputs.",
             exit_code=errors.VerifyError.exit_code, tags=("files",)),
        *(
            Rule(f"budget-{m.name.replace('_', '-')}", f"The budget of the {m.title} is exceeded.",
                 f"Make the model smaller or faster, or raise `budgets.{m.name}`.",
                 exit_code=errors.BudgetError.exit_code, tags=("budget",))
            for m in METRICS.values()
        ),
        *(Rule(name, title, help, level="note", exit_code=0, tags=tags) for name, title, tags, help in _NOTES),
    )
}  # fmt: skip

_OF_ERRORS: dict[type[errors.MinnowError], str] = {
    errors.FormatError: "unreadable-source",
    errors.ModelError: "invalid-model",
    errors.UnsupportedError: "unsupported-operator",
    errors.VerifyError: "verification-failed",
    errors.DeviceError: "device-unavailable",
    errors.WriteError: "output-not-written",
    errors.StoppedError: "stopped",
    errors.UsageError: "wrong-options",
}


def rule_of(error: BaseException) -> Rule:
    """The rule of an error that a conversion has raised."""
    if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError):
        return RULES["out-of-memory"]
    kinds = type(error).__mro__
    return RULES[next((_OF_ERRORS[kind] for kind in kinds if kind in _OF_ERRORS), "internal-error")]
