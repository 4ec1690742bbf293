"""What one file needs: memory of its tensors and of a process that runs it, and the time to load it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from minnow.options.run import RunOptions
from minnow.runtime.benchmark.turns import ONE_THREAD, Arrays, Entry, turns

_ENGINE = ("arena_bytes", "least_arena_bytes", "weight_bytes", "packed_bytes", "mapped_bytes")


@dataclass(frozen=True)
class Footprint:
    """Memory and load time of a model, for the shapes of the inputs that it was run with.

    The bytes of the engine are the same in every run with the same options on the same kind of processor. The peak of
    the process varies a little, and depends on the versions of Python and numpy.

    Attributes:
        arena_bytes, least_arena_bytes, weight_bytes, packed_bytes, mapped_bytes: see `Session.stats`.
        peak_bytes: peak memory (resident) of a process that loads the model and runs it.
        idle_bytes: what that process needed before it loaded the model; the difference is due to engine and model.
        load_s: the shortest time to load the model, the engine being imported and the file in the system's cache.
        first_s: the shortest time of the first inference after that, which also plans for dynamic dimensions.
    """

    arena_bytes: int
    least_arena_bytes: int
    weight_bytes: int
    packed_bytes: int
    mapped_bytes: int
    peak_bytes: int
    idle_bytes: int
    load_s: float
    first_s: float

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return asdict(self)


def measure_footprint(
    model: Path, *, inputs: Arrays | None = None, session: RunOptions = ONE_THREAD, loads: int = 5
) -> Footprint:
    """Measures what a model needs, in two child processes: one for the memory, and one that loads it several times.

    Args:
        model: the `.mnn` file.
        inputs: arrays by name; by default random ones, with 1 for dynamic dimensions.
        session: options of the session.
        loads: how often it is loaded for the load time.

    Raises:
        UsageError: the inputs do not fit the model.
        ModelError: it does not run.
    """
    if inputs is None:
        from minnow.runtime.verify.samples import random_inputs

        inputs = random_inputs(model)
    entry = Entry("minnow", model)
    with turns([entry, entry], inputs, [], session) as taken:
        once, often = taken.processes
        starts = [often.load_again() for _ in range(loads)] if not often.error else []
        once.time(1, 1)
        answer = once.finish()
        for process in taken.processes:
            if process.error:
                raise entry.failure("model", process.error)
    load_s, first_s = (min(start[name] for start in starts) for name in ("load_s", "first_s"))
    engine = {name: answer["memory"][name] for name in _ENGINE}
    return Footprint(
        **engine, peak_bytes=answer["peak_bytes"], idle_bytes=taken.loaded[0]["idle_bytes"], load_s=load_s,
        first_s=first_s,
    )  # fmt: skip
