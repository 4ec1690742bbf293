"""Formulas of dynamic dimensions in exported programs, as sympy prints them: "Mul(Integer(2), Symbol('s9'))"."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from minnow.schema.ir import UNKNOWN
from minnow.schema.ir.type import Dim

_LONGEST, _LONGEST_VETTED = 1000, 10_000
_POWERS = frozenset({"Pow", "PowByNatural", "FloatPow", "LShift"})
_FUNCTIONS = _POWERS | {
    "Add", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "ExprCondPair", "Float", "FloatTrueDiv",
    "FloorDiv", "FloorToInt", "Ge", "GreaterThan", "Gt", "Identity", "IntTrueDiv", "Integer",
    "IsNonOverlappingAndDenseIndicator", "Le", "LessThan", "Lt", "Max", "Min", "Mod", "ModularIndexing", "Mul", "Ne",
    "Not", "Or", "Piecewise", "PythonMod", "RShift", "Rational", "RoundDecimal", "RoundToInt", "StrictGreaterThan",
    "StrictLessThan", "Symbol", "ToFloat", "TruncToFloat", "TruncToInt", "Unequality", "Where", "ceiling", "floor",
}  # fmt: skip
"""Classes of sympy and of PyTorch's, of which formulas of dimensions consist."""
_VARIABLE = re.compile(r"[a-z]{1,4}\d+|true|false|oo|int_oo|OpaqueUnaryFn_\w+", re.ASCII)
_QUOTED = {"Symbol": re.compile(r"[A-Za-z_]\w*", re.ASCII), "Float": re.compile(r"-?[\d.]+(?:e[+-]?\d+)?", re.ASCII)}
_ASSUMED = frozenset({"positive", "integer", "nonnegative", "nonzero", "real", "finite", "negative", "precision"})
_LARGEST, _STEEPEST = 1 << 64, 64
# op list: classes of Python's syntax
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)


def dimension_of(text: str) -> Dim:
    """The name of a dimension: a symbol ("s9"), or a sum of products ("2*s9+1"); UNKNOWN for another formula."""
    if len(text) > _LONGEST:
        return UNKNOWN
    try:
        made = _sum(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return UNKNOWN
    return int(made) if made.isdigit() else made


def is_formula(text: str) -> bool:
    """Whether a text is a formula of dimensions, and nothing but that: PyTorch evaluates it as Python code.

    Numbers and powers have bounds: what is evaluated is computed, too.
    """
    if len(text) > _LONGEST_VETTED:
        return False
    try:
        return _is_part(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_part(x: ast.expr) -> bool:
    if isinstance(x, ast.Constant):
        return isinstance(x.value, (int, float)) and abs(x.value) <= _LARGEST
    if isinstance(x, ast.Name):
        return bool(_VARIABLE.fullmatch(x.id))
    if isinstance(x, ast.UnaryOp):
        return isinstance(x.op, (ast.USub, ast.UAdd)) and _is_part(x.operand)
    if isinstance(x, ast.BinOp):
        if isinstance(x.op, ast.Pow):
            return _is_power([x.left, x.right])
        return isinstance(x.op, _OPERATORS) and _is_part(x.left) and _is_part(x.right)
    if isinstance(x, ast.Compare):
        return all(map(_is_part, [x.left, *x.comparators]))
    if not isinstance(x, ast.Call) or not all(map(_is_assumption, x.keywords)):
        return False
    name = _name(x.func)
    if name in _QUOTED:
        return len(x.args) == 1 and _is_quoted(x.args[0], _QUOTED[name])
    if name in _POWERS:
        return _is_power(x.args)
    return (name in _FUNCTIONS or name.startswith("OpaqueUnaryFn_")) and all(map(_is_part, x.args))


def _is_power(parts: Sequence[ast.expr]) -> bool:
    """A power by a small number, of what holds no power: more takes more digits than there is memory."""
    if len(parts) != 2 or any(_name(getattr(p, "func", p)) in _POWERS for p in ast.walk(parts[0])):
        return False
    by = ast.unparse(parts[1])
    numbers = [int(n) for n in re.findall(r"\d+", by)]
    plain = re.fullmatch(r"-?\d+|Integer\(-?\d+\)|Rational\(-?\d+, \d+\)", by)
    return bool(plain) and max(numbers) <= _STEEPEST and _is_part(parts[0]) and not _has_stars(parts[0])


def _has_stars(x: ast.expr) -> bool:
    return any(isinstance(part, ast.Pow) for part in ast.walk(x))


def _is_quoted(x: ast.expr, form: re.Pattern[str]) -> bool:
    return isinstance(x, ast.Constant) and isinstance(x.value, str) and bool(form.fullmatch(x.value))


def _is_assumption(keyword: ast.keyword) -> bool:
    return keyword.arg in _ASSUMED and isinstance(keyword.value, ast.Constant) and keyword.value.value in (
        True, False, 53, 15)  # fmt: skip


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


def _name(x: ast.AST) -> str:
    return x.id if isinstance(x, ast.Name) else ""
