"""mnnconvert verify"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, MNN_FILE, MODEL_FILE, Command, emit, options

if TYPE_CHECKING:
    from minnow.options.verify import VerifyCommand


@click.command(cls=Command)
@click.argument("source", type=MODEL_FILE)
@click.argument("model", type=MNN_FILE, required=False)
@options("verify.VerifyCommand")
@FORMAT
def command(source: str, model: str | None, options: VerifyCommand, format_: str) -> int:
    """Compare a .mnn file with its source model, or with test data.

    The verdict is PASS, FAIL (exit code 4), or INCONCLUSIVE: no output differs, but the random inputs did not test some
    of them (they were constant, for example). Then verify with real inputs: --data. With --testdir, the .mnn file may
    be given alone: it is compared with the outputs in that folder.
    """
    from pathlib import Path

    from minnow.schema.errors import UsageError, VerifyError

    if options.write_testdir:
        from minnow.check_folder import write_folder

        shapes = write_folder(Path(options.write_testdir), Path(source), options)
        if model is None:
            emit({"folder": str(options.write_testdir), "shapes": shapes}, format_, lambda: str(options.write_testdir))
            return 0
    if model is None and not options.testdir:
        raise UsageError("MODEL is missing", hint="give the .mnn file, too, or a folder to compare with: --testdir DIR")
    if model is None:
        from minnow.options.run import RunOptions
        from minnow.runtime.verify.folder import check

        folder = Path(options.testdir)
        result = check(folder, Path(source), options.testdir_tolerance, options.only(RunOptions))
    else:
        from minnow.runtime.verify.verification import compare_files

        result = compare_files(Path(source), Path(model), options)
    emit(result, format_)
    bad = ("fail", "inconclusive") if options.strict else ("fail",)
    return VerifyError.exit_code if result.verdict in bad else 0
