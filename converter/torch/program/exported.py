"""`.pt2` archives -> Program. They are JSON and raw data: nothing is unpickled, and torch is not needed.

The names of fields are facts of the schema that PyTorch writes with its archives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter.torch.program.archive import Archive
from minnow.converter.torch.program.formula import dimension_of
from minnow.converter.torch.program.program import Block, Input, Node, Program, Ref, Stored
from minnow.converter.torch.program.vetting import check_texts
from minnow.converter.torch.symbolic.dtype import CODES
from minnow.schema.errors import FormatError, ModelError, UnsupportedError
from minnow.schema.ir import TensorType
from minnow.schema.ir.type import Dim

# The archive counts element types in another order than programs do.
_SCALAR_TYPES = {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 6, 8: 7, 9: 8, 10: 9, 11: 10, 12: 11, 13: 15, 28: 27, 29: 24,
                 30: 23, 31: 26, 32: 25, 34: 28, 35: 29}  # fmt: skip
_COMPLEX = (8, 9, 10)
_MAJOR = 8
_LARGEST = 1 << 40
"""No dimension is larger."""
_SPREAD, _MOST_SPREAD = 1 << 26, 64
"""A tensor may repeat its numbers: up to this many bytes, or this many times."""
_NUMBERS = {"as_sym_int": int, "as_sym_float": float, "as_sym_bool": bool}


def read_program(path: Path) -> Program:
    """Reads an archive.

    Raises:
        FormatError: it is damaged. UnsupportedError: of another version, or pickled.
    """
    archive = Archive(path)
    name = archive.program_name()
    try:
        return _Reader(archive, name, archive.json(f"models/{name}.json")).program()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError) as e:
        raise FormatError("the archive's description of the program is invalid", where=str(path),
                          why=f"{type(e).__name__}: {e}") from e  # fmt: skip


class _Reader:
    def __init__(self, archive: Archive, name: str, document: dict[str, Any]) -> None:
        self.archive = archive
        self.document = document
        version = document["schema_version"]["major"]
        if version != _MAJOR:
            raise UnsupportedError(
                f"version {version} of the archive is not supported, only {_MAJOR}", where=str(archive.path)
            )
        check_texts(document, str(archive.path))
        self.module = document["graph_module"]
        self.payloads = {
            kind: archive.json(f"data/{kind}/{name}_{kind}_config.json")["config"]
            if f"data/{kind}/{name}_{kind}_config.json" in archive
            else {}
            for kind in ("weights", "constants")
        }

    def program(self) -> Program:
        graph = self.module["graph"]
        signature = self.module["signature"]
        inputs: list[Input] = []
        bound: dict[str, Any] = {}
        names: dict[str, str] = {}
        for spec in signature["input_specs"]:
            ((kind, given),) = spec.items()
            if kind == "user_input":
                made = self._input(given["arg"], graph)
                if made is not None:
                    inputs.append(made)
            elif kind == "constant_input":
                ((_, bound[given["name"]]),) = given["value"].items()
            elif kind in ("parameter", "buffer", "tensor_constant"):
                target = given[f"{kind}_name"]
                name = given["arg"]["name"]
                bound[name] = self._stored(target)
                names[target] = name
            else:
                raise UnsupportedError(f"an input of the kind '{kind}' is not supported", where=str(self.archive.path))
        results: list[Any] = []
        mutated: dict[str, str] = {}
        for spec in signature["output_specs"]:
            ((kind, given),) = spec.items()
            if kind == "user_output":
                results.append(_argument(given["arg"]))
            elif kind in ("buffer_mutation", "parameter_mutation"):
                mutated[names[given[f"{kind.partition('_')[0]}_name"]]] = _text(given["arg"]["name"])
            elif kind == "user_input_mutation":
                continue  # the caller's own tensor changes, which is no result of the model
            else:
                raise UnsupportedError(f"an output of the kind '{kind}' is not supported", where=str(self.archive.path))
        block = self._block(graph, [i.param for i in inputs] + list(bound), results)
        ranges = {
            name: (max(int(r["min_val"] or 0), 0), None if r["max_val"] is None else int(r["max_val"]))
            for name, r in self.document.get("range_constraints", {}).items()
        }
        return Program(block, inputs, bound, "torch_export", _output_names(self.module), mutated, ranges,
                       str(self.document.get("torch_version", "")))  # fmt: skip

    def _input(self, arg: Mapping[str, Any], graph: Mapping[str, Any]) -> Input | None:
        ((kind, given),) = arg.items()
        if kind == "as_tensor":
            name = given["name"]
            return Input(name, name, (), self._type(graph["tensor_values"][name]))
        if kind in _NUMBERS:
            return Input(given["as_name"], given["as_name"], number=_NUMBERS[kind])
        if kind == "as_none":
            return None
        raise UnsupportedError(f"an argument of the kind '{kind}' is not supported", where=str(self.archive.path))

    def _type(self, meta: Mapping[str, Any]) -> TensorType:
        code = _SCALAR_TYPES.get(meta["dtype"], -1)
        if code not in CODES:
            raise UnsupportedError(f"the element type {meta['dtype']} is not supported", where=str(self.archive.path))
        return TensorType(CODES[code], tuple(_dim(d) for d in meta["sizes"]))

    def _stored(self, target: str) -> Stored:
        for kind, payloads in self.payloads.items():
            if target in payloads:
                return self._payload(target, kind, payloads[target])
        raise ModelError(f"the archive has no data for '{target}'", where=str(self.archive.path))

    def _payload(self, target: str, kind: str, payload: Mapping[str, Any]) -> Stored:
        if payload.get("use_pickle"):
            raise UnsupportedError(f"'{target}' is stored as a pickle", where=str(self.archive.path),
                                   why="pickles can run code", hint="save the program with plain tensors")  # fmt: skip
        meta = payload["tensor_meta"]
        type = self._type(meta)
        shape = type.static_shape
        strides = tuple(int(s["as_int"]) for s in meta["strides"])
        offset = int(meta["storage_offset"]["as_int"])
        file = f"data/{kind}/{payload['path_name']}"
        if offset < 0 or min((*strides, 0)) < 0:
            raise ModelError(f"'{target}' has a negative offset or stride", where=str(self.archive.path))
        item, held = type.dtype.numpy.itemsize, self.archive.size(file)
        reach = item * (offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1)
        if 0 not in shape and held < reach:
            raise FormatError(f"'{file}' has {held} bytes, but {reach} are needed", where=str(self.archive.path))
        if (type.count or 0) * item > max(_SPREAD, _MOST_SPREAD * held):
            raise FormatError(f"'{target}' has the shape {shape}, but {held} bytes of data",
                              where=str(self.archive.path))  # fmt: skip

        def load() -> np.ndarray[Any, Any]:
            if 0 in shape:
                return np.zeros(shape, type.dtype.numpy)
            data = np.frombuffer(self.archive.read(file, 1 << 40), np.uint8)
            flat = data[: len(data) // item * item].view(type.dtype.numpy)
            # Along an axis of one, any step leads nowhere.
            steps = [s * item if n > 1 else 0 for s, n in zip(strides, shape, strict=True)]
            return np.lib.stride_tricks.as_strided(flat[offset:], shape, steps)

        return Stored(type, load, f"{file}:{offset}:{shape}:{strides}", name=target)

    def _block(self, graph: Mapping[str, Any], params: Sequence[str], results: Sequence[Any]) -> Block:
        return Block(params, [self._node(n, graph) for n in graph["nodes"]], results)

    def _node(self, node: Mapping[str, Any], graph: Mapping[str, Any]) -> Node:
        target = operator_of(node["target"])
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        blocks: list[Block] = []
        for given in node["inputs"]:
            ((kind, held),) = given["arg"].items()
            if kind == "as_graph":
                inner = held["graph"]
                params = [_names(p) for p in inner["inputs"]]
                blocks.append(self._block(inner, params, [_argument(r) for r in inner["outputs"]]))
                value: Any = None
            else:
                value = _argument(given["arg"])
            if kind == "as_graph":
                continue
            if given["name"] and given.get("kind") != 1:
                kwargs[given["name"]] = value
            else:
                args.append(value)
        outputs = [_names(o) for o in node["outputs"]]
        declared: dict[str, TensorType] = {}
        for name in _flat(outputs):
            meta = graph["tensor_values"].get(name)
            if meta is not None and _SCALAR_TYPES.get(meta["dtype"]) not in _COMPLEX:
                declared[name] = self._type(meta)
        metadata = node.get("metadata") or {}
        return Node(target, args, kwargs, outputs, f"torch:{_scope(metadata)}{node.get('name') or _first(outputs)}",
                    blocks, declared)  # fmt: skip


def operator_of(target: str) -> str:
    """ "torch.ops.aten.add.Tensor" -> "aten::add.Tensor", without the overload "default"."""
    if target.startswith("torch.ops."):
        space, _, rest = target[len("torch.ops.") :].partition(".")
        return f"{space}::{rest.removesuffix('.default')}"
    return f"python::{target.rpartition('.')[2]}"


def _scope(metadata: Mapping[str, str]) -> str:
    """The path of the module that a node belongs to, ending in "/" where there is one."""
    stack = metadata.get("nn_module_stack", "")
    path = stack.rpartition(";")[2].split(",")
    return f"{path[1]}/" if len(path) > 2 and path[1] and not path[1].startswith("_empty") else ""


def _argument(arg: Mapping[str, Any]) -> Any:
    """What a node is handed: a constant, a reference, or a list."""
    ((kind, held),) = arg.items()
    return _KINDS[kind](held) if kind in _KINDS else _refuse(kind)


def _refuse(kind: str) -> Any:
    raise UnsupportedError(f"an argument of the kind '{kind}' is not supported")


def _text(x: Any) -> str:
    if not isinstance(x, str):
        raise TypeError(f"{str(x)[:100]} in place of a text")
    return x


def _either(held: Mapping[str, Any]) -> Any:
    ((kind, given),) = held.items()
    return Ref(_text(given)) if kind == "as_name" else _number(given)


def _number(held: Any) -> Any:
    if isinstance(held, str):
        return float(held)  # JSON has no word for what is no finite number
    if not isinstance(held, (int, float)):
        raise TypeError(f"{str(held)[:100]} in place of a number")
    return held


def _maybe(held: Mapping[str, Any]) -> Any:
    ((kind, given),) = held.items()
    return _tensor(given) if kind == "as_tensor" else None


def _float(held: Any) -> float:
    """JSON has no word for what is no finite number."""
    return float(held)


def _each(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda held: [function(v) for v in held]


def _tensor(held: Mapping[str, Any]) -> Ref:
    return Ref(_text(held["name"]))


_KINDS: dict[str, Callable[[Any], Any]] = {
    "as_none": lambda _: None,
    "as_tensor": _tensor,
    "as_tensors": _each(_tensor),
    "as_nested_tensors": _each(_each(_tensor)),
    "as_int": int,
    "as_ints": _each(int),
    "as_int_lists": _each(_each(int)),
    "as_float": _float,
    "as_floats": _each(_float),
    "as_float_lists": _each(_each(_float)),
    "as_string": _text,
    "as_strings": _each(_text),
    "as_bool": bool,
    "as_bools": _each(bool),
    "as_sym_int": _either,
    "as_sym_ints": _each(_either),
    "as_sym_float": _either,
    "as_sym_floats": _each(_either),
    "as_sym_bool": _either,
    "as_sym_bools": _each(_either),
    "as_scalar_type": lambda held: _SCALAR_TYPES.get(held, -1),
    "as_memory_format": lambda _: None,
    "as_layout": lambda _: None,
    "as_device": lambda _: None,
    "as_optional_tensor": _maybe,
    "as_optional_tensors": _each(_maybe),
    "as_complex": lambda held: complex(held["real"], held["imag"]),
}


def _names(output: Mapping[str, Any]) -> Any:
    """The name of a result, or a list of names."""
    ((kind, held),) = output.items()
    if kind == "as_none":
        return ""
    if kind in _NUMBERS:
        return _text(held["as_name"])
    if kind in ("as_tensors", "as_sym_ints", "as_optional_tensors"):
        return [_names(v if kind == "as_optional_tensors" else {"as_tensor": v}) for v in held]
    if kind == "as_optional_tensor":
        return _names(held)
    if kind == "as_tensor":
        return _text(held["name"])
    return _refuse(kind)


def _flat(names: Sequence[Any]) -> list[str]:
    return [n for name in names for n in ([name] if isinstance(name, str) else _flat(name))]


def _first(outputs: Sequence[Any]) -> str:
    return next(iter(_flat(outputs)), "")


def _dim(d: Mapping[str, Any]) -> Dim:
    """A dimension: a number, a symbol, or a formula of symbols."""
    if "as_int" in d:
        dimension = int(d["as_int"])
        if not 0 <= dimension <= _LARGEST:
            raise ValueError(f"a dimension of {dimension}")
        return dimension
    return dimension_of(str(d["as_expr"]["expr_str"]))


def _output_names(module: Mapping[str, Any]) -> list[str | None] | None:
    """Names that the source has for its results: the keys of dicts in what it returns, as a path."""
    calls = module.get("module_call_graph") or []
    signature = next((c["signature"] for c in calls if c["fqn"] == "" and c.get("signature")), None)
    if signature is None:
        return None
    try:
        spec = json.loads(signature["out_spec"])[1]
        return list(_leaves(spec, ""))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None


def _leaves(spec: Mapping[str, Any], path: str) -> Any:
    children = spec["children_spec"]
    if spec["type"] is None:
        yield path or None
        return
    context = spec.get("context")
    keys: Sequence[Any] = json.loads(context) if isinstance(context, str) and context.startswith("[") else ()
    for i, child in enumerate(children):
        key = str(keys[i]) if i < len(keys) else str(i)
        yield from _leaves(child, f"{path}.{key}" if path else (key if keys else f"output_{i}"))
