"""A device that computes with the CPU's kernels, late and in memory that the host must not touch, gives the CPU's bits:
whatever it runs of a model, and whatever is left to the CPU."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from e2e.shared_models import SHARED, needs_models
from engine_oracle import f32, graph_of, model_of, normal
from fake import assert_same_bits, build, open_on
from graph_grower import grown
from llm.small_llama import Llama

import minnow
from minnow.llm.model import LanguageModel
from minnow.schema.errors import DeviceError, MinnowError, UsageError
from minnow.schema.ir import DType, Graph, Model, State, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder, Op, Trait, all_ops

ROOT = Path(__file__).parents[3]
OPS = [op for op in all_ops() if Trait.CONTROL_FLOW not in op.traits and op.name not in ("Raw", "Fail")]
CONV = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}


def feeds_of(graph: Graph, arrays: list) -> dict:
    return {f"in{i}": a for i, a in enumerate(arrays)}


def check_op(op: Op, cases: list) -> None:
    for number, sample in enumerate(cases):
        n = len(sample.inputs)
        for first_constant in sorted({n, min(n, 1)}):
            graph, arrays = graph_of(op, sample, first_constant)
            if not arrays:
                continue
            data, feeds = encode(model_of(graph)), feeds_of(graph, arrays)
            want, session = open_on(data, "cpu"), open_on(data, "fake")
            for run in range(3):  # the second is recorded, the third replayed; random ops go on
                assert_same_bits(session.run(feeds), want.run(feeds), f"{op.name}, sample {number}, run {run}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_a_sample_of_each_op(fake, op: Op) -> None:
    check_op(op, list(islice(op.cases(), 1)))


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=str)
def test_all_samples_of_each_op(fake, op: Op) -> None:
    check_op(op, list(op.cases()))


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(s, marks=pytest.mark.slow) for s in range(12, 150))])
def test_random_graphs_with_half_of_the_ops(fake, seed: int) -> None:
    fake.setenv("MINNOW_FAKE_OPS", str(seed))
    fake.setenv("MINNOW_FAKE_DELAY", str(50 * (seed % 3)))
    grower = grown(seed, 6 + seed % 20)
    data = encode(model_of(grower.graph))
    want, session = open_on(data, "cpu"), open_on(data, "auto" if seed % 2 else "fake:1")
    for run in range(3):
        feeds = feeds_of(grower.graph, [normal(grower.rng, *a.shape) for a in grower.inputs] if run else grower.inputs)
        assert_same_bits(session.run(feeds), want.run(feeds), f"graph {seed}, run {run}")


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize("ops", ["all", "1", "2", "3", "4"])
@pytest.mark.parametrize(
    "path",
    sorted(p for p in SHARED.rglob("*.*") if p.suffix in (".onnx", ".tflite") and p.stat().st_size < 40e6),
    ids=lambda p: p.stem,
)
def test_real_models(fake, path: Path, ops: str, tmp_path: Path) -> None:
    fake.setenv("MINNOW_FAKE_OPS", ops)
    minnow.convert(path, output=tmp_path / "m.mnn", verify=False)
    want, session = open_on(tmp_path / "m.mnn", "cpu"), open_on(tmp_path / "m.mnn", "fake")
    for size in (64, 96):
        rng = np.random.default_rng(size)
        feeds = {i.name: _random(rng, i, size) for i in want.inputs}
        for run in range(3):  # the states of a streaming model go on
            try:
                expected = want.run(feeds)
            except MinnowError as error:  # sizes that do not fit
                with pytest.raises(type(error), match=re.escape(str(error))):
                    session.run(feeds)
                continue
            assert_same_bits(session.run(feeds), expected, f"{path.name} with {ops}, run {run}")


def _random(rng: np.random.Generator, info, size: int):
    shape = [d if isinstance(d, int) and d >= 0 else size if k else 1 for k, d in enumerate(info.shape)]
    if np.dtype(info.dtype).kind == "f":
        return rng.standard_normal(shape).astype(info.dtype)
    return rng.integers(0, 2, shape).astype(info.dtype)


def two_branches() -> tuple[bytes, dict]:
    """A convolution, and beside it ops of which the device gets none; then both together."""
    rng = np.random.default_rng(0)
    graph = Graph()
    x = graph.add_param(f32(1, 5, 7, 9))
    b = Builder(graph)
    host = b.Cos(b.Sin(x))
    device = b.Conv(b.Conv(x, normal(rng, 5, 5, 3, 3), **CONV), normal(rng, 5, 5, 3, 3), **CONV)
    graph.outputs = [b.Mul(host, device)]
    return encode(model_of(graph)), {"in0": normal(rng, 1, 5, 7, 9)}


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_lie_in_their_concatenation_without_what_the_device_allocates_behind_them(fake, axis: int) -> None:
    fake.setenv("MINNOW_FAKE_OPS", "Conv,Concat")
    rng = np.random.default_rng(2)
    graph = Graph()
    x = graph.add_param(f32(1, 16, 10, 12))
    b = Builder(graph)
    parts = [b.Conv(x, normal(rng, 16, 16, 3, 3), **CONV) for _ in range(3)]
    graph.outputs = [b.Concat(*parts, axis=axis), parts[1]]
    data, feeds = encode(model_of(graph)), {"in0": normal(rng, 1, 16, 10, 12)}
    for threads in (1, 2):
        want = open_on(data, "cpu", threads).run(feeds)
        assert_same_bits(open_on(data, "fake", threads).run(feeds), want, f"{threads} threads")


def test_the_host_works_while_the_device_does(fake) -> None:
    fake.setenv("MINNOW_FAKE_OPS", "Conv")
    data, feeds = two_branches()
    session = open_on(data, "fake")
    assert_same_bits(session.run(feeds), open_on(data, "cpu").run(feeds), "two branches")
    order = [row["op"] for row in session.profile(feeds, runs=1)]
    assert order.index("Conv") < order.index("Sin") if "Sin" in order else order.index("Conv") < order.index("Fused"), (
        order
    )
    assert order.index("Download") < order.index(next(op for op in order if op in ("Sin", "Cos", "Fused"))), order


def test_runs_are_recorded_and_replayed_until_a_shape_changes(fake, tmp_path: Path) -> None:
    fake.setenv("MINNOW_FAKE_LOG", str(tmp_path / "log"))
    rng = np.random.default_rng(1)
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, ("n", 5, 7, 9)))
    b = Builder(graph)
    graph.outputs = [b.Conv(b.Sigmoid(b.Conv(x, normal(rng, 5, 5, 3, 3), **CONV)), normal(rng, 6, 5, 3, 3), **CONV)]
    data = encode(model_of(graph))
    want, session = open_on(data, "cpu"), open_on(data, "fake")
    replays = []
    for n in (1, 1, 1, 2, 2, 2, 1, 1, 1):
        (tmp_path / "log").write_text("")
        feeds = {"in0": normal(rng, n, 5, 7, 9)}
        assert_same_bits(session.run(feeds), want.run(feeds), f"batch {n}")
        replays.append((tmp_path / "log").read_text().count("replay"))
    assert replays == [0, 1, 1] * 3


def test_a_host_that_touches_the_memory_of_the_device_dies(fake) -> None:
    """Without which the other tests would not show that the host keeps off it."""
    data, _ = two_branches()
    code = (
        "import sys, numpy as np; from fake import open_on; from pathlib import Path\n"
        "open_on(sys.stdin.buffer.read(), 'fake').run({'in0': np.ones((1, 5, 7, 9), np.float32)})"
    )
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    for touch, ends in (("", 0), ("1", -signal.SIGSEGV)):
        env = {**os.environ, "MINNOW_FAKE_TOUCH": touch, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", code], input=data, env=env, capture_output=True, check=False)
        assert done.returncode == ends, done.stderr.decode()


def test_an_error_of_a_kernel_comes_from_the_device(fake) -> None:
    fake.setenv("MINNOW_FAKE_DELAY", "200")
    graph = Graph()
    x, i = graph.add_param(f32(4, 3)), graph.add_param(TensorType(DType.I64, (2,)))
    b = Builder(graph)
    graph.outputs = [b.Relu(b.Gather(x, i, axis=0))]
    data = encode(model_of(graph))
    feeds = {"in0": np.ones((4, 3), np.float32), "in1": np.array([1, 9])}
    errors = []
    for device in ("cpu", "fake"):
        session = open_on(data, device)
        with pytest.raises(MinnowError) as caught:
            session.run(feeds)
        errors.append((type(caught.value), str(caught.value)))
        feeds_fit = feeds | {"in1": np.array([1, 3])}
        assert session.run(feeds_fit)  # and the next run is well
    assert errors[0] == errors[1]


def test_devices_that_are_not_there(fake) -> None:
    data, _ = two_branches()
    with pytest.raises(DeviceError, match=r"'fake:7'.*this machine has 2.*Available here: cpu, fake:0, fake:1"):
        open_on(data, "fake:7")
    with pytest.raises(DeviceError, match=r"'metal'.*libminnow_metal\.so.*Available here: cpu, fake"):
        open_on(data, "metal")
    for name in ("gpu!", "CUDA", "cpu:1", "cuda:x", "../fake"):
        with pytest.raises(UsageError, match="is no device"):
            open_on(data, name)


def test_a_device_starts_while_the_file_is_read(fake) -> None:
    code = """if True:
        import sys, time, minnow
        from minnow.schema.errors import DeviceError, FormatError
        try:
            minnow.load(b"no model", device="fake")
        except FormatError:
            data = sys.stdin.buffer.read()
        for _ in range(1000):
            try:
                minnow.load(data, device="metal")
            except DeviceError as error:
                if "fake:0" in str(error):  # open, and so its devices are counted
                    break
            time.sleep(0.01)
        else:
            sys.exit("the device was not started")
    """
    data, _ = two_branches()
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_auto_without_devices_is_the_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MINNOW_BACKENDS", str(tmp_path))
    data, feeds = two_branches()
    assert_same_bits(open_on(data, "auto").run(feeds), open_on(data, "cpu").run(feeds), "auto")


@pytest.mark.slow
def test_a_library_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = build(tmp_path, version="0.0.1")
    code = "import minnow.runtime._engine as e, sys; e.load_bytes(sys.stdin.buffer.read()).session(1, 0, device='fake')"
    env = {**os.environ, "MINNOW_BACKENDS": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], input=two_branches()[0], env=env, capture_output=True, check=False
    )
    assert "belongs to Minnow 0.0.1" in done.stderr.decode()


SUITES = [
    "run",
    "plan",
    "decode",
    "fuse",
    "model",
    "api/test_session.py",
    "api/test_sequence.py",
    "test_random_graphs.py",
]
# What looks at the CPU's memory, at its plan or at its packed weights.
OF_THE_CPU = ["test_allocation", "test_packed_weights", "test_groups", "test_memory_plan", "test_pipeline"]
OF_THE_CPU += ["test_elementwise_programs"]
# What counts nodes that are fused, ends within a node (a device's runs end between them), or counts the CPU's bytes: a
# device copies caches within its memory, and packs no weights.
NOT_THERE = ["test_a_product_with_two_readers_is_kept", "test_a_long_node_ends_in_time"]
NOT_THERE += ["test_a_step_copies_no_cache", "test_packed_weights_count_for_all_sessions_of_a_model"]
NOT_THERE += ["test_bytes_are_those_of_the_reference", "test_one_node_computes_them_all"]
NOT_THERE += ["test_a_chain_is_one_step_without_memory_of_its_own", "test_no_path_leaves_a_step_and_comes_back"]
NOT_THERE += ["test_what_is_read_between_them_ends_a_chain", "test_the_first_operand_gives_its_memory_to_the_result"]


@pytest.mark.slow
@pytest.mark.parametrize("ops", ["all", "5"])
@pytest.mark.parametrize("suite", SUITES)
def test_the_tests_of_the_engine_pass_on_the_device(fake, suite: str, ops: str) -> None:
    env = {**os.environ, "MINNOW_FAKE_OPS": ops, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "on_fake_device", f"tests/runtime/{suite}", "-m", "not slow"]
        + ["-k", " and ".join(f"not {name}" for name in NOT_THERE)]
        + [f"--ignore-glob=*{name}.py" for name in OF_THE_CPU],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]


def accumulating() -> bytes:
    """total = 3/4 total + sin x, count = count + 1, y = total / count."""
    graph = Graph()
    count = graph.add_param(f32(), "count")
    x = graph.add_param(f32(2, 9), "x")
    total = graph.add_param(f32(2, 9), "total")
    b = Builder(graph)
    new_count = b.Add(count, np.float32(1))
    new_total = b.Add(b.Mul(total, np.float32(0.75)), b.Sin(x))
    graph.outputs = [new_total, b.Div(new_total, new_count), new_count]
    names = ["total_out", "y", "count_out"]
    return encode(
        Model(
            graph,
            [(p.name, p.type) for p in graph.params],
            [(n, v.type) for n, v in zip(names, graph.outputs, strict=True)],
            states=[
                State("total", "total_out", np.full((2, 9), 0.5, np.float32)),
                State("count", "count_out", np.zeros((), np.float32)),
            ],
        )
    )


def test_states_stay_on_the_device(fake, tmp_path: Path) -> None:
    log = tmp_path / "log"
    fake.setenv("MINNOW_FAKE_LOG", str(log))
    rng, data = np.random.default_rng(7), accumulating()
    want, session = open_on(data, "cpu"), open_on(data, "fake")
    copies = []

    def step() -> None:
        log.write_text("")
        feeds = {"x": normal(rng, 2, 9)}
        assert_same_bits(session.run(feeds), want.run(feeds), "a step")
        copies.append((log.read_text().count("upload"), log.read_text().count("download")))

    for _ in range(4):
        step()
    assert copies == [(3, 1), (1, 1), (1, 1), (1, 1)]  # at first the states, too
    assert_same_bits(session.states, want.states, "states")
    step()  # the host may have changed them
    step()
    assert copies[4:] == [(3, 1), (1, 1)]
    kept = session.states
    for each in (session, want):
        each.profile({"x": normal(np.random.default_rng(1), 2, 9)}, runs=2)
    step()
    for reset in (None, {"total": np.ones((2, 9), np.float32)}, kept):
        for each in (session, want):
            each.reset(reset)
        step()
        step()
        assert_same_bits(session.states, want.states, f"reset to {reset}")


@pytest.mark.parametrize("ops", ["PagedAttention", "all"])
def test_caches_of_a_language_model_stay_on_the_device(fake, tmp_path: Path, ops: str) -> None:
    """They are written in place; their copies on the device are recorded."""
    log = tmp_path / "log"
    fake.setenv("MINNOW_FAKE_LOG", str(log))
    fake.setenv("MINNOW_FAKE_OPS", ops)
    llama = Llama.random(layers=2)
    model = LanguageModel(open_on(encode(llama.model(DType.F32)), "fake"), llama.description(), cache="f32")
    tokens, sequence, copies = [5, 3, 59, 0, 7, 7], model.sequence(), []
    want = llama.logits(tokens)
    for i, token in enumerate(tokens):
        log.write_text("")
        got = model.step([([token], sequence, 1)])
        np.testing.assert_allclose(got, want[i : i + 1], atol=2e-4 * np.abs(want).max())
        copies.append([log.read_text().count(what) for what in ("upload", "download", "copy")])
        if ops == "all" and i > 0:
            assert " run" not in log.read_text()  # everything is recorded
    assert [copy for _, _, copy in copies] == [8, 0, 0, 0, 0, 0]
    assert copies[1:] == [copies[1]] * 5
    if ops == "PagedAttention":
        assert copies[0][:2] == [copies[1][0] + 4, copies[1][1]]


@pytest.mark.parametrize("ops", ["Sin", "Add,Mul", "Div", "Add,Mul,Div"])
def test_states_that_host_and_device_use(fake, ops: str) -> None:
    fake.setenv("MINNOW_FAKE_OPS", ops)
    rng, data = np.random.default_rng(7), accumulating()
    want, session = open_on(data, "cpu"), open_on(data, "fake")
    for _ in range(4):
        feeds = {"x": normal(rng, 2, 9)}
        assert_same_bits(session.run(feeds), want.run(feeds), ops)
    assert_same_bits(session.states, want.states, ops)


def test_a_model_of_states_and_sizes(fake) -> None:
    """Reshape to a size that only the run knows: the plan goes on in stages, which meet on the host."""
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, ("n", 6)))
    b = Builder(graph)
    kept = b.Compress(x, b.Greater(b.ReduceSum(x, axes=(1,), keepdims=False), np.float32(0)), axis=0)
    graph.outputs = [b.Relu(b.Add(kept, 1.0)), b.Sigmoid(x)]
    data = encode(Model(graph, [("in0", x.type)], [(f"out{i}", v.type) for i, v in enumerate(graph.outputs)]))
    rng = np.random.default_rng(3)
    for ops in ("all", "Compress,Relu", "Greater,Sigmoid,Add"):
        fake.setenv("MINNOW_FAKE_OPS", ops)
        want, session = open_on(data, "cpu"), open_on(data, "fake")
        for n in (1, 4, 4, 9, 4):
            feeds = {"in0": normal(rng, n, 6)}
            assert_same_bits(session.run(feeds), want.run(feeds), f"{n} rows, {ops}")
