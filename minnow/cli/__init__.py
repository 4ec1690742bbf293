"""The command `mnnconvert`. Each module of this package whose name has no underscore in front is a command."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of `mnnconvert`: runs a command and exits with its code."""
    import sys

    from minnow.cli._app import run

    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))
