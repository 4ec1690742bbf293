"""Inputs and outputs of a file in channel blocks (NC4HW4): layout conversions at the border are left out."""

from __future__ import annotations

from typing import Any

from minnow.schema.mnn.form import FileForm, Net

_BLOCKED = "NC4HW4"
_RANK = 4


def block_border(net: Net, form: FileForm) -> None:
    """Lets inputs that a conversion to channel blocks reads, and outputs that one from there gives, be in blocks."""
    table: list[Net] = net["oplists"]
    renamed: dict[int, int] = {}
    for op in [op for op in table if op.get("type") == "Input"]:
        _block_input(table, op, renamed)
    _rename(table, renamed)
    for name in net["outputName"]:
        _block_output(table, net["tensorName"].index(name))


def _converts(op: Net, dest: str) -> bool:
    if op.get("type") != "ConvertTensor":
        return False
    main = op.get("main", {})
    return bool(main.get("dest", "NCHW") == dest and main.get("source", "NCHW") in ("NCHW", _BLOCKED))


def _block_input(table: list[Net], op: Net, renamed: dict[int, int]) -> None:
    main = op["main"]
    if len(main.get("dims", ())) != _RANK or main.get("dtype", "DT_FLOAT") != "DT_FLOAT":
        return
    index = op["outputIndexes"][0]
    readers = [o for o in table if index in o.get("inputIndexes", ())]
    conversions = [o for o in readers if _converts(o, _BLOCKED)]
    # Readers of the plain layout would need a conversion of their own: then nothing is gained.
    if not readers or len(conversions) != len(readers):
        return
    main["dformat"] = _BLOCKED
    for conversion in conversions:
        renamed[conversion["outputIndexes"][0]] = index
        table.remove(conversion)


def _block_output(table: list[Net], index: int) -> None:
    made = next((o for o in table if index in o.get("outputIndexes", ())), None)
    if made is None or not _converts(made, "NCHW") or any(index in o.get("inputIndexes", ()) for o in table):
        return
    source = made["inputIndexes"][0]
    producer: Any = next((o for o in table if source in o.get("outputIndexes", ())), None)
    if producer is None or producer.get("type") == "Input":
        return
    table.remove(made)
    producer["outputIndexes"] = [index if i == source else i for i in producer["outputIndexes"]]
    _rename(table, {source: index})


def _rename(table: list[Net], renamed: dict[int, int]) -> None:
    for op in table:
        if "inputIndexes" in op:
            op["inputIndexes"] = [renamed.get(i, i) for i in op["inputIndexes"]]
