"""Recurrent layers. Operands and results stand as [time, batch, features]; D is 2 for "bidirectional", else 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, Node
from minnow.schema.ir.type import Shape
from minnow.schema.ops.special import Array
from minnow.schema.registry.dimension import agree
from minnow.schema.registry.encoding import bound, constant
from minnow.schema.registry.op import Arg, Decoded, Float, Sizes, WireOp, fill, op

Direction = Literal["forward", "reverse", "bidirectional"]
Activation = Callable[[Array], Array]

# name -> the defaults of the parameters it takes (alpha, then beta), and the function
_ACTIVATIONS: dict[str, tuple[tuple[float, ...], Callable[..., Array]]] = {
    "sigmoid": ((), lambda v: 1 / (1 + np.exp(-v))),
    "tanh": ((), np.tanh),
    "relu": ((), lambda v: np.maximum(v, 0)),
    "softsign": ((), lambda v: v / (1 + np.abs(v))),
    "softplus": ((), lambda v: np.logaddexp(0, v)),
    "leakyrelu": ((0.01,), lambda v, a: np.where(v < 0, a * v, v)),
    "thresholdedrelu": ((1.0,), lambda v, a: np.where(v > a, v, 0)),
    "elu": ((1.0,), lambda v, a: np.where(v < 0, a * np.expm1(v), v)),
    "hardsigmoid": ((0.2, 0.5), lambda v, a, b: np.clip(a * v + b, 0, 1)),
    "scaledtanh": ((1.0, 1.0), lambda v, a, b: a * np.tanh(b * v)),
    "affine": ((1.0, 0.0), lambda v, a, b: a * v + b),
}


def activation_functions(names: Sequence[str], alpha: Sequence[float], beta: Sequence[float]) -> list[Activation]:
    """The functions of these names. Each takes its parameters from the front of what is left of `alpha` and `beta`.

    Raises:
        ModelError: there is no activation of that name.
    """
    left = [list(alpha), list(beta)]

    def made(name: str) -> Activation:
        if name not in _ACTIVATIONS:
            raise ModelError(f"there is no activation '{name}'", hint=f"known: {', '.join(sorted(_ACTIVATIONS))}")
        defaults, function = _ACTIVATIONS[name]
        given = [left[i].pop(0) if left[i] else d for i, d in enumerate(defaults)]
        return lambda v: function(v, *given)

    return [made(name) for name in names]


def directions_of(direction: str) -> list[bool]:
    """For each direction, whether it runs backward."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def _scan(
    x: Array, lens: Array | None, states: Sequence[Array], backward: bool, step: Callable[..., tuple[Array, ...]]
) -> tuple[Array, tuple[Array, ...]]:
    """Runs `step(x_t, *states)` over the time of each sequence; behind its end Y is 0 and the states stay."""
    steps, batch = x.shape[:2]
    lengths = np.full(batch, steps) if lens is None else lens
    states = tuple(states)
    y = np.zeros((steps, *states[0].shape))
    for t in reversed(range(steps)) if backward else range(steps):
        new = step(x[t], *states)
        runs = (t < lengths)[:, None]
        states = tuple(np.where(runs, n, s) for n, s in zip(new, states, strict=True))
        y[t] = np.where(runs, states[0], 0)
    return y, states


def _run(x: Array, lens: Array | None, cells: Sequence[tuple[Any, ...]]) -> tuple[Array, ...]:
    """Results of all directions: Y[T, D, B, H] and the last states[D, B, H], in the type of `x`."""
    wide = x.astype(np.float64)
    results = [_scan(wide, lens, states, backward, step) for backward, states, step in cells]
    y = np.stack([y for y, _ in results], axis=1)
    finals = [np.stack(s) for s in zip(*(states for _, states in results), strict=True)]
    return tuple(v.astype(x.dtype) for v in (y, *finals))


def _clipped(clip: float) -> Activation:
    return (lambda v: np.clip(v, -clip, clip)) if clip else (lambda v: v)


def _part(v: Array | None, d: int, shape: tuple[int, ...]) -> Array:
    """Direction d of an optional operand, zeros where it is left out."""
    return np.zeros(shape) if v is None else v[d].astype(np.float64)


@op(outputs=3)
def LSTM(
    x: Float,
    w: Float,
    r: Float,
    b: Float | None = None,
    lens: Sizes | None = None,
    h0: Float | None = None,
    c0: Float | None = None,
    p: Float | None = None,
    *,
    hidden: int,
    direction: Direction = "forward",
    activations: tuple[str, ...] = (),
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    clip: float = 0.0,
    input_forget: bool = False,
    cell_clip: float = 0.0,
):
    """Long short-term memory: x[T,B,I], w[D,4H,I], r[D,4H,H], b[D,8H], lens[B], h0 and c0[D,B,H], p[D,3H].

    i, o, f = f(x w + h r + b + p * c), the gates in the order i, o, f, c; c' = f * c + i * g(...); h' = o * h(c').
    `o` looks at the new c'. `activations` are f, g, h of each direction, `clip` bounds what f and g are given,
    `cell_clip` the new c', and `input_forget` makes f = 1 - i. Gives Y[T,D,B,H], Y_h[D,B,H], Y_c[D,B,H].
    """
    attrs = (direction, activations, activation_alpha, activation_beta, clip, input_forget, cell_clip)

    def products(d):
        kernel, recurrent = w[d].T.astype(np.float64), r[d].T.astype(np.float64)
        return (lambda xt: xt @ kernel), (lambda ht: ht @ recurrent)

    return lstm(x, products, (b, lens, h0, c0, p), hidden, *attrs)


def lstm(
    x: Array,
    products: Callable[[int], tuple[Activation, Activation]],
    rest: tuple[Array | None, ...],
    hidden: int,
    direction: str,
    activations: Sequence[str],
    alpha: Sequence[float],
    beta: Sequence[float],
    clip: float,
    input_forget: bool,
    cell_clip: float,
) -> tuple[Array, ...]:
    """An LSTM whose direction d has two functions, from rows of x and from rows of h to their products with weights."""
    backward = directions_of(direction)
    b, lens, h0, c0, p = rest
    names = activations or ("sigmoid", "tanh", "tanh") * len(backward)
    functions = activation_functions(names, alpha, beta)
    bounded, cell_bounded = _clipped(clip), _clipped(cell_clip)
    batch = x.shape[1]

    def cell(d: int) -> tuple[Any, ...]:
        f, g, h = functions[3 * d : 3 * d + 3]
        of_x, of_h = products(d)
        offset = _part(b, d, (8 * hidden,)).reshape(2, -1).sum(0)
        pi, po, pf = np.split(_part(p, d, (3 * hidden,)), 3)

        def step(xt: Array, ht: Array, ct: Array) -> tuple[Array, ...]:
            i, o, forget, c = np.split(of_x(xt) + of_h(ht) + offset, 4, axis=1)
            i = f(bounded(i + pi * ct))
            forget = 1 - i if input_forget else f(bounded(forget + pf * ct))
            c = cell_bounded(forget * ct + i * g(bounded(c)))
            return f(bounded(o + po * c)) * h(c), c

        states = [_part(s, d, (batch, hidden)) for s in (h0, c0)]
        return backward[d], states, step

    return _run(x, lens, [cell(d) for d in range(len(backward))])


@op(outputs=2)
def GRU(
    x: Float,
    w: Float,
    r: Float,
    b: Float | None = None,
    lens: Sizes | None = None,
    h0: Float | None = None,
    *,
    hidden: int,
    direction: Direction = "forward",
    activations: tuple[str, ...] = (),
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    clip: float = 0.0,
    linear_before_reset: bool = False,
):
    """Gated recurrent unit: x[T,B,I], w[D,3H,I], r[D,3H,H], b[D,6H], lens[B], h0[D,B,H].

    z, r = f(x w + h r + b), the gates in the order z, r, h; n = g(x w + (r * h) r + b), or with
    `linear_before_reset` g(x w + b + r * (h r + b')); h' = (1 - z) * n + z * h. `activations` are f, g of each
    direction, `clip` bounds what they are given. Gives Y[T,D,B,H], Y_h[D,B,H].
    """
    backward = directions_of(direction)
    names = activations or ("sigmoid", "tanh") * len(backward)
    functions = activation_functions(names, activation_alpha, activation_beta)
    bounded = _clipped(clip)
    batch = x.shape[1]

    def cell(d):
        f, g = functions[2 * d : 2 * d + 2]
        kernel, recurrent = w[d].T.astype(np.float64), r[d].T.astype(np.float64)
        offset, recurrent_offset = _part(b, d, (6 * hidden,)).reshape(2, -1)
        both, last = slice(0, 2 * hidden), slice(2 * hidden, None)

        def step(xt, ht):
            gates = xt @ kernel + offset
            inner = gates[:, both] + ht @ recurrent[:, both] + recurrent_offset[both]
            z, reset = np.split(f(bounded(inner)), 2, axis=1)
            if linear_before_reset:
                inner = reset * (ht @ recurrent[:, last] + recurrent_offset[last])
            else:
                inner = (reset * ht) @ recurrent[:, last] + recurrent_offset[last]
            return ((1 - z) * g(bounded(gates[:, last] + inner)) + z * ht,)

        return backward[d], [_part(h0, d, (batch, hidden))], step

    return _run(x, lens, [cell(d) for d in range(len(backward))])


@op(outputs=2)
def RNN(
    x: Float,
    w: Float,
    r: Float,
    b: Float | None = None,
    lens: Sizes | None = None,
    h0: Float | None = None,
    *,
    hidden: int,
    direction: Direction = "forward",
    activations: tuple[str, ...] = (),
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    clip: float = 0.0,
):
    """Plain recurrent layer, h' = f(x w + h r + b): x[T,B,I], w[D,H,I], r[D,H,H], b[D,2H], lens[B], h0[D,B,H].

    `activations` are the f of each direction, `clip` bounds what it is given. Gives Y[T,D,B,H], Y_h[D,B,H].
    """
    backward = directions_of(direction)
    functions = activation_functions(activations or ("tanh",) * len(backward), activation_alpha, activation_beta)
    bounded = _clipped(clip)
    batch = x.shape[1]

    def cell(d):
        kernel, recurrent = w[d].T.astype(np.float64), r[d].T.astype(np.float64)
        offset = _part(b, d, (2 * hidden,)).reshape(2, -1).sum(0)

        def step(xt, ht):
            return (functions[d](bounded(xt @ kernel + ht @ recurrent + offset)),)

        return backward[d], [_part(h0, d, (batch, hidden))], step

    return _run(x, lens, [cell(d) for d in range(len(backward))])


def _type_rule(gates: int, states: int, functions: int) -> Callable[..., Any]:
    """Type rule of a layer with so many gates, states and activations."""

    def rule(x: Arg, w: Arg, r: Arg, b: Arg | None, lens: Arg | None, *rest: Arg | None, **attrs: Any) -> Any:
        h, d = attrs["hidden"], len(directions_of(attrs["direction"]))
        if h < 1:
            raise ModelError(f"the hidden size is {h}, it must be 1 or more")
        if x.rank not in (None, 3):
            raise ModelError(f"the input needs the axes [time, batch, features], not the shape {x.shape}")
        t, n, i = x.shape or (UNKNOWN,) * 3
        names = ("w", "r", "b", "lens", "h0", "c0", "p")
        expected: dict[str, Shape] = {
            "w": (d, gates * h, i), "r": (d, gates * h, h), "b": (d, 2 * gates * h), "lens": (n,),
            "h0": (d, n, h), "c0": (d, n, h), "p": (d, 3 * h),
        }  # fmt: skip
        for name, arg in zip(names, (w, r, b, lens, *rest), strict=False):
            if arg is None:
                continue
            if name != "lens" and arg.dtype is not x.dtype:
                raise ModelError(f"operands of the types {x.dtype} and {arg.dtype} are mixed")
            if arg.shape is not None:
                if len(arg.shape) != len(expected[name]):
                    raise ModelError(f"'{name}' has the shape {arg.shape}, not {expected[name]}")
                for pair in zip(arg.shape, expected[name], strict=True):
                    agree(pair, f"'{name}' of shape {arg.shape}, expected {expected[name]}")
        if attrs["activations"] and len(attrs["activations"]) != functions * d:
            raise ModelError(f"{len(attrs['activations'])} activations are given, not {functions * d}")
        activation_functions(attrs["activations"], (), ())
        return (x.type.with_shape((t, d, n, h)), *(x.type.with_shape((d, n, h)) for _ in range(states)))

    return rule


LSTM.shape(_type_rule(4, 2, 3))
GRU.shape(_type_rule(3, 1, 2))
RNN.shape(_type_rule(1, 1, 1))


def operands_of(
    rng: np.random.Generator, gates: int, t: int, n: int, i: int, h: int, d: int, dtype: DType = DType.F32
) -> list[Any]:
    """x, w, r, b, then no lens, then h0 and c0, then p."""

    def random(*shape: int) -> Array:
        return (fill(rng, shape, DType.F64) * 0.5).astype(dtype.numpy)

    return [
        random(t, n, i), random(d, gates * h, i), random(d, gates * h, h), random(d, 2 * gates * h), None,
        random(d, n, h), random(d, n, h), random(d, 3 * h),
    ]  # fmt: skip


def _samples(gates: int, states: int, functions: tuple[str, ...], flag: str) -> Callable[..., Iterator[Any]]:
    def samples(rng: np.random.Generator) -> Iterator[Any]:
        count = states + 1

        def case(t=5, n=2, i=3, h=7, upto=4, lens=None, dtype=DType.F32, **attrs):
            d = len(directions_of(attrs.get("direction", "forward")))
            operands = operands_of(rng, gates, t, n, i, h, d, dtype)
            operands[4] = lens
            operands = operands[:upto]
            return operands, {"hidden": h, **attrs}, count

        full = 5 + states
        short = np.array([2, 5], np.int32)
        yield case(upto=3)
        yield case()
        yield case(upto=full)
        yield case(t=1, n=1, i=1, h=1)
        yield case(t=3, n=1, i=17, h=19)
        yield case(t=0, upto=full)
        for direction in ("reverse", "bidirectional"):
            yield case(direction=direction)
            yield case(direction=direction, upto=full, lens=short)
        yield case(upto=full, lens=short)
        yield case(upto=5, lens=np.array([5, 0], np.int32), direction="bidirectional")
        yield case(clip=0.3)
        yield case(activations=functions)
        yield case(activations=("hardsigmoid", "leakyrelu", "elu")[: len(functions)])
        alpha, beta = (0.3, 0.4, 0.5)[: len(functions)], (0.25,)
        three = ("hardsigmoid", "leakyrelu", "elu")[: len(functions)]
        yield case(activations=three, activation_alpha=alpha, activation_beta=beta)
        yield case(dtype=DType.F64)
        if flag:
            yield case(**{flag: True})
            yield case(**{flag: True}, direction="bidirectional", upto=full)
        if gates == 4:
            yield case(upto=8)
            yield case(upto=8, direction="bidirectional", clip=0.5)
            yield case(upto=8, cell_clip=0.2)
            # A bias that is one sum, the form that files have.
            operands, attrs, n = case(upto=full, direction="bidirectional")
            operands[3][:, 4 * attrs["hidden"] :] = 0
            yield operands, attrs, n

    return samples


@LSTM.macs
@GRU.macs
@RNN.macs
def layer_macs(at):
    steps, batch = at.input(0)[:2]
    # Rows of all gates; each takes the input and the state of the step before.
    return steps * batch * (math.prod(at.input(1)) + math.prod(at.input(2)))


LSTM.samples(_samples(4, 2, ("sigmoid", "relu", "softsign"), "input_forget"))
GRU.samples(_samples(3, 1, ("sigmoid", "relu"), "linear_before_reset"))
RNN.samples(_samples(1, 1, ("relu",), ""))


# ---- the file's forms


def _is_plain(node: Node, activations: tuple[str, ...]) -> bool:
    """Forward or both ways, whole sequences, default activations: all that the file's forms can say."""
    a = bound(node)
    count = len(directions_of(a["direction"]))
    return (
        node.input(0).type.dtype is DType.F32
        and a["direction"] != "reverse"
        and a["activations"] in ((), activations * count)
        and not a["clip"]
        and not a.get("input_forget")
        and not a.get("cell_clip")
        and not node.has_input(4)
        and not node.has_input(7)
        and 0 not in (node.input(0).type.shape or ())
    )


def _encode_summed(node: Node, gates: int, activations: tuple[str, ...], states: int) -> WireOp | None:
    """LSTM and RNN: [x, w, r, b, states...], where b is the sum of both halves of ours."""
    a = bound(node)
    given = [node.input(5 + i) for i in range(states) if node.has_input(5 + i)]
    if not _is_plain(node, activations) or (node.has_input(3) and node.input(3).array is None):
        return None
    if given and len(given) != states:
        return None
    shape = (len(directions_of(a["direction"])), gates * a["hidden"])
    b = np.zeros(shape, np.float32)
    if node.has_input(3):
        halves = node.input(3).array
        assert halves is not None
        b = halves.reshape(shape[0], 2, shape[1]).sum(1, dtype=np.float64).astype(np.float32)
    main = {"outputCount": a["hidden"]}
    return WireOp(node.op, "LSTM", main, (*node.inputs[:3], b, *given), len(node.outputs))


def _decode_summed(wire: WireOp, states: int) -> Decoded:
    # Caffe's form has its weights in the table.
    if len(wire.inputs) not in (4, 4 + states) or wire.field("weightI") is not None:
        return None
    x, w, r, _, *given = wire.inputs
    numbers, shape = constant(wire, 3), None if w is None else w.type.shape
    if numbers is None or shape is None or shape[0] not in (1, 2):
        return None
    attrs = {"hidden": wire.field("outputCount", 0), "direction": "forward" if shape[0] == 1 else "bidirectional"}
    both = np.concatenate([numbers, np.zeros_like(numbers)], 1) if np.any(numbers) else None
    operands = (x, w, r, both, None, *given) if given else (x, w, r, both) if both is not None else (x, w, r)
    return operands, attrs


LSTM.encode("LSTM")(lambda node: _encode_summed(node, 4, ("sigmoid", "tanh", "tanh"), 2))
LSTM.decode(lambda wire: _decode_summed(wire, 2))
RNN.encode("RNN")(lambda node: _encode_summed(node, 1, ("tanh",), 1))
RNN.decode(lambda wire: _decode_summed(wire, 1))


# GRU's form has the matrices for the gates z, r apart from the candidate's, each with x and h stacked.
@GRU.encode("RNNSequenceGRU")
def _(node: Node) -> WireOp | None:
    a = bound(node)
    both_ways, h = a["direction"] == "bidirectional", a["hidden"]
    w, r, b = (node.input(i).array if node.has_input(i) else None for i in (1, 2, 3))
    if not _is_plain(node, ("sigmoid", "tanh")) or w is None or r is None or (node.has_input(3) and b is None):
        return None
    if both_ways and len(node.outputs) > 1 and node.outputs[1].uses:
        return None  # the format's runtime leaves the last state of the way back at zero
    inputs: list[Any] = [node.input(0)]
    for d in range(len(w)):
        stacked = np.concatenate([w[d], r[d]], axis=1).T
        offsets = np.zeros((2, 3 * h), np.float32) if b is None else b[d].reshape(2, 3 * h)
        inputs += [
            *(stacked[:, : 2 * h], offsets[:1, : 2 * h]),
            *(stacked[:, 2 * h :], offsets[:1, 2 * h :]),
            offsets[1:],
        ]
    if node.has_input(5):
        inputs.append(node.input(5))
    main = {
        "numUnits": h,
        "isBidirectionalRNN": both_ways,
        "linearBeforeReset": a["linear_before_reset"],
        "keepAllOutputs": True,
    }
    return WireOp("RNNSequenceGRU", "RNNParam", main, inputs, len(node.outputs))


@GRU.decode
def _(wire: WireOp) -> Decoded:
    both_ways, h = wire.field("isBidirectionalRNN", False), wire.field("numUnits", 0)
    ways = 2 if both_ways else 1
    x, *rest = wire.inputs
    arrays = [constant(wire, i + 1) for i in range(5 * ways)]
    if len(rest) not in (5 * ways, 5 * ways + 1) or not wire.field("keepAllOutputs", False):
        return None
    w, r, b = [], [], []
    for d in range(ways):
        way = [v for v in arrays[5 * d : 5 * d + 5] if v is not None]
        if len(way) < 5:
            return None
        gates, gate_offset, candidate, candidate_offset, recurrent_offset = way
        stacked = np.concatenate([gates, candidate], axis=1).T
        features = stacked.shape[1] - h
        w.append(stacked[:, :features])
        r.append(stacked[:, features:])
        b.append(np.concatenate([v.reshape(-1) for v in (gate_offset, candidate_offset, recurrent_offset)]))
    attrs = {
        "hidden": h,
        "direction": "bidirectional" if both_ways else "forward",
        "linear_before_reset": wire.field("linearBeforeReset", False),
    }
    operands = [x, np.stack(w), np.stack(r), np.stack(b) if np.any(b) else None, None, *rest[5 * ways :]]
    return operands, attrs
