"""Options of sessions. A new option of sessions is one more field of `RunOptions`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from minnow.options.option import Options, option
from minnow.options.read import InputOptions, Path

Precision = Literal["high", "normal", "low"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LimitOptions(Options):
    """Limits of a session."""

    SECTION: ClassVar[str] = "Running the model"

    timeout: float | None = option(
        None,
        "Seconds for planning, and for each run of the engine; exit code 9 after that.",
        python="That is a DeadlineError. None for no limit. It is checked between nodes, and on the CPU also within "
        "those that take long.",
        above=0,
        metavar="SECONDS",
    )
    max_memory: int | None = option(
        None,
        "Memory for intermediate tensors, states, results, and what the model has in memory: packed weights and "
        "folded constants; by default 512 MiB plus 256 times the size of the model and its inputs.",
        python="In bytes. The default is at most the machine's memory, and three quarters of it beside packed weights.",
        least=1,
        unit=1 << 20,
        metavar="MIB",
    )
    max_rounds: int | None = option(
        None, "Iterations of all loops, and branches taken, in one run; by default 5 million.", least=1
    )


@dataclass(frozen=True, eq=False, repr=False)
class ComputeOptions(Options):
    """Threads and precision of a session; in Python they may be positional arguments."""

    SECTION: ClassVar[str] = "Running the model"

    threads: int | None = option(
        None,
        "Number of threads; by default all that this process may use, which is also the maximum (benchmark: 1).",
        least=1,
        most=256,
    )
    precision: Precision = option(
        "high",
        "Precision of products with constant weights: high, float32; normal, 16 bits of each factor where that is "
        "faster (AMX); low, bfloat16 with 8 bits where that is faster.",
        python="Sums, and everything else, are float32. 'normal': on processors with AMX, convolutions and matrix "
        "products split each float32 value into two bfloat16 values, which keep 16 of its 24 significant bits. An "
        "infinity in them gives NaN. 'low': weights of recurrent layers and of matrix products with up to 4 rows are "
        "rounded to bfloat16, which halves the bytes to read. Convolutions and larger products round both operands: "
        "to bfloat16 on processors with AMX and on AMD processors with AVX-512-BF16, to float16 on Arm processors with "
        "float16 vectors. On other processors they stay in float32. With AMX the operands of attention are rounded, "
        "too. Where weights stay packed in 2 to 8 bits, processors with AVX-512 VNNI multiply integers. With 'high' "
        "and 'low' the other operand has 24 or 8 bits, and a scale for each 32 to 128 numbers; with 'low' and AMX 32 "
        "rows and more are rounded to bfloat16. With 'normal' and AMX both operands have 16 bits, and a scale for each "
        "row; without AMX 'normal' is 'high' there.",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunOptions(LimitOptions, ComputeOptions):
    """Options of a session: the arguments of `minnow.load` and `Model.session`."""

    SECTION: ClassVar[str] = "Running the model"

    device: str = option(
        "cpu",
        "Where the model runs: cpu; a device such as cuda or cuda:1, beside which the CPU runs what that device "
        "cannot; several, such as cpu,cuda; auto, all devices that are available, else the CPU. A device that is not "
        "available: exit code 7.",
        python="That is a DeviceError. `Session.placement` tells where each node runs, and why.",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoadOptions(RunOptions):
    """Options of loading a file and running it: the arguments of `minnow.load`."""

    SECTION: ClassVar[str] = "Running the model"

    mmap: bool = option(
        True,
        "Map the file into memory. It must not change meanwhile: the system ends a process that reads what another has "
        "cut off (SIGBUS). Else the file is read, which is safe for files that others may change.",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RandomOptions(Options):
    """Random inputs."""

    SECTION: ClassVar[str] = "Inputs"

    seed: int = option(0, "Seed of the random inputs of the first run.")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FeedOptions(InputOptions):
    """Inputs of a single model."""

    SECTION: ClassVar[str] = "Inputs"

    data: Path | None = option(
        None, "An .npz file with one array per graph input; by default random inputs.", metavar="PATH"
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunCommand(LoadOptions, RandomOptions, FeedOptions):
    """The flags of `mnnconvert run`."""

    SECTION: ClassVar[str] = "Output"

    output: Path | None = option(
        None, "Write the graph outputs to this .npz file.", flags=("-o", "--output"), metavar="PATH"
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BenchmarkCommand(RunOptions, FeedOptions):
    """The flags of `mnnconvert benchmark`."""

    SECTION: ClassVar[str] = "Measuring"

    runs: int | None = option(
        None,
        "Number of timed runs of each runtime; by default 50, or with --compare as many as take 2 s, at least 180.",
        least=1,
    )
    starts: int | None = option(
        None,
        "How often the process of each runtime is started; by default 1, or with --compare 10. From 6 on, ratios have "
        "an interval of 95 % confidence.",
        least=1,
        most=1000,
    )
    compare: Path | None = option(
        None,
        "Another .mnn file to compare with, timed in turns on the same inputs: prints the ratio of the latencies, its "
        "interval of 95 % confidence, and whether MODEL is faster or slower.",
        metavar="BASE.mnn",
    )
    compare_python: Path | None = option(
        None,
        "The Python interpreter of another environment: compare with its build of Minnow, which runs MODEL or the file "
        "of --compare.",
        metavar="PATH",
    )
    against: Sequence[str] = option(
        (), "Other runtimes to compare with: onnxruntime,openvino,litert,mnn,ncnn.", metavar="NAME,..."
    )
    source: Path | None = option(
        None, "Model file for runtimes that do not read .mnn; by default the one beside MODEL.", metavar="PATH"
    )
    samples: bool = option(
        False, "With --format json: the seconds of every run, by start of the process and by round, for histograms."
    )
    profile: bool = option(True, "Show the time of each op.")
    roofline: bool = option(True, "Compare ops with the limits of this processor, which are measured once and stored.")
