"""Options of conversions, and of the search for a wrong rewrite in one."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from minnow.options.optimize import ExplainOptions, OptimizeOptions
from minnow.options.option import Options, option
from minnow.options.prune import PruneOptions
from minnow.options.read import Path, ReadOptions
from minnow.options.run import LimitOptions
from minnow.options.verify import OwnVerifyOptions

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False, repr=False)
class ModuleOptions(Options):
    """Arguments for PyTorch modules, and others that only a call in Python can have."""

    example_inputs: Any = option(
        None,
        "For a PyTorch module: its positional arguments, or keyword arguments by name; for a ScriptModule, `inputs`.",
        only_python=True,
    )
    _: KW_ONLY
    dynamic_shapes: Any = option(
        None,
        "For a PyTorch module: its dynamic dimensions, as for `torch.export.export`.",
        only_python=True,
    )
    progress: Progress | None = option(
        None, "A function that is called with the name of each step when it starts.", only_python=True
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WriteOptions(Options):
    """The output file."""

    SECTION: ClassVar[str] = "Output"

    output: Path | None = option(
        None, "File to write; by default the source's name with the suffix .mnn.", flags=("-o", "--output"),
        metavar="PATH",
        python="It is written only if everything, the verification included, has succeeded.",
    )  # fmt: skip
    strict_target: bool = option(
        False,
        "Refuse models that MNN's own runtime cannot run completely: exit code 3, with a list of the nodes.",
        python="Otherwise a notice lists the nodes. Only for the target 'mnn'.",
    )
    biz_code: str = option("", "Text to store in the file (MNN's bizCode).")
    side_file: bool | None = option(
        None,
        "Write large weights to a companion weights file, OUTPUT.weight; by default only if the model exceeds 2 GiB.",
    )
    mnn_llm: bool = option(
        False,
        "Of a language model: write a folder of MNN-LLM, for MNN's own runtime, instead of one for Minnow's engine.",
    )
    form: Any = option(
        None,
        "How the file is written, a `minnow.schema.mnn.form.FileForm`: fixed shapes, weights without zeros, and more.",
        only_python=True,
    )
    compression: Any = option(None, "How weights are made smaller, a `minnow.quantize.Compression`.", only_python=True)
    prepack: bool = option(
        False,
        "Also write a companion file OUTPUT.packed with the weights packed for this kind of processor, which makes "
        "loading faster.",
        python="It is ignored on other processors and by other runtimes.",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WrittenOptions(LimitOptions, OwnVerifyOptions, WriteOptions, OptimizeOptions):
    """The flags of `mnnconvert optimize`: those of a conversion, except for how the source is read and debugging."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConvertOptions(ExplainOptions, WrittenOptions, PruneOptions, ReadOptions, ModuleOptions):
    """The arguments of `minnow.convert`, and the flags of `mnnconvert convert`."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JsonCommand(Options):
    """The flags of `mnnconvert json`."""

    SECTION: ClassVar[str] = "Output"

    output: Path | None = option(
        None, "File to write; by default SOURCE with the suffix .json or .mnn.", flags=("-o", "--output"),
        metavar="PATH",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BisectOptions(OptimizeOptions, ReadOptions):
    """The arguments of `minnow.bisection.bisect`, and the flags of `mnnconvert debug bisect`."""

    SECTION: ClassVar[str] = "Search"

    engine: bool = option(False, "Run graphs with the engine instead of the reference implementation.")
    data: Any = option(
        (),
        "An .npz file with one array per graph input, to use instead of random inputs.",
        python="A list of mappings with arrays by name, one for each run.",
        metavar="PATH",
        repeated=True,
    )
    output: Path | None = option(
        None,
        "Where to write the small model that reproduces the difference, with FILE.txt and FILE.npz beside it; by "
        "default bisect.mnn.",
        flags=("-o", "--output"),
        metavar="FILE.mnn",
        python="None does not write it.",
    )
    progress: Progress | None = option(
        None, "A function that is called with the name of each step when it starts.", only_python=True
    )
