"""Options of commands about many models."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from minnow.options.option import Options, option
from minnow.options.read import Path


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CellsOptions(Options):
    """Which models are converted, and what is written about them."""

    SECTION: ClassVar[str] = "Many models"

    only: Any = option(
        (),
        "Only this model, or MODEL/VARIANT; also a pattern. May be given several times.",
        metavar="NAME",
        repeated=True,
    )
    jobs: int | None = option(
        None,
        "How many conversions run at a time; by default as many as there are processors and memory for. A Dask cluster "
        "runs as many as its workers have threads.",
        flags=("-j", "--jobs"),
        least=1,
    )
    report: Any = option(
        (),
        "Also write a report: junit, sarif, md, ...; `github` needs no file. May be given several times.",
        metavar="KIND=FILE",
        repeated=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CiCommand(CellsOptions):
    """The flags of `mnnconvert ci`."""

    SECTION: ClassVar[str] = "Run"

    config: Path | None = option(
        None,
        "The configuration; by default minnow.toml, or pyproject.toml with [tool.minnow], in the current folder or "
        "above it.",
        metavar="FILE",
    )
    check: bool = option(
        False,
        "Convert nothing: compare the outputs with their receipts, sources and options; exit code 4 if one is stale.",
    )
    cache: str = option("", "Keep results here, and take those of unchanged models from here.", metavar="DIR|URL")
    latency: bool = option(True, "Measure latencies that have a budget.")
    deterministic: bool = option(False, "Leave times and other things that differ between runs out of the results.")
    fail_on: Literal["error", "warning", "never"] = option(
        "error", "The least that gives a nonzero exit code; a warning gives 4."
    )
    schema: bool = option(False, "Print the JSON schema of the configuration, for editors, and exit.")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FleetCommand(CellsOptions):
    """The flags of `mnnconvert fleet`."""

    SECTION: ClassVar[str] = "Run"

    scheduler: str = option(
        "local",
        "Where conversions run: on this machine in a pool, in Dask workers of this machine, or on a Dask cluster.",
        metavar="local|dask|dask://HOST:PORT",
    )
    store: str = option("", "Where results are kept; by default the `store` of the plan.", metavar="DIR|URL")
    retry_failed: bool = option(False, "Convert again what has failed before.")
    outputs: bool | None = option(
        None,
        "Also write each model to its output path, besides the store; by default if the conversions run on this "
        "machine.",
    )
    status: bool = option(False, "Convert nothing: show what the store has.")
    gc: bool = option(False, "Convert nothing: remove from the store what does not belong to this plan as it is now.")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DiffCommand(Options):
    """The flags of `mnnconvert diff`."""

    SECTION: ClassVar[str] = "Comparison"

    max_increase: Any = option(
        (),
        "The largest increase of a metric from BASE to HEAD that passes: bytes=1%, bytes='10 kB', nodes=0. May be "
        "given several times.",
        metavar="METRIC=N[%]",
        repeated=True,
    )
    fail_on: Literal["never", "limit", "worse", "removed"] = option(
        "worse",
        "What gives exit code 5. limit: a metric has increased by more than its limit; worse: also a model whose "
        "result is worse; removed: also one that is no longer there.",
    )
    allow_missing_base: bool = option(False, "Pass if BASE does not exist, as in the first run.")
    report: Any = option(
        (),
        "Also write a report: md, for a comment on a pull request, or json. May be given several times.",
        metavar="KIND=FILE",
        repeated=True,
    )
