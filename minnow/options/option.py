"""Declares options: `name: type = option(default, "One sentence.")` in a frozen dataclass derived from `Options`."""

import types
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from inspect import get_annotations
from math import inf, isfinite
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from minnow.schema.errors import UsageError

T = TypeVar("T")
O = TypeVar("O", bound="Options")  # noqa: E741


class Said(NamedTuple):
    """The description of an option, besides its name, type and default.

    Attributes:
        doc: one sentence, for help texts and documentation.
        python: more sentences for Python users only.
        flags: the flags on the command line, if they do not follow from name and type.
        only_python: the command line has no flag for it.
        metavar: the placeholder of the value in the help.
        least, above, most: the range of a number: at least `least`, greater than `above`, at most `most`.
        unit: the number of bytes that 1 stands for on the command line.
        repeated: the flag may be given several times.
        names_files: its value names files or folders: for an output their content counts, not their paths.
    """

    doc: str
    python: str = ""
    flags: tuple[str, ...] = ()
    only_python: bool = False
    metavar: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    unit: int = 1
    repeated: bool = False
    names_files: bool = False


def option(default: T, doc: str, **more: Any) -> T:
    """The dataclass field of an option; `more` are attributes of `Said`. Type checkers see the default value."""
    return field(default=default, metadata={"said": Said(doc, **more)})


@dataclass(frozen=True, eq=False, repr=False)
class Options:
    """Base of all option classes. A value out of range, or that is none of the choices, raises UsageError.

    Comparison and representation are defined here, because generating them for each class slows down the start.
    """

    SECTION: ClassVar[str] = "Options"
    """The heading of the fields of a class in help texts and documentation."""

    def __post_init__(self) -> None:
        for f in fields(self):
            _check(f, getattr(self, f.name))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.changed().items())})"

    __hash__ = None  # type: ignore[assignment]  # some values have none

    def only(self, kind: type[O]) -> O:
        """The options that `kind` has, too, as an instance of it; its other fields keep their defaults."""
        own = {f.name for f in fields(self)}
        return kind(**{f.name: getattr(self, f.name) for f in fields(kind) if f.name in own})

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults, by name."""
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        return {name: value for name, (value, default) in values.items() if not _same(value, default)}


def said(f: Field[Any]) -> Said:
    """The description of an option."""
    return cast(Said, f.metadata["said"])


def section(kind: type[Options], name: str) -> str:
    """The heading of the class that declares an option."""
    return next(c.SECTION for c in kind.__mro__ if issubclass(c, Options) and name in get_annotations(c))


def file_options(kind: type[Options]) -> tuple[str, ...]:
    """The names of the options that name files or folders."""
    return tuple(f.name for f in fields(kind) if said(f).names_files)


def plain_type(f: Field[Any]) -> Any:
    """The type of an option, without None."""
    if get_origin(f.type) not in (Union, types.UnionType):
        return f.type
    left = [t for t in get_args(f.type) if t is not types.NoneType]
    return left[0] if len(left) == 1 else Union[tuple(left)]  # noqa: UP007


def choices(f: Field[Any]) -> tuple[str, ...]:
    """The choices of an option; () if it has none."""
    kind = plain_type(f)
    return get_args(kind) if get_origin(kind) is Literal else ()


def is_names(f: Field[Any]) -> bool:
    """Whether an option is a list of names."""
    return get_origin(f.type) is Sequence


def flags(f: Field[Any]) -> tuple[str, ...]:
    """The flags of an option on the command line; () if there are none."""
    more = said(f)
    if more.only_python or more.flags:
        return () if more.only_python else more.flags
    long = f"--{f.name.replace('_', '-')}"
    if plain_type(f) is bool and f.default is not False:
        return (f"{long}/--no-{long[2:]}",)
    return (long,)


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    if isinstance(default, tuple) and isinstance(value, (list, tuple)):
        return tuple(value) == default
    return type(value) is type(default) and isinstance(value, (str, int, float)) and value == default


def _check(f: Field[Any], value: Any) -> None:
    words, kind, default = choices(f), plain_type(f), " or None for the default" if f.default is None else ""
    if value is None and f.default is None:
        return
    if words and value not in words:
        raise UsageError(f"unknown {f.name} {value!r}", hint=f"use one of {', '.join(words)}")
    if kind in (int, float):
        more = said(f)
        is_number = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
        if not is_number or (kind is int and value != int(value)) or not _within(more, value):
            raise UsageError(f"{f.name} is {value!r}", hint=f"give {_range(more, kind)}{default}")


def _within(more: Said, value: Any) -> bool:
    low, most = -inf if more.least is None else more.least, 2**63 - 1 if more.most is None else more.most
    return bool(low <= value <= most) and (more.above is None or bool(value > more.above))


def _range(more: Said, kind: Any) -> str:
    what = "a whole number" if kind is int else "a number"
    if more.above is not None:
        return f"{what} above {more.above:g}" + ("" if more.most is None else f", {more.most:g} at most")
    if more.least is not None and more.most is not None:
        return f"{what} from {more.least:g} to {more.most:g}"
    return what if more.least is None else f"{what} of at least {more.least:g}"
