"""Processes that fork: a child can load models and run sessions, those that it has from its parent, too."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest
from engine_oracle import f32, model_of

import minnow
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

X = np.random.default_rng(0).standard_normal((1, 32, 40, 40)).astype(np.float32)


def layers() -> bytes:
    rng = np.random.default_rng(1)
    graph = Graph()
    y = graph.add_param(f32(1, 32, 40, 40))
    b = Builder(graph)
    for _ in range(3):
        w = (rng.standard_normal((32, 32, 3, 3)) / 17).astype(np.float32)
        y = b.Relu(b.Conv(y, w, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)))
    graph.outputs = [y]
    return encode(model_of(graph))


FILE = layers()


def run(session: minnow.Session) -> bytes:
    return session.run({"in0": X})["out0"].tobytes()


def in_child(work: Callable[[], bool]) -> bool:
    """What a forked child answers, within a minute."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            threading.Timer(60, os._exit, (2,)).start()
            code = 0 if work() else 3
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"the child has ended with the status {status}"
    return True


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_before_and_after_load_and_run(threads: int) -> None:
    """Children of three kinds: before the model is loaded, before the session has run, and after it."""
    want = run(minnow.load(FILE, threads=1))
    assert in_child(lambda: run(minnow.load(FILE, threads=threads)) == want)
    model = minnow.Model(FILE)
    assert in_child(lambda: run(model.session(threads=threads)) == want)
    session = model.session(threads=threads)
    assert in_child(lambda: run(session) == want)
    assert run(session) == want
    assert in_child(lambda: run(session) == want and run(model.session(threads=threads)) == want)
    assert run(session) == want  # the parent goes on


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_while_others_run() -> None:
    """Sessions in other threads are in the middle of a run: the child uses its own."""
    want = run(minnow.load(FILE, threads=1))
    model = minnow.Model(FILE)
    over = threading.Event()

    def work() -> None:
        session = model.session(threads=2)
        while not over.is_set():
            run(session)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        assert all(in_child(lambda: run(minnow.load(FILE, threads=2)) == want) for _ in range(5))
    finally:
        over.set()
        for worker in workers:
            worker.join()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("threads", [1, 2])
def test_sixteen_sessions_give_the_bits_of_one(threads: int) -> None:
    want = run(minnow.load(FILE, threads=1))
    model = minnow.Model(FILE)
    found: list[set[bytes]] = [set() for _ in range(16)]
    start = threading.Barrier(16)

    def work(number: int) -> None:
        start.wait()
        session = model.session(threads=threads)
        for _ in range(4):
            found[number].add(run(session))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [{want}] * 16
