"""Cleaning the store of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from minnow.workflow.cell import Cell
from minnow.workflow.fleet.unit import absolute
from minnow.workflow.fleet.work import key_in
from minnow.workflow.store import Store, Swept


def sweep(cells: Sequence[Cell], url: str) -> Swept:
    """Removes what does not belong to the cells as they are now, if it is older than a day.

    Raises:
        UsageError, WriteError: the store cannot be used. FormatError: a source is missing; nothing is removed.
    """
    store = Store(url)
    used = frozenset(key_in(store, absolute(cell)) for cell in cells if not cell.excluded)
    return store.gc(used=used)
