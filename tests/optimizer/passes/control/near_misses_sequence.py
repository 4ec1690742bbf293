"""Graphs that come close to sequences whose tensors are known, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain


def _sequence(*lines: str, params: str = "%x: f32[4], %z: f32[5]") -> str:
    """Lines that read the sequence %s of %x and %z, and a position %i."""
    return chain("%s: sequence(?) = SequenceConstruct(%x, %z)", *lines, params=f"{params}, %i: i64[]")


def _split(*lines: str, params: str = "%x: f32[3,2]") -> str:
    """Lines that read the sequence %s of the rows of %x."""
    return chain("%s: sequence(f32[*]) = SplitToSequence(%x) {keepdims=False}", *lines, params=params)


CASES: dict[str, list[tuple[str, str]]] = {
    "take_known_element": [
        ("not known", _sequence("%y: f32[?] = SequenceAt(%s, %i) {dtype=f32}")),
        ("out of range", _sequence("%y: f32[?] = SequenceAt(%s, i64[](2)) {dtype=f32}")),
        ("shapes differ", _sequence("%y: f32[7] = SequenceAt(%s, i64[](0)) {dtype=f32, shape=(7,)}",
                                    params="%x: f32[4], %z: f32[7]")),
    ],
    "count_known_elements": [
        ("expected SequenceConstruct", chain("%y: i64[] = SequenceLength(%x)", params="%x: sequence(f32[4])")),
    ],
    "insert_known_element": [
        ("not known", _sequence("%y: sequence(f32[?]) = SequenceInsert(%s, %x, %i)")),
        ("out of range", _sequence("%y: sequence(f32[?]) = SequenceInsert(%s, %x, i64[](3))")),
    ],
    "erase_known_element": [
        ("not known", _sequence("%y: sequence(f32[?]) = SequenceErase(%s, %i)")),
        ("out of range", _sequence("%y: sequence(f32[?]) = SequenceErase(%s, i64[](-3))")),
        ("out of range", chain("%s: sequence(f32[*]) = SequenceConstruct()",
                                "%y: sequence(f32[*]) = SequenceErase(%s)")),
    ],
    "concat_known_elements": [
        ("is empty", chain("%s: sequence(f32[*]) = SequenceConstruct()",
                            "%y: f32[*] = ConcatFromSequence(%s) {axis=0, dtype=f32}")),
        ("rank is not known", _sequence("%y: f32[*] = ConcatFromSequence(%s) {axis=0, dtype=f32}",
                                        params="%x: f32[4], %z: f32[*]")),
        ("differ", _sequence("%y: f32[?,?] = ConcatFromSequence(%s) {axis=0, dtype=f32}",
                             params="%x: f32[4,2], %z: f32[4,3]")),
    ],
    "split_known_dimension": [
        ("not known", _split("%y: f32[2] = SequenceAt(%s, i64[](0)) {dtype=f32, shape=(2,)}", params="%x: f32[N,2]")),
        ("wanted", _split("%y: f32[2] = SequenceAt(%s, %i) {dtype=f32, shape=(2,)}",
                          params="%x: f32[3,2], %i: i64[]")),
        ("out of range", _split("%y: f32[2] = SequenceAt(%s, i64[](3)) {dtype=f32, shape=(2,)}")),
        ("too many", _split("%y: i64[] = SequenceLength(%s)", params="%x: f32[1000,2]")),
        ("none", _split("%y: i64[] = SequenceLength(%s)", params="%x: f32[0,2]")),
    ],
    "take_slice": [
        ("has 2 inputs", chain("%s: sequence(f32[2,2]) = SplitToSequence(%x, i64[](2))",
                                "%y: f32[2,2] = SequenceAt(%s, i64[](0)) {dtype=f32}", params="%x: f32[4,2]")),
        ("rank is not known", _split("%y: f32[*] = SequenceAt(%s, i64[](0)) {dtype=f32}", params="%x: f32[*]")),
    ],
    "count_slices": [
        ("has 2 inputs", chain("%s: sequence(f32[2,2]) = SplitToSequence(%x, i64[](2))",
                                "%y: i64[] = SequenceLength(%s)", params="%x: f32[4,2]")),
        ("rank is not known", _split("%y: i64[] = SequenceLength(%s)", params="%x: f32[*]")),
    ],
    "join_what_was_split": [
        ("axes differ", _split("%y: f32[2,3] = ConcatFromSequence(%s) {axis=1, new_axis=True, dtype=f32}")),
        ("is not kept", _split("%y: f32[6] = ConcatFromSequence(%s) {axis=0, dtype=f32}")),
        ("not known whether", _split("%y: f32[N,2] = ConcatFromSequence(%s) {axis=0, new_axis=True, dtype=f32}",
                                     params="%x: f32[N,2]")),
    ],
}  # fmt: skip
