"""The exit codes: those of the errors, and those of signals."""

from __future__ import annotations

from typing import NamedTuple

from minnow.schema.errors import MinnowError


class ExitCode(NamedTuple):
    """An exit code.

    Attributes:
        code: the number.
        meaning: a few words, and after a colon more of them.
        errors: names of the exceptions in Python.
    """

    code: int
    meaning: str
    errors: tuple[str, ...] = ()

    @property
    def brief(self) -> str:
        return self.meaning.partition(":")[0]


_DONE = ExitCode(0, "done")
_SIGNALS = (
    ExitCode(129, "hung up: the terminal was closed (SIGHUP); no partial output is left"),
    ExitCode(130, "interrupted: by Ctrl-C (SIGINT); no partial output is left", ("KeyboardInterrupt",)),
    ExitCode(143, "terminated: by SIGTERM; no partial output is left"),
)


def exit_codes() -> list[ExitCode]:
    """All exit codes in order, from the classes of errors."""
    found: dict[int, list[type[MinnowError]]] = {}
    waiting = [MinnowError]
    for kind in waiting:
        if kind.meaning:
            found.setdefault(kind.exit_code, []).append(kind)
        waiting += [k for k in kind.__subclasses__() if k.__module__ == MinnowError.__module__]
    of_errors = (ExitCode(n, kinds[0].meaning, tuple(k.__name__ for k in kinds)) for n, kinds in found.items())
    return [_DONE, *sorted(of_errors), *_SIGNALS]


def brief() -> str:
    """All of them in one line."""
    return ", ".join(f"{e.code} {e.brief}" for e in exit_codes())
