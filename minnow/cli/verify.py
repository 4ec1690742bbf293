"""mnnconvert verify"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, MNN_FILE, MODEL_FILE, Command, emit, options

if TYPE_CHECKING:
    from minnow.options.verify import VerifyCommand


@click.command(cls=Command)
@click.argument("source", type=MODEL_FILE)
@click.argument("model", type=MNN_FILE)
@options("verify.VerifyCommand")
@FORMAT
def command(source: str, model: str, options: VerifyCommand, format_: str) -> int:
    """Compare a .mnn file with its source model.

    The verdict is PASS, FAIL (exit code 4), or INCONCLUSIVE: no output differs, but the random inputs did not test some
    of them (they were constant, for example). Then verify with real inputs: --data.
    """
    from pathlib import Path

    from minnow.runtime.verify.verification import compare_files
    from minnow.schema.errors import VerifyError

    result = compare_files(Path(source), Path(model), options)
    emit(result, format_)
    bad = ("fail", "inconclusive") if options.strict else ("fail",)
    return VerifyError.exit_code if result.verdict in bad else 0
