"""Options of pruning: which weights become 0."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from minnow.options.option import Options, option
from minnow.schema.errors import UsageError

Prune = Literal["magnitude", "block1x4", "block1x8"]
SPARSITY = 0.7


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PruneOptions(Options):
    """Weights without zeros."""

    SECTION: ClassVar[str] = "Pruning"

    prune: Prune | None = option(
        None,
        "Weights that become 0, which the file leaves out: magnitude, the least ones of each layer; block1x4 and "
        "block1x8, those of 4 or 8 neighbouring output channels for an input together. The others are float32, or with "
        "`mnnconvert quantize` integers by --weights.",
    )
    sparsity: float = option(SPARSITY, "Share of the weights of a layer that become 0.", least=0.6, most=0.99)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.prune and self.sparsity != SPARSITY:
            raise UsageError("sparsity is for prune, which is not given", hint="`--prune magnitude`, for example")
