"""PyTorch file -> Model: reads the program, makes its inputs, translates it, and names its outputs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minnow.converter.base import Unsupported
from minnow.converter.formats.torch import archive_kind
from minnow.converter.inputs.dimension import computed, fix_inputs, shape_from_use, symbols_in
from minnow.converter.inputs.given import Given, Inputs, text_of
from minnow.converter.torch.program.program import Input, Object, Program
from minnow.converter.torch.symbolic.dimension import scalar
from minnow.converter.torch.symbolic.memory import PASSES, Memory
from minnow.converter.torch.symbolic.structure import RaisedError
from minnow.converter.torch.symbolic.tensor import Number, Tensor
from minnow.converter.torch.symbolic.thing import Missing
from minnow.converter.torch.symbolic.translator import Translator
from minnow.schema.errors import FormatError, MinnowError, ModelError, UnsupportedError, UsageError
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ir.type import merge
from minnow.schema.notice import Notice

if TYPE_CHECKING:
    from minnow.converter.torch.program.script import Script

_MOST_TRIES = 4
"""Inputs of unknown type that are looked at one by one where a program cannot be translated."""
_NUMBERS: dict[Any, DType] = {int: DType.I64, float: DType.F64, bool: DType.BOOL}


def open_program(path: Path, inputs: Any = None, trust: bool = False) -> Program:
    """The program in a file.

    Args:
        inputs, trust: as of `read`.

    Raises:
        FormatError: no PyTorch program, or a damaged one.
    """
    kind = archive_kind(path)
    if kind == "torch_export":
        from minnow.converter.torch.program.exported import read_program

        return read_program(path)
    if kind == "torchscript":
        from minnow.converter.torch.program.script import open_script

        return open_script(path, trust).program(inputs)
    raise FormatError(
        "the file holds no PyTorch program",
        where=str(path),
        hint="save one with `torch.export.save`; a file of weights alone (`torch.save`) holds no program",
    )


def read(path: Path, inputs: Any = None, batch: int | None = None, trust: bool = False) -> Model:
    """Reads a `.pt2` archive or a TorchScript file.

    Args:
        path: the file.
        inputs: what `Inputs` takes: shapes that replace those in the file; "?" leaves a dimension as it is. For an
            argument that is a number, one of one dimension: that number.
        batch: takes the place of the first dynamic dimension of every input.
        trust: code of the file may run: methods that restore the objects of a TorchScript file when it is loaded.

    Raises:
        FormatError: damaged. ModelError: invalid. UnsupportedError: with all unknown operators.
        UsageError: names of inputs that there are not, or dimensions out of the range that the program allows.
    """
    given = Inputs.of(inputs)
    if not given and archive_kind(path) == "torchscript":
        from minnow.converter.torch.program.script import open_script

        script = open_script(path, trust)
        return search(script, batch) or translate(script.program(given), str(path), given, batch)
    return translate(open_program(path, given, trust), str(path), given, batch)


def translate(program: Program, where: str, inputs: Any = None, batch: int | None = None) -> Model:
    """The model of a program; arguments as of `read`."""
    declared = {i.name: i.type for i in program.inputs if i.type is not None}
    given = Inputs.of(inputs).named(list(declared))
    numbers = {i.name: _number(i, given.get(i.name)) for i in program.inputs if i.type is None}
    types = fix_inputs(declared, given.only([n for n in given if n not in numbers]), batch)
    _check_ranges(program, declared, types)
    try:
        return _settled(program, where, types, numbers)
    except (ModelError, UnsupportedError) as e:
        if integers := _probable_integers(program, where, types, numbers):
            names = " and ".join(f"'{name}'" for name in integers)
            options = " ".join(f"--input {n}={text_of(Given(types[n].shape, DType.I64))}" for n in integers)
            e.hint = f"{names} probably holds integers, which TorchScript does not tell: `{options}`"
        raise


def _probable_integers(
    program: Program, where: str, types: Mapping[str, TensorType], numbers: Mapping[str, Any]
) -> list[str]:
    """The inputs of unknown element type with which the program can be translated once they are integers, if any."""
    unknown = [i.name for i in program.inputs if i.assumed]
    tries = [[name] for name in unknown[:_MOST_TRIES]] + [unknown] * (len(unknown) > 1)
    for names in tries:
        try:
            _settled(program, where, {**types, **{n: types[n].with_dtype(DType.I64) for n in names}}, numbers)
        except (ModelError, UnsupportedError):
            continue
        return names
    return []


def _settled(program: Program, where: str, types: Mapping[str, TensorType], numbers: Mapping[str, Any]) -> Model:
    """The model, translated until the types of its states are known."""
    memory = Memory()
    for _ in range(PASSES):
        model = _run(program, where, memory, types, numbers)
        if model is not None:
            return model
    raise UnsupportedError("a state that the program keeps from run to run has no fixed type", where=where,
                           why="its shape or element type changes in every run, as that of a growing cache",
                           hint="write into a buffer of the largest size")  # fmt: skip


# ---- shapes that are not given

_SIZES = (224, 28, 32, 64, 96, 112, 128, 160, 192, 256, 299, 320, 384, 416, 512, 640)
_LENGTHS = (16, 512, 16000)
_SEARCH_SECONDS = 60.0


def search(script: Script, batch: int | None = None) -> Model | None:
    """The model of a program whose only tensor has an unknown shape: a usual one, with which it can be
    translated, and gives one result for one input. None where there is no such tensor or shape.
    """
    open_inputs = script.program({}).inputs
    tensors = [(i.name, i.type.dtype) for i in open_inputs if i.type is not None]
    if len(tensors) != 1 or any(i.type is None and i.default is None for i in open_inputs):
        return None
    (name, found), end = tensors[0], time.monotonic() + _SEARCH_SECONDS
    numbers = {i.name: i.default for i in open_inputs if i.type is None}
    known = [DType.I64] if found is DType.I64 else [DType.F32, DType.I64]
    for dtype in known:
        for shape in _shapes_to_try(script.document["widths"]):
            if time.monotonic() > end:
                return None
            types = fix_inputs({name: TensorType(dtype, shape)}, {}, batch)
            try:
                model = _settled(script.program({name: shape}), str(script.path), types, numbers)
            except MinnowError:
                continue
            if all(not t.shape or not isinstance(t.shape[0], int) or t.shape[0] == 1 for _, t in model.user_outputs):
                text = (
                    f"the file does not tell the shape of '{name}'; {'x'.join(map(str, shape))} was found by trying, "
                    f"and `--input {name}=...` sets another"
                )
                model.notices.append(Notice(text, "shape-assumed"))
                return model  # a picture of another size is several of the right one
    return None


def _shapes_to_try(widths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Shapes of an input, the usual ones first: pictures, rows of what the weights multiply, signals, sequences."""
    for channels in (3, 1, 4, 2):
        for size in _SIZES:
            yield 1, channels, size, size
    for width in widths:
        yield 1, width
        yield 1, 16, width
    for length in _LENGTHS:
        yield 1, length
        yield 1, 1, length


def _run(
    program: Program, where: str, memory: Memory, types: Mapping[str, TensorType], numbers: Mapping[str, Any]
) -> Model | None:
    """The model, if the program leaves behind for the next run what `memory` says; memory knows more otherwise."""
    unsupported = Unsupported("torch")
    translator = Translator(where, unsupported)
    graph: Graph = translator.builder.graph
    arguments: dict[str, Any] = {}
    for i in program.inputs:
        made: Any
        if i.type is not None:
            made = Tensor(graph.add_param(types[i.name], i.name))
        elif numbers[i.name] is not None:
            made = numbers[i.name]
        else:
            made = Number(graph.add_param(TensorType(_NUMBERS[i.number or int], ()), i.name))
        arguments[i.param] = _placed(arguments.get(i.param), i.path, made)
    inputs = list(graph.params)
    states = memory.install(translator, program)
    try:
        results = translator.run(program.block, {**arguments, **states.bound})
    except ModelError:
        unsupported.raise_if_any(where)  # what cannot be converted may well be why
        raise
    except RaisedError as e:
        unsupported.raise_if_any(where)
        raise ModelError("the program raises an exception for these inputs", where=where, why=str(e),
                         hint="give other shapes or numbers with `--input`") from None  # fmt: skip
    unsupported.raise_if_any(where)
    named = _named(_outputs(translator, results, program.outputs, where))
    graph.outputs = [value for _, value in named]
    if not states.settled():
        return None
    for parameter in graph.params:
        parameter.type = parameter.type.with_shape(merge(parameter.type.shape, shape_from_use(parameter)))
    model = Model(graph, source=program.source, ranges=dict(program.ranges))
    model.notices += dict.fromkeys([*program.notices, *translator.notices])
    model.inputs = [(v.name, v.type) for v in inputs]
    model.outputs = [(name, value.type) for name, value in named]
    return model if states.finish(model, inputs) else None


def _named(outputs: Sequence[tuple[str, Value]]) -> list[tuple[str, Value]]:
    """Outputs with names that differ."""
    named: dict[str, Value] = {}
    for name, value in outputs:
        while name in named:
            name += "_"
        named[name] = value
    return list(named.items())


def _placed(whole: Any, path: Sequence[int | str], made: Any) -> Any:
    """Puts an argument where it belongs inside of lists and dicts."""
    if not path:
        return made
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        whole = [] if whole is None else whole
        whole.extend([None] * (key + 1 - len(whole)))
        whole[key] = _placed(whole[key], rest, made)
    else:
        whole = {} if whole is None else whole
        whole[key] = _placed(whole.get(key), rest, made)
    return whole


def _number(i: Input, given: Given | None) -> Any:
    """The given value of an argument that is not a tensor; None if it is an input, or if an array is given for it."""
    if given is None:
        return i.default
    if given.shape == () or given.shape is None:
        given.check(i.name, _NUMBERS[i.number or int])
        return None
    if len(given.shape) != 1 or not isinstance(given.shape[0], int):
        raise UsageError(f"the input '{i.name}' is a number, which has no shape", hint=f"`--input {i.name}=1` sets it")
    return (i.number or int)(given.shape[0])


def _check_ranges(program: Program, declared: Mapping[str, TensorType], types: Mapping[str, TensorType]) -> None:
    """What the caller fixes must be within the range that the program was exported for."""
    for name, type in declared.items():
        for symbol, d in zip(type.shape or (), types[name].shape or (), strict=False):
            if not isinstance(d, int) or isinstance(symbol, int):
                continue
            of = symbols_in(symbol)
            allowed = _allowed(symbol, *program.ranges.get(of[0] if of else symbol, (0, None))) if len(of) < 2 else None
            if allowed is not None and d not in allowed:
                raise UsageError(
                    f"the dimension {d} of input '{name}' is out of range",
                    why=f"the program was exported for {allowed.start} to "
                    + ("any size" if allowed.stop >= _ANY else f"{allowed[-1]}")
                    + (f" in steps of {allowed.step}" if allowed.step > 1 else ""),
                )


_ANY = 1 << 62


def _allowed(symbol: str, low: int, high: int | None) -> range:
    """The dimensions that a symbol, or a formula of one symbol, can be."""
    ends = [low, _ANY if high is None else high]
    if not (of := symbols_in(symbol)):
        return range(ends[0], ends[1] + 1)
    at = [computed(symbol, {of[0]: n}) or 0 for n in (0, 1, *ends)]
    return range(at[2], min(at[3], _ANY) + 1, max(at[1] - at[0], 1))


def _outputs(translator: Translator, results: Sequence[Any], names: Any, where: str) -> list[tuple[str, Value]]:
    """All tensors and numbers in what the program gives, with their names."""
    found: list[tuple[str, Value]] = []
    flat = list(_leaves(results[0] if len(results) == 1 else results, ""))
    known = names if names and len(names) == len(flat) else [None] * len(flat)
    for name, (path, x) in zip(known, flat, strict=True):
        if x is None:
            continue
        label = name or path or "output"
        if isinstance(x, Tensor):
            value = translator.value(x)
        elif isinstance(x, (Number, bool, int, float)):
            value = scalar(translator.builder, x)
        elif isinstance(x, Missing):
            if x.why:
                raise UnsupportedError(x.why, where=where)
            continue
        else:
            raise UnsupportedError(f"the output '{label}' is a {type(x).__name__}, not a tensor", where=where)
        found.append((label, value))
    if not found:
        raise ModelError("the program has no results", where=where)
    return found


def _leaves(x: Any, path: str) -> Any:
    """The parts of tuples, lists and dicts, named by where they are."""
    if isinstance(x, (list, tuple)):
        for i, part in enumerate(x):
            yield from _leaves(part, f"{path}.{i}" if path else f"output_{i}")
    elif isinstance(x, dict):
        for key, part in x.items():
            yield from _leaves(part, f"{path}.{key}" if path else str(key))
    elif isinstance(x, Object):
        raise UnsupportedError(f"an output that is an object of the class {x.kind} is not supported")
    else:
        yield path, x
