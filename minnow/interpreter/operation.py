"""Callbacks before and after each node of a run, and `OpInfo`, what they are told of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.interpreter.constant import shown
from minnow.interpreter.tensor import Tensor
from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    from minnow.interpreter.session import Session

Array = np.ndarray[Any, Any]


class OpInfo:
    """A node of a run."""

    def __init__(self, session: Session, name: str, op: str) -> None:
        self._session = session
        self._name = name
        self._op = op

    def getName(self) -> str:
        """Its name, in the file that of an op."""
        return self._name

    def getType(self) -> str:
        """The type of the op in the file; for nodes that the engine has made, the name of the op there."""
        return self._session.file.ops.get(self._name, (self._op, []))[0]

    def getFlops(self) -> float:
        """Millions of multiply-accumulates, or of elements of the result if there are none of these.

        The first call of a run measures the whole model, in a session of its own.
        """
        return self._session.flops().get(self._name, 0.0)

    def __repr__(self) -> str:
        return f"OpInfo({self._name!r}, {self.getType()!r})"


class Stopped:
    """Whether, and by which callback, a run was ended.

    Attributes:
        by_end: the one after a node.
    """

    by_end = False


def watch(
    session: Session, begin: Any, end: Any, what: Callable[[OpInfo], Any], stopped: Stopped
) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
    """Callbacks for `Session.run` that call those of the user with Tensors."""
    for callback in (begin, end):
        if callback is not None and not callable(callback):
            raise UsageError(f"a callback is a function of (tensors, op), not {type(callback).__name__}")

    def before(name: str, op: str, inputs: Sequence[Array | None]) -> Any:
        if _is_false(begin(_tensors(inputs), what(OpInfo(session, name, op)))):
            raise UsageError(
                f"the callback before '{name}' has returned False: an op cannot be left out",
                hint="return True; a callback after an op may return False, which ends the run",
            )

    def after(name: str, op: str, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> Any:
        if _is_false(end(_tensors(outputs), what(OpInfo(session, name, op)))):
            stopped.by_end = True
            return False
        return True

    return (None if begin is None else before), (None if end is None else after)


def _is_false(answer: Any) -> bool:
    return isinstance(answer, (bool, np.bool_, int)) and not answer


def _tensors(arrays: Sequence[Array | None]) -> list[Tensor]:
    return [Tensor.of_array(np.asarray(a, shown(a.dtype.name))) for a in arrays if a is not None]
