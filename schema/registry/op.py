"""The op registry: the signature is the schema, the body is the numpy reference, the docstring is the documentation.

    @op(mnn=unary("HARDSWISH"), traits=ELEMENTWISE)
    def HardSwish(x: Float):
        \"\"\"y = x * clip(x + 3, 0, 6) / 6\"\"\"
        return x * np.clip(x + 3, 0, 6) / 6

Positional parameters are operands (default `None`: optional; `*xs`: any number), keyword-only ones are attributes.
An op that needs more adds `@HardSwish.shape`, `@HardSwish.samples`, `@HardSwish.encode`, `@HardSwish.decode`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Any

import numpy as np

from minnow.schema.errors import InternalError, ModelError, UnsupportedError
from minnow.schema.ir import DType, Node, TensorType
from minnow.schema.ir.type import Shape, broadcast
from minnow.schema.registry.signature import Attr, Operand, Role, canonical, dtypes_of, kind_of, role_of

FLOATS = frozenset({DType.F32, DType.F64, DType.F16, DType.BF16})
BOOLS = frozenset({DType.BOOL})
INTS = frozenset(t for t in DType if t.is_int and not t.is_storage)

# Annotations of operands: which element types they take.
T = typing.Annotated[np.ndarray[Any, Any], frozenset(DType)]
Float = typing.Annotated[np.ndarray[Any, Any], FLOATS]
Int = typing.Annotated[np.ndarray[Any, Any], INTS]
Numeric = typing.Annotated[np.ndarray[Any, Any], FLOATS | INTS]
Computed = typing.Annotated[np.ndarray[Any, Any], FLOATS | INTS | BOOLS]
Bool = typing.Annotated[np.ndarray[Any, Any], BOOLS]

Sizes = typing.Annotated[Int, Role.SIZE]
Places = typing.Annotated[Int, Role.PLACE]


class Trait(Enum):
    """Facts about an op that passes ask for, so that no pass keeps a list of op names."""

    __hash__ = object.__hash__  # there is one of each; that of Enum takes the time of a call in Python

    ELEMENTWISE = "each output element depends on the input elements at its (broadcast) place only"
    COMMUTATIVE = "the two operands may be swapped"
    COMPARE = "the result is bool"
    MOVEMENT = "the output holds input elements only, moved, repeated or dropped"
    VIEW = "the output has the input's elements in the same order: only the shape differs"
    SHAPE_ONLY = "the result depends on the shapes of the inputs, not on their contents"
    REDUCTION = "reduces over `axes` with `keepdims`"
    SPATIAL = "works on [N, C, spatial...]: prefers channel blocks (NC4HW4) for input 0 and its output"
    BLOCKABLE = "computes the same on channel blocks (NC4HW4) as on plain memory, operand layouts being equal"
    CONTROL_FLOW = "has subgraphs"
    ONE_KERNEL = "what its subgraph describes is one step: its nodes do not count"
    HOLDERS = "operands may be sequences or optionals; for others these are bytes of no meaning"
    DATA_DEPENDENT = "the output shape depends on contents"
    NONNEGATIVE = "integers in the result are never negative"
    REORDER = "every element of the operand once, in another order: nothing is computed"
    CHANNEL_OPERANDS = "operands behind the first one hold a number for each channel: they are not broadcast"
    SIZE_MATH = "integers of integers: of sizes it makes sizes"
    TOTAL = "has a result for all integers: none is refused"
    NOT_BELOW_ZERO = "floats in the result are not below 0; they may be -0"
    NO_SIGN_BIT = "floats in the result are neither below 0 nor -0"
    SAME_FOR_ZEROS = "gives for -0 what it gives for 0"
    SUMS = "adds up many numbers: whether a 0 in the result is -0 depends on their order"
    NO_ROUNDING = "of floats that a narrower type has too, it makes such floats"
    INVOLUTION = "done twice, it gives its operand"
    IDEMPOTENT = "done twice, it gives what it gives done once"
    ARGUMENT = "gives places along `axis`, with `keepdims`"
    RANDOM = "gives other numbers in every run: never computed ahead, never merged with its equal"
    EXACT_TYPES = "the element types of operands and results mean something: none may stand for another"
    ROUNDING = "rounds to few bits: the last bit of an operand may make a whole step of the result"
    STRAIGHT_THROUGH = "its gradient takes rounding for no change: the integers that it gives have one"
    PRODUCT = "multiplies matrices: `@Op.macs` says how many multiply-accumulates that takes"
    ENGINE_ONLY = "has no encoding of the format's own: other runtimes of the format refuse it"


ELEMENTWISE = frozenset({Trait.ELEMENTWISE, Trait.BLOCKABLE})
COMPARE = ELEMENTWISE | {Trait.COMPARE}
MOVEMENT = frozenset({Trait.MOVEMENT})
VIEW = frozenset({Trait.MOVEMENT, Trait.VIEW})
EXACT_TYPES = frozenset({Trait.EXACT_TYPES})
ROUNDING = EXACT_TYPES | {Trait.ROUNDING}
REDUCTION = frozenset({Trait.REDUCTION})
SPATIAL = frozenset({Trait.SPATIAL})


# What numpy raises for operands that it cannot compute with.
NUMPY_REFUSALS = (ValueError, IndexError, TypeError, ArithmeticError, MemoryError)


@dataclass(frozen=True)
class Arg:
    """What type inference knows of one operand: its type, and its contents where they are constant."""

    type: TensorType
    value: np.ndarray[Any, Any] | None = None

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> Shape | None:
        return self.type.shape

    @property
    def rank(self) -> int | None:
        return self.type.rank


@dataclass(frozen=True)
class Sample:
    """One case for tests, docs and fuzzing: operand arrays (None: left out), attributes, number of outputs."""

    inputs: tuple[np.ndarray[Any, Any] | None, ...]
    attrs: Mapping[str, Any]
    n_outputs: int = 1
    rtol: float | None = None  # where float32 arithmetic needs more room than the tests' default

    def __str__(self) -> str:
        shapes = ",".join("_" if a is None else "x".join(map(str, a.shape)) or "scalar" for a in self.inputs)
        attrs = ",".join(f"{k}={v}" for k, v in self.attrs.items()).replace(" ", "")
        return f"{shapes};{attrs}" if attrs else shapes


@dataclass
class WireOp:
    """One op of the file, as the `encode`/`decode` functions of ops see it.

    Attributes:
        type: name in the OpType enum.
        main_type: name of the parameter table, "" for none.
        main: the table's fields by name.
        inputs: on encoding Values, None, or numpy arrays (which become Const ops); on decoding Values or None.
        n_outputs: number of outputs.
        format: `defaultDimentionFormat` of the op, "NHWC" being the format's own default.
        output_order: outputs in the file's order, as positions among the node's outputs followed by unused ones.
    """

    type: str
    main_type: str = ""
    main: dict[str, Any] | None = None
    inputs: Sequence[Any] = ()
    n_outputs: int = 1
    format: str = "NHWC"
    output_order: Sequence[int] = ()

    def field(self, name: str, default: Any = None) -> Any:
        """A field of the parameter table, or the default."""
        return default if self.main is None else self.main.get(name, default)


# A decoder gives (inputs, attrs): inputs may hold arrays, which become constants. None: "not mine".
Decoded = tuple[Sequence[Any], Mapping[str, Any]] | None


@dataclass(frozen=True)
class Encoding:
    """How an op stands in the file: a pair of functions and the OpTypes that the decoder is asked for.

    encode(node) gives a WireOp, or None when this node (its attributes, types, constness) has no form of the
    format's own; it is then written as a generic op that only Minnow's engine runs.
    """

    encode: Callable[[Node], WireOp | None]
    decode: Callable[[WireOp], Decoded]
    types: tuple[str, ...]


class Op:
    """One op: schema, numpy reference, documentation, encoding and samples.

    A model has few of the ops: what the signature and the docstring say is looked at when it is asked for.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        traits: frozenset[Trait],
        mnn: Encoding | None,
        outputs: int | None,
        optional_outputs: int = 0,
    ) -> None:
        self.name = function.__name__
        self.reference = function
        self.traits = traits
        self.mnn = mnn
        self.outputs = outputs
        self.most_outputs = None if outputs is None else outputs + optional_outputs
        self.module = function.__module__
        self.line = function.__code__.co_firstlineno
        self._shape: Callable[..., Any] | None = None
        self.count_macs: Callable[..., int] | None = None
        self.sign_rule: Callable[..., bool] | None = None
        self.contents_rule: Callable[..., Any] | None = None
        self.dimension_rule: Callable[..., Any] | None = None
        self._gradient: Callable[..., Any] | None = None
        self._samples: Callable[[np.random.Generator], Iterable[Any]] | None = None
        self._variants: list[Mapping[str, Any]] = []

    def __repr__(self) -> str:
        return f"Op({self.name})"

    @cached_property
    def doc(self) -> str:
        return inspect.getdoc(self.reference) or ""

    @cached_property
    def file(self) -> str:
        return inspect.getsourcefile(self.reference) or ""

    @cached_property
    def inputs(self) -> list[Operand]:
        return self._parameters[0]

    @cached_property
    def attrs(self) -> dict[str, Attr]:
        return self._parameters[1]

    @property
    def operand_names(self) -> tuple[str, ...]:
        """What the operands are called, without a look at their types, which takes time."""
        code = self.reference.__code__
        n = code.co_argcount
        rest = code.co_varnames[n + code.co_kwonlyargcount :][: bool(code.co_flags & inspect.CO_VARARGS)]
        return code.co_varnames[:n] + rest

    @cached_property
    def _parameters(self) -> tuple[list[Operand], dict[str, Attr]]:
        inputs, attrs = [], {}
        hints = typing.get_type_hints(self.reference, include_extras=True)
        for p in inspect.signature(self.reference).parameters.values():
            hint = hints.get(p.name, T)
            if p.kind is inspect.Parameter.KEYWORD_ONLY:
                required = p.default is inspect.Parameter.empty
                # A default takes the same form as a given value, so that the two compare equal.
                default = None if required or p.default is None else canonical(p.default, kind_of(hint))
                attrs[p.name] = Attr(p.name, default, required, hint)
            else:
                variadic = p.kind is inspect.Parameter.VAR_POSITIONAL
                inputs.append(Operand(p.name, p.default is None or variadic, variadic, dtypes_of(hint), role_of(hint)))
        return inputs, attrs

    @cached_property
    def _counts(self) -> bool:
        return self._shape is not None and "n_outputs" in inspect.signature(self._shape).parameters

    # ---- decorators that add what the signature cannot say

    def shape(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Type rule: called with an `Arg` (or None) per operand and the attributes by keyword; gives a TensorType or a
        tuple of them. `n_outputs` is passed by keyword when the function has a parameter of that name."""
        self._shape = function
        return function

    def samples(self, function: Callable[[np.random.Generator], Iterable[Any]]) -> Callable[..., Any]:
        """Generator of test cases: yields `(operands, attrs)` or `(operands, attrs, n_outputs)` or a `Sample`.
        An operand is an array, a shape tuple (filled with float32 normals) or None."""
        self._samples = function
        return function

    def macs(self, function: Callable[..., int]) -> Callable[..., int]:
        """Number of multiply-accumulates: called with the `Sizes` of a node, see `cost.py`."""
        self.count_macs = function
        self.traits |= {Trait.PRODUCT}
        return function

    def sign(self, function: Callable[..., bool]) -> Callable[..., bool]:
        """Whether integers in the result are never negative: called with a bool per operand, whether no element of it
        is, and the attributes by keyword. See `sign.py`."""
        self.sign_rule = function
        return function

    def contents(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The elements of a small integer result as formulas of dimensions: called with the node and what is known of
        other values. See `symbolic.py`."""
        self.contents_rule = function
        return function

    def dimension(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Where an unknown dimension of the result comes from: called with the node, the axis and how many values may
        still be looked at. See `symbolic.py`. Elementwise ops need none."""
        self.dimension_rule = function
        return function

    def gradient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The rule of its derivative: called with a `Step`, a `Term` (or None) per operand and the attributes by
        keyword; gives a `Term`, or None, per operand. See `gradient.py`."""
        self._gradient = function
        return function

    @property
    def gradient_rule(self) -> Callable[..., Any] | None:
        """The rule of its derivative, None where there is none."""
        _load_gradients()
        return self._gradient

    def vary(self, **attrs: Any) -> None:
        """Has the samples that are generated for an elementwise op made with these attributes as well."""
        self._variants.append(attrs)

    def encode(self, *types: str) -> Callable[[Callable[[Node], WireOp | None]], Callable[[Node], WireOp | None]]:
        """Sets the encoder; `types` are the OpTypes the decoder, set by `decode`, is asked for."""

        def add(function: Callable[[Node], WireOp | None]) -> Callable[[Node], WireOp | None]:
            decode = self.mnn.decode if self.mnn else lambda wire: None
            self.mnn = Encoding(function, decode, types)
            return function

        return add

    def decode(self, function: Callable[[WireOp], Decoded]) -> Callable[[WireOp], Decoded]:
        """Sets the decoder; comes after `encode`."""
        if self.mnn is None:
            raise InternalError(f"{self.name}: decode without encode")
        self.mnn = Encoding(self.mnn.encode, function, self.mnn.types)
        return function

    # ---- what the rest of the project asks

    def operand(self, i: int) -> Operand:
        """The parameter that describes operand `i`; the last one repeats when it is variadic."""
        if i < len(self.inputs):
            return self.inputs[i]
        if self.inputs and self.inputs[-1].variadic:
            return self.inputs[-1]
        raise ModelError(f"{self.name} takes {len(self.inputs)} inputs, not {i + 1} or more")

    def bind(self, n_inputs: int, attrs: Mapping[str, Any], where: str = "") -> dict[str, Any]:
        """All attributes in canonical form, defaults filled in. Raises ModelError for unknown, missing or bad ones."""
        for name in attrs:
            if name not in self.attrs:
                raise ModelError(f"{self.name} has no attribute '{name}'", where=where)
        if n_inputs:
            self.operand(n_inputs - 1)
        out = {}
        for name, attr in self.attrs.items():
            if name in attrs:
                out[name] = attr.check(attrs[name], where or self.name)
            elif attr.required:
                raise ModelError(f"{self.name} needs the attribute '{name}'", where=where)
            else:
                out[name] = attr.default
        return out

    def infer(
        self, args: Sequence[Arg | None], attrs: Mapping[str, Any], n_outputs: int | None = None, where: str = ""
    ) -> tuple[TensorType, ...]:
        """Types of the outputs. Raises ModelError, with `where`, when operands and attributes do not fit."""
        return self.infer_bound(args, self.bind(len(args), attrs, where), n_outputs, where)

    def infer_bound(
        self, args: Sequence[Arg | None], attrs: Mapping[str, Any], n_outputs: int | None = None, where: str = ""
    ) -> tuple[TensorType, ...]:
        """The same, given the attributes as `bind` gives them."""
        for i, arg in enumerate(args):
            operand = self.operand(i)
            if arg is None:
                if not operand.optional:
                    raise ModelError(f"{self.name} needs its input '{operand.name}'", where=where)
            elif arg.type.holds_tensors and Trait.HOLDERS not in self.traits:
                raise ModelError(f"{self.name} takes tensors, input '{operand.name}' is {arg.type}", where=where)
            elif arg.dtype not in operand.dtypes:
                raise ModelError(f"{self.name} does not take {arg.dtype} for input '{operand.name}'", where=where)
        for operand in self.inputs[len(args) :]:
            if not operand.optional:
                raise ModelError(f"{self.name} needs its input '{operand.name}'", where=where)
        # Trailing optional operands that were left out reach the rule as None.
        padded = [*args, *(None for operand in self.inputs[len(args) :] if not operand.variadic)]
        extra = {"n_outputs": self.outputs if n_outputs is None else n_outputs} if self._counts else {}
        try:
            types = self._shape(*padded, **attrs, **extra) if self._shape else self._elementwise(padded)
        except ModelError as e:
            if not e.where:
                e.where = where
            raise
        types = types if isinstance(types, tuple) else (types,)
        return types if n_outputs is None else types[:n_outputs]

    def _elementwise(self, args: Sequence[Arg | None]) -> TensorType:
        if Trait.ELEMENTWISE not in self.traits:
            raise InternalError(f"{self.name} has no shape rule")
        known = [a for a in args if a is not None]
        # Operands that may be of several types share one; a condition (Where) is bool beside them.
        free = [a.dtype for i, a in enumerate(args) if a is not None and len(self.operand(i).dtypes) > 1]
        if len(set(free)) > 1:
            raise ModelError(f"{self.name} needs operands of one type, not {' and '.join(map(str, free))}")
        dtype = DType.BOOL if Trait.COMPARE in self.traits else known[-1].dtype
        return TensorType(dtype, broadcast(*(a.shape for a in known)))

    def evaluate(
        self, inputs: Sequence[np.ndarray[Any, Any] | None], attrs: Mapping[str, Any]
    ) -> tuple[np.ndarray[Any, Any], ...]:
        """The outputs by the numpy reference; float warnings are silent, as in the engine."""
        padded = [*inputs, *(None for operand in self.inputs[len(inputs) :] if not operand.variadic)]
        with np.errstate(all="ignore"):
            out = self.reference(*padded, **self.bind(len(inputs), attrs))
        return tuple(np.asarray(o) for o in (out if isinstance(out, tuple) else (out,)))

    def cases(self, seed: int = 0) -> Iterator[Sample]:
        """The samples, generated ones for elementwise ops without their own."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        source = self._samples(rng) if self._samples else self._elementwise_samples(rng)
        for case in source:
            if isinstance(case, Sample):
                yield case
                continue
            operands, attrs, n = case if len(case) == 3 else (*case, self.outputs or 1)
            arrays = tuple(
                None if a is None else fill(rng, a) if isinstance(a, tuple) else np.asarray(a) for a in operands
            )
            yield Sample(arrays, attrs, n)

    def _elementwise_samples(self, rng: np.random.Generator) -> Iterator[Any]:
        if Trait.ELEMENTWISE not in self.traits:
            return
        arity = len(self.inputs)
        shapes: list[tuple[tuple[int, ...], ...]]
        if arity == 1:
            shapes = [((),), ((0,),), ((1,),), ((17,),), ((2, 3, 5, 7),), ((1, 19, 3, 3),), ((33, 1),)]
        else:
            shapes = [((), ()), ((0, 3), (1, 3)), ((7,), (7,)), ((2, 3, 5), (5,)), ((2, 3, 5), (3, 1)), ((), (2, 3)),
                      ((1, 19, 3, 5), (1, 19, 1, 1)), ((4, 1, 6), (5, 1)), ((17,), (1,)), ((1,), (3, 1))]  # fmt: skip
            shapes = [s + (s[0],) * (arity - 2) for s in shapes]
        special = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-38, -3e38, 88, -104], np.float32)
        plain: list[Mapping[str, Any]] = [] if any(a.required for a in self.attrs.values()) else [{}]
        for attrs in plain + self._variants:
            for dtype in (DType.F32, DType.F64, DType.I32, DType.I64, DType.U8, DType.BOOL, DType.F16):
                if all(dtype in o.dtypes for o in self.inputs):
                    for group in shapes:
                        yield tuple(fill(rng, s, dtype) for s in group), attrs
            if DType.F32 in self.inputs[0].dtypes:
                yield tuple(special if i == 0 else np.roll(special, 5 * i) for i in range(arity)), attrs

    def builds(self, args: Sequence[Any], attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes for a new node: canonical, and without those at their default value."""
        return self.without_defaults(self.bind(len(args), attrs))

    def without_defaults(self, bound: Mapping[str, Any]) -> dict[str, Any]:
        """What `bind` gives, without those at their default value."""
        return {k: v for k, v in bound.items() if self.attrs[k].required or v != self.attrs[k].default}


def fill(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType = DType.F32) -> np.ndarray[Any, Any]:
    """Random numbers for samples: normals for floats, small ones for integers, coin flips for bool."""
    if dtype is DType.BOOL:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype.is_float:
        return np.asarray(rng.standard_normal(shape)).astype(dtype.numpy)
    low = 0 if dtype.value.startswith("u") else -9
    return np.asarray(rng.integers(low, 10, shape)).astype(dtype.numpy)


_registry: dict[str, Op] = {}


def _load() -> None:
    """The ops register themselves when they are imported: at the latest when one is first asked for.

    By name, since no module here may depend on an op.
    """
    importlib.import_module("minnow.schema.ops")


@cache
def _load_gradients() -> None:
    """The rules of derivatives are in modules of their own, which only training needs: loaded when one is asked for."""
    package = importlib.import_module("minnow.schema.ops.gradient")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def op(
    *,
    mnn: Encoding | None = None,
    traits: frozenset[Trait] = frozenset(),
    outputs: int | None = 1,
    optional_outputs: int = 0,
) -> Callable[[Callable[..., Any]], Op]:
    """Registers a function as an op.

    Args:
        mnn: how it is encoded; without it the generic encoding is used, which only Minnow's engine reads.
        traits: facts that passes ask for.
        outputs: number of outputs; None where the node decides (Split, If, Loop).
        optional_outputs: how many more there are for those who ask (the indices of MaxPool).
    """

    def add(function: Callable[..., Any]) -> Op:
        new = Op(function, traits, mnn, outputs, optional_outputs)
        if new.name in _registry:
            raise InternalError(f"op {new.name} is defined twice")
        _registry[new.name] = new
        return new

    return add


def get(name: str, where: str = "") -> Op:
    """The op of that name. Raises UnsupportedError for an unknown one."""
    if name not in _registry:
        _load()
    try:
        return _registry[name]
    except KeyError:
        raise UnsupportedError(f"there is no op '{name}'", where=where) from None


def all_ops() -> list[Op]:
    """Every op, sorted by name."""
    _load()
    return [_registry[name] for name in sorted(_registry)]


def ops_with(trait: Trait) -> tuple[str, ...]:
    """The names of all ops that have a trait, sorted."""
    return tuple(op.name for op in all_ops() if trait in op.traits)
