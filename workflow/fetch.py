"""Sources by URL: a file or folder is downloaded with fsspec, which an extra installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from minnow.schema.errors import FormatError, MinnowError, UsageError

EXTRA = "minnow[fleet]"


def fetched(url: str, folder: Path) -> Path:
    """Downloads a file, or a folder with all files in it.

    Args:
        url: of any protocol that fsspec knows: https://, s3://, gs://, file://.
        folder: where to put it.

    Returns:
        The path of the file or folder.

    Raises:
        UsageError: fsspec, or the package for this protocol, is not installed. FormatError: it cannot be downloaded.
    """
    with _explained(url):
        files, path = _opened(url)
        target = folder / PurePosixPath(path.rstrip("/")).name
        if files.isdir(path):
            files.get(path.rstrip("/") + "/", f"{target}/", recursive=True)
        else:
            files.get_file(path, str(target))
    return target


def matching(pattern: str) -> list[str]:
    """The URLs that fit a pattern with * and **. Raises as `fetched`."""
    with _explained(pattern):
        files, path = _opened(pattern)
        return [str(files.unstrip_protocol(name)) for name in files.glob(path)]


def _opened(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(
            "sources by URL need the package fsspec", where=url, hint=f"pip install '{EXTRA}', or download the file"
        ) from None
    files, path = url_to_fs(url)
    return files, str(path)


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turns errors in the block into ours."""
    try:
        yield
    except MinnowError:
        raise
    except ImportError as e:
        raise UsageError("a package for this kind of URL is not installed", where=url, why=str(e)) from None
    except ValueError as e:
        raise UsageError("this is not a URL that can be read", where=url, why=str(e)) from None
    except Exception as e:
        raise FormatError("the source cannot be downloaded", where=url, why=f"{type(e).__name__}: {e}"[:300]) from e
