"""What all frontends share: the mapping registry, and the report of everything unsupported.

A frontend lives in `converter/<format>/` and makes one `Frontend`. Its mappings are functions:

    @onnx.op("Clip", since=11)
    def _(b, x, lo=None, hi=None):
        return ...

Positional parameters after the builder are the node's inputs, keyword-only ones its attributes with the source
format's defaults. A parameter called `node` gets the call itself (`Call`). The result is a Value or a tuple of Values,
or NotImplemented, which leaves the call to the body that the source format itself gives for the operator.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from minnow.converter.file.door import guarded
from minnow.converter.formats import Format
from minnow.schema.errors import MinnowError, ModelError, Refused, UnsupportedError, UsageError
from minnow.schema.ir import Model, Value
from minnow.schema.limit import file_bytes
from minnow.schema.ops import Builder
from minnow.schema.registry.constant import check_constants

OPTIONS = {
    "signature": ("--signature", "they have one entry point"),
    "dequantize": (
        "--dequantize",
        "only quantized TFLite models are converted to float: for others convert the float model itself",
    ),
    "cut_inputs": ("--inputs", "their inner tensors have no names to begin at"),
    "cut_outputs": ("--outputs", "their inner tensors have no names to end at"),
    "custom_ops": ("--custom-ops", "only operators of ONNX are kept by name"),
    "weights": ("--weights", "their weights are in the model file, or beside it where the file says"),
    "trust": ("--trust", "reading them runs no code of the file"),
}
"""Options of reading that only some formats take: the flag, and why the others do not."""

# Attributes that never mean anything for inference: hints to memory planners, and what exporters leave behind.
_HARMLESS = frozenset({"consumed_inputs", "momentum", "seed", "stash_type", "definition"})


@dataclass
class Call:
    """One node of the source while it is translated.

    Attributes:
        op, name, origin: operator type, node name, and where it is, for messages.
        version: opset version that applies.
        n_outputs: number of outputs asked for; an unused optional one counts up to the last used.
        outputs: names of the outputs in the source.
    """

    op: str
    name: str
    origin: str
    version: int
    n_outputs: int
    outputs: Sequence[str] = ()
    context: Any = None


@dataclass(frozen=True)
class Mapping_:
    """A translation function and the range of opset versions it covers.

    What its signature says is looked at when a model needs it, which has few of the operators.
    """

    function: Callable[..., Any]
    since: int = 1
    until: int | None = None

    @cached_property
    def _signature(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.function).parameters.values())[1:]

    @cached_property
    def _positional(self) -> list[inspect.Parameter]:
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.KEYWORD_ONLY)
        return [p for p in self._signature if p.kind not in kinds and p.name != "node"]

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(p.name for p in self._positional)

    @cached_property
    def required(self) -> int:
        """Number of operands without a default."""
        return sum(p.default is inspect.Parameter.empty for p in self._positional)

    @cached_property
    def variadic(self) -> bool:
        return any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in self._signature)

    @cached_property
    def attrs(self) -> Mapping[str, Any]:
        """Their defaults, by name."""
        named = (p for p in self._signature if p.kind is inspect.Parameter.KEYWORD_ONLY)
        return {p.name: p.default for p in named if p.name != "node"}

    @cached_property
    def wants_node(self) -> bool:
        return any(p.name == "node" for p in self._signature)

    def covers(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)


@dataclass(frozen=True)
class Refusal:
    """Why an operator is not converted, on purpose, and what to do instead. The one text for errors and docs."""

    why: str
    hint: str
    since: int
    until: int | None


@dataclass
class Port:
    """An input or output as a model file declares it.

    Attributes:
        dtype: in the words of the file's format.
        shape: a number or a symbol per axis, "?" for one without a name; None when not even the rank is known.
    """

    name: str
    dtype: str
    shape: list[int | str] | None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{'...' if self.shape is None else ', '.join(map(str, self.shape))}]"


@dataclass
class Description:
    """What a model file says of itself.

    Attributes:
        versions: of each set of operators that it uses, by name.
        producer: the program that wrote it.
        operators: how many nodes there are of each operator, those of inner graphs included.
        size: bytes of the file, and of those beside it that hold its weights.
        versioned: what the format calls a set of operators, where it has a word for it.
    """

    versions: dict[str, int]
    producer: str
    operators: dict[str, int]
    inputs: list[Port]
    outputs: list[Port]
    size: int
    versioned: str = ""


class Frontend:
    """One source format.

    Args:
        format: which; the frontend has its name.
        read: (path, **options) -> Model.
        describe: path -> what the file says of itself, known even where it cannot be converted; it is given `weights`,
            too, where the format has that option and it is set.
        bodies: () -> first version by name, of the operators that the format itself explains by others.
        options: what `read` takes besides `inputs` and `batch`, of the names in `OPTIONS`.
    """

    def __init__(
        self,
        format: Format,
        read: Callable[..., Model],
        describe: Callable[..., Description],
        bodies: Callable[[], Mapping[str, int]] = dict,
        options: Iterable[str] = (),
    ) -> None:
        self.name = format.name
        self._read = read
        self.options = frozenset(options)
        self._describe = describe
        self.bodies = bodies
        self.mappings: dict[str, list[Mapping_]] = {}
        self.refusals: dict[str, list[Refusal]] = {}
        self.left_out: dict[str, str] = {}  # operators without a mapping of their own, and what becomes of them

    def read(self, path: Path, **options: Any) -> Model:
        """The model in a file. Raises UsageError for an option that does not apply to the format."""
        from minnow.converter.inputs.given import Inputs

        options["inputs"] = Inputs.of(options.get("inputs"))
        given = {k: v for k, v in options.items() if v or k in ("inputs", "batch")}
        if "trust" not in self.options:
            given.pop("trust", None)  # where nothing of a file is run, there is nothing to consent to
        if useless := sorted(set(given) - self.options - {"inputs", "batch"}):
            flag, why = OPTIONS.get(useless[0], (useless[0], ""))
            raise UsageError(f"`{flag}` does not apply to {self.name} models", where=str(path), why=why)
        with guarded(path, *_beside(given.get("weights"))):
            model = self._read(path, **given)
            check_constants(model, file_bytes(path))
        return model

    def describe(self, path: Path, weights: str = "", trust: bool = False) -> Description:
        """What a file says of itself.

        Args:
            weights: the other file of a model that is two. trust: code of the file may run.
        """
        given = {k: v for k, v in {"weights": weights, "trust": trust}.items() if v and k in self.options}
        with guarded(path, *_beside(weights)):
            return self._describe(path, **given)

    def op(
        self, *names: str, since: int = 1, until: int | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers the translation of operators; several ranges of versions may stand side by side."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            mapping = Mapping_(function, since, until)
            for name in names:
                self.mappings.setdefault(name, []).append(mapping)
            return function

        return add

    def same(self, *names: str, **renamed: str) -> None:
        """Operators whose meaning is an op's of the same name (or the op given by keyword), operands alike."""
        for name, target in [*((n, n) for n in names), *renamed.items()]:
            self.mappings.setdefault(name, []).append(Mapping_(_same(target)))

    def find(self, name: str, version: int) -> Mapping_ | None:
        """The mapping of an operator at an opset version: of several the one made for the fewest versions."""
        covering = [m for m in self.mappings.get(name, []) if m.covers(version)]
        return max(covering, key=lambda m: (m.since, -(m.until or sys.maxsize)), default=None)

    def refuse(self, *names: str, why: str, hint: str = "", since: int = 1, until: int | None = None) -> None:
        """Registers operators that are not converted on purpose. "domain::*" stands for all others of a domain."""
        for name in names:
            self.refusals.setdefault(name, []).append(Refusal(why, hint, since, until))

    def refusal(self, name: str, version: int) -> Refusal | None:
        """Why an operator is refused at an opset version; None when it is not refused."""
        known = [*self.refusals.get(name, []), *self.refusals.get(f"{name.rpartition('::')[0]}::*", [])]
        return next((r for r in known if r.since <= version and (r.until is None or version <= r.until)), None)

    def translate(
        self, mapping: Mapping_, b: Builder, call: Call, inputs: Sequence[Value | None], attrs: Mapping[str, Any]
    ) -> tuple[Value | None, ...]:
        """Calls a mapping; gives nothing when it leaves the call to the operator's own body.

        Raises:
            ModelError, UnsupportedError: with the name of the node.
        """
        try:
            if not mapping.variadic and len(inputs) > len(mapping.parameters):
                extra = len(mapping.parameters)
                if any(v is not None for v in inputs[extra:]):
                    raise ModelError(f"{call.op} takes at most {extra} inputs, not {len(inputs)}")
                inputs = inputs[:extra]
            if len(inputs) < mapping.required:
                raise ModelError(f"{call.op} needs {mapping.required} inputs, it has {len(inputs)}")
            # What a mapping does not know may change the meaning: never pass over it.
            if unknown := sorted(set(attrs) - set(mapping.attrs) - _HARMLESS):
                raise UnsupportedError(f"the attribute '{unknown[0]}' of {call.op} is not supported")
            known = {k: v for k, v in attrs.items() if k in mapping.attrs}
            missing = [k for k, v in mapping.attrs.items() if v is inspect.Parameter.empty and k not in known]
            if missing:
                raise ModelError(f"{call.op} needs the attribute '{missing[0]}'")
            if mapping.wants_node:
                known["node"] = call
            result = mapping.function(b, *inputs, **known)
        except MinnowError as e:
            e.where = e.where or call.origin
            raise
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError) as e:
            # A valid node never gets here; what an invalid one breaks in a mapping is the model's fault.
            raise ModelError(f"{call.op} is invalid", where=call.origin, why=f"{type(e).__name__}: {e}") from e
        except MemoryError as e:
            raise ModelError(f"{call.op} needs more memory than there is", where=call.origin, why=str(e)) from e
        if result is NotImplemented:
            return ()
        return result if isinstance(result, tuple) else (result,)


def import_modules(*packages: ModuleType) -> None:
    """Imports all modules below some packages, which register mappings by that."""
    for package in packages:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _beside(weights: Any) -> tuple[Path, ...]:
    """The other file of a model that is two, where it is given."""
    return (Path(weights),) if weights else ()


def _same(target: str) -> Callable[..., Any]:
    def translate(b: Builder, *xs: Value | None) -> Any:
        return getattr(b, target)(*xs)

    return translate


@dataclass
class Unsupported:
    """Collects everything that cannot be converted, so that the user sees all of it at once.

    Attributes:
        framework: the format of the model; none is needed where nothing is raised.
        reasons: (reason, hint): the nodes.
    """

    framework: str = ""
    reasons: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, reason: str, node: str, hint: str = "") -> None:
        nodes = self.reasons.setdefault((reason, hint), [])
        if node not in nodes[-1:]:
            nodes.append(node)

    def add_error(self, error: UnsupportedError, node: str) -> None:
        """Adds what the translation of a node said."""
        self.add(error.message + (f" ({error.why})" if error.why else ""), node, error.hint)

    def raise_if_any(self, where: str) -> None:
        """Raises UnsupportedError with one item per reason: how many nodes, and which."""
        if not self.reasons:
            return
        refused = [Refused(reason, tuple(nodes), hint) for (reason, hint), nodes in sorted(self.reasons.items())]
        raise UnsupportedError(
            "the model has operators or settings that cannot be converted",
            where=where,
            hint=f"`mnnconvert ops -f {self.framework}` lists what is supported",
            refused=refused,
        )
