"""The engine's own programs under AddressSanitizer and UBSan, or under ThreadSanitizer: `./dev sanitize`.

MINNOW_SANITIZED names the folder with the programs, MINNOW_SANITIZER what they were built with: address or thread. With
MINNOW_SANITIZE_ALL=1 all samples of all ops run, and all models.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from engine_oracle import assert_close, model_of
from native_cases import NATIVE_OPS, Answers, case_bytes, fed, graph_of_node
from native_models import shared_cases, small_cases

from minnow.schema.mnn import encode

FOLDER = Path(os.environ["MINNOW_SANITIZED"])
KIND = os.environ.get("MINNOW_SANITIZER", "address")
ALL = os.environ.get("MINNOW_SANITIZE_ALL") == "1"
SETTINGS = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1:detect_stack_use_after_return=0",
    "LSAN_OPTIONS": "report_objects=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}
EVERY = 1 if ALL else 6 if KIND == "address" else 24


def done(program: str, *arguments: object, given: bytes | None = None, seconds: float = 120) -> bytes:
    """What the program prints; it must end well, and print no complaint."""
    ended = subprocess.run(
        [FOLDER / program, *map(str, arguments)], input=given, capture_output=True, check=False,
        timeout=seconds * (60 if ALL else 1), env={**os.environ, **SETTINGS},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-6000:].decode(errors="replace")
    assert ended.stderr == b""
    return ended.stdout


@pytest.mark.parametrize("threads", [1, 3] if ALL or KIND == "address" else [3])
def test_samples_of_ops(threads: int) -> None:
    """As inputs of the model, and all operands but the first as constants."""
    cases, wants = [], []
    for op in NATIVE_OPS:
        for sample in op.cases():
            n = len(sample.inputs)
            for constant in sorted({n, min(n, 1)}):
                graph = graph_of_node(op, sample.inputs, sample.attrs, sample.n_outputs, constant)
                cases.append((graph, fed(sample.inputs, constant)))
                wants.append((op, sample, constant))
    chosen = slice(threads % EVERY, None, EVERY)
    cases, wants = cases[chosen], wants[chosen]
    for precision in (0, 2):
        given = b"".join(case_bytes(encode(model_of(graph)), inputs) for graph, inputs in cases)
        answers = Answers(done("run_cases", given=struct.pack("<ii", threads, precision) + given))
        for op, sample, constant in wants:
            got, what = answers.one(), f"{op.name} {sample}, constant from {constant}, {threads} threads"
            assert not isinstance(got, str), f"{what}: {got}"
            want = op.evaluate(sample.inputs, sample.attrs)[: sample.n_outputs]
            for g, w in zip(got, want, strict=True):
                assert_close(g, w, 2 if precision == 0 else 2000, what)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cases") / "small"
    cases = small_cases()
    path.write_bytes(b"".join(cases if ALL else cases[:9]))
    return path


@pytest.mark.skipif(KIND != "address", reason="for leaks")
@pytest.mark.parametrize("threads", [1, 3])
def test_failed_allocations(threads: int, small: Path, tmp_path: Path) -> None:
    printed = done("failed_allocations", small, threads, 100000 if ALL else 40, tmp_path)
    sys.stdout.write(printed.decode())
    assert printed.count(b"errors") == (13 if ALL else 9)


@pytest.mark.skipif(KIND != "address" or not ALL, reason="takes long")
def test_failed_allocations_of_models(tmp_path: Path) -> None:
    cases = shared_cases(tmp_path)
    (tmp_path / "cases").write_bytes(b"".join(cases))
    printed = done("failed_allocations", tmp_path / "cases", 2, 150, tmp_path)
    sys.stdout.write(printed.decode())
    assert printed.count(b"errors") == len(cases)


def test_side_by_side(small: Path) -> None:
    assert done("side_by_side", small, 8 if ALL else 4, 30 if ALL else 4) == b""
