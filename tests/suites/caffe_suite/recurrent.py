"""RNN and LSTM, with markers of where sequences begin."""

from __future__ import annotations

from .case import case, f32, layer, torch, value, weight

T, N, D, H = 5, 2, 3, 4
X = f32(T, N, D)
WHOLE = value([[0] * N] + [[1] * N] * (T - 1))
BROKEN = value([[0, 0], [1, 1], [0, 1], [1, 1], [1, 0]])


def steps(cell, x, cont, states):
    """Runs a cell of torch step by step; states are forgotten where a sequence begins."""
    out = []
    for t in range(x.shape[0]):
        states = cell(x[t], [s * cont[t].reshape(-1, 1) for s in states])
        out.append(states[0])
    return torch.stack(out), states


def lstm(x, cont, w, b, u, states=None, static=None, ws=None):
    cell = torch.nn.LSTMCell(x.shape[-1], H)
    # Caffe's gates are input, forget, output, candidate; torch's input, forget, candidate, output.
    turn = torch.cat([torch.arange(2 * H), torch.arange(3 * H, 4 * H), torch.arange(2 * H, 3 * H)])
    with torch.no_grad():
        cell.weight_ih.copy_(w[turn])
        cell.bias_ih.copy_(b[turn])
        cell.weight_hh.copy_(u[turn])
        cell.bias_hh.zero_()
        if static is not None:
            extra = static @ ws.T

            def run(v, s):
                cell.bias_hh.zero_()
                gates = v @ w.T + b + extra + s[0] @ u.T
                i, f, o, g = gates.chunk(4, 1)
                c = f.sigmoid() * s[1] + i.sigmoid() * g.tanh()
                return [o.sigmoid() * c.tanh(), c]

        else:

            def run(v, s):
                return list(cell(v, (s[0], s[1])))

        zero = torch.zeros(x.shape[1], H)
        return steps(run, x, cont, list(states) if states else [zero, zero])


W = (weight(4 * H, D), weight(4 * H), weight(4 * H, H))
case("lstm", X, WHOLE, layer("LSTM", f"num_output: {H}", *W, at="x y"))(lambda x, c, w, b, u: lstm(x, c, w, b, u)[0])
case("lstm_sequences", X, BROKEN, layer("LSTM", f"num_output: {H}", *W, at="x y"))(
    lambda x, c, w, b, u: lstm(x, c, w, b, u)[0]
)
case(
    "lstm_4d_input", f32(T, N, D, 2), WHOLE, layer("LSTM", f"num_output: {H}", weight(4 * H, 2 * D), *W[1:], at="x y")
)(lambda x, c, w, b, u: lstm(x.flatten(2), c, w, b, u)[0])
case("lstm_one_step", f32(1, 3, D), value([[0, 0, 0]]), layer("LSTM", f"num_output: {H}", *W, at="x y"))(
    lambda x, c, w, b, u: lstm(x, c, w, b, u)[0]
)
case(
    "lstm_static",
    X,
    WHOLE,
    f32(N, 5),
    layer("LSTM", f"num_output: {H}", weight(4 * H, D), weight(4 * H), weight(4 * H, 5), weight(4 * H, H), at="x y z"),
)(lambda x, c, s, w, b, ws, u: lstm(x, c, w, b, u, None, s, ws)[0])


def exposed(x, c, h0, c0, w, b, u):
    y, (h, s) = lstm(x, c, w, b, u, (h0[0], c0[0]))
    return y, h[None], s[None]


case(
    "lstm_exposed",
    X,
    value([[1] * N] * T),
    f32(1, N, H),
    f32(1, N, H),
    layer("LSTM", f"num_output: {H} expose_hidden: true", *W, at="x y z w", to="out h c"),
)(exposed)


def rnn(x, c, w, b, u, v, d):
    def cell(a, s):
        h = (a @ w.T + b + s[0] @ u.T).tanh()
        return [h]

    h, _ = steps(cell, x, c, [torch.zeros(x.shape[1], H)])
    return (h @ v.T + d).tanh()


R = (weight(H, D), weight(H), weight(H, H), weight(H, H), weight(H))
case("rnn", X, WHOLE, layer("RNN", f"num_output: {H}", *R, at="x y"))(rnn)
case("rnn_sequences", X, BROKEN, layer("RNN", f"num_output: {H}", *R, at="x y"))(rnn)


def fork(x, w, u, b, batch=1, cont=None):
    """The `Lstm` of a fork: rows are steps of `batch` sequences, and the candidate is the last gate, too."""
    x = x.flatten(1).reshape(-1, batch, x.flatten(1).shape[1])
    if cont is None:
        cont = torch.ones(x.shape[0], batch)
        cont[0] = 0
    return lstm(x, cont, w, b, u)[0].reshape(-1, H)


V = (weight(4 * H, D), weight(4 * H, H), weight(4 * H))
case("lstm_fork", f32(6, D), layer("Lstm", f"num_output: {H}", *V))(fork)
case(
    "lstm_fork_4d",
    f32(6, D, 1, 2),
    layer("Lstm", f"num_output: {H}", weight(1, 4, H, 2 * D), weight(1, 4, H, H), weight(1, 1, 4, H)),
)(lambda x, w, u, b: fork(x, w.reshape(4 * H, -1), u.reshape(4 * H, H), b.flatten()))
case("lstm_fork_one_step", f32(1, D), layer("Lstm", f"num_output: {H}", *V))(fork)
case("lstm_fork_batch2", f32(6, D), layer("Lstm", f"num_output: {H} batch_size: 2 clipping_threshold: 0.1", *V))(
    lambda *a: fork(*a, batch=2)
)
