"""Options of the optimizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from minnow.options.option import Options, option

Target = Literal["mnn", "minnow"]
Int64 = Literal["auto", "narrow", "keep"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OptimizeOptions(Options):
    """Which rewrites are applied, and for which runtime."""

    SECTION: ClassVar[str] = "Optimization"

    optimize: int = option(
        2,
        "Optimization level: 0 none, 1 clean-up and constant folding, 2 fusions, 3 also rewrites that may change the "
        "last bits of outputs.",
        flags=("-O",),
        least=0,
        most=3,
    )
    target: Target = option(
        "mnn",
        "Target runtime: mnn, any runtime of the format, including MNN's own; minnow, only Minnow's engine, with fewer "
        "nodes.",
    )
    passes: Sequence[str] = option(
        (), "Passes and rules to run instead of those of the level; with a leading '-', to omit."
    )
    int64: Int64 = option(
        "auto",
        "Which int64 tensors become int32: those that provably fit (auto), all (narrow), or none (keep).",
        python="MNN's own runtime has no int64. 'auto' also narrows tensors that only hold indices; 'narrow' narrows "
        "all except for constants that do not fit, and a notice lists the tensors that are not proven to fit. The "
        "session always has the types of the source, and refuses inputs that do not fit.",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExplainOptions(Options):
    """Explanations and checks of the optimizer."""

    SECTION: ClassVar[str] = "Debugging the optimizer"

    explain: str = option(
        "", "Show the nodes that a rule or pass was applied to, and why not to others.", metavar="RULE[@NODE]"
    )
    check_each: bool = option(
        False,
        "After every optimizer step, compare the graph with the source by the (slow) reference implementation; exit "
        "code 4 at the first step that changes the outputs.",
        python="That is a VerifyError. Each comparison takes two runs of the reference implementation, seconds for an "
        "image network. Dynamic dimensions get small sizes.",
    )
    check_limit: float = option(
        300.0,
        "Time limit for --check-each; the remaining steps are then compared together.",
        python="In seconds; a notice lists the remaining steps.",
        least=0,
        metavar="SECONDS",
    )
