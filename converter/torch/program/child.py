"""Runs as a process of its own: loads a TorchScript file with PyTorch, and writes down its program.

`torch.jit.load` is PyTorch's own reader: it runs compiled code on what the file says, so a malicious file meets it
here, in a process that can do little else (see `sandbox`), and only when all that it names is allowed (see
`script_vetting`). The program itself is not run; of its methods only `__setstate__` is, which restores objects, and
that with the user's consent, or where it does nothing but pack weights.

Usage: python -m minnow.converter.torch.program.child FILE [trust]. It writes to stdout, which is a file: the numbers of
the tensors, then the program as JSON, then the length of that in 8 bytes.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

from minnow.converter.file import sandbox
from minnow.converter.torch.program.allowed import CLASSES
from minnow.converter.torch.program.script import FAILED, MISSING, NOT_TRUSTED, REFUSED, UNREADABLE
from minnow.converter.torch.program.script_vetting import TextError, vet

SECONDS, MEMORY = 600, 24 << 30
_WRITTEN, _SPREAD = 1 << 30, 64
"""What is written down: at most so many bytes, or so many times as many as the file has."""
_TEXT = 1 << 26
"""The same of the program without its numbers, which Minnow's own process reads as a whole."""
_DATA, _DATA_PER_BYTE = 2 << 30, 32
"""Memory that a file may make PyTorch take: lists that hold each other twice, and calls, come to any size."""
_LEAST_SECONDS = 60
"""Of processor time, and one more for each MiB of the file."""


class Dump:
    """Writes the parts of a program as plain JSON, tensors into a file beside it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
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
        return {"refused": f"a constant of the type {type(x).__name__} is not supported"}

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
            # What has the name of an attribute may be a property, which is code of the file.
            has = getattr(script, "hasattr", None) or (lambda n: hasattr(x, n))
            names = packed or {n: getattr(x, n) for n in sorted(self.names) if has(n)}
            entry["attrs"] = {n: self.value(v) for n, v in names.items()}
            if self.methods and isinstance(x, torch.nn.Module):
                entry["methods"] = {m: self.block(inlined(script, m)) for m in methods_of(script, self.methods)}
        return {"ref": self.objects[ident]["object"]}

    def packed(self, script: Any, kind: str) -> dict[str, Any] | None:
        """What the packed weights of a quantized layer are; None for an object of another class."""
        import torch

        if (known := kind.removeprefix("__torch__.torch.classes.")) not in CLASSES:
            return None
        ops = torch.ops.quantized
        if known == "quantized.LinearPackedParamsBase":
            try:
                weight, bias = ops.linear_unpack(script)
            except RuntimeError:
                weight, bias = ops.linear_unpack_fp16(script)
            return {"weight": weight, "bias": bias}
        if known == "rnn.CellParamsBase":
            form, _, _, numbers, packed = script._get_method("__getstate__")()
            return {"form": form, "reduce_range": bool(numbers and numbers[0]), "packed": list(packed)}
        if known == "quantized.EmbeddingPackedParamsBase":
            return {"weight": ops.embedding_bag_unpack(script)}
        stem = f"conv{known.partition('Conv')[2][0]}d"
        weight, bias = getattr(ops, f"{stem}_unpack")(script)
        found = {"weight": weight, "bias": bias}
        for name in ("stride", "padding", "dilation", "output_padding", "groups", "transpose"):
            found[name] = getattr(ops, f"{stem}_{name}")(script)
        return found

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


class RefusedError(Exception):
    """A program that names what it must not, one name per line."""


class NotTrustedError(Exception):
    """A program with methods that run when it is loaded, without the user's consent: their classes."""


def load(path: str, trust: bool = False) -> Any:
    """The module in a file.

    Args:
        trust: methods of the file may run while it is loaded.

    Raises:
        RefusedError, NotTrustedError, TextError: it is not loaded.
    """
    import torch

    reader = torch._C.PyTorchFileReader(path)
    found = vet(reader.get_all_records(), reader.get_record, _exists)
    if found.refused:
        raise RefusedError("\n".join(sorted(found.refused)))
    if found.restoring and not trust:
        raise NotTrustedError(", ".join(sorted(found.restoring)))
    if "torchvision" in found.libraries:
        try:
            importlib.import_module("torchvision")
        except (ImportError, RuntimeError, OSError) as broken:
            raise RuntimeError(f"the file has operators of torchvision, which cannot be imported: {broken}") from broken
    return torch.jit.load(path, map_location="cpu")


def _exists(operator: str) -> bool:
    import torch

    return bool(torch._C._jit_get_schemas_for_operator(operator))


def dump(path: str, file: BinaryIO, trust: bool = False) -> dict[str, Any]:
    """Everything that the converter needs of a TorchScript file: the numbers of tensors go to `file`.

    Raises:
        RefusedError, NotTrustedError, TextError: as of `load`.
    """
    import torch

    torch.set_num_threads(1)
    module = load(path, trust)
    module.eval()
    graph = module.forward.graph.copy()
    torch._C._jit_pass_inline(graph)
    writer = Dump(file)
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
    widths = sorted({p.shape[-1] for p in module.parameters() if p.dim() == 2})
    objects = sorted(writer.objects.values(), key=lambda o: o["object"])
    return {"block": block, "root": root, "objects": objects, "arguments": arguments, "widths": widths,
            "torch": torch.__version__}  # fmt: skip


def main() -> int:
    """Says the reason on stderr and gives another code than 0 when the file cannot be loaded."""
    path, trust = sys.argv[1], "trust" in sys.argv[2:]
    file = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a program prints is no result
    sandbox.restrict_files([Path(path)])
    try:
        import torch  # noqa: F401
    except ImportError as e:
        sys.stderr.write(f"torch: {e}\n")
        return MISSING
    size = Path(path).stat().st_size
    seconds, data = min(SECONDS, _LEAST_SECONDS + (size >> 20)), min(MEMORY, _DATA + _DATA_PER_BYTE * size)
    sandbox.limit_resources(seconds, MEMORY, max(_WRITTEN, _SPREAD * size), data=data)
    sandbox.restrict_calls()
    try:
        found = json.dumps(dump(path, file, trust)).encode()
        if len(found) > max(_TEXT, _SPREAD * size):
            raise ValueError(f"its program comes to {len(found):,} bytes when all calls are written out")
    except RefusedError as e:
        sys.stderr.write(str(e))
        return REFUSED
    except NotTrustedError as e:
        sys.stderr.write(str(e))
        return NOT_TRUSTED
    except TextError as e:
        sys.stderr.write(str(e))
        return UNREADABLE
    except Exception as e:  # noqa: BLE001  (whatever PyTorch finds wrong with a file)
        sys.stderr.write(f"{type(e).__name__}: {e}\n")
        return FAILED
    file.write(found + len(found).to_bytes(8, "little"))
    file.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
