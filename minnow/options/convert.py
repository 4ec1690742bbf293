"""What a conversion, and the search for what is wrong in one, can be asked for."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from minnow.options.optimize import ExplainOptions, OptimizeOptions
from minnow.options.option import Options, option
from minnow.options.read import Path, ReadOptions
from minnow.options.run import LimitOptions
from minnow.options.verify import OwnVerifyOptions

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False, repr=False)
class ModuleOptions(Options):
    """What belongs to a source that is no file; and what else only a call can give."""

    example_inputs: Any = option(
        None,
        "Of a module: its positional arguments, or its keyword arguments by name; of a ScriptModule what `inputs` is.",
        only_python=True,
    )
    _: KW_ONLY
    dynamic_shapes: Any = option(
        None,
        "Of a module: which dimensions are dynamic, in the form of `torch.export.export`.",
        only_python=True,
    )
    progress: Progress | None = option(None, "Called with the name of each step when it begins.", only_python=True)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WriteOptions(Options):
    """The file that is written."""

    SECTION: ClassVar[str] = "Output"

    output: Path | None = option(
        None, "File to write; by default the source's name with the suffix .mnn.", flags=("-o", "--output"),
        metavar="PATH",
        python="It appears only when everything, the verification included, has succeeded.",
    )  # fmt: skip
    strict_target: bool = option(
        False,
        "Refuse a model that MNN's own runtime cannot run as a whole, with exit code 3 and the nodes.",
        python="Otherwise a notice lists them. For the target 'mnn'.",
    )
    biz_code: str = option("", "Free text that is kept in the file.")
    side_file: bool | None = option(
        None,
        "Put large weights into a companion weights file, OUTPUT.weight; by default only where one file cannot hold "
        "them (2 GiB).",
    )
    prepack: bool = option(
        False,
        "Also write OUTPUT.packed: the weights in the layout that this kind of processor computes with, so that they "
        "are mapped at load instead of being packed.",
        python="Other processors, and other runtimes, ignore it.",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WrittenOptions(LimitOptions, OwnVerifyOptions, WriteOptions, OptimizeOptions):
    """The flags of `mnnconvert optimize`: everything but how a foreign source is read."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConvertOptions(ExplainOptions, WrittenOptions, ReadOptions, ModuleOptions):
    """The arguments of `minnow.convert`, and the flags of `mnnconvert convert`."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BisectOptions(OptimizeOptions, ReadOptions):
    """The arguments of `minnow.bisection.bisect`, and the flags of `mnnconvert debug bisect`."""

    SECTION: ClassVar[str] = "Search"

    engine: bool = option(False, "Run the files by the engine, instead of the graphs by the reference implementation.")
    data: Any = option(
        (), "An .npz file with one array per graph input, to compare on.", repeated=True, metavar="PATH",
        python="Arrays by name, once for each run.",
    )  # fmt: skip
    output: Path | None = option(
        None,
        "Where to write a small model that shows the error, with FILE.txt and FILE.npz beside it; by default "
        "bisect.mnn, and nothing where nothing is wrong.",
        flags=("-o", "--output"),
        metavar="FILE.mnn",
        python="None writes nothing.",
    )
    progress: Progress | None = option(None, "Called with the name of each step when it begins.", only_python=True)
