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


RULES = {
    rule.name: rule
    for rule in (
        Rule("unreadable-source", "The source file cannot be read.",
             "It is missing, truncated, or not of a supported format. Check the path and that Git LFS has fetched it.",
             exit_code=errors.FormatError.exit_code),
        Rule("invalid-model", "The model in the file is invalid.",
             "Types, shapes or references do not fit. Check the file with the framework that wrote it.",
             exit_code=errors.ModelError.exit_code),
        Rule("unsupported-operator", "The model contains unsupported operators.",
             "The message lists all of them with their nodes. `mnnconvert check` shows what is supported.",
             exit_code=errors.UnsupportedError.exit_code),
        Rule("verification-failed", "The outputs differ from those of the source.",
             "`mnnconvert debug bisect` finds the first rewrite that changes an output.",
             exit_code=errors.VerifyError.exit_code),
        Rule("verification-inconclusive", "Some outputs were not tested by the inputs.",
             "Give real inputs to verify with, in `data`.", level="warning", exit_code=0),
        Rule("device-unavailable", "The device is not available.", "Choose another device, or another machine.",
             exit_code=errors.DeviceError.exit_code),
        Rule("output-not-written", "The output cannot be written.", "Check the folder, its permissions and the disk.",
             exit_code=errors.WriteError.exit_code),
        Rule("stopped", "The conversion was stopped by its time limit.", "Raise the limit of seconds.",
             exit_code=errors.StoppedError.exit_code),
        Rule("out-of-memory", "The conversion needs more memory than its limit.", "Raise the limit of memory.",
             exit_code=errors.ModelError.exit_code),
        Rule("crashed", "The process of the conversion has ended without a result.",
             "This is a bug in Minnow or in a library; please report it with the log."),
        Rule("internal-error", "A bug in Minnow.", "Please report it with the log."),
        Rule("wrong-options", "The options of the variant do not fit the model.", "Correct the configuration.",
             exit_code=errors.UsageError.exit_code),
        Rule("stale-output", "The output does not belong to the sources and options as they are now.",
             "Run `mnnconvert ci`, and commit or publish the outputs.", exit_code=errors.VerifyError.exit_code),
        Rule("notice", "A note of the conversion.", "Nothing has to be done.", level="note", exit_code=0),
        *(
            Rule(f"budget-{m.name.replace('_', '-')}", f"The budget of the {m.title} is exceeded.",
                 "Make the model smaller or faster, or raise the budget.", exit_code=errors.BudgetError.exit_code)
            for m in METRICS.values()
        ),
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
