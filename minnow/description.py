"""The JSON file that describes what a folder of a conversion holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minnow.schema.errors import FormatError


def read_description(path: Path, most_bytes: int, of: str, hint: str) -> Any:
    """The content of a description, which may be any JSON value.

    Args:
        path: the file.
        most_bytes: its largest size.
        of: what it describes, for messages.
        hint: how such a folder is made.

    Raises:
        FormatError: the file is missing, too large, or not JSON.
    """
    try:
        if path.stat().st_size > most_bytes:
            raise FormatError("the file is too large", where=str(path))
        return json.loads(path.read_bytes())
    except NotADirectoryError:
        raise FormatError(f"this is a file, not the folder of a {of}", where=str(path.parent), hint=hint) from None
    except OSError as e:
        why = e.strerror or str(e)
        raise FormatError(f"cannot read the description of the {of}", where=str(path), why=why, hint=hint) from None
    except (ValueError, RecursionError) as e:
        raise FormatError("the file is not JSON", where=str(path), why=str(e)[:200]) from None
