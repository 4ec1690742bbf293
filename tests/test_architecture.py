"""The walls of the house: who may import whom, and what a file may be. Reads the sources, runs none of them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"schema": "minnow.schema", "converter": "minnow.converter", "optimizer": "minnow.optimizer"}
FOLDERS |= {"runtime": "minnow.runtime", "workflow": "minnow.workflow", "report": "minnow.report", "minnow": "minnow"}

# Module prefix -> the prefixes it may import besides itself and the standard library. The longest prefix counts.
ALLOWED: dict[str, set[str]] = {
    "minnow.schema": set(),
    "minnow.schema.errors": set(),
    "minnow.schema.limit": {"minnow.schema.errors"},
    "minnow.schema.ir": {"minnow.schema.errors", "minnow.schema.limit", "numpy", "ml_dtypes", "networkx"},
    "minnow.schema.registry": {"minnow.schema.errors", "minnow.schema.limit", "minnow.schema.ir", "numpy", "ml_dtypes"},
    "minnow.schema.ops": {
        *("minnow.schema.errors", "minnow.schema.limit", "minnow.schema.ir", "minnow.schema.registry"),
        *("numpy", "ml_dtypes"),
    },
    "minnow.schema.mnn": {
        *("minnow.schema.collector", "minnow.schema.errors", "minnow.schema.limit"),
        *("minnow.schema.ir", "minnow.schema.registry", "minnow.schema.ops"),
        *("numpy", "ml_dtypes", "flatbuffers"),
    },
    "minnow.options": {"minnow.schema.errors"},
    "minnow.options.text": {"minnow.schema.errors", "minnow.options", "minnow.converter"},
    "minnow.optimizer": {"minnow.schema", "numpy", "ml_dtypes", "networkx"},
    "minnow.converter": {"minnow.schema", "numpy", "ml_dtypes"},
    "minnow.converter.file.message": {"google.protobuf"},
    "minnow.converter.onnx": {"minnow.schema", "minnow.converter", "numpy", "ml_dtypes", "onnx", "google.protobuf"},
    "minnow.converter.tflite": {"minnow.schema", "minnow.converter", "numpy", "ml_dtypes", "flatbuffers", "tflite"},
    "minnow.converter.tensorflow": {"minnow.schema", "minnow.converter", "numpy", "google.protobuf"},
    "minnow.converter.tensorflow.file.keras_child": {"minnow.converter", "h5py", "keras", "tensorflow"},
    "minnow.converter.caffe": {"minnow.schema", "minnow.converter", "numpy", "google.protobuf"},
    "minnow.converter.torch": {"minnow.schema", "minnow.converter", "numpy", "ml_dtypes", "torch"},
    "minnow.runtime": {"minnow.options", "minnow.schema.errors", "minnow.schema.mnn", "numpy", "ml_dtypes"},
    "minnow.runtime.verify": {
        *("minnow.options", "minnow.schema", "minnow.converter", "minnow.runtime"),
        *("numpy", "ml_dtypes", "onnx", "onnxruntime", "ai_edge_litert", "flatbuffers", "tensorflow", "cv2", "torch"),
    },
    "minnow.runtime.benchmark": {
        "minnow.options",
        "minnow.runtime",
        "minnow.schema.errors",
        "minnow.schema.extra",
        "numpy",
        "onnxruntime",
        "MNN",
        "ncnn",
        "openvino",
        "ai_edge_litert",
    },
    "minnow.workflow": {"minnow", "numpy", "distributed", "fsspec", "tomli"},
    "minnow.workflow.warm": {"minnow", "numpy", "onnx"},
    "minnow.workflow.cell": set(),
    "minnow.workflow.metric": set(),
    "minnow.workflow.rule": {"minnow.schema.errors", "minnow.workflow.metric"},
    "minnow.workflow.record": set(),
    "minnow.workflow.result": {
        *("minnow.schema.errors", "minnow.workflow.cell", "minnow.workflow.record", "minnow.workflow.rule"),
    },
    "minnow.report": {
        *("minnow.schema", "minnow.optimizer", "minnow.runtime", "minnow.output", "minnow.workflow.cell"),
        *("minnow.workflow.metric", "minnow.workflow.rule", "minnow.workflow.result", "minnow.workflow.compare"),
        *("numpy", "ml_dtypes"),
    },
    "minnow.llm.tokenizer": {"minnow", "numpy", "regex", "tokenizers"},
    "minnow.llm.template": {"minnow", "jinja2"},
    "minnow.llm.grammar": {"minnow", "numpy", "llguidance"},
    "minnow.llm.image": {"minnow", "numpy", "PIL"},
    "minnow.cv.codec": {"minnow", "numpy", "PIL"},
    "minnow.llm.server": {"minnow", "numpy", "starlette", "uvicorn", "prometheus_client"},
    "minnow": {"minnow", "numpy", "ml_dtypes", "click", "rich", "onnxruntime", "onnx", "torch"},
}

# The one step back: the benchmark times Minnow as a user calls it, beside its peers.
EXCEPTIONS = {("minnow.runtime.benchmark.contestant", "minnow")}

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
LONGEST_FILE = 600


@dataclass(frozen=True)
class Import:
    path: Path
    line: int
    module: str  # that imports
    target: str  # that is imported

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.module} imports {self.target}"


def python_files() -> Iterator[tuple[str, Path]]:
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")]), path


MODULES = {module for module, _ in python_files()}


def imports(module: str, path: Path) -> Iterator[Import]:
    """Every import of the file, wherever it stands; `from a import b` is an import of a.b where that is a module."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            base = ".".join(filter(None, [parent if node.level else "", node.module]))
            below = [f"{base}.{alias.name}" for alias in node.names]
            targets = [name if name in MODULES else base for name in below]
        else:
            continue
        yield from (Import(path, node.lineno, module, target) for target in targets)


def is_within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def is_allowed(edge: Import) -> bool:
    if edge.target.partition(".")[0] in sys.stdlib_module_names or (edge.module, edge.target) in EXCEPTIONS:
        return True
    home = max((prefix for prefix in ALLOWED if is_within(edge.module, prefix)), key=len)
    return any(is_within(edge.target, prefix) for prefix in {home, *ALLOWED[home]})


def test_imports_keep_to_the_walls() -> None:
    found = [edge for module, path in python_files() for edge in imports(module, path)]
    assert len(found) > 20, "the walk has found almost nothing: have the folders moved?"
    forbidden = [str(edge) for edge in found if not is_allowed(edge)]
    assert not forbidden, "\n".join(["not allowed by the architecture:", *forbidden])


@pytest.mark.parametrize(
    ("module", "source", "target"),
    [
        ("minnow.schema.ir.graph", "from minnow.schema.ops import op", "minnow.schema.ops"),
        ("minnow.schema.ir.graph", "from minnow.schema.registry.op import get", "minnow.schema.registry"),
        ("minnow.schema.registry.symbolic", "from minnow.schema.ops.shape import Shape", "minnow.schema.ops"),
        ("minnow.schema.errors", "import numpy as np", "numpy"),
        ("minnow.optimizer.layout.assign", "def f():\n    from minnow.converter import onnx", "minnow.converter"),
        ("minnow.converter.onnx.conv", "import minnow.optimizer.pipeline", "minnow.optimizer.pipeline"),
        ("minnow.converter.onnx.conv", "from ...runtime import session", "minnow.runtime"),
        ("minnow.runtime.session", "from minnow.schema.ops import registry", "minnow.schema.ops"),
        ("minnow.schema.ops.conv", "import torch", "torch"),
    ],
)
def test_the_walk_sees_a_breach(module: str, source: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "breach.py"
    path.write_text(source)
    (edge,) = imports(module, path)
    assert is_within(edge.target, target)
    assert not is_allowed(edge)


# --- C++ -------------------------------------------------------------------------------------------------------------

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def cpp_files(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in {".cpp", ".h", ".inc", ".cu"})


def test_kernels_know_neither_the_engine_nor_the_file_format() -> None:
    files = cpp_files("kernels")
    assert files
    breaches = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in files
        for name in INCLUDE.findall(path.read_text())
        if re.match(r"(\.\./|runtime/|minnow/|flatbuffers/|nanobind/)|mnn_generated", name)
    ]
    assert not breaches, "\n".join(breaches)


def test_the_core_of_the_kernels_knows_no_device() -> None:
    """Tensors, attributes and the op table are the same for all devices."""
    files = cpp_files("kernels/core")
    assert files
    breaches = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in files
        for name in INCLUDE.findall(path.read_text())
        if name.startswith("kernels/") and not name.startswith("kernels/core/")
    ]
    assert not breaches, "\n".join(breaches)


def test_the_engine_knows_devices_through_their_backends() -> None:
    """The CPU's kernels are known to the CPU's backend alone, GPUs' to theirs. Image processing is no device."""
    files = cpp_files("runtime")
    assert files
    known = {
        ROOT / "runtime/src/backend": r"kernels/",
        ROOT / "runtime/src/gpu": r"kernels/(core|gpu|cuda|opencl|vulkan)/",
    }
    breaches = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in files
        for name in INCLUDE.findall(path.read_text())
        if name.startswith("kernels/") and not re.match(known.get(path.parent, r"kernels/(core|vision)/"), name)
    ]
    assert not breaches, "\n".join(breaches)


def test_the_c_api_stands_alone() -> None:
    """An embedder needs the headers of runtime/include and a C compiler, nothing else."""
    files = cpp_files("runtime/include")
    assert files
    for path in files:
        names = INCLUDE.findall(path.read_text())
        assert all(re.fullmatch(r"minnow/\w+\.h|std\w+\.h", name) for name in names), (path, names)


# --- files -----------------------------------------------------------------------------------------------------------


def source_files() -> list[Path]:
    folders = [*FOLDERS, "kernels", "tests", "examples", "bench"]
    suffixes = {".py", ".cpp", ".h", ".inc", ".cu"}
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)


def test_a_file_fits_in_the_head() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in source_files()}
    too_long = {str(path): lines for path, lines in lengths.items() if lines > LONGEST_FILE}
    assert not too_long, f"more than {LONGEST_FILE} lines, split by meaning: {too_long}"


def test_names_say_what_is_inside() -> None:
    vague = [str(path.relative_to(ROOT)) for path in source_files() if FORBIDDEN_NAMES & {path.stem, path.parent.name}]
    assert not vague, f"a name should say what is inside: {vague}"
