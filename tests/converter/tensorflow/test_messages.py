"""The messages that we read TensorFlow's files with: they are the format's, and the build installs them."""

import importlib
import shutil
import subprocess
from pathlib import Path

import pytest

from minnow.converter.file.message import load
from minnow.converter.tensorflow import message

ROOT = Path(__file__).parents[3]
PLACES = [
    "core.framework.graph_pb2",
    "core.framework.op_def_pb2",
    "core.framework.variable_pb2",
    "core.protobuf.saved_model_pb2",
    "core.protobuf.tensor_bundle_pb2",
    "core.protobuf.trackable_object_graph_pb2",
]


def described(descriptor, found):
    """All messages that are reached from one, by name."""
    if descriptor.full_name not in found:
        found[descriptor.full_name] = descriptor
        for field in descriptor.fields:
            if field.message_type:
                described(field.message_type, found)
    return found


def test_fields_are_the_formats():
    tensorflow = pytest.importorskip("tensorflow")
    theirs = {}
    for place in PLACES:
        file = importlib.import_module(f"{tensorflow.__name__}.{place}").DESCRIPTOR
        for descriptor in file.message_types_by_name.values():
            described(descriptor, theirs)
    ours = {}
    for root in ("SavedModel", "TrackableObjectGraph", "BundleHeaderProto", "BundleEntryProto", "VariableDef"):
        described(getattr(message, root).DESCRIPTOR, ours)
    assert len(ours) > 30
    for name, descriptor in ours.items():
        original = theirs[name.removeprefix("minnow.")]
        for field in descriptor.fields:
            known = original.fields_by_number[field.number]
            assert (field.name, field.type, field.is_repeated) == (known.name, known.type, known.is_repeated), name
            if field.enum_type:
                numbers = {v.name: v.number for v in known.enum_type.values}
                assert all(numbers[v.name] == v.number for v in field.enum_type.values)


@pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("protoc")), reason="needs cmake and protoc")
def test_the_build_installs_them(tmp_path):
    """The rules of the wheel, without the engine: what they install holds the messages that are in use here."""
    source, build, root = tmp_path / "source", tmp_path / "build", tmp_path / "root"
    for file in ("tensorflow/graph.proto", "caffe/caffe.proto"):
        (source / "converter" / file).parent.mkdir(parents=True)
        shutil.copy(ROOT / "converter" / file, source / "converter" / file)
    find = "find_program(MINNOW_PROTOC protoc REQUIRED)\n"
    project = "cmake_minimum_required(VERSION 3.22)\nproject(messages LANGUAGES NONE)\n"
    (source / "CMakeLists.txt").write_text(f'{project}{find}include("{ROOT}/cmake/messages.cmake")\n')
    for command in (
        ["cmake", "-S", source, "-B", build],
        ["cmake", "--build", build],
        ["cmake", "--install", build, "--component", "python", "--prefix", root],
    ):
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
    known = {}
    for made in ("tensorflow/graph_descriptor.py", "caffe/caffe_descriptor.py"):
        values: dict = {}
        exec((root / "minnow/converter" / made).read_text(), values)
        known[made.partition("/")[0]] = load(values["FILES"], f"minnow.{made.partition('/')[0]}")
    layer = known["caffe"]("LayerParameter")
    assert layer.FromString(layer(name="conv1", type="Convolution").SerializeToString()).type == "Convolution"
    graph = known["tensorflow"]("GraphDef")
    text = graph(node=[{"name": "x", "op": "Placeholder"}]).SerializeToString()
    assert message.GraphDef.FromString(text).node[0].op == "Placeholder"
