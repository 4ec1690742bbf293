"""The declarations and the code of a kernel text: see gpu_texts.py, which describes the language."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

DTYPES = (
    "F32", "F64", "F16", "BF16", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL",
    "F8E4M3FN", "F8E4M3FNUZ", "F8E5M2", "F8E5M2FNUZ", "F8E8M0", "F6E2M3", "F6E3M2", "F4E2M1", "I4", "U4", "I2", "U2",
)  # fmt: skip
"""As DType. Those after BOOL are stored in bytes, and read as U8."""
PUSH_CONSTANTS = 128  # bytes that every Vulkan device has


@dataclasses.dataclass
class Text:
    name: str
    group: int = 64
    constants: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    variables: list[str] = dataclasses.field(default_factory=list)
    buffers: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    parameters: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    shared: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    int64: bool = False
    only_vulkan: bool = False
    coherent: set[str] = dataclasses.field(default_factory=set)
    features: set[str] = dataclasses.field(default_factory=set)
    """Of "vectors", "subgroups" and "matrices"."""
    defines: dict[str, int] = dataclasses.field(default_factory=dict)
    functions: str = ""
    body: str = ""


def read(path: Path) -> Text:
    """The declarations and the code of a text; ends the process with a message where it is none."""
    text = Text(path.stem, only_vulkan=path.parent.parent.name == "vulkan")

    def wrong(line: int, why: str) -> None:
        sys.exit(f"{path}:{line}: {why}")

    lines = path.read_text().splitlines()
    end = lines.index("---") if "---" in lines else wrong(len(lines), "there is no line '---'")
    for number, raw in enumerate(lines[:end], 1):
        words = raw.split("//")[0].split()
        if not words:
            continue
        match words:
            case ["group", size]:
                text.group = int(size)
            case ["constant", name, value]:
                text.constants.append((name, DTYPES.index(value) if value in DTYPES else int(value)))
            case ["variable", name]:
                text.variables.append(name)
            case ["buffer", name, kind]:
                text.buffers.append((name, kind))
            case ["buffer", name, kind, "coherent"] if text.only_vulkan:
                text.buffers.append((name, kind))
                text.coherent.add(name)
            case ["vectors" | "subgroups" | "matrices" as feature] if text.only_vulkan:
                text.features.add(feature)
            case ["parameter", ("int" | "uint" | "float") as kind, name]:
                text.parameters.append((kind, name))
            case ["shared", kind, declared] if m := re.fullmatch(r"(\w+)\[(\w+)\]", declared):
                text.shared.append((kind, m[1], m[2]))
            case ["int64"]:
                text.int64 = True
            case ["define", name, value]:
                text.defines[name] = int(value)
            case ["like", other]:
                text = dataclasses.replace(read(path.parent / f"{other}.gpu"), name=path.stem)
            case ["include", name]:
                beside = path.parent / f"{name}.inc"
                common = path.parents[2] / "gpu" / "text" / f"{name}.inc"
                text.functions += (beside if beside.exists() else common).read_text() + "\n"
            case _:
                wrong(number, f"not understood: {raw}")
    used = 4 * (len(text.buffers) + len(text.parameters))
    if used > PUSH_CONSTANTS:
        wrong(end, f"{len(text.buffers)} buffers and {len(text.parameters)} parameters take {used} bytes, at most 128")
    if text.body:  # another's
        return text
    code = "\n".join(lines[end + 1 :])
    functions, found, body = code.partition("KERNEL\n")
    if not found:
        wrong(end, "there is no line 'KERNEL'")
    text.functions += functions
    text.body = body
    return text
