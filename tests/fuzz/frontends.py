"""Fuzzing of the readers: python tests/fuzz/frontends.py TARGET [--minutes N] [--executions N] [--seed N] [--how HOW]

Files are made from samples by changes that know their schemas (`messages`, `tables`), guided by the coverage of
Minnow's own code if the package `atheris` is installed; without it every change starts from a sample. Another process
does the work: when it ends in a crash, the file is kept and another process goes on. What is found is in the folder
build/fuzz/frontends/TARGET: the file and what happened, one of each kind. The exit code is 1 if there is something.
`--seeds FOLDER` keeps the samples in FOLDER/TARGET.zip, and takes them from there the next time: TensorFlow and
PyTorch, which make some, are then not needed.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_TESTS = ROOT / "tests"
_SHARED = ("", "converter/tflite", "converter/torch", "suites", "hostile", "models", "llm")
_HANG = 120
"""Seconds of one file after which the process ends: code that no signal interrupts."""
_EVERY = 200
_HARNESS = 90
"""The exit code of a process in which the code that makes files, or looks on, has failed."""
_GUIDED = ("minnow.converter.", "minnow.schema.mnn.", "minnow.llm.tokenizer.", "minnow.llm.template.")
"""Whose branches are looked at; each function takes some milliseconds at the start."""


def _prepare() -> None:
    sys.path[:0] = [str(_TESTS / name) for name in _SHARED]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import warnings

    warnings.simplefilter("ignore")  # numpy's, of numbers that no model has


class HarnessError(Exception):
    """The code that makes files, or looks on while they are read, has failed."""


class Journal:
    """What has happened so far, in a file that outlives the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "journal.json"
        self.counts = Counter[str]()
        self.places: dict[str, str] = {}
        self.findings: dict[str, str] = {}
        if self.file.exists():
            saved = json.loads(self.file.read_text())
            self.counts.update(saved["counts"])
            self.places, self.findings = saved["places"], saved["findings"]

    def add(self, result: str, data: bytes) -> None:
        """One execution; of what the reader did not expect, one file of each kind is kept."""
        kind, _, place = result.partition(" @ ")
        self.counts[kind] += 1
        if place and result not in self.places:
            self.places[result] = self._keep(data, "unexpected", result)
        self._saved()

    def found(self, key: str, text: str, data: bytes) -> None:
        self.counts[f"FINDING {key}"] += 1
        if key not in self.findings:
            self.findings[key] = self._keep(data, "finding", f"{key}\n{text}")
        self._saved()

    def _keep(self, data: bytes, kind: str, text: str) -> str:
        name = f"{kind}-{hashlib.sha256(text.splitlines()[0].encode()).hexdigest()[:10]}"
        (self.folder / name).write_bytes(data)
        (self.folder / f"{name}.txt").write_text(text)
        return name

    def _saved(self) -> None:
        if self.executions % _EVERY == 0:
            self.save()

    def save(self) -> None:
        temporary = self.file.with_suffix(".new")
        table = {"counts": self.counts, "places": self.places, "findings": self.findings}
        temporary.write_text(json.dumps(table, indent=1))
        temporary.replace(self.file)

    @property
    def executions(self) -> int:
        return self.counts.total()


def _instrument() -> int:
    """Has the functions of the readers that are there tell which branches they take."""
    import atheris

    done = 0
    for function in [f for f in gc.get_objects() if isinstance(f, types.FunctionType)]:
        if (function.__module__ or "").startswith(_GUIDED):
            try:
                atheris.instrument_func(function)
                done += 1
            except Exception:  # noqa: BLE001  (code of a kind that it does not know stays as it is)
                continue
    return done


def _start(target: Any, how: str, kept: Path | None) -> list[bytes]:
    """The files to start from; those that are in the folder `kept`, or else they are written there."""
    archive = kept / f"{target.name}.zip" if kept else None
    if archive is not None and archive.exists():
        with zipfile.ZipFile(archive) as file:
            start = [file.read(name) for name in sorted(file.namelist())]
    else:
        start = [*target.seeds(), *(target.more() if how != "small" else ())]
        if archive is not None:
            archive.parent.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
                for i, data in enumerate(start):
                    file.writestr(f"{i:05}", data)
    return start


def work(name: str, seconds: float, most: int, seed: int, how: str, folder: Path, seeds: Path | None) -> None:
    """Reads files until the time is over, or so many have been read."""
    _prepare()
    from fuzz import samples
    from fuzz.probe import Finding, little_memory, probe
    from fuzz.targets import TARGETS

    target, journal = TARGETS[name], Journal(folder)
    start = _start(target, how, seeds)
    place = tempfile.TemporaryDirectory(prefix="minnow-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    last = folder / "last"
    begun, end = journal.executions, time.monotonic() + seconds  # to make the first files takes some of them longer

    def one(data: bytes) -> None:
        if time.monotonic() > end or (most and journal.executions - begun >= most):
            journal.save()
            place.cleanup()
            sys.stdout.flush()
            os._exit(0)
        last.write_bytes(data)
        try:
            journal.add(probe(target, data, Path(place.name)), data)
        except Finding as e:
            journal.found(e.key, e.text, data)

    dice = random.Random(seed)
    with little_memory(), _harness(folder):
        # What has broken something once is read again, but not changed: a third of the Keras files then took seconds.
        for data in [*start, *samples.kept(name)]:
            one(data)
        if how != "guided" or importlib.util.find_spec("atheris") is None:
            while True:
                one(target.damage(dice.choice(start), dice.choice(start), dice))
        _guided(target, start, one, seed, folder)


@contextmanager
def _harness(folder: Path) -> Iterator[None]:
    """The process ends if the code in the block fails: it is not what is tested."""
    try:
        yield
    except Exception:  # noqa: BLE001  (any of them)
        (folder / "harness").write_text(traceback.format_exc())
        os._exit(_HARNESS)


def _guided(target: Any, start: list[bytes], one: Any, seed: int, folder: Path) -> None:
    import atheris

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for data in start:
        (corpus / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    _instrument()

    def change(data: bytes, most: int, number: int) -> bytes:
        dice = random.Random(number)
        with _harness(folder):
            made = bytes(target.damage(data or dice.choice(start), dice.choice(start), dice))
        return made if len(made) <= most else data  # what is cut off is no file

    def read(data: bytes) -> None:
        with _harness(folder):
            one(data)

    options = ["-rss_limit_mb=0", f"-timeout={_HANG}", "-max_len=131072", f"-seed={seed or 1}", "-print_final_stats=0",
               "-reload=0", "-verbosity=0", "-len_control=0", f"-artifact_prefix={folder}/"]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], read, custom_mutator=change)
    atheris.Fuzz()


def run(name: str, seconds: float, most: int, seed: int, how: str, folder: Path, seeds: Path | None) -> int:
    """Keeps a process at work, and says at the end what has happened."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "journal.json").unlink(missing_ok=True)
    end, crashes = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        command = [sys.executable, __file__, name, "--work", str(left), "--executions", str(most), "--seed", str(seed)]
        command += ["--folder", str(folder), "--how", how, *(["--seeds", str(seeds)] if seeds else [])]
        with (folder / "log").open("ab") as log:
            done = subprocess.run(command, stdout=log, stderr=log, check=False, cwd=folder)
        if done.returncode == 0:
            break
        if done.returncode == _HARNESS:
            raise HarnessError((folder / "harness").read_text())
        crashes, seed = crashes + 1, seed + 1
        journal = Journal(folder)
        code = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
        last = folder / "last"
        text = (folder / "log").read_text(errors="replace")[-3000:]
        journal.found(f"the process ends @ {code}", text, last.read_bytes() if last.exists() else b"")
        journal.save()
        if crashes > 20:
            break
    journal = Journal(folder)
    sys.stdout.write(f"{name}: {journal.executions:,} files\n")
    for kind, count in journal.counts.most_common():
        sys.stdout.write(f"  {count:>9,}  {kind}\n")
    for key, file in journal.findings.items():
        sys.stdout.write(f"FOUND {key}\n  {folder / file}\n")
    for key, file in journal.places.items():
        sys.stdout.write(f"not expected by the reader: {key}\n  {folder / file}\n")
    return 1 if journal.findings else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="one of the names in tests/fuzz/targets.py, or `all`")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target")
    parser.add_argument("--executions", type=int, default=0, help="the most of them; 0: as many as there is time for")
    parser.add_argument("--seed", type=int, default=1)
    text = "guided by coverage; changes of the seeds only; of few seeds, which are made fast"
    parser.add_argument("--how", choices=("guided", "blind", "small"), default="guided", help=text)
    parser.add_argument("--folder", type=Path, help="for what is found; default: build/fuzz/frontends/TARGET")
    parser.add_argument("--seeds", type=Path, help="where the samples are kept from one run to the next")
    parser.add_argument("--work", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    seeds = options.seeds.resolve() if options.seeds else None
    if options.work is not None:
        work(options.target, options.work, options.executions, options.seed, options.how, options.folder, seeds)
        return 0
    _prepare()
    from fuzz.targets import TARGETS

    names = list(TARGETS) if options.target == "all" else [options.target]
    if unknown := [n for n in names if n not in TARGETS]:
        parser.error(f"there is no target '{unknown[0]}'; known are {', '.join(TARGETS)}")
    code = 0
    for name in names:
        folder = (options.folder or ROOT / "build" / "fuzz" / "frontends" / name).resolve()
        code |= run(name, 60 * options.minutes, options.executions, options.seed, options.how, folder, seeds)
    return code


if __name__ == "__main__":
    sys.exit(main())
