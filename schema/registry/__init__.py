"""The machinery that all ops share, and no op: `schema/ops` is written with it, everyone else asks it about ops.

- `op`: what an op is, how one is registered and found; `encoding` and `dimension`: what many ops are written with.
- `builder` makes nodes and infers their types; `verify` checks graphs; `interpreter` runs them by the numpy references.
- `folding`, `constant`, `cost`, `sign` and `symbolic`: what can be computed, counted or proved of nodes without running
  the model.
"""
