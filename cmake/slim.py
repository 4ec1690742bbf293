"""Builds a libminnow.so that can run the given models and little else: `./dev slim MODEL.mnn ...`.

The build keeps the rows of ops, kernels, lowerings and decoders that a list names (MINNOW_OPS, see slim.cmake).

The engine that is installed beside this Python says which ops a model has, and which its plans have at the model's own
shapes (1 for dynamic dimensions). What a lowering makes of an op depends on types and shapes, so that everything it can
make is kept: the ops that its source names.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import minnow
from minnow.runtime import _engine
from minnow.schema.errors import MinnowError
from minnow.schema.mnn import wire

ROOT = Path(__file__).parents[1]
DEPTHWISE = {f"depthwise {kernel}/{stride}" for kernel in (3, 5) for stride in (1, 2)}
PARTS = {"packed weights", "sparse products", "growing states"}  # of the engine, which no op names
DYNAMIC = (1, 3, 16)  # sizes of dynamic dimensions to plan for: fusions depend on shapes
# From one name at the margin to the next; rows are no functions.
_FUNCTION = re.compile(r"^(?!MINNOW_)[A-Za-z].*?\b(\w+)\((?:.*\n)(?:(?![A-Za-z]).*\n)*", re.MULTILINE)
_LOWERING = re.compile(r'^MINNOW_LOWERING\("([^"]+)", (.*)\);', re.MULTILINE)


def lowerings() -> dict[str, set[str]]:
    """What the lowering of each name may make: names of ops, and of other lowerings."""
    made: dict[str, set[str]] = {}
    for path in sorted((ROOT / "runtime/src/lower").glob("*.cpp")):
        text = path.read_text(encoding="utf-8")
        functions: dict[str, str] = {}
        for match in _FUNCTION.finditer(text):
            functions[match[1]] = functions.get(match[1], "") + match[0]
        for name, start in _LOWERING.findall(text):
            reached, todo = set(), [start]
            while todo:
                body = todo.pop()
                made.setdefault(name, set()).update(re.findall(r'"([\w.]+)"', body))
                called = set(re.findall(r"\b\w+\b", body)) & set(functions) - reached
                reached |= called
                todo += [functions[function] for function in called]
    return made


def needed_beside() -> dict[str, set[str]]:
    """The ops that the kernel of an op looks up itself, by files of kernels."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "kernels/cpu").rglob("*.cpp"):
        text = path.read_text(encoding="utf-8")
        looked_up = set(re.findall(r'find_op\("(\w+)"\)', text))
        for op in re.findall(r'MINNOW_KERNEL\("(\w+)"', text) if looked_up else ():
            found[op] = looked_up
    return found


def planned(session: minnow.Session, size: int) -> set[str]:
    """The rows that a plan needs: its ops, with what fusions have made, and what leaves out zeros."""
    feeds = {}
    for info in session.inputs:
        shape = [d if isinstance(d, int) else size for d in info.shape or ()]
        feeds[info.name] = np.zeros(shape, info.dtype)
    steps = session.profile(feeds, 1)
    sparse = {"sparse products" for step in steps if "sparse" in step["scheme"]}
    return {step["op"] for step in steps} | sparse


def file_rows(path: Path) -> Iterator[str]:
    """The rows that the ops of a file need: decoders, loops for sizes of depthwise convolutions, and packed weights."""
    net = wire.read(path.read_bytes())
    subgraphs = net.get("subgraphs") or []
    own = net.get("extraInfo", {}).get("minnow")  # the engine reads this one of two graphs
    main = net if own is None else own
    if any(row.get("quantInfo") for part in (main, *subgraphs) for row in part.get("extraTensorDescribe") or []):
        yield "decode 8-bit tensors"
    lists = [main.get("oplists") or main.get("nodes") or [], *(sub.get("nodes") or [] for sub in subgraphs)]
    for op in (op for ops in lists for op in ops):
        name = str(op.get("type", wire.default("Op", "type")))
        yield f"decode {name}"
        if (op.get("main") or {}).get("quanParameter"):
            yield "packed weights"
        if name in ("ConvolutionDepthwise", "Extra"):  # an Extra may be a convolution of any kind
            common = (op.get("main") or {}).get("common") or {}
            stride = common.get("strideX", wire.default("Convolution2DCommon", "strideX"))
            yield from {f"depthwise {common['kernelX']}/{stride}"} if "kernelX" in common else DEPTHWISE


def rows_of(path: Path) -> Iterator[str]:
    """The rows that one model needs."""
    yield from file_rows(path)
    for op, inner, spatial in _engine.load_file(str(path)).node_ops():
        yield op
        yield inner
        # Forms that the engine chooses by types: see other_form_of() in runtime/src/lower/volume.cpp.
        if spatial == 3:
            yield f"mnn.{op}Volume"
        if op == "ConvTranspose":
            yield "mnn.ConvTransposeGroups"
        if op in ("LpPool", "GlobalLpPool"):
            yield f"mnn.{op}"
    session = minnow.load(path)
    if any(not isinstance(d, int) for state in session.state_infos for d in state.shape or ()):
        yield "growing states"
    is_dynamic = any(not isinstance(d, int) for info in session.inputs for d in info.shape or ("?",))
    for size in DYNAMIC if is_dynamic else DYNAMIC[:1]:
        try:
            yield from planned(session, size)
        except MinnowError as error:
            print(f"{path}: no fusions for dynamic dimensions of {size}: {error}", file=sys.stderr)


def rows(paths: list[Path]) -> list[str]:
    """The rows that the models need together, sorted."""
    made, beside = lowerings(), needed_beside()
    known = set(_engine.op_traits()) | set(made) | {"If", "Loop"} | DEPTHWISE | PARTS
    kept: set[str] = set()
    todo = {row for path in paths for row in rows_of(path)}
    while todo:
        row = todo.pop()
        if row in kept or not (row in known or row.startswith("decode ")):
            continue  # an attribute in the source of a lowering, or the name of a step that is no op
        kept.add(row)
        todo |= made.get(row, set()) | beside.get(row, set())
    return sorted(kept)


def build(folder: Path, settings: list[str], kept: list[str]) -> Path:
    """The library, built in this folder. A list that has not changed is left alone, so that nothing is built again."""
    rows_file = folder / "rows.txt"
    text = "".join(f"{row}\n" for row in kept)
    folder.mkdir(parents=True, exist_ok=True)
    if not rows_file.exists() or rows_file.read_text(encoding="utf-8") != text:
        rows_file.write_text(text, encoding="utf-8")
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=MinSizeRel"]
    subprocess.run([*configure, f"-DMINNOW_OPS={rows_file}", *settings], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder), "--target", "minnow"], check=True)
    return folder / "libminnow.so"


def main() -> None:
    """Builds what the command line asks for."""
    parser = argparse.ArgumentParser(prog="./dev slim", description="Builds a libminnow.so for these models only.")
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.mnn")
    parser.add_argument("--aarch64", action="store_true", help="for 64-bit Arm, with the cross compiler")
    parser.add_argument("--isa", default="", metavar="LIST", help="only these of sse4,avx2,avx512 (x86-64)")
    parser.add_argument("--low", action="store_true", help="with products of bfloat16 and float16, for precision low")
    parser.add_argument("--images", action="store_true", help="with minnow_convert_image")
    parser.add_argument("--folder", type=Path, help="default: build/slim, or build/slim-aarch64")
    arguments = parser.parse_args()
    folder = arguments.folder or ROOT / ("build/slim-aarch64" if arguments.aarch64 else "build/slim")
    settings = [f"-DMINNOW_ISAS={arguments.isa.replace(',', ';')}"]
    if arguments.aarch64:
        settings.append(f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake/aarch64-linux-gnu.cmake'}")
    kept = rows(arguments.models) + ["low precision"] * arguments.low + ["image processing"] * arguments.images
    library = build(folder.resolve(), settings, kept)
    ops = sum(row in set(_engine.op_traits()) for row in kept)
    print(f"{library}: {library.stat().st_size} bytes, {ops} ops, listed in {folder / 'rows.txt'}")


if __name__ == "__main__":
    main()
