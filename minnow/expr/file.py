"""Vars in files: a graph of Vars as a `.mnn` file, and the other way round."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.expr import constant_file
from minnow.expr.constant import NCHW
from minnow.expr.evaluation import graph_of
from minnow.expr.names import named
from minnow.expr.operation import Operation, bind
from minnow.expr.var import CONST, PLACEHOLDER, TRAINABLE, Var, as_var
from minnow.schema.errors import FormatError, MinnowError, UnsupportedError, UsageError
from minnow.schema.ir import ArrayBlob, Graph, Model, Value
from minnow.schema.mnn import wire
from minnow.schema.mnn.decoder import decode, read_file
from minnow.schema.mnn.encoder import save as save_model
from minnow.schema.mnn.json_form import from_json
from minnow.schema.ops import get
from minnow.schema.registry.encoding import WIRE_DTYPES


@named("expr")
def save(vars: Any, file_name: Any) -> None:
    """Writes the graph behind Vars to a `.mnn` file, which `minnow.load` and MNN's own runtime load.

    Placeholders become its inputs, by their names; trainables become constants with their current values.

    Args:
        vars: the outputs of the model, by their names; constants among them are written, too.
        file_name: the file.

    Raises:
        UsageError: there is nothing to write, or two Vars have one name.
        WriteError: the file cannot be written.
    """
    from minnow.optimizer.pipeline import optimize
    from minnow.output import replaced

    outputs = [vars] if isinstance(vars, Var) else vars
    if not isinstance(outputs, (list, tuple)) or not outputs:
        raise UsageError("there is nothing to save", hint="expr.save([var, ...], path)")
    given = [as_var(v) for v in outputs]
    if constant_file.is_writable(given):
        with replaced(Path(os.fspath(file_name))) as path:
            path.write_bytes(constant_file.to_bytes(given))
        return
    model = to_model(given)
    optimize(model, 0)
    with replaced(Path(os.fspath(file_name))) as path:
        save_model(model, path)


def to_model(outputs: Sequence[Var]) -> Model:
    """The model of the graph behind Vars, with trainables as constants."""
    graph, leaves = graph_of(outputs)
    for param, var in zip(list(graph.params), leaves, strict=True):
        if var._kind == TRAINABLE:
            param.replace_all_uses(Value.constant(ArrayBlob(var._value()), var.name or param.name))
            graph.params.remove(param)
    taken: set[str] = set()
    for kind, values in (("in", graph.params), ("out", graph.outputs)):
        for i, value in enumerate(values):
            if kind == "in" or value.producer is not None:
                name = value.name if value.name and value.name != f"in{i}" else f"{kind}{i}"
                if name in taken:
                    raise UsageError(f"two Vars are called '{name}'")
                value.name = name
                taken.add(name)
    named_outputs = []
    for i, (value, var) in enumerate(zip(list(graph.outputs), outputs, strict=True)):
        if value.producer is None:  # an output of a file is the result of a node
            value = _passed(graph, value, var.name or f"out{i}", taken)
        named_outputs.append(value)
    graph.outputs = named_outputs
    inputs = [(p.name, p.type) for p in graph.params]
    return Model(graph, inputs, [(v.name, v.type) for v in graph.outputs])


def _passed(graph: Graph, value: Value, name: str, taken: set[str]) -> Value:
    from minnow.schema.ops import Builder

    result: Value = Builder(graph).Identity(value)
    if value.name == name:
        value.name = f"{name}.value"
    result.name = name
    taken.add(name)
    return result


def vars_of(graph: Graph, given: Sequence[Var] = ()) -> dict[Value, Var]:
    """Vars for all values of a graph: the inverse of `graph_of`.

    Args:
        graph: its parameters become placeholders.
        given: Vars that take the place of the parameters.
    """
    table: dict[Value, Var] = {}
    for i, param in enumerate(graph.params):
        if i < len(given):
            table[param] = given[i]
        else:
            table[param] = Var._placeholder(param.type, NCHW)
            table[param].name = param.name
    for node in graph:
        op = get(node.op, node.origin)
        inputs = [None if v is None else table[v] if v in table else _constant(v, table) for v in node.inputs]
        operation = Operation(op, tuple(inputs), bind(op, len(inputs), node.attrs), len(node.outputs))
        for i, value in enumerate(node.outputs):
            table[value] = Var._result(operation, i, NCHW)
            table[value].name = value.name
    for value in graph.outputs:
        if value not in table:
            _constant(value, table)
    return table


def _constant(value: Value, table: dict[Value, Var]) -> Var:
    assert value.array is not None
    var = table[value] = Var._of(np.asarray(value.array), NCHW)
    var.name = value.name
    return var


def _constants(file_name: Any) -> list[Var] | None:
    try:
        return constant_file.from_file(Path(os.fspath(file_name)))
    except (OSError, ValueError, TypeError, MinnowError):
        return None  # what is wrong, `_loaded` says


def _loaded(file_name: Any) -> tuple[Model, dict[Value, Var]]:
    path = Path(os.fspath(file_name))
    try:
        model = read_file(path)
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read", why=str(error)) from error
    except MinnowError as error:
        error.where = f"{path}: {error.where}" if error.where else str(path)
        raise
    return model, vars_of(model.graph)


@named("expr")
def load_as_list(file_name: Any) -> list[Var]:
    """The outputs of a `.mnn` file as Vars. Raises FormatError if it cannot be read."""
    if (constants := _constants(file_name)) is not None:
        return constants
    model, table = _loaded(file_name)
    return [_output(v, name, table) for v, (name, _) in zip(model.graph.outputs, model.outputs, strict=True)]


@named("expr")
def load_as_dict(file_name: Any) -> dict[str, Var]:
    """All Vars of a `.mnn` file by their names: inputs, constants, results. Raises FormatError if it cannot be read."""
    if (constants := _constants(file_name)) is not None:
        return {var.name: var for var in constants}
    model, table = _loaded(file_name)
    found = {var.name: var for var in table.values() if var.name}
    for value, (name, _) in zip(model.graph.outputs, model.outputs, strict=True):
        found[name] = _output(value, name, table)
    return found


def _output(value: Value, name: str, table: Mapping[Value, Var]) -> Var:
    """The Var of an output. One that only hands on a constant is that constant."""
    var = table[value]
    source = var.inputs[0] if var.op_type == "Identity" else var
    if source.op_type == CONST:
        var = Var._of(source._value(), source.data_format)
    var.name = name
    return var


@named("expr")
def get_inputs_and_outputs(vars: Any) -> tuple[dict[str, Var], dict[str, Var]]:
    """The placeholders, and the Vars that no other one is computed of, by name, among the Vars of a dictionary."""
    if not isinstance(vars, Mapping) or not all(isinstance(v, Var) for v in vars.values()):
        raise UsageError("get_inputs_and_outputs takes the dictionary that load_as_dict gives")
    used = {(v._operation, v._index) for var in vars.values() for v in var.inputs if v._operation is not None}
    inputs = {name: v for name, v in vars.items() if v.op_type == PLACEHOLDER}
    results = {name: v for name, v in vars.items() if v._operation is not None}
    outputs = {name: v for name, v in results.items() if (v._operation, v._index) not in used}
    return inputs, outputs


@named("expr")
def jsonop(inputs: Any, json_text: Any, output_number: Any) -> list[Var]:
    """An op of the file format, given by its JSON text.

    Args:
        inputs: its operands.
        json_text: the table `Op`: its type, and its parameters ("main_type", "main").
        output_number: number of results.

    Raises:
        UsageError: it is not the text of an op.
        UnsupportedError: the engine has no such op.
    """
    operands = [as_var(v) for v in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
    if isinstance(output_number, bool) or not isinstance(output_number, int) or not 1 <= output_number <= 4096:
        raise UsageError(f"output_number is {output_number!r}")
    names = [f"in{i}" for i in range(len(operands))] + [f"out{i}" for i in range(output_number)]
    n = len(operands)
    try:
        table = json.loads(json_text)
        if not isinstance(table, dict) or not isinstance(table.get("type"), str):
            raise ValueError("it is not an object with a type")
        table["inputIndexes"], table["outputIndexes"] = list(range(n)), list(range(n, len(names)))
        leaves = [
            {"type": "Input", "name": names[i], "outputIndexes": [i], "main_type": "Input",
             "main": {"dims": v.shape, "dtype": WIRE_DTYPES[v._type().dtype], "dformat": "NCHW"}}
            for i, v in enumerate(operands)
        ]  # fmt: skip
        net = {"oplists": [*leaves, table], "tensorName": names, "outputName": names[n:]}
        graph = decode(bytes(wire.write_view(from_json(json.dumps(net))))).graph
    except UnsupportedError:
        raise
    except (MinnowError, ValueError, TypeError, KeyError) as error:
        raise UsageError("the text does not describe an op", why=str(error)) from error
    made = vars_of(graph, operands)
    results = [made[v] for v in graph.outputs]
    if any(v.op_type == "Raw" for v in results):
        raise UnsupportedError(f"there is no op of the type {table.get('type')}")
    return results
