"""What the optimizer does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from minnow.options.option import Options, option

Target = Literal["mnn", "minnow"]
Int64 = Literal["auto", "narrow", "keep"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OptimizeOptions(Options):
    """How far a graph is optimized, and for which runtime."""

    SECTION: ClassVar[str] = "Optimization"

    optimize: int = option(
        2,
        "Optimization level: 0 none, 1 clean up and fold constants, 2 fuse operators, 3 also what may change the last "
        "bits of results.",
        flags=("-O",),
        least=0,
        most=3,
    )
    target: Target = option(
        "mnn",
        "Target runtime: mnn, any runtime of the format, MNN's own included; minnow, only Minnow's engine, for which "
        "there are fewer nodes.",
    )
    passes: Sequence[str] = option(
        (), "Comma-separated passes and rules to run instead of the level's; with a leading '-': to leave out."
    )
    int64: Int64 = option(
        "auto",
        "Which int64 tensors become int32: those that provably fit (auto), all (narrow), or none (keep).",
        python="MNN's own runtime has no int64. 'auto' also changes what only holds positions; 'narrow' changes all "
        "but constants that do not fit, and a notice lists what is not proven. In all cases the session shows the "
        "source's types, and refuses inputs that do not fit.",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExplainOptions(Options):
    """What the optimizer tells and checks while it works."""

    SECTION: ClassVar[str] = "Debugging the optimizer"

    explain: str = option("", "Report where a rule or pass was applied, and why not elsewhere.", metavar="RULE[@NODE]")
    check_each: bool = option(
        False,
        "After every step of the optimizer, compare the graph with the source by the slow reference implementation; "
        "exit code 4 at the first step that changes the numbers.",
        python="That is a VerifyError. Each comparison takes two runs of the reference implementation: seconds for an "
        "image network. Dynamic dimensions get small numbers.",
    )
    check_limit: float = option(
        300.0,
        "Time for --check-each; later steps are compared together, at the end.",
        python="In seconds; a notice says which steps these were.",
        least=0,
        metavar="SECONDS",
    )
