"""Models that are cut at inner tensors (`--inputs`, `--outputs`): what the formats with named tensors share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from minnow.schema.errors import UsageError

_MOST = 3


def unknown_tensor(name: str, known: Iterable[str], where: str, what: str = "tensor") -> UsageError:
    """The error for a name that no tensor has; says which names are near. `what`: the format's word for a tensor."""
    names = list(dict.fromkeys(n for n in known if n))
    last = name.rpartition("/")[2].lower()
    inside = [n for n in names if last and last in n.lower()]
    near = list(dict.fromkeys([*get_close_matches(name, names, _MOST), *inside]))[:_MOST]
    hint = f"is it one of: {', '.join(near)}?" if near else f"it has, among others: {', '.join(names[-_MOST:])}"
    return UsageError(f"the model has no {what} '{name}'", where=where, hint=hint)
