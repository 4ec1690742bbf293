"""The command line: commands, options, configuration, exit codes, variables."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from page.markdown import table

if TYPE_CHECKING:
    from dataclasses import Field


def options() -> str:
    """Every option: its name in Python, its flag, and what it means."""
    from minnow.options.convert import BisectOptions, ConvertOptions
    from minnow.options.diffusion import RunDiffusionCommand
    from minnow.options.generate import BenchLanguageCommand, PerplexityCommand, RunLanguageCommand, ServeCommand
    from minnow.options.option import Options, choices, flags, plain_type, said, section
    from minnow.options.report import ReportCommand
    from minnow.options.run import BenchmarkCommand, RunCommand, RunOptions
    from minnow.options.verify import VerifyCommand
    from minnow.options.workflow import CellsOptions, CiCommand, DiffCommand, FleetCommand

    def row(f: Field[Any]) -> list[str]:
        shown, of_type = plain_type(f), choices(f)
        type_ = ", ".join(of_type) if of_type else shown.__name__ if shown in (bool, int, float, str) else ""
        text = " ".join(filter(None, (said(f).doc, said(f).python)))
        default = "" if f.default in (None, "", ()) else f"`{f.default}`"
        return [f"`{f.name}`", ", ".join(f"`{n}`" for n in flags(f)), type_, default, text]

    header = ["in Python", "flag", "type", "default", "meaning"]
    seen: set[tuple[str, str]] = set()
    about = (
        "The arguments of `minnow.convert`, `check`, `verify`, `load`, `Model.session`, `llm.load`, `LLM.generate`, "
        "`diffusion.load` and `Diffusion.generate`, and the flags of `mnnconvert`; [the command line](cli.md) says "
        "which command has which. "
        "Where no default is shown it is None, or nothing."
    )
    titles = {
        ConvertOptions: "",
        RunOptions: "",
        VerifyCommand: " (`verify`)",
        RunCommand: " (`run`)",
        BenchmarkCommand: " (`benchmark`)",
        ReportCommand: " (`report`)",
        RunLanguageCommand: " (`llm`)",
        BenchLanguageCommand: " (`llm bench`)",
        PerplexityCommand: " (`llm perplexity`)",
        ServeCommand: " (`llm serve`)",
        RunDiffusionCommand: " (`diffusion`)",
        CiCommand: " (`ci`)",
        FleetCommand: " (`fleet`)",
        DiffCommand: " (`diff`)",
        BisectOptions: " (`debug bisect`)",
    }
    tables: dict[str, list[list[str]]] = {}
    for kind, suffix in titles.items():
        for f in fields(kind):
            if (f.name, said(f).doc) not in seen:
                seen.add((f.name, said(f).doc))
                title = section(kind, f.name)
                title = (
                    "Python only"
                    if title == Options.SECTION
                    else title + suffix * (title not in ("Inputs", CellsOptions.SECTION))
                )
                tables.setdefault(title, []).append(row(f))
    parts = (f"## {title}\n\n{table(header, rows)}" for title, rows in tables.items())
    return "\n".join([f"# Options\n\n{about}\n", *parts])


def configuration() -> str:
    """The keys of the configuration file."""
    from minnow.workflow.config.schema import key_tables

    header = ["key", "value", "default", "meaning"]
    return "\n".join(f"### {title}\n\n{about}\n\n{table(header, rows)}" for title, about, rows in key_tables())


TERMINAL = """\
## Completion, manual pages, logs, colors

**Completion.** The Tab key completes commands, flags, their values, and models:

| shell | to switch it on |
| --- | --- |
| bash | add `eval "$(mnnconvert completion bash)"` to `~/.bashrc` |
| zsh | add `eval "$(mnnconvert completion zsh)"` to `~/.zshrc` |
| fish | `mnnconvert completion fish > ~/.config/fish/completions/mnnconvert.fish` |

**Manual pages.** `pip` installs them: `man mnnconvert`, and `man mnnconvert-convert` for the command `convert`.

**Steps and logs.** `-v` shows what is being done, and how long it took, on standard error; `-vv` shows all details.
Every command has `--log-file FILE`: all details, errors with their tracebacks, and the exit code are appended to FILE,
with date and time. The first entry of a run is its command line. A file that is not a log is refused. In Python,
`logging` gets the same records from the loggers below `minnow`.

**Colors.** Verdicts and messages are colored on terminals, and a line with the current step is redrawn there.
`NO_COLOR`, `FORCE_COLOR`, `TERM=dumb` and `CI` change that:
[environment variables](troubleshooting.md#environment-variables). Files and pipes get plain text, and standard output
has the result only.

"""


def cli() -> str:
    """The help texts of the command line."""
    import click

    from minnow.cli._app import app

    names = app.context_settings["help_option_names"]
    context = click.Context(
        app, info_name="mnnconvert", terminal_width=100, max_content_width=100, help_option_names=names
    )
    parts = ["# Command line\n", "```\n" + app.get_help(context) + "\n```\n"]
    parts.append(TERMINAL)
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, terminal_width=100, max_content_width=100)
        parts.append(f"## {name}\n\n```\n{command.get_help(inner)}\n```\n")
    return "\n".join(parts)


def exit_codes() -> str:
    """The exit codes of the command line."""
    from minnow.cli._exit import exit_codes

    rows = [[str(e.code), e.meaning, ", ".join(f"`{name}`" for name in e.errors)] for e in exit_codes()]
    return table(["exit code", "meaning", "in Python"], rows)


def mnn_flags() -> str:
    """The flags of MNN's converter, and what becomes of each."""
    from minnow.cli._mnn_flags import STATES, flag_rows

    states = "\n".join(f"- *{state}*: it {what}" for state, what in STATES.items())
    return f"{states}\n\n" + table(["flag", "state", "what it does"], flag_rows())


def environment() -> str:
    """The environment variables."""
    from minnow.options.environment import VARIABLES

    return table(["variable", "meaning"], [[f"`{v.name}`", v.meaning] for v in VARIABLES])
