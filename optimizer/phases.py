"""The four phases of the pipeline: which passes and rules run, in which order, with the reason for each place.

A step is a pass, or groups of rules that run together until none of them applies any more: "shape:* logic:*". Which
modules a group is made of, and in which order their rules are tried, is in `GROUPS`: no name of a file has a say in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from minnow.optimizer.facts.format import Target
from minnow.optimizer.rewrite import Rule, rules


@dataclass(frozen=True)
class Step:
    """A line of a phase.

    Attributes:
        name: of a pass, or of groups of rules, each with ":*" behind it.
        why: why it stands here.
        target: the only target that it is for; None: every one. A file for that target cannot do without it: it runs at
            every level and whatever was selected, and only what was left out by name stays out.
    """

    name: str
    why: str
    target: Target | None = None

    @property
    def groups(self) -> list[list[Rule]]:
        """The rules of its groups, in the order in which those of one root op are tried; none for a pass."""
        return [rules_of(group[:-2]) for group in self.name.split() if group.endswith(":*")]


@dataclass(frozen=True)
class Phase:
    """Steps with one aim.

    Attributes:
        name: of the phase.
        aim: what holds when it is over.
        steps: in order.
    """

    name: str
    aim: str
    steps: tuple[Step, ...]


GROUPS: dict[str, tuple[str, ...]] = {
    "qdq": ("quantize.qdq",),
    "identity": ("cleanup.identity",),
    "sequence": ("control.sequence",),
    "shape": ("shape.constant", "shape.place", "shape.vector"),
    "logic": ("logic.known", "logic.form"),
    "rotary": ("attention.rotary",),
    "movement": (
        "movement.cancel",
        "movement.blocks",
        "movement.dilation",
        "movement.pad",
        "movement.resize",
        "movement.slice",
        "movement.transpose",
        "movement.view",
    ),
    "ones": ("movement.ones",),
    "activation": ("activation.basic", "activation.mask", "activation.exponential", "activation.swish"),
    "mean": ("reduction.mean",),
    "norm": ("norm.layer", "norm.channel", "norm.softmax"),
    "reduction": ("reduction.spelled",),
    "arithmetic": ("arithmetic.constant",),
    "matmul": ("matmul.linear", "matmul.chain", "matmul.flat", "matmul.form", "matmul.gate"),
    "attention": ("attention.spelled", "attention.join"),
    "convolution": ("convolution.absorb", "convolution.chain", "convolution.group", "convolution.input"),
    "quantized": ("quantize.layer",),
    "tiles": ("movement.tiles",),
    "pooled": ("reduction.pooled",),
    "epilogue": ("fusion.epilogue",),
    "legalize": (
        "legalize.after",
        "legalize.deform",
        "legalize.dilation",
        "legalize.exact",
        "legalize.index",
        "legalize.math",
        "legalize.neural",
        "legalize.recurrent",
        "legalize.resize",
        "legalize.shape",
        "legalize.spectral",
        "legalize.volume",
    ),
}
"""Modules of `passes/`, by group. Within a module, rules are tried in the order of their definition."""

_OfFile = partial(Step, target="mnn")

_CANONICALIZE = (
    Step(
        "inline_fused",
        "rules know the nodes that an earlier run has joined by themselves, and so do other runtimes",
    ),
    Step("qdq:*", "integers that say what they mean must not become floats first"),
    Step("fold_constants", "shapes, axes and conditions must be numbers before rules look at them"),
    Step("decide_branches", "and those that are left hang on the input, or only seem to"),
    Step("name_extents", "equal results computed from dynamic dimensions are recognized by their names"),
    Step("identity:*", "what does nothing must not stand between the parts of a pattern"),
    Step("fuse_recurrent_loops", "layers must be one node before rules change what stands in their loops"),
    Step("fuse_other_recurrent_loops", "after those of the usual functions, which other runtimes have, too"),
    Step("prune_loop", "what a loop carries for nobody would be written out with its rounds"),
    Step("unroll_loop", "a few rounds that are no layer are nodes like others, which rules see together"),
    Step("hoist_invariants", "of the loops that are left; a layer reads its weights in each round"),
    Step("hoist_common", "of the branches that are left, which others see nothing of"),
    Step("choose_results", "where little is left of both branches"),
    Step("sequence:*", "tensors that a sequence is known to hold must be seen by all that follow"),
    Step("shape:*", "constant shapes let the movement rules see what a reshape does"),
    Step("eliminate_repetition", "masks and places are small before anything is computed of them"),
    Step("logic:*", "what is known of truth values and whole numbers, of which shapes and choices are made"),
    Step("eliminate_dead", "unused shape computations must not count as readers"),
    Step("eliminate_common", "patterns want one value where the source computes the same twice"),
    Step("rotary:*", "while its halves are cut as the source cuts them"),
    Step(
        "movement:*",
        "transposes and reshapes that cancel must be gone before convolutions look at their neighbors",
    ),
    Step("sink_transposes", "pairs that do not touch, after those that do"),
    Step("ones:*", "what moves nothing is a reshape, once none of the others can meet it any more"),
    Step("eliminate_common", "constants that were transposed for each of their readers"),
    Step("rotary:*", "where that took a view away, or a transpose that moves nothing but its rows"),
    Step("movement:*", "a transpose that has moved may stand beside another one now"),
)

_RECOGNIZE = (
    Step("activation:*", "activations must be one node before they are fused into what they follow"),
    Step("mean:*", "means must be one node before norms are seen in them"),
    Step("norm:*", "after activations, whose square roots and divisions look alike"),
    Step("reduction:*", "after norms, which are made of means of pixels and sums of squares, too"),
    Step(
        "arithmetic:*",
        "after norms, which are recognized by their divisions, and before layers that take in factors",
    ),
    Step("matmul:*", "matrix products must be Linear before activations could join them"),
    Step(
        "attention:*",
        "after matrix products have their final form, and before activations go into those beside it",
    ),
    Step("shape:*", "the dimensions of what attention gives are known, which those of its parts may not have been"),
    Step("attention:*", "and what moves the result by them can be seen through"),
    Step("matmul:*", "what turned and flattened the result of attention may stand between layers only now"),
    Step("fuse_attention_cache", "keys and values of which attention is given all, once that is one node"),
)

_FUSE = (
    Step("qdq:*", "those that others stood between; before layers take in activations, which saturation may do"),
    Step("fold_constants", "tables that take the place of functions"),
    Step(
        "convolution:*",
        "takes in padding, scale, bias and activation, so it comes when these have their final form",
    ),
    Step("quantized:*", "once no transpose stands between the parts of a layer, and it pads by itself"),
    Step("tiles:*", "other rules know parts as slices"),
    Step("pooled:*", "other rules know means of channels as a pooling"),
    Step("identity:*", "folding scales leaves additions of zero and multiplications by one"),
    Step(
        "epilogue:*",
        "what layers do with their results, once these are final: no rule looks for the parts any more",
    ),
    Step("eliminate_common", "what the rules have made alike"),
    Step("fuse_elementwise", "takes in whatever no other rule has made use of"),
)

_FINISH = (
    Step("eliminate_dead", "what the rules have left over"),
    _OfFile("narrow_types", "types first: the rules ask which ops have a form in the file, and that depends on types"),
    _OfFile("legalize:*", "ops without a form of the format's own become ops that have one"),
    _OfFile("fold_constants", "decompositions compute with constants"),
    _OfFile("identity:*", "and leave casts that do nothing"),
    _OfFile("ones:*", "and views around layers that have one spatial axis"),
    _OfFile("movement:*", "which cancel between them"),
    _OfFile("convolution:*", "and activations that begin with a factor and a summand"),
    _OfFile("eliminate_common", "decompositions repeat themselves"),
    _OfFile("eliminate_dead", "nothing unused goes into the file"),
    _OfFile("split_products", "when all products of integers are there that will be"),
    _OfFile("lower_bools", "after the last folding, which would make constants of them again"),
    _OfFile("assign_layout", "last: every node that is there now needs its layout, and none may come after"),
)

PHASES: tuple[Phase, ...] = (
    Phase(
        "canonicalize",
        "what is known is a number, what does nothing is gone, and what can be said in several ways is said in one",
        _CANONICALIZE,
    ),
    Phase("recognize", "what a source spells out in many nodes is the one node that it means", _RECOGNIZE),
    Phase("fuse", "layers take in what stands beside them", _FUSE),
    Phase(
        "finish", "nothing is left over, and a file for every runtime of the format holds only what they know", _FINISH
    ),
)


def steps() -> Iterator[Step]:
    """The steps of all phases."""
    for phase in PHASES:
        yield from phase.steps


def rules_of(group: str) -> list[Rule]:
    """The rules of a group, in the order in which those of one root op are tried."""
    places = {f"minnow.optimizer.passes.{module}": i for i, module in enumerate(GROUPS[group])}
    found = (rule for rule in rules.values() if rule.module in places)
    return sorted(found, key=lambda rule: (places[rule.module], rule.line))
