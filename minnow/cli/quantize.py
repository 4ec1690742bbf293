"""mnnconvert quantize"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, MODEL_FILE, QUIET, Command, emit, options
from minnow.cli._terminal import spinner

if TYPE_CHECKING:
    from minnow.options.quantize import QuantizeOptions


@click.command(cls=Command)
@click.argument("model", type=MODEL_FILE)
@options("quantize.QuantizeOptions", required=["output"])
@QUIET
@FORMAT
def command(model: str, options: QuantizeOptions, quiet: bool, format_: str) -> None:
    """Make a model smaller, and measure what that costs.

    MODEL has any format, .mnn too. The weights of convolutions, matrix products, tables and recurrent layers become
    integers of 2 to 8 bits, or 16-bit floats. With --calibration layers also compute with integers. The report shows
    the result for each layer, and how near the outputs are to those of the float model.
    """
    from pathlib import Path

    from minnow.convert import convert_file
    from minnow.quantize import Compression

    with spinner() as progress:
        asked = replace(options, progress=progress)
        if asked.has_integers:
            from minnow.static_quantization import quantize_calibrated

            report = quantize_calibrated(Path(model), asked)
        else:
            report = convert_file(Path(model), asked.for_conversion(Compression.of(asked)))
    if not quiet:
        emit(report, format_, lambda: str(report))
