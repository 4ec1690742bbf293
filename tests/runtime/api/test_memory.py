"""Memory of sessions through the C API: arenas that several of them share, and allocators of the program."""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from capi import Options, Stats, Tensor, array_of, tensor
from engine_oracle import f32, model_of, normal

from minnow.runtime import _engine
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

OK, USAGE, UNSUPPORTED = 0, 2, 3
BOOL, I64 = TensorType(DType.BOOL, ()), TensorType(DType.I64, ())
WIDTH = 64


@pytest.fixture(scope="module")
def api() -> c.CDLL:
    library = c.CDLL(_engine.__file__)
    library.minnow_last_error.restype = c.c_char_p
    return library


def layers(depth: int) -> bytes:
    rng = np.random.default_rng(depth)
    graph = Graph()
    b = Builder(graph)
    x = y = graph.add_param(f32("n", WIDTH))
    for _ in range(depth):
        y = b.Softmax(b.MatMul(y, rng.standard_normal((WIDTH, WIDTH)).astype(np.float32)), axis=1)
    graph.outputs = [b.Add(x, y)]
    return encode(model_of(graph))


def found() -> bytes:
    """Shapes that the run finds: a stage is planned for each."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(f32("n", WIDTH))
    places = b.Cast(b.NonZero(b.Relu(x)), to=DType.F32)
    graph.outputs = [b.Mul(b.Exp(b.ReduceMean(places, axes=[1], keepdims=True)), places)]
    return encode(model_of(graph))


def looped() -> bytes:
    """A loop of three rounds, whose body has intermediate tensors while the graph around it has others."""
    body = Graph("body")
    d = Builder(body)
    _, go, state = (body.add_param(t) for t in (I64, BOOL, f32("n", WIDTH)))
    body.outputs = [d.Identity(go), d.Softmax(d.MatMul(state, np.eye(WIDTH, dtype=np.float32) * 3), axis=1)]
    graph = Graph()
    x, trips = graph.add_param(f32("n", WIDTH)), graph.add_param(I64)
    b = Builder(graph)
    before = b.Exp(x)
    (after,) = b.node("Loop", [trips, None, before], {"body": body, "num_carried": 1}, 1).outputs
    graph.outputs = [b.Add(b.Softmax(after, axis=0), before)]
    return encode(model_of(graph))


MODELS = {"shallow": lambda: layers(1), "deep": lambda: layers(3), "found": found, "loop": looped}


def opened(api: c.CDLL, data: bytes, **options: int | c.c_void_p) -> c.c_void_p:
    model, session = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == OK, api.minnow_last_error()
    created = api.minnow_create_session(model, c.byref(Options(threads=1, **options)), c.byref(session))
    api.minnow_free_model(model)
    assert created == OK, api.minnow_last_error()
    return session


def run(api: c.CDLL, session: c.c_void_p, *inputs: np.ndarray) -> np.ndarray:
    given, out = (Tensor * len(inputs))(*(tensor(x) for x in inputs)), Tensor()
    code = api.minnow_run(session, given, c.c_size_t(len(inputs)), c.byref(out), c.c_size_t(1))
    assert code == OK, api.minnow_last_error()
    return array_of(out)


def arena_bytes(api: c.CDLL, session: c.c_void_p) -> int:
    stats = Stats(c.sizeof(Stats))
    assert api.minnow_get_stats(session, c.byref(stats)) == OK
    return stats.arena


@pytest.fixture
def arena(api: c.CDLL) -> Iterator[c.c_void_p]:
    made = c.c_void_p()
    assert api.minnow_create_arena(c.byref(made)) == OK
    yield made
    api.minnow_free_arena(made)


def inputs_of(name: str, rng: np.random.Generator, most: int = 40) -> list[np.ndarray]:
    x = normal(rng, int(rng.integers(1, most)), WIDTH)
    return [x, np.array(3)] if name == "loop" else [x]


def test_sessions_with_one_arena_give_what_others_give(api: c.CDLL, arena: c.c_void_p) -> None:
    rng = np.random.default_rng(0)
    alone = {name: opened(api, make()) for name, make in MODELS.items()}
    shared = {name: opened(api, make(), arena=arena) for name, make in MODELS.items()}
    for k in range(60):
        name = str(rng.choice(list(MODELS)))
        inputs = inputs_of(name, rng, 4 + 4 * k)
        assert run(api, shared[name], *inputs).tobytes() == run(api, alone[name], *inputs).tobytes(), (k, name)
    of_its_own = {name: arena_bytes(api, session) for name, session in alone.items()}
    # The body of the loop has memory beside the arena.
    assert max(of_its_own.values()) <= arena_bytes(api, shared["deep"]) < sum(of_its_own.values())
    for session in (*alone.values(), *shared.values()):
        api.minnow_free_session(session)


def test_runs_in_one_arena_wait_for_each_other(api: c.CDLL, arena: c.c_void_p) -> None:
    names = ("shallow", "deep", "found", "loop")
    sessions = [opened(api, MODELS[name](), arena=arena) for name in names]
    references = [opened(api, MODELS[name]()) for name in names]
    wrong: list[tuple[str, int]] = []

    def work(i: int) -> None:
        rng = np.random.default_rng(i)
        for k in range(40):
            inputs = inputs_of(names[i], rng)
            given, out = (Tensor * len(inputs))(*(tensor(x) for x in inputs)), Tensor()
            code = api.minnow_run(sessions[i], given, c.c_size_t(len(inputs)), c.byref(out), c.c_size_t(1))
            if code != OK or array_of(out).tobytes() != run(api, references[i], *inputs).tobytes():
                wrong.append((names[i], k))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for session in (*sessions, *references):
        api.minnow_free_session(session)


def test_an_arena_outlives_its_handle(api: c.CDLL) -> None:
    arena, x = c.c_void_p(), normal(np.random.default_rng(0), 5, WIDTH)
    assert api.minnow_create_arena(c.byref(arena)) == OK
    sessions = [opened(api, layers(2), arena=arena) for _ in range(2)]
    api.minnow_free_arena(arena)
    assert run(api, sessions[0], x).tobytes() == run(api, sessions[1], x).tobytes()
    api.minnow_free_session(sessions[0])
    assert run(api, sessions[1], x).shape == (5, WIDTH)
    api.minnow_free_session(sessions[1])
    assert api.minnow_create_arena(None) == USAGE
    api.minnow_free_arena(None)


def test_a_session_that_finds_no_memory_leaves_the_others_as_they_are(api: c.CDLL, arena: c.c_void_p) -> None:
    limited = opened(api, layers(3), arena=arena, max_memory=1 << 20)
    other, alone = opened(api, layers(3), arena=arena), opened(api, layers(3))
    small, large = (normal(np.random.default_rng(0), n, WIDTH) for n in (7, 20_000))
    for session in (limited, other, limited, other):
        assert run(api, session, small).tobytes() == run(api, alone, small).tobytes()
    out = Tensor()
    assert api.minnow_run(limited, c.byref(tensor(large)), c.c_size_t(1), c.byref(out), c.c_size_t(1)) == UNSUPPORTED
    assert b"max_memory allows" in api.minnow_last_error()
    for session in (other, limited):
        assert run(api, session, small).tobytes() == run(api, alone, small).tobytes()
    for session in (limited, other, alone):
        api.minnow_free_session(session)


def test_a_callback_cannot_use_another_session_of_the_arena(api: c.CDLL, arena: c.c_void_p) -> None:
    watched, other = (opened(api, layers(1), arena=arena) for _ in range(2))
    x, codes = normal(np.random.default_rng(0), 3, WIDTH), []

    @c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p)
    def callback(_user: int, _node: int) -> int:
        out = Tensor()
        codes.append(api.minnow_run(other, c.byref(tensor(x)), c.c_size_t(1), c.byref(out), c.c_size_t(1)))
        return 0

    assert api.minnow_set_callback(watched, callback, None) == OK
    run(api, watched, x)
    assert set(codes) == {USAGE}
    assert run(api, other, x).shape == (3, WIDTH)
    for session in (watched, other):
        api.minnow_free_session(session)


ALLOCATE = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_size_t, c.c_size_t)
FREE = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_size_t)


class Allocator(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("allocate", ALLOCATE), ("free", FREE), ("user", c.c_void_p)]


class Recorded:
    """An allocator over numpy's memory that knows what has not come back."""

    def __init__(self, change: Callable[[int, int], int | None] = lambda address, _size: address) -> None:
        self.alive: dict[int, tuple[int, np.ndarray]] = {}
        self.alignments: set[int] = set()
        self.wrong: list[int] = []
        self.change = change
        self.functions = Allocator(c.sizeof(Allocator), ALLOCATE(self.allocate), FREE(self.free), None)

    def allocate(self, _user: int, size: int, alignment: int) -> int | None:
        memory = np.full(size + 2 * alignment, 0xA5, np.uint8)
        address = self.change(-(-memory.ctypes.data // alignment) * alignment, size)
        if address is not None:
            self.alive[address] = (size, memory)
            self.alignments.add(alignment)
        return address

    def free(self, _user: int, memory: int, size: int) -> None:
        if self.alive.pop(memory, (None,))[0] != size:
            self.wrong.append(size)


@pytest.fixture
def chosen(api: c.CDLL) -> Iterator[Callable[[Recorded], None]]:
    kept = []  # the library calls them for as long as there is memory of them

    def choose(allocator: Recorded) -> None:
        kept.append(allocator)
        assert api.minnow_set_allocator(c.byref(allocator.functions)) == OK

    yield choose
    assert api.minnow_set_allocator(None) == OK


@pytest.mark.parametrize("name", MODELS)
def test_memory_comes_from_the_program_and_goes_back(
    api: c.CDLL, chosen: Callable[[Recorded], None], name: str
) -> None:
    inputs = inputs_of(name, np.random.default_rng(1))
    reference = opened(api, MODELS[name]())
    expected = run(api, reference, *inputs)
    allocator = Recorded()
    chosen(allocator)
    session = opened(api, MODELS[name]())
    assert run(api, session, *inputs).tobytes() == expected.tobytes()
    assert sum(size for size, _ in allocator.alive.values()) >= arena_bytes(api, session) + expected.nbytes
    assert allocator.alignments == {64}
    assert api.minnow_set_allocator(None) == OK
    count = len(allocator.alive)
    run(api, reference, *inputs)  # has its memory already
    assert len(allocator.alive) == count
    api.minnow_free_session(session)  # gives back to where it is from, not to the present allocator
    assert (allocator.alive, allocator.wrong) == ({}, [])
    api.minnow_free_session(reference)


def test_packed_weights_are_of_the_allocator(api: c.CDLL, chosen: Callable[[Recorded], None]) -> None:
    allocator = Recorded()
    chosen(allocator)
    session = opened(api, layers(3))
    run(api, session, normal(np.random.default_rng(0), 40, WIDTH))
    sizes = [size for size, _ in allocator.alive.values()]
    assert sum(size >= 4 * WIDTH * WIDTH for size in sizes) >= 3, sizes
    api.minnow_free_session(session)
    assert (allocator.alive, allocator.wrong) == ({}, [])


@pytest.mark.parametrize("fails_at", range(8))
def test_an_allocator_that_has_no_memory(api: c.CDLL, chosen: Callable[[Recorded], None], fails_at: int) -> None:
    calls = iter(range(1 << 20))
    allocator = Recorded(lambda address, _size: None if next(calls) == fails_at else address)
    chosen(allocator)
    data, model, session, out = layers(2), c.c_void_p(), c.c_void_p(), Tensor()
    x = tensor(normal(np.random.default_rng(0), 40, WIDTH))
    code = api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model))
    if code == OK:
        code = api.minnow_create_session(model, None, c.byref(session))
        api.minnow_free_model(model)
    if code == OK:
        code = api.minnow_run(session, c.byref(x), c.c_size_t(1), c.byref(out), c.c_size_t(1))
    if next(calls) > fails_at:
        assert code == UNSUPPORTED
        assert b"memory" in api.minnow_last_error()
    api.minnow_free_session(session)
    assert (allocator.alive, allocator.wrong) == ({}, [])


def test_memory_that_is_not_aligned_is_refused(api: c.CDLL, chosen: Callable[[Recorded], None]) -> None:
    allocator = Recorded(lambda address, _size: address + 8)
    chosen(allocator)
    data, model = layers(1), c.c_void_p()
    assert api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == USAGE
    assert b"no multiple of 64" in api.minnow_last_error()
    assert (allocator.alive, allocator.wrong) == ({}, [])


def test_an_allocator_has_both_functions(api: c.CDLL) -> None:
    functions = Recorded().functions
    for missing in ("allocate", "free"):
        half = Allocator(functions.struct_size, functions.allocate, functions.free)
        setattr(half, missing, type(getattr(half, missing))())
        assert api.minnow_set_allocator(c.byref(half)) == USAGE
        assert api.minnow_last_error().decode() == f"{missing} is NULL"
    assert api.minnow_set_allocator(c.byref(Allocator(8))) == USAGE
    assert b"sizeof(minnow_allocator)" in api.minnow_last_error()
