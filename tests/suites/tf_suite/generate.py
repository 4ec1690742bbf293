"""Makes all files of the suite: python -m tests.suites.tf_suite.generate FOLDER [--match REGEXP] [--shards N]

The folder gets a `manifest.json` that says of every file what it is, or why TensorFlow could not make or run it. What
ends the process of TensorFlow is recorded too, and the rest is made by another one.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from .case import identities, load_all

HERE = Path(__file__).parent
MANIFEST = "manifest.json"
SECONDS = 100
"""For one file, on a machine that does much else besides."""


def in_sample(name: str) -> bool:
    """Whether a file is one of the eighth that the everyday tests make."""
    return zlib.crc32(name.rpartition(".")[0].encode()) % 8 == 0


def generate(folder: Path, match: str = "", shards: int = 1, sample: bool = False) -> dict[str, Any]:
    """Makes the files; gives the manifest: what is known of each by its name."""
    names = [i for i, _, _ in identities(load_all()) if re.search(match, i) and (in_sample(i) or not sample)]
    cases = list(dict.fromkeys(i.rpartition(".")[0] for i in names))
    with ThreadPoolExecutor(shards) as pool:
        parts = pool.map(lambda n: _shard(folder, n, _of(names, cases[n::shards])), range(shards))
        found = {name: entry for part in parts for name, entry in part.items()}
    manifest = {name: found[name] for name in names}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
    return manifest


def _of(names: list[str], cases: list[str]) -> list[str]:
    chosen = set(cases)
    return [n for n in names if n.rpartition(".")[0] in chosen]


def _shard(folder: Path, number: int, names: list[str]) -> dict[str, Any]:
    """Runs processes until every name has an entry."""
    journal, log, todo = folder / f"journal{number}", folder / f"log{number}.txt", folder / f"todo{number}"
    found: dict[str, Any] = {}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": ""}
    environment |= {"PYTHONPATH": str(HERE.parents[0]), "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    while left := [n for n in names if n not in found]:
        todo.write_text("\n".join(left))
        command = [sys.executable, "-m", f"{HERE.name}.generate", str(folder), "--todo", str(todo)]
        with log.open("ab") as out:
            code = subprocess.run(
                [*command, "--journal", str(journal)], env=environment, stdout=out, stderr=out, check=False
            ).returncode
        lines = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
        if not lines:
            raise RuntimeError(f"TensorFlow cannot be run:\n{log.read_text(errors='replace')[-2000:]}")
        found |= {name: entry for name, entry in lines if entry is not None}
        if code:
            found.setdefault(lines[-1][0], {"not made": f"it ends the process: exit status {code}"})
        journal.unlink()
    todo.unlink()
    return found


def _child(folder: Path, names: list[str], journal: Path) -> None:
    from .make import entries

    cases = load_all()
    kinds: dict[str, list[str]] = {}
    for name in names:
        case, _, kind = name.rpartition(".")
        kinds.setdefault(case, []).append(kind)
    with journal.open("w") as out:
        for case, wanted in kinds.items():
            print(json.dumps((f"{case}.{wanted[0]}", None)), file=out, flush=True)
            begin = time.process_time()
            signal.alarm(SECONDS)  # which ends the process
            for n, (kind, entry) in enumerate(entries(cases[case], wanted, folder)):
                entry["seconds"] = round(time.process_time() - begin, 3)
                begin = time.process_time()
                signal.alarm(SECONDS)
                print(json.dumps((f"{case}.{kind}", entry)), file=out, flush=True)
                if n + 1 < len(wanted):
                    print(json.dumps((f"{case}.{wanted[n + 1]}", None)), file=out, flush=True)


def cached(shards: int = 1, sample: bool = False) -> tuple[Path, dict[str, Any]]:
    """The folder of the files as the sources here declare them, made if it is not there yet; and its manifest.

    Args:
        shards: processes that make files side by side. sample: the everyday eighth of them only.
    """
    digest = hashlib.sha256()
    for path in sorted(HERE.glob("*.py")):
        if not path.name.startswith("test_"):
            digest.update(path.name.encode() + path.read_bytes())
    for package in ("tensorflow", "tensorflow-cpu", "ai-edge-litert"):
        try:
            digest.update(metadata.version(package).encode())
        except metadata.PackageNotFoundError:
            continue
    root = Path(os.environ.get("MINNOW_TF_SUITE", Path(tempfile.gettempdir(), f"minnow-tf-suite-{os.getuid()}")))
    root.mkdir(parents=True, exist_ok=True)
    folder = root / (digest.hexdigest()[:16] + ("-sample" if sample else ""))
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes that test, one makes the files
        if not (folder / MANIFEST).exists():
            with tempfile.TemporaryDirectory(dir=root) as unfinished:
                generate(Path(unfinished), shards=shards, sample=sample)
                os.rename(unfinished, folder)
                Path(unfinished).mkdir()  # for the context manager to take away
    return folder, json.loads((folder / MANIFEST).read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--match", default="")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--todo", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--journal", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.todo:
        _child(options.folder, options.todo.read_text().split(), options.journal)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    manifest = generate(options.folder, options.match, options.shards)
    failed = {name: e["not made"] for name, e in manifest.items() if "not made" in e}
    sys.stdout.write("".join(f"{name}: {why}\n" for name, why in failed.items()))
    made = len(manifest) - len(failed)
    sys.stdout.write(f"{made} files made, {len(failed)} not, in {time.perf_counter() - begin:.0f} s\n")


if __name__ == "__main__":
    main()
