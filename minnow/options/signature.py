"""`takes`: a decorator for functions that receive all their options in one object."""

from __future__ import annotations

from dataclasses import fields
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, overload

from minnow.options.option import Options, said

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate, Literal, ParamSpec, TypeVar

    P = ParamSpec("P")
    A = TypeVar("A")
    B = TypeVar("B")
    C = TypeVar("C")
    O = TypeVar("O")  # noqa: E741
    R = TypeVar("R")

_WIDTH = 100


@overload
def takes(
    kind: Callable[P, O], arguments: Literal[1] = 1
) -> Callable[[Callable[[A, O], R]], Callable[Concatenate[A, P], R]]: ...
@overload
def takes(
    kind: Callable[P, O], arguments: Literal[2]
) -> Callable[[Callable[[A, B, O], R]], Callable[Concatenate[A, B, P], R]]: ...
@overload
def takes(
    kind: Callable[P, O], arguments: Literal[3]
) -> Callable[[Callable[[A, B, C, O], R]], Callable[Concatenate[A, B, C, P], R]]: ...
def takes(kind: Any, arguments: int = 1) -> Any:
    """Makes the fields of `kind` keyword arguments of a function, which receives them as its last parameter `options`.

    Signature and documentation of the function show every option, and type checkers know them. The undecorated function
    is its `__wrapped__`.

    Args:
        kind: a subclass of `Options`.
        arguments: the number of other parameters of the function, including `self`.
    """
    options = list(signature(kind).parameters.values())

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        written = signature(function)
        own = [p for p in written.parameters.values() if p.name != "options"]
        if len(own) != arguments or len(own) + 1 != len(written.parameters):
            raise TypeError(f"{function.__qualname__} needs {arguments} parameters, and `options`")
        first = [p for p in options if p.kind is not Parameter.KEYWORD_ONLY]
        shown = Signature(
            [*own, *first, *(p for p in options if p not in first)], return_annotation=written.return_annotation
        )

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            try:
                given = shown.bind(*args, **keywords).arguments
            except TypeError as e:
                raise TypeError(f"{function.__qualname__}(): {e}") from None
            values = [given.pop(p.name) for p in own]
            return function(*values, options=kind(**given))

        call.__signature__ = shown  # type: ignore[attr-defined]
        call.__doc__ = _documented(function.__doc__, kind)
        return call

    return decorate


def _documented(text: str | None, kind: type[Options]) -> str | None:
    """The docstring of a function with its line `options:` replaced by all options."""
    if text is None:  # as Python has it under -OO
        return None
    form = TextWrapper(_WIDTH, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False)
    rows = [form.fill(" ".join(filter(None, (f"{f.name}:", said(f).doc, said(f).python)))) for f in fields(kind)]
    return cleandoc(text).replace("    options:", "\n".join(rows), 1)


__all__ = ["takes"]
