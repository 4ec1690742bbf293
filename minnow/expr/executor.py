"""Settings of the computation by the names of MNN."""

from __future__ import annotations

import os
from typing import Any

from minnow.expr.argument import flag
from minnow.expr.constant import Backend, PrecisionMode
from minnow.expr.names import named
from minnow.expr.setting import SETTINGS
from minnow.schema.errors import UsageError

_DEVICES = {Backend.CPU: "cpu", Backend.CUDA: "cuda", Backend.OPENCL: "opencl", Backend.VULKAN: "vulkan"}
_PRECISIONS = {PrecisionMode.Low: "low", PrecisionMode.Low_BF16: "low"}


@named("expr")
def lazy_eval(lazy: Any) -> None:
    """True: ops make a graph, which is computed when a Var is read. False, the default: each op is computed at once."""
    SETTINGS.lazy = flag(lazy, "lazy")


@named("expr", note="Both modes compute what is read, and keep it until something that it depends on changes.")
def set_lazy_mode(mode: Any) -> None:
    """0 (content) or 1 (full): how much a graph that changes computes again; here both compute what is needed."""
    if mode not in (0, 1):
        raise UsageError(f"the lazy mode is {mode!r}", hint="0 or 1")


@named("expr", note="More threads than this process may use are not started.")
def set_thread_number(number: Any) -> None:
    """Number of threads of the engine."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise UsageError(f"{number!r} is not a number of threads")
    SETTINGS.threads = min(number, os.cpu_count() or 1, 256)


@named("expr", note="A device that is not available is an error when something is computed, not the CPU instead.")
def set_global_executor_config(backend: Any, precision: Any, threads: Any) -> None:
    """Device, precision and number of threads of the engine.

    Args:
        backend: a constant of `expr.Backend`, or its number.
        precision: a constant of `expr.PrecisionMode`, or its number.
        threads: number of threads.

    Raises:
        UsageError: one of them is unknown.
    """
    try:
        device = _DEVICES[Backend(backend) if isinstance(backend, int) else backend]
        mode = PrecisionMode(precision) if isinstance(precision, int) else precision
        if not isinstance(mode, PrecisionMode):
            raise ValueError(f"{precision!r} is not a PrecisionMode")
    except (KeyError, ValueError) as error:
        known = ", ".join(map(str, _DEVICES))
        raise UsageError(
            f"there is no executor for {backend!r} and {precision!r}", why=str(error), hint=known
        ) from None
    set_thread_number(threads)
    SETTINGS.device = device
    SETTINGS.precision = _PRECISIONS.get(mode, "high")  # type: ignore[assignment]
