"""The files of rare ops run: a seed that is refused at once tells a fuzzer nothing."""

from __future__ import annotations

import numpy as np
from fuzz import rare

import minnow


def test_the_files_run() -> None:
    x = np.linspace(0.5, 2, 48, dtype=np.float32).reshape(1, 3, 4, 4)
    results = []
    for data in rare.files():
        session = minnow.load(data)
        feeds = {info.name: np.resize(x, [int(d) for d in info.shape or ()]) for info in session.inputs}
        results.append(next(iter(session.run(feeds).values())))
    assert len(results) == len(rare.FORMS) + 1
    named = dict(zip([op for op, *_ in rare.FORMS], results, strict=False))
    np.testing.assert_allclose(named["Bnll"], np.log1p(np.exp(x)), rtol=1e-5)
    np.testing.assert_allclose(named["Log"], np.log(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(named["CumProd"], np.cumprod(x, 2), rtol=1e-5)
    mean, deviation = x.mean((2, 3), keepdims=True), x.std((2, 3), keepdims=True)
    np.testing.assert_allclose(named["InstanceNorm"], (x - mean) / np.sqrt(deviation**2 + 1e-3), rtol=1e-3, atol=1e-4)
    assert named["PriorBox"].shape == (1, 2, 16 * 3 * 4)
