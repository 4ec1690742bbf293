"""Where templates of strangers run: they see plain data only, and each of their steps is counted.

Templates come with checkpoints, so they are untrusted. The sandbox of jinja2 keeps them from the attributes that lead
out of it; what is here keeps them from taking all time and memory. Loops and macros count their iterations, what they
write is counted, and what can make a long text of a short one (products, joins, replacements) is refused before.
"""

from __future__ import annotations

import json
import operator
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from minnow.schema.errors import UsageError
from minnow.schema.extra import install

SECONDS = 5.0
ROUNDS = 2_000_000
CHARACTERS = 1 << 24
"""Limits of one rendering: its time, the iterations of its loops, and the length of any text in it."""

_ELEMENTS, _DIGITS, _INDENT = 1 << 18, 4096, 16

_FILTERS = """
abs capitalize count d default dictsort e escape first float forceescape groupby indent int items join last length list
lower map max min reject rejectattr replace reverse round safe select selectattr sort string sum title trim unique upper
wordcount
""".split()  # noqa: SIM905
_TEXT_METHODS = frozenset(
    """
    capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit islower isnumeric
    isspace istitle isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit
    rstrip split splitlines startswith strip swapcase title upper
    """.split()  # noqa: SIM905
)
_TABLE_METHODS = frozenset(("get", "items", "keys", "values"))
_LIST_METHODS = frozenset(("count", "index"))
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip


class Refused(Exception):  # noqa: N818
    """The template does what is not allowed, or too much of it."""


class Sandbox:
    """An environment of jinja2 for one template at a time.

    Attributes:
        environment: has the methods here in place of its own.
    """

    def __init__(self) -> None:
        nodes, environment = _jinja2(self._write)
        self.environment, self._nodes = environment, nodes
        self._call, self._is_safe = environment.call, environment.is_safe_attribute
        for step in (self.spend, self.joined, self.measured, self.call, self.call_binop, self.is_safe_attribute):
            setattr(environment, step.__name__, step)
        environment.intercepted_binops = frozenset(_BINARY)
        environment.wrap_str_format = lambda value: None  # there is no `str.format`: % and ~ do what chats need
        environment.filters = {name: self._limited(environment.filters[name]) for name in _FILTERS}
        environment.filters["tojson"] = self._limited(to_json)
        environment.globals = {name: environment.globals[name] for name in ("range", "dict", "namespace")}
        self.begin()

    def begin(self) -> None:
        """Starts to count anew, for the next rendering."""
        self._rounds = self._written = 0
        self._end = time.monotonic() + SECONDS

    def spend(self, characters: int = 0) -> str:
        """Counts a step that may write constant text. Templates call it where `counted` has put it."""
        self._rounds += 1
        self._written += characters
        if self._rounds > ROUNDS or self._written > CHARACTERS:
            raise Refused("the template does not come to an end: too many rounds, or too long a text")
        if not self._rounds & 63:
            self._look_at_the_clock()
        return ""

    def _look_at_the_clock(self) -> None:
        """At every call of what may take long by itself, such as sorting; of other steps, at some."""
        if time.monotonic() > self._end:
            raise Refused(f"the template has not finished after {SECONDS:g} s")

    def joined(self, *values: Any) -> str:
        """The operator ~."""
        return str(self._checked("".join(self._texts(values))))

    def measured(self, value: Any) -> Any:
        """A value that is plain data of a reasonable size, all that is in it included.

        So no list is twice in one that is twice in another, and so on: comparing such would take forever.
        """
        size, count, left = 0, 0, [value]
        while left:
            one = left.pop()
            if isinstance(one, str):
                size += len(one)
            elif isinstance(one, Mapping):
                left += one.keys()
                left += one.values()
            elif isinstance(one, (list, tuple)):
                left += one
            elif one is not None and not isinstance(one, (bool, int, float, self.environment.undefined)):
                raise Refused(f"a list or a text has a {type(one).__name__}")
            count += 1
            if size > CHARACTERS or count + len(left) > _ELEMENTS:
                raise Refused("the template makes too large a value")
        return value

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls a function or a method of a template."""
        self.spend()
        self._look_at_the_clock()
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            self._check_growth(obj.__name__, owner, args, kwargs)
        return self._checked(self._call(context, obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Computes an operator, if the result is of a reasonable size."""
        self.spend()
        if operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, (list, tuple)):
                    raise Refused("the template multiplies a list")
                if isinstance(one, str) and isinstance(other, int):
                    self._check(len(one) * other)
        elif operator == "**":
            self._check(_bits(left) * (right if isinstance(right, int) else 1), _DIGITS)
        elif operator == "%" and isinstance(left, str):
            self._check_format(left, right if isinstance(right, tuple) else (right,))
        return self._checked(_BINARY[operator](left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may see an attribute: of plain data, only what is listed above."""
        for kind, allowed in ((str, _TEXT_METHODS), (Mapping, _TABLE_METHODS), ((list, tuple), _LIST_METHODS)):
            if isinstance(obj, kind):
                return attr in allowed
        return bool(self._is_safe(obj, attr, value))

    def compiled(self, source: str) -> Any:
        """A template whose loops and macros count their iterations."""
        nodes, environment = self._nodes, self.environment
        tree = environment.parse(source)
        for node in list(tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock))):
            size = nodes.Const(sum(len(data.data) for data in node.find_all(nodes.TemplateData)))
            node.body.insert(0, nodes.Output([self._step("spend", [size])], lineno=node.lineno))
        self._replace_in(tree)
        code = environment.compile(tree)
        return environment.template_class.from_code(environment, code, environment.make_globals(None), None)

    def _step(self, name: str, args: list[Any]) -> Any:
        return self._nodes.Call(self._nodes.EnvironmentAttribute(name), args, [], None, None)

    def _replace_in(self, node: Any) -> None:
        """Makes calls of what jinja2's sandbox does not intercept: the operator ~, and what makes lists and tables."""
        for key, value in node.iter_fields():
            if isinstance(value, self._nodes.Node):
                setattr(node, key, self._replaced(value))
            elif isinstance(value, list):
                value[:] = [self._replaced(v) if isinstance(v, self._nodes.Node) else v for v in value]

    def _replaced(self, node: Any) -> Any:
        self._replace_in(node)
        if isinstance(node, self._nodes.Concat):
            return self._step("joined", node.nodes)
        makes = isinstance(node, (self._nodes.List, self._nodes.Tuple, self._nodes.Dict))
        if makes and getattr(node, "ctx", "load") == "load":  # else it is names to be assigned to
            return self._step("measured", [node])
        return node

    def _write(self, value: Any) -> Any:
        """Every value that is written passes here."""
        text = value if isinstance(value, str) else str(self.measured(value))
        self._written += len(text)
        self.spend()
        return value

    def _limited(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter whose result is of a reasonable size."""
        name = str(getattr(function, "__name__", "")).removeprefix("do_")
        first = 1 if getattr(function, "jinja_pass_arg", None) is not None else 0

        def limited(*args: Any, **kwargs: Any) -> Any:
            self.spend()
            self._look_at_the_clock()
            given = args[first:]
            self.measured([value for value in given if isinstance(value, (list, tuple, Mapping))])
            if given and (isinstance(given[0], str) or name == "join"):
                self._check_growth(name, given[0], given[1:], kwargs)
            return self._checked(function(*args, **kwargs))

        limited.__dict__.update(getattr(function, "__dict__", {}))
        return limited

    def _check_growth(self, name: str, text: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Refuses what would make a text too long, before it does."""
        values = [*args, *kwargs.values()]
        if name == "replace":
            old, new = ([str(v) for v in values if isinstance(v, str)] + ["", ""])[:2]
            self._check(len(text) + (text.count(old) + 1) * len(new))
        elif name == "indent":
            widths = [v if isinstance(v, int) else len(v) for v in values if isinstance(v, (int, str))]
            self._check(len(text) + (text.count("\n") + 1) * sum(widths))
        elif name == "join" and isinstance(text, str) and args:
            self._check_join(text, args[0])
        elif name == "join" and isinstance(text, (list, tuple)):
            self._check_join(next((v for v in values if isinstance(v, str)), ""), text)

    def _check_join(self, between: str, items: Any) -> None:
        if isinstance(items, (list, tuple)):
            self._check(sum(len(i) if isinstance(i, str) else 16 for i in items) + len(between) * len(items))

    def _check_format(self, text: str, values: tuple[Any, ...]) -> None:
        """Refuses a format that asks for hundreds of characters, or for a width that is a value."""
        if re.search(r"%[^a-zA-Z%]*(\*|\d{3})", text):
            raise Refused("a format of the template is too wide")
        self._check(len(text) + sum(len(v) if isinstance(v, str) else 64 for v in values))

    def _texts(self, values: Iterable[Any]) -> list[str]:
        texts = [str(self.measured(value)) for value in values]
        self._check(sum(map(len, texts)))
        return texts

    def _checked(self, value: Any) -> Any:
        if isinstance(value, (str, list, tuple, Mapping)):
            self.measured(value)
        elif isinstance(value, int):
            self._check(_bits(value), _DIGITS)
        return value

    def _check(self, size: int, most: int = CHARACTERS) -> None:
        if size > most:
            raise Refused("the template makes too large a value")


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 64


def to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """The filter `tojson`: unlike that of jinja2, it leaves < and > as they are."""
    if isinstance(indent, (int, str)) and (indent if isinstance(indent, int) else len(indent)) > _INDENT:
        raise Refused("the template indents too much")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _jinja2(finalize: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The module of nodes, and an environment as transformers has it.

    Raises:
        UsageError: jinja2 is not installed.
    """
    try:
        from jinja2 import nodes
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise UsageError("chat templates need the package jinja2", hint=install("jinja2")) from None

    class Generation(Extension):
        """The tag `{% generation %}`, which says for training what the model has written, does nothing here."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return nodes, ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols], finalize=finalize
    )
