"""Small files to start from: of a few ops each, made here, and those of the suites of operators."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MOST = 1 << 14
"""Larger files are no seeds: what they hold beyond is numbers."""


def onnx() -> list[bytes]:
    from hostile.test_damaged import onnx_sample

    return [onnx_sample()]


def onnx_suite() -> list[bytes]:
    """ONNX's own tests of its operators, and files that were made to do harm, as far as they are valid."""
    from hostile.make import FILES, REFUSED

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers that the tests mean
        from onnx.backend.test.loader import load_model_tests

        cases = load_model_tests(kind="node")
    valid = [make() for name, make in FILES.items() if name not in REFUSED]
    return _small([*(c.model.SerializeToString() for c in cases if c.model is not None), *valid])


def graphs() -> list[bytes]:
    from hostile.test_damaged import graph_sample

    return [graph_sample()]


def tf_suite() -> list[bytes]:
    return _tf_files(".pb")


def tflite() -> list[bytes]:
    from hostile.test_damaged import tflite_sample

    return [tflite_sample()]


def tflite_suite() -> list[bytes]:
    return _tf_files(".tflite")


def _tf_files(suffix: str) -> list[bytes]:
    """The everyday eighth of the suite's files."""
    from tf_suite.generate import cached

    folder, _ = cached(sample=True)
    return _small(p.read_bytes() for p in sorted(folder.rglob(f"*{suffix}")))


def caffe() -> list[bytes]:
    from hostile.test_damaged import caffe_sample

    return [caffe_sample()]


def caffe_suite() -> list[bytes]:
    """All cases: definitions with their weights, as a trained net has both in one file; those without as text."""
    import tempfile

    from caffe_suite.case import load_all
    from caffe_suite.write import write
    from google.protobuf import text_format

    from minnow.converter.caffe.message import NetParameter
    from minnow.converter.file.wire import fields

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for case in load_all().values():
            path = write(case, Path(folder))
            text = path.with_suffix(".prototxt").read_bytes()
            blobs: dict[str, bytes] = {}
            for number, _, layer in fields(memoryview(path.read_bytes())):
                if number == 100:
                    parts = list(fields(layer))
                    name = next((bytes(v).decode() for n, _, v in parts if n == 1), "")
                    blobs[name] = b"".join(b"\x3a" + _varint(len(v)) + bytes(v) for n, _, v in parts if n == 7)
            if not any(blobs.values()):
                found.append(text)
                continue
            net = text_format.Parse(text.decode(), NetParameter(), allow_unknown_field=True)
            for layer in net.layer:
                layer.MergeFromString(blobs.get(layer.name, b""))
            found.append(net.SerializeToString())
    return _small(found)


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def is_text(data: bytes) -> bool:
    return b"layer" in data[:4096] and not any(c < 9 for c in data[:256])


def damaged_text(data: bytes, dice: random.Random) -> bytes:
    from hostile.damage import of_text

    return bytes(of_text(data, dice))


def mnn() -> list[bytes]:
    """What we write of the other samples, for both targets."""
    found = []
    for framework, data in (("onnx", onnx()[0]), ("tflite", tflite()[0]), ("caffe", caffe()[0])):
        for target in ("mnn", "minnow"):
            found += _written(framework, [data], target)
    return found


def mnn_suite() -> list[bytes]:
    """What we write of ONNX's tests, and what MNN's own converter wrote: ops that we read and do not write."""
    from fuzz import rare

    every, files = onnx_suite(), Path(__file__).parents[1] / "interop" / "files"
    ours = [*_written("onnx", every[::12], "mnn"), *_written("onnx", every[1::12], "minnow")]
    return [*ours, *rare.files(), *_small(path.read_bytes() for path in sorted(files.glob("*/*.mnn")))]


def _written(framework: str, files: list[bytes], target: str) -> list[bytes]:
    import tempfile

    import minnow
    from minnow.errors import MinnowError

    made = []
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "m"), Path(folder, "m.mnn")
        for data in files:
            source.write_bytes(data)
            try:
                minnow.convert(source, framework=framework, output=output, target=target, verify=False)
            except MinnowError:
                continue  # some of the suite are refused
            made.append(output.read_bytes())
    return _small(made)


def archives() -> list[bytes]:
    """Programs of a layer, a state, a branch and a loop, as `torch.export.save` writes them."""
    import io

    import torch

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            y = self.linear(x).relu()
            self.seen.add_(y.sum(0))
            z = y.clone()
            z[:, 1:] = 0
            return {"a": y + self.seen, "b": [z, torch.chunk(x, 2, 1)[0]]}

    class Branches(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            a = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
            _, b = torch.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), a))
            return b

    found = []
    for module, shape in ((Small(), (2, 4)), (Branches(), (2,))):
        out = io.BytesIO()
        torch.export.save(torch.export.export(module.eval(), (torch.ones(shape),)), out)
        found.append(_without_samples(out.getvalue()))
    return found


def scripts() -> list[bytes]:
    """Programs of layers, a state, branches, loops, lists and constants, as `torch.jit.save` writes them."""
    import io

    import torch

    class Program(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
            self.register_buffer("seen", torch.zeros(3))
            self.names = ["a", "b"]

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            y = self.layers(x)
            if bool(y.sum() > 0):
                y = y + self.seen
            for i in range(3):
                y = torch.mul(y, float(i + 1))
            parts = [y[:, :1], y[:, 1:]]
            return {name: torch.cat(parts, 1) for name in self.names}

    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Program().eval()), out)
    return [out.getvalue()]


def _without_samples(data: bytes) -> bytes:
    """An archive without the pickled inputs that nothing reads."""
    from torch_damage import archive_of, files_of

    return bytes(archive_of({n: d for n, d in files_of(data).items() if "sample_inputs" not in n}))


def archive_suite() -> list[bytes]:
    """One sample of each of PyTorch's operators that can be exported."""
    import io

    import torch
    from torch_suite.case import operators, samples

    found = []
    for name in sorted(operators())[::3]:
        try:
            (sample,) = list(samples(name, 1))[:1]
            out = io.BytesIO()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.export.save(torch.export.export(sample, tuple(sample.given())), out)
        except Exception:  # noqa: BLE001  (what cannot be exported is no seed)
            continue
        found.append(_without_samples(out.getvalue()))
    return _small(found)


def _small(files: Iterator[bytes] | list[bytes]) -> list[bytes]:
    return [data for data in files if len(data) <= _MOST]


def kept(target: str) -> list[bytes]:
    """Files that have broken something once."""
    folder = Path(__file__).parent / "findings" / target
    return [p.read_bytes() for p in sorted(folder.iterdir())] if folder.is_dir() else []
