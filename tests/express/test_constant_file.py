"""Files of constants, in the form of MNN: `expr.save` of parameters, and `load_as_list`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from oracles.mnn_oracle import PYTHON, needs_mnn

from minnow import expr, nn
from minnow.errors import FormatError
from minnow.expr import Var
from minnow.schema.mnn import wire

PROGRAM = """
import sys
import MNN.expr as F
import numpy as np
mine, theirs = sys.argv[1:]
found = F.load_as_list(mine)
assert [list(v.shape) for v in found] == [[3, 2], [], [2], [2]], [v.shape for v in found]
assert np.array_equal(np.array(found[0].read()), np.arange(6).reshape(3, 2))
assert np.array_equal(np.array(found[2].read()), [1, -2])
assert found[2].dtype == F.int and found[0].dtype == F.float
named = F.load_as_dict(mine)
assert "weight" in named and len(named) == 4
F.save([found[2], found[0]], theirs)
"""


def values() -> list[Var]:
    weight = Var(np.arange(6, dtype=np.float32).reshape(3, 2))
    weight.fix_as_trainable()
    weight.name = "weight"
    return [weight, Var(np.float32(0.5)), Var([1, -2]), Var(np.array([1, 2**40]))]


def test_constants_keep_types_shapes_and_order(tmp_path: Path) -> None:
    path = tmp_path / "values"
    expr.save(values(), str(path))
    found = expr.load_as_list(str(path))
    for got, want in zip(found, values(), strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.read(), want.read())
    assert next(iter(expr.load_as_dict(str(path)))) == "weight"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError):
        expr.load_as_list(str(path))


@pytest.mark.parametrize("form", ["NHWC4", "UNKNOWN"])
def test_an_order_of_axes_that_vars_do_not_have(form: str, tmp_path: Path) -> None:
    main = {"dataFormat": form, "dims": np.array([2], np.int32), "float32s": np.array([1, 2], np.float32)}
    op = {"type": "Const", "name": "a", "outputIndexes": [0], "main_type": "Blob", "main": main}
    (tmp_path / "a.mnn").write_bytes(wire.write({"oplists": [op], "tensorName": ["a"], "outputName": ["a"]}))
    (found,) = expr.load_as_list(str(tmp_path / "a.mnn"))
    np.testing.assert_array_equal(found.read(), [1, 2])


def test_names_of_parts_may_be_equal(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = 2
            self.a, self.b = nn.linear(2, 3), nn.linear(3, 2)
            self.a.scale, self.b.scale = Var([1.0]), Var([2.0])

    net = Net()
    expr.save(net.parameters, str(tmp_path / "net"))
    other = Net()
    other.load_parameters(expr.load_as_list(str(tmp_path / "net")))
    for one, two in zip(net.parameters, other.parameters, strict=True):
        np.testing.assert_array_equal(one.read(), two.read())


@needs_mnn
def test_mnn_reads_and_writes_the_same(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    first = values()[:3]
    expr.save([*first, Var([3, 4])], str(mine))
    done = subprocess.run([PYTHON, "-c", PROGRAM, str(mine), str(theirs)], capture_output=True, text=True, check=False)
    assert theirs.exists(), done.stderr
    found = expr.load_as_list(str(theirs))
    np.testing.assert_array_equal(found[0].read(), [1, -2])
    np.testing.assert_array_equal(found[1].read(), first[0].read())
