from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from minnow import expr


@pytest.fixture(autouse=True)
def lazy() -> Iterator[None]:
    """Graphs are what optimizers differentiate."""
    np.random.seed(5)
    expr.lazy_eval(True)
    expr.set_thread_number(1)
    yield
    expr.lazy_eval(False)
