"""TorchScript files -> Program, from what the process `child` writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from minnow.converter.inputs.given import Given, Inputs
from minnow.converter.torch.program.program import Block, Input, Node, Object, Program, Ref, Stored
from minnow.schema.errors import FormatError, UnsupportedError, UsageError
from minnow.schema.extra import install
from minnow.schema.ir import DType, TensorType
from minnow.schema.ir.type import Dim
from minnow.schema.notice import Notice

MISSING, REFUSED, NOT_TRUSTED, UNREADABLE, FAILED = 3, 4, 5, 6, 1
"""What the child process ends with; the reason is on its stderr."""
_SECONDS = 900
_OUT_OF_TIME = 24
"""The signal SIGXCPU, which not all systems have."""
_BOUND = ("save the module before `optimize_for_inference` or `optimize_for_mobile`,"
          " which bind it to one kind of processor")  # fmt: skip
_NAMES = {"uint8": DType.U8, "int8": DType.I8, "int16": DType.I16, "int32": DType.I32, "int64": DType.I64,
          "float16": DType.F16, "float32": DType.F32, "float64": DType.F64, "bool": DType.BOOL,
          "bfloat16": DType.BF16, "uint16": DType.U16, "uint32": DType.U32, "uint64": DType.U64}  # fmt: skip
_INDICES = {"aten::embedding": 1, "aten::_cast_Long": 0, "aten::one_hot": 0, "aten::embedding_bag": 1,
            "aten::index_select": 2, "aten::gather": 2}  # fmt: skip
"""Operators that take whole numbers, and at which place."""
_NUMBERS = {"int": int, "float": float, "bool": bool}


@dataclass(frozen=True)
class Script:
    """What a TorchScript file holds.

    Attributes:
        path: the file, for messages.
        document, data: the parts of its program, and the numbers of its tensors.
    """

    path: Path
    document: dict[str, Any]
    data: np.ndarray[Any, Any]

    def program(self, inputs: Any = None) -> Program:
        """The program; inputs: what `Inputs` takes: their shapes and element types, as far as they are known."""
        return program_of(self.path, self.document, self.data, inputs)


def open_script(path: Path, trust: bool = False) -> Script:
    """Opens a TorchScript file. Its program is not run.

    Args:
        trust: methods of the file that restore objects (`__setstate__`) may run while it is loaded.

    Raises:
        FormatError: PyTorch cannot load it. UnsupportedError: it names operators that are not converted, or would run
            code of its own. UsageError: PyTorch is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="minnow-") as folder:
        # Mapped: the pages stay when the folder goes.
        data = np.memmap(_load(path, Path(folder), trust), np.uint8, "r")
    end = len(data) - 8
    begin = end - int.from_bytes(data[end:].tobytes(), "little")
    return Script(path, json.loads(data[begin:end].tobytes()), data[:begin])


def program_of(path: Path, document: dict[str, Any], data: np.ndarray[Any, Any], inputs: Any = None) -> Program:
    """The program in what the child process has written down.

    Args:
        path: the file, for messages.
        document, data: its parts and the numbers of its tensors.
        inputs: shapes of the inputs, as far as they are known.
    """
    return _Reader(path, document, data, inputs).program()


def _load(path: Path, folder: Path, trust: bool) -> Path:
    """The file in which the child process says what is in another."""
    # Of the folder that the user is in, nothing is imported.
    command = [sys.executable, "-m", "minnow.converter.torch.program.child", str(path.resolve()), *["trust"] * trust]
    environment = {**os.environ, "PYTORCH_JIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    written = folder / "program"
    try:
        with written.open("wb") as file:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, check=False,
                                  timeout=_SECONDS, env=environment, cwd=folder)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FormatError("PyTorch took too long to load the file", where=str(path)) from None
    if done.returncode:
        _refuse(done.returncode, done.stderr.decode(errors="replace").strip(), str(path))
    return written


def _refuse(code: int, said: str, where: str) -> NoReturn:
    """Raises the error for what the child process ended with."""
    if code == MISSING:
        raise UsageError("TorchScript files are read by PyTorch, which is not installed", where=where, why=said,
                         hint=f"{install('torch')}, or save the model with `torch.export.save`")  # fmt: skip
    if code == REFUSED:
        raise UnsupportedError("the program names operators that are not allowed", where=where,
                               items=said.splitlines(),
                               why="operators can write files, so a program is loaded only if all that it names"
                               " are known to be harmless",
                               hint=_BOUND if re.search("mkldnn|onednn|prepacked", said, re.IGNORECASE) else
                               "leave them out of it; `mnnconvert ops -f torch` lists what is supported")  # fmt: skip
    if code == NOT_TRUSTED:
        raise UnsupportedError("loading the file would run code that is in it", where=where,
                               why=f"the class {said} restores its objects by a method `__setstate__`",
                               hint="if you trust who made the file: `--trust`, in Python `trust=True`")  # fmt: skip
    if code == UNREADABLE:
        raise FormatError("the code in the file is not as PyTorch writes it", where=where, why=said[:500],
                          hint="save the module again with `torch.jit.save`")  # fmt: skip
    if code in (-_OUT_OF_TIME, 128 + _OUT_OF_TIME):
        raise FormatError("PyTorch took too long to load the file", where=where,
                          why="its process has used up the processor time that a file of this size gets")  # fmt: skip
    lines = [line for line in said.splitlines() if line.strip()]
    raise FormatError("PyTorch cannot load the file", where=where,
                      why=lines[-1][:500] if lines else f"its process ended with exit code {code}",
                      hint=_BOUND)  # fmt: skip


class _Reader:
    def __init__(self, path: Path, document: dict[str, Any], data: np.ndarray[Any, Any], inputs: Any = None) -> None:
        self.path = path
        self.document = document
        self.data = data
        self.inputs = Inputs.of(inputs).named(
            [name for a in document["arguments"] for name in _tensors(a["name"], a["type"])]
        )
        self.notices: list[str] = []
        self.enums: dict[str, Object] = {}
        self.objects = [Object(o["kind"], {}) for o in document["objects"]]
        for made, given in zip(self.objects, document["objects"], strict=True):
            made.methods.update((name, self.block(b)) for name, b in given.get("methods", {}).items())
            made.attrs.update((name, self.value(v)) for name, v in given["attrs"].items())
        self.name_tensors(self.value(document["root"]), "")

    def name_tensors(self, x: Any, path: str) -> None:
        """Calls tensors by the first attribute that holds them."""
        if isinstance(x, Stored) and not x.name:
            x.name = path
        elif isinstance(x, (Object, dict, list, tuple)) and not (isinstance(x, Object) and x.path):
            if isinstance(x, Object):
                x.path = path
            inside = x.attrs if isinstance(x, Object) else x if isinstance(x, dict) else dict(enumerate(x))
            for key, part in inside.items():
                self.name_tensors(part, f"{path}.{key}" if path else str(key))

    def program(self) -> Program:
        block = self.block(self.document["block"])
        root, *params = block.params
        found: list[Input] = []
        bound: dict[str, Any] = {root: self.value(self.document["root"])}
        for param, argument in zip(params, self.document["arguments"], strict=True):
            default = self.value(argument["default"])
            leaves = list(self.leaves(argument["name"], argument["type"], param, (), default))
            found += leaves
            if not leaves:
                if argument["type"] == "string" and not argument["given"]:
                    raise UsageError(f"the argument '{argument['name']}' is text, which a model's input cannot be",
                                     where=str(self.path), hint="give it a default, or wrap the module")  # fmt: skip
                bound[param] = default
        return Program(block, found, bound, "torchscript", version=self.document["torch"], notices=self.notices)

    def leaves(self, name: str, type: Any, param: str, path: tuple[int | str, ...], default: Any) -> Iterator[Input]:
        """The tensors and numbers in an argument."""
        if type == "tensor":
            shape, dtype = self.said(name, self.index_type(param) if not path else DType.F32)
            given = self.inputs.get(name)
            assumed = dtype is DType.F32 and (given is None or given.dtype is None)
            yield Input(name, param, path, TensorType(dtype, None if shape is None else tuple(shape)), assumed=assumed)
        elif isinstance(type, str) and type in _NUMBERS:
            yield Input(name, param, path, number=_NUMBERS[type], default=default)
        elif isinstance(type, dict) and "optional" in type:
            if self.given(name):
                yield from self.leaves(name, type["optional"], param, path, default)
        elif isinstance(type, dict) and "tuple" in type:
            for i, part in enumerate(type["tuple"]):
                yield from self.leaves(f"{name}.{i}", part, param, (*path, i), None)
        elif isinstance(type, dict) and "list" in type:
            keys = sorted({int(k) for k in self.keys(name) if k.isdigit()})
            if keys != list(range(len(keys))):
                raise UsageError(f"the argument '{name}' is a list of which elements are missing", where=str(self.path),
                                 why=f"given are {', '.join(f'{name}.{i}' for i in keys)}")  # fmt: skip
            for i in keys:
                yield from self.leaves(f"{name}.{i}", type["list"], param, (*path, i), None)
            if not keys:
                raise UsageError(f"the argument '{name}' is a list of unknown length", where=str(self.path),
                                 hint=f"say what is in it with `--input {name}.0=1x3x...` and so on")  # fmt: skip
        elif isinstance(type, dict) and "dict" in type:
            keys_ = sorted(set(self.keys(name)))
            for key in keys_:
                yield from self.leaves(f"{name}.{key}", type["dict"], param, (*path, key), None)
            if not keys_:
                raise UsageError(f"the argument '{name}' is a dict with unknown keys", where=str(self.path),
                                 hint=f"say what is in it with `--input {name}.KEY=1x3x...` and so on")  # fmt: skip
        elif type not in ("none", "string", "device", "generator"):
            raise UnsupportedError(
                f"the argument '{name}' has the type {type}, which is not supported", where=str(self.path)
            )

    def said(self, name: str, dtype: DType) -> tuple[tuple[Dim, ...] | None, DType]:
        """Shape and element type of a tensor, as far as the caller gives them; `dtype` follows from its use."""
        given = self.inputs.get(name) or Given()
        if given.array is not None and given.dtype is DType.F64 and dtype is DType.F32:
            # numpy's default; modules compute in float32 unless the caller says otherwise.
            text = f"the input '{name}' is taken as float32: `--input {name}=float64[...]` says otherwise"
            self.notices.append(Notice(text, "type-assumed"))
            return given.shape, dtype
        return given.shape, given.dtype or dtype

    def index_type(self, param: str) -> DType:
        """The element type of an argument by its use: TorchScript says none."""
        for node in self.document["block"]["nodes"]:
            place = _INDICES.get(node["target"].partition(".")[0])
            if place is not None and len(node["inputs"]) > place and node["inputs"][place] == param:
                return DType.I64
        return DType.F32

    def keys(self, name: str) -> list[str]:
        """The next parts of names that the caller gives shapes for, inside of an argument."""
        return [k[len(name) + 1 :].partition(".")[0] for k in self.inputs if k.startswith(f"{name}.")]

    def given(self, name: str) -> bool:
        return name in self.inputs or bool(self.keys(name))

    def value(self, x: Any) -> Any:
        """A constant as the child process writes it."""
        if isinstance(x, list):
            return [self.value(v) for v in x]
        if not isinstance(x, dict):
            return x
        if "float" in x:
            return float(x["float"])
        if "tuple" in x:
            return tuple(self.value(v) for v in x["tuple"])
        if "dict" in x:
            return {self.value(k): self.value(v) for k, v in x["dict"]}
        if "complex" in x:
            return complex(*x["complex"])
        if "enum" in x:
            if x["enum"] not in self.enums:
                self.enums[x["enum"]] = Object(x["enum"], {"name": x["name"], "value": self.value(x["value"])}, None)
            return self.enums[x["enum"]]
        if "ref" in x:
            return self.objects[x["ref"]]
        if "tensor" in x:
            return self.stored(x)
        return Unusable(x["refused"])

    def stored(self, x: Mapping[str, Any]) -> Any:
        name = x["tensor"]
        if name not in _NAMES:
            return Unusable(f"the element type {name} is not supported")
        type = TensorType(_NAMES[name], tuple(x["shape"]))
        size = int(np.prod(x["shape"], dtype=np.int64)) * type.dtype.size
        offset = x["offset"]
        data = self.data

        def load() -> np.ndarray[Any, Any]:
            return data[offset : offset + size].view(type.dtype.numpy).reshape(type.static_shape)

        return Stored(type, load, x["key"], x.get("scale"), x.get("zero"), x.get("axis"), x.get("quantized", ""))

    def block(self, block: Mapping[str, Any]) -> Block:
        return Block(block["params"], [self.node(n) for n in block["nodes"]], [Ref(r) for r in block["results"]])

    def node(self, n: Mapping[str, Any]) -> Node:
        args: list[Any] = [Ref(i) for i in n["inputs"]]
        target = n["target"]
        if target == "prim::Constant":
            args = [self.value(n["value"])]
        elif "name" in n:
            args.append(n["name"])
        elif "kind" in n:
            args = [n["kind"]]
        args += n.get("range", ())
        kwargs = {"types": n["types"]} if "types" in n else {}
        scope = n.get("scope", "").rpartition("/")[2]
        name = next(iter(n["outputs"]), target)
        return Node(target, args, kwargs, n["outputs"], f"torch:{scope}/{name}" if scope else f"torch:{name}",
                    [self.block(b) for b in n.get("blocks", ())])  # fmt: skip


def _tensors(name: str, type: Any) -> Iterator[str]:
    """The names of the tensors in an argument, without those in lists and dicts, which only the caller names."""
    if type == "tensor":
        yield name
    elif isinstance(type, dict) and "optional" in type:
        yield from _tensors(name, type["optional"])
    elif isinstance(type, dict) and "tuple" in type:
        for i, part in enumerate(type["tuple"]):
            yield from _tensors(f"{name}.{i}", part)


class Unusable:
    """A constant that nothing can be made of; an error only where it is used."""

    def __init__(self, what: str) -> None:
        self.what = what
