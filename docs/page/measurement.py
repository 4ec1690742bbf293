"""What was measured: the README's summary, speed, and MNN's runtime."""

from __future__ import annotations

import json
import math

from page.markdown import DOCS, cells, table


def chart() -> str:
    """The times of the bench table as bars."""
    from chart import TABLE, draw

    return draw(TABLE.read_text())


def speed() -> str:
    """The ratios of the bench table for one and two threads side by side."""
    from chart import PEERS, TABLE, rows

    measured = TABLE.read_text()
    one, two = ({row.model: row for row in rows(measured, threads)} for threads in (1, 2))
    header = ["model"]
    for threads in ("1 thread", "2 threads"):
        header += [f"{threads}, ms", "onnxruntime", "OpenVINO", "fastest"]
    lines = []
    for model in one:
        cells = [model]
        for row in (one[model], two[model]):
            peer = max(row.ratios, key=lambda name: row.ratios[name])
            cells += [f"{row.ms:.2f}", *(f"{row.ratios[name]:.2f}" for name in ("ort", "ov"))]
            cells.append(f"{row.ratios[peer]:.2f} {PEERS[peer]}")
        lines.append(cells)
    return table(header, lines)


def summary() -> str:
    """The README's chart, and a line for each page of measurements."""
    from chart import TABLE, mean

    onnx_, tensorflow_ = (line for line in cells("correctness.md") if line[0] == "all")
    peers = [cell.partition(" (")[0] for cell in onnx_[2:]]
    correct = (
        f"{peers[0]} of {onnx_[1]} backend tests of ONNX pass "
        f"(onnxruntime: {peers[1]}, OpenVINO: {peers[2]}, MNN: {peers[3]}); "
        f"{tensorflow_[2]} of {tensorflow_[1]} generated TensorFlow and TFLite models "
        f"(OpenVINO: {tensorflow_[3]}, MNN: {tensorflow_[4]})"
    )
    header, _, *models = cells("size.md")
    counts = [dict(zip(header, line, strict=True)) for line in models]
    others = header[2:-2]
    smallest = [min(int(line[name]) for name in others if line[name].isdigit()) for line in counts]
    ours = [int(line["Minnow"]) for line in counts]

    def fewer(than: list[int]) -> str:
        logs = [math.log(mine / other) for mine, other in zip(ours, than, strict=True)]
        return f"{1 - math.exp(sum(logs) / len(logs)):.0%}"

    size = (
        f"{fewer([int(line['nodes']) for line in counts])} fewer nodes than the source and {fewer(smallest)} fewer "
        f"than the best of {len(others)} other optimizers "
        f"(geometric means over {len(counts)} models, `--target minnow`)"
    )
    measured = TABLE.read_text()
    times = (
        f"{mean(measured, 1)} of the time of the fastest other runtime with one thread, {mean(measured, 2)} with two "
        "(geometric means over the models of the chart)"
    )
    rows = [
        ["correctness", correct, "[all suites](docs/correctness.md)"],
        ["graph size", size, "[all models](docs/size.md)"],
        ["speed", times, "[all models](docs/speed.md)"],
    ]
    image = "![Time of one inference by Minnow and by other runtimes, as bars for each model](docs/speed.svg)"
    return f"{image}\n\n" + table(["what", "result", "details"], rows)


def mnn_runtime() -> str:
    """How files of the target `mnn` have each op, and whether MNN's own runtime gives the same numbers."""
    from minnow.schema.ops import all_ops

    record = json.loads((DOCS / "mnn_runtime.json").read_text())
    forms = {"own": "own form", "combination": "combination", "second": "second graph", "form": "only Minnow",
             "type": "type only Minnow has"}  # fmt: skip
    suites = {
        "op": "samples of all ops of Minnow's graphs, alone",
        "shared": "real models in six formats",
        "onnx": "ONNX's backend tests",
        "caffe": "generated Caffe nets",
        "tf": "generated TensorFlow and TFLite models",
        "torch": "PyTorch's samples of its operators, traced",
    }
    first = ("right", "rounded", "noted", "named", "not converted")
    rows = []
    for suite, about in suites.items():
        kinds = record[suite]["kinds"]
        rest = sum(n for kind, n in kinds.items() if kind not in first)
        rows.append([about, *(str(kinds.get(kind, 0)) for kind in first), str(rest)])
    reasons: dict[str, int] = {}
    for suite in suites:
        for kind, n in record[suite]["kinds"].items():
            if kind not in first:
                reasons[kind] = reasons.get(kind, 0) + n
    ops = []
    for op in all_ops():
        row = record["op"]["ops"].get(op.name, {})
        others = [f"{n}: {kind}" for kind, n in row.items() if kind not in forms and kind not in first]
        ops.append([f"`{op.name}`", *(str(row.get(f) or "") for f in (*forms, "right", "noted")), "; ".join(others)])
    return (
        "# Files for MNN's own runtime\n\nA file of the target `mnn` is for every runtime of the format. What the "
        "format has no form for is written as a combination of ops that it has. The rest only Minnow's engine runs: a "
        "note of the conversion names it, and `--strict-target` refuses such a model with exit code 3.\n\n"
        "## Quantized models\n\n"
        "Minnow's engine computes quantized layers exactly as the source does. MNN's runtime has no such ops; "
        "its own integers are tensors of floats that it rounds to 8 bits. So the file of a quantized model "
        "holds two graphs with the same inputs and outputs. Minnow's engine runs the first one, and MNN's "
        "runtime the second one, in which convolutions, matrix products with constants and sums are computed "
        "with integers of 8 bits, and the rest with floats. A layer of it may differ from the first graph by "
        "a step of its integers; over many layers that adds up. A conversion says how many ops of the second "
        "graph are computed how, and by how much its outputs differ from those of the source. Weights of the "
        "same bytes are in the file once. There is a second graph only in files of the usual form: not with "
        "compressed weights, and not with a companion weights file.\n\n"
        "Depthwise convolutions whose weights have a zero point, and convolutions in groups, are computed "
        "with floats, since MNN's runtime has wrong results for them in integers; and so is pooling.\n\n"
        "## Limits that depend on numbers\n\n"
        "MNN's kernels make numbers of NaN and infinities, or lose them. A conversion counts the nodes that "
        "this and other limits concern, and its JSON lists them under `limits`. They do not keep `--strict-target` "
        "from writing the file.\n\n"
        "## What was measured\n\nThe files of all suites in the runtime of MNN 3.6.1, on the CPU, compared with "
        "Minnow's engine.\n\n"
        "- *same*: the numbers are the same; of a second graph, beside them by a step at most\n"
        "- *rounded*: those of a second graph, whose roundings to 8 bits have added up. For single ops the error is "
        "below 1% of how much the numbers vary. For networks of many layers it is far more: 22% for the points that "
        "MoveNet finds, 25% for the two results of `person_detect`, 6 steps where they are 48 apart, and below 40% for "
        "generated TFLite models\n"
        "- *noted*: the numbers met a limit that the conversion says of the file\n"
        "- *named*: the conversion names what MNN cannot run\n"
        "- *otherwise*: MNN takes the file and does something else, and the conversion says nothing\n\n"
        + table(["suite", "same", "rounded", "noted", "named", "not converted", "otherwise"], rows)
        + "".join(f"\n- {reason}: {n} {'case' if n == 1 else 'cases'}" for reason, n in sorted(reasons.items()))
        + "\n## Ops\n\nThe numbers count samples, each with operands that are constants and with operands that are "
        "computed: how the file has them, and for how many MNN's runtime gave the numbers of Minnow's engine.\n\n"
        + table(["op", *forms.values(), "same", "noted", "otherwise"], ops)
    )
