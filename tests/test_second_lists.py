"""What is true of an op is said once, beside it: nowhere else stands a list of op names to be kept in step.

Found are literals of Python and statements of C++ that name several ops. One that rightly stays (what a rule is for,
codes of the file) says why in a comment beside it: `# op list: <reason>`, `// op list: <reason>`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from minnow.schema.ops import all_ops

ROOT = Path(__file__).parents[1]
PYTHON = ("schema", "optimizer", "converter", "runtime", "workflow", "report", "minnow")
CPP = ("kernels", "runtime/src", "runtime/binding.cpp")
HOME = ROOT / "schema" / "ops"
MANY = 4
OPS = {op.name for op in all_ops()}


def _name(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _compared(node: ast.BoolOp) -> Iterator[ast.expr]:
    for test in node.values:
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
            yield test.comparators[0]


def _listed(node: ast.AST) -> list[str]:
    """What a piece of syntax lists: elements, keys, arguments, alternatives, words."""
    if isinstance(node, (ast.Set, ast.List, ast.Tuple)):
        return [_name(e) for e in node.elts]
    if isinstance(node, ast.Dict):
        return [_name(k) for k in node.keys]
    if isinstance(node, ast.Call):
        return [_name(a) for a in node.args] + [k.arg or "" for k in node.keywords]
    if isinstance(node, ast.BoolOp):
        return [_name(e) for e in _compared(node)]
    if isinstance(node, ast.MatchOr):
        return [_name(p.value) for p in node.patterns if isinstance(p, ast.MatchValue)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.split(r"[\s,|]+", node.value.strip()) if len(node.value) < 2000 else []
    return []


def _is_list(names: list[str]) -> bool:
    """Several ops, and little else: one name in four may be a foreign one."""
    ops = [n for n in names if n in OPS]
    return len(set(ops)) >= MANY and len(ops) >= 0.75 * len(names)


def _outside_of_mappings(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but `frontend.same(...)`: operators of a source format that mean the op of their name."""
    yield tree
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "same"):
            yield from _outside_of_mappings(node)


def python_lists(source: str) -> Iterator[tuple[int, str]]:
    """Line and names of every list of ops that no comment gives a reason for."""
    lines = source.splitlines()
    for node in _outside_of_mappings(ast.parse(source)):
        names = _listed(node)
        if _is_list(names) and isinstance(node, (ast.expr, ast.pattern)):
            beside = lines[max(node.lineno - 2, 0) : node.lineno] + lines[(node.end_lineno or node.lineno) - 1 :][:1]
            if not any(re.search(r"# op list: \w+ \w+", line) for line in beside):
                yield node.lineno, " ".join(names)


def cpp_lists(source: str) -> Iterator[tuple[int, str]]:
    """The same of C++, where a statement is looked at as one piece."""
    reasons = {source.count("\n", 0, m.start()) for m in re.finditer(r"// op list: \w+ \w+", source)}
    plain = re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), source)
    start = 0
    for end in (m.end() - 1 for m in re.finditer(r";|\)\s*\{|$(?![\s\S])", plain)):
        found = [m for m in re.finditer(r'"(\w+)"', plain[start:end]) if m[1] in OPS]
        if len({m[1] for m in found}) >= MANY:
            first = source.count("\n", 0, start + found[0].start())
            begun = source.count("\n", 0, start + len(plain[start:end]) - len(plain[start:end].lstrip()))
            if reasons.isdisjoint(range(begun - 1, first + 1)):
                yield first + 1, " ".join(m[1] for m in found)
        start = end + 1


def _python_files(root: Path) -> list[Path]:
    return sorted(p for folder in PYTHON for p in (root / folder).rglob("*.py"))


def _cpp_files(root: Path) -> list[Path]:
    places = [root / place for place in CPP]
    found = [p for place in places for p in ([place] if place.is_file() else place.rglob("*"))]
    return sorted(p for p in found if p.suffix in {".cpp", ".h", ".inc", ".cu"})


def test_python_keeps_no_second_list_of_ops() -> None:
    files = [p for p in _python_files(ROOT) if HOME not in p.parents]
    assert len(files) > 50
    found = [f"{p.relative_to(ROOT)}:{line}: {names}" for p in files for line, names in python_lists(p.read_text())]
    assert not found, "\n".join(["a fact about ops stands beside them, as a trait or a rule:", *found])


def test_cpp_keeps_no_second_list_of_ops() -> None:
    files = _cpp_files(ROOT)
    assert len(files) > 100
    found = [f"{p.relative_to(ROOT)}:{line}: {names}" for p in files for line, names in cpp_lists(p.read_text())]
    assert not found, "\n".join(["a fact about ops is a field of the op's row:", *found])


@pytest.mark.parametrize(
    "source",
    [
        'KEEPS = {"Add", "Sub", "Mul", "Div"}',
        'RULES = {"Add": f, "Sub": f, "Mul": g, "Div": g}',
        "KEEPS = (Add, Sub, ops.Mul, ops.Div)",
        'def f(n):\n    return n.op in ("Relu", "Abs", "Exp", "Sqrt", "Foreign")',
        'def f(n):\n    return n.op == "Relu" or n.op == "Abs" or n.op == "Exp" or n.op == "Sqrt"',
        'KEEPS = frozenset("Relu Abs Exp Sqrt".split())',
        "KEEPS = dict(Relu=1, Abs=2, Exp=3, Sqrt=4)",
        'match op:\n    case "Relu" | "Abs" | "Exp" | "Sqrt":\n        pass',
        '# op list:\nKEEPS = {"Add", "Sub", "Mul", "Div"}',
    ],
)
def test_a_list_of_ops_is_found(source: str) -> None:
    assert list(python_lists(source))


@pytest.mark.parametrize(
    "source",
    [
        'KEEPS = {"Add", "Sub", "Mul"}',
        'onnx.same("Add", "Sub", "Mul", "Div", *("Relu", "Abs", "Exp", "Sqrt"))',
        'NAMES = ["add", "sub", "mul", "div"]',
        "x = b.Add(b.Sub(b.Mul(a, c), d), b.Div(a, c))",
        'RULES = {"Add": f, "Sub": f, "Mul": g, "Div": g}  # op list: codes of the file',
        '# op list: what the rule is for\nROOTS = {\n    "Add",\n    "Sub",\n    "Mul",\n    "Div",\n}',
    ],
)
def test_what_is_no_list_or_has_a_reason_is_left_alone(source: str) -> None:
    assert not list(python_lists(source))


def test_a_list_of_ops_is_found_in_cpp() -> None:
    table = 'int a;\nstatic const std::array kViews = {"Reshape", "Flatten",\n  "Squeeze", "Unsqueeze"};'
    test = 'bool f(S op) {\n  return op == "Add" || op == "Sub" || op == "Mul" ||\n         op == "Div";\n}'
    assert [line for line, _ in cpp_lists(table + "\n" + test)] == [2, 5]
    assert not list(cpp_lists(table.replace("int a;", "// op list: codes of the file")))
    assert not list(cpp_lists('f("Add"); f("Sub"); f("Mul"); f("Div");\n// "Add", "Sub", "Mul", "Div"'))
