"""How time and memory grow with the number of nodes: every step from an ONNX file to a loaded engine.

    ./dev bench scale [KIND ...] [--sizes 1000,10000,100000] [--steps 8] [--json FILE]

Builds a model of each kind in each size, and runs each in a separate process: read, every line of the
optimizer's pipeline, write, load, first run. Prints processor time in seconds (independent of other load on the
machine), the peak memory beyond that at the start (MB), and the exponent e between sizes, where time grows as n^e; n
log n shows as 1.08 to 1.1. The exit code is 1 if a model takes longer than `--limit` from read to write, or more memory
than `--room` beyond its weights.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper, save

Builder = Callable[["Net", int], None]
KINDS: dict[str, Builder] = {}


def kind(function: Builder) -> Builder:
    """Registers what fills a net with about n nodes."""
    KINDS[function.__name__] = function
    return function


class Net:
    """An ONNX graph while it is built: nodes are called by operator, as in `net.Add(x, y)`."""

    def __init__(self, shape: tuple[int | str, ...] = (1, 8)) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[TensorProto] = []
        self.infos: list[Any] = []
        self.result = ""
        self._numbers = 0
        self.open(shape)

    def open(self, *shapes: tuple[int | str, ...]) -> list[str]:
        """The inputs of the model, in place of those before."""
        self.inputs = [
            helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)
        ]
        return [info.name for info in self.inputs]

    def name(self) -> str:
        self._numbers += 1
        return f"v{self._numbers}"

    def weight(self, array: Any, dtype: Any = np.float32) -> str:
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def normal(self, *shape: int) -> str:
        return self.weight(self.rng.standard_normal(shape) / math.sqrt(math.prod(shape[1:]) or 1))

    def __getattr__(self, op: str) -> Callable[..., Any]:
        if not op[:1].isupper():
            raise AttributeError(op)

        def make(*inputs: str, n: int = 1, **attrs: Any) -> Any:
            outputs = [self.name() for _ in range(n)]
            self.nodes.append(helper.make_node(op, inputs, outputs, name=f"{op}_{len(self.nodes)}", **attrs))
            self.result = outputs[0]
            return outputs[0] if n == 1 else outputs

        return make

    def tree(self, values: list[str]) -> str:
        """The sum of all, in a tree of additions."""
        while len(values) > 1:
            values = [
                self.Add(*values[i : i + 2]) if i + 1 < len(values) else values[i] for i in range(0, len(values), 2)
            ]
        return values[0]

    def graph(self, name: str = "main") -> GraphProto:
        output = helper.make_tensor_value_info(self.result, TensorProto.FLOAT, None)
        return helper.make_graph(self.nodes, name, self.inputs, [output], self.weights)

    def model(self) -> ModelProto:
        return helper.make_model(self.graph(), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@kind
def conv(net: Net, n: int) -> None:
    """Convolution, normalization, activation, and a sum every fourth block; all with the same few weights."""
    (x,) = net.open((1, 8, 6, 6))
    weights = [net.normal(8, 8, 3, 3) for _ in range(4)]
    ones, zeros = net.weight(np.ones(8)), net.weight(np.zeros(8))
    short = x
    for i in range(n // 3):
        x = net.Relu(net.BatchNormalization(net.Conv(x, weights[i % 4], pads=[1, 1, 1, 1]), ones, zeros, zeros, ones))
        if i % 4 == 3:
            x = short = net.Add(x, short)


@kind
def wide(net: Net, n: int) -> None:
    """Branches of one input that are added up: each a product, a sum and an activation."""
    (x,) = net.open((1, 8))
    net.tree([net.Relu(net.Add(net.Mul(x, net.normal(8)), net.normal(8))) for _ in range(n // 4)])


@kind
def transformer(net: Net, n: int) -> None:
    """Blocks of attention with its reshapes and transposes, and of normalization and GELU in small steps."""
    (x,) = net.open((1, 6, 8))
    heads = net.weight([0, 0, 2, 4], np.int64)
    merged = net.weight([0, 0, 8], np.int64)
    half, one, root, two, eps = (net.weight(v) for v in (0.5, 1, math.sqrt(2), 2, 1e-5))
    w = [net.normal(8, 8) for _ in range(4)]
    up, down, bias = net.normal(8, 16), net.normal(16, 8), net.normal(8)

    def norm(x: str) -> str:
        d = net.Sub(x, net.ReduceMean(x, axes=[-1]))
        return net.Mul(net.Div(d, net.Sqrt(net.Add(net.ReduceMean(net.Pow(d, two), axes=[-1]), eps))), bias)

    for _ in range(n // 45):
        y = norm(x)
        q, k, v = (net.Transpose(net.Reshape(net.Add(net.MatMul(y, m), bias), heads), perm=[0, 2, 1, 3]) for m in w[:3])
        a = net.Softmax(net.Div(net.MatMul(q, net.Transpose(k, perm=[0, 1, 3, 2])), two), axis=-1)
        y = net.MatMul(net.Reshape(net.Transpose(net.MatMul(a, v), perm=[0, 2, 1, 3]), merged), w[3])
        x = net.Add(x, y)
        y = net.MatMul(norm(x), up)
        y = net.Mul(net.Mul(y, net.Add(net.Erf(net.Div(y, root)), one)), half)
        x = net.Add(x, net.MatMul(y, down))


@kind
def elementwise(net: Net, n: int) -> None:
    """One chain of sums, products and functions."""
    (x,) = net.open((1, 8))
    c = [net.normal(8) for _ in range(5)]
    for i in range(n // 5):
        x = net.Tanh(net.Sub(net.Abs(net.Mul(net.Add(x, c[i % 5]), c[(i + 1) % 5])), x))


@kind
def shape(net: Net, n: int) -> None:
    """Reshapes to shapes computed from dynamic dimensions and from the shapes of other results."""
    (x,) = net.open(("N", 4, 6))
    zero, one, axes = net.weight(0, np.int64), net.weight(1, np.int64), net.weight([0], np.int64)
    rest = net.weight([-1], np.int64)
    for _ in range(n // 9):
        s = net.Shape(x)
        first, second = net.Gather(s, zero), net.Gather(s, one)
        product = net.Mul(first, second)
        target = net.Concat(net.Unsqueeze(product, axes), rest, axis=0)
        y = net.Tanh(net.Reshape(x, target))
        x = net.Reshape(y, s)


@kind
def control(net: Net, n: int) -> None:
    """Conditions and loops with bodies of a few nodes, which read what is around them."""
    (x,) = net.open((1, 8))
    zero, trip = net.weight(0), net.weight(3, np.int64)
    c = net.normal(8)
    for i in range(n // 10):
        condition = net.Greater(net.ReduceSum(x, keepdims=0), zero)
        branches = []
        for op in ("Tanh", "Abs"):
            body = Net()
            body.inputs, body._numbers = [], net._numbers = [], net._numbers + 10
            getattr(body, op)(body.Add(x, c))
            branches.append(body.graph(f"{op}{i}"))
        if i % 2:
            x = net.If(condition, then_branch=branches[0], else_branch=branches[1])
            continue
        body = Net()
        body._numbers = net._numbers = net._numbers + 10
        going, state = f"go{i}", f"s{i}"
        body.inputs = [
            helper.make_tensor_value_info(f"i{i}", TensorProto.INT64, []),
            helper.make_tensor_value_info(going, TensorProto.BOOL, []),
            helper.make_tensor_value_info(state, TensorProto.FLOAT, [1, 8]),
        ]
        result = body.Tanh(body.Sub(state, c))
        same = body.Identity(going)
        graph = body.graph(f"loop{i}")
        del graph.output[:]
        graph.output.append(helper.make_tensor_value_info(same, TensorProto.BOOL, []))
        graph.output.append(helper.make_tensor_value_info(result, TensorProto.FLOAT, [1, 8]))
        x = net.Loop(trip, "", x, body=graph)


@kind
def constants(net: Net, n: int) -> None:
    """As many constants as nodes, a third of them equal to others."""
    (x,) = net.open((1, 8))
    for i in range(n):
        x = net.Add(x, net.weight(np.arange(8) + i % max(1, 2 * n // 3)))


@kind
def readers(net: Net, n: int) -> None:
    """One value that all nodes read, and one node that reads all their results."""
    (x,) = net.open((1, 4))
    t = net.Tanh(x)
    ops = ("Add", "Mul", "Sub", "Max", "Min")
    made = [getattr(net, ops[i % 5])(t, net.weight(np.arange(4) + i)) for i in range(n)]
    net.Concat(*made, axis=1)


@kind
def outputs(net: Net, n: int) -> None:
    """A splitting into many parts, each with a node of its own."""
    (x,) = net.open((1, n))
    parts = net.Split(x, net.weight(np.ones(n // 2) * 2, np.int64), axis=1, n=n // 2)
    net.Concat(*[net.Tanh(p) for p in parts], axis=1)


@kind
def transposes(net: Net, n: int) -> None:
    """Transposes in many orders with elementwise nodes between them."""
    (x,) = net.open((2, 3, 1, 2, 3))
    c = net.normal(1)
    for _ in range(n // 4):
        x = net.Transpose(x, perm=[int(p) for p in net.rng.permutation(5)])
        x = net.Relu(net.Add(net.Tanh(x), c))


@kind
def layout(net: Net, n: int) -> None:
    """Poolings, which want channel blocks, among reductions, which do not, and elementwise nodes that take either."""
    (x,) = net.open((1, 8, 6, 6))
    c = net.normal(1, 8, 1, 1)
    short = x
    for i in range(n // 7):
        x = net.MaxPool(x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = net.Add(net.Tanh(x), c)
        y = net.Softmax(x, axis=-1)
        x = net.Tanh(net.Add(net.Mul(x, y), short))
        if i % 3 == 2:
            short = net.Sigmoid(x)


def measure(kind: str, n: int) -> dict[str, Any]:
    """Seconds and megabytes of each step for one model; run in a process of its own."""
    import minnow
    from minnow.converter import read
    from minnow.optimizer import optimize
    from minnow.optimizer.rewrite import Trace
    from minnow.runtime.session import Model
    from minnow.schema.mnn import save as write

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "m.onnx", Path(folder) / "m.mnn"
        for size in (50, n):  # a small one first: what is imported and parsed once is no part of the growth
            net = Net()
            KINDS[kind](net, size)
            proto = net.model()
            save(proto, str(source))
            if size < n:
                model = read(source)
                optimize(model)
                write(model, target)
                Model(target).session(1)
        proto = net.model()
        save(proto, str(source))
        bytes_ = sum(len(w.raw_data) for w in proto.graph.initializer)
        n_nodes = len(proto.graph.node)
        shapes = [[d.dim_value or 3 for d in i.type.tensor_type.shape.dim] for i in proto.graph.input]
        names = [i.name for i in proto.graph.input]
        del net, proto
        steps: dict[str, list[float]] = {}
        base = _resident()

        @contextmanager
        def step(name: str) -> Iterator[None]:
            _forget_peak()
            begin = time.process_time()
            yield
            add(name, begin)

        def add(name: str, begin: float) -> None:
            row = steps.setdefault(name, [0, 0])
            row[0] += time.process_time() - begin
            row[1] = max(row[1], (_peak() - base) / 1e6)

        with step("read"):
            model = read(source)
        begin = [time.process_time()]

        def checked(name: str, _: Any) -> None:
            add(name, begin[0])
            _forget_peak()
            begin[0] = time.process_time()

        log = Trace()
        summary = optimize(model, check=checked, log=log)
        add("(rest)", begin[0])
        with step("write"):
            write(model, target)
        whole, most = sum(row[0] for row in steps.values()), max(row[1] for row in steps.values())
        del model
        with step("load"):
            session = Model(target).session(1)
        with step("first run"):
            session.run({name: np.zeros(s, np.float32) for name, s in zip(names, shapes, strict=True)})
        return {
            "kind": kind, "n": n_nodes, "after": sum(summary.after.values()), "weights": bytes_, "steps": steps,
            "seconds": whole, "megabytes": most,
            "tries": {name: s.tries for name, s in log.statistics.items()}, "version": minnow.__version__,
        }  # fmt: skip


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _peak() -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text[text.index("VmHWM:") :].split()[1])


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _exponents(rows: list[dict[str, Any]], step: str) -> list[float]:
    """Of the growth of a step from one size to the next."""
    found = []
    for a, b in pairwise(rows):
        x, y = (r["steps"].get(step, [0])[0] if step else r["seconds"] for r in (a, b))
        found.append(math.log(y / x) / math.log(b["n"] / a["n"]) if x > 0 and y > 0 else math.nan)
    return found


def _table(rows: list[dict[str, Any]], most: int) -> str:
    last = rows[-1]["steps"]
    names = sorted(last, key=lambda name: -last[name][0])[:most]
    head = f"{rows[0]['kind']}: " + ", ".join(f"{r['n']} nodes -> {r['after']}" for r in rows)
    lines = [head, f"  {'step':24}" + "".join(f"{r['n']:>9} {'MB':>6}" for r in rows) + "  exponents"]
    total = ("read to write", [(r["seconds"], r["megabytes"]) for r in rows], _exponents(rows, ""))
    parts = [(name, [r["steps"].get(name, [0, 0]) for r in rows], _exponents(rows, name)) for name in names]
    for name, cells, exponents in [total, *parts]:
        numbers = "".join(f"{s:9.3f} {m:6.0f}" for s, m in cells)
        lines.append(f"  {name:24}{numbers}  " + " ".join(f"{e:5.2f}" for e in exponents))
    return "\n".join(lines)


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice(list(KINDS)))
@click.option("--sizes", default="1000,10000,100000", show_default=True)
@click.option("--steps", default=8, show_default=True, help="Of the steps so many, the slowest ones, are shown.")
@click.option("--limit", default=60.0, show_default=True, help="Seconds.")
@click.option("--room", default=2000.0, show_default=True, help="Megabytes.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for all that is measured.")
@click.option("--one", is_flag=True, hidden=True)
def main(
    kinds: tuple[str, ...], sizes: str, steps: int, limit: float, room: float, file: Path | None, one: bool
) -> None:
    numbers = [int(n) for n in sizes.split(",")]
    if one:
        print(json.dumps(measure(kinds[0], numbers[0])))
        return
    everything, above = [], []
    for name in kinds or KINDS:
        rows = []
        for n in numbers:
            command = [sys.executable, __file__, name, "--sizes", str(n), "--one"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5 * limit)
            except subprocess.TimeoutExpired:
                above.append(f"{name} {n}: more than {5 * limit:.0f} s")
                break
            if done.returncode:
                above.append(f"{name} {n}: {(done.stderr.splitlines() or [f'ended with {done.returncode}'])[-1]}")
                break
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            if rows[-1]["seconds"] > limit or rows[-1]["megabytes"] - rows[-1]["weights"] / 1e6 > room:
                above.append(f"{name} {n}: {rows[-1]['seconds']:.0f} s, {rows[-1]['megabytes']:.0f} MB")
                break
        if rows:
            print(_table(rows, steps), flush=True)
        everything += rows
    if file:
        file.write_text(json.dumps(everything, indent=1))
    if above:
        sys.exit("\n".join(["above the limits:", *above]))


if __name__ == "__main__":
    main()
