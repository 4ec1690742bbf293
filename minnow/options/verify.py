"""How a converted model is compared with its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from minnow.options.option import Options, option
from minnow.options.read import Path, ReadOptions
from minnow.options.run import RandomOptions, RunOptions
from minnow.schema.errors import UsageError


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompareOptions(Options):
    """Inputs and tolerance of a comparison."""

    SECTION: ClassVar[str] = "Verification"

    data: Any = option(
        (),
        "Real inputs to verify with instead of random ones: an .npz file with one array per graph input, or a picture.",
        python="Also arrays by name. A picture is for the image input. A list has one item for each run.",
        metavar="PATH",
        repeated=True,
        names_files=True,
    )
    tolerance: float | None = option(
        None,
        "Largest error that passes, as a fraction of the output's largest magnitude; by default 1e-4, for float16 "
        "sources 1e-2, with --precision low 5e-2.",
        python="None also accepts differences between any two runtimes: rounding errors near 0, and single steps of "
        "values that are rounded to few bits.",
        least=0,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FolderOptions(Options):
    """Comparison with a folder of inputs and outputs."""

    SECTION: ClassVar[str] = "Verification"

    testdir: Path = option(
        "",
        "Also compare with the inputs and expected outputs in this folder, in the text form of MNN's tools: input.json "
        "and NAME.txt.",
        metavar="DIR",
        names_files=True,
    )
    testdir_tolerance: float = option(
        0.01,
        "Largest error that passes for --testdir, as a fraction of the output's largest magnitude, or of 1e-4 if that "
        "is larger.",
        least=0,
    )
    testdir_run: Any = option(
        None, "For `testdir`: options of the session that differ from the others, by name.", only_python=True
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OwnVerifyOptions(FolderOptions, CompareOptions):
    """The verification that is part of a conversion."""

    SECTION: ClassVar[str] = "Verification"

    verify: bool = option(True, "Run the written file and compare its outputs with those of the source.")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.tolerance is not None or (len(self.data) > 0 if hasattr(self.data, "__len__") else bool(self.data))
        if given and not self.verify:
            raise UsageError(
                "data and tolerance are for the verification, which is switched off", hint="omit them, or verify"
            )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VerifyOptions(RunOptions, FolderOptions, CompareOptions, RandomOptions, ReadOptions):
    """The arguments of `minnow.verify`."""

    SECTION: ClassVar[str] = "Verification"

    runs: int = option(3, "Number of runs with random inputs.", least=1)
    seeds: Sequence[int] | None = option(
        None,
        "Seeds of the random inputs, instead of `seed` and `runs`; models with dynamic dimensions run with several "
        "sizes.",
        only_python=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VerifyCommand(VerifyOptions):
    """The flags of `mnnconvert verify`."""

    SECTION: ClassVar[str] = "Verification"

    strict: bool = option(False, "Exit code 4 also if the verdict is inconclusive.")
    write_testdir: Path = option(
        "",
        "Write random inputs and the source's outputs for them to this folder, in the text form of MNN's tools; "
        "without MODEL that is all.",
        metavar="DIR",
    )
