"""Graphs of TensorFlow that write files when TensorFlow runs them: the comparison with their source does not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")

import minnow  # noqa: E402
from minnow.converter.tensorflow.message import GraphDef  # noqa: E402
from minnow.errors import MinnowError  # noqa: E402
from minnow.runtime.verify import tensorflow_effect, tensorflow_graph  # noqa: E402


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Path]:
    """The file that none of the graphs may write."""
    path = tmp_path / "written"
    yield path
    assert not path.exists()


def waiting_for(effect: Callable[[Any], Any], path: Path) -> Path:
    """A frozen graph whose result waits for a node, and reads nothing of it."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, (2,), name="x")
        with graph.control_dependencies([effect(x)]):
            tf.identity(x * 2.0, name="y")
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def printing(stream: str) -> Callable[[Any], Any]:
    return lambda x: tf.raw_ops.PrintV2(input=tf.constant("text"), output_stream=stream)


def reference_of(path: Path, output: Path) -> str:
    report = minnow.convert(path, output=output)
    assert report.verification is not None
    assert report.verification.passed
    return report.verification.reference


def test_a_print_into_a_file(written: Path, tmp_path: Path) -> None:
    path = waiting_for(printing(f"file://{written}"), tmp_path / "m.pb")
    assert "tensorflow" not in reference_of(path, tmp_path / "m.mnn")


def test_a_print_for_people_is_run(tmp_path: Path) -> None:
    path = waiting_for(printing("stderr"), tmp_path / "m.pb")
    assert "tensorflow" in reference_of(path, tmp_path / "m.mnn")


def test_an_initializer_that_writes(written: Path, tmp_path: Path) -> None:
    from tensorflow.python.trackable.resource import CapturableResource

    place = tmp_path / "elsewhere"

    class Writer(CapturableResource):
        def _create_resource(self) -> Any:
            return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])

        def _initialize(self) -> int:
            tf.raw_ops.WriteFile(filename=tf.constant(str(place)), contents=tf.constant("text"))
            return 1

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((2,), tf.float32)])
        def serve(self, x: Any) -> Any:
            return {"y": x * 2.0}

    model = Model()
    model.resource = Writer()
    tf.saved_model.save(model, str(tmp_path / "saved"))
    place.unlink(missing_ok=True)
    assert "tensorflow" not in reference_of(tmp_path / "saved", tmp_path / "m.mnn")
    assert not place.exists()
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:  # unless somebody looks, it writes: the test tests something
        patch.setattr(tensorflow_graph, "check_saved_model", lambda *_: None)
        assert "tensorflow" in reference_of(tmp_path / "saved", tmp_path / "m.mnn")
    assert place.exists()


@pytest.mark.parametrize("op", ["WriteFile", "SaveV2", "DebugIdentityV2", "PyFunc", "ReadFile", "Nothing"])
def test_what_does_more_than_compute(op: str) -> None:
    graph = GraphDef()
    graph.node.add(name="x", op="Placeholder")
    graph.node.add(name="call", op="PartitionedCall", input=["x"]).attr["f"].func.name = "f"
    graph.node.add(name="y", op="Neg", input=["x", "^call"])
    graph.node.add(name="unread", op=op)
    tensorflow_effect.check_frozen(graph, ["y:0"], "m.pb")
    function = graph.library.function.add()
    function.signature.name = "f"
    function.node_def.add(name="inside", op=op)
    with pytest.raises(MinnowError, match="may have side effects") as e:
        tensorflow_effect.check_frozen(graph, ["y:0"], "m.pb")
    assert f"{op}, at 'inside'" in e.value.why
