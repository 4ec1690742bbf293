"""The store: what is published is there complete or not at all, whatever happens to its writers and its files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest
import store_worker

from minnow.schema.errors import UsageError, WriteError
from minnow.workflow.store import GRACE, Store

KEY, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture(params=["folder", "file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        pytest.importorskip("fsspec")
    urls = {"folder": "store", "file": f"file://{tmp_path}/store", "memory": f"memory://{uuid4().hex}/store"}
    url = urls[request.param]
    return Store(tmp_path / url if request.param == "folder" else url)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content" * 1000)
    return path


def test_entries_come_back(store: Store, file: Path, tmp_path: Path) -> None:
    assert store.get(KEY) is None
    entry = store.put(KEY, {"status": "passed", "list": [1, None, "ü"]}, {"model.mnn": file, "model.mnn.weight": file})
    assert store.get(KEY) == entry
    assert store.holds(entry)
    assert store.fetch(entry, "model.mnn", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()
    store.put(OTHER, {}, {})
    assert sorted(store.keys()) == [KEY, OTHER]
    store.remove(KEY)
    assert store.get(KEY) is None


def test_equal_files_are_stored_once(store: Store, file: Path) -> None:
    for i in range(3):
        store.put(f"{i}" * 64, {}, {"a": file, "b": file})
    assert store.gc(0).kept == 3 + 1


def test_gc_removes_what_no_entry_names_and_leaves_new_files(store: Store, file: Path, tmp_path: Path) -> None:
    store.put(KEY, {}, {"model.mnn": file})
    other = tmp_path / "other"
    other.write_bytes(b"other")
    entry = store.put(OTHER, {}, {"model.mnn": other})
    store.remove(KEY)
    assert store.gc(GRACE).removed == 0
    swept = store.gc(-1)
    assert (swept.removed, swept.removed_bytes, swept.kept) == (1, 7000, 2)
    assert store.holds(entry)
    assert store.gc(-1, used=frozenset([KEY])).removed == 2


def test_remote_sources_are_remembered(store: Store) -> None:
    known = {"sources": {"": KEY}}
    assert store.source("s3://bucket/a 5 etag") is None
    store.remember_source("s3://bucket/a 5 etag", known)
    assert store.source("s3://bucket/a 5 etag") == known
    assert store.source("s3://bucket/a 6 etag") is None


@pytest.mark.parametrize("what", ["objects", "entries", "sources"])
def test_damage_is_a_miss_and_heals(file: Path, tmp_path: Path, what: str) -> None:
    store = Store(tmp_path / "store")
    for cut in (0, 30, -1):
        entry = store.put(KEY, {"a": 1}, {"model.mnn": file})
        store.remember_source("x", OTHER)
        (damaged,) = [p for p in (tmp_path / "store" / what).rglob("*") if p.is_file()]
        data = damaged.read_bytes()
        damaged.write_bytes(data[:cut] if cut >= 0 else data[:-1] + bytes([data[-1] ^ 1]))
        found = store.get(KEY)
        assert (found is None) == (what == "entries")
        if what == "objects":
            assert not store.fetch(entry, "model.mnn", tmp_path / "copy")
            assert not (tmp_path / "copy").exists()
        assert (store.source("x") is None) == (what == "sources")
        entry = store.put(KEY, {"a": 1}, {"model.mnn": file})
        assert store.fetch(entry, "model.mnn", tmp_path / "copy")
        (tmp_path / "copy").unlink()


def test_a_foreign_entry_is_a_miss(file: Path, tmp_path: Path) -> None:
    """An entry that was copied to the place of another key is not taken for it."""
    store = Store(tmp_path / "store")
    store.put(KEY, {}, {"model.mnn": file})
    place = tmp_path / "store" / "entries" / OTHER[:2]
    place.mkdir(parents=True)
    (tmp_path / "store" / "entries" / KEY[:2] / KEY[2:]).rename(place / OTHER[2:])
    assert store.get(OTHER) is None


def test_errors_name_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="the store cannot be used"):
        Store(tmp_path / "file" / "store")
    with pytest.raises(UsageError, match="nosuch"):
        Store("nosuch://x/y")


def test_urls_without_fsspec_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError, match="fsspec") as caught:
        Store("s3://bucket/store")
    assert "minnow[fleet]" in caught.value.hint


def check_all(store: Store, folder: Path) -> int:
    """Whether every entry is complete and right; how many there are."""
    keys = list(store.keys())
    for number in range(40):
        entry = store.get(store_worker.key(number))
        if entry is not None:
            copy = folder / f"copy{time.monotonic_ns()}"
            assert entry.record == {"number": number}
            assert store.fetch(entry, "model.mnn", copy)
            assert copy.read_bytes() == store_worker.content(number)
            copy.unlink()
    assert all(store.get(key) is not None for key in keys)
    return len(keys)


def run_writers(folder: Path, seconds: float, rounds: int, gc: bool = False) -> None:
    """Kills writers at any instant, while others write and read the same keys."""
    store, order = Store(folder / "store"), random.Random(7)
    program = [sys.executable, store_worker.__file__, str(folder / "store")]
    for i in range(rounds):
        with open(folder / "log", "ab") as log:
            writers = [subprocess.Popen([*program, str(2 * i + j)], stdout=subprocess.PIPE, stderr=log) for j in (0, 1)]
            for writer in writers:  # both write
                assert writer.stdout is not None
                assert writer.stdout.readline()
            end = time.monotonic() + order.uniform(0, seconds)
            while time.monotonic() < end:
                check_all(store, folder)
                if gc:
                    store.gc(60)
            for writer in writers:
                writer.send_signal(signal.SIGKILL)
                writer.communicate()
        assert check_all(store, folder) > 0
    assert (folder / "log").read_bytes() == b""


def test_killed_writers_leave_no_incomplete_entry(tmp_path: Path) -> None:
    run_writers(tmp_path, 0.3, 2)
    parts = list((tmp_path / "store").rglob("*.part"))
    Store(tmp_path / "store").gc(-1)
    assert not list((tmp_path / "store").rglob("*.part")), parts


@pytest.mark.slow
def test_killed_writers_leave_no_incomplete_entry_many_times(tmp_path: Path) -> None:
    run_writers(tmp_path, 0.5, 40, gc=True)


def test_a_writer_that_is_killed_between_files_and_entry(tmp_path: Path, file: Path) -> None:
    """The only state between: objects without an entry. It is a miss, and `gc` removes them."""
    store = Store(tmp_path / "store")
    store.put(KEY, {}, {"model.mnn": file})
    os.unlink(tmp_path / "store" / "entries" / KEY[:2] / KEY[2:])
    assert store.get(KEY) is None
    assert store.gc(-1).removed == 1
