"""Cooperative matrices in SPIR-V: from the extension of NVIDIA, which glslc of Debian 12 knows, to that of Khronos.

The instructions of SPV_NV_cooperative_matrix and SPV_KHR_cooperative_matrix do the same. A type of the latter says also
whether its matrices are left or right factors or sums: that follows from the multiplications here, so that the types
must differ, as they do where the numbers of rows and columns are specialization constants of their own.
"""

from __future__ import annotations

import array

HEADER = 5  # words before the first instruction
EXTENSION, CAPABILITY, TYPE_INT, CONSTANT = 10, 17, 21, 43
NV_CAPABILITY, NV_TYPE, NV_LOAD, NV_STORE, NV_MULTIPLY, NV_LENGTH = 5357, 5358, 5359, 5360, 5361, 5362
KHR_CAPABILITY, KHR_TYPE, KHR_LOAD, KHR_STORE, KHR_MULTIPLY, KHR_LENGTH = 6022, 4456, 4457, 4458, 4459, 4460
LEFT, RIGHT, SUM = 0, 1, 2
ROW_MAJOR, COLUMN_MAJOR = 0, 1
TRUE = 41


def string(text: str) -> list[int]:
    data = text.encode() + b"\0"
    return list(array.array("I", data + b"\0" * (-len(data) % 4)))


def with_khr_matrices(code: bytes) -> bytes:
    """The module with the instructions of the Khronos extension. Raises ValueError where it is none that this can do:
    a type with two uses, or a layout that is no constant."""
    words = list(array.array("I", code))
    instructions = []
    at = HEADER
    while at < len(words):
        length = words[at] >> 16
        instructions.append((words[at] & 0xFFFF, words[at + 1 : at + length]))
        at += length
    bound = words[3]

    # The type of each result, the use of each type, and the values of what may say how a matrix lies.
    matrices = {w[0] for op, w in instructions if op == NV_TYPE}
    type_of = {w[1]: w[0] for op, w in instructions if len(w) > 1 and w[0] in matrices}
    uses: dict[int, int] = {}
    for op, w in instructions:
        if op == NV_MULTIPLY:
            for value, use in zip(w[2:5], (LEFT, RIGHT, SUM), strict=True):
                if uses.setdefault(type_of[value], use) != use:
                    raise ValueError("cooperative matrices of one type are used as different factors")
    is_true = {w[1]: op == TRUE for op, w in instructions if op in (TRUE, TRUE + 1)}

    # Constants for the uses and the layouts: of a type uint that comes before the types of matrices.
    uint = next(w[0] for op, w in instructions if op == TYPE_INT and w[1:] == [32, 0])
    numbers = {value: bound + value for value in (0, 1, 2)}

    out: list[int] = []

    def add(op: int, operands: list[int]) -> None:
        out.append((len(operands) + 1) << 16 | op)
        out.extend(operands)

    for op, w in instructions:
        if op == CAPABILITY and w == [NV_CAPABILITY]:
            add(CAPABILITY, [KHR_CAPABILITY])
        elif op == EXTENSION and w == string("SPV_NV_cooperative_matrix"):
            add(EXTENSION, string("SPV_KHR_cooperative_matrix"))
        elif op == TYPE_INT and w[0] == uint:
            add(op, w)
            for value, name in numbers.items():
                add(CONSTANT, [uint, name, value])
        elif op == NV_TYPE:
            if w[0] not in uses:
                raise ValueError("a type of cooperative matrices that nothing multiplies")
            add(KHR_TYPE, [*w, numbers[uses[w[0]]]])
        elif op in (NV_LOAD, NV_STORE):
            head, stride, by_columns, access = split(op, w)
            if by_columns not in is_true:
                raise ValueError("whether a cooperative matrix lies by columns is no constant")
            layout = numbers[COLUMN_MAJOR if is_true[by_columns] else ROW_MAJOR]
            add(KHR_LOAD if op == NV_LOAD else KHR_STORE, [*head, layout, stride, *access])
        elif op == NV_MULTIPLY:
            add(KHR_MULTIPLY, w)
        elif op == NV_LENGTH:
            add(KHR_LENGTH, w)
        else:
            add(op, w)
    header = words[:HEADER]
    header[3] = bound + len(numbers)
    return array.array("I", header + out).tobytes()


def split(op: int, w: list[int]) -> tuple[list[int], int, int, list[int]]:
    """Of a load or a store: what comes first, the stride, whether by columns, and the memory operands."""
    n = 3 if op == NV_LOAD else 2  # type, result and pointer; pointer and object
    return w[:n], w[n], w[n + 1], w[n + 2 :]
