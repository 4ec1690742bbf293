"""What of a TorchScript file runs, and when: nothing without the user's consent, and files are written in no case."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import minnow
from minnow.cli._app import run
from minnow.converter.torch.program.child import NotTrustedError, RefusedError, dump, load
from minnow.schema.errors import UnsupportedError

HEAD = """class A(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
"""
NMS = "    y = ops.torchvision.nms(torch.zeros([1, 4]), torch.zeros([1]), 0.5)\n"
WRITE = '    ops.image.write_file("{}", torch.to(torch.zeros([8]), 0))\n'
FORWARD = "  def forward(self: __torch__.A,\n    x: Tensor) -> Tensor:\n"
RESTORE = "  def __setstate__(self: __torch__.A,\n    state: Tensor) -> NoneType:\n"
PLAIN = (b"\x80\x02c__torch__\nA\nq\x00)\x81}(X\x08\x00\x00\x00trainingq\x01\x89"
         b"X\x16\x00\x00\x00_is_full_backward_hookq\x02Nubq\x03.")  # fmt: skip


def script(path: Path, code: str, data: bytes = PLAIN) -> Path:
    """A TorchScript file, written by hand."""
    files = {"data.pkl": data, "code/__torch__.py": code.encode(), "constants.pkl": b"\x80\x02).", "version": b"3\n"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{path.stem}/{name}", content)
    return path


def writes_when_run(path: Path, mark: Path) -> Path:
    """Its `forward` writes a file, by an operator of a library that it names another operator of."""
    return script(path, HEAD + FORWARD + NMS + WRITE.format(mark) + "    return torch.mul(x, 2)\n")


def writes_when_loaded(path: Path, mark: Path) -> Path:
    """Its `__setstate__` does."""
    return script(path, HEAD + FORWARD + "    return torch.mul(x, 2)\n" + RESTORE + NMS + WRITE.format(mark)
                  + "    self.training = False\n    return None\n")  # fmt: skip


HARMFUL: list[Callable[[Path, Path], Path]] = [writes_when_run, writes_when_loaded]


@pytest.mark.parametrize("made", HARMFUL)
@pytest.mark.parametrize("trust", [False, True])
def test_a_program_that_names_a_file_operator_is_not_loaded(made: Any, trust: bool, tmp_path: Path) -> None:
    source = made(tmp_path / "model.pt", tmp_path / "mark")
    with pytest.raises(RefusedError, match="image::write_file"):
        dump(str(source), io.BytesIO(), trust)
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]


@pytest.mark.slow
@pytest.mark.parametrize("made", HARMFUL)
@pytest.mark.parametrize("trust", [[], ["--trust"]], ids=["", "trust"])
@pytest.mark.parametrize("command", ["check", "convert", "inspect", "verify"])
def test_no_command_writes_a_file(
    made: Any, command: str, trust: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = made(tmp_path / "model.pt", tmp_path / "mark")
    (tmp_path / "other.mnn").write_bytes(bytes(64))  # `verify` looks at the source first
    extra = {"verify": [str(tmp_path / "other.mnn")], "convert": ["-o", str(tmp_path / "out.mnn")]}
    shapes = [] if command == "inspect" else ["--input", "x=2"]
    assert run([command, str(source), *extra.get(command, []), *shapes, *trust]) == 3
    assert "image::write_file" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pt", "other.mnn"]


UNVETTED = """
import importlib, sys
import minnow.converter.torch.program.child as child
from minnow.converter.torch.program.script_vetting import Found

child.vet = lambda *_: Found()
if not {confined}:
    for name in ("restrict_files", "restrict_calls", "limit_resources"):
        setattr(child.sandbox, name, lambda *_, **__: False)
module, *sys.argv[1:] = {arguments}
sys.exit(importlib.import_module(module).main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize("how", ["loaded", "run"])
def test_the_process_itself_can_write_no_file(how: str, confined: bool, tmp_path: Path) -> None:
    """Were a program let through that names an operator that writes, the system would not let it; else it would."""
    mark, source = tmp_path / "mark", tmp_path / "model.pt"
    save = f'    torch.save(torch.zeros([8]), "{mark}")\n'
    if how == "run":
        module = "runtime.verify.torch_worker"
        script(source, HEAD + FORWARD + save + "    return torch.mul(x, 2)\n")
    else:
        module = "converter.torch.program.child"
        torch.jit.save(torch.jit.script(Restores()), tmp_path / "saved.pt")
        with zipfile.ZipFile(tmp_path / "saved.pt") as saved, zipfile.ZipFile(source, "w") as archive:
            for name in saved.namelist():
                content = saved.read(name)
                archive.writestr(name, _with(content, save) if b"__setstate__" in content and name.endswith(".py")
                                 else content)  # fmt: skip
    arguments = [f"minnow.{module}", str(source), *["torchscript"] * (how == "run"), "trust"]
    given = io.BytesIO()
    np.savez(given, x=np.ones(2, np.float32))
    asked = b'{"bytes": %d, "numbers": {}, "other": false, "bfloat16": []}\n' % given.tell() + given.getvalue()
    code = UNVETTED.format(arguments=arguments, confined=confined)
    with (tmp_path / "said").open("wb") as file:
        # A worker answers through a pipe: it may write no byte to a file, of whatever name.
        done = subprocess.run([sys.executable, "-c", code], input=asked, cwd=tmp_path, timeout=120, check=False,
                              stdout=subprocess.PIPE if how == "run" else file)  # fmt: skip
    assert done.stdout or (tmp_path / "said").stat().st_size
    assert mark.exists() is not confined


class Restores(nn.Module):
    """A module with a `__setstate__` of its own, which only computes."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.ones(2)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w

    @torch.jit.export
    def __getstate__(self) -> tuple[Tensor, bool]:
        return self.w, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[Tensor, bool]) -> None:
        self.w = state[0] * 3
        self.training = state[1]


def _with(code: bytes, statement: str) -> bytes:
    """Code whose `__setstate__` begins with a statement."""
    head, name, rest = code.decode().partition("def __setstate__")
    signature, colon, body = rest.partition("NoneType:\n")
    return (head + name + signature + colon + statement + body).encode()


def test_what_restores_itself_needs_consent(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(Restores()), tmp_path / "m.pt")
    with pytest.raises(NotTrustedError, match="Restores"):
        dump(str(tmp_path / "m.pt"), io.BytesIO())
    assert dump(str(tmp_path / "m.pt"), io.BytesIO(), trust=True)["block"]["nodes"]


@pytest.mark.slow
def test_consent_is_asked_for_and_taken(tmp_path: Path) -> None:
    source, output = tmp_path / "m.pt", tmp_path / "m.mnn"
    torch.jit.save(torch.jit.script(Restores()), source)
    with pytest.raises(UnsupportedError, match="--trust"):
        minnow.convert(source, output=output, inputs={"x": (2,)})
    assert not output.exists()
    report = minnow.convert(source, output=output, inputs={"x": (2,)}, trust=True)
    assert report.verification is not None
    assert report.verification.reference.startswith("PyTorch")
    assert minnow.load(output).run({"x": np.ones(2, np.float32)})["output"].tolist() == [3, 3]


@pytest.mark.slow
def test_a_program_runs_with_consent_only(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.ReLU())), tmp_path / "m.pt")
    for trust, reference in ((False, "numpy reference"), (True, "PyTorch")):
        report = minnow.convert(tmp_path / "m.pt", output=tmp_path / "m.mnn", trust=trust)
        assert report.verification is not None
        assert report.verification.passed
        assert report.verification.reference.startswith(reference)
        assert ("only with --trust" in report.verification.note) is not trust
        assert any("input=" in n for n in report.notices), "no shape was given: one is found without running it"


def quantized_modules() -> list[nn.Module]:
    """PyTorch's own modules that restore themselves, or hold packed weights."""
    import torch.ao.nn.intrinsic.quantized as fused
    import torch.ao.nn.quantized as q
    import torch.ao.nn.quantized.dynamic as dynamic

    return [q.Linear(4, 4), q.Conv1d(2, 2, 3), q.Conv2d(2, 2, 3), q.Conv3d(2, 2, 3), q.ConvTranspose1d(2, 2, 3),
            q.ConvTranspose2d(2, 2, 3), fused.ConvReLU2d(2, 2, 3), q.Embedding(4, 4),
            dynamic.Linear(4, 4), dynamic.LSTM(4, 4), dynamic.GRUCell(4, 4)]  # fmt: skip


def test_quantized_modules_of_pytorch_need_no_consent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "fbgemm")  # others of this process may want another one
    restoring = 0
    for module in quantized_modules():
        path = tmp_path / f"{type(module).__name__}.pt"
        torch.jit.save(torch.jit.script(module.eval()), path)
        with zipfile.ZipFile(path) as archive:
            restoring += any(b"__setstate__" in archive.read(n) for n in archive.namelist() if n.endswith(".py"))
        load(str(path))
    assert restoring >= 5, "those with a method of their own are what this is about"


@pytest.mark.slow
def test_nothing_is_imported_from_the_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "mark"
    torch.jit.save(torch.jit.script(nn.ReLU()), tmp_path / "m.pt")
    (tmp_path / "torch.py").write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    minnow.convert("m.pt", output="m.mnn", inputs={"input": (2,)}, trust=True)
    assert not mark.exists()
