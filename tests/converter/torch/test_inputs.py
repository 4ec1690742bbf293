"""What is said of the inputs of a TorchScript file, which tells neither their shapes nor their element types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import minnow  # noqa: E402
from minnow.cli._app import run  # noqa: E402
from minnow.converter import read  # noqa: E402
from minnow.errors import ModelError, UsageError  # noqa: E402
from minnow.schema.ir import DType  # noqa: E402

pytestmark = pytest.mark.slow  # each file is read by a process of its own that loads PyTorch


class Marks(torch.nn.Module):
    """Writes numbers at places, which are integers."""

    def forward(self, x: Any, ids: Any) -> Any:
        return x.scatter(1, ids, 2.0) - x


X, IDS = torch.rand(1, 9), torch.tensor([[3, 0, 7]])


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traced") / "marks.pt"
    torch.jit.trace(Marks(), (X, IDS)).save(str(path))
    return path


def test_without_a_type_the_error_names_the_input_and_what_to_try(traced: Path) -> None:
    with pytest.raises(ModelError, match="does not take f32") as caught:
        read(traced, inputs=[(1, 9), (1, 3)])
    assert "'ids' probably holds integers" in caught.value.hint
    assert "`--input ids=int64[1,3]`" in caught.value.hint


def test_the_hint_of_the_error_converts(traced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(traced.with_suffix(".mnn"))
    shapes = ["--input", "x=1x9", "--input", "ids=int64[1,3]"]
    assert run(["convert", str(traced), "-o", target, "--trust", *shapes]) == 0
    assert "PASS  3 runs against PyTorch" in capsys.readouterr().out
    assert [i.dtype for i in minnow.load(target).inputs] == ["float32", "int64"]


def test_tensors_by_position_are_compared_on(traced: Path) -> None:
    report = minnow.convert(traced, inputs=(X.numpy().astype(np.float64), IDS), output=traced.with_suffix(".2.mnn"))
    assert report.verification is not None
    assert report.verification.passed
    assert [c.shapes for c in report.verification.cases] == [{"x": (1, 9), "ids": (1, 3)}]
    assert any("'x' is taken as float32" in notice for notice in report.notices)  # numpy's own float64 means nothing


@pytest.mark.parametrize(
    ("inputs", "dtype"),
    [
        ({"x": (1, 9), "ids": minnow.TensorInfo(dtype="int32", shape=(1, 3))}, DType.F32),
        ([("float64", (1, 9)), ("int32", (1, 3))], DType.F64),
        ([minnow.TensorInfo("ids", "int32", (1, 3)), minnow.TensorInfo("x", "float64", (1, 9))], DType.F64),
        ({"x": torch.zeros(1, 9, requires_grad=True), "ids": torch.zeros(1, 3, dtype=torch.int32)}, DType.F32),
        ({"x": torch.zeros(1, 9, dtype=torch.bfloat16), "ids": "int32[1,3]"}, DType.BF16),
    ],
)
def test_types_are_taken_by_name_and_position(traced: Path, inputs: Any, dtype: DType) -> None:
    types = dict(read(traced, inputs=inputs).inputs)
    assert types["ids"].dtype is DType.I32
    assert types["ids"].shape == (1, 3)
    assert types["x"].dtype is dtype


class Parts(torch.nn.Module):
    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor], n: int, y: torch.Tensor) -> Any:
        return x + state[0] * state[1] + n * y


def test_positions_count_tensors_and_the_parts_of_tuples(tmp_path: Path) -> None:
    torch.jit.script(Parts()).save(str(tmp_path / "m.pt"))
    shapes = [(1, 4), (2, 4), (3, 1, 4), (1, 1)]
    types = {n: t.shape for n, t in read(tmp_path / "m.pt", inputs=shapes).inputs}
    assert types == {"x": (1, 4), "state.0": (2, 4), "state.1": (3, 1, 4), "n": (), "y": (1, 1)}
    with pytest.raises(UsageError, match="5 inputs are given by position, but the model has 4"):
        read(tmp_path / "m.pt", inputs=[*shapes, (1,)])


def test_a_scripted_module_takes_example_inputs(tmp_path: Path) -> None:
    report = minnow.convert(torch.jit.trace(Marks(), (X, IDS)), (X, IDS), output=tmp_path / "m.mnn")
    assert report.verification is not None
    assert report.verification.passed
    assert len(report.verification.cases) == 1


def test_an_exported_program_declares_its_types(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(Marks(), (X, IDS)), tmp_path / "m.pt2")
    report = minnow.convert(tmp_path / "m.pt2", inputs=[X, IDS])
    assert report.verification is not None
    assert report.verification.passed
    with pytest.raises(UsageError, match="given as float32, the model declares int64"):
        minnow.convert(tmp_path / "m.pt2", inputs=[X, X])
