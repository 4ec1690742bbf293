"""Formulas of extents in exported programs, as sympy prints them: "Mul(Integer(2), Symbol('s9', integer=True))"."""

from __future__ import annotations

import ast

from minnow.schema.ir import UNKNOWN
from minnow.schema.ir.type import Dim

_LONGEST = 1000


def extent_of(text: str) -> Dim:
    """The name of an extent: a symbol ("s9"), or a sum of products ("2*s9+1"); UNKNOWN for another formula."""
    if len(text) > _LONGEST:
        return UNKNOWN
    try:
        made = _sum(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return UNKNOWN
    return int(made) if made.isdigit() else made


def _sum(x: ast.expr) -> str:
    if isinstance(x, ast.Call) and _name(x.func) == "Add":
        parts = sorted(map(_sum, x.args), key=lambda part: part.lstrip("-").isdigit())
        return "+".join(parts).replace("+-", "-")
    return _product(x)


def _product(x: ast.expr) -> str:
    if isinstance(x, ast.Call) and _name(x.func) == "Mul":
        return "*".join(map(_atom, x.args))
    return _atom(x)


def _atom(x: ast.expr) -> str:
    if isinstance(x, ast.Name):
        return x.id
    if isinstance(x, ast.Call) and x.args and _name(x.func) in ("Symbol", "Integer"):
        return str(ast.literal_eval(x.args[0]))
    raise ValueError("another formula")


def _name(x: ast.expr) -> str:
    return x.id if isinstance(x, ast.Name) else ""
