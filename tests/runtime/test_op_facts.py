"""What the engine says of ops beside their kernels is what the registry says."""

from __future__ import annotations

import numpy as np

from minnow.runtime import _engine
from minnow.schema.ops.epilogue import FUNCTIONS


def test_activations_are_those_of_the_registry() -> None:
    engine = {name: row for name, *row in _engine.activations()}
    assert engine.keys() == FUNCTIONS.keys()
    for name, function in FUNCTIONS.items():
        op, alpha, beta, fixed, *values = engine[name]
        assert op == function.op.name
        assert fixed == (name == "relu6")
        names = tuple(function.fixed) if fixed else function.names
        assert (alpha, beta) == (*names, "", "")[:2]
        for attr, value in zip(names, values, strict=False):
            expected = function.fixed[attr] if fixed else function.op.attrs[attr].default
            assert np.float32(value) == np.float32(expected), (name, attr)
        # Attributes that the engine does not look at have one value there.
        others = {a: v for a, v in function.fixed.items() if a not in names}
        assert others == ({"approximate": "none"} if name == "gelu" else {})
        assert set(function.op.attrs) == {*names, *others}


def test_an_activation_that_comes_first_is_the_name_of_its_op() -> None:
    """Clip is "clip" to the engine, whatever it clips to: only a file says "relu6"."""
    first = {op: name for name, op, *_ in reversed(_engine.activations())}
    assert first == {f.op.name: name for name, f in FUNCTIONS.items() if name != "relu6"}
