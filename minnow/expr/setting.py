"""What a program sets for all Vars: when they are computed, and how."""

from __future__ import annotations

from dataclasses import dataclass

from minnow.options.run import Precision


@dataclass
class Settings:
    """Settings of this process.

    Attributes:
        lazy: keep the graph, and compute a Var when it is read. Otherwise each op is computed at once.
        threads: of the engine; None: all processors.
        precision: of products, as `minnow.load` takes it.
        device: where the engine runs.
    """

    lazy: bool = False
    threads: int | None = None
    precision: Precision = "high"
    device: str = "cpu"


SETTINGS = Settings()
