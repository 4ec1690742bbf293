"""`mnnconvert inspect` of two models, and as a picture."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.cli._difference import difference
from minnow.cli._model import open_model
from minnow.report.drawing.dot import to_dot
from minnow.report.drawing.svg import to_svg
from minnow.schema.ir import Model
from minnow.schema.ir.text import parse
from tests.cli.test_cli import DIGITS, run

LOOPING = """
    graph g(%x: f32[2,3], %c: bool[]) {
      %a: f32[2,3] = Exp(%x)
      %y: f32[2,3] = If(%c, %a) {then_branch=graph t(%p: f32[2,3]) {
        %q: f32[2,3] = Neg(%p)
        return %q
      }, else_branch=graph e(%p: f32[2,3]) {
        %r: f32[2,3] = Abs(%p)
        return %r
      }}
      %"<z> \\"quoted\\"": f32[3,2] = Transpose(%y) {perm=(1, 0)}
      return %"<z> \\"quoted\\""
    }
"""


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(DIGITS, output=path, verify=False)
    return path


def _changed(path: Path) -> Path:
    """The digits with another weight, one operator and one name of metadata less, and another batch."""
    model = onnx.load(DIGITS)
    weight = max(model.graph.initializer, key=lambda t: len(t.raw_data))
    array = numpy_helper.to_array(weight).copy()
    array.reshape(-1)[7] += 0.25
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    relu = next(n for n in model.graph.node if n.op_type == "Relu")
    relu.op_type = "Tanh"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 5
    entry = model.metadata_props.add()
    entry.key, entry.value = "author", "somebody"
    onnx.save(model, path)
    return path


def test_difference_of_two_models(tmp_path):
    other = _changed(tmp_path / "other.onnx")
    done = run("inspect", DIGITS, other, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["nodes"]["Relu"] == [4, 3]
    assert found["nodes"]["Tanh"] == [0, 1]
    assert found["nodes"]["Conv"] == [4, 4]
    assert list(found["inputs"]) == ["image"]
    assert found["inputs"]["image"][1] == "f32[5,1,8,8]"
    assert found["metadata"] == {"author": [None, "somebody"]}
    assert [w["max_difference"] for w in found["weights"]] == [pytest.approx(0.25)]
    assert {(c["what"], c["a"], c["b"]) for c in found["changed"] if c["what"] == "op"} == {("op", "Relu", "Tanh")}
    assert found["only"] == [[], []]
    text = run("inspect", DIGITS, other).stdout
    assert "0.25" in text
    assert "somebody" in text


def test_a_model_does_not_differ_from_itself(digits):
    for path in (DIGITS, digits):
        done = run("inspect", path, path)
        assert done.returncode == 0
        assert done.stdout.endswith("no difference\n")


def test_difference_of_source_and_result_names_what_is_new(digits):
    found = json.loads(run("inspect", DIGITS, digits, "--format", "json").stdout)
    assert found["nodes"]["BatchNorm"] == [4, 0]
    only_a, only_b = ([n["op"] for n in only] for only in found["only"])
    assert sum(b - a for a, b in found["nodes"].values()) == len(only_b) - len(only_a)
    assert found["inputs"] == found["outputs"] == {}


def test_difference_sees_nan_and_sizes():
    def model(*numbers: float) -> Model:
        graph = parse(f"""
            graph g(%x: f32[{len(numbers)}]) {{
              %y: f32[{len(numbers)}] = Add(%x, f32[{len(numbers)}]({", ".join(map(str, numbers))}))
              return %y
            }}
        """)
        return Model(graph, [("x", graph.params[0].type)], [("y", graph.outputs[0].type)])

    nan = float("nan")
    assert difference(model(1, nan), model(1, nan))["weights"] == []
    (row,) = difference(model(1, nan), model(1, 2))["weights"]
    assert row["max_difference"] == np.inf
    (row,) = difference(model(1, 2), model(1, 2, 3))["weights"]
    assert (row["a"], row["b"], row["max_difference"]) == ("f32[2]", "f32[3]", None)


def test_what_does_not_go_together_is_refused(digits):
    assert run("inspect", digits, DIGITS, "--graph").returncode == 2
    assert run("inspect", digits, "/nowhere.mnn").returncode == 6
    assert run("inspect", digits, "--svg", "/nowhere/there.svg").returncode == 2


def test_dot_has_a_box_for_each_node_and_clusters_for_bodies(digits, tmp_path):
    done = run("inspect", digits, "--dot", "-")
    assert done.returncode == 0, done.stderr
    boxes = re.findall(r"^ *n(\d+) \[label=\"(\w+)", done.stdout, re.M)
    counts = json.loads(run("inspect", digits, "--format", "json").stdout)["nodes"]
    assert sum(op in counts for _, op in boxes) == sum(counts.values())
    assert "8x8" in done.stdout
    text = to_dot(parse(LOOPING))
    assert text.count("subgraph cluster_") == 2
    assert text.count("{") == text.count("}")
    edges = re.findall(r"n(\d+) -> n(\d+)", text)
    known = {i for i, _ in re.findall(r"^ *n(\d+) \[label=(.)", text, re.M)}
    assert {i for edge in edges for i in edge} <= known
    assert run("inspect", digits, "--dot", tmp_path / "d.dot", "--svg", tmp_path / "d.svg").returncode == 0
    assert (tmp_path / "d.dot").read_text() == done.stdout


def test_svg_shows_nodes_ports_and_bodies():
    root = ET.fromstring(to_svg(parse(LOOPING)))
    name = {"s": "http://www.w3.org/2000/svg"}
    groups = root.findall("s:g", name)
    titles = [g.findtext("s:title", "", name) for g in groups]
    # Exp, Neg, Abs, Transpose; three inputs and outputs of bodies each, and of the graph two and one.
    assert len(groups) == 4 + 2 + 2 + 2 + 1
    assert any('<z> "quoted"' in t and "perm=1x0" in t for t in titles)
    headings = [t.text for t in root.findall("s:text", name)]
    assert {"then_branch", "else_branch"} < {*headings}
    assert any(h and h.startswith("If") for h in headings)


def test_svg_of_thousands_of_nodes_and_of_none(tmp_path):
    nodes = [helper.make_node("Tanh", [f"v{max(0, i - i % 7)}"], [f"v{i + 1}"]) for i in range(3000)]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("v0", "v3000")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:])), tmp_path / "m.onnx")
    root = ET.fromstring(to_svg(open_model(str(tmp_path / "m.onnx")).graph))
    assert len(root.findall("{http://www.w3.org/2000/svg}g")) == 3002
    width, height = (float(root.get(k, "")) for k in ("width", "height"))
    assert 0.3 < width / height < 3, "a long chain is wrapped"
    assert ET.fromstring(to_svg(parse("graph g(%x: f32[1]) {\n return %x\n}"))) is not None
