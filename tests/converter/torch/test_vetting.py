"""What a TorchScript file or an archive of torch.export names is known before PyTorch is given it."""

from __future__ import annotations

from typing import Any

import pytest

from minnow.converter.torch.program.allowed import is_allowed
from minnow.converter.torch.program.formula import is_formula
from minnow.converter.torch.program.script_vetting import Found, TextError, vet
from minnow.converter.torch.program.vetting import check_operators
from minnow.schema.errors import UnsupportedError

KNOWN = frozenset({"aten::save", "aten::from_file", "aten::add", "aten::relu", "aten::resize_as"})
"""Operators that there are in this world."""


def found_in(code: str, name: str = "code/__torch__.py", **others: bytes) -> Found:
    files = {name: code.encode(), **{k.replace("_pkl", ".pkl"): v for k, v in others.items()}}
    return vet(files, files.__getitem__, KNOWN.__contains__)


def method(*lines: str, name: str = "forward", more: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f"class A(Module):\n  training : bool\n  def {name}(self: __torch__.A,\n    x: Tensor) -> Tensor:\n{body}{more}"
    )


FINE = [
    ("y = torch.add(x, 1)", "return torch.relu_(y)"),
    ("return torch.autograd.add(x, 1)",),
    ("y = ops.torchvision.nms(x, x, 0.5)", "return y"),
    ("_0 = __torch__.torch.nn.functional.relu", "return _0(x, )"),
    ('_0 = getattr(self, "0")', "return (_0).forward(x, )"),
    ("return (self.conv).forward(x)",),
    ('print("torch.save(x)")', "return x"),
    ('y = annotate(List[int], [])', "_1 = torch.append(y, int(torch.len(y)))", "return x"),
    ("if torch.lt(0, 1):", "  y = x", "else:", "  ops.prim.RaiseException(\"no\")", "  y = x", "return y"),
    ("w, b, = ops.quantized.conv2d_unpack(self.p)", "return w"),
]  # fmt: skip


@pytest.mark.parametrize("lines", FINE, ids=lambda lines: lines[0])
def test_what_pytorch_writes_passes(lines: tuple[str, ...]) -> None:
    assert found_in(method(*lines)).refused == set()


REFUSED = [
    ("aten::save", "torch.save(x, \"f\")"),
    ("aten::save", "_0 = torch.save"),
    ("aten::save", "torch . save(x, \"f\")"),
    ("aten::save", "(torch).save(x, \"f\")"),
    ("aten::save", "torch.autograd.save(x, \"f\")"),
    ("aten::save", "x.save(\"f\")"),
    ("aten::save", "(torch.add(x, 1)).save(\"f\")"),
    ("aten::save", "_0 = x.save\n    _0(\"f\")"),
    ("aten::save", "_0 = getattr(x, \"save\")\n    _0(\"f\")"),
    ("aten::save", "_0 = getattr(x, \"sa\" \"ve\")\n    _0(\"f\")"),
    ("aten::save", "y = [torch.save(x, \"f\")]"),
    ("aten::save", "ops.aten.save(x, \"f\")"),
    ("aten::from_file", "y = torch.from_file(\"f\")"),
    ("image::write_file", "ops.image.write_file(\"f\", x)"),
    ("image::read_file", "y = ops.image.read_file(\"f\")"),
    ("torchvision::unknown", "y = ops.torchvision.unknown(x)"),
    ("fork", "y = fork(__torch__.f, x)"),
    ("rpc_async", "y = rpc_async(\"a\", \"f\", (x,))"),
    ("open", "open(\"f\")"),
    ("torch.classes.evil.File", "y = __torch__.torch.classes.evil.File.__new__(__torch__.torch.classes.evil.File)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "line"), REFUSED, ids=lambda x: str(x))
def test_every_way_to_name_an_operator_is_seen(name: str, line: str) -> None:
    assert name in found_in(method(line, "return x")).refused


UNREADABLE = [
    "t = torch\n    t.save(x, \"f\")",
    "i = ops.image\n    i.write_file(\"f\", x)",
    "a = torch.autograd\n    a.save(x)",
    "torch = x",
    "ops.image.autograd.save(x)",
    "getattr(torch, \"save\")(x, \"f\")",
    "(self.a)[0](x)",
    "y, z = (x, x)\n    y(x)",
    "x(1)",
    "y = lambda: x",
    "y = f\"{x}\"",
    "y = r\"\\\"",
    "y = \"\"\"a\"\"\"",
    "y = '''a'''",
    "y = 1  # \\\n    torch.save(x)",
    "y = \\\n      torch.save(x)",
    "torch.sa\\\nve(x)",
    "y = 1; z = 2",
    "y = (z := x)",
    "y = [a for a in x]",
    "import os",
    "import __torch__.a as ops",
    "y = torch.add(x, 1)\t",
    "y = \u0430",
    "y = \"\u0430\"",
    "y = '\\\n'",
    "y = (",
    "y = " + "(" * 300 + "1" + ")" * 300,
]  # fmt: skip


@pytest.mark.parametrize("line", UNREADABLE)
def test_text_that_two_readers_may_take_differently_is_refused(line: str) -> None:
    with pytest.raises(TextError):
        found_in(method(line, "return x"))


def test_files_that_pytorch_finds_by_another_name_are_read_too() -> None:
    for name in ("CODE/__torch__.py", "code/__torch__.PY", "code/a/b.py"):
        assert found_in(method('torch.save(x, "f")', "return x"), name).refused == {"aten::save"}
    with pytest.raises(TextError, match="two files"):
        found_in("a = 1\n", **{"CODE/__torch__.py": b"a = 2\n"})
    with pytest.raises(TextError, match="version"):
        found_in("a = 1\n", **{"model.json": b"{}"})


@pytest.mark.parametrize("where", ["module", "class", "default"])
def test_code_outside_of_methods_is_seen(where: str) -> None:
    texts = {"module": "x = f(1)\n", "class": "class A(Module):\n  a = f(1)\n",
             "default": "def f(x: int=torch.save(1)) -> int:\n  return x\n"}  # fmt: skip
    if where == "default":
        assert found_in(texts[where]).refused == {"aten::save"}
    else:
        with pytest.raises(TextError):
            found_in(texts[where])


def test_classes_of_compiled_code_in_pickles_are_seen() -> None:
    allowed = b"\x80\x02c__torch__.torch.classes.quantized\nConv2dPackedParamsBase\nq\x00."
    assert found_in("a = 1\n", data_pkl=allowed).refused == set()
    for name in (b"torch.classes.evil\nFile", b"\ntorch.classes.evil.File", b"torch\nclasses.evil.File"):
        pickled = b"\x80\x02c__torch__" + (b"" if name.startswith(b"\n") else b".") + name + b"\nq\x00."
        assert found_in("a = 1\n", data_pkl=pickled).refused == {"torch.classes.evil.File"}
        assert found_in("a = 1\n", constants_pkl=pickled).refused == {"torch.classes.evil.File"}


def test_a_method_of_its_own_is_no_operator() -> None:
    """`self.resize_as(x)` is a method that the class has; of anything else it would be an operator."""
    own = "  def resize_as(self: __torch__.A,\n    x: Tensor) -> Tensor:\n    return x\n"
    assert found_in(method("return (self).resize_as(x)", more=own)).refused == set()
    for line in ("return x.resize_as(x)", "return (self.a).resize_as(x)"):
        assert found_in(method(line, more=own)).refused == {"aten::resize_as"}
    assert found_in(method("return (self).resize_as(x)")).refused == {"aten::resize_as"}
    for changed in ("self = x", "for self in x:\n      pass"):
        assert found_in(method(changed, "return (self).resize_as(x)", more=own)).refused == {"aten::resize_as"}
    other = method("return (self).resize_as(x)", more=own).replace("self: __torch__.A", "self: Tensor", 1)
    assert found_in(other).refused == {"aten::resize_as"}


# ---- methods that run when a file is loaded

PACK = ("    _0 = ops.quantized.conv2d_prepack(x, None, [1, 1], [0, 0], [1, 1], 1)\n    self._packed_params = _0\n"
        "    return None\n")  # fmt: skip
OWN = f"  def set_weight_bias(self: __torch__.A,\n    x: Tensor) -> NoneType:\n{PACK}"


@pytest.mark.parametrize(("lines", "more", "runs"), [
    (("self.w = (x)[0]", "return None"), "", False),
    (("self.training = True", "_1 = (self).set_weight_bias((x)[1], )", "return None"), OWN, False),
    (('if torch.eq(x, "zeros"):', "  self.a = x", "else:", "  self.a = None", "return None"), "", False),
    (("self.w = torch.add(x, 1)", "return None"), "", True),
    (("for i in range(9):", "  self.w = x", "return None"), "", True),
    (("_0 = x.forward()", "return None"), "", True),
    (("_0 = (self).__setstate__(x, )", "return None"), "", True),
    (("_0 = (self).set_weight_bias(x, )", "return None"), "", True),
    (("_0 = (self).other(x, )", "return None"), OWN.replace("set_weight_bias", "other").replace(
        "ops.quantized.conv2d_prepack", "torch.relu"), True),
    (("_0 = (self.a).set_weight_bias(x, )", "return None"), OWN, True),
    (("self = x", "return None"), "", True),
])  # fmt: skip
def test_what_restores_objects_may_pack_weights_and_no_more(lines: tuple[str, ...], more: str, runs: bool) -> None:
    assert bool(found_in(method(*lines, name="__setstate__", more=more)).restoring) is runs


# ---- archives of torch.export


def test_operators_without_a_mapping_are_not_given_to_pytorch() -> None:
    def program(target: str) -> dict[str, Any]:
        return {"graph_module": {"graph": {"nodes": [{"target": target, "inputs": []}]}}}

    for target in ("torch.ops.aten.add.Tensor", "torch.ops.higher_order.cond", "_operator.add", "math.trunc"):
        check_operators(program(target), "a")
    for target in ("torch.ops.image.write_file.default", "torch.ops.aten.from_file.default", "torch.ops.aten.save",
                   "torch.ops.aten.set_.source_Storage", "math.exit"):  # fmt: skip
        with pytest.raises(UnsupportedError, match=target):
            check_operators(program(target), "a")


@pytest.mark.parametrize("text", [
    "Symbol('s77', positive=True, integer=True)", "Mul(Integer(2), Symbol('s9', integer=True))", "s0*2",
    "Add(Pow(Symbol('s1'), Integer(2)), Integer(-1))", "FloorDiv(Symbol('s1'), Integer(2))", "Max(Integer(3), s0)",
    "Float('1.0e-5', precision=53)", "Equality(s0, Integer(3))", "Pow(Symbol('s1'), Rational(1, 2))",
])  # fmt: skip
def test_formulas(text: str) -> None:
    assert is_formula(text)


@pytest.mark.parametrize("text", [
    "open('x')", "__import__('os')", "Pow(Integer(9), Pow(Integer(9), Integer(9)))", "9**9**9", "Symbol('s').func",
    "Integer(9)**9**9", "Pow(Pow(Integer(9), Integer(64)), Integer(64))", "Integer(10)**s0", "Symbol(name='x')",
    "Symbol('a b')", "lambda: 1", "(1).__class__", "Mul(*[1])", "f''", f"Integer({'9' * 30})", "(9**64)**64",
    "1 if 1 else 2", "LShift(Integer(1), Integer(100000))", "Symbol('x')" + " + 1" * 5000, "(" * 5000,
])  # fmt: skip
def test_what_is_no_formula(text: str) -> None:
    assert not is_formula(text)


def test_no_allowed_operator_knows_of_files() -> None:
    for name in ("aten::save", "aten::from_file", "image::write_file", "image::read_file", "aten::_save",
                 "torchvision::read_video_from_file", "c10d::send", "prim::PythonOp", "prim::rpc_async"):  # fmt: skip
        assert not is_allowed(name)
