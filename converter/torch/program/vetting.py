"""Checks of an exported program's description, before PyTorch is given the archive.

PyTorch makes Python code of it and runs that: formulas of dimensions are evaluated, the names of nodes, arguments and
parameters stand in the source of a function, targets are looked up from the module `torch` on. A malicious
file needs no pickle for that. So each text must have the form of what it is said to be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from minnow.converter.torch.program.formula import is_formula
from minnow.schema.errors import FormatError, UnsupportedError

_NAME = re.compile(r"(?:[^\W\d]\w*)?")
_TARGET = re.compile(
    r"torch\.ops\.[a-z]\w*\.(?!from_file)\w+(?:\.(?!__)\w+)?|math\.\w+|torch\.(?:_sym|sym)_\w+"
    r"|_operator\.(?:add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|[lg][te]|and_|or_|not_|xor|inv|invert"
    r"|getitem|[lr]shift|index)"
)
_PLAIN = re.compile(r"[^\"'\\\x00-\x1f(){}=;]*")
_RULES = {"name": _NAME, "as_name": _NAME, "forward_arg_names": _NAME, "target": _TARGET,
          "as_operator": _TARGET}  # fmt: skip
_FREE = {"metadata", "as_string", "as_strings", "guards_code"}
"""Nothing is made of these: strings stay strings, and guards are not evaluated."""
_SPECS = {"in_spec", "out_spec"}


def check_names(names: Iterable[str], where: str) -> None:
    """Checks the names of an archive's files, without the folder around them.

    Raises:
        UnsupportedError: the archive holds compiled code. FormatError: two readers might not find the same files.
    """
    seen: set[str] = set()
    for name in names:
        if "aotinductor" in name.lower():
            raise UnsupportedError("the archive holds a compiled package, not a program", where=where,
                                   hint="save the program itself: `torch.export.save(program, path)`")  # fmt: skip
        if name.lower() in seen:
            raise FormatError(f"the archive has two files '{name}'", where=where)
        seen.add(name.lower())


def check_texts(document: Any, where: str) -> None:
    """Checks all texts in the description of a program.

    Raises:
        FormatError: one of them is no name, formula or operator where it should be.
    """
    todo: list[tuple[str, Any]] = [("", document)]
    while todo:
        key, x = todo.pop()
        if isinstance(x, Mapping):
            for k, v in x.items():
                _check("a name", k, _PLAIN, where)
                if k not in _FREE:
                    todo.append((k, v))
        elif isinstance(x, list):
            todo += [(key, v) for v in x]
        elif isinstance(x, str) and key in _SPECS:
            _check_spec(x, key, where)
        elif isinstance(x, str):
            _check(key, x, None if key == "expr_str" else _RULES.get(key, _PLAIN), where)


def check_operators(document: Any, where: str) -> None:
    """Checks all operators that the description of a program names.

    Raises:
        UnsupportedError: some are not converted: PyTorch does not get the program.
    """
    from minnow.converter.torch.program.allowed import is_allowed
    from minnow.converter.torch.program.exported import operator_of

    refused: set[str] = set()
    todo = [document]
    while todo:
        x = todo.pop()
        if isinstance(x, Mapping):
            for key in ("target", "as_operator"):
                if isinstance(x.get(key), str) and not is_allowed(operator_of(x[key])):
                    refused.add(x[key])
            todo += [v for k, v in x.items() if k not in _FREE]
        elif isinstance(x, list):
            todo += x
    if refused:
        raise UnsupportedError("the program uses operators that are not supported", where=where, items=sorted(refused))


def _check(key: str, text: str, rule: re.Pattern[str] | None, where: str) -> None:
    if not (is_formula(text) if rule is None else rule.fullmatch(text)):
        what = "a formula of dimensions" if key == "expr_str" else f"'{key}'"
        raise FormatError(f"the archive has an invalid text for {what}", where=where, why=text[:200])


def _check_spec(text: str, key: str, where: str) -> None:
    """How arguments are nested. Of enumerations and default dicts, PyTorch imports modules that the file names."""
    try:
        spec = json.loads(text)
        if key == "in_spec":
            keys = spec[1]["children_spec"][1]["context"]
            for name in json.loads(keys):
                _check("an argument", str(name), _NAME, where)
    except (ValueError, LookupError, TypeError, RecursionError) as e:
        raise FormatError("the archive does not say how arguments are nested", where=where, why=str(e)[:200]) from e
    todo = [spec]
    while todo:
        x = todo.pop()
        if isinstance(x, Mapping):
            if "__enum__" in x or "default_factory_module" in x:
                raise UnsupportedError("an argument is nested in a type other than tuple, list and dict", where=where,
                                       hint="use tuples, lists and plain dicts")  # fmt: skip
            todo += x.values()
        elif isinstance(x, list):
            todo += x
        elif isinstance(x, str) and x.lstrip()[:1] in ("{", "["):
            try:
                todo.append(json.loads(x))
            except (ValueError, RecursionError):
                continue  # a key that only looks like that
