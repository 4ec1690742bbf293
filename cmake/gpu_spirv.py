"""Kernel texts as SPIR-V, for Vulkan."""

from __future__ import annotations

import concurrent.futures
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cooperative_matrices import with_khr_matrices
from gpu_text import Text

KINDS = ("Small", "Words", "Subgroups")
"""The SPIR-V of a text: with small types, without, and with both these and the sums of subgroups."""


def has_kind(text: Text, kind: str) -> bool:
    if kind == "Subgroups":
        return bool(re.search(r"GROUP_(SUM|MAX)\(", text.body))
    return kind == "Small" or "matrices" not in text.features  # matrices are of halves


def spirv(
    glslc: str, texts: list[Text], folder: Path, glsl: Callable[[Text, bool, bool], str]
) -> dict[tuple[str, str], bytes]:
    """All texts compiled by glslc in all kinds, as many at a time as there are processors; empty where there is nothing
    to gain. Only what has changed since the last time is compiled. Ends the process with the compiler's messages where
    it fails."""
    command = [glslc, "--target-env=vulkan1.1", "-O0"]  # drivers optimize when they know the constants

    def compiled(text: Text, kind: str) -> bytes:
        if not has_kind(text, kind):
            return bytes(4)
        source = folder / f"{text.name}.{kind.lower()}.comp"
        target = source.with_suffix(".spv")
        content = f"{glsl(text, kind != 'Words', kind == 'Subgroups')}// {' '.join(command)}\n"
        if not (source.exists() and source.read_text() == content and target.exists()):
            target.unlink(missing_ok=True)
            source.write_text(content)
            partial = target.with_suffix(".part")
            done = subprocess.run(
                [*command, str(source), "-o", str(partial)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(f"{text.name}.gpu, as GLSL ({source}):\n{done.stderr}")
            if "matrices" in text.features:
                partial.write_bytes(with_khr_matrices(partial.read_bytes()))
            partial.replace(target)
        return target.read_bytes()

    jobs = [(text, kind) for text in texts for kind in KINDS]
    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [pool.submit(compiled, *job) for job in jobs]
        failures = [str(e) for e in (result.exception() for result in results) if e is not None]
    if failures:
        sys.exit("\n".join(failures))
    return {(text.name, kind): result.result() for (text, kind), result in zip(jobs, results, strict=True)}
