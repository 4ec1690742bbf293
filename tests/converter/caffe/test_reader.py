"""Files of Caffe: the three forms of the format, pairs of files, what takes part, and how damaged ones end."""

from __future__ import annotations

import mmap
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caffe_one import Array, blob, by_opencv, by_us, definition, field, layer, varint, weights, write

import minnow
from minnow.converter import read
from minnow.converter.caffe.message import NetParameter
from minnow.converter.caffe.text import parse_text
from minnow.converter.caffe.upgrade import parameter_field
from minnow.converter.formats import detect, formats, frontends
from minnow.errors import FormatError, ModelError, UnsupportedError, UsageError
from minnow.schema.mnn import encode

F = np.float32
SHARED = Path(__file__).resolve().parents[4] / "shared" / "models"
RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 3, 8, 8)).astype(F)
BLOBS = {
    "conv": [RNG.standard_normal((4, 3, 3, 3)).astype(F), RNG.standard_normal(4).astype(F)],
    "ip": [RNG.standard_normal((5, 64)).astype(F), RNG.standard_normal(5).astype(F)],
}
NEW = """
name: "net"  # a comment
input: "data" input_dim: 2 input_dim: 3 input_dim: 8 input_dim: 8
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" param { lr_mult: 1 } param { lr_mult: 2 }
        convolution_param { num_output: 4 pad: 1 kernel_size: 3 weight_filler { type: "xavier" } } some_fork: 3 }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
        pooling_param { pool: AVE kernel_size: 3 stride: 2 } new_thing { x: 1 y { z: "w" } } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""
SECOND = """
name: "net"
input: "data" input_dim: 2 input_dim: 3 input_dim: 8 input_dim: 8
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" blobs_lr: 1 blobs_lr: 2 weight_decay: 1
         convolution_param { num_output: 4 pad: 1 kernel_size: 3 } }
layers { name: "relu" type: RELU bottom: "conv" top: "conv" }
layers { name: "pool" type: POOLING bottom: "conv" top: "pool" pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layers { name: "ip" type: INNER_PRODUCT bottom: "pool" top: "ip" inner_product_param { num_output: 5 } }
layers { name: "prob" type: SOFTMAX bottom: "ip" top: "prob" }
"""
FIRST = """
name: "net"
input: "data" input_dim: 2 input_dim: 3 input_dim: 8 input_dim: 8
layers { layer { name: "pad" type: "padding" pad: 1 } bottom: "data" top: "pad" }
layers { layer { name: "conv" type: "conv" num_output: 4 kernelsize: 3 biasterm: true blobs_lr: 1. }
         bottom: "pad" top: "conv" }
layers { layer { name: "relu" type: "relu" } bottom: "conv" top: "conv" }
layers { layer { name: "pool" type: "pool" pool: AVE kernelsize: 3 stride: 2 } bottom: "conv" top: "pool" }
layers { layer { name: "ip" type: "innerproduct" num_output: 5 } bottom: "pool" top: "ip" }
layers { layer { name: "prob" type: "softmax" } bottom: "ip" top: "prob" }
"""


def old_blob(array: Array, packed: bool = True) -> bytes:
    """A blob with the dimensions of its time, and its numbers together or each on its own."""
    dimensions = (1,) * (4 - array.ndim) + array.shape
    numbers = field(5, array.tobytes()) if packed else b"".join(b"\x2d" + v.tobytes() for v in array.reshape(-1))
    return b"".join(field(i + 1, d) for i, d in enumerate(dimensions)) + numbers


def old_weights(first: bool, packed: bool = True) -> bytes:
    """The same weights in an older form."""
    layers = []
    for name, arrays in BLOBS.items():
        blobs = [old_blob(array, packed) for array in arrays]
        if first:
            layers.append(field(1, field(1, name) + b"".join(field(50, one) for one in blobs)))
        else:
            layers.append(field(4, name) + b"".join(field(6, one) for one in blobs))
    return field(1, "net") + b"".join(field(2, one) for one in layers)


def pair(folder: Path, text: str, content: bytes) -> Path:
    path = folder / "net.prototxt"
    path.write_text(text)
    (folder / "net.caffemodel").write_bytes(content)
    return path


@pytest.fixture(scope="module")
def want(tmp_path_factory: pytest.TempPathFactory) -> Array:
    pytest.importorskip("cv2")
    plain = NEW.replace("some_fork: 3", "").replace('new_thing { x: 1 y { z: "w" } }', "")
    (found,) = by_opencv(write(tmp_path_factory.mktemp("new"), plain, BLOBS), {"data": X})
    return found


FORMS = {
    "new": (NEW, weights(BLOBS)),
    "second": (SECOND, old_weights(False)),
    "first": (FIRST, old_weights(True)),
    "new text, old weights": (NEW, old_weights(False)),
    "second, not packed": (SECOND, old_weights(False, packed=False)),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, want: Array, tmp_path: Path) -> None:
    path = pair(tmp_path, *FORMS[form])
    np.testing.assert_allclose(by_us(path, {"data": X})["prob"], want, rtol=1e-5, atol=1e-6)
    assert detect(path).name == detect(path.with_suffix(".caffemodel")).name == "caffe"
    found = frontends()["caffe"].describe(path)
    assert found.versions == {"prototxt": {"n": 2, "s": 1, "f": 0}[form[0]]}
    assert found.operators["Convolution"] == 1
    assert [str(p) for p in found.inputs] == ["data: float[2, 3, 8, 8]"]


def whole(text: str, blobs: bool = True) -> bytes:
    """A net as Caffe stores it when it has trained it: with its definition."""
    net = parse_text(text, "")
    content = field(1, net.name) + b"".join(field(3, name) for name in net.input)
    content += field(4, b"".join(map(varint, net.input_dim))) if net.input_dim else b""
    for entry in net.layer:
        numbers = b"".join(field(7, blob(a)) for a in BLOBS.get(entry.name, ()) if blobs)
        content += field(100, entry.SerializeToString() + field(10, 0) + numbers)
    for old in net.layers:
        # As text the type of a layer is a word; binary files have its number.
        if old.type_name:
            old.type = old.LayerType.Value(old.type_name)
            old.ClearField("type_name")
        numbers = b"".join(field(6, old_blob(a)) for a in BLOBS.get(old.name, ()) if blobs)
        inner = b"".join(field(50, old_blob(a)) for a in BLOBS.get(old.layer.name, ()) if blobs)
        # A message that comes twice is one of both.
        content += field(2, old.SerializeToString() + numbers + (field(1, inner) if inner else b""))
    return content


@pytest.mark.parametrize("form", ["new", "second", "first"])
def test_weights_may_hold_the_net(form: str, want: Array, tmp_path: Path) -> None:
    path = tmp_path / "whole.caffemodel"
    path.write_bytes(whole(FORMS[form][0]))
    assert detect(path).name == "caffe"
    np.testing.assert_allclose(by_us(path, {"data": X})["prob"], want, rtol=1e-5, atol=1e-6)


NUMBERS = RNG.standard_normal((2, 3))
SHAPE = field(7, field(1, 2) + field(1, 3))
STORED = {
    "double": field(8, NUMBERS.astype("<f8").tobytes()),
    "raw half": field(12, NUMBERS.astype("<f2").tobytes()) + field(10, 2),
    "raw float": field(12, NUMBERS.astype("<f4").tobytes()) + field(10, 1),
    "one by one": b"".join(b"\x41" + v.tobytes() for v in NUMBERS.reshape(-1)),
    "two parts": field(5, NUMBERS.astype("<f4").tobytes()[:8]) + field(5, NUMBERS.astype("<f4").tobytes()[8:]),
}


@pytest.mark.parametrize("stored", STORED)
def test_ways_to_store_weights(stored: str, tmp_path: Path) -> None:
    constant = layer("Parameter", "parameter_param { shape { dim: 2 dim: 3 } }", [])
    path = write(tmp_path, definition({"x": (1,)}, constant))
    path.with_suffix(".caffemodel").write_bytes(field(100, field(1, "l") + field(7, STORED[stored] + SHAPE)))
    got = by_us(path, {"x": np.zeros(1, F)})["y"]
    np.testing.assert_allclose(got, NUMBERS, atol=2e-3 if "half" in stored else 1e-6)


BROKEN = {
    "a type": (field(12, b"12345678") + field(10, 4), UnsupportedError),
    "half a number": (field(5, b"12345"), FormatError),
    "too few": (field(5, b"1234"), FormatError),
    "no end": (b"\x2a\xff\xff\xff\xff\x0f", FormatError),
    "a group": (b"\x2b", FormatError),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_weights(what: str, tmp_path: Path) -> None:
    path = write(tmp_path, definition({"x": (1,)}, layer("Parameter", "", [])))
    content, error = BROKEN[what]
    path.with_suffix(".caffemodel").write_bytes(field(100, field(1, "l") + field(7, SHAPE + content)))
    with pytest.raises(error):
        read(path)


def test_weights_are_views_of_the_file(tmp_path: Path) -> None:
    model = read(write(tmp_path, NEW, BLOBS))
    conv = next(node for node in model.graph if node.op == "Conv")
    base: Any = conv.input(1).array
    while not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else base.base


def test_types_without_a_word_are_named(tmp_path: Path) -> None:
    text = SECOND.replace("SOFTMAX", "OUR_OWN_LAYER").replace("RELU", "ODD")
    with pytest.raises(UnsupportedError, match=r"(?s)ODD.*OUR_OWN_LAYER"):
        read(pair(tmp_path, text, old_weights(False)))


def test_what_may_matter_is_not_passed_over(tmp_path: Path) -> None:
    """A field of a fork in the parameters of a layer can change what it computes; elsewhere it cannot."""
    fork = NEW.replace("kernel_size: 3 stride: 2", "kernel_size: 3 stride: 2 odd_mode: BACKWARD")
    quoted = "engine: CUDNN # weight: 1 }\n bias_filler { type: 'a { weight: 1' }"
    with pytest.raises(UnsupportedError) as caught:
        read(write(tmp_path, fork.replace("kernel_size: 3 w", f"kernel_size: 3 {quoted} w"), BLOBS))
    assert [str(r).partition(":")[0] for r in caught.value.refused] == [
        "the attribute 'odd_mode' of Pooling is not supported"
    ]
    with pytest.raises(UnsupportedError, match="'weight' of Convolution"):
        read(write(tmp_path, NEW.replace("kernel_size: 3 w", "kernel_size:3,weight:1;w"), BLOBS))


def test_refuses_by_name(tmp_path: Path) -> None:
    python = layer("Python", 'python_param { module: "m" layer: "L" }', tops=["a"])
    text = definition({"x0": (2, 3)}, python + layer("Unheard", "", ["a"], ["b"]) + layer("Filter", "", ["b", "x0"]))
    with pytest.raises(UnsupportedError) as caught:
        read(write(tmp_path, text))
    reasons = sorted(r.reason for r in caught.value.refused)
    assert len(reasons) == 3
    assert all(any(word in r for r in reasons) for word in ("Filter", "Unheard", "Python"))
    assert "--outputs" in str(caught.value)
    with pytest.raises(UnsupportedError, match="MEDIAN"):
        read(write(tmp_path, definition({"x0": (1, 3, 4, 4)}, layer("Pooling", "pooling_param { pool: MEDIAN }"))))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder ../shared/models is not there")
def test_binary_fields_are_those_that_caffe_writes() -> None:
    """Nets that Caffe has stored hold the definition that lies beside them as text."""
    compared: Counter[str] = Counter()
    for path in sorted((SHARED / "caffe").rglob("*.caffemodel")):
        whole = NetParameter.FromString(path.read_bytes())
        text = next(p for p in path.parent.glob("*.prototxt") if path.stem.startswith("squeeze") or p.stem == path.stem)
        stored = {entry.name: entry for entry in whole.layer}
        for entry in parse_text(text.read_text(), "").layer:
            own = parameter_field(entry.type)
            if entry.name not in stored or not own or not entry.HasField(own):
                continue
            assert stored[entry.name].type == entry.type
            assert list(stored[entry.name].top) == list(entry.top)
            there = {f.name: v for f, v in getattr(stored[entry.name], own).ListFields()}
            for known, value in getattr(entry, own).ListFields():
                assert there[known.name] == value, (path, entry.name, known.name)
                compared[f"{own}.{known.name}"] += 1
    assert len(compared) > 10
    assert sum(compared.values()) > 200


# ---- pairs


def test_finds_the_partner(tmp_path: Path) -> None:
    net, numbers = tmp_path / "a_deploy.prototxt", tmp_path / "a.caffemodel"
    net.write_text(NEW)
    numbers.write_bytes(weights(BLOBS))
    (tmp_path / "b.caffemodel").write_bytes(b"\x0a\x01b")
    (tmp_path / "solver.prototxt").write_text('net: "train.prototxt" base_lr: 1')
    assert len(read(net).graph) == len(read(numbers).graph) > 4
    with pytest.raises(ModelError, match=r"(?s)'conv'.*caffemodel.*--weights"):
        read(net.rename(tmp_path / "c.prototxt"))
    assert read(tmp_path / "c.prototxt", weights=str(numbers)).outputs
    assert read(numbers, weights=str(tmp_path / "c.prototxt")).outputs
    with pytest.raises(UsageError, match="both files hold"):
        read(numbers, weights=str(tmp_path / "b.caffemodel"))
    (tmp_path / "b.prototxt").write_bytes(b"\0" + NEW.encode())
    with pytest.raises(FormatError, match=r"(?s)damaged.*both look like weights"):
        read(tmp_path / "b.caffemodel", "caffe")
    with pytest.raises(FormatError, match="cannot read"):
        read(numbers, weights=str(tmp_path / "nowhere.prototxt"))


def test_weights_of_another_net(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"(?s)weights of layer 'ip' are missing.*none for a layer of this name"):
        read(write(tmp_path, NEW, {"conv": BLOBS["conv"], "other": BLOBS["ip"]}))
    with pytest.raises(ModelError, match="weights do not fit 4 outputs"):
        read(write(tmp_path, NEW, {**BLOBS, "conv": [np.zeros((5, 5), F)]}))
    with pytest.raises(UsageError, match="weights"):
        read(pair(tmp_path, NEW, weights(BLOBS)), "onnx", weights="x")


# ---- what takes part

TRAIN = """
name: "train"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN } data_param { batch_size: 64 }
        transform_param { crop_size: 9 mirror: true } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST } data_param { batch_size: 5 }
        transform_param { crop_size: 8 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "drop" type: "Dropout" bottom: "conv" top: "conv" exclude { stage: "deploy" } }
layer { name: "aux" type: "ReLU" bottom: "conv" top: "aux" exclude { phase: TEST } }
layer { name: "deep" type: "ReLU" bottom: "conv" top: "deep" include { min_level: 1 } include { stage: "extra" } }
layer { name: "acc" type: "Accuracy" bottom: "conv" bottom: "label" top: "acc" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "conv" bottom: "label" top: "loss" }
layer { name: "hush" type: "Silence" bottom: "aux" include { phase: TRAIN } }
"""


def test_a_net_for_training(tmp_path: Path) -> None:
    path = write(tmp_path, TRAIN, BLOBS)
    model = read(path)
    assert [(n, t.shape) for n, t in model.inputs] == [("data", (5, 3, 8, 8))]
    assert [n for n, _ in model.outputs] == ["conv"]
    assert sorted(n.split("'")[1] for n in model.notices) == ["acc", "data", "loss"]
    assert read(path, inputs={"data": (1, 3, 6, 7)}).outputs[0][1].shape == (1, 4, 4, 5)
    named = TRAIN.replace('name: "train"', 'name: "train" state { stage: "extra" level: 0 }')
    assert [n for n, _ in read(write(tmp_path, named, BLOBS)).outputs] == ["deep"]


def test_what_forks_read_and_lose(tmp_path: Path) -> None:
    """Layers that only their names tell: sources of data, and losses."""
    text = TRAIN.replace('type: "Data"', 'type: "DenseImageData"').replace("SoftmaxWithLoss", "SoftmaxWithOurLoss")
    model = read(write(tmp_path, text, BLOBS))
    assert [(n, t.shape) for n, t in model.inputs] == [("data", (5, 3, 8, 8))]
    assert [n for n, _ in model.outputs] == ["conv"]
    assert any("SoftmaxWithOurLoss is for training" in n for n in model.notices)


def test_labels_that_are_copied_are_no_outputs(tmp_path: Path) -> None:
    """As Caffe stores a net that it has trained."""
    head, data, *rest = TRAIN[1:].split("layer {")[0:1] + TRAIN.split("layer {")[2:]
    kept = [
        part for part in rest if any(f'"{name}"' in part for name in ("conv", "acc", "loss")) and "relu" not in part
    ]
    kept = [part for part in kept if part.split('"')[1] in ("conv", "acc", "loss")]
    copies = ' name: "s" type: "Split" bottom: "label" top: "label_0" top: "label_1" }\n'
    kept = [part.replace('"label"', f'"label_{i % 2}"') for i, part in enumerate(kept)]
    path = tmp_path / "snapshot.caffemodel"
    path.write_bytes(whole("layer {".join([head, data, copies, *kept])))
    model = read(path)
    assert [n for n, _ in model.inputs] == ["data"]
    assert [n for n, _ in model.outputs] == ["conv"]


def test_in_place_chains(tmp_path: Path) -> None:
    """A name is what was written to it last, for those that read it later; outputs come in their order."""
    rows = [
        layer("ReLU", "", ["x0"], ["a"]).replace('"l"', '"1"'),
        layer("Power", "power_param { shift: 1 }", ["a"], ["b"]).replace('"l"', '"2"'),
        layer("Power", "power_param { scale: 2 }", ["a"], ["a"]).replace('"l"', '"3"'),
        layer("Power", "power_param { shift: -1 }", ["a"], ["a"]).replace('"l"', '"4"'),
        layer("Eltwise", "", ["a", "x0"], ["c"]).replace('"l"', '"5"'),
        layer("Power", "power_param { scale: 3 }", ["x0"], ["x0"]).replace('"l"', '"6"'),
    ]
    x = RNG.standard_normal((2, 3)).astype(F)
    got = by_us(write(tmp_path, definition({"x0": (2, 3)}, "\n".join(rows))), {"x0": x})
    a = np.maximum(x, 0)
    assert list(got) == ["b", "c", "x0_out"]
    for name, expected in {"b": a + 1, "c": 2 * a - 1 + x, "x0_out": 3 * x}.items():
        np.testing.assert_allclose(got[name], expected, rtol=1e-6)


def test_several_inputs_and_cuts(tmp_path: Path) -> None:
    text = 'input: "a" input_shape { dim: 2 dim: 3 } input: "b" input_shape { dim: 2 dim: 3 }\n'
    text += layer("Eltwise", "", ["a", "b"], ["s"]) + layer("ReLU", "", ["s"], ["r"]).replace('"l"', '"m"')
    text += layer("Unheard", "", ["r"], ["u"]).replace('"l"', '"n"')
    path = write(tmp_path, text)
    model = read(path, cut_outputs=["r"])
    assert [n for n, _ in model.inputs] == ["a", "b"]
    assert [n for n, _ in model.outputs] == ["r"]
    cut = read(path, cut_inputs=["s"], cut_outputs=["r"], inputs={"s": (4,)})
    assert [(n, t.shape) for n, t in cut.inputs] == [("s", (4,))]
    assert [n.op for n in cut.graph] == ["Relu"]
    with pytest.raises(UsageError, match="no top 'q'"):
        read(path, cut_outputs=["q"])
    with pytest.raises(UsageError, match="no input 'q'"):
        read(path, cut_outputs=["r"], inputs={"q": (1,)})


def test_open_inputs(tmp_path: Path) -> None:
    text = 'layer { name: "x" type: "Input" top: "x" }' + layer("ReLU", "", ["x"])
    path = write(tmp_path, text)
    session = minnow.load(encode(read(path)))
    np.testing.assert_array_equal(session.run({"x": np.float32([[-1, 2]])})["y"], [[0, 2]])
    assert read(path, inputs={"x": (2, "?")}).outputs[0][1].shape == (2, "?")


# ---- formats


def test_formats_do_not_take_each_others_files() -> None:
    counts = Counter()
    endings = {".onnx": "onnx", ".tflite": "tflite", ".pb": "tensorflow", ".caffemodel": "caffe", ".prototxt": "caffe"}
    for path in sorted(p for p in SHARED.rglob("*") if p.suffix in endings):
        with path.open("rb") as file:
            head = file.read(4096)
        takers = [f.name for f in formats().values() if f.sniff(path, head)]
        if endings[path.suffix] == "caffe" or "caffe" in takers:
            assert takers == [endings[path.suffix]], path
        counts[endings[path.suffix]] += 1
    assert not SHARED.is_dir() or counts["caffe"] > 8


@pytest.mark.parametrize("head", ["", "# a license\n" * 900, "engine: X\nstate { phase: TEST }\n", "\ufeff\r\n"])
def test_text_is_known_by_its_layers(head: str, tmp_path: Path) -> None:
    path = tmp_path / "net.txt"
    path.write_text(head + NEW)
    assert detect(path).name == "caffe"


@pytest.mark.parametrize(
    "other",
    [
        'net: "train.prototxt"\nbase_lr: 0.1\n# layer { }\n',
        'node { name: "x" op: "Placeholder" attr { key: "input_shape" } }',
        'name: "served"\nplatform: "x"\ninput [ { name: "layers" } ]',
        '{"layers": {"x": 1}}',
    ],
)
def test_other_text_is_not(other: str, tmp_path: Path) -> None:
    path = tmp_path / "other.prototxt"
    path.write_text(other)
    assert not formats()["caffe"].sniff(path, other.encode())


# ---- damage


def damaged(rng: random.Random, content: bytes) -> bytes:
    """One of the ways in which a file goes wrong: cut, flipped bits, bytes put in or taken out."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            del data[at : at + rng.randrange(1, 40)]
        if not data:
            break
    return bytes(data)


def outcome(path: Path) -> str:
    begin = time.process_time()
    try:
        model = read(path, "caffe")
        encode(model)
    except (FormatError, ModelError, UnsupportedError):
        result = "refused"
    else:
        result = "read"
    assert time.process_time() - begin < 10
    return result


@pytest.mark.parametrize("what", ["text", "weights", "net"])
def test_damaged_files_end_with_an_error(what: str, tmp_path: Path) -> None:
    rng = random.Random(9)
    forms = [FORMS[f] for f in ("new", "second", "first")] + [(TRAIN, weights(BLOBS))]
    counts: Counter[str] = Counter()
    for _ in range(150):
        text, content = rng.choice(forms)
        if what == "net":
            path = tmp_path / "whole.caffemodel"
            path.write_bytes(damaged(rng, whole(text, blobs=False)) + content)
        else:
            path = tmp_path / "net.prototxt"
            path.write_bytes(damaged(rng, text.encode()) if what == "text" else text.encode())
            path.with_suffix(".caffemodel").write_bytes(damaged(rng, content) if what == "weights" else content)
        counts[outcome(path)] += 1
    assert counts["refused"] > 20
    assert what == "net" or counts["read"] > 5


def one(shape: tuple[int, ...], *named: Any, **others: Any) -> str:
    """A net of one layer."""
    return definition({"x0": shape}, layer(*named, **others))


HOSTILE = {
    "a huge input": one((2**40, 2**40), "ReLU"),
    "a huge result": one((2, 3), "Tile", "tile_param { tiles: 2000000000 }"),
    "huge constants": definition({"x": (1,)}, layer("DummyData", "dummy_data_param { shape { dim: 9999999999 } }", [])),
    "a huge shape": one((2, 3), "Reshape", "reshape_param { shape { dim: 9223372036854775807 } }"),
    "a negative dimension": 'input: "x0" input_dim: -1 input_dim: 3 input_dim: 2 input_dim: 2' + layer("ReLU"),
    "a cycle": one((2, 3), "Eltwise", "", ["x0", "b"], ["a"]) + layer("ReLU", "", ["a"], ["b"]),
    "no layers": 'name: "x" input: "x0"',
    "itself": one((2, 3), "ReLU", "", ["y"], ["y"]),
    "depth": 'name: "x" layer { ' + "a { " * 20000,
    "nothing read": definition({}, layer("ReLU", "", [], ["y"])),
    "no dimensions": one((), "Convolution", "convolution_param { num_output: 1 }"),
    "no kernel": one((1, 1, 2, 2), "Pooling", "pooling_param { pool: AVE }"),
    "kernel 0": one((1, 1, 2, 2), "Pooling", "pooling_param { kernel_size: 0 }"),
    "stride 0": one((1, 1, 2, 2), "Pooling", "pooling_param { kernel_size: 1 stride: 0 }"),
    "huge kernel": one((1, 1, 2, 2), "Pooling", "pooling_param { kernel_size: 4294967295 pad: 4294967294 }"),
    "many levels": one((1, 1, 2, 2), "SPP", "spp_param { pyramid_height: 4000000000 }"),
    "huge window": one((1, 1, 2, 2), "LRN", "lrn_param { local_size: 4294967295 }"),
    "im2col": one((1, 1, 9, 9), "Im2col", "convolution_param { kernel_size: 9999 pad: 9999 }"),
    "axis": one((2, 3), "Softmax", "softmax_param { axis: 7 }"),
    "slices": one((2, 3), "Slice", "slice_param { slice_point: 5 slice_point: 1 }", tops=["a", "b", "c"]),
    "crop": one((2, 3), "Crop", "crop_param { axis: 1 offset: 1 }", ["x0", "x0"]),
    "top_k": one((2, 3), "ArgMax", "argmax_param { top_k: 100000 }"),
    "too few bottoms": one((2, 3), "Eltwise"),
    "too many tops": one((2, 3), "ReLU", tops=["a", "b"]),
    "recurrent": one((2, 3, 4), "LSTM", "recurrent_param { num_output: 99999999 }", ["x0", "x0"]),
}  # fmt: skip
HARMLESS = {"a huge input"}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_definitions(what: str, tmp_path: Path) -> None:
    result = outcome(write(tmp_path, HOSTILE[what]))
    assert result == "refused" or what in HARMLESS


def test_a_binary_that_only_begins_well(tmp_path: Path) -> None:
    for content in (
        b"\x0a\x03net",
        b"\x0a\x03net\xa2\x06\xff\xff\xff\xff\x0f",
        b"\x1a\x01x",
    ):
        path = tmp_path / "net.caffemodel"
        path.write_bytes(content)
        with pytest.raises((FormatError, ModelError)):
            read(path, "caffe")
