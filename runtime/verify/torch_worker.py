"""A separate process: loads a TorchScript file or `.pt2` archive with PyTorch, and runs it on request.

The process is confined, in case the file is malicious (see `sandbox`), and loads the file only if all names in it are
allowed. A TorchScript program runs only with the user's consent. A program of torch.export is a list of operators
without code of its own; the parts of it that PyTorch evaluates as code are checked first (see `vetting`).

Usage: python -m minnow.runtime.verify.torch_worker FILE KIND [trust]. It reads a JSON object per line: {"bytes": length
of the .npz that follows, "numbers": {name: number}, "other": bool} for a run, {"reset": true} to load the model again.
It answers each with one line; after the line for a run follows an .npz of the length given in that line.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter.file import sandbox
from minnow.converter.torch.program.child import MEMORY, SECONDS, load
from minnow.converter.torch.program.vetting import check_names, check_operators, check_texts


class Script:
    """A TorchScript module.

    Weights of quantized layers are packed for a set of kernels when they are loaded. The kernels of QNNPACK compute
    exactly what the format defines; others saturate intermediate results.
    """

    def __init__(self, path: str, other: bool = False, trust: bool = False) -> None:
        import torch

        engines = torch.backends.quantized.supported_engines
        usual = torch.backends.quantized.engine
        if "qnnpack" in engines and not other:
            torch.backends.quantized.engine = "qnnpack"
        try:
            self.module = load(path, trust).eval()
        finally:
            torch.backends.quantized.engine = usual

    def __call__(self, given: dict[str, Any]) -> Any:
        arguments = self.module.forward.schema.arguments[1:]
        args = []
        for a in arguments:
            found, value = _argument(a.type, a.name, given)
            if not found and not a.has_default_value():
                value = None
            args.append(value if found or not a.has_default_value() else a.default_value)
        return self.module(*args)


def _argument(type: Any, name: str, given: dict[str, Any]) -> tuple[bool, Any]:
    """Whether values for an argument are given, and the argument composed of them."""
    kind = type.kind()
    if name in given:
        return True, _number(given[name]) if kind in ("IntType", "FloatType", "BoolType") else given[name]
    if kind == "OptionalType":
        return _argument(type.getElementType(), name, given)
    if kind == "TupleType":
        return True, tuple(_argument(t, f"{name}.{i}", given)[1] for i, t in enumerate(type.elements()))
    keys = list(dict.fromkeys(k[len(name) + 1 :].partition(".")[0] for k in given if k.startswith(f"{name}.")))
    if kind == "ListType" and keys:
        return True, [_argument(type.getElementType(), f"{name}.{k}", given)[1] for k in sorted(keys, key=int)]
    if kind == "DictType" and keys:
        return True, {k: _argument(type.getValueType(), f"{name}.{k}", given)[1] for k in keys}
    return False, None


def _number(x: Any) -> Any:
    return x.item() if hasattr(x, "item") else x


def forbid_pickles() -> None:
    """Makes PyTorch refuse to unpickle anything but tensors from an archive: pickles can run code."""
    import pickle

    import torch

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the archive holds a pickle")

    load = torch.load
    torch.load = lambda *args, **keywords: load(*args, **{**keywords, "weights_only": True})
    torch._C._pickle_load_obj = refuse
    pickle.loads = refuse


def check_archive(path: str) -> None:
    """Raises MinnowError if PyTorch would evaluate code in an archive that torch.export has not written.

    The converter has checked it already, but with another archive reader; PyTorch runs what this reader finds.
    """
    from torch.export.pt2_archive import PT2ArchiveReader

    reader = PT2ArchiveReader(path)
    names = reader.get_file_names()
    check_names(names, path)
    for name in names:
        if name.startswith("models/"):
            document = json.loads(reader.read_string(name))
            check_texts(document, path)
            check_operators(document, path)


class Exported:
    """A program of torch.export."""

    def __init__(self, path: str, other: bool = False, trust: bool = False) -> None:
        import torch

        forbid_pickles()
        check_archive(path)
        program = torch.export.load(path)
        # Guards are Python code of the file.
        self.module = program.module(check_guards=False)
        specs = program.graph_signature.input_specs
        self.arguments = [s.arg for s in specs if s.kind.name == "USER_INPUT"]
        self.spec = program.call_spec.in_spec

    def __call__(self, given: dict[str, Any]) -> Any:
        import torch.utils._pytree as pytree

        flat = [self._given(a, given) for a in self.arguments]
        args, kwargs = pytree.tree_unflatten(flat, self.spec)
        return self.module(*args, **kwargs)

    @staticmethod
    def _given(argument: Any, given: dict[str, Any]) -> Any:
        if argument.name not in given:
            return getattr(argument, "value", None)
        x = given[argument.name]
        return x if type(argument).__name__ == "TensorArgument" else _number(x)


def _flat(x: Any) -> list[Any]:
    """All tensors and numbers in a result, in order."""
    if isinstance(x, dict):
        return [a for v in x.values() for a in _flat(v)]
    if isinstance(x, (list, tuple)):
        return [a for v in x for a in _flat(v)]
    return [] if x is None else [x]


def _array(x: Any) -> np.ndarray[Any, Any]:
    import torch

    if not isinstance(x, torch.Tensor):
        return np.asarray(x)
    x = x.detach()
    x = x.dequantize() if x.is_quantized else x
    # numpy has no bfloat16; float32 represents each of its values.
    plain = (x.float() if x.dtype is torch.bfloat16 else x.resolve_conj().resolve_neg()).contiguous()
    return np.asarray(plain.numpy())


def confine(path: str, kind: str) -> None:
    """Gives up all rights that loading and running the file do not need; the pipes to the parent are open already."""
    # PyTorch asks for folders that it could write to, and creates them if they do not exist.
    tempfile.tempdir = os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.getcwd()
    sandbox.restrict_files([Path(path)])
    import torch

    if kind != "torchscript":
        import torch._dynamo
        import torch.export.pt2_archive
        import torch.utils._sympy.functions

    torch.set_num_threads(1)
    sandbox.limit_resources(SECONDS, MEMORY, 0)
    sandbox.restrict_calls()


def main() -> int:
    """Answers requests until the input ends."""
    path, kind = sys.argv[1:3]
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the program prints is not part of the answers
    make = Script if kind == "torchscript" else Exported
    confine(path, kind)
    import torch

    def answer(what: dict[str, Any], data: bytes = b"") -> None:
        answers.write(json.dumps(what).encode() + b"\n" + data)
        answers.flush()

    models: dict[bool, Any] = {}

    def model(other: bool) -> Any:
        if other not in models:
            models[other] = make(path, other, "trust" in sys.argv[3:])
        return models[other]

    try:
        model(False)
    except Exception as e:  # noqa: BLE001  (whatever PyTorch raises for a file)
        answer({"error": f"{type(e).__name__}: {e}"})
        return 1
    answer({"ready": torch.__version__})
    for line in questions:
        asked = json.loads(line)
        try:
            if asked.get("reset"):
                models.clear()
                answer({})
                continue
            with np.load(io.BytesIO(questions.read(asked["bytes"]))) as file:
                given: dict[str, Any] = {k: torch.from_numpy(file[k].copy()) for k in file.files}
            for name in asked["bfloat16"]:
                given[name] = given[name].bfloat16()
            with torch.no_grad(), torch.backends.mkldnn.flags(enabled=not asked["other"]):
                results = _flat(model(asked["other"])({**given, **asked["numbers"]}))
            data = io.BytesIO()
            np.savez(data, *map(_array, results))
        except Exception as e:  # noqa: BLE001
            answer({"error": f"{type(e).__name__}: {e}"})
        else:
            answer({"count": len(results), "bytes": data.tell()}, data.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
