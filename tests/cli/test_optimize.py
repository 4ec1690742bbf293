"""What a conversion shows of itself, and `mnnconvert optimize`: numbers before and after, and what each pass did."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import minnow
from minnow.optimizer.effect import effect_of
from minnow.schema.ir import Model
from minnow.schema.ir.graph import State
from minnow.schema.ir.text import parse
from minnow.schema.mnn import save
from tests.cli.test_cli import DIGITS, run


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """A .mnn file that was not optimized."""
    path = tmp_path_factory.mktemp("plain") / "plain.mnn"
    minnow.convert(DIGITS, output=path, optimize=0, verify=False)
    return path


def test_convert_shows_before_and_after(tmp_path):
    done = run("convert", DIGITS, "-o", tmp_path / "d.mnn", "--no-verify")
    assert done.returncode == 0, done.stderr
    rows = {line.split("  ")[0].strip(): line.split() for line in done.stdout.splitlines()}
    rows |= {line.strip().split("  ")[0]: line.split() for line in done.stdout.splitlines()}
    assert rows["nodes"][1:] == ["18", "11", "-39%"]
    assert rows["Relu"][1:] == ["4", "0", "-100%"]
    assert "Conv" not in rows  # as many as before
    assert rows["multiply-accumulates"][-1] == "="
    assert "64 for other dynamic dimensions" in done.stdout  # its batch is open


def test_quiet_shows_nothing(tmp_path):
    for command in ("convert", "optimize"):
        done = run(command, DIGITS, "-o", tmp_path / f"{command}.mnn", "-q", "--stats")
        assert (done.returncode, done.stdout) == (0, "")


def test_stats_are_sorted_by_time_and_count_nodes(tmp_path):
    text = run("convert", DIGITS, "-o", tmp_path / "d.mnn", "--no-verify", "--stats").stdout
    lines = text[text.index("nodes removed") :].splitlines()[2:]
    times = [float(line.split()[-1]) for line in lines]
    assert times == sorted(times, reverse=True)
    assert next(line.split()[1:4] for line in lines if line.startswith("fuse_conv_bn ")) == ["4", "4", "4"]
    report = json.loads(run("convert", DIGITS, "-o", tmp_path / "d.mnn", "--no-verify", "--format", "json").stdout)
    removed = sum(s["removed"] for s in report["statistics"].values())
    assert removed == sum(report["nodes_before"].values()) - sum(report["nodes_after"].values())
    assert report["before"]["nodes"] == report["nodes_before"]
    assert report["after"]["nodes"] == report["nodes_after"]


def test_optimize_a_file_again(plain, tmp_path):
    done = run("optimize", plain, "-o", tmp_path / "o.mnn", "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["framework"] == "mnn"
    assert report["verification"]["passed"]
    assert report["verification"]["reference"] == "the engine"
    assert report["after"]["nodes"]["Linear"] == 1
    assert sum(report["nodes_after"].values()) < sum(report["nodes_before"].values())
    x = {"image": np.random.default_rng(0).random((3, 1, 8, 8), np.float32)}
    want, got = (minnow.load(p).run(x)["probability"] for p in (plain, tmp_path / "o.mnn"))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    direct = tmp_path / "direct.mnn"
    minnow.convert(DIGITS, output=direct, verify=False)
    assert report["nodes_after"] == json.loads(run("inspect", direct, "--format", "json").stdout)["nodes"]


def test_optimize_takes_other_formats(tmp_path):
    done = run("optimize", DIGITS, "-o", tmp_path / "o.mnn")
    assert done.returncode == 0, done.stderr
    assert "against onnxruntime" in done.stdout
    assert "multiply-accumulates" in done.stdout


def test_optimize_refuses(plain, tmp_path):
    assert run("optimize", plain, "-o", plain).returncode == 2  # itself
    assert run("optimize", plain).returncode == 2
    (tmp_path / "bad.mnn").write_bytes(plain.read_bytes()[:500])
    done = run("optimize", tmp_path / "bad.mnn", "-o", tmp_path / "o.mnn")
    assert done.returncode == 6
    assert not (tmp_path / "o.mnn").exists()
    done = run("convert", plain, "-o", tmp_path / "o.mnn", "--batch", "3")
    assert done.returncode == 2
    assert "batch" in done.stderr


def test_a_file_that_remembers_goes_on_to(tmp_path):
    graph = parse("""
        graph g(%x: f32[1,4], %s: f32[1,4]) {
          %a: f32[1,4] = Mul(%x, f32[](1.0))
          %y: f32[1,4] = Add(%a, %s)
          %t: f32[1,4] = Exp(%y)
          return %y, %t
        }
    """)
    ports = [[(n, v.type) for n, v in zip(names, values, strict=True)] for names, values in
             ((("x", "s"), graph.params), (("y", "t"), graph.outputs))]  # fmt: skip
    model = Model(graph, *ports, states=[State("s", "t", np.zeros((1, 4), np.float32))])
    save(model, tmp_path / "m.mnn")
    report = minnow.convert(tmp_path / "m.mnn", output=tmp_path / "o.mnn")
    assert report.verification is not None
    assert report.verification.passed
    assert report.nodes_after == {"Add": 1, "Exp": 1}
    sessions = [minnow.load(tmp_path / n) for n in ("m.mnn", "o.mnn")]
    x = {"x": np.full((1, 4), 0.5, np.float32)}
    first, second = ([s.run(x)["y"] for s in sessions] for _ in range(2))
    np.testing.assert_array_equal(*first)
    np.testing.assert_array_equal(*second)
    assert not np.array_equal(first[0], second[0])


def test_effect_counts_traffic_and_what_is_alive():
    graph = parse("""
        graph g(%x: f32[4,8]) {
          %a: f32[4,8] = Exp(%x)
          %b: f32[32] = Reshape(%a, i64[1](32))
          %c: f32[8,4] = Transpose(%a) {perm=(1, 0)}
          %d: f32[32] = Neg(%b)
          %e: f32[8,2] = MatMul(%c, f32[4,2](1, 2, 3, 4, 5, 6, 7, 8))
          return %d, %e
        }
    """)
    effect = effect_of(graph)
    block = 4 * 32
    assert effect.macs == 8 * 2 * 4
    # Exp, Transpose and Neg read and write a block each, the view nothing; the product reads a block and 8 numbers.
    assert effect.bytes == 6 * block + (block + 32) + 64
    assert effect.moved_bytes == block
    assert effect.weight_bytes == 32 + 8
    # The result of Exp lives as %b until Neg has run; beside it %c and %d.
    assert effect.peak_bytes == 3 * block
    assert not effect.guessed


def test_effect_guesses_open_extents_and_looks_into_loops():
    graph = parse("""
        graph g(%x: f32[N,T,8]) {
          %y: f32[N,T,2] = MatMul(%x, f32[8,2](1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8))
          return %y
        }
    """)
    effect = effect_of(graph)
    assert effect.guessed
    assert effect.macs == 64 * 8 * 2
    assert effect.peak_bytes == 4 * (64 * 8 + 64 * 2)
