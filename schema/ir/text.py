"""The text form of graphs: `to_text` prints, `parse` reads it back, and nothing is lost on the way.

    graph main(%x: f32[N,3,224,224]) {
      %y: f32[N,64,112,112] = Conv(%x, f32[64,3,7,7]#conv1.weight, _) {strides=(2, 2), pads=(3, 3, 3, 3)}  # onnx:/conv1
      %0: f32[N,64,112,112] = Max(%y, f32[](0.0))
      return %0
    }

`%name` is a value; unnamed ones are numbered, a name that is taken already gets `~2`, and names with characters other
than letters, digits and `_./-` are quoted as in JSON. A type is `f32[N,3]`, or `sequence(f32[N,3])` or `optional(...)`
for bytes that hold such tensors, where `?` is an element nothing is known of. `_` is a missing operand. A constant is
its type with its numbers in row-major order, or with a `#label`, by which it is meant again later or found in a table
of blobs: so are constants of more than 16 elements. Attributes are Python literals, element types, or graphs. The
comment behind a node is its origin. All other whitespace, line ends and comments mean nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from minnow.schema.errors import FormatError, InternalError
from minnow.schema.ir.blob import Array, ArrayBlob, Blob
from minnow.schema.ir.dtype import DType
from minnow.schema.ir.graph import Graph, Node, Value
from minnow.schema.ir.type import HOLDERS, UNKNOWN, Dim, TensorType

INLINE = 16
"""Constants with more elements than this are written by reference."""

_NAME = re.compile(r"[A-Za-z_/.-][\w./-]*", re.ASCII)
_WORD = re.compile(r"(?!(?:nan|inf)$)[A-Za-z_][\w.]*", re.ASCII)
_NUMBERED = re.compile(r"c\d+", re.ASCII)


def to_text(graph: Graph, blobs: MutableMapping[str, Blob] | None = None) -> str:
    """The text of a graph and of those nested in it.

    Args:
        graph: any graph.
        blobs: filled with the numbers that the text does not hold, by label; `parse` wants it back.
    """
    return _Printer({} if blobs is None else blobs).graph(graph, "") + "\n"


def parse(text: str, blobs: Mapping[str, Any] | None = None) -> Graph:
    """The graph that a text describes. Attributes are taken as they stand: ops are not known here.

    Args:
        text: what `to_text` gives, or somebody has written.
        blobs: blobs or arrays by label, for constants whose numbers are not in the text.

    Raises:
        FormatError: the text is not the text of a graph; `where` names the line.
    """
    parser = _Parser(text, {} if blobs is None else blobs)
    try:
        graph = parser.graph()
    except RecursionError:
        parser.fail("graphs or attributes are nested too deep")
    if parser.peek.kind != "end":
        parser.fail("a text ends with its graph")
    return graph


# ---- printing ----------------------------------------------------------------------------------------------------


class _Names:
    """Gives each object a name of its own: its own, the same with a number, or only a number."""

    def __init__(self, unnamed: str, plain: Callable[[str], bool]) -> None:
        self.unnamed = unnamed
        self.plain = plain
        self.names: dict[Any, str] = {}
        self.taken: dict[str, int] = {}
        self.count = 0

    def new(self, key: Any, name: str) -> str:
        if not name:
            text = f"{self.unnamed}{self.count}"
            self.count += 1
        else:
            self.taken[name] = self.taken.get(name, 0) + 1
            text = name if self.plain(name) else json.dumps(name)
            text += f"~{self.taken[name]}" if self.taken[name] > 1 else ""
        self.names[key] = text
        return text


class _Printer:
    def __init__(self, blobs: MutableMapping[str, Blob]) -> None:
        self.blobs = blobs
        # Labels like c0 are those of unnamed constants, so a constant of that name is quoted.
        self.labels = _Names("c", lambda name: bool(_NAME.fullmatch(name)) and not _NUMBERED.fullmatch(name))

    def graph(self, graph: Graph, indent: str) -> str:
        names = _Names("", lambda name: bool(_NAME.fullmatch(name)))
        inner = indent + "  "

        def define(value: Value) -> str:
            return f"%{names.new(value, value.name)}: {_type(value.type)}"

        head = ", ".join(define(p) for p in graph.params)
        lines = [f"graph {_word(graph.name)}({head}) {{"]
        for node in graph:
            operands = ", ".join(self.operand(v, names) for v in node.inputs)
            text = f"{_word(node.op)}({operands})"
            if node.attrs:
                text += " {" + ", ".join(f"{_word(k)}={self.attr(v, inner)}" for k, v in node.attrs.items()) + "}"
            results = ", ".join(define(v) for v in node.outputs)
            origin = node.origin and f"  # {_origin(node.origin)}"
            lines.append(inner + (f"{results} = " if results else "") + text + origin)
        outputs = ", ".join(self.operand(v, names) for v in graph.ret.inputs)
        return "\n".join([*lines, f"{inner}return {outputs}".rstrip(), indent + "}"])

    def operand(self, value: Value | None, names: _Names) -> str:
        if value is None:
            return "_"
        if value in names.names:
            return f"%{names.names[value]}"
        if value.data is None:
            raise InternalError(f"{value!r} is read in a graph it does not belong to")
        if value in self.labels.names:
            return f"{_type(value.type)}#{self.labels.names[value]}"
        shape = tuple(value.data.shape)
        small = _is_small(shape) and value.type.shape == shape and value.type.dtype is value.data.dtype
        label = "" if small and not value.name and len(value.uses) <= 1 else self.labels.new(value, value.name)
        if not small:
            self.blobs[label] = value.data
        numbers = f"({_numbers(value.data.numpy())})" if small else ""
        return f"{_type(value.type)}{numbers}" + (label and f"#{label}")

    def attr(self, value: Any, indent: str) -> str:
        if isinstance(value, Graph):
            return self.graph(value, indent)
        if isinstance(value, DType) or value is None or isinstance(value, (bool, int)):
            return str(value)
        if isinstance(value, float):
            return _float(value)
        if isinstance(value, str):
            return json.dumps(value)
        if isinstance(value, bytes):
            return f'x"{value.hex()}"'
        if isinstance(value, (tuple, list)):
            items = ", ".join(self.attr(v, indent) for v in value)
            return f"[{items}]" if isinstance(value, list) else f"({items}{',' * (len(value) == 1)})"
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{_word(k)}={self.attr(v, indent)}" for k, v in value.items()) + "}"
        if isinstance(value, np.ndarray):
            return self.operand(Value(TensorType(DType.of(value.dtype), value.shape), data=ArrayBlob(value)), _NO_NAMES)
        raise InternalError(f"an attribute cannot be a {type(value).__name__}")


_NO_NAMES = _Names("", bool)


def _is_small(shape: tuple[int, ...]) -> bool:
    return bool(np.prod(shape, dtype=np.float64) <= INLINE)


def _word(name: str) -> str:
    return name if _WORD.fullmatch(name) else json.dumps(name)


def _type(type: TensorType) -> str:
    """As `str(type)`, with symbols quoted where they could be taken for something else."""
    if type.holds_tensors:
        return f"{type.layout}({UNKNOWN if type.element is None else _type(type.element)})"
    if type.shape is None:
        return str(type)
    return str(type.with_shape(d if isinstance(d, int) or d == UNKNOWN else _word(d) for d in type.shape))


def _origin(origin: str) -> str:
    return origin if origin == origin.strip() and origin.isprintable() and origin[0] != '"' else json.dumps(origin)


def _float(value: float) -> str:
    """As few digits as tell it from other float32 numbers; marked with `d` if it is not one of them."""
    with np.errstate(over="ignore"):
        short = np.float32(value)
    if value != value or float(short) == value:
        return str(short)
    return f"{value!r}d"


def _numbers(array: Array) -> str:
    return ", ".join(_number(v) for v in np.asarray(array).reshape(-1))


def _number(value: Any) -> str:
    """The shortest text from which the very same bits are made again."""
    if not DType.of(value.dtype).is_float:
        return str(value)
    bits = value.tobytes()
    # Rounding to float64 on the way back may hit another neighbor, and a NaN has bits of its own.
    options = (str(value), repr(float(value)))
    exact = (t for t in options if np.asarray(float(t)).astype(value.dtype).tobytes() == bits)
    return next(exact, f"nan(0x{bits[::-1].hex()})")


# ---- parsing -----------------------------------------------------------------------------------------------------

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r\n]+)
    | (?P<value>%(?:{_STRING}|[\w./-]+)(?:~\d+)?)
    | (?P<comment>\#(?:[ \t][^\n]*)?(?=\n|$))
    | (?P<label>\#(?:{_STRING}|[\w./-]+)(?:~\d+)?)
    | (?P<bytes>x"(?:[0-9a-f]{{2}})*")
    | (?P<string>{_STRING})
    | (?P<number>[-+]?(?:nan\(0x[0-9a-f]+\)|(?:nan|inf)\b|\d[\d.]*(?:e[-+]?\d+)?d?))
    | (?P<word>[A-Za-z_][\w.]*)
    | (?P<sign>[()\[\]{{}},:=@?*])""",
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:].split("\n", 1)[0]
            raise FormatError("cannot read the text of a graph", where=f"line {line}", why=f"what is {rest[:40]!r}?")
        kind, found = match.lastgroup or "", match.group()
        if kind != "space":
            yield _Token(kind, found, line)
        line += found.count("\n")
        at = match.end()
    yield _Token("end", "the end", line)


class _Parser:
    def __init__(self, text: str, blobs: Mapping[str, Any]) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0
        self.blobs = blobs
        self.labels: dict[str, Value] = {}

    # -- tokens

    def next(self) -> int:
        """Index of the next token that is not a comment."""
        at = self.at
        while self.tokens[at].kind == "comment":
            at += 1
        return at

    @property
    def peek(self) -> _Token:
        return self.tokens[self.next()]

    def take(self) -> _Token:
        at = self.next()
        # Comments stay in front of `at` until the token behind them is taken: a node looks for its origin there.
        self.at = at + (self.tokens[at].kind != "end")
        return self.tokens[at]

    def fail(self, why: str, token: _Token | None = None) -> NoReturn:
        token = token or self.peek
        where = f"line {token.line}, at {token.text[:40]!r}" if token.kind != "end" else f"line {token.line}, the end"
        raise FormatError("cannot read the text of a graph", where=where, why=why)

    def skip(self, text: str) -> bool:
        """Takes the next token if it is this one."""
        found = self.peek.text == text and self.peek.kind in ("sign", "word")
        if found:
            self.take()
        return found

    def expect(self, text: str) -> None:
        if not self.skip(text):
            self.fail(f"expected '{text}'")

    def items(self, close: str) -> Iterator[None]:
        """One step per item of a list with commas, up to the closing sign."""
        while not self.skip(close):
            yield
            if not self.skip(","):
                self.expect(close)
                return

    def word(self, what: str) -> str:
        token = self.take()
        if token.kind == "string":
            return self.string(token)
        if token.kind != "word":
            self.fail(f"expected {what}", token)
        return token.text

    def string(self, token: _Token) -> str:
        try:
            return str(json.loads(token.text))
        except ValueError as e:
            self.fail(f"bad string: {e}", token)

    # -- graphs

    def graph(self) -> Graph:
        self.expect("graph")
        graph = Graph(self.word("the name of the graph"))
        values: dict[str, Value] = {}
        self.expect("(")
        for _ in self.items(")"):
            name, type = self.definition(values)
            values[name] = graph.add_param(type, self.name(name))
        self.expect("{")
        while not self.skip("return"):
            self.node(graph, values)
        outputs = []
        while self.peek.text != "}":
            value = self.operand(values)
            if value is None:
                self.fail("an output cannot be missing", self.tokens[self.at - 1])
            outputs.append(value)
            if not self.skip(","):
                break
        self.expect("}")
        graph.outputs = outputs
        return graph

    def definition(self, taken: Container[str]) -> tuple[str, TensorType]:
        token = self.take()
        if token.kind != "value":
            self.fail("expected %name: type", token)
        if token.text in taken:
            self.fail(f"{token.text} is defined twice", token)
        self.expect(":")
        return token.text, self.type()

    def name(self, text: str) -> str:
        """The name behind the `%` or `#` of a token; numbers stand for none."""
        text = text[1:]
        if text.startswith('"'):
            quoted = text[: text.rindex('"') + 1]
            return self.string(_Token("string", quoted, self.peek.line))
        text = text.split("~", 1)[0]
        return "" if text.isdigit() else text

    def node(self, graph: Graph, values: dict[str, Value]) -> None:
        results: dict[str, TensorType] = {}
        if self.peek.kind == "value":
            while True:
                name, type = self.definition({*values, *results} if results else values)
                results[name] = type
                if not self.skip(","):
                    break
            self.expect("=")
        op = self.word("an op")
        self.expect("(")
        inputs = [self.operand(values) for _ in self.items(")")]
        attrs = self.mapping() if self.skip("{") else {}
        last, comment = self.tokens[self.at - 1], self.tokens[self.at]
        origin = comment.text[1:].strip() if comment.kind == "comment" and comment.line == last.line else ""
        if origin.startswith('"'):
            origin = self.string(_Token("string", origin, last.line))
        names = [self.name(n) for n in results]
        node = graph.insert(Node(op, inputs, attrs, results.values(), names, origin))
        values.update(zip(results, node.outputs, strict=True))

    def operand(self, values: Mapping[str, Value]) -> Value | None:
        token = self.peek
        if token.kind == "value":
            if token.text not in values:
                self.fail(f"{token.text} is not defined yet")
            return values[self.take().text]
        return None if self.skip("_") else self.constant()

    # -- types and constants

    def type(self) -> TensorType:
        if self.peek.kind == "word" and self.peek.text in HOLDERS:
            holder = self.take().text
            self.expect("(")
            element = None if self.skip(UNKNOWN) else self.type()
            self.expect(")")
            return TensorType(DType.U8, (UNKNOWN,), holder, element)
        dtype = self.dtype(self.take())
        self.expect("[")
        shape: list[Dim] = []
        ranked = not self.skip("*")
        if not ranked:
            self.expect("]")
        else:
            for _ in self.items("]"):
                token = self.take()
                if token.kind == "number" and token.text.isdigit() and len(token.text) < 19:
                    shape.append(int(token.text))
                elif token.kind in ("word", "string") or token.text == UNKNOWN:
                    shape.append(self.string(token) if token.kind == "string" else token.text)
                else:
                    self.fail("a dimension is a number, a symbol or ?", token)
        layout = self.word("a layout") if self.skip("@") else "nchw"
        return TensorType(dtype, tuple(shape) if ranked else None, layout)

    def dtype(self, token: _Token) -> DType:
        if token.kind != "word" or token.text not in _DTYPES:
            self.fail(f"expected an element type: {', '.join(_DTYPES)}", token)
        return _DTYPES[token.text]

    def constant(self) -> Value:
        start = self.peek
        type = self.type()
        data: Blob | None = None
        if self.skip("("):
            data = ArrayBlob(self.array(type, start))
        label = self.take().text[1:] if self.peek.kind == "label" else ""
        if label in self.labels:
            known = self.labels[label]
            if data is not None or known.type != type:
                self.fail(f"the constant #{label} is {known.type} already", start)
            return known
        if data is None:
            data = self.blob(label, type, start)
        name = "" if _NUMBERED.fullmatch(label) else self.name("#" + label)
        value = Value(type, name, data)
        if label:
            self.labels[label] = value
        return value

    def blob(self, label: str, type: TensorType, start: _Token) -> Blob:
        if not label:
            self.fail("a constant needs its numbers, or a #label", start)
        if label not in self.blobs:
            self.fail(f"the numbers of the constant #{label} are not here: pass them in `blobs`", start)
        given = self.blobs[label]
        blob = given if isinstance(given, Blob) else ArrayBlob(given)
        actual = TensorType(blob.dtype, tuple(blob.shape))
        fits = type.shape is None or (len(type.shape) == len(blob.shape)
            and all(isinstance(d, str) or d == n for d, n in zip(type.shape, blob.shape, strict=True)))  # fmt: skip
        if blob.dtype is not type.dtype or not fits:
            self.fail(f"the constant #{label} is {actual} in `blobs`", start)
        return blob

    def array(self, type: TensorType, start: _Token) -> Array:
        if not type.is_static:
            self.fail(f"a constant of type {type} cannot have its numbers in the text", start)
        elements = [self.element(type.dtype) for _ in self.items(")")]
        if len(elements) != type.count:
            self.fail(f"{len(elements)} numbers for {type}", start)
        return np.array(elements, type.dtype.numpy).reshape(type.static_shape)

    def element(self, dtype: DType) -> Any:
        token = self.take()
        try:
            if dtype is DType.BOOL:
                return {"True": True, "False": False}[token.text]
            if token.kind != "number":
                raise ValueError
            if dtype.is_int:
                return np.array(int(token.text), dtype.numpy)
            if token.text.startswith("nan("):
                return np.frombuffer(bytes.fromhex(token.text[6:-1])[::-1], dtype.numpy)[0]
            with np.errstate(over="ignore"):
                return np.asarray(float(token.text)).astype(dtype.numpy)
        except (ValueError, KeyError, OverflowError, IndexError):
            self.fail(f"not a number of type {dtype}", token)

    # -- attributes

    def mapping(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for _ in self.items("}"):
            token = self.peek
            name = self.word("the name of an attribute")
            if name in out:
                self.fail(f"'{name}' is there twice", token)
            self.expect("=")
            out[name] = self.attr()
        return out

    def attr(self) -> Any:
        token = self.peek
        if token.text == "graph":
            return self.graph()
        if token.text in _DTYPES and self.tokens[self.next() + 1].text == "[":
            return self.constant().array
        self.take()
        if token.kind == "string":
            return self.string(token)
        if token.kind == "bytes":
            return bytes.fromhex(token.text[2:-1])
        if token.kind == "number":
            return self.number(token)
        if token.text == "{":
            return self.mapping()
        if token.text == "[":
            return [self.attr() for _ in self.items("]")]
        if token.text == "(":
            return tuple(self.attr() for _ in self.items(")"))
        if token.text in _LITERALS:
            return _LITERALS[token.text]
        return self.dtype(token) if token.kind == "word" else self.fail("expected the value of an attribute", token)

    def number(self, token: _Token) -> int | float:
        text = token.text
        try:
            if text.lstrip("+-").isdigit():
                return int(text)
            with np.errstate(over="ignore"):
                return float(text[:-1]) if text.endswith("d") else float(np.float32(text))
        except ValueError:
            self.fail("not a number", token)


_DTYPES = {t.value: t for t in DType}
_LITERALS = {"True": True, "False": False, "None": None}
