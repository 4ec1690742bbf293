"""Finds commands, runs one, and turns every error into a message and an exit code."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
import traceback
from itertools import pairwise
from typing import TYPE_CHECKING

import click

import minnow
from minnow.cli import _log
from minnow.cli._exit import brief
from minnow.cli._group import ModuleGroup
from minnow.cli._terminal import show
from minnow.schema.collector import SeldomCollected
from minnow.schema.errors import InternalError, MinnowError, ModelError, UsageError, WriteError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETE = "_MNNCONVERT_COMPLETE"
"""The environment variable with which a shell asks for completions, by click's convention."""

_COMPATIBLE = "-f FORMAT --modelFile FILE"
"""What the usage of MNN's flags shows in place of a command: with these the help is theirs, too."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class Commands(ModuleGroup):
    """All commands. `convert` may be left out."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # A first word that is no command is the source of a conversion, or a flag of MNN's own converter.
        is_known = self.get_command(ctx, args[0]) is not None
        if not is_known or args[0] == "convert":
            from minnow.cli._compatible import command as compatible
            from minnow.cli._compatible import in_words_of_mnn, is_compatible

            if is_compatible(args):
                return _COMPATIBLE, compatible, in_words_of_mnn(args)
        if not is_known:
            if not ctx.resilient_parsing:
                _check_is_model(args[0], self.list_commands(ctx))
            args = ["convert", *args]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands and options; and as `convert` may be omitted, models and its options."""
        from click.shell_completion import CompletionItem

        convert = self.get_command(ctx, "convert")
        assert convert is not None
        found = click.Command.shell_complete(self, ctx, incomplete)
        for name in self.list_commands(ctx):  # click would import all of them
            if name.startswith(incomplete) and (command := self.get_command(ctx, name)) is not None:
                found.append(CompletionItem(name, help=command.get_short_help_str()))
        if incomplete.startswith("-"):
            known = {item.value for item in found}
            others = convert.shell_complete(click.Context(convert, parent=ctx), incomplete)
            return [*found, *(item for item in others if item.value not in known)]
        return [*found, *convert.params[0].shell_complete(ctx, incomplete)]


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    },
    no_args_is_help=True,
    epilog="`mnnconvert MODEL -o FILE` is short for `mnnconvert convert`. The flags of MNN's own converter "
    "(-f ONNX --modelFile a --MNNModel b) work too, and `mnnconvert -f ONNX --modelFile x --help` lists them. "
    f"Exit codes: {brief()}.",
    params=_log.flags(),
)
@click.version_option(minnow.__version__, "-V", "--version", message="%(version)s")
def app() -> None:
    """Turns trained models into small, fast, verified .mnn files, and runs them."""


def run(args: list[str]) -> int:
    """Runs a command line; returns the exit code."""
    if COMPLETE in os.environ:
        from minnow.cli._complete import answer

        return answer(app, os.environ[COMPLETE])
    _log.begin(args)
    code = InternalError.exit_code
    try:
        code = _run_to_the_end(args)
    except SystemExit as e:  # a signal
        code = e.code if isinstance(e.code, int) else code
        raise
    finally:
        _log.end(code)
    return code


def _run_to_the_end(args: list[str]) -> int:
    """Runs a command line up to writing all of its standard output; returns the exit code."""
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
                _log.error(f"error: cannot write to the standard output: {e.strerror}")
    return code


def _let_go_of_stdout() -> None:
    """Redirects standard output to /dev/null, so that flushing it at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _invoke(words: list[str]) -> object:
    """Runs the command. click takes the end of a file for that of a prompt, of which there are none: it is an error."""
    try:
        return app.main(words, prog_name=_program(), standalone_mode=False)
    except click.Abort as e:
        if isinstance(e.__cause__, EOFError):
            raise e.__cause__ from None
        raise


def _run(args: list[str]) -> int:
    """The same, except that errors of writing to standard output are raised."""
    try:
        # click would take a leading flag for one of the group; a line for MNN's converter begins with one.
        words = args
        if args and args[0].startswith("-") and not _is_own(args[0]):
            words = ["--", *args]
        if args == ["-v"]:  # as for MNN's own converter
            words = ["--version"]
        with SeldomCollected():
            result = _invoke(words)
        return result if isinstance(result, int) else 0
    except MinnowError as e:
        _log.traceback_of(e.__cause__)
        if os.environ.get("MINNOW_DEBUG") and e.__cause__ is not None:
            traceback.print_exception(e.__cause__)
        return _report(e, args)
    except click.exceptions.NoArgsIsHelpError as e:
        show(e.format_message(), err=True)
        return UsageError.exit_code
    except click.ClickException as e:
        return _report_usage(e, args)
    except (click.Abort, KeyboardInterrupt):
        _log.error("interrupted")
        return 130
    except BrokenPipeError:
        raise
    except MemoryError as e:
        return _report(ModelError("the model needs more memory than is available", why=str(e)), args)
    except Exception as e:
        if _was_interrupted(e):
            _log.error("interrupted")
            return 130
        _log.traceback_of(e)
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


def _check_is_model(word: str, commands: list[str]) -> None:
    """Refuses a first word that is rather a command with a typing error than the source of a conversion."""
    if word.startswith("-") or os.path.splitext(word)[1] or os.sep in word or os.path.lexists(word):
        return
    from difflib import get_close_matches

    near = [f"`mnnconvert {name}`" for name in get_close_matches(word, commands, 2)]
    hint = f"{' or '.join(near)}? " * bool(near) + "`mnnconvert --help` lists the commands"
    raise UsageError(f"'{word}' is neither a command nor a file", hint=hint)


def _is_own(word: str) -> bool:
    """Whether a word is an option of the group, and not one of a conversion."""
    names = {*app.context_settings["help_option_names"], *(name for param in app.params for name in param.opts)}
    return word.partition("=")[0] in names or (word.startswith("-v") and not word[1:].strip("v"))


def _program() -> str:
    """How the command was started, for usage lines."""
    return "python -m minnow" if os.path.basename(sys.argv[0]) == "__main__.py" else "mnnconvert"


def _value(name: str, args: list[str]) -> str:
    """The value of an option on a command line, valid or not: the last one counts. "" without the option."""
    given = [a.partition("=")[2] if "=" in a else b for a, b in pairwise([*args, ""]) if a.split("=")[0] == name]
    return given[-1] if given else ""


def _wants_json(args: list[str]) -> bool:
    return _value("--format", args) == "json"


def _report(error: MinnowError, args: list[str]) -> int:
    if _wants_json(args):
        click.echo(json.dumps(error.as_dict()))
    _log.error(f"error: {error}")
    return error.exit_code


def _report_usage(error: click.ClickException, args: list[str]) -> int:
    """Reports a command line that click cannot read; it has not come to the options of the log then."""
    if path := _value("--log-file", args):
        try:
            _log.start_file(path)
        except MinnowError as e:
            _log.error(f"error: {e}")
    if _wants_json(args):
        click.echo(json.dumps(UsageError(error.format_message()).as_dict()))
    text = io.StringIO()
    error.show(text)
    _log.error(text.getvalue().rstrip("\n"))
    return UsageError.exit_code


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether the error comes from Ctrl-C, which some libraries turn into another error during import."""
    seen: set[int] = set()  # an error may be its own cause
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
