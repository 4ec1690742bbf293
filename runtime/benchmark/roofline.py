"""The roofline: how fast an op can be at most, given the arithmetic and memory throughput of the processor."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Roofline:
    """The limits of this machine. flops: float32 operations, bytes: read from memory; both per second."""

    flops: float
    bytes: float

    def rates(self, row: Mapping[str, Any]) -> dict[str, float]:
        """GFLOP/s, GB/s and the fraction of the roofline for one row of a profile; all 0 if its time is 0.

        Operations are counted as in the textbook algorithm, bytes as those of operands and results: a faster algorithm,
        or data in a cache, can exceed a fraction of 1.
        """
        seconds = 1e-3 * row["ms"]
        if seconds <= 0:
            return {"gflops": 0.0, "gbytes": 0.0, "roofline": 0.0}
        flops = 2 * row["macs"]
        least = max(flops / self.flops, row["bytes"] / self.bytes)
        return {
            "gflops": 1e-9 * flops / seconds,
            "gbytes": 1e-9 * row["bytes"] / seconds,
            "roofline": least / seconds,
        }


def roofline(threads: int, version: str) -> Roofline:
    """The limits, measured once per processor, instruction set and version, and kept in the user's cache folder."""
    from minnow.runtime import _engine

    path = _cache()
    key = f"{_processor()} {_engine.isa()} {threads} {version}"
    try:
        known = json.loads(path.read_text())
        return Roofline(**known[key])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    measured = Roofline(*_engine.measure_peak(threads))
    _keep({key: asdict(measured)})
    return measured


def measure_devices(devices: str, threads: int, version: str) -> dict[str, dict[str, float]]:
    """The speed of all these devices but the CPU, measured now and kept for sessions on several devices.

    Returns:
        By the kind of device, with its driver: `flops` of products, `bytes` of memory and `copy_bytes` of copies per
        second, and the seconds of a kernel (`launch`) and of a copy (`copy`) beside their work.
    """
    from minnow.runtime import _engine

    measured: dict[str, dict[str, float]] = _engine.measure_devices(devices, threads)
    _keep({f"{kind} {version}": row for kind, row in measured.items()})
    return measured


def _keep(rows: dict[str, dict[str, float]]) -> None:
    path = _cache()
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        known = {}
    if not isinstance(known, dict):
        known = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps({**known, **rows}, indent=1))
        part.replace(path)
    except OSError:
        pass  # it cannot be kept, and is measured again the next time


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "minnow" / "roofline.json"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
