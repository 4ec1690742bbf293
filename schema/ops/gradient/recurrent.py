"""Derivatives of recurrent layers: the steps are written one after the other, for a number of steps that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.schema.ops import recurrent
from minnow.schema.registry.gradient import Step, Term

# name -> the function in terms of ops; its parameters are those of the reference's function
_ACTIVATIONS: dict[str, Callable[..., Term]] = {
    "sigmoid": lambda g, v: g.Sigmoid(v),
    "tanh": lambda g, v: g.Tanh(v),
    "relu": lambda g, v: g.Relu(v),
    "softsign": lambda g, v: g.Softsign(v),
    "softplus": lambda g, v: g.Softplus(v),
    "leakyrelu": lambda g, v, a: g.LeakyRelu(v, alpha=a),
    "thresholdedrelu": lambda g, v, a: g.ThresholdedRelu(v, alpha=a),
    "elu": lambda g, v, a: g.Elu(v, alpha=a),
    "hardsigmoid": lambda g, v, a, b: g.HardSigmoid(v, alpha=a, beta=b),
    "scaledtanh": lambda g, v, a, b: g.Tanh(v * b) * a,
    "affine": lambda g, v, a, b: v * a + b,
}


def _functions(g: Step, names: Sequence[str], alpha: Sequence[float], beta: Sequence[float]) -> list[Any]:
    left = [list(alpha), list(beta)]

    def made(name: str) -> Any:
        defaults = recurrent._ACTIVATIONS[name][0]
        given = [left[i].pop(0) if left[i] else d for i, d in enumerate(defaults)]
        return lambda v: _ACTIVATIONS[name](g, v, *given)

    return [made(name) for name in names]


def _layer(g: Step, operands: Sequence[Term | None], attrs: dict[str, Any], gates: int, cell: Any) -> list[Term]:
    """The results of all directions. `cell(d)` gives a function from x w, h and the other states to the new states."""
    x, w, _r, _b, lens, h0, *rest = operands
    assert x is not None
    assert w is not None
    steps, batch, _ = x.shape
    hidden, backward = attrs["hidden"], recurrent.directions_of(attrs["direction"])
    ys, finals = [], []
    runs = None
    if lens is not None:
        times = g.term(np.arange(steps).reshape(-1, 1, 1))
        runs = times < g.reshaped(g.Cast(lens, to=times.dtype), 1, -1, 1)

    def part(v: Term | None, d: int, *shape: int) -> Term:
        if v is None:
            return g.term(np.zeros(shape), x)
        return g.reshaped(g.Gather(v, g.term(np.int64(d))), *shape)

    for d, turned in enumerate(backward):
        projected = g.MatMul(x, part(w, d, gates * hidden, w.shape[2]), transpose_b=True)
        step = cell(d, part)
        states = [part(s, d, batch, hidden) for s in (h0, *rest)]
        rows: list[Any] = [None] * steps
        for t in reversed(range(steps)) if turned else range(steps):
            xt = g.reshaped(g.Gather(projected, g.term(np.int64(t))), batch, gates * hidden)
            new = step(xt, *states)
            if runs is not None:
                on = g.reshaped(g.Gather(runs, g.term(np.int64(t))), batch, 1)
                rows[t] = g.Where(on, new[0], 0.0)
                states = [g.Where(on, n, s) for n, s in zip(new, states, strict=True)]
            else:
                rows[t], states = new[0], list(new)
        if rows:
            ys.append(g.Concat(*(g.reshaped(v, 1, 1, batch, hidden) for v in rows), axis=0))
        else:
            ys.append(g.term(np.zeros((0, 1, batch, hidden)), x))
        finals.append([g.reshaped(s, 1, batch, hidden) for s in states])
    last = [g.Concat(*s, axis=0) for s in zip(*finals, strict=True)]
    return [g.Concat(*ys, axis=1), *last][: len(g.node.outputs)]


def _bounded(g: Step, clip: float) -> Callable[[Term], Term]:
    return (lambda v: g.Clip(v, min=-clip, max=clip)) if clip else (lambda v: v)


def _parts(g: Step, v: Term, count: int) -> tuple[Term, ...]:
    """Equal parts of the last axis."""
    return g.Split(v, axis=-1, sizes=(v.shape[-1] // count,) * count, n_outputs=count)


@recurrent.LSTM.gradient
def _(g, *operands, activations, activation_alpha, activation_beta, clip, input_forget, cell_clip, **attrs):
    names = activations or ("sigmoid", "tanh", "tanh") * len(recurrent.directions_of(attrs["direction"]))
    functions = _functions(g, names, activation_alpha, activation_beta)
    bounded, cell_bounded = _bounded(g, clip), _bounded(g, cell_clip)
    hidden = attrs["hidden"]

    def computed(*given):
        _, _, r, b, *_, p = given

        def cell(d, part):
            f, gate, out = functions[3 * d : 3 * d + 3]
            matrix = part(r, d, 4 * hidden, hidden)
            offset = None if b is None else sum_of_halves(g, part(b, d, 2, 4 * hidden))
            pi, po, pf = (None,) * 3 if p is None else _parts(g, part(p, d, 1, 3 * hidden), 3)

            def step(xt, h, c):
                inner = xt + g.MatMul(h, matrix, transpose_b=True)
                i, o, forget, new = _parts(g, inner if offset is None else inner + offset, 4)
                i = f(bounded(i if pi is None else i + pi * c))
                forget = 1.0 - i if input_forget else f(bounded(forget if pf is None else forget + pf * c))
                c = cell_bounded(forget * c + i * gate(bounded(new)))
                return f(bounded(o if po is None else o + po * c)) * out(c), c

            return step

        return _layer(g, given[:7], attrs, 4, cell)

    return g.through(computed, *operands)


def sum_of_halves(g: Step, b: Term) -> Term:
    return g.total(b, [0])


@recurrent.GRU.gradient
def _(g, *operands, activations, activation_alpha, activation_beta, clip, linear_before_reset, **attrs):
    names = activations or ("sigmoid", "tanh") * len(recurrent.directions_of(attrs["direction"]))
    functions = _functions(g, names, activation_alpha, activation_beta)
    bounded = _bounded(g, clip)
    hidden = attrs["hidden"]

    def computed(*given):
        _, _, r, b, *_ = given

        def cell(d, part):
            f, gate = functions[2 * d : 2 * d + 2]
            both, last = g.Split(part(r, d, 3 * hidden, hidden), axis=0, sizes=(2 * hidden, hidden), n_outputs=2)
            offsets = part(b, d, 2, 3 * hidden)
            of_x, of_h = g.Split(offsets, axis=0, sizes=(1, 1), n_outputs=2)
            gates_of_h, last_of_h = g.Split(of_h, axis=1, sizes=(2 * hidden, hidden), n_outputs=2)

            def step(xt, h):
                gates, new = g.Split(xt + of_x, axis=1, sizes=(2 * hidden, hidden), n_outputs=2)
                inner = gates + g.MatMul(h, both, transpose_b=True) + gates_of_h
                z, reset = _parts(g, f(bounded(inner)), 2)
                if linear_before_reset:
                    inner = reset * (g.MatMul(h, last, transpose_b=True) + last_of_h)
                else:
                    inner = g.MatMul(reset * h, last, transpose_b=True) + last_of_h
                return ((1.0 - z) * gate(bounded(new + inner)) + z * h,)

            return step

        return _layer(g, given, attrs, 3, cell)

    return g.through(computed, *operands)


@recurrent.RNN.gradient
def _(g, *operands, activations, activation_alpha, activation_beta, clip, **attrs):
    names = activations or ("tanh",) * len(recurrent.directions_of(attrs["direction"]))
    functions = _functions(g, names, activation_alpha, activation_beta)
    bounded = _bounded(g, clip)
    hidden = attrs["hidden"]

    def computed(*given):
        _, _, r, b, *_ = given

        def cell(d, part):
            matrix = part(r, d, hidden, hidden)
            offset = sum_of_halves(g, part(b, d, 2, hidden))
            return lambda xt, h: (functions[d](bounded(xt + g.MatMul(h, matrix, transpose_b=True) + offset)),)

        return _layer(g, given, attrs, 1, cell)

    return g.through(computed, *operands)
