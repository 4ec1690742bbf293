"""The command line of MNN's converter: every flag does what it does there, or says that it does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from models import mnn_flag_models as models
from models import weight_streams as streams
from oracles import mnn_converter, mnn_oracle

from minnow.cli._app import run as run_cli
from minnow.cli._mnn_flags import MNN_FLAGS, GivenFlags
from minnow.runtime.session import load
from minnow.schema.errors import InternalError
from minnow.schema.mnn import wire


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.network(tmp_path_factory.mktemp("source") / "network.onnx")


def line(source: Path, target: Path, *flags: Any, framework: str = "ONNX") -> list[str]:
    return ["-f", framework, "--modelFile", str(source), "--MNNModel", str(target), *map(str, flags)]


def converted(source: Path, target: Path, *flags: Any) -> dict[str, Any]:
    """The tables of the file that a line with these flags makes."""
    assert run_cli(line(source, target, *flags)) == 0
    return wire.read(target.read_bytes())


def ops(net: dict[str, Any], *types: str) -> list[dict[str, Any]]:
    return [op for op in net["oplists"] if op.get("type", "AbsVal") in types]


def feeds(source: Path) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    session = onnxruntime.InferenceSession(str(source))
    shapes = {i.name: [d if isinstance(d, int) else 1 for d in i.shape] for i in session.get_inputs()}
    return {name: rng.random(shape, np.float32) for name, shape in shapes.items()}


def expected(source: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(str(source))
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def error(got: Any, want: Any) -> float:
    assert got.shape == want.shape
    return float(np.abs(got - want).max() / np.abs(want).max())


def in_mnn(target: Path, inputs: dict[str, Any], names: list[str], folder: Path) -> dict[str, Any]:
    """What MNN's runtime gives."""
    beside = target.with_name(f"{target.name}.weight")
    file = mnn_oracle.File(target.read_bytes(), inputs, names, beside.read_bytes() if beside.exists() else b"")
    (answer,) = mnn_oracle.run([file], folder / "oracle")
    assert answer.outputs is not None, answer.log
    return dict(zip(names, answer.outputs, strict=True))


def test_every_flag_of_mnns_converter_has_a_state() -> None:
    """The list is that of its help text, version 3.6.1, and three flags that newer versions have."""
    text = """help version framework modelFile batch keepInputFormat optimizeLevel optimizePrefer prototxt MNNModel fp16
    benchmarkModel bizCode debug forTraining weightQuantBits weightQuantAsymmetric weightQuantBlock hqq
    weightQuantScaleBit compressionParamsFile OP saveStaticModel targetVersion customOpLibs info authCode
    inputConfigFile testdir testconfig thredhold JsonFile alignDenormalizedValue detectSparseSpeedUp saveExternalData
    useGeluApproximation convertMatmulToConv transformerFuse transformerFuseC4 groupConvNative allowCustomOp
    useOriginRNNImpl splitBlockQuant dumpPass rknn transformerFuseQkvProj transformerFuseGateUpProj
    transformerFuseLnProj"""
    assert set(MNN_FLAGS) == set(text.split())


@mnn_oracle.needs_mnn
def test_the_list_of_flags_is_that_of_mnns_own_help(tmp_path: Path) -> None:
    found = set(re.findall(r"--([A-Za-z0-9]+)", mnn_converter.convert("--help", folder=tmp_path)))
    assert len(found) > 40
    assert found <= set(MNN_FLAGS)


def test_a_flag_that_is_not_carried_out_is_noticed() -> None:
    given = GivenFlags({"fp16": True, "debug": True})
    assert [text.partition(":")[0] for text in given.notes()] == ["--debug"]
    with pytest.raises(InternalError, match="--fp16"):
        given.finish()
    given.take("fp16")
    given.finish()
    with pytest.raises(InternalError, match="--rknn"):
        given.take("rknn")


VALUES = {"path": "x", "text": "x", "whole": "1", "number": "1", "yes": "1"}


def test_a_wrong_flag_names_a_command_that_shows_the_flags(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_cli(line(network, tmp_path / "m.mnn", "--frobnicate")) == 2
    usage = re.findall(r"Try 'mnnconvert (.*)' for help", capsys.readouterr().err)[0]
    assert run_cli(usage.split()) == 0
    assert "--weightQuantBits" in capsys.readouterr().out


@pytest.mark.parametrize("name", [f.name for f in MNN_FLAGS.values() if f.state == "refused"])
def test_what_is_refused_is_refused_by_name(name: str, network: Path, tmp_path: Path, capsys: Any) -> None:
    kind = MNN_FLAGS[name].kind
    words = [f"--{name}"] if kind == "switch" else [f"--{name}", VALUES[kind]]
    assert run_cli(line(network, tmp_path / "n.mnn", *words)) == 3
    assert f"--{name}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [f.name for f in MNN_FLAGS.values() if f.state in ("always", "no effect")])
def test_what_changes_nothing_is_noted(name: str, network: Path, tmp_path: Path, capsys: Any) -> None:
    plain, other = tmp_path / "plain.mnn", tmp_path / "other.mnn"
    kind = MNN_FLAGS[name].kind
    words = [f"--{name}"] if kind == "switch" else [f"--{name}", VALUES[kind]]
    assert run_cli(line(network, plain)) == 0
    capsys.readouterr()
    assert run_cli(line(network, other, *words)) == 0
    assert f"--{name}" in capsys.readouterr().err
    assert plain.read_bytes() == other.read_bytes()


@mnn_oracle.needs_mnn
@pytest.mark.slow
@pytest.mark.parametrize("name", [f.name for f in MNN_FLAGS.values() if f.state == "no effect"])
def test_what_changes_nothing_changes_nothing_in_mnn_either(name: str, network: Path, tmp_path: Path) -> None:
    words = [f"--{name}"] if MNN_FLAGS[name].kind == "switch" else [f"--{name}", "0"]
    files = []
    for k, flags in enumerate(([], words)):
        target = tmp_path / f"{k}.mnn"
        mnn_converter.convert(*line(network, target, *flags), folder=tmp_path)
        net = wire.read(target.read_bytes())
        net.pop("mnn_uuid")
        files.append(wire.write(net))
    assert files[0] == files[1]


def test_success_and_failure_are_printed_as_by_mnn(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_cli(line(network, tmp_path / "n.mnn")) == 0
    assert capsys.readouterr().out.endswith("Converted Success!\n")
    assert run_cli(line(models.custom(tmp_path / "c.onnx"), tmp_path / "c.mnn")) == 3
    said = capsys.readouterr()
    assert "Converted Failed!" in said.out
    assert "Converted Success!" not in said.out
    assert "acme::MyOp" in said.err
    assert run_cli([*line(network, tmp_path / "n.mnn"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["framework"] == "onnx"


def test_the_help_has_every_flag_by_state(capsys: Any) -> None:
    assert run_cli(["-f", "ONNX", "--modelFile", "x", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"--{name}" in text for name in MNN_FLAGS if name != "version")
    assert "is refused: exit code 3" in text


def test_texts_are_stored_where_mnn_stores_them(network: Path, tmp_path: Path) -> None:
    net = converted(network, tmp_path / "n.mnn", "--bizCode", "shop", "--authCode", "secret")
    assert net["bizCode"] == "shop"
    assert net["extraInfo"]["name"] == "secret"


@mnn_oracle.needs_mnn
def test_inputs_and_outputs_can_be_in_channel_blocks(network: Path, tmp_path: Path) -> None:
    net = converted(network, tmp_path / "n.mnn", "--keepInputFormat", "0")
    mnn_converter.convert(*line(network, tmp_path / "m.mnn", "--keepInputFormat", "0"), folder=tmp_path)
    theirs = wire.read((tmp_path / "m.mnn").read_bytes())
    for one in (net, theirs):
        assert ops(one, "Input")[0]["main"].get("dformat", "NC4HW4") == "NC4HW4"
        made = next(op for op in one["oplists"] if one["tensorName"].index("e") in op["outputIndexes"])
        assert made["type"] == "Deconvolution"
    assert ops(converted(network, tmp_path / "k.mnn", "--keepInputFormat=1"), "Input")[0]["main"]["dformat"] == "NCHW"
    inputs = feeds(network)
    want = expected(network, inputs)
    got = in_mnn(tmp_path / "n.mnn", inputs, ["y", "e"], tmp_path)
    assert max(error(got[n], want[n]) for n in want) < 1e-5
    own = load(tmp_path / "n.mnn").run(inputs)
    assert max(error(own[n], want[n]) for n in want) < 1e-5


def test_channel_blocks_are_refused_for_nhwc(network: Path, tmp_path: Path, capsys: Any) -> None:
    words = line(network, tmp_path / "n.mnn", "--keepInputFormat", "0", framework="TFLITE")
    assert run_cli(words) == 3
    assert "NHWC" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["convert"], []])
@pytest.mark.parametrize(
    "flags", [("--fp16",), ("--weightQuantBits", "4", "--weightQuantAsymmetric=0"), ("-f", "ONNX", "--hqq")]
)
def test_flags_go_together_with_a_source_and_an_output(
    command: list[str], flags: tuple[str, ...], network: Path, tmp_path: Path
) -> None:
    own = [f for f in flags if f not in ("-f", "ONNX")]
    assert run_cli(line(network, tmp_path / "a.mnn", *own)) == 0
    assert run_cli([*command, str(network), "-o", str(tmp_path / "b.mnn"), *flags]) == 0
    assert run_cli([*command, str(network), f"--output={tmp_path / 'c.mnn'}", *flags]) == 0
    assert (tmp_path / "a.mnn").read_bytes() == (tmp_path / "b.mnn").read_bytes() == (tmp_path / "c.mnn").read_bytes()


QUANTIZED = [
    ("--weightQuantBits", 8), ("--weightQuantBits", 2), ("--weightQuantBits", 4, "--weightQuantBlock", 16),
    ("--weightQuantBits", 5, "--weightQuantAsymmetric", 0), ("--weightQuantBits", 6),
    ("--weightQuantBits", 3, "--weightQuantAsymmetric", 0),
]  # fmt: skip
CLOSER = [
    ("--weightQuantBits", 7, "--weightQuantScaleBit", 16),
    ("--weightQuantBits", 3, "--weightQuantAsymmetric", 0, "--weightQuantScaleBit", 16),
    ("--weightQuantBits", 4, "--hqq"), ("--weightQuantBits", 4, "--weightQuantBlock", 16, "--hqq"),
]  # fmt: skip


@mnn_oracle.needs_mnn
@pytest.mark.slow
@pytest.mark.parametrize("flags", QUANTIZED, ids=lambda flags: "-".join(map(str, flags)).replace("--weightQuant", ""))
def test_integers_of_weights_are_those_of_mnn(flags: tuple[Any, ...], tmp_path: Path) -> None:
    """Without groups: for blocks of these MNN's converter reads beyond the weights."""
    network = models.network(tmp_path / "n.onnx", groups=1)
    ours = converted(network, tmp_path / "n.mnn", *flags)
    mnn_converter.convert(*line(network, tmp_path / "m.mnn", *flags), folder=tmp_path)
    theirs = wire.read((tmp_path / "m.mnn").read_bytes())
    kinds = ("Convolution", "ConvolutionDepthwise", "Deconvolution", "DeconvolutionDepthwise")
    pairs = list(zip(ops(ours, *kinds), ops(theirs, *kinds), strict=True))
    assert len(pairs) == 6
    for a, b in pairs:
        mine, other = a["main"]["quanParameter"], b["main"]["quanParameter"]
        assert a["type"] == b["type"]
        assert np.array_equal(mine["buffer"], other["buffer"])
        for field in ("type", "readType", "aMin", "aMaxOrBits", "scaleStorage"):
            default = wire.default("IDSTQuan", field)
            assert mine.get(field, default) == other.get(field, default), field
        if "alpha" in other:
            np.testing.assert_allclose(mine["alpha"], other["alpha"], rtol=1e-6)
    inputs = feeds(network)
    want = in_mnn(tmp_path / "m.mnn", inputs, ["y", "e"], tmp_path / "m")
    got, own = in_mnn(tmp_path / "n.mnn", inputs, ["y", "e"], tmp_path / "n"), load(tmp_path / "n.mnn").run(inputs)
    for name in want:
        assert error(got[name], want[name]) < 1e-5
        assert error(own[name], got[name]) < 1e-5


def weights_of(path: Path) -> list[Any]:
    """The weights of all convolutions in a file, as another implementation than ours reads them."""
    found = []
    for op in ops(wire.read(path.read_bytes()), "Convolution", "ConvolutionDepthwise"):
        quan = op["main"].get("quanParameter")
        found.append(np.asarray(op["main"]["weight"]) if quan is None else streams.numbers(quan).reshape(-1))
    return found


@mnn_oracle.needs_mnn
@pytest.mark.slow
@pytest.mark.parametrize("flags", CLOSER, ids=lambda flags: "-".join(map(str, flags)).replace("--weightQuant", ""))
def test_weights_are_nearer_than_those_of_mnn(flags: tuple[Any, ...], tmp_path: Path) -> None:
    """MNN cuts 16-bit scales off after the integers are chosen, and leaves its search for offsets early."""
    network = models.network(tmp_path / "n.onnx", groups=1)
    converted(network, tmp_path / "f.mnn")
    converted(network, tmp_path / "n.mnn", *flags)
    mnn_converter.convert(*line(network, tmp_path / "m.mnn", *flags), folder=tmp_path)
    exact = weights_of(tmp_path / "f.mnn")
    mine, theirs = weights_of(tmp_path / "n.mnn"), weights_of(tmp_path / "m.mnn")
    for want, a, b in zip(exact, mine, theirs, strict=False):
        assert np.linalg.norm(a - want) <= 1.02 * np.linalg.norm(b - want)
    inputs = feeds(network)
    got, own = in_mnn(tmp_path / "n.mnn", inputs, ["y", "e"], tmp_path / "n"), load(tmp_path / "n.mnn").run(inputs)
    for name in got:
        assert error(own[name], got[name]) < 1e-5


def parameters(**layers: dict[str, Any]) -> dict[str, Any]:
    rows = [{"opName": name, "weight": [{"name": name, **weight}]} for name, weight in layers.items()]
    return {"version": "3.6.1", "algo": [{"type": "QUANTIZE", "quantParams": {"layer": rows}}]}


def field(number: int, value: bytes | int) -> bytes:
    """A field of protobuf's binary form, below 128 bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


@mnn_oracle.needs_mnn
@pytest.mark.slow
def test_layers_have_the_parameters_of_a_file(tmp_path: Path, capsys: Any) -> None:
    """As in MNN's converter; a file that is not there is written."""
    network = models.network(tmp_path / "n.onnx", groups=1)
    (tmp_path / "c.json").write_text(
        json.dumps(parameters(a={"bits": 5}, c={"bits": 3, "asymmetric": False}, g={"blockSize": 16}))
    )
    flags = ("--weightQuantBits", 6, "--compressionParamsFile")
    ours = converted(network, tmp_path / "n.mnn", *flags, tmp_path / "c.json")
    mnn_converter.convert(*line(network, tmp_path / "m.mnn", *flags, tmp_path / "c.json"), folder=tmp_path)
    theirs = wire.read((tmp_path / "m.mnn").read_bytes())
    found = set()
    for a, b in zip(ops(ours, "Convolution"), ops(theirs, "Convolution"), strict=True):
        mine, other = a["main"]["quanParameter"], b["main"]["quanParameter"]
        found.add((mine["aMaxOrBits"], mine.get("readType", 0) > 0))
        assert np.array_equal(mine["buffer"], other["buffer"])
        np.testing.assert_allclose(mine["alpha"], other["alpha"], rtol=1e-6)
    assert found == {(5, True), (3, False), (6, True)}
    converted(network, tmp_path / "n.mnn", *flags, tmp_path / "new.json")
    assert "CompressFileName not exist, create it" in capsys.readouterr().out
    mnn_converter.convert(*line(network, tmp_path / "m.mnn", *flags, tmp_path / "theirs.json"), folder=tmp_path)
    written, other = (json.loads((tmp_path / n).read_text())["algo"][0]["quantParams"]["layer"] for n in
                      ("new.json", "theirs.json"))  # fmt: skip
    names = [{row["opName"].removesuffix("__matmul_converted") for row in rows} for rows in (written, other)]
    assert names[0] & names[1] >= {"c", "d", "g", "e"}
    again = converted(network, tmp_path / "n2.mnn", *flags, tmp_path / "new.json")
    assert {op["main"]["quanParameter"]["aMaxOrBits"] for op in ops(again, "Convolution")} == {6}


def test_a_binary_file_says_the_same(network: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "c.json").write_text(json.dumps(parameters(c={"bits": 3, "asymmetric": False})))
    weight = field(2, 3) + field(6, 0)
    layer = field(2, weight) + field(6, b"c")
    (tmp_path / "c.bin").write_bytes(field(2, field(1, 0) + field(2, field(4, layer))))
    files = []
    for name in ("c.json", "c.bin"):
        converted(network, tmp_path / f"{name}.mnn", "--compressionParamsFile", tmp_path / name)
        files.append((tmp_path / f"{name}.mnn").read_bytes())
    assert files[0] == files[1]
    kinds = [op["main"].get("quanParameter") for op in ops(wire.read(files[0]), "Convolution")]
    assert [q["aMaxOrBits"] for q in kinds if q is not None] == [3]


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"{", 6, "no compression parameters"),
        (b"\xff\xff", 6, "no compression parameters"),
        (json.dumps({"algo": [{"type": "PRUNE"}]}).encode(), 3, "pruning"),
        (json.dumps(parameters(c={"bits": 9})).encode(), 2, "2 to 8"),
        (b'{"algo": [{"quantParams": {"layer": [{"opName": "c", "input": [{}]}]}}]}', 3, "activations"),
    ],
)
def test_wrong_parameters_are_refused(
    content: bytes, code: int, said: str, network: Path, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "c").write_bytes(content)
    assert run_cli(line(network, tmp_path / "n.mnn", "--compressionParamsFile", tmp_path / "c")) == code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "n.mnn").exists()


@mnn_oracle.needs_mnn
def test_float16_is_rounded_to_the_nearest(network: Path, tmp_path: Path, capsys: Any) -> None:
    net = converted(network, tmp_path / "n.mnn", "--fp16")
    assert "differ by up to" in capsys.readouterr().out
    plain = converted(network, tmp_path / "p.mnn")
    for one, other in zip(ops(net, "Convolution"), ops(plain, "Convolution"), strict=True):
        weight = np.asarray(other["main"]["weight"])
        assert one["main"]["quanParameter"]["type"] == 3
        assert np.asarray(one["main"]["quanParameter"]["buffer"]).view("<f2").tolist() == weight.astype("<f2").tolist()
    assert [op["main"]["dataType"] for op in ops(net, "Const") if "uint8s" in op["main"]] == ["DT_HALF"] * 2
    mnn_converter.convert(*line(network, tmp_path / "m.mnn", "--fp16"), folder=tmp_path)
    for name in "nm":  # such files can be read, and written again
        assert run_cli(["optimize", str(tmp_path / f"{name}.mnn"), "-o", str(tmp_path / "again.mnn")]) == 0
    inputs = feeds(network)
    want = expected(network, inputs)
    ours, theirs = (in_mnn(tmp_path / f, inputs, ["y", "e"], tmp_path / f[0]) for f in ("n.mnn", "m.mnn"))
    assert error(ours["e"], want["e"]) < error(theirs["e"], want["e"]) < 1e-2
    assert (tmp_path / "n.mnn").stat().st_size < 0.6 * (tmp_path / "p.mnn").stat().st_size


@mnn_oracle.needs_mnn
def test_weights_of_mostly_zeros_are_stored_without_them(network: Path, tmp_path: Path) -> None:
    net = converted(network, tmp_path / "n.mnn", "--detectSparseSpeedUp")
    mnn_converter.convert(*line(network, tmp_path / "m.mnn", "--detectSparseSpeedUp"), folder=tmp_path)
    theirs = wire.read((tmp_path / "m.mnn").read_bytes())
    (mine,), (other,) = ([op["main"] for op in ops(one, "Convolution") if "sparseParameter" in op["main"]]
                         for one in (net, theirs))  # fmt: skip
    for field in ("index", "alpha"):
        assert np.array_equal(mine["quanParameter"][field], other["quanParameter"][field])
    assert [(a["key"], a["i"]) for a in mine["sparseParameter"]["args"]] == [
        (a["key"], a["i"]) for a in other["sparseParameter"]["args"]
    ]
    inputs = feeds(network)
    want = expected(network, inputs)
    assert error(in_mnn(tmp_path / "n.mnn", inputs, ["y"], tmp_path)["y"], want["y"]) < 1e-5


def test_subnormal_weights_become_zero_unless_they_are_to_stay(network: Path, tmp_path: Path) -> None:
    for flags, least in (((), 1e-37), (("--alignDenormalizedValue", 1), 1e-37), (("--alignDenormalizedValue", 0), 0.0)):
        net = converted(network, tmp_path / "n.mnn", *flags)
        weight = np.concatenate([np.asarray(op["main"]["weight"]) for op in ops(net, "Convolution")])
        small = np.abs(weight[weight != 0]).min()
        assert small > least
        assert (small < 1.18e-38) == (least == 0)


@mnn_oracle.needs_mnn
def test_gelu_is_exact_unless_it_is_to_be_approximated(tmp_path: Path) -> None:
    source = models.gelu(tmp_path / "g.onnx")
    kinds = {"--useGeluApproximation=1": "GELU", "--useGeluApproximation=0": "GELU_STANDARD"}
    for flag, kind in kinds.items():
        assert ops(converted(source, tmp_path / "n.mnn", flag), "UnaryOp")[0]["main"]["opType"] == kind
        mnn_converter.convert(*line(source, tmp_path / "m.mnn", flag), folder=tmp_path)
        assert ops(wire.read((tmp_path / "m.mnn").read_bytes()), "UnaryOp")[0]["main"]["opType"] == kind
    assert ops(converted(source, tmp_path / "n.mnn"), "UnaryOp")[0]["main"]["opType"] == "GELU_STANDARD"


@mnn_oracle.needs_mnn
def test_products_become_convolutions_if_asked_for(network: Path, tmp_path: Path) -> None:
    kept = converted(network, tmp_path / "k.mnn", "--convertMatmulToConv", 0)
    assert ops(kept, "MatMul")
    net = converted(network, tmp_path / "n.mnn", "--convertMatmulToConv", 1)
    assert not ops(net, "MatMul")
    assert len(ops(net, "Convolution")) == len(ops(kept, "Convolution")) + 1
    inputs = feeds(network)
    assert error(in_mnn(tmp_path / "n.mnn", inputs, ["y"], tmp_path)["y"], expected(network, inputs)["y"]) < 1e-5


@mnn_oracle.needs_mnn
def test_groups_and_recurrent_layers_are_one_node_as_mnn_has_it_on_request(network: Path, tmp_path: Path) -> None:
    source = models.recurrent(tmp_path / "r.onnx")
    asked = {"--groupConvNative": (network, "Convolution"), "--useOriginRNNImpl": (source, "LSTM")}
    for flag, (model, kind) in asked.items():
        mnn_converter.convert(*line(model, tmp_path / "m.mnn", flag, "--convertMatmulToConv", 0), folder=tmp_path)
        theirs = wire.read((tmp_path / "m.mnn").read_bytes())
        assert len(ops(converted(model, tmp_path / "n.mnn"), kind)) == len(ops(theirs, kind)) > 0
        assert not theirs.get("subgraphs")


def test_a_shared_weight_is_constant_and_in_the_file_once(tmp_path: Path) -> None:
    """What --optimizePrefer asks for: the smallest file, and the fastest."""
    net = converted(models.shared(tmp_path / "s.onnx"), tmp_path / "n.mnn")
    assert len(ops(net, "Convolution")) == 5
    assert all(len(op["inputIndexes"]) == 1 and len(op["main"]["weight"]) == 256 for op in ops(net, "Convolution"))
    assert (tmp_path / "n.mnn").stat().st_size < 2 * 1024 + 4000


@mnn_oracle.needs_mnn
def test_unknown_operators_are_kept_by_name(tmp_path: Path, capsys: Any) -> None:
    source = models.custom(tmp_path / "c.onnx")
    net = converted(source, tmp_path / "n.mnn", "--allowCustomOp")
    assert "not verified" in capsys.readouterr().out
    mnn_converter.convert(*line(source, tmp_path / "m.mnn", "--allowCustomOp"), folder=tmp_path)
    theirs = wire.read((tmp_path / "m.mnn").read_bytes())

    def said(one: dict[str, Any]) -> Any:
        (op,) = ops(one, "Extra")
        empty = ("b", "f", "i", "type")
        attrs = [
            {k: np.asarray(v["i"]).tolist() if k == "list" else v for k, v in a.items() if v or k not in empty}
            for a in op["main"]["attr"]
        ]
        plain = [{k: v for k, v in a.items() if v != "DT_INVALID"} for a in attrs]
        return op["main"]["type"], op["main"]["engine"], sorted(plain, key=lambda a: a["key"])

    assert said(net) == said(theirs)
    assert run_cli(["run", str(tmp_path / "n.mnn")]) == 3
    assert "MyOp 'v'" in capsys.readouterr().err


@mnn_oracle.needs_mnn
@pytest.mark.parametrize("model", ["movements", "network"])
def test_static_files_run_in_mnn(model: str, tmp_path: Path) -> None:
    source = getattr(models, model)(tmp_path / "s.onnx")
    inputs = feeds(source)
    config = tmp_path / "inputs.txt"
    shapes = ",".join("x".join(map(str, a.shape)) for a in inputs.values())
    config.write_text(f"input_size = {len(inputs)}\ninput_names = {','.join(inputs)}\ninput_dims = {shapes}\n")
    net = converted(source, tmp_path / "n.mnn", "--saveStaticModel", "--inputConfigFile", config)
    assert net["usage"] == "INFERENCE_STATIC"
    assert not ops(net, "Reshape", "ConvertTensor", "Concat", "Transpose", "Permute", "Slice", "Padding", "Interp")
    assert {d.get("index", 0) for d in net["extraTensorDescribe"]} == {
        int(i) for op in net["oplists"] for i in op["outputIndexes"]
    }
    want = expected(source, inputs)
    got = in_mnn(tmp_path / "n.mnn", inputs, list(want), tmp_path)
    assert max(error(got[n], want[n]) for n in want) < 1e-5


def test_static_files_need_shapes_and_ops_with_such_a_form(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_cli(line(network, tmp_path / "n.mnn", "--saveStaticModel")) == 3
    assert "--inputConfigFile" in capsys.readouterr().err
    assert run_cli(line(models.recurrent(tmp_path / "r.onnx"), tmp_path / "r.mnn", "--saveStaticModel")) == 3
    assert "LSTM" in capsys.readouterr().err
    for text in ("input_names = x\n", "input_names = x\ninput_dims = 1xax3\n", "sizes = 3\n", ""):
        (tmp_path / "c.txt").write_text(text)
        words = ["--saveStaticModel", "--inputConfigFile", tmp_path / "c.txt"]
        assert run_cli(line(network, tmp_path / "n.mnn", *words)) == 2
    assert run_cli(line(network, tmp_path / "n.mnn", "--saveStaticModel", "--inputConfigFile", tmp_path / "none")) == 6


def test_passes_are_listed_on_request(network: Path, tmp_path: Path, capsys: Any) -> None:
    converted(network, tmp_path / "n.mnn", "--dumpPass")
    text = capsys.readouterr().out
    assert re.search(r"^\[DumpPass\] fuse_conv_activation: 1 times", text, re.MULTILINE)
    assert re.search(r"^\[DumpPass\] all: ops \d+ -> \d+$", text, re.MULTILINE)


def test_an_older_target_is_refused(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_cli(line(network, tmp_path / "n.mnn", "--targetVersion", "1.2")) == 3
    assert "not of 1.2" in capsys.readouterr().err
    assert run_cli(line(network, tmp_path / "n.mnn", "--targetVersion", "3.6")) == 0


def test_flags_of_quantization_without_bits_are_noted(network: Path, tmp_path: Path, capsys: Any) -> None:
    converted(network, tmp_path / "n.mnn", "--weightQuantBlock", 32)
    assert "--weightQuantBlock" in capsys.readouterr().err
    for words, code in ((("--weightQuantBits", 9), 2), (("--weightQuantBits", 4, "--weightQuantScaleBit", 8), 3)):
        assert run_cli(line(network, tmp_path / "q.mnn", *words)) == code


@mnn_oracle.needs_mnn
def test_information_is_printed_as_by_mnn(network: Path, tmp_path: Path, capsys: Any) -> None:
    converted(network, tmp_path / "n.mnn")
    mnn_converter.convert(*line(models.named(tmp_path / "d.onnx"), tmp_path / "m.mnn"), folder=tmp_path)
    for file in ("n.mnn", "m.mnn"):
        capsys.readouterr()
        assert run_cli(["-f", "MNN", "--modelFile", str(tmp_path / file), "--info"]) == 0
        theirs = mnn_converter.convert("-f", "MNN", "--modelFile", tmp_path / file, "--info", folder=tmp_path)
        mine = [row.rstrip() for row in capsys.readouterr().out.splitlines()]
        assert mine == [row.rstrip() for row in theirs.splitlines() if not row.startswith("The device")]


def test_operators_are_listed(capsys: Any) -> None:
    assert run_cli(["-f", "ONNX", "--OP"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "Dump ONNX support Ops"
    assert "Conv" in rows
    assert rows[-1] == f"Total: {len(rows) - 2}"


def test_tf_is_tensorflow(capsys: Any) -> None:
    assert run_cli(["-f", "TF", "--OP"]) == 0
    assert "Conv2D" in capsys.readouterr().out.splitlines()
