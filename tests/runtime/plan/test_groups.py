"""Branches side by side: the same bits as one step after the other, where it wins, and nowhere else."""

from __future__ import annotations

import time

import numpy as np
import pytest
from engine_oracle import Array, check, f32, normal, run, session_of

import minnow
from minnow.schema.ir import Graph, Value
from minnow.schema.ops import Builder


class Forks:
    """Random nets of branches from a fork to a join, which have branches of their own, and values that others read."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph()
        self.b = Builder(self.graph)
        self.channels = int(self.rng.choice([3, 8, 16, 17]))
        self.pixels = int(self.rng.choice([5, 7, 8, 13]))
        self.shape = (1, self.channels, self.pixels, self.pixels)
        self.params = [self.graph.add_param(f32(*self.shape)) for _ in range(2)]
        self.inputs = [normal(self.rng, *self.shape) for _ in self.params]
        self.seen = list(self.params)  # all of one shape
        ends = [self.fork(x, depth=2) for x in self.params]
        self.graph.outputs = [self.b.Add(*ends), self.seen[int(self.rng.integers(len(self.seen)))]]

    def conv(self, x: Value, size: int) -> Value:
        w = normal(self.rng, self.channels, self.channels, size, size) / np.float32(size * np.sqrt(self.channels))
        pad = size // 2
        return self.b.Conv(x, w, strides=(1, 1), pads=(pad,) * 4, dilations=(1, 1))

    def step(self, x: Value) -> Value:
        b, rng = self.b, self.rng
        made = [
            lambda: b.Relu(self.conv(x, 3)),
            lambda: self.conv(x, 1),
            lambda: b.Sigmoid(x),
            lambda: b.Mul(x, b.Sigmoid(x)),
            lambda: b.Add(x, self.seen[int(rng.integers(len(self.seen)))]),  # of another branch, perhaps
            lambda: b.MaxPool(x, kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)),
            lambda: b.Transpose(b.Transpose(x, perm=(0, 1, 3, 2)), perm=(0, 1, 3, 2)),
            lambda: b.MatMul(x, normal(rng, self.pixels, self.pixels) / np.float32(self.pixels)),
            lambda: b.Slice(b.Concat(b.Tanh(x), x, axis=1), *(np.array([i]) for i in (0, self.channels, 1, 1))),
        ]
        return made[int(rng.integers(len(made)))]()

    def fork(self, x: Value, depth: int) -> Value:
        ends = []
        for _ in range(int(self.rng.integers(2, 6))):
            y = x
            for _ in range(int(self.rng.integers(1, 5))):
                y = self.fork(y, depth - 1) if depth > 1 and self.rng.random() < 0.1 else self.step(y)
                if self.rng.random() < 0.2:
                    self.seen.append(y)
            ends.append(y)
        y = ends[0]
        for end in ends[1:]:
            y = self.b.Add(y, end)
        return y


def groups(session: minnow.Session, inputs: list[Array]) -> dict[int, set[int]]:
    """The chains of each group."""
    found: dict[int, set[int]] = {}
    for row in session.profile({f"in{i}": a for i, a in enumerate(inputs)}, 1):
        if row["group"]:
            found.setdefault(row["group"], set()).add(row["chain"])
    return found


@pytest.mark.parametrize("seed", range(80))
def test_random_branches(seed: int) -> None:
    """All runs give the bits that one thread gives, whichever chain comes first."""
    net = Forks(seed)
    alone, both = (session_of(net.graph, threads) for threads in (1, 2))
    check(net.graph, net.inputs, both, scale=50)
    for _ in range(3):
        inputs = [normal(net.rng, *net.shape) for _ in net.params]
        want = run(alone, inputs)
        for _ in range(10):
            for got, expected in zip(run(both, inputs), want, strict=True):
                np.testing.assert_array_equal(got.view(np.int32), expected.view(np.int32))
    assert not groups(alone, net.inputs)


def test_random_nets_do_have_groups() -> None:
    found = [groups(session_of(net.graph, 2), net.inputs) for net in map(Forks, range(20))]
    assert sum(map(bool, found)) > 10
    assert all(chains == set(range(1, len(chains) + 1)) and len(chains) > 1 for g in found for chains in g.values())


def towers(lengths: list[int], channels: int, pixels: int) -> tuple[Graph, list[Array]]:
    """A fork into branches of so many convolutions, and their sum."""
    rng = np.random.default_rng(1)
    graph = Graph()
    x = graph.add_param(f32(1, channels, pixels, pixels))
    b = Builder(graph)
    ends = []
    for n in lengths:
        y = x
        for _ in range(n):
            w = normal(rng, channels, channels, 3, 3) / np.float32(3 * np.sqrt(channels))
            y = b.Relu(b.Conv(y, w, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)))
        ends.append(y)
    graph.outputs = [b.Concat(*ends, axis=1)]
    return graph, [normal(rng, 1, channels, pixels, pixels)]


@pytest.mark.parametrize(
    ("lengths", "channels", "pixels", "chains"),
    [
        ([2, 2], 16, 8, 2),
        ([3, 3, 3], 16, 8, 3),
        ([3] * 16, 16, 8, 4),  # two for each thread
        ([12, 1], 16, 16, 0),  # one takes as long as both
        ([1], 16, 8, 0),
        ([2, 2], 64, 96, 0),  # each step keeps both threads busy
    ],
)
def test_where_it_wins(lengths: list[int], channels: int, pixels: int, chains: int) -> None:
    graph, inputs = towers(lengths, channels, pixels)
    found = groups(session_of(graph, 2), inputs)
    assert [len(c) for c in found.values()] == ([chains] if chains else [])


def test_chains_use_their_memory_again() -> None:
    """Only what runs at the same time needs memory of its own: longer branches need no more than short ones."""
    arena = {}
    for n in (3, 12):
        graph, inputs = towers([n] * 16, 16, 8)
        session = session_of(graph, 2)
        run(session, inputs)
        assert groups(session, inputs)
        arena[n] = session.stats["arena_bytes"]
    assert arena[12] <= arena[3] * 1.05


def test_profile_adds_up() -> None:
    """Steps that run at the same time share it: together they take no longer than the run."""
    graph, inputs = towers([4] * 8, 16, 16)
    session = session_of(graph, 2)
    start = time.perf_counter()
    rows = session.profile({"in0": inputs[0]}, 200)
    assert 0 < sum(row["ms"] for row in rows) <= 1e3 * (time.perf_counter() - start) / 200
    assert {row["group"] for row in rows if row["op"] == "Conv"} == {1}
