"""Control flow of TensorFlow 1 and 2, lists and arrays of tensors, beside TensorFlow."""

from __future__ import annotations

import contextlib
import os
from importlib.util import find_spec

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import pytest

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.schema.errors import FormatError, ModelError, UnsupportedError, UsageError
from minnow.schema.mnn import encode

pytestmark = pytest.mark.skipif(not find_spec("tensorflow"), reason="TensorFlow is the judge")

rng = np.random.default_rng(5)


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


def f32(*shape):
    return rng.uniform(-2, 2, shape).astype(np.float32)


def files(tf, function, operands, folder, kinds, dynamic_axes=()):
    """Graph files of a function: written as TensorFlow 1 does, or by TensorFlow 2, whose functions may be lowered."""
    v1 = tf.compat.v1

    def place(i, x):
        shape = [None if a in dynamic_axes else n for a, n in enumerate(x.shape)]
        return v1.placeholder(x.dtype, shape, f"x{i}")

    for kind in kinds:
        graph = tf.Graph()
        was = v1.control_flow_v2_enabled()
        v1.disable_control_flow_v2() if kind == "v1" else v1.enable_control_flow_v2()
        try:
            with graph.as_default():
                results = function(*(place(i, x) for i, x in enumerate(operands)))
                results = [tf.identity(r, f"y{i}") for i, r in enumerate(tf.nest.flatten(results))]
                feed = {f"x{i}:0": x for i, x in enumerate(operands)}
                with v1.Session(graph=graph) as session:
                    wanted = session.run(results, feed)
        finally:
            v1.enable_control_flow_v2() if was else v1.disable_control_flow_v2()
        path = folder / f"{kind}.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        yield path, wanted


def check(tf, function, operands, folder, kinds=("v1", "v2"), **more):
    for path, wanted in files(tf, function, operands, folder, kinds, **more):
        for level in (0, 2):
            model = read(path, cut_outputs=[f"y{i}" for i in range(len(wanted))])
            optimize(model, level)
            session = minnow.load(encode(model))
            known = {i.name for i in session.inputs}
            found = session.run({f"x{i}": x for i, x in enumerate(operands) if f"x{i}" in known})
            for i, w in enumerate(wanted):
                got = found[f"y{i}"]
                assert (got.dtype, got.shape) == (w.dtype, w.shape), f"{path.stem} -O{level} y{i}"
                np.testing.assert_allclose(got, w, rtol=1e-5, atol=1e-5, err_msg=f"{path.stem} -O{level} y{i}")


def branches(p, x, y):
    import tensorflow as tf

    cond = tf.compat.v1.cond
    a, b = cond(p, lambda: (x + y, x * 2), lambda: (x - y, tf.exp(y)))
    c = cond(p, lambda: a * b, lambda: cond(x[0, 0] > 0, lambda: a + 1, lambda: b - 1))
    return cond(tf.reduce_sum(c) > 0, lambda: cond(p, lambda: c, lambda: -c), lambda: a), a


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_branches_in_a_row_and_nested(tf, tmp_path, flag, sign):
    check(tf, branches, [np.array(flag), sign * np.abs(f32(3, 5)), f32(3, 5)], tmp_path)


def test_branch_that_cannot_be_computed_is_not(tf, tmp_path):
    def function(p, x):
        return tf.compat.v1.cond(p, lambda: tf.gather(x, 5), lambda: tf.gather(x, 1))

    check(tf, function, [np.array(False), f32(3, 2)], tmp_path)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 3])
def test_switch_case(tf, tmp_path, index):
    def function(i, x):
        return tf.switch_case(i, [lambda: x, lambda: x * 2, lambda: tf.exp(x)])

    check(tf, function, [np.array(index, np.int32), f32(2, 3)], tmp_path, ("v2",))


@pytest.mark.parametrize("flag", [True, False])
def test_merge_tells_which_value_it_takes(tf, tmp_path, flag):
    raw = __import__("tensorflow").raw_ops

    def function(p, x):
        no, yes = raw.Switch(data=x, pred=p)
        merged = raw.Merge(inputs=[no + 1, yes * 2])
        return merged.output * 3, merged.value_index

    check(tf, function, [np.array(flag), f32(3)], tmp_path, ("v1",))


@pytest.mark.parametrize("flag", [True, False])
def test_switches_in_functions(tf, tmp_path, flag):
    """Functions name the outputs of their nodes."""

    @tf.function(autograph=False)
    def inner(p, x):
        no, yes = tf.raw_ops.Switch(data=x, pred=p)
        merged = tf.raw_ops.Merge(inputs=[tf.exp(no), yes * 2])
        return merged.output, merged.value_index

    check(tf, lambda p, x: inner(p, x * 3), [np.array(flag), f32(3)], tmp_path)


def loop(condition, body, start, **more):
    import tensorflow as tf

    return tf.compat.v1.while_loop(condition, body, start, **more)


def test_branches_in_loops_in_branches(tf, tmp_path):
    cond = tf.compat.v1.cond

    def function(p, n, x):
        def body(i, y):
            inner = loop(lambda j, z: j < i, lambda j, z: (j + 1, z * 0.5 + cond(j > 1, lambda: x, lambda: y)), (0, y))[
                1
            ]
            return i + 1, cond(tf.equal(i % 2, 0), lambda: inner + 1, lambda: cond(p, lambda: inner, lambda: -y))

        return cond(n > 2, lambda: loop(lambda i, y: i < n, body, (0, x))[1], lambda: x * 7)

    for n in (0, 5):
        for p in (True, False):
            check(tf, function, [np.array(p), np.array(n, np.int32), f32(2, 3)], tmp_path)


def test_loops_in_a_row_that_end_by_value(tf, tmp_path):
    def function(x, w):
        y, n = loop(lambda y, n: tf.reduce_max(tf.abs(y)) < 100.0, lambda y, n: (tf.matmul(y, w) * 3, n + 1), (x, 0))
        return loop(lambda z: tf.reduce_sum(tf.abs(z)) > 1, lambda z: z / 2, (y,)), n

    check(tf, function, [f32(3, 4), f32(4, 4) + 1], tmp_path)


def test_condition_that_reads_several_values(tf, tmp_path):
    def function(n, m):
        return loop(lambda i, j, t: (i < n) & (j < m), lambda i, j, t: (i + 1, j + 1, t + i * j), (0, 2, 0))

    for n, m in ((4, 9), (9, 4), (0, 5), (5, 1)):
        check(tf, function, [np.array(n, np.int32), np.array(m, np.int32)], tmp_path)


def test_values_that_trade_places(tf, tmp_path):
    check(tf, lambda x, y: loop(lambda i, a, b: i < 5, lambda i, a, b: (i + 2, b, a + b), (0, x, y)),
          [f32(3), f32(3)], tmp_path)  # fmt: skip


def test_shapes_that_grow(tf, tmp_path):
    shapes = (tf.TensorShape([]), tf.TensorShape([None, 2]))

    def function(n, x):
        grow = lambda i, y: (i + 1, tf.concat([y, y[:1] + tf.cast(i, tf.float32)], 0))  # noqa: E731
        return loop(lambda i, y: i < n, grow, (0, x), shape_invariants=shapes)[1]

    for n in (0, 3):
        check(tf, function, [np.array(n, np.int32), f32(3, 2)], tmp_path)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_array_written_and_read_in_loops(tf, tmp_path, count):
    """Filled in order, in reverse, in part; read, stacked, gathered."""

    def function(n, x):
        up = tf.TensorArray(tf.float32, n, element_shape=[3])
        up = loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x[i] * 2)), (0, up))[1]
        down = tf.TensorArray(tf.float32, 4, element_shape=[3], clear_after_read=False)
        down = loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(3 - i, x[i] + 1)), (0, down))[1]
        total = loop(lambda i, t: i < 4, lambda i, t: (i + 1, t * 2 + down.read(i)), (0, tf.zeros([3])))[1]
        return up.stack(), down.stack(), total, down.gather([2, 0]), up.size()

    check(tf, function, [np.array(count, np.int32), f32(4, 3)], tmp_path)


def test_array_of_open_shapes(tf, tmp_path):
    def function(x):
        n = tf.shape(x)[0]
        rows = tf.TensorArray(tf.float32, n).unstack(x)
        out = tf.TensorArray(tf.float32, n)

        def body(i, state, a):
            state = tf.tanh(state + rows.read(i))
            return i + 1, state, a.write(i, state * 2)

        _, state, out = loop(lambda i, s, a: i < n, body, (0, tf.zeros_like(x[0]), out))
        return state, out.stack()

    check(tf, function, [f32(5, 2, 3)], tmp_path, dynamic_axes=(0, 1))


def test_array_whose_elements_differ_in_shape(tf, tmp_path):
    def function(x):
        pieces = tf.TensorArray(tf.float32, 4, infer_shape=False)
        pieces = loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, x[: i + 1] * 2)), (0, pieces))[1]
        return pieces.concat()

    check(tf, function, [f32(5, 3)], tmp_path)


def test_array_that_grows_where_elements_differ_in_shape(tf, tmp_path):
    def function(x, n):
        pieces = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False)
        pieces = loop(
            lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, tf.boolean_mask(x, x[:, 0] > 0) + 1)), (0, pieces)
        )[1]
        return pieces.concat()

    check(tf, function, [f32(6, 3), np.array(3, np.int32)], tmp_path, ("v1",))


def test_array_split(tf, tmp_path):
    def function(x):
        pieces = tf.TensorArray(tf.float32, 3, infer_shape=False).split(x, [1, 3, 2])
        return pieces.read(1) * 2, pieces.read(0)

    check(tf, function, [f32(6, 2)], tmp_path)


def test_lists(tf, tmp_path):
    raw = tf.raw_ops

    three = {"element_shape": [3], "element_dtype": tf.float32}

    def stack(rows):
        return raw.TensorListStack(input_handle=rows, **three)

    def function(x, y):
        rows = raw.TensorListFromTensor(tensor=x, element_shape=[3])
        rows = raw.TensorListPushBack(input_handle=rows, tensor=y)
        rows = raw.TensorListSetItem(input_handle=rows, index=1, item=y * 2)
        rest, last = raw.TensorListPopBack(input_handle=rows, **three)
        longer = raw.TensorListResize(input_handle=rest, size=6)
        pushed = raw.EmptyTensorList(max_num_elements=-1, **three)
        pushed = raw.TensorListPushBack(input_handle=raw.TensorListPushBack(input_handle=pushed, tensor=y), tensor=x[0])
        placed = raw.TensorListScatterV2(tensor=x, indices=[3, 0, 1, 2], element_shape=[3], num_elements=5)
        some = raw.TensorListGather(input_handle=placed, indices=[3, 1], **three)
        count = raw.TensorListLength(input_handle=rows)
        return last, count, some, *map(stack, (rows, rest, longer, pushed, placed))

    check(tf, function, [f32(4, 3), f32(3)], tmp_path, ("v2",))


def test_list_pushed_in_a_loop(tf, tmp_path):
    raw = tf.raw_ops

    def function(x):
        start = raw.EmptyTensorList(element_shape=tf.constant([3]), max_num_elements=-1, element_dtype=tf.float32)
        push = lambda i, v: (i + 1, raw.TensorListPushBack(input_handle=v, tensor=x[i] * 3))  # noqa: E731
        rows = loop(lambda i, v: i < 4, push, (0, start))[1]
        return raw.TensorListStack(input_handle=rows, element_shape=tf.constant([3]), element_dtype=tf.float32)

    check(tf, function, [f32(5, 3)], tmp_path, ("v2",))


def test_map_and_scan(tf, tmp_path):
    def function(x):
        rows = tf.map_fn(lambda r: tf.cumsum(r) * tf.reduce_sum(r), x)
        return rows, tf.scan(lambda a, r: a * 0.5 + r, x), tf.foldr(lambda a, r: a - 2 * r, x)

    check(tf, function, [f32(4, 3)], tmp_path)
    check(tf, function, [f32(4, 3)], tmp_path, dynamic_axes=(0,))


@pytest.mark.parametrize("time_major", [True, False])
def test_dynamic_rnn_of_tensorflow_1(tf, tmp_path, time_major):
    v1 = tf.compat.v1

    def function(x, n):
        w, r = tf.constant(f32(3, 16)), tf.constant(f32(4, 16))
        x = x if time_major else tf.transpose(x, [1, 0, 2])
        time = tf.shape(x)[0]
        rows, out = tf.TensorArray(tf.float32, time).unstack(x), tf.TensorArray(tf.float32, time)

        def step(t, c, h, a):
            i, j, f, o = tf.split(tf.matmul(rows.read(t), w) + tf.matmul(h, r), 4, 1)
            new_c = c * tf.sigmoid(f + 1) + tf.sigmoid(i) * tf.tanh(j)
            new_h = tf.tanh(new_c) * tf.sigmoid(o)
            ended = tf.tile((t >= n)[:, None], [1, 4])
            a = a.write(t, tf.where(ended, tf.zeros_like(new_h), new_h))
            return t + 1, tf.where(ended, c, new_c), tf.where(ended, h, new_h), a

        zeros = tf.zeros([2, 4])
        _, c, h, out = v1.while_loop(lambda t, *_: t < time, step, (0, zeros, zeros, out))
        return out.stack(), c, h

    x = f32(5, 2, 3) if time_major else f32(2, 5, 3)
    check(tf, function, [x, np.array([5, 2], np.int32)], tmp_path)


def nested(p, x):
    import tensorflow as tf

    cond = tf.compat.v1.cond

    def step(i, y):
        inner = lambda: loop(lambda j, z: tf.reduce_sum(z) < 9, lambda j, z: (j + 1, z + 1), (0, y))[1]  # noqa: E731
        return i + 1, cond(p, inner, lambda: y)

    return loop(lambda i, y: i < 3, step, (0, x))[1]


def test_results_are_found_outside_of_loops(tf, tmp_path):
    """Nobody reads what the inner loops leave behind, nor what opens branches: no results for that."""
    x = f32(3)
    for path, (wanted,) in files(tf, nested, [np.array(True), x], tmp_path, ("v1",)):
        model = read(path)
        assert {name for name, _ in model.outputs} <= {"while/Exit", "y0"}  # the first one is the outer loop's count
        optimize(model, 2)
        found = minnow.load(encode(model)).run({"x0": np.array(True), "x1": x})
        np.testing.assert_allclose(found["y0"], wanted, rtol=1e-5)


def test_cut_in_a_loop(tf, tmp_path):
    ((path, _),) = files(tf, nested, [np.array(True), f32(3)], tmp_path, ("v1",))
    with pytest.raises(UsageError, match="inside of a loop"):
        read(path, cut_outputs=["while/add"])


def test_damaged_control_flow(tf, tmp_path):
    """Whatever the nodes say, the reader ends, with an error of its own."""
    from minnow.converter.tensorflow.message import GraphDef

    random = np.random.default_rng(3)
    sources = [p.read_bytes() for p, _ in files(tf, nested, [np.array(True), f32(3)], tmp_path, ("v1", "v2"))]
    path = tmp_path / "damaged.pb"
    for turn in range(150):
        graph = GraphDef.FromString(sources[turn % len(sources)])
        pools = [p for p in (graph.node, *(f.node_def for f in graph.library.function)) if p]
        for _ in range(random.integers(1, 4)):
            nodes = pools[random.integers(len(pools))]
            a, b = (nodes[random.integers(len(nodes))] for _ in range(2))
            at = random.integers(len(a.input)) if a.input else None
            kind = random.integers(5)
            if kind == 0 and at is not None:
                a.input[at] = b.name
            elif kind == 1 and at is not None:
                del a.input[at]
            elif kind == 2:
                a.op = b.op
            elif kind == 3:
                a.input.append(b.name)
            elif kind == 4 and a.attr and b.attr:
                keys = [sorted(n.attr)[random.integers(len(n.attr))] for n in (a, b)]
                a.attr[keys[0]].CopyFrom(b.attr[keys[1]])
        path.write_bytes(graph.SerializeToString())
        with contextlib.suppress(ModelError, UnsupportedError, FormatError, UsageError):
            read(path)


def test_what_is_no_control_flow(tf, tmp_path):
    from minnow.converter.tensorflow.message import GraphDef

    def node(name, op, *inputs, **attrs):
        made = graph.node.add(name=name, op=op, input=inputs)
        made.attr["T"].type = 1
        for key, value in attrs.items():
            made.attr[key].s = value
        return made

    def refuse(match):
        path = tmp_path / "odd.pb"
        path.write_bytes(graph.SerializeToString())
        with pytest.raises(ModelError, match=match):
            read(path)

    def start():
        graph = GraphDef()
        x = graph.node.add(name="x", op="Placeholder")
        x.attr["dtype"].type = 1
        return graph

    graph = start()
    node("a", "Merge", "x", "x")
    node("y", "Neg", "a")
    refuse("not belong to any Switch")
    graph = start()
    node("e", "Enter", "x", frame_name=b"f")
    node("m", "Merge", "e", "n")
    node("n", "NextIteration", "m")
    node("o", "Exit", "m")
    node("y", "Neg", "o")
    refuse("0 conditions")
    graph = start()
    node("e", "Enter", "x")
    node("y", "Neg", "e")
    refuse("frame_name")
    graph = start()
    node("a", "Neg", "b")
    node("b", "Neg", "a")
    node("s", "Switch", "a", "x")
    node("y", "Neg", "s")
    refuse("cycle")
    graph = start()
    node("e0", "Enter", "x", frame_name=b"f0")
    for i in range(1, 60):
        node(f"e{i}", "Enter", f"e{i - 1}", frame_name=f"f{i}".encode())
    node("y", "Neg", "e59")
    refuse("nested too deeply")
