"""The boundary of the readers: whatever bytes they are given, only Minnow's own errors leave them.

A reader is written for files that say what they mean. What a damaged or hostile file breaks in it, an index out of
range or a text that is not a number, is the file's fault, and is said so. The error underneath stays with it
(`__cause__`), and MINNOW_DEBUG=1 shows it on the command line, for it may be a defect of the reader's after all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minnow.schema.errors import FormatError, MinnowError, ModelError
from minnow.schema.limit import file_bytes, metered

strict = False
"""Lets unexpected errors through as they are. The tests do so: what valid files meet must not look like damage."""

_LONGEST = 300


@contextmanager
def guarded(path: Path, *beside: Path) -> Iterator[None]:
    """Reads in the block: within the limits of a file of that size, and with errors of our own.

    Args:
        path: the file or folder that is read. beside: files that belong to it and lie elsewhere.

    Raises:
        FormatError, ModelError: instead of what is no MinnowError. ImportError stays what it is: it is about this
            installation, not about the file.
    """
    try:
        with metered(sum(map(file_bytes, (path, *beside)))):
            yield
    except MinnowError as e:
        e.where = e.where or str(path)
        raise
    except MemoryError as e:
        raise ModelError(
            "the model needs more memory than is available, or than the limit for a file of its size",
            where=str(path),
            why=str(e)[:_LONGEST],
        ) from e
    except RecursionError as e:
        raise ModelError("the model is nested too deeply", where=str(path), why=_place(e)) from e
    except ImportError:
        raise
    except Exception as e:
        if strict:
            raise
        raise FormatError(
            "the file is damaged, or holds what its format does not allow",
            where=str(path),
            why=f"{type(e).__name__}: {str(e)[:_LONGEST]} ({_place(e)})",
            hint="MINNOW_DEBUG=1 shows the whole error; if other programs read the file, please report it",
        ) from e


def _place(error: BaseException) -> str:
    """The line of ours at which it came up."""
    trace, place = error.__traceback__, ""
    here = Path(__file__)
    folder = here.parents[1]
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if folder in file.parents and file != here:
            place = f"{os.fspath(file.relative_to(folder))}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
