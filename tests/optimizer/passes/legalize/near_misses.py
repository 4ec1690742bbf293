"""Graphs that come close to what legalization changes, and must stay as they are; see test_negative.py."""

from __future__ import annotations


def _chain(*lines: str, params: str = "%x: f32[4]", result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


CASES: dict[str, list[tuple[str, str]]] = {
    "legalize_dilated_pool": [
        # 4,294,967,296 elements with the rows that are put below.
        ("more elements than", _chain(
            "%y: f32[1,1,65533,65536] = MaxPool(%x) {kernel=(2, 1), strides=(1, 1), pads=(0, 0, 0, 0), "
            "dilations=(2, 1)}",
            params="%x: f32[1,1,65535,65536]")),
    ],
    "legalize_index": [
        ("how many axes", _chain("%y: f32[*] = GatherND(%x, %i)", params="%x: f32[4,3], %i: i32[2,N]")),
    ],
    "legalize_reduction": [
        ("no sums of that type", _chain("%y: f64[1] = ReduceL1(%x)", params="%x: f64[4]")),
    ],
    "legalize_arg": [
        # Where the last axis goes back is not known.
        ("rank is not known", _chain("%y: i64[*] = ArgMax(%x) {axis=-1}", params="%x: f32[*]")),
    ],
    "legalize_comparison": [
        # An expansion of what may have more axes is not known to have the shape that the file tells.
        ("or of an operand", _chain("%y: bool[3,4] = Less(%x, %z)", params="%x: f32[*], %z: f32[1,4]")),
        ("or of an operand", _chain("%y: bool[3,4] = Less(%x, %z)", params="%x: f32[3,1], %z: f32[*]")),
    ],
    "legalize_where": [
        ("does not have the type", _chain("%y: i64[3,4] = Where(%c, %x, %z)",
                                          params="%c: bool[3,1], %x: i64[3,1], %z: i64[3,4]")),
        ("or of an operand", _chain("%y: f32[3,4] = Where(%c, %x, %z)",
                                    params="%c: bool[3,1], %x: f32[*], %z: f32[4]")),
        ("or of an operand", _chain("%y: f32[3,4] = Where(%c, %x, %z)",
                                    params="%c: bool[*], %x: f32[3,4], %z: f32[4]")),
    ],
    "legalize_lp_pool": [
        # The mean of a window that stands out is over other elements than those it counts.
        ("stand out", _chain("%y: f32[1,1,2,2] = LpPool(%x) {kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), "
                             "dilations=(1, 1), ceil_mode=True}", params="%x: f32[1,1,3,3]")),
    ],
    "legalize_groups": [
        ("pads automatically", _chain("%y: f32[1,4,3,3] = Conv(%x, %w) {strides=(1, 1), pads=(0, 0, 0, 0), "
                                      'dilations=(1, 1), group=2, auto_pad="SAME_UPPER"}',
                                      params="%x: f32[1,2,3,3], %w: f32[4,1,2,2]")),
    ],
    "legalize_instance_norm": [
        ("rank is not known", _chain("%y: f32[*] = InstanceNorm(%x, f32[2](1.0, 2.0), f32[2](3.0, 4.0))",
                                     params="%x: f32[*]")),
    ],
    "legalize_group_norm": [
        ("rank is not known", _chain("%y: f32[*] = GroupNorm(%x, f32[4](1.0, 2.0, 3.0, 4.0), "
                                     "f32[4](1.0, 2.0, 3.0, 4.0)) {num_groups=2}", params="%x: f32[*]")),
        # The format does not have the type either, but nothing stands behind the normalization that could go.
        ("neither scale nor bias", _chain("%y: f64[1,4,5] = GroupNorm(%x) {num_groups=2}", params="%x: f64[1,4,5]")),
    ],
    "legalize_resize": [
        # The sizes are numbers, but what they are of is not.
        ("computed, or something is empty", _chain(
            '%y: f32[1,1,4,4] = Resize(%x, _, _, i64[4](1, 1, 4, 4)) {mode="linear", exclude_outside=True}',
            params="%x: f32[1,1,N,2]")),
    ],
    "legalize_expand": [
        ("more axes", _chain("%y: f32[1,2,?] = Expand(%x, %s)", params="%x: f32[1,2,1], %s: i32[2]")),
    ],
}  # fmt: skip
