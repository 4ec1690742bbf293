"""Options of the report of one model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minnow.options.optimize import OptimizeOptions
from minnow.options.option import option
from minnow.options.read import Path, ReadOptions
from minnow.options.run import RandomOptions, RunOptions
from minnow.options.verify import CompareOptions


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReportCommand(RunOptions, CompareOptions, RandomOptions, OptimizeOptions, ReadOptions):
    """The flags of `mnnconvert report`."""

    SECTION: ClassVar[str] = "Report"

    output: Path = option("report.html", "File to write.", flags=("-o", "--output"), metavar="FILE.html")
    time: bool = option(
        True, "Measure latency and the time of each op. With --no-time the same files give the same report."
    )
    runs: int = option(50, "Number of timed runs of each runtime.", least=1)
    against: Sequence[str] = option(
        (), "Other runtimes to compare with: onnxruntime,openvino,litert,mnn,ncnn.", metavar="NAME,..."
    )
