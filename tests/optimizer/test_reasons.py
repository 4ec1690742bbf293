"""Every reason that a rule can give for doing nothing is given for some graph: for a negative case, or for an edit."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from judgment import judged
from mutations import KINDS
from reasons import collected, written
from rewriting import ALL, apply, read

# Not reached by any graph so far, by file and text: an open list, which may only get shorter.
_NEVER = {
    ("attention.py", 'm.no("the shape is not known")'),
    ("attention.py", 'm.no("what is empty is not decided over the last axis")'),
    ("attention_join.py", 'm.no("the weights of a layer are quantized")'),
    ("convolution.py", 'm.no("the parts differ in size")'),
    ("convolution_input.py", 'm.no("the numbers are not one per channel")'),
    ("legalize_dilation.py", 'm.no("the images would have more elements than the format can count")'),
    ("legalize_index.py", 'm.no("it is not known how many axes an index names")'),
    ("legalize_math.py", 'm.no("the format has it")'),
    ("legalize_math.py", 'm.no("the rank is not known")'),
    ("logic.py", 'm.no("the condition is big, or empty")'),
    ("movement.py", 'm.no("it will be computed before the model runs")'),
    ("movement.py", 'm.no("the rank is not known")'),
    ("movement_dilation.py", 'm.no("the rank is not known")'),
    ("movement_dilation.py", 'm.no("the size of the blocks is not known")'),
    ("movement_pad.py", 'm.no("some window might see nothing but padding")'),
    ("movement_pad.py", 'm.no("the format has it without padding only")'),
    ("movement_slice.py", 'm.no("an index is out of range")'),
    ("movement_slice.py", 'm.no("the index is out of range")'),
    ("movement_slice.py", 'm.no("the rank is not known")'),
    ("movement_view.py", 'm.no("the rank is not known")'),
    ("movement_view.py", 'm.no("the shapes are not known well enough")'),
    ("movement_view.py", 'm.no("there are fewer than two")'),
    ("ones.py", 'm.no("no single view does it")'),
    ("ones.py", 'm.no("the shapes are not known well enough")'),
    ("quantized.py", 'm.no("multipliers and shifts have different shapes")'),
    ("quantized.py", 'm.no("the tables are not of i32")'),
    ("tiles.py", 'm.no("too many nodes read the value")'),
}


def _negative_cases() -> Iterator[tuple[str, str]]:
    """Rule and graph, of all tables of cases in test_negative*.py."""
    for path in sorted(Path(__file__).parent.glob("test_negative*.py")):
        for name, cases in runpy.run_path(str(path)).get("CASES", {}).items():
            yield from ((name, case[1]) for case in cases)


@pytest.mark.slow
def test_every_reason_is_given_for_some_graph() -> None:
    reasons = written()
    with collected() as reached:
        for name, text in _negative_cases():
            apply(ALL[name], read(text))
        for name in sorted(ALL):
            for kind in KINDS:
                judged(name, kind)
    assert reached <= set(reasons)
    never = {(Path(file).name, text) for (file, line), text in reasons.items() if (file, line) not in reached}
    assert never <= _NEVER
