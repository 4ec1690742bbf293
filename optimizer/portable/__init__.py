"""A second graph for runtimes that know less: what Minnow's engine computes with small integers, in their own ops.

`translation.py` goes through the graph and says what small integers are in the other one; `values.py`, `arithmetic.py`,
`layer.py` and `recurrent.py` have a function for each op that computes with them.
"""

from minnow.optimizer.portable import arithmetic, layer, recurrent, values  # noqa: F401  (they register functions of ops)
from minnow.optimizer.portable.translation import NoFormError, Portable, has_small_integers, portable

__all__ = ["NoFormError", "Portable", "has_small_integers", "portable"]
