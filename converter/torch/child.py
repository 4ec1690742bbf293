"""Runs as a process of its own: loads a TorchScript file with PyTorch, and writes down what is in it.

`torch.jit.load` is PyTorch's own reader: it runs compiled code on what the file says, so a file that is made to do harm
meets it here, with limits on time and memory, and not in the process that converts. The program is run only to find
the shape of an input that nobody has given.

Usage: python -m minnow.converter.torch.child FILE FOLDER [find]. It writes `program.json` and `tensors.bin` into the
folder. With "find" it runs the module to see which shape its only input may have.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

_SECONDS = 600
_MEMORY = 24 << 30


def limit() -> None:
    """Bounds the time and memory of this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    for what, most in ((resource.RLIMIT_CPU, _SECONDS), (resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, hard))


class Dump:
    """Writes the parts of a program as plain JSON, tensors into a file beside it."""

    def __init__(self, folder: Path) -> None:
        self.file = (folder / "tensors.bin").open("wb")
        self.tensors: dict[Any, dict[str, Any]] = {}
        self.objects: dict[int, dict[str, Any]] = {}
        self.alive: list[Any] = []
        self.names: set[str] = set()
        self.methods: set[str] = set()

    def tensor(self, x: Any) -> dict[str, Any]:
        """Where the numbers of a tensor are, and what they mean."""
        import torch

        x = x.detach()
        if x.layout is not torch.strided:
            return {"refused": f"a tensor of the layout {x.layout}"}
        extra: dict[str, Any] = {}
        if x.is_quantized:
            extra["quantized"] = str(x.dtype).removeprefix("torch.")
            if x.qscheme() in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
                extra["scale"] = x.q_per_channel_scales().double().tolist()
                extra["zero"] = x.q_per_channel_zero_points().double().tolist()
                extra["axis"] = x.q_per_channel_axis()
            else:
                extra["scale"], extra["zero"] = [x.q_scale()], [x.q_zero_point()]
            self.alive.append(x)
            x = x.int_repr()
        key = (x.data_ptr(), x.dtype, tuple(x.shape), x.stride(), json.dumps(extra))
        if key not in self.tensors or x.numel() == 0:
            self.alive.append(x)  # so that no other tensor gets its address
            plain = x.contiguous()
            data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
            offset = self.file.tell()
            self.file.write(data)
            name = str(x.dtype).removeprefix("torch.")
            self.tensors[key] = {"tensor": name, "shape": list(x.shape), "offset": offset,
                                 "key": f"t{len(self.tensors)}", **extra}  # fmt: skip
        return self.tensors[key]

    def value(self, x: Any) -> Any:
        """A constant or attribute: lists as they are, everything else that JSON has no word for as a dict."""
        import torch

        if x is None or isinstance(x, (bool, int, str)):
            return x
        if isinstance(x, float):
            return {"float": repr(x)}
        if isinstance(x, complex):
            return {"complex": [x.real, x.imag]}
        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, list):
            return [self.value(v) for v in x]
        if isinstance(x, tuple):
            return {"tuple": [self.value(v) for v in x]}
        if isinstance(x, dict):
            return {"dict": [[self.value(k), self.value(v)] for k, v in x.items()]}
        if isinstance(x, Enum):
            return {"enum": f"{type(x).__qualname__}.{x.name}", "name": x.name, "value": self.value(x.value)}
        if isinstance(x, (torch.device, torch.dtype, torch.layout)):
            return str(x)
        if isinstance(x, torch.nn.Module) or hasattr(x, "_type"):
            return self.object(x)
        return {"refused": f"a constant of the type {type(x).__name__}"}

    def object(self, x: Any) -> Any:
        """A module or another object, with those attributes that the program reads."""
        import torch

        ident = id(getattr(x, "_c", x))
        script = getattr(x, "_c", x)
        kind = script._type().qualified_name()
        if ident not in self.objects:
            self.alive.append(x)
            self.objects[ident] = entry = {"object": len(self.objects), "kind": kind, "attrs": {}}
            packed = self.packed(script, kind)
            names = packed or {n: getattr(x, n) for n in sorted(self.names) if hasattr(x, n)}
            entry["attrs"] = {n: self.value(v) for n, v in names.items()}
            if self.methods and isinstance(x, torch.nn.Module):
                entry["methods"] = {m: self.block(inlined(script, m)) for m in methods_of(script, self.methods)}
        return {"ref": self.objects[ident]["object"]}

    def packed(self, script: Any, kind: str) -> dict[str, Any] | None:
        """What the packed weights of a quantized layer are."""
        import torch

        ops = torch.ops.quantized
        last = kind.rpartition(".")[2]
        if last == "LinearPackedParamsBase":
            try:
                weight, bias = ops.linear_unpack(script)
            except RuntimeError:
                weight, bias = ops.linear_unpack_fp16(script)
            return {"weight": weight, "bias": bias}
        if last == "CellParamsBase":
            form, _, _, numbers, packed = script._get_method("__getstate__")()
            return {"form": form, "reduce_range": bool(numbers and numbers[0]), "packed": list(packed)}
        if last in ("Conv2dPackedParamsBase", "Conv3dPackedParamsBase"):
            n = last[4]
            unpack, stem = getattr(ops, f"conv{n}d_unpack"), f"conv{n}d"
            weight, bias = unpack(script)
            found = {"weight": weight, "bias": bias}
            for name in ("stride", "padding", "dilation", "output_padding", "groups", "transpose"):
                found[name] = getattr(ops, f"{stem}_{name}")(script)
            return found
        if last == "EmbeddingPackedParamsBase":
            return {"weight": ops.embedding_bag_unpack(script)}
        return None

    def block(self, block: Any) -> dict[str, Any]:
        """A block, or a graph."""
        return {
            "params": [v.debugName() for v in block.inputs()],
            "nodes": [self.node(n) for n in block.nodes()],
            "results": [v.debugName() for v in block.outputs()],
        }

    def node(self, n: Any) -> dict[str, Any]:
        kind = n.kind()
        schema = n.schema()
        target = schema.partition("(")[0] if schema.startswith(kind) else kind
        entry: dict[str, Any] = {
            "target": target,
            "inputs": [v.debugName() for v in n.inputs()],
            "outputs": [v.debugName() for v in n.outputs()],
        }
        if scope := n.scopeName():
            entry["scope"] = scope
        if kind == "prim::Constant":
            out = next(iter(n.outputs()))
            try:
                entry["value"] = self.value(out.toIValue())
            except RuntimeError:
                entry["value"] = {"refused": f"a constant of the type {out.type().str()}"}
        elif n.hasAttribute("name"):
            entry["name"] = n.s("name")
        if kind == "prim::CreateObject":
            entry["kind"] = next(iter(n.outputs())).type().str()
        if kind == "prim::TupleSlice":
            entry["range"] = [n.i("beg"), n.i("end")]
        if kind == "prim::isinstance":
            entry["types"] = str(n).partition("types=[")[2].partition("]](")[0]
        blocks = [self.block(b) for b in n.blocks()]
        if blocks:
            entry["blocks"] = blocks
        return entry


def type_of(t: Any) -> Any:
    """The type of an argument: a name, or a dict for what has parts."""
    kind = t.kind()
    if kind == "TupleType":
        return {"tuple": [type_of(e) for e in t.elements()]}
    if kind in ("ListType", "OptionalType"):
        return {kind[:-4].lower(): type_of(t.getElementType())}
    if kind == "DictType":
        return {"dict": type_of(t.getValueType())}
    return kind.removesuffix("Type").lower() or t.str()


def inlined(script: Any, method: str) -> Any:
    """The graph of a method, with the calls in it written out whose objects are of known classes."""
    import torch

    graph = script._get_method(method).graph.copy()
    torch._C._jit_pass_inline(graph)
    return graph


def methods_of(script: Any, names: set[str]) -> list[str]:
    """Those of the methods that a module has."""
    return sorted(set(script._method_names()) & names)


def names_in(module: Any, graph: Any) -> tuple[set[str], set[str]]:
    """The attributes that a program reads or sets, and the methods that inlining has left: those of interfaces."""
    kinds = {"prim::GetAttr": set[str](), "prim::SetAttr": set[str](), "prim::CallMethod": set[str]()}

    def collect(block: Any) -> None:
        for n in block.nodes():
            if n.kind() in kinds:
                kinds[n.kind()].add(n.s("name"))
            for inner in n.blocks():
                collect(inner)

    collect(graph)
    methods = kinds["prim::CallMethod"]
    done: set[str] = set()
    while new := methods - done:
        done |= new
        for script in [m._c for m in module.modules()] if new else ():
            for name in methods_of(script, new):
                collect(inlined(script, name))
    return kinds["prim::GetAttr"] | kinds["prim::SetAttr"], methods


class FilesError(Exception):
    """A program that writes or opens files."""


_FILES = re.compile(rb"\b(?:save|from_file)(?:[\s\\]|#[^\n]*\n)*\(")
"""Calls of the operators of TorchScript that write and open files."""


def check_code(path: str) -> None:
    """Raises FilesError for a program that writes or opens files: parts of it run when it is loaded."""
    import torch

    reader = torch._C.PyTorchFileReader(path)
    for name in reader.get_all_records():
        if name.startswith("code/") and _FILES.search(reader.get_record(name)):
            raise FilesError("the program writes or opens files")


def load(path: str) -> Any:
    """The module in a file. Operators of torchvision are known once that is imported, which takes its time.

    Raises:
        FilesError: its code writes or opens files, which may happen while it is loaded.
    """
    import torch

    check_code(path)
    try:
        return torch.jit.load(path, map_location="cpu")
    except RuntimeError as e:
        if "torchvision::" not in str(e):
            raise
        try:
            importlib.import_module("torchvision")
        except (ImportError, RuntimeError, OSError) as broken:
            raise RuntimeError(f"the file has operators of torchvision, which is not there: {broken}") from e
        return torch.jit.load(path, map_location="cpu")


_SIZES = (224, 28, 32, 64, 96, 112, 128, 160, 192, 256, 299, 320, 384, 416, 512, 640)
_LENGTHS = (16, 512, 16000)
_SEARCH_SECONDS = 60.0


def shapes_to_try(module: Any) -> Iterator[tuple[int, ...]]:
    """Shapes of an input, the usual ones first: pictures, rows of what the weights multiply, signals, sequences."""
    widths = sorted({p.shape[-1] for p in module.parameters() if p.dim() == 2})
    for channels in (3, 1, 4, 2):
        for size in _SIZES:
            yield 1, channels, size, size
    for width in widths:
        yield 1, width
        yield 1, 16, width
    for length in _LENGTHS:
        yield 1, length
        yield 1, 1, length


def is_batch_of_one(result: Any) -> bool:
    """The first extent of all tensors in a result is 1, where they have any."""
    if isinstance(result, dict):
        return all(map(is_batch_of_one, result.values()))
    if isinstance(result, (list, tuple)):
        return all(map(is_batch_of_one, result))
    return not getattr(result, "ndim", 0) or result.shape[0] == 1


def find_shape(module: Any, arguments: list[Any]) -> dict[str, Any] | None:
    """Name, shape and element type of the only tensor among the arguments, as a run takes it; None if none is found."""
    import torch

    tensors = [a for a in arguments if a.type.kind() == "TensorType"]
    if len(tensors) != 1 or any(a is not tensors[0] and not a.has_default_value() for a in arguments):
        return None
    name, end = tensors[0].name, time.monotonic() + _SEARCH_SECONDS
    for dtype in (torch.float32, torch.int64):
        for shape in shapes_to_try(module):
            if time.monotonic() > end:
                return None
            try:
                with torch.no_grad():
                    result = module(**{name: torch.zeros(shape, dtype=dtype)})
            except Exception:  # noqa: BLE001  (what a module raises for a shape that it does not take)
                continue
            if not is_batch_of_one(result):
                continue  # a picture of another size is several of the right one
            return {"name": name, "shape": list(shape), "dtype": str(dtype).removeprefix("torch.")}
    return None


def dump(path: str, folder: Path, find: bool = False) -> dict[str, Any]:
    """Everything that the converter needs of a file.

    Args:
        find: the shape of its input, too.
    """
    import torch

    torch.set_num_threads(1)
    module = load(path)
    module.eval()
    graph = module.forward.graph.copy()
    torch._C._jit_pass_inline(graph)
    writer = Dump(folder)
    writer.names, writer.methods = names_in(module, graph)
    with torch.no_grad():
        root = writer.object(module)
        block = writer.block(graph)
    arguments = [
        {
            "name": a.name,
            "type": type_of(a.type),
            "default": writer.value(a.default_value),
            "given": a.has_default_value(),
        }
        for a in module.forward.schema.arguments[1:]
    ]
    writer.file.close()
    found = find_shape(module, module.forward.schema.arguments[1:]) if find else None
    objects = sorted(writer.objects.values(), key=lambda o: o["object"])
    return {"block": block, "root": root, "objects": objects, "arguments": arguments, "found": found,
            "torch": torch.__version__}  # fmt: skip


def main() -> int:
    """Says the reason on stderr and gives 1 when the file cannot be loaded."""
    limit()
    folder = Path(sys.argv[2])
    try:
        import torch  # noqa: F401
    except ImportError as e:
        sys.stderr.write(f"torch: {e}\n")
        return 3
    try:
        found = dump(sys.argv[1], folder, "find" in sys.argv[3:])
    except FilesError as e:
        sys.stderr.write(f"{e}\n")
        return 4
    except Exception as e:  # noqa: BLE001  (whatever PyTorch finds wrong with a file)
        sys.stderr.write(f"{type(e).__name__}: {e}\n")
        return 1
    (folder / "program.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
