"""The manual pages, `docs/man/*.1`, made of the help texts of the commands. `docs/generate.py` writes them.

They are written with the macros of man(7), which every version of man can show.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

import click

EXAMPLES = {
    "mnnconvert model.onnx -o model.mnn": "Convert a model, and verify the result:",
    "mnnconvert convert model.onnx -o small.mnn --target minnow --input x=1x3x224x224": "Convert a model for Minnow's "
    "engine only, with a fixed input shape:",
    "mnnconvert verify model.onnx model.mnn --data inputs.npz": "Compare a file with its source, on real inputs:",
    "mnnconvert benchmark model.mnn --threads 2": "Measure its speed:",
}
"""Command lines, and what they are for."""

_FLAG = re.compile(r"(?<![\w/-])(--?[A-Za-z][\w-]*)")
_PLACEHOLDER = re.compile(r"(?<![\w\\-])([A-Z][A-Z_]*(?:\.[A-Za-z]+)?)(?![\w(-])")


def pages() -> dict[str, str]:
    """All pages by file name."""
    from minnow.cli._app import app

    root = click.Context(app, info_name="mnnconvert", help_option_names=app.context_settings["help_option_names"])
    commands = dict(_commands(app, root))
    made = {_file("mnnconvert"): _page(root, commands, [])}
    for path, context in commands.items():
        inner = {p: c for p, c in commands.items() if c.parent is context}
        made[_file(path)] = _page(context, inner, ["mnnconvert"])
    return made


def _commands(group: click.Group, parent: click.Context) -> Iterator[tuple[str, click.Context]]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent)
        yield context.command_path, context
        if isinstance(command, click.Group):
            yield from _commands(command, context)


def _file(path: str) -> str:
    return f"{path.replace(' ', '-')}.1"


def _page(context: click.Context, inner: dict[str, click.Context], others: list[str]) -> str:
    import minnow
    from minnow.cli._exit import exit_codes
    from minnow.options.environment import FILES, VARIABLES

    path, command = context.command_path, context.command
    name = path.replace(" ", "-")
    summary, _, rest = inspect.cleandoc(command.help or "").partition("\n\n")
    usage = " ".join(command.collect_usage_pieces(context))
    rows = [
        '.\\" Written by docs/generate.py; edit the code it describes.',
        f'.TH {_plain(name.upper())} 1 "" "Minnow {minnow.__version__}" "User Commands"',
        ".SH NAME",
        f"{_plain(name)} \\- {_plain(' '.join(summary.split()).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_plain(path)}",
        _styled(usage),
        ".SH DESCRIPTION",
        *_text(f"{summary}\n\n{rest}"),
    ]
    if not others:
        rows += [".PP", *_text((command.epilog or "").partition(" Exit codes")[0])]
    if inner:
        rows.append(".SH COMMANDS")
        helps = {p: c.command.get_short_help_str(200) for p, c in inner.items() if c.parent is context}
        rows += _terms({f".BR {_plain(p.replace(' ', '-'))} (1)": text for p, text in helps.items()})
    rows.append(".SH OPTIONS")
    for title, records in _sections(context).items():
        rows += [f".SS {_plain(title)}"] * (len(_sections(context)) > 1)
        rows += _terms({_styled(flags): text for flags, text in records})
    rows.append(".SH EXIT STATUS")
    rows += _terms({f"\\fB{e.code}\\fR": e.meaning for e in exit_codes()})
    if others:
        rows += [".SH ENVIRONMENT AND FILES", "See", ".BR mnnconvert (1)."]
    else:
        for title, table in (("ENVIRONMENT", VARIABLES), ("FILES", FILES)):
            rows += [f".SH {title}", *_terms({f"\\fB{_plain(v.name)}\\fR": v.meaning for v in table})]
        rows.append(".SH EXAMPLES")
        for line, text in EXAMPLES.items():
            rows += [_plain(text), ".PP", ".nf", ".RS", _plain(line), ".RE", ".fi", ".PP"]
        rows.pop()
    if seen := [*others, *inner]:
        rows.append(".SH SEE ALSO")
        ends = [","] * (len(seen) - 1) + [""]
        rows += [f".BR {_plain(p.replace(' ', '-'))} (1){end}" for p, end in zip(seen, ends, strict=True)]
    return "\n".join(rows) + "\n"


def _sections(context: click.Context) -> dict[str, list[tuple[str, str]]]:
    from minnow.cli._option import Command

    command = context.command
    if isinstance(command, Command):
        return command.sections(context)
    records = (param.get_help_record(context) for param in command.get_params(context))
    return {"Options": [record for record in records if record is not None]}


def _terms(table: dict[str, str]) -> Iterable[str]:
    for term, text in table.items():
        yield from (".TP", term, _prose(text))


def _text(text: str) -> Iterable[str]:
    """Paragraphs; lines after a line with only a backspace stay lines, as in click's help."""
    for number, paragraph in enumerate(p for p in text.split("\n\n") if p.strip()):
        yield from [".PP"] * (number > 0)
        if paragraph.startswith("\b"):
            yield from (".nf", *map(_plain, paragraph.splitlines()[1:]), ".fi")
        else:
            yield _prose(paragraph)


def _prose(text: str) -> str:
    """Text whose flags, and what is between backticks, is bold."""
    parts = re.split(r"`([^`]*)`", " ".join(text.split()))
    made = [f"\\fB{_plain(part)}\\fR" if number % 2 else _bold(part) for number, part in enumerate(parts)]
    return _started("".join(made))


def _bold(text: str) -> str:
    parts = _FLAG.split(text)
    return "".join(f"\\fB{_escaped(part)}\\fR" if number % 2 else _escaped(part) for number, part in enumerate(parts))


def _styled(text: str) -> str:
    """Usage: flags bold, placeholders italic."""
    return _started(_PLACEHOLDER.sub(r"\\fI\1\\fR", _bold(text)))


def _plain(text: str) -> str:
    return _started(_escaped(text))


def _escaped(text: str) -> str:
    for character, name in {"\\": "\\e", "-": "\\-", "'": "\\(aq", "~": "\\(ti", "^": "\\(ha", "`": "\\(ga"}.items():
        text = text.replace(character, name)
    return text


def _started(line: str) -> str:
    return f"\\&{line}" if line.startswith((".", "'")) else line
