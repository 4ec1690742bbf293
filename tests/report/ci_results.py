"""Results that the tests of all report formats share: one of every kind, and random ones with hostile texts."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from minnow.workflow.cell import Place
from minnow.workflow.metric import METRICS
from minnow.workflow.result import STATUSES, CellResult, Check, Results
from minnow.workflow.rule import RULES

PASSED = CellResult(
    model="digits",
    variant="",
    source="models/digits.onnx",
    output="out/digits.mnn",
    checks=(Check("convert", "passed", seconds=0.25), Check("verify:y", "passed", seconds=0.1)),
    place=Place("minnow.toml", 3),
    sha256="ab" * 32,
    metrics={"bytes": 2_500_000, "nodes": 12, "macs": 1_000_000, "peak_memory": 4096, "max_error": 1.5e-7},
    before={"bytes": 5_000_000, "nodes": 31, "macs": 1_000_000, "peak_memory": 9000},
    seconds={"read": 0.1, "optimize": 0.15},
)
WRONG = CellResult(
    model="detector",
    variant="half",
    source="models/detector.tflite",
    output="out/detector.half.mnn",
    checks=(
        Check("convert", "passed", seconds=1.5),
        Check(
            "verify:boxes",
            "failed",
            "verification-failed",
            "0.25 is above the tolerance 0.001",
            "row 1\nrow 2",
            ("box", "nms"),
        ),
        Check("verify:scores", "warning", "verification-inconclusive", "the output is constant"),
        Check("budget:bytes", "failed", "budget-bytes", "3.00 MB is above 2.00 MB", value=3e6, limit=2e6),
        Check("budget:latency", "skipped", message="nothing to compare with"),
    ),
    place=Place("minnow.toml", 9),
    metrics={"bytes": 3_000_000, "nodes": 40, "max_error": 0.25, "latency": 1.25},
    before={"bytes": 6_000_000, "nodes": 44},
    interval=(1.1, 1.4),
    log="read\noptimize\nwrite",
    reproduce="mnnconvert models/detector.tflite -o out/detector.half.mnn",
)
BROKEN = CellResult(
    model="text",
    variant="int8",
    source="models/text.pt2",
    output="out/text.mnn",
    checks=(
        Check("convert", "error", "unsupported-operator", "2 operators are not supported", nodes=("fft", "irfft")),
    ),
    log="error: 2 operators are not supported",
)
LEFT_OUT = CellResult(model="old", variant="", source="old.caffemodel", output="old.mnn", checks=())

RESULTS = Results(
    cells=(PASSED, WRONG, BROKEN, LEFT_OUT),
    version="1.2.3",
    config="minnow.toml",
    started="2026-03-04T05:06:07+02:00",
    seconds=4.5,
    host="runner-1",
)

HOSTILE = (
    "a|b", "`", "``x", "]]>", "<!--", "<script>alert(1)</script>", "&amp;", "%0A::error::x", "\n::error file=a::b",
    "\x00\x1b[31mred", "a\r\nb\rc", "\ud800", "\uffff", "\u202eevil", "[x](http://y)", "*b*_i_~s~", "\\|", "</details>",
    "]]", '"', "'", "{{x}}", "@team #1", "::set-output name=a::b", "</title></svg>", "\u2028", "```\ncode", "http://x.y",
    "$x$", "a,b:c", " ", "😀", "../../etc/passwd",
)  # fmt: skip
"""Texts that have a meaning in some format."""

texts = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=8)), min_size=1, max_size=4).map("".join)
numbers = st.one_of(st.integers(0, 10**12), st.floats(allow_nan=False))
metrics = st.dictionaries(st.sampled_from([*METRICS, "newer_metric"]), numbers, max_size=4)
checks = st.builds(
    Check,
    name=texts,
    status=st.sampled_from(STATUSES),
    rule=st.sampled_from([*RULES, "a-newer-rule"]),
    message=texts,
    details=texts,
    nodes=st.lists(texts, max_size=3).map(tuple),
    seconds=st.floats(0, 1e6),
)
cells = st.builds(
    CellResult,
    model=texts,
    variant=st.one_of(st.just(""), texts),
    source=texts,
    output=texts,
    checks=st.lists(checks, max_size=4).map(tuple),
    place=st.builds(Place, file=st.one_of(st.just(""), texts), line=st.integers(0, 10**6)),
    metrics=metrics,
    before=metrics,
    interval=st.one_of(st.none(), st.tuples(st.floats(0, 10), st.floats(0, 10))),
    log=texts,
    reproduce=texts,
)
results = st.builds(
    Results,
    cells=st.lists(cells, max_size=4).map(tuple),
    version=texts,
    config=texts,
    started=st.sampled_from(["", RESULTS.started]),
    host=texts,
)

hostile = settings(
    max_examples=12, deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)
"""For tests with random results: shrinking these takes minutes."""
