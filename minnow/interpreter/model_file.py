"""A `.mnn` file as programs for MNN see it: its tensors by name, their data formats, and parts of it that can run."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from minnow.runtime.session import Model, TensorInfo
from minnow.schema.errors import FormatError, MinnowError, UnsupportedError, UsageError

NHWC, NC4HW4, NCHW = "NHWC", "NC4HW4", "NCHW"
IMAGE = 4
"""Axes of a batch of images."""
_CHANNELS_LAST = ("TENSORFLOW", "TFLITE")


@dataclass(frozen=True)
class Slot:
    """An input or output of a model.

    Attributes:
        name, dtype: as in `TensorInfo`.
        shape: sizes of the axes, -1 for those that are not known; None if their number is not known.
        format: NHWC, NCHW or NC4HW4: what the axes of an image are. Those of NC4HW4 are as those of NCHW.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    format: str

    @property
    def last(self) -> bool:
        """Channels are the last axis."""
        return self.format == NHWC

    @property
    def channels(self) -> int:
        """Number of channels of an image, -1 if it is not known."""
        if self.shape is None or len(self.shape) < 3:
            return -1
        return self.shape[-1 if self.last else 1]

    def __str__(self) -> str:
        shape = "any shape" if self.shape is None else str(["?" if d < 0 else d for d in self.shape]).replace("'", "")
        form = f" ({self.format})" if self.shape is not None and len(self.shape) >= 3 else ""
        return f"{self.dtype} {shape}{form}"


class ModelFile:
    """A loaded and checked file.

    Args:
        model: its path, or its bytes.
        external: the companion weights file; by default the model's path with ".weight" appended, if there is one.
        packed: where `write_packed` writes packed weights, and where they are looked for; by default the model's path
            with ".packed" appended.

    Raises:
        FormatError: it cannot be read, or is damaged.
        UnsupportedError: the engine cannot run some of its ops.
    """

    def __init__(self, model: Any, external: str = "", packed: str = "") -> None:
        if isinstance(model, (bytearray, memoryview)):
            model = bytes(model)
        if not isinstance(model, (str, os.PathLike, bytes)):
            raise UsageError(f"a model is a path or bytes, not {type(model).__name__}")
        self.path = "" if isinstance(model, bytes) else os.fspath(model)
        if isinstance(self.path, bytes) or "\0" in self.path:
            raise UsageError(f"{self.path!r} is not a path")
        self._bytes = model if isinstance(model, bytes) else b""
        self.external = external
        self.packed = packed
        if external and not os.path.isfile(external):
            raise FormatError("the companion weights file cannot be read", where=external)
        self._variants: dict[Any, Model] = {}
        self.model = self._load()
        engine = self.model._engine.session(1, 0)
        self._infos = {i.name: i for i in (TensorInfo(*r) for r in (*engine.inputs, *engine.outputs))}
        self.input_names = [r[0] for r in engine.inputs]
        self.output_names = [r[0] for r in engine.outputs]

    def _load(self) -> Model:
        if self.external:
            return Model(self._written())
        return Model(self._bytes or self.path, packed=self.packed or None)

    def _written(self) -> bytes:
        """The file with the weights of the other one in it."""
        from minnow.schema.mnn import decode, encode

        return encode(decode(self._data, Path(self.external)))

    # ---- what the file says

    @cached_property
    def _data(self) -> Any:
        return self._bytes or np.memmap(self.path, np.uint8, mode="r")

    @cached_property
    def net(self) -> dict[str, Any]:
        """The tables of the file."""
        from minnow.schema.mnn import wire

        return wire.read(self._data)

    @cached_property
    def metadata(self) -> dict[str, str]:
        from minnow.schema.mnn.decoder import metadata_of

        return metadata_of(self.net)

    @property
    def is_ours(self) -> bool:
        return "minnow.inputs" in self.metadata

    @cached_property
    def _graph(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The ops of the main graph, and the names of its tensors."""
        own = self.net.get("extraInfo", {}).get("minnow")
        if own is not None:
            return own.get("nodes", []), list(own.get("tensors", []))
        return self.net.get("oplists", []), list(self.net.get("tensorName", []))

    @cached_property
    def ops(self) -> dict[str, tuple[str, list[str]]]:
        """Type of each op, and the names of the tensors that it gives, by its name."""
        nodes, names = self._graph
        return {
            str(op.get("name", "")): (
                str(op.get("type", "AbsVal")),
                [names[i] for i in op.get("outputIndexes", ()) if 0 <= i < len(names)],
            )
            for op in nodes
        }

    @cached_property
    def makers(self) -> dict[str, tuple[str, str]]:
        """Name and type of the op that gives a tensor, by the name of the tensor."""
        return {tensor: (name, kind) for name, (kind, tensors) in self.ops.items() for tensor in tensors}

    @property
    def version(self) -> str:
        """Of the converter, "" if the file does not say."""
        return str(self.net.get("extraInfo", {}).get("version", ""))

    @property
    def biz_code(self) -> str:
        return str(self.net.get("bizCode", ""))

    @property
    def uuid(self) -> str:
        return str(self.net.get("mnn_uuid", ""))

    @cached_property
    def _formats(self) -> dict[str, str]:
        """What the file says of its inputs."""
        names = list(self.net.get("tensorName", []))
        found = {}
        for op in self.net.get("oplists", []):
            if op.get("type") == "Input":
                for i in op.get("outputIndexes", ()):
                    found[names[i]] = (op.get("main") or {}).get("dformat", NC4HW4)
        return found

    def slot(self, info: TensorInfo) -> Slot:
        """An input or output of the file with its data format."""
        shape = None if info.shape is None else tuple(d if isinstance(d, int) else -1 for d in info.shape)
        is_image = shape is not None and len(shape) >= IMAGE
        last = str(self.net.get("sourceType", "CAFFE")) in _CHANNELS_LAST and is_image
        if self.is_ours:
            blocked = self._formats.get(info.name) == NC4HW4 and is_image
            form = NHWC if last else NC4HW4 if blocked else NCHW
        elif info.name in self._formats:
            form = self._formats[info.name]
        else:
            form = NHWC if last else NCHW
        return Slot(info.name, info.dtype, shape, form)

    @property
    def inputs(self) -> list[Slot]:
        return [self.slot(self._infos[name]) for name in self.input_names]

    # ---- parts

    def tensor(self, name: Any, what: str) -> str:
        """The name of a tensor: the name itself, or that of an op, which stands for its first result.

        Raises:
            UsageError: there is neither a tensor nor an op of this name.
        """
        if not isinstance(name, str):
            raise UsageError(f"{what}: a name is a text, not {type(name).__name__}")
        if name in self._infos or name in self._graph[1]:
            return name
        if self.ops.get(name, ("", []))[1]:
            return self.ops[name][1][0]
        known = [*self._infos, *self._graph[1]]
        near = difflib.get_close_matches(name, known, 5)
        shown = near or [*self.input_names, *self.output_names]
        raise UsageError(
            f"{what}: the model has no tensor '{name}'",
            where=self.path,
            hint=f"{'similar names are' if near else 'its inputs and outputs are'} {', '.join(shown)}",
        )

    def names(self, names: Any, what: str, all: Sequence[str]) -> list[str]:
        """Names of tensors that the user gives, `all` if there are none."""
        if isinstance(names, str) or not isinstance(names, (list, tuple)):
            raise UsageError(f"{what}: a list of names, not {type(names).__name__}", hint=f"[{names!r}]")
        return list(dict.fromkeys(self.tensor(name, what) for name in names)) or list(all)

    def part(self, inputs: Sequence[str], outputs: Sequence[str]) -> Model:
        """The part of the model from some tensors to others, as a model.

        Raises:
            UsageError: the outputs need more inputs than these.
            UnsupportedError: the file has a form that cannot be written again.
        """
        key = ("part", tuple(inputs), tuple(outputs))
        if key not in self._variants:
            from minnow.schema.mnn import decode, encode, side_path

            side = Path(self.external) if self.external else side_path(Path(self.path)) if self.path else None
            whole = decode(self._data, side)
            self._variants[key] = Model(encode(_cut(whole, inputs, outputs, self.path)))
        return self._variants[key]

    def dynamic(self) -> Model:
        """The model with inputs of any sizes, whatever the file says of them.

        Raises:
            UnsupportedError: its weights lie in a file of their own.
        """
        if "dynamic" not in self._variants:
            self._variants["dynamic"] = Model(_dynamic(self.net, self.metadata))
        return self._variants["dynamic"]


def _cut(whole: Any, inputs: Sequence[str], outputs: Sequence[str], where: str) -> Any:
    """Changes a model of the IR to its part from the tensors `inputs` to `outputs`."""
    from minnow.schema.ir import Value

    graph = whole.graph
    table = {v.name: v for v in graph.params}
    for node in graph:
        for value in node.outputs:
            table.setdefault(value.name, value)
    table.update({name: value for (name, _), value in zip(whole.outputs, graph.outputs, strict=True)})
    if lost := [name for name in (*inputs, *outputs) if name not in table]:
        raise UsageError(f"'{lost[0]}' is a constant, or within a loop or a branch", where=where)
    if both := [name for name in outputs if name in inputs]:
        raise UsageError(f"'{both[0]}' is both an input and an output", where=where)
    ends = [table[name] for name in outputs]
    params = []
    for name in inputs:
        value = table[name]
        param = value if value.producer is None else Value(value.type, name)
        value.replace_all_uses(param)
        params.append(param)
    graph.outputs = ends
    for node in reversed(graph):
        if not any(value.uses for value in node.outputs):
            graph.erase(node)
    if needed := [v.name for v in graph.params if v.uses and v not in params]:
        raise UsageError(
            f"the outputs {', '.join(outputs)} need the input '{needed[0]}', too",
            where=where, hint="name it among the inputs",
        )  # fmt: skip
    graph.params = params
    whole.inputs = [(p.name, p.type) for p in params]
    whole.outputs = list(zip(outputs, (v.type for v in ends), strict=True))
    whole.states = []
    whole.portable = None
    return whole


def _dynamic(net: dict[str, Any], metadata: dict[str, str]) -> bytes:
    from minnow.schema.mnn import wire

    if net.get("extraInfo", {}).get("minnow") is not None or _has_external(net):
        raise UnsupportedError(
            "other shapes than those of the file need its weights in it",
            why="it has a companion weights file, or a second graph for other runtimes",
            hint="convert the source model with dynamic dimensions",
        )
    changed = dict(net)
    changed["oplists"] = [_any_size(op) if op.get("type") == "Input" else op for op in net.get("oplists", [])]
    if "minnow.inputs" in metadata:
        pairs = dict(metadata)
        for key in ("minnow.inputs", "minnow.outputs"):
            rows = json.loads(pairs.get(key, "[]"))
            for row in rows:
                row["shape"] = row["shape"] and ["?" if isinstance(d, int) else d for d in row["shape"]]
            pairs[key] = json.dumps(rows, separators=(",", ":"))
        listed = [{"key": k, "s": v} for k, v in sorted(pairs.items())]
        extra = wire.write_nested("Extra", {"type": "Meta", "engine": "MNN", "attr": listed})
        changed["extraInfo"] = {**net["extraInfo"], "buffer": np.frombuffer(extra, np.int8)}
    return wire.write(changed)


def _any_size(op: dict[str, Any]) -> dict[str, Any]:
    main = op.get("main") or {}
    if main.get("dims") is None:
        return op
    return {**op, "main": {**main, "dims": np.full(len(main["dims"]), -1, np.int32)}}


def _has_external(table: Any) -> bool:
    if isinstance(table, dict):
        rows = table.get("external")
        return (rows is not None and len(rows) > 0) or any(_has_external(v) for v in table.values())
    return isinstance(table, list) and any(_has_external(v) for v in table)


def refused(error: MinnowError) -> bool:
    """The error is that a value between nodes cannot be had from the graph as the engine has it."""
    return isinstance(error, UsageError) and "has no value" in error.message
