"""The work grows with the model, not with its square: counted in attempts of rules, and timed with much room."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import onnx
import pytest

from minnow.converter import read
from minnow.optimizer import optimize
from minnow.optimizer.rewrite import Trace, changed_by
from minnow.schema.ir import Graph, Model
from minnow.schema.mnn import encode

_FILE = Path(__file__).parents[2] / "bench" / "scale.py"
_SPEC = importlib.util.spec_from_file_location("bench_scale", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
scale: Any = importlib.util.module_from_spec(_SPEC)
sys.modules["bench_scale"] = scale
_SPEC.loader.exec_module(scale)


def _model(kind: str, n: int, folder: Path) -> Model:
    net = scale.Net()
    scale.KINDS[kind](net, n)
    onnx.save(net.model(), str(folder / "m.onnx"))
    return read(folder / "m.onnx")


def _nodes(graph: Graph) -> int:
    return sum(len(g) for g in graph.walk())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", scale.KINDS)
def test_attempts_grow_with_the_nodes(kind: str, tmp_path: Path) -> None:
    per_node = []
    for n in (200, 1600):
        model = _model(kind, n, tmp_path)
        nodes, log = _nodes(model.graph), Trace()
        optimize(model, log=log)
        per_node.append(sum(s.tries for s in log.statistics.values()) / nodes)
    assert per_node[1] < 1.3 * per_node[0] + 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", scale.KINDS)
def test_time_grows_with_the_nodes(kind: str, tmp_path: Path) -> None:
    encode_small = _model(kind, 100, tmp_path)
    optimize(encode_small)
    encode(encode_small)
    seconds = []
    for n in (1000, 8000):
        begin = time.process_time()
        model = _model(kind, n, tmp_path)
        optimize(model)
        encode(model)
        seconds.append(time.process_time() - begin)
    # n log n is 8 * 1.3; the square would be 64.
    assert seconds[1] < 20 * seconds[0]


def test_origins_name_a_rule_once() -> None:
    origin = "onnx:a"
    for _ in range(3):
        origin = changed_by(changed_by(origin, "fuse_views"), "fuse_transposes")
    assert origin == "onnx:a > fuse_views > fuse_transposes"
    assert changed_by("", "fuse_views") == "fuse_views"
