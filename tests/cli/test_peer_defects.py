"""What tools for such files get wrong: exit statuses, malformed options, files that differ, calls to a server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RUN = [sys.executable, "-c", "from minnow.cli import main; main()"]


def save(path: Path, op: str = "Relu") -> Path:
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3, 8, 8]) for n in "xy"]
    weights = numpy_helper.from_array(np.random.default_rng(0).standard_normal((3, 3, 3, 3)).astype(np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4), helper.make_node(op, ["a"], ["y"])]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *map(str, arguments)], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ([], 2),
        (["convert"], 2),
        (["convert", "{missing}"], 6),
        (["convert", "{broken}"], 6),
        (["convert", "{unknown}"], 3),
        (["convert", "{good}", "-O", "7"], 2),
        (["convert", "{good}", "-O", "2x"], 2),
        (["convert", "{good}", "--no-such-option"], 2),
        (["convert", "{good}", "--input", "x=1x3x8xq"], 2),
        (["convert", "{good}", "--input", "x=1x3x-8x8"], 2),
        (["convert", "{good}", "--passes", "no_such_pass"], 2),
        (["convert", "{good}", "-o", "{missing}/out.mnn"], 2),
        (["convert", "{good}", "surplus"], 2),
        (["convert", "{good}"], 0),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else str(v),
)
def test_the_exit_status_says_what_happened(arguments: list[str], status: int, tmp_path: Path) -> None:
    files = {
        "good": save(tmp_path / "good.onnx"),
        "unknown": save(tmp_path / "unknown.onnx", "NoSuchOperator"),
        "broken": tmp_path / "broken.onnx",
        "missing": tmp_path / "missing.onnx",
    }
    files["broken"].write_bytes(files["good"].read_bytes()[:200])
    done = run(*(a.format(**files) for a in arguments))
    assert done.returncode == status, done.stderr
    written = sorted(p.name for p in tmp_path.iterdir() if ".mnn" in p.name)
    assert written == (["good.mnn"] if status == 0 else [])
    assert (status == 0) or done.stderr.strip()


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    source = save(tmp_path / "m.onnx")
    made = []
    for seed in ("0", "1"):
        target = tmp_path / f"{seed}.mnn"
        assert run("convert", source, "-o", target, PYTHONHASHSEED=seed).returncode == 0
        made.append(target.read_bytes())
    assert made[0] == made[1]


def test_nothing_asks_for_the_network(tmp_path: Path) -> None:
    source = save(tmp_path / "m.onnx")
    script = f"""
import socket
def refuse(*arguments, **more):
    raise SystemExit("something asked for the network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
import minnow
import minnow.convert, minnow.runtime
minnow.convert({str(source)!r}, verify=False)
minnow.load({str(source.with_suffix(".mnn"))!r})
"""
    assert socket.socket.connect is not None
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
