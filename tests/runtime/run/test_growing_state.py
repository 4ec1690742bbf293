"""Caches of keys and values: written in place, grown without losing what they hold, safe from places that are none."""

from __future__ import annotations

import ctypes as c
import resource
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from capi import Tensor, array_of, tensor

import minnow
from minnow.runtime import _engine
from minnow.schema.errors import FormatError, MinnowError, UsageError
from minnow.schema.ir import DType, Graph, Model, State, TensorType
from minnow.schema.mnn import decode, encode
from minnow.schema.ops import Builder, get
from minnow.schema.ops.paged_attention import cache_types

Array = np.ndarray[Any, Any]
HEADS, KV, SIZE, BLOCK, MOST = 4, 2, 16, 8, 4
ATTRS = {"num_heads": HEADS, "num_kv_heads": KV, "scale": 0.25}
DTYPES = [DType.F32, DType.F16, DType.I8]


def attention(dtype: DType, layers: int = 1, **attrs: Any) -> Model:
    """Layers that look at the same rows, each with caches of its own; the states grow by "cache_blocks"."""
    graph = Graph()
    types = {n: TensorType(DType.F32, ("tokens", w * SIZE)) for n, w in {"q": HEADS, "k": KV, "v": KV}.items()}
    types |= {n: TensorType(DType.I32, s) for n, s in
              {"starts": ("ends",), "lengths": ("sequences",), "blocks": ("sequences", "most")}.items()}  # fmt: skip
    rows = {name: graph.add_param(type, name) for name, type in types.items()}
    states, results = [], []
    b = Builder(graph)
    for i in range(layers):
        caches = cache_types("cache_blocks", KV, BLOCK, SIZE, SIZE, dtype)
        params = [graph.add_param(t, f"{n}_cache.{i}") for n, t in zip(("key", "value"), caches, strict=True)]
        q, k, v, *places = rows.values()
        y, *news = b.PagedAttention(q, k, v, *params, *places, **ATTRS, **attrs)
        results += [(f"y{i}", y), *((f"{p.name}.next", new) for p, new in zip(params, news, strict=True))]
        empty = [np.zeros((0, *t.shape[1:]), t.dtype.numpy) for t in caches if t.shape is not None]
        states += [State(p.name, f"{p.name}.next", value) for p, value in zip(params, empty, strict=True)]
    graph.outputs = [v for _, v in results]
    return Model(graph, [(p.name, p.type) for p in graph.params], [(n, v.type) for n, v in results], states=states)


def rows_of(rng: np.random.Generator, tokens: int) -> dict[str, Array]:
    widths = {"q": HEADS, "k": KV, "v": KV}
    return {n: rng.standard_normal((tokens, w * SIZE)).astype(np.float32) for n, w in widths.items()}


def places(lengths: list[int], news: list[int], blocks: list[list[int]]) -> dict[str, Array]:
    table = np.zeros((len(blocks), MOST), np.int32)
    for row, used in zip(table, blocks, strict=True):
        row[: len(used)] = used
    starts = np.concatenate([[0], np.cumsum(news)]).astype(np.int32)
    return {"starts": starts, "lengths": np.array(lengths, np.int32), "blocks": table}


def load(dtype: DType, blocks: int, **options: Any) -> minnow.Session:
    session = minnow.load(encode(attention(dtype)), **options)
    session.resize_states("cache_blocks", blocks)
    return session


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_steps_in_a_cache_that_grows_are_the_reference(dtype: DType) -> None:
    rng = np.random.default_rng(1)
    session = load(dtype, 2)
    keys, values = (session.states[f"{n}_cache.0"] for n in ("key", "value"))
    lengths, tables = [0, 0], [[0], [1]]
    for step, news in enumerate([(5, 3), (1, 1), (2, 9), (0, 1), (1, 1)]):
        for s, new in enumerate(news):
            while len(tables[s]) * BLOCK < lengths[s] + new:
                tables[s].append(len(tables[0]) + len(tables[1]))
        most = max(map(max, tables)) + 1
        if most > len(keys):
            session.resize_states("cache_blocks", most)
            keys, values = (
                np.concatenate([a, np.zeros((most - len(a), *a.shape[1:]), a.dtype)]) for a in (keys, values)
            )
        feeds = rows_of(rng, sum(news)) | places(lengths, list(news), tables)
        y, keys, values = get("PagedAttention").evaluate(
            [*(feeds[n] for n in "qkv"), keys, values, *(feeds[n] for n in ("starts", "lengths", "blocks"))], ATTRS
        )
        np.testing.assert_allclose(session.run(feeds)["y0"], y, atol=2e-5, rtol=1e-4, err_msg=f"step {step}")
        for name, want in (("key", keys), ("value", values)):
            np.testing.assert_array_equal(session.states[f"{name}_cache.0"], want)
        lengths = [a + b for a, b in zip(lengths, news, strict=True)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_steps_prefill_batches_and_threads_give_the_same_bits(dtype: DType) -> None:
    rng = np.random.default_rng(2)
    total = 27
    one, two = rows_of(rng, total), rows_of(rng, total)
    blocks = [[3, 0, 5, 6], [1, 2, 4, 7]]
    whole = load(dtype, 8, threads=1)
    want = [
        whole.run(rows | places([0], [total], [table]))["y0"] for rows, table in zip((one, two), blocks, strict=True)
    ]
    together = load(dtype, 8, threads=2)
    cuts = [0, 11, 12, 13, 20, 27]
    for begin, end in pairwise(cuts):
        both = {n: np.concatenate([one[n][begin:end], two[n][begin:end]]) for n in "qkv"}
        n = end - begin
        y = together.run(both | places([begin, begin], [n, n], blocks))["y0"]
        np.testing.assert_array_equal(y[:n], want[0][begin:end])
        np.testing.assert_array_equal(y[n:], want[1][begin:end])


def test_rewinding_is_a_shorter_length() -> None:
    rng = np.random.default_rng(3)
    session = load(DType.F16, 4)
    table = [[2, 0, 1]]
    first, other, last = (rows_of(rng, n) for n in (10, 7, 3))
    session.run(first | places([0], [10], table))
    want = session.run(last | places([6], [3], table))["y0"]
    session.run(other | places([9], [7], table))
    again = session.run({n: first[n][6:10] for n in "qkv"} | places([6], [4], table))  # what was overwritten
    assert again["y0"].shape == (4, HEADS * SIZE)
    np.testing.assert_array_equal(session.run(last | places([6], [3], table))["y0"], want)


def test_a_sequence_can_look_into_the_blocks_of_another() -> None:
    rng = np.random.default_rng(4)
    session = load(DType.F32, 4)
    begin, end = rows_of(rng, BLOCK), rows_of(rng, 5)
    want = session.run({n: np.concatenate([begin[n], end[n]]) for n in "qkv"} | places([0], [13], [[0, 1]]))["y0"]
    np.testing.assert_array_equal(session.run(end | places([BLOCK], [5], [[0, 2]]))["y0"], want[BLOCK:])


HOSTILE = {
    "a start above 0": {"starts": [1, 3]},
    "a start behind the rows": {"starts": [0, 4]},
    "a start that goes back": {"starts": [0, -1]},
    "a large start": {"starts": [0, 2**31 - 1]},
    "a length below 0": {"lengths": [-1]},
    "a length without a place": {"lengths": [MOST * BLOCK - 2]},
    "a large length": {"lengths": [2**31 - 1]},
    "a block below 0": {"blocks": [[-1, 0, 0, 0]]},
    "a block behind the last": {"blocks": [[4, 0, 0, 0]]},
    "a large block": {"blocks": [[2**31 - 1, 0, 0, 0]]},
    "a second block behind the last": {"lengths": [7], "blocks": [[0, 9, 0, 0]]},
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_places_that_are_none(change: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    session = load(DType.F16, 4)
    rows, good = rows_of(rng, 3), places([0], [3], [[0]])
    want = session.run(rows | good)["y0"]
    before = session.states
    with pytest.raises(UsageError, match=r"PagedAttention.*(sequence|row)"):
        session.run(rows | good | {n: np.array(a, np.int32) for n, a in change.items()})
    for name, state in session.states.items():
        np.testing.assert_array_equal(state, before[name])
    np.testing.assert_array_equal(session.run(rows | good)["y0"], want)


def test_random_tables_never_crash() -> None:
    rng = np.random.default_rng(6)
    session = load(DType.I8, 3)
    seen = set()
    for _ in range(300):
        feeds = rows_of(rng, 6) | {
            "starts": np.sort(rng.integers(-1, 8, 4)).astype(np.int32) * (rng.random(4) < 0.9),
            "lengths": rng.integers(-2, 20, 3).astype(np.int32),
            "blocks": rng.integers(-1, 4, (3, MOST)).astype(np.int32),
        }
        feeds["starts"][0] *= rng.random() < 0.2
        feeds = {n: a.astype(np.int32) if a.dtype.kind == "i" else a for n, a in feeds.items()}
        try:
            session.run(feeds)
            seen.add("runs")
        except UsageError:
            seen.add("refused")
    assert seen == {"runs", "refused"}


def test_what_is_not_written_in_place_is_right_too() -> None:
    """The old cache is an output as well, so that the new one needs memory of its own."""
    model = attention(DType.F32)
    cache = next(p for p in model.graph.params if p.name == "key_cache.0")
    model.graph.outputs = [*model.graph.outputs, cache]
    model.outputs.append(("old", cache.type))
    session = minnow.load(encode(model))
    session.resize_states("cache_blocks", 2)
    feeds = rows_of(np.random.default_rng(7), 3) | places([0], [3], [[1]])
    results = session.run(feeds)
    assert not results["old"].any()
    assert session.states["key_cache.0"].any()
    session.resize_states("cache_blocks", 5)
    assert session.run(feeds)["old"].shape[0] == 5
    np.testing.assert_array_equal(session.run(feeds)["y0"], results["y0"])


def test_a_step_copies_no_cache() -> None:
    session = minnow.load(encode(attention(DType.F16)), threads=1)
    session.resize_states("cache_blocks", 200_000)  # 200 MB
    feeds = rows_of(np.random.default_rng(8), 1) | places([5], [1], [[199_999]])
    session.run(feeds)
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(20):
        session.run(feeds)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.2  # a copy takes 0.05 seconds
    assert after.ru_maxrss - before.ru_maxrss < 50_000


def test_sizes_of_states() -> None:
    session = minnow.load(encode(attention(DType.F32, layers=2)), max_memory=100 << 20)
    assert {a.shape for a in session.states.values()} == {(0, KV, SIZE, BLOCK), (0, KV, BLOCK, SIZE)}
    with pytest.raises(UsageError, match="no state has a dynamic dimension 'blocks'"):
        session.resize_states("blocks", 1)
    with pytest.raises(UsageError, match="of size -1"):
        session.resize_states("cache_blocks", -1)
    session.resize_states("cache_blocks", 3)
    session.reset({n: np.full(a.shape, 2, np.float32) for n, a in session.states.items()})
    for size in (40_000, 2**40, 2**62):
        with pytest.raises(MinnowError, match="memory"):
            session.resize_states("cache_blocks", size)
        assert all(len(a) == 3 and (a == 2).all() for a in session.states.values())
    session.resize_states("cache_blocks", 1)
    session.resize_states("cache_blocks", 2)
    assert all((a[0] == 2).all() and not a[1].any() for a in session.states.values())
    kept = session.states
    session.reset()
    assert all(len(a) == 0 for a in session.states.values())
    session.reset(kept)
    assert all(len(a) == 2 for a in session.states.values())
    with pytest.raises(UsageError, match=r"cache_blocks is 3 in the state 'key_cache\.0', and 2 in"):
        session.reset({"key_cache.0": np.zeros((3, KV, SIZE, BLOCK), np.float32)})
    with pytest.raises(UsageError, match=r"'key_cache\.0' is f32"):
        session.reset({"key_cache.0": np.zeros((2, KV, SIZE, 1), np.float32)})


def test_a_run_without_blocks_names_the_block() -> None:
    session = minnow.load(encode(attention(DType.F16)))
    with pytest.raises(UsageError, match="block 0 of sequence 0 is 0, of 0 in the cache"):
        session.run(rows_of(np.random.default_rng(9), 1) | places([0], [1], [[0]]))


def test_blocks_are_copied_in_all_states() -> None:
    session = minnow.load(encode(attention(DType.F16, layers=2)))
    session.resize_states("cache_blocks", 3)
    session.reset(
        {n: np.random.default_rng(1).standard_normal(a.shape).astype(a.dtype) for n, a in session.states.items()}
    )
    before = session.states
    session.copy_in_states("cache_blocks", 2, 0)
    for name, state in session.states.items():
        np.testing.assert_array_equal(state[0], before[name][2])
        np.testing.assert_array_equal(state[1:], before[name][1:])
    for source, target in ((0, 3), (-1, 0), (2**40, 0)):
        with pytest.raises(UsageError, match="is no place of the 3 of cache_blocks"):
            session.copy_in_states("cache_blocks", source, target)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_type_of_a_cache_can_be_chosen_when_it_is_empty(dtype: DType) -> None:
    session = minnow.load(encode(attention(DType.F16)))
    caches = cache_types(0, KV, BLOCK, SIZE, SIZE, dtype)
    names = ("key_cache.0", "value_cache.0")
    session.retype_states({n: (t.dtype.numpy.name, t.shape) for n, t in zip(names, caches, strict=True)})
    session.resize_states("cache_blocks", 2)
    want = load(dtype, 2)
    feeds = rows_of(np.random.default_rng(9), 9) | places([0], [9], [[1, 0]])
    np.testing.assert_array_equal(session.run(feeds)["y0"], want.run(feeds)["y0"])
    for name, state in session.states.items():
        np.testing.assert_array_equal(state, want.states[name])
    session.reset(want.states)
    np.testing.assert_array_equal(session.run(feeds)["y0"], want.run(feeds)["y0"])
    with pytest.raises(UsageError, match="has contents"):
        session.retype_states({names[0]: ("float32", (0, KV, SIZE, BLOCK))})
    session.reset()
    with pytest.raises(UsageError, match="no state 'x'"):
        session.retype_states({"x": ("float32", (0,))})
    with pytest.raises(UsageError, match=r"cannot be \[0,3\]"):
        session.retype_states({names[0]: ("float32", (0, 3))})
    session.retype_states({names[0]: ("float32", (0, KV, SIZE, 1))})
    with pytest.raises(MinnowError, match="PagedAttention"):
        session.run(feeds)


def test_states_grow_while_another_thread_reads_them() -> None:
    session = minnow.load(encode(attention(DType.F16)))
    over = threading.Event()

    def grow() -> None:
        for size in range(60):
            session.resize_states("cache_blocks", size % 20)
        over.set()

    thread = threading.Thread(target=grow)
    thread.start()
    while not over.is_set():
        assert len({len(a) for a in session.states.values()}) == 1
    thread.join()


def test_the_file_keeps_the_dimension() -> None:
    model = decode(encode(attention(DType.I8)))
    assert [s.value.shape for s in model.states] == [(0, KV, SIZE + 4, BLOCK), (0, KV, BLOCK, SIZE + 4)]
    assert dict(model.inputs)["key_cache.0"].shape == ("cache_blocks", KV, SIZE + 4, BLOCK)
    assert encode(model) == encode(attention(DType.I8))


def test_only_the_first_dimension_may_be_dynamic() -> None:
    model = attention(DType.F32)
    model.inputs = [(n, TensorType(t.dtype, (*t.shape[:3], "more")) if n == "key_cache.0" else t)
                    for n, t in model.inputs]  # fmt: skip
    data = encode(model)
    with pytest.raises(FormatError, match=r"minnow\.states"):
        minnow.load(data)
    with pytest.raises(FormatError, match=r"minnow\.states"):
        decode(data)


def test_the_c_api_resizes_saves_and_restores() -> None:
    library = c.CDLL(_engine.__file__)
    library.minnow_last_error.restype = c.c_char_p
    data, model = encode(attention(DType.F16)), c.c_void_p()
    sessions = [c.c_void_p(), c.c_void_p()]
    assert library.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == 0
    for session in sessions:
        assert library.minnow_create_session(model, None, c.byref(session)) == 0
    assert library.minnow_resize_states(sessions[0], b"cache_blocks", c.c_int64(3)) == 0
    assert library.minnow_resize_states(sessions[0], b"blocks", c.c_int64(3)) == 2
    assert b"no state has a dynamic dimension 'blocks'" in library.minnow_last_error()
    assert library.minnow_resize_states(sessions[0], None, c.c_int64(3)) == 2
    want = np.random.default_rng(1).standard_normal((3, KV, SIZE, BLOCK)).astype(np.float16)
    given = tensor(want, b"key_cache.0")
    assert library.minnow_set_states(sessions[0], c.byref(given), c.c_size_t(1)) == 0
    size = c.c_size_t()
    assert library.minnow_save_states(sessions[0], None, c.c_size_t(0), c.byref(size)) == 0
    saved = c.create_string_buffer(size.value)
    assert library.minnow_save_states(sessions[0], saved, size, c.byref(size)) == 0
    assert library.minnow_restore_states(sessions[1], saved, size) == 0
    found = Tensor(b"key_cache.0")
    assert library.minnow_get_states(sessions[1], c.byref(found), c.c_size_t(1)) == 0
    np.testing.assert_array_equal(array_of(found), want)
    for session in sessions:
        library.minnow_free_session(session)
    library.minnow_free_model(model)
