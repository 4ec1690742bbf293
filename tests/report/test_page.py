"""`mnnconvert report`: what the page of a model says, also without scripts, and for models with hostile names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.cli._app import run
from minnow.converter import read
from minnow.optimizer.effect import effect_of
from tests.report.test_skeleton import HOSTILE, Page

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"


def made(tmp_path: Path, *arguments: object, code: int = 0, name: str = "report.html") -> str:
    path = tmp_path / name
    assert run(["report", *map(str, arguments), "-o", str(path), "--no-time", "-q"]) == code
    return path.read_text(encoding="utf-8")


def data_of(page: str) -> dict:
    texts = Page(page).texts["script"]
    return json.loads(next(t for t in texts if t.startswith("{")))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(DIGITS, output=path, verify=False)
    return path


def test_a_source_is_converted_for_its_report(tmp_path: Path) -> None:
    page = made(tmp_path, DIGITS)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html"]
    assert page == made(tmp_path, DIGITS, name="again.html"), "without times the bytes are the same"
    data, words = data_of(page), data_of(page)["strings"]
    fused = next(k for k, rules in enumerate(data["rules"]) if "fuse_conv_bn" in words[rules])
    assert {"onnx:conv_0", "onnx:batchnormalization_1", "onnx:relu_2"} == set(words[data["origin"][fused]].split("\n"))
    effect = effect_of(read(DIGITS).graph)
    cells = [t.strip() for t in Page(page).texts["td"]]
    for op, count in effect.nodes.items():
        assert cells[cells.index(op) + 1] == str(count), "the table has the nodes of the source"
    assert "PASS" not in page
    assert ">pass</span>" in page
    assert "--no-time" in page


def test_a_file_with_and_without_its_source(tmp_path: Path, digits: Path) -> None:
    alone, both = made(tmp_path, digits), made(tmp_path, digits, DIGITS)
    assert "There is no source to compare with" in alone
    assert "Before and after" in both
    assert "Before and after" not in alone
    words = data_of(both)["strings"]
    assert "onnx:relu_2" in words, "the origin is found by the name of the tensor"


def test_the_tables_do_not_need_scripts(tmp_path: Path) -> None:
    page = Page(re.sub(r"<script.*?</script>", "", made(tmp_path, DIGITS), flags=re.DOTALL))
    captions = page.texts["caption"]
    assert {"Cost of the graph", "Nodes by op", "Outputs"} <= {*captions}
    assert any(tag == "svg" and "Graph of digits.onnx" in (a.get("aria-label") or "") for tag, a in page.elements)
    assert "ConvertLayout" in page.texts["td"]


def test_wrong_weights_fail_and_the_report_shows_where(tmp_path: Path) -> None:
    model = onnx.load(DIGITS)
    weight = next(t for t in model.graph.initializer if numpy_helper.to_array(t).ndim == 4)
    changed = numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(-2), weight.name)
    weight.CopyFrom(changed)
    onnx.save(model, tmp_path / "other.onnx")
    minnow.convert(tmp_path / "other.onnx", output=tmp_path / "other.mnn", verify=False)
    page = made(tmp_path, tmp_path / "other.mnn", DIGITS, code=4)
    assert ">fail</span>" in page
    assert "Worst elements of probability" in page


@pytest.mark.parametrize("name", HOSTILE[:6], ids=ascii)
def test_names_of_a_model_stay_text(name: str, tmp_path: Path) -> None:
    def model(of: str) -> Path:
        nodes = [
            helper.make_node("Relu", ["x"], [f"{of}/a"], of),
            helper.make_node("Exp", [f"{of}/a"], [of], f"{of}/b"),
        ]
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in ("x", of))
        path = tmp_path / f"m{len(of)}.onnx"
        onnx.save(helper.make_model(helper.make_graph(nodes, of, [x], [y])), path)
        return path

    hostile, plain = Page(made(tmp_path, model(name))), Page(made(tmp_path, model("plain")))
    for page in (hostile, plain):
        assert [tag for tag, _ in page.elements].count("script") == 5
        assert not [a for _, attrs in page.elements for a in attrs if a.startswith("on") or a == "style"]
    tags = ({tag for tag, _ in page.elements} for page in (hostile, plain))
    assert next(tags) == next(tags)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["missing.onnx"], 6),
        ([str(DIGITS), str(DIGITS)], 2),
        ([str(DIGITS), "-o", str(DIGITS)], 2),
        ([str(DIGITS), "-o", "/nowhere/r.html"], 2),
        ([str(DIGITS), "--against", "nothing"], 2),
    ],
    ids=str,
)
def test_what_cannot_be_reported_is_refused(
    arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = DIGITS.read_bytes()
    assert run(["report", *arguments]) == code
    assert not [*tmp_path.iterdir()]
    assert DIGITS.read_bytes() == before


def test_layers_with_few_bits_are_listed(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((8, 4), np.int8), "w")
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["sums"], "layer"),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "s"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in (("x", [1, 8]), ("y", [1, 4])))
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weight])), tmp_path / "q.onnx")
    page = Page(made(tmp_path, tmp_path / "q.onnx"))
    assert "1 layer, 32 B of weights" in page.texts["caption"]
    cells = page.texts["td"]
    assert cells[len(cells) - cells[::-1].index("MatMulInteger")] == "i8"
    assert "Quantized layers" not in made(tmp_path, DIGITS)


def test_memory_over_time_names_the_tensors_at_the_peak(tmp_path: Path) -> None:
    page = Page(made(tmp_path, DIGITS))
    assert any(t.startswith("Alive at the peak, at node") for t in page.texts["caption"])
    assert {"relu_5", "relu_8"} <= {*page.texts["code"]}
