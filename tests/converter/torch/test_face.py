"""PyTorch models by `minnow.convert`, `minnow.check` and the command, with PyTorch installed and without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import minnow  # noqa: E402
from minnow.errors import FormatError, UnsupportedError, UsageError  # noqa: E402

WITHOUT_TORCH = """
import importlib.machinery as m
find = m.PathFinder.find_spec
m.PathFinder.find_spec = classmethod(
    lambda cls, name, path=None, target=None: None if name.partition(".")[0] == "torch" else find(name, path, target)
)
"""


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.dropout = torch.nn.Dropout()

    def forward(self, x: Any, *, scale: Any) -> Any:
        return {"y": self.dropout(self.linear(x)) * scale, "z": x.sum(1)}


def inputs(rows: int = 2) -> dict[str, Any]:
    return {"x": torch.arange(4.0 * rows).reshape(rows, 4) - 3, "scale": torch.tensor([1.0, -2.0, 0.5])}


@pytest.fixture(scope="module")
def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def program(net: Any) -> Any:
    shapes = {"x": {0: torch.export.Dim("rows", max=8)}, "scale": None}
    return torch.export.export(net, (), inputs(), dynamic_shapes=shapes)


@pytest.fixture
def archive(program: Any, tmp_path: Path) -> Path:
    torch.export.save(program, tmp_path / "net.pt2")
    return tmp_path / "net.pt2"


def check_file(path: Path, net: Any, rows: int) -> None:
    given = inputs(rows)
    results = minnow.load(path).run({k: v.numpy() for k, v in given.items()})
    with torch.no_grad():
        want = net(**given)
    assert list(results) == ["y", "z"]
    for name, array in results.items():
        np.testing.assert_allclose(array, want[name].numpy(), rtol=1e-5, atol=1e-6)


def test_a_module_with_inputs_by_name(net: Any, tmp_path: Path) -> None:
    training = Net().train()
    training.load_state_dict(net.state_dict())
    shapes = {"x": {0: torch.export.Dim("rows", max=8)}, "scale": None}
    report = minnow.convert(training, inputs(), dynamic_shapes=shapes, output=tmp_path / "m.mnn")
    assert training.training
    assert report.verification is not None
    assert report.verification.reference.startswith("PyTorch")
    for rows in (1, 2, 5):
        check_file(tmp_path / "m.mnn", net, rows)


@pytest.mark.parametrize("given", [(torch.ones(2, 3),), [torch.ones(2, 3)], torch.ones(2, 3)])
def test_a_module_with_inputs_by_place(given: Any, tmp_path: Path) -> None:
    minnow.convert(torch.nn.Softsign(), given, output=tmp_path / "m.mnn", verify=False)
    (result,) = minnow.load(tmp_path / "m.mnn").run({"input": np.full((2, 3), -3, np.float32)}).values()
    np.testing.assert_allclose(result, -0.75)


def test_an_exported_program(program: Any, net: Any, tmp_path: Path) -> None:
    minnow.convert(program, output=tmp_path / "m.mnn", verify=False)
    check_file(tmp_path / "m.mnn", net, 7)


@pytest.mark.slow
def test_a_module_of_torchscript(tmp_path: Path) -> None:
    made = torch.jit.script(torch.nn.Sequential(torch.nn.Softsign(), torch.nn.ReLU()))
    minnow.convert(made, output=tmp_path / "m.mnn", inputs={"input": (2, 3)}, verify=False)
    (result,) = minnow.load(tmp_path / "m.mnn").run({"input": np.full((2, 3), 3, np.float32)}).values()
    np.testing.assert_allclose(result, 0.75)


def test_what_cannot_be_called_so(net: Any, program: Any, archive: Path, tmp_path: Path) -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    output = tmp_path / "m.mnn"
    with pytest.raises(UsageError, match="example_inputs"):
        minnow.convert(net, output=output)
    with pytest.raises(UsageError, match="output"):
        minnow.convert(program)
    with pytest.raises(UsageError, match="not a model"):
        minnow.convert({"linear.weight": torch.ones(2)}, output=output)
    with pytest.raises(UsageError, match="modules"):
        minnow.convert(archive, (torch.ones(2),), output=output)
    with pytest.raises(UnsupportedError, match=r"torch\.export"):
        minnow.convert(Branches(), (torch.ones(2),), output=output)
    assert not output.exists()


def test_a_file_of_weights_alone(net: Any, tmp_path: Path) -> None:
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    with pytest.raises(FormatError, match="no program"):
        minnow.convert(tmp_path / "weights.pt")


def test_check_says_what_a_program_takes_and_gives(archive: Path) -> None:
    found = minnow.check(archive)
    assert found.convertible
    assert found.framework == "torch"
    assert found.description.versions == {"torch_export": 1}
    assert found.description.producer == f"PyTorch {torch.__version__}"
    assert found.description.operators["aten::linear"] == 1
    (symbol,) = found.symbols
    assert [str(p) for p in found.description.inputs] == [f"x: f32[{symbol}, 4]", "scale: f32[3]"]
    assert [str(p) for p in found.description.outputs] == [f"y: f32[{symbol}, 3]", f"z: f32[{symbol}]"]
    assert found.macs == 12


def command(folder: Path, *arguments: str, without_torch: bool = False) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if without_torch:
        (folder / "blocked").mkdir(exist_ok=True)
        (folder / "blocked" / "sitecustomize.py").write_text(WITHOUT_TORCH)
        environment["PYTHONPATH"] = os.pathsep.join([str(folder / "blocked"), environment.get("PYTHONPATH", "")])
    code = "import sys; from minnow.cli import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=folder,
                          env=environment, timeout=300, check=False)  # fmt: skip


def test_archives_are_converted_without_pytorch(archive: Path, net: Any) -> None:
    folder = archive.parent
    done = command(folder, "convert", archive.name, "-o", "m.mnn", without_torch=True)
    assert done.returncode == 0, done.stderr
    assert "not installed" in done.stdout + done.stderr
    check_file(folder / "m.mnn", net, 3)
    assert command(folder, "check", archive.name, without_torch=True).returncode == 0


def test_torchscript_needs_pytorch_and_says_so(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), tmp_path / "m.pt")
    done = command(tmp_path, "convert", "m.pt", "-o", "m.mnn", without_torch=True)
    assert done.returncode == 2
    assert "not installed" in done.stderr
    assert "torch.export" in done.stderr
    assert not (tmp_path / "m.mnn").exists()


def test_exit_codes(archive: Path, tmp_path: Path) -> None:
    assert command(tmp_path, "convert", archive.name, "-o", "m.mnn", "--batch", "9").returncode == 2
    archive.write_bytes(archive.read_bytes()[:2000])
    assert command(tmp_path, "convert", archive.name, "-o", "m.mnn").returncode == 6
    torch.export.save(torch.export.export(Svd(), (torch.ones(3, 3),)), archive)
    assert command(tmp_path, "convert", archive.name, "-o", "m.mnn").returncode == 3
    assert not (tmp_path / "m.mnn").exists()


class Svd(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.linalg.svd(x)[0]
