"""Checks of the code in a TorchScript file, before PyTorch is given the file.

The file holds the program as text, in a language that looks like Python. Here it is read as Python, and only as far as
both languages read the same; nothing is run. Each operator that it names must be allowed (see `allowed`), in whichever
way it does that:

    torch.add(x, y)         an operator of PyTorch
    ops.quantized.add(...)  one of any library
    x.add(y)                a method of a tensor, and maybe one of the file's own
    getattr(x, "add")       an attribute, which may be an operator
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from minnow.converter.torch.program.allowed import CLASSES, is_allowed

_TOKEN = re.compile(r"""(["'])(?:(?!\1)[^\\\n]|\\[ -~])*\1(?!["'])|\w+(?!["'])|[-+*/%<>=!&|^~@()\[\]{}:.,]|[ \n]+""",
                    re.ASCII)  # fmt: skip
"""Parts of a text that PyTorch and Python split alike: no comments, continued lines, or strings of other kinds."""
_STATEMENTS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr,
               ast.Return, ast.If, ast.For, ast.While, ast.With, ast.Pass, ast.Import, ast.Delete, ast.Assert,
               ast.Raise, ast.Break, ast.Continue)  # fmt: skip
_PARTS = (ast.alias, ast.arguments, ast.arg, ast.keyword, ast.withitem, ast.expr_context, ast.operator, ast.unaryop,
          ast.cmpop, ast.boolop)  # fmt: skip
_EXPRESSIONS = (ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.Subscript, ast.Slice, ast.Tuple, ast.List,
                ast.Dict, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Starred)  # fmt: skip
_CALLED = frozenset({"annotate", "unchecked_cast", "uninitialized", "getattr", "hasattr", "isinstance", "int", "float",
                     "bool", "complex", "str", "len", "range", "print", "list", "dict", "tuple", "min", "max", "abs",
                     "sum", "sorted", "round", "pow", "divmod", "all", "any", "ord", "chr", "hex", "oct", "bin", "zip",
                     "enumerate", "ValueError", "Exception"})  # fmt: skip
"""Functions of the language, by which no operator can be reached that is not allowed."""
_ROOTS = frozenset({"torch", "ops", "__torch__", "CONSTANTS"})
_OLD = ("model.json", "attributes.pkl", "tensors.json")
"""Of archives of PyTorch 1.0, whose code may be under any name."""


class TextError(Exception):
    """The code is not as PyTorch writes it."""


@dataclass
class Found:
    """What a file names.

    Attributes:
        refused: operators that are not allowed, and classes of compiled code that are not.
        libraries: namespaces of its operators.
        restoring: classes with a `__setstate__` of their own, which runs when the file is loaded, and may do more than
            to pack weights.
    """

    refused: set[str] = field(default_factory=set)
    libraries: set[str] = field(default_factory=set)
    restoring: set[str] = field(default_factory=set)


def vet(names: Iterable[str], read: Callable[[str], bytes], exists: Callable[[str], bool]) -> Found:
    """What the files of an archive name.

    Args:
        names: of its files, without the folder around them.
        read: the bytes of one.
        exists: there is an operator of this name, allowed or not: "aten::save".

    Raises:
        TextError: code that is not as PyTorch writes it, so that its meaning is unknown.
    """
    found = Found()
    seen: set[str] = set()
    for name in names:
        lower = name.lower()  # PyTorch finds files whatever their case
        if lower in seen:
            raise TextError(f"there are two files '{name}'")
        seen.add(lower)
        if lower in _OLD:
            raise TextError(f"the archive is of a version before PyTorch 1.2: it has a file '{name}'")
        if lower.startswith("code/") and lower.endswith(".py"):
            _Text(found, exists).read(name, read(name))
        elif lower in ("data.pkl", "constants.pkl"):
            found.refused.update(_foreign([read(name).decode("latin-1")]))
    return found


def _foreign(texts: Iterable[str]) -> Iterator[str]:
    """Classes of compiled code that are not allowed; a pickle has a line break for one of the dots."""
    for text in texts:
        for kind in re.findall(r"__torch__[.\n]torch[.\n]classes[.\n]?([\w.\n]*)", text, re.ASCII):
            name = ".".join(re.split(r"[.\n]", kind)[:2])
            if name not in CLASSES:
                yield f"torch.classes.{name}"


class _Text:
    """One file of code."""

    def __init__(self, found: Found, exists: Callable[[str], bool]) -> None:
        self.found = found
        self.exists = exists

    def read(self, name: str, data: bytes) -> None:
        try:
            text = data.decode("ascii")
            if not _splits_alike(text):
                raise TextError(
                    f"'{name}' is not as PyTorch writes it: parts of it are read differently by PyTorch and by Python"
                )
            module = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
            raise TextError(f"'{name}' is not as PyTorch writes it: {str(e)[:200]}") from e
        allowed = _STATEMENTS + _PARTS + _EXPRESSIONS
        for node in ast.walk(module):
            if not isinstance(node, allowed):
                raise TextError(f"'{name}' is not as PyTorch writes it: it has a {type(node).__name__}")
        self._names(module)
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                self._class(node)
            elif isinstance(node, ast.FunctionDef):
                self._calls(node, None)
            elif any(isinstance(inner, ast.Call) for inner in ast.walk(node)):
                raise TextError(f"'{name}' has a call outside of functions")

    def _class(self, kind: ast.ClassDef) -> None:
        methods = {f.name: f for f in kind.body if isinstance(f, ast.FunctionDef)}
        for part in kind.body:
            if isinstance(part, ast.FunctionDef):
                self._calls(part, kind)
            elif any(isinstance(inner, ast.Call) for inner in ast.walk(part)):
                raise TextError(f"the class '{kind.name}' has a call outside of functions")
        if "__setstate__" in methods and not _only_packs("__setstate__", methods, {}):
            self.found.restoring.add(kind.name)

    def _names(self, module: ast.Module) -> None:
        """All names that begin with what is reserved; nothing else may get such a name."""
        inner = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Attribute)}
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (
                node.decorator_list or (isinstance(node, ast.ClassDef) and node.keywords)
            ):
                raise TextError(f"'{node.name}' has a decorator")
            if (stored := _stored(node)) in _ROOTS:
                raise TextError(f"'{stored}' is redefined")
            if id(node) not in inner and (path := _path(node)) is not None and path[0] in _ROOTS:
                self._named(path)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                self.found.refused.update(_foreign([node.value]))

    def _calls(self, function: ast.FunctionDef, kind: ast.ClassDef | None) -> None:
        """All calls by other names: methods, functions of the language, and what variables hold."""
        held = _assigned(function)
        changed = _assigned(function, False)
        methods = {f.name for f in kind.body if isinstance(f, ast.FunctionDef)} if kind is not None else set[str]()
        for node in ast.walk(function):
            if not isinstance(node, ast.Call):
                continue
            path = _path(node.func)
            if path is not None and path[0] in _ROOTS:
                continue
            if isinstance(node.func, ast.Attribute):
                if not _is_own(node.func, function, kind, methods, changed):
                    self._method(node.func.attr)
            elif isinstance(node.func, ast.Name):
                self._called(node, node.func.id, held)
            else:
                raise TextError("a call has no plain name")

    def _named(self, path: list[str]) -> None:
        """A name that begins with what is reserved: an operator, a class or function of the file, or a constant."""
        if path[0] == "ops":
            if len(path) != 3 or path[2] == "autograd":
                raise TextError(f"'{'.'.join(path)}' is not an operator")
            self.found.libraries.add(path[1])
            self._operator(f"{path[1]}::{path[2]}")
        elif path[0] == "torch":
            inner = path[2:] if path[1:2] == ["autograd"] else path[1:]
            if len(inner) != 1 or inner[0] == "autograd":
                raise TextError(f"'{'.'.join(path)}' is not an operator")
            self._operator(f"aten::{inner[0]}")
        elif path[0] == "__torch__":
            self.found.refused.update(_foreign([".".join(path)]))

    def _called(self, call: ast.Call, name: str, held: Mapping[str, list[ast.expr | None]]) -> None:
        """A call by a plain name: a function of the language, or what a variable holds."""
        if name not in held:
            if name not in _CALLED:
                self.found.refused.add(name)
            elif name == "getattr":
                _attribute(call)
            return
        for value in held[name]:
            path = _path(value)
            if path is not None and path[0] in _ROOTS:
                continue  # these are looked at wherever they stand
            if isinstance(value, ast.Attribute):
                self._method(value.attr)
            elif isinstance(value, ast.Call) and _path(value.func) == ["getattr"]:
                self._method(_attribute(value))
            else:
                raise TextError(f"the variable '{name}' is called: that could be anything")

    def _method(self, name: str) -> None:
        """A method call is an operator of PyTorch if there is one of that name."""
        if self.exists(f"aten::{name}"):
            self._operator(f"aten::{name}")

    def _operator(self, name: str) -> None:
        if not is_allowed(name):
            self.found.refused.add(name)


def _attribute(call: ast.Call) -> str:
    """The name of the attribute that `getattr` asks for."""
    given = call.args[1] if len(call.args) == 2 else None
    if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
        raise TextError("an attribute has no plain name")
    return given.value


def _stored(node: ast.AST) -> str:
    """The name that a node gives a meaning to."""
    if isinstance(node, ast.alias):
        return "" if node.name.startswith("__torch__") and node.asname is None else "ops"
    if isinstance(node, ast.Name):
        return "" if isinstance(node.ctx, ast.Load) else node.id
    return node.arg if isinstance(node, ast.arg) else getattr(node, "name", "")


def _splits_alike(text: str) -> bool:
    """Whether a text consists of such parts."""
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            return False
        place = found.end()
    return True


def _path(node: ast.AST | None) -> list[str] | None:
    """ "a.b.c" as a list; None for what is no such name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def _is_own(
    callee: ast.Attribute,
    function: ast.FunctionDef,
    kind: ast.ClassDef | None,
    methods: Collection[str],
    changed: Collection[str],
) -> bool:
    """The method is called of `self`, whose class is this one and has it: then it is not an operator.

    Args:
        methods: of the class. changed: the variables of the function.
    """
    first = function.args.args[0] if function.args.args else None
    if kind is None or first is None or not isinstance(callee.value, ast.Name) or callee.value.id != first.arg:
        return False
    path = _path(first.annotation)
    if path is None or path[0] != "__torch__" or path[-1] != kind.name or first.arg in changed:
        return False
    return callee.attr in methods


def _assigned(function: ast.FunctionDef, parameters: bool = True) -> dict[str, list[ast.expr | None]]:
    """What each variable of a function is set to; None where that is not said in one place."""
    held: dict[str, list[ast.expr | None]] = {}
    simple: dict[int, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            simple.update((id(t), node.value) for t in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            simple[id(node.target)] = node.value
        elif isinstance(node, ast.arg) and parameters:
            held.setdefault(node.arg, []).append(None)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            held.setdefault(node.id, []).append(simple.get(id(node)))
    return held


# ---- what may run when a file is loaded


def _only_packs(
    name: str, methods: Mapping[str, ast.FunctionDef], known: dict[tuple[str, int], bool], depth: int = 1
) -> bool:
    """A method does nothing but set attributes of its object, and pack the weights of a quantized layer.

    PyTorch's own quantized layers restore themselves by such methods. There are no loops in them.

    Args:
        known: what has been found out, by method and depth: each is looked at once, however often it is called.
        depth: of the calls.
    """
    key = name, depth
    if key not in known:
        function = methods.get(name)
        if function is None or depth > _DEEPEST or "self" in _assigned(function, False):
            known[key] = False
        else:
            known[key] = all(_packs(statement, methods, known, depth) for statement in function.body)
    return known[key]


def _packs(
    node: ast.AST, methods: Mapping[str, ast.FunctionDef], known: dict[tuple[str, int], bool], depth: int
) -> bool:
    if isinstance(node, ast.Call):
        callee = _path(node.func) or [""]
        packs = callee[0] == "ops" and callee[-1].endswith("_prepack") and is_allowed("::".join(callee[1:]))
        packs = packs or callee in (["torch", "eq"], ["torch", "ne"], ["annotate"], ["unchecked_cast"])
        if callee[0] == "self" and len(callee) == 2:
            packs = _only_packs(callee[1], methods, known, depth + 1)
        return packs and all(_packs(part, methods, known, depth) for part in (*node.args, *node.keywords))
    plain = (ast.Assign, ast.Expr, ast.Return, ast.If, ast.Pass, ast.Name, ast.Attribute, ast.Constant, ast.Subscript,
             ast.Tuple, ast.List, ast.UnaryOp, ast.USub, ast.keyword, ast.expr_context)  # fmt: skip
    return isinstance(node, plain) and all(_packs(part, methods, known, depth) for part in ast.iter_child_nodes(node))


_DEEPEST = 2
"""A method, and one that it calls."""
