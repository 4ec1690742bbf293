"""Layers with residuals and activations of their own, as files have them, become integers like those without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper

import minnow
from minnow.schema.mnn import read_file

from .test_integers import network

NODES = [
    helper.make_node("Conv", ["x", "v", "a"], ["c"], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["c"], ["r"]),
    helper.make_node("Conv", ["r", "w"], ["d"], pads=[1, 1, 1, 1]),
    helper.make_node("Add", ["d", "r"], ["e"]),
    helper.make_node("Relu", ["e"], ["s"]),
    helper.make_node("Conv", ["s", "u"], ["t"]),
    helper.make_node("HardSwish", ["t"], ["y"]),
]


@pytest.mark.parametrize("written", ["mnn", "minnow"])
@pytest.mark.parametrize("target", ["mnn", "minnow"])
def test_layers_of_a_file_become_integers_like_those_of_its_source(written: Any, target: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    shapes = {"v": (8, 4, 3, 3), "a": (8,), "w": (8, 8, 3, 3), "u": (6, 8, 1, 1)}
    constants = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    source = network(tmp_path / "n.onnx", NODES, constants, [1, 4, 8, 8], ["y", "s"])
    minnow.convert(source, output=tmp_path / "n.mnn", target=written, verify=False)
    convs = [n for n in read_file(tmp_path / "n.mnn").graph if n.op == "Conv"]
    assert any(n.attrs.get("activation") for n in convs)
    assert any(n.has_input(3) for n in convs) == (written == "minnow")
    data = [rng.normal(size=(1, 4, 8, 8)).astype(np.float32) for _ in range(6)]
    floats = minnow.load(source_of_floats(source))
    for path in (source, tmp_path / "n.mnn"):
        made = tmp_path / f"{path.suffix[1:]}.q.mnn"
        report = minnow.quantize(path, calibration=data, output=made, target=target, measure=False).quantization
        assert [row.kind for row in report.calibrated] == ["int8"] * 3
        integers = minnow.load(made)
        for name in ("y", "s"):
            want, got = (np.stack([m.run({"x": x})[name] for x in data]) for m in (floats, integers))
            assert np.linalg.norm(want - got) < 10 ** (-33 / 20) * np.linalg.norm(want)


def source_of_floats(source: Path) -> Path:
    target = source.with_name("floats.mnn")
    minnow.convert(source, output=target, optimize=0)
    return target


def test_a_layer_is_left_out_by_its_name_in_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    shapes = {"v": (8, 4, 3, 3), "a": (8,), "w": (8, 8, 3, 3)}
    constants = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    source = network(tmp_path / "n.onnx", NODES[:3], constants, [1, 4, 8, 8], ["d"])
    minnow.convert(source, output=tmp_path / "n.mnn", verify=False)
    report = minnow.quantize(
        tmp_path / "n.mnn", synthetic=True, output=tmp_path / "q.mnn", exclude=["r"], measure=False
    ).quantization  # fmt: skip
    rows = {row.name: row for row in report.calibrated}
    assert rows["r"].why == "excluded by 'r'"
    assert [row.kind for row in report.calibrated] == ["f32", "int8"]


class Branches(torch.nn.Module):
    """A network whose results have other names within it than for users: those of PyTorch have none."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.linear = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        a = self.conv(x)
        b = torch.relu(a)
        return self.linear(b.mean((2, 3))), a, b


@pytest.mark.parametrize("kind", ["script", "export"])
def test_results_that_others_read_too(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    net, x = Branches().eval(), torch.randn(1, 3, 9, 9)
    if kind == "script":
        torch.jit.trace(net, x).save(str(tmp_path / "n.pt"))
    else:
        torch.export.save(torch.export.export(net, (x,)), tmp_path / "n.pt2")
    (source,) = tmp_path.glob("n.*")
    data = [np.random.default_rng(k).normal(size=x.shape).astype(np.float32) for k in range(4)]
    given = {"inputs": {"x": (1, 3, 9, 9)}} if kind == "script" else {}
    report = minnow.quantize(source, calibration=data, output=tmp_path / "q.mnn", measure=False, **given)
    assert [row.kind for row in report.quantization.calibrated] == ["int8", "int8"]
    got = list(minnow.load(tmp_path / "q.mnn").run({"x": data[0]}).values())
    for want, one in zip(net(torch.from_numpy(data[0])), got, strict=True):
        np.testing.assert_allclose(one, want.detach().numpy(), rtol=0, atol=0.03 * float(want.abs().max()))
