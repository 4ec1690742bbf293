"""Completes command lines for shells. What is imported here is imported at each press of Tab.

A script in the shell (`mnnconvert completion SHELL` prints it) calls `mnnconvert` with the line up to the cursor in an
environment variable and gets one candidate per line: its kind, a tab, the text, a tab, and what it means.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from minnow.options.option import is_names, plain_type, said
from minnow.options.text import NAMES

VARIABLE = "_MNNCONVERT_COMPLETE"
"""The environment variable by which a shell asks, with click's name for it."""

_LINE, _BREAKS = f"{VARIABLE}_LINE", f"{VARIABLE}_BREAKS"
"""The line up to the cursor, and what separates words for the shell."""

_CURSOR = "\x1f"
"""Marks the end of the line, so that a word with an open quote, or none at all, is seen."""

_REGISTERED = re.compile(r"^@(?:rewrite|graph_pass)\b[\s\S]*?^def (\w+)", re.MULTILINE)


class _Shell(ShellComplete):
    """What the shells have in common. The line up to the cursor is as it was typed."""

    def get_completion_args(self) -> tuple[list[str], str]:
        words = split_arg_string(os.environ.get(_LINE, "") + _CURSOR)
        return words[1:-1], words[-1].removesuffix(_CURSOR)

    def complete(self) -> str:
        args, word = self.get_completion_args()
        rows = []
        # In `--flag=value` only the value is completed.
        cut = word.find("=") + 1 if word.startswith("--") else 0
        flag, value = word[:cut], word[cut:]
        for item in self.get_completions([*args, flag[:-1]] if flag else args, value):
            if item.type in ("file", "dir"):
                rows += self.files(flag, value, item.suffixes)
            else:
                rows.append(self.row("plain", flag, item.value, item.help or ""))
        return "".join(f"{row}\n" for row in rows)

    def files(self, flag: str, start: str, suffixes: Iterable[str] | None) -> list[str]:
        """The rows for paths that begin with `start`."""
        return [self.row("path", flag, path, "") for path in paths(start, tuple(suffixes or ()))]

    def row(self, kind: str, flag: str, value: str, about: str) -> str:
        return f"{kind}\t{flag}{value}\t{_first_sentence(about)}"


class Bash(_Shell):
    name = "bash"
    source_template: ClassVar[str] = """\
%(complete_func)s() {
    local kind value about
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value about; do
        [[ $kind == path ]] && compopt -o filenames 2>/dev/null
        COMPREPLY+=("$value")
    done < <(%(complete_var)s_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def row(self, kind: str, flag: str, value: str, about: str) -> str:
        """Bash replaces only what follows the last character that separates words for it, such as = and :."""
        line = os.environ.get(_LINE, "")
        start = split_arg_string(line + _CURSOR)[-1].removesuffix(_CURSOR)
        in_quotes = line.count('"') % 2 or line.count("'") % 2
        breaks = set("=:") & set(os.environ.get(_BREAKS, "=:"))
        kept = 0 if in_quotes else 1 + max(start.rfind(c) for c in breaks) if breaks else 0
        return f"{kind}\t{(flag + value)[kept:].removesuffix('/')}\t"


class Zsh(_Shell):
    name = "zsh"
    source_template: ClassVar[str] = """\
#compdef %(prog_name)s
%(complete_func)s() {
    local line
    local -a lines fields shown
    lines=("${(@f)$(%(complete_var)s_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" \\
        %(complete_var)s=zsh_complete ${~words[1]} 2>/dev/null)}")
    [[ $PREFIX == --*=* ]] && compset -P '*='
    for line in $lines; do
        fields=("${(@ps:\\t:)line}")
        if [[ $fields[1] == path && -n $fields[2] ]]; then
            _files -g "$fields[2]"
        elif [[ $fields[1] == path ]]; then
            _files
        else
            shown+=("${fields[2]//:/\\\\:}${fields[3]:+:$fields[3]}")
        fi
    done
    (( $#shown )) && _describe -V %(prog_name)s shown
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef %(complete_func)s %(prog_name)s
fi
"""

    def files(self, flag: str, start: str, suffixes: Iterable[str] | None) -> list[str]:
        """One row: zsh finds the files itself, by a pattern."""
        names = "|".join(suffix.removeprefix(".") for suffix in suffixes or ())
        # A last group without "|" would be a qualifier.
        pattern = f"(#i)*.({names})" if "|" in names else f"(#i)*.{names}" if names else ""
        return [f"path\t{pattern}\t"]

    def row(self, kind: str, flag: str, value: str, about: str) -> str:
        return super().row(kind, "", value, about)  # the script has taken the flag off


class Fish(_Shell):
    name = "fish"
    source_template: ClassVar[str] = """\
function %(complete_func)s
    set -l words (commandline --tokenize --current-process)
    env %(complete_var)s_LINE=(commandline --cut-at-cursor --current-process | string collect) \\
        %(complete_var)s=fish_complete $words[1] 2>/dev/null
end
complete --no-files --keep-order --command %(prog_name)s --arguments '(%(complete_func)s)'
"""

    def row(self, kind: str, flag: str, value: str, about: str) -> str:
        return super().row(kind, flag, value, about).partition("\t")[2].rstrip("\t")


SHELLS: dict[str, type[_Shell]] = {shell.name: shell for shell in (Bash, Zsh, Fish)}


def answer(app: click.Command, wanted: str) -> int:
    """Prints the candidates, or with `SHELL_source` the script, of a shell; returns the exit code.

    Nothing else is printed, whatever happens: the user is in the middle of a line.
    """
    name, _, what = wanted.partition("_")
    if name not in SHELLS:
        return 1
    try:
        click.echo(script(app, name) if what == "source" else _shell(app, name).complete(), nl=False)
    except Exception:
        if os.environ.get("MINNOW_DEBUG"):
            raise
        return 1
    return 0


def script(app: click.Command, shell: str) -> str:
    """The completion script of a shell."""
    return _shell(app, shell).source()


def _shell(app: click.Command, name: str) -> _Shell:
    return SHELLS[name](app, {}, "mnnconvert", VARIABLE)


def paths(start: str, suffixes: tuple[str, ...]) -> list[str]:
    """Paths that begin with `start`: folders, which end with "/", and files with these suffixes; all if none has."""
    head = start[: start.rfind("/") + 1]
    name = start[len(head) :]
    try:
        entries = sorted(os.scandir(os.path.expanduser(head) or "."), key=lambda e: e.name)
    except OSError:
        return []
    found = [e for e in entries if e.name.startswith(name) and (name or not e.name.startswith("."))]
    fit = [e for e in found if e.is_dir() or e.name.lower().endswith(suffixes or "")]
    return [f"{head}{e.name}{'/' if e.is_dir() else ''}" for e in fit or found if "\n" not in e.name]


# --- values of options -----------------------------------------------------------------------------------------------


def items_of(field: Field[Any], ctx: click.Context, start: str) -> list[CompletionItem] | None:
    """Values for the flag of an option; None where the type of the flag decides."""
    more = said(field)
    if field.name == "source":
        from minnow.cli._option import MODEL_FILE

        return MODEL_FILE.shell_complete(None, None, start)  # type: ignore[arg-type]
    if field.name in _BY_LINE:
        return listed(_BY_LINE[field.name](ctx), start)
    if field.name in _REGISTRIES:
        return listed(_REGISTRIES[field.name](), start, several=is_names(field))
    if plain_type(field) is int and more.least is not None and more.most is not None and more.most - more.least < 10:
        return listed(map(str, range(int(more.least), int(more.most) + 1)), start)
    return None


def listed(names: Iterable[str], start: str, several: bool = False) -> list[CompletionItem]:
    """The names that continue a word, or with `several` the last name of a list."""
    head = start[: start.rfind(NAMES) + 1] if several else ""
    given = set(head.split(NAMES))
    return [CompletionItem(head + name) for name in names if (head + name).startswith(start) and name not in given]


def _formats() -> Iterator[str]:
    from minnow.converter.formats import formats

    yield from sorted(formats())
    yield "mnn"


def framework_items(start: str) -> list[CompletionItem]:
    """The source formats."""
    return listed((name for name in _formats() if name != "mnn"), start)


def rule_names() -> list[str]:
    """The rules and passes of the optimizer, read from its source: importing it takes longer than a user waits."""
    import minnow.optimizer

    files = Path(minnow.optimizer.__path__[0]).rglob("*.py")
    return sorted(name for file in files for name in _REGISTERED.findall(file.read_text(encoding="utf-8")))


def _runtimes() -> list[str]:
    from minnow.runtime.benchmark.contestant import CONTESTANTS

    return [name for name in CONTESTANTS if name != "minnow"]


def _devices() -> list[str]:
    """The CPU, "auto", and the kinds of devices for which there is a library."""
    import minnow.runtime

    folders = [*filter(None, [os.environ.get("MINNOW_BACKENDS")]), *minnow.runtime.__path__]
    files = {file.stem for folder in folders for file in Path(folder).glob("libminnow_*.so")}
    return ["cpu", "auto", *sorted(name.removeprefix("libminnow_") for name in files)]


def _models(ctx: click.Context) -> Iterator[str]:
    """The models of the configuration that the line names, or of the current folder."""
    from minnow.workflow.config.cells import load_config

    path = ctx.params.get("config") or ctx.params.get("plan")
    cells = load_config(Path(path) if path else None).cells
    yield from dict.fromkeys(name for cell in cells for name in (cell.model, cell.name))


def _reports(ctx: click.Context) -> Iterator[str]:
    """The kinds of reports, with the usual names of their files."""
    if ctx.info_name == "diff":
        from minnow.report.comparison import KINDS

        files = {kind: file for kind, (_, file) in KINDS.items()}
    else:
        from minnow.report.formats import format_of, kinds

        files = {kind: format_of(kind).file for kind in kinds()}
    yield from (f"{kind}={file}" if file else kind for kind, file in files.items())


_BY_LINE: dict[str, Callable[[click.Context], Iterable[str]]] = {"only": _models, "report": _reports}
"""By option the values that depend on the rest of the line."""
_REGISTRIES: dict[str, Callable[[], Iterable[str]]] = {
    "framework": _formats,
    "passes": rule_names,
    "explain": rule_names,
    "against": _runtimes,
    "device": _devices,
}
"""By option the names that it can have."""


def _first_sentence(text: str) -> str:
    return re.split(r"(?<!\.)[.;](?=\s|$)|[\t\n]", text, maxsplit=1)[0]
