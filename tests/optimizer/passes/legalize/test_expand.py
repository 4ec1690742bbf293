"""Shapes to expand to of which only a part is known: the rule ends, and a runtime repeats what numpy repeats."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import minnow
from minnow.schema.errors import ModelError


def expanding(path: Path, first: str) -> Path:
    """A model that repeats x to [2, s]."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 18]>
        g (float[{first}, 1] x, int64[1] s) => (float[a, b] y) <int64[1] two = {{2}}> {{
          t = Concat <axis = 0> (two, s)
          y = Expand (x, t)
        }}""")
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("rows", [1, 2])
def test_a_dimension_without_a_number_becomes_a_known_one(rows: int, tmp_path: Path) -> None:
    report = minnow.convert(expanding(tmp_path / "m.onnx", "n"), output=tmp_path / "m.mnn", verify=False)
    x = np.arange(rows, dtype=np.float32).reshape(rows, 1)
    got = minnow.load(report.output).run({"x": x, "s": np.array([3], np.int64)})["y"]
    np.testing.assert_array_equal(got, np.broadcast_to(x, (2, 3)))


def test_a_dimension_that_cannot_be_repeated(tmp_path: Path) -> None:
    report = minnow.convert(expanding(tmp_path / "m.onnx", "4"), output=tmp_path / "m.mnn", verify=False)
    session = minnow.load(report.output)
    with pytest.raises(ModelError):
        session.run({"x": np.zeros((4, 1), np.float32), "s": np.array([3], np.int64)})
