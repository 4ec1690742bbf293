"""Finds commands, runs one, and turns every error into a message and an exit code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import pkgutil
import sys
import traceback
from itertools import pairwise

import click

import minnow
from minnow.schema.collector import SeldomCollected
from minnow.schema.errors import InternalError, MinnowError, ModelError, UsageError, WriteError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class Commands(click.Group):
    """Finds commands by file name, and imports them on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        import minnow.cli as package

        return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"minnow.cli.{name}").command
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # A first word that is no command is the source of a conversion, or a flag of MNN's own converter.
        if self.get_command(ctx, args[0]) is None:
            from minnow.cli._compatible import command as compatible
            from minnow.cli._compatible import is_compatible

            if is_compatible(args):
                return "mnnconvert", compatible, args
            args = ["convert", *args]
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    },
    no_args_is_help=True,
    epilog="`mnnconvert MODEL -o FILE` is short for `mnnconvert convert`. The flags of MNN's own converter "
    "(-f ONNX --modelFile a --MNNModel b) work too. Exit codes: 0 done, 1 internal error, 2 usage, 3 not supported, "
    "4 verification failed, 5 budget exceeded, 6 unreadable or invalid model, 7 device not available, 8 the output "
    "cannot be written, 9 stopped (timeout, cancelled), 130 interrupted, 143 terminated.",
)
@click.version_option(minnow.__version__, "-v", "--version", message="%(version)s")
def app() -> None:
    """Turns trained models into small, fast, verified .mnn files, and runs them."""


def run(args: list[str]) -> int:
    """Runs a command line; returns the exit code."""
    code = 0
    try:
        code = _run(args)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()  # the reader has closed the pipe
    except OSError as e:
        _let_go_of_stdout()
        if code != WriteError.exit_code:
            code = WriteError.exit_code
            with contextlib.suppress(OSError):
                click.echo(f"error: cannot write to the standard output: {e.strerror}", err=True)
    return code


def _let_go_of_stdout() -> None:
    """Redirects standard output to /dev/null, so that flushing it at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(args: list[str]) -> int:
    """The same, except that errors of writing to standard output are raised."""
    try:
        # click would take a leading flag for one of the group; a line for MNN's converter begins with one.
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help", "-v", "--version"):
            args = ["--", *args]
        with SeldomCollected():
            result = app.main(args, prog_name="mnnconvert", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except MinnowError as e:
        if os.environ.get("MINNOW_DEBUG") and e.__cause__ is not None:
            traceback.print_exception(e.__cause__)
        return _report(e, args)
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.format_message(), err=True)
        return UsageError.exit_code
    except click.ClickException as e:
        if _wants_json(args):
            click.echo(json.dumps(UsageError(e.format_message()).as_dict()))
        e.show()
        return UsageError.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        raise
    except MemoryError as e:
        return _report(ModelError("the model needs more memory than is available", why=str(e)), args)
    except Exception as e:
        if _was_interrupted(e):
            click.echo("interrupted", err=True)
            return 130
        if isinstance(e, OSError) and e.errno in _NO_ROOM:
            where, hint = str(e.filename or ""), "set TMPDIR to use another folder for temporary files"
            return _report(WriteError("cannot write", where=where, why=e.strerror or str(e), hint=hint), args)
        if os.environ.get("MINNOW_DEBUG"):
            raise
        where = _place(e)
        error = InternalError(
            f"{type(e).__name__}: {e}",
            where=where,
            hint="this is a bug in Minnow, please report it; MINNOW_DEBUG=1 shows the traceback",
        )
        return _report(error, args)


def _wants_json(args: list[str]) -> bool:
    """Whether a command line, valid or not, asks for JSON: the last `--format` counts."""
    asked = [a.partition("=")[2] if "=" in a else b for a, b in pairwise([*args, ""]) if a.split("=")[0] == "--format"]
    return asked[-1:] == ["json"]


def _report(error: MinnowError, args: list[str]) -> int:
    if _wants_json(args):
        click.echo(json.dumps(error.as_dict()))
    click.echo(f"error: {error}", err=True)
    return error.exit_code


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether the error comes from Ctrl-C, which some libraries turn into another error during import."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
