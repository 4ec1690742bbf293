"""Every error Minnow raises: one root, a few leaves, each with an exit code and the same four fields.

An error answers four questions: *what* went wrong (`message`), *where* (`where`: file, node, origin),
*why* (`why`) and *what to try* (`hint`). `str(error)` is the full text that the command line prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class MinnowError(Exception):
    """Root of all errors.

    Args:
        message: what went wrong, one sentence.
        where: the file, node or option concerned.
        why: the cause, if it is not obvious from the message.
        hint: what the user can try.
    """

    exit_code = 1
    meaning = ""
    """What the exit code means: a few words, and after a colon more of them."""

    def __init__(self, message: str, *, where: str = "", why: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        rows = [self.message]
        rows += [
            f"  {label}: {text}"
            for label, text in (("where", self.where), ("why", self.why), ("try", self.hint))
            if text
        ]
        return "\n".join(rows)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.__dict__.copy(), self.args)

    def as_dict(self) -> dict[str, object]:
        """The fields as JSON-ready values, for `--format json`."""
        return {
            "error": type(self).__name__,
            "exit_code": self.exit_code,
            "message": self.message,
            "where": self.where,
            "why": self.why,
            "hint": self.hint,
        }


def _rebuild(cls: type[MinnowError], fields: dict[str, object], args: tuple[object, ...]) -> MinnowError:
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(fields)
    return error


class UsageError(MinnowError):
    """The call itself is wrong: an unknown option, a bad value, a missing argument."""

    exit_code = 2
    meaning = "wrong usage: an unknown option, a bad value, a missing argument"


class Refused(NamedTuple):
    """One reason why nodes of a model cannot be converted, and all nodes that it holds for."""

    reason: str
    nodes: tuple[str, ...]
    hint: str = ""

    def __str__(self) -> str:
        n = len(self.nodes)
        shown = ", ".join(self.nodes[:5]) + (f", and {n - 5} more" if n > 5 else "")
        return f"{self.reason}: {n} node{'s' if n > 1 else ''}: {shown}" + (f" ({self.hint})" if self.hint else "")


class UnsupportedError(MinnowError):
    """The model is valid but holds something Minnow cannot convert; `items` lists all of it at once.

    Where these are nodes of the model, `refused` has them by reason.
    """

    exit_code = 3
    meaning = (
        "not supported: the model holds something unsupported (all of it is listed), or needs more memory than allowed"
    )

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        why: str = "",
        hint: str = "",
        items: Sequence[str] = (),
        refused: Sequence[Refused] = (),
    ) -> None:
        super().__init__(message, where=where, why=why, hint=hint)
        self.items = (*items, *map(str, refused))
        self.refused = tuple(refused)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  - {item}" for item in self.items)])

    def as_dict(self) -> dict[str, object]:
        return {**super().as_dict(), "items": list(self.items), "refused": [r._asdict() for r in self.refused]}


class VerifyError(MinnowError):
    """The converted model does not give the numbers of its source.

    Attributes:
        verification: the comparison of all outputs, a `minnow.runtime.verify.Verification`; None where there is none.
    """

    exit_code = 4
    meaning = "verification failed: the outputs differ from those of the source model"
    verification: object = None


class BudgetError(MinnowError):
    """A budget the user set (latency, size, memory) is exceeded."""

    exit_code = 5
    meaning = "budget exceeded: a limit that the user has set, of latency, size or memory"


class FormatError(MinnowError):
    """The file cannot be read: missing, empty, truncated, or not what it claims to be."""

    exit_code = 6
    meaning = "unreadable or invalid model: the file cannot be read, or the model in it is invalid"


class ModelError(MinnowError):
    """The file can be read, but the model in it is invalid: types, shapes or references do not fit."""

    exit_code = 6
    meaning = FormatError.meaning


class DeviceError(MinnowError):
    """The requested device or instruction set is not available."""

    exit_code = 7
    meaning = "device not available: this machine does not have the device or the instruction set"


class WriteError(MinnowError):
    """The output cannot be written: the disk is full, the folder is read-only, or there is something but a file."""

    exit_code = 8
    meaning = "output not writable: disk full, no permission, or the target is not a regular file"


class StoppedError(MinnowError):
    """A run was ended before it was done."""

    exit_code = 9
    meaning = "stopped: the time given by `--timeout` has passed, or the run was cancelled"


class DeadlineError(StoppedError):
    """The time that was given was over."""


class CancelledError(StoppedError):
    """Another thread has cancelled it."""


class InternalError(MinnowError):
    """A defect of Minnow itself."""

    exit_code = 1
    meaning = "internal error: a defect of Minnow; please report it"
