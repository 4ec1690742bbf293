"""Graphs that come close to what the rules of movement do; see test_negative.py."""

from __future__ import annotations


def _chain(*lines: str, params: str = "%x: f32[4]", result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


_96 = "%x: f32[9,6]"
_N6 = "%x: f32[N,6]"
_PAIR = "%x: f32[2,3], %y: f32[2,5]"


def _blocks(perm: str, six: str, four: str, params: str = "%x: f32[2,8,4,6]") -> str:
    """A view of six axes, turned, and a view of four."""
    order = [int(i) for i in perm.split(",")]
    turned = ",".join(six.split(",")[i] for i in order)
    return _chain(
        f"%a: f32[{six}] = Reshape(%x, i64[6]({six}))",
        f"%b: f32[{turned}] = Transpose(%a) {{perm=({perm})}}",
        f"%y: f32[{four}] = Reshape(%b, i64[4]({four}))",
        params=params,
    )


CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_slices": [
        ("extent is not known", _chain("%a: f32[?,6] = Slice(%x, i64[1](1), i64[1](8), i64[1](0))",
                                       "%y: f32[?,6] = Slice(%a, i64[1](1), i64[1](7), i64[1](0))", params=_N6)),
        ("computed", _chain("%a: f32[?,6] = Slice(%x, %s, i64[1](8), i64[1](0))",
                            "%y: f32[?,2] = Slice(%a, i64[1](1), i64[1](3), i64[1](1))", params=_96 + ", %s: i64[1]")),
    ],
    "slice_before_concat": [
        ("several parts", _chain("%a: f32[2,8] = Concat(%x, %y) {axis=1}",
                                 "%z: f32[2,3] = Slice(%a, i64[1](1), i64[1](4), i64[1](1))", params=_PAIR,
                                 result="%z")),
        ("does not cut along", _chain("%a: f32[2,8] = Concat(%x, %y) {axis=1}",
                                      "%z: f32[1,8] = Slice(%a, i64[1](0), i64[1](1), i64[1](0))", params=_PAIR,
                                      result="%z")),
        ("extents are not known", _chain("%a: f32[2,?] = Concat(%x, %y) {axis=1}",
                                         "%z: f32[2,?] = Slice(%a, i64[1](0), i64[1](1), i64[1](1))",
                                         params="%x: f32[2,N], %y: f32[2,5]", result="%z")),
        ("or nothing", _chain("%a: f32[2,8] = Concat(%x, %y) {axis=1}",
                              "%z: f32[2,0] = Slice(%a, i64[1](3), i64[1](3), i64[1](1))", params=_PAIR, result="%z")),
    ],
    "join_pieces": [
        ("follow one another", _chain("%a: f32[9,2], %b: f32[9,4] = Split(%x) {axis=1, sizes=(2, 4)}",
                                      "%y: f32[9,6] = Concat(%b, %a) {axis=1}", params=_96)),
        ("follow one another", _chain("%a: f32[9,2], %b: f32[9,2], %c: f32[9,2] = Split(%x) {axis=1, sizes=(2, 2, 2)}",
                                      "%y: f32[9,4] = Concat(%a, %b) {axis=1}", params=_96)),
        ("follow one another", _chain("%a: f32[9,3], %b: f32[9,3] = Split(%x) {axis=1, sizes=(3, 3)}",
                                      "%y: f32[18,3] = Concat(%a, %b) {axis=0}", params=_96)),
        ("follow one another", _chain("%a: f32[9,3] = Slice(%x, i64[1](0), i64[1](3), i64[1](1))",
                                      "%b: f32[9,2] = Slice(%x, i64[1](4), i64[1](6), i64[1](1))",
                                      "%y: f32[9,5] = Concat(%a, %b) {axis=1}", params=_96)),
        ("others read them", _chain("%a: f32[9,2] = Slice(%x, i64[1](0), i64[1](2), i64[1](1))",
                                    "%b: f32[9,2] = Slice(%x, i64[1](2), i64[1](4), i64[1](1))",
                                    "%y: f32[9,4] = Concat(%a, %b) {axis=1}", params=_96, result="%y, %a")),
        ("follow one another", _chain("%a: f32[9,2] = Slice(%x, i64[1](0), i64[1](3), i64[1](1), i64[1](2))",
                                      "%b: f32[9,3] = Slice(%x, i64[1](3), i64[1](6), i64[1](1))",
                                      "%y: f32[9,5] = Concat(%a, %b) {axis=1}", params=_96)),
    ],
    "split_concat": [
        ("other places", _chain("%a: f32[2,8] = Concat(%x, %y) {axis=1}",
                                "%b: f32[2,5], %c: f32[2,3] = Split(%a) {axis=1, sizes=(5, 3)}", params=_PAIR,
                                result="%b, %c")),
        ("another axis", _chain("%a: f32[2,8] = Concat(%x, %y) {axis=1}",
                                "%b: f32[1,8], %c: f32[1,8] = Split(%a) {axis=0, sizes=(1, 1)}", params=_PAIR,
                                result="%b, %c")),
    ],
    "slice_only_part": [
        ("2 parts are used", _chain("%a: f32[9,3], %b: f32[9,3] = Split(%x) {axis=1, sizes=(3, 3)}", params=_96,
                                    result="%a, %b")),
        ("inputs", _chain("%a: f32[9,?], %b: f32[9,?] = Split(%x, %s) {axis=1}", params=_96 + ", %s: i64[2]",
                          result="%b")),
    ],
    "slice_gathered": [
        ("uneven", _chain("%y: f32[9,3] = Gather(%x, i64[3](0, 1, 3)) {axis=1}", params=_96)),
        ("uneven", _chain("%y: f32[9,2] = Gather(%x, i64[2](1, 1)) {axis=1}", params=_96)),
        ("no vector", _chain("%y: f32[9] = Gather(%x, i64[](1)) {axis=1}", params=_96)),
        ("not known", _chain("%y: f32[2,6] = Gather(%x, i64[2](0, 1))", params=_N6)),
    ],
    "slice_gathered_one": [
        ("elsewhere", _chain("%a: f32[9] = Gather(%x, i64[](1)) {axis=1}", "%y: f32[1,9] = Unsqueeze(%a) {axes=(0,)}",
                             params=_96)),
        ("no single", _chain("%a: f32[9,2] = Gather(%x, i64[2](1, 4)) {axis=1}",
                             "%y: f32[9,1,2] = Unsqueeze(%a) {axes=(1,)}", params=_96)),
        ("not known", _chain("%a: f32[6] = Gather(%x, i64[](1))", "%y: f32[1,6] = Unsqueeze(%a) {axes=(0,)}",
                             params=_N6)),
    ],
    "gather_one": [
        ("other axes", _chain("%a: f32[1,1,6] = Slice(%x, i64[1](1), i64[1](2), i64[1](1))",
                              "%y: f32[1,6] = Squeeze(%a) {axes=(0,)}", params="%x: f32[1,9,6]")),
        ("not known", _chain("%a: f32[1,6] = Slice(%x, i64[1](1), i64[1](2), i64[1](0))",
                             "%y: f32[6] = Squeeze(%a) {axes=(0,)}", params=_N6)),
        ("one axis", _chain("%a: f32[1,1] = Slice(%x, i64[2](1, 2), i64[2](2, 3), i64[2](0, 1))",
                            "%y: f32[] = Squeeze(%a) {axes=(0, 1)}", params="%x: f32[4,5]")),
    ],
    "reduce_as_viewed": [
        ("other axes", _chain("%a: f32[9] = ReduceSum(%x) {axes=(1,), keepdims=False}",
                              "%y: f32[1,9] = Unsqueeze(%a) {axes=(0,)}", params=_96)),
        ("other axes", _chain("%a: f32[1,1] = ReduceSum(%x) {axes=(0, 1)}", "%y: f32[1] = Squeeze(%a) {axes=(1,)}",
                              params=_96)),
        ("not known", _chain("%a: f32[1,6] = ReduceSum(%x) {axes=(0,)}", "%y: f32[*] = Squeeze(%a)", params=_96)),
    ],
    "split_without_axis": [
        ("not all readers", _chain("%a: f32[1,6], %b: f32[1,6] = Split(%x) {sizes=(1, 1)}",
                                   "%c: f32[6] = Squeeze(%a) {axes=(0,)}", params="%x: f32[2,6]", result="%b, %c")),
        ("one element", _chain("%a: f32[1,1,6], %b: f32[2,1,6] = Split(%x) {sizes=(1, 2)}",
                               "%c: f32[1,6] = Squeeze(%a) {axes=(0,)}", "%d: f32[2,6] = Squeeze(%b) {axes=(1,)}",
                               params="%x: f32[3,1,6]", result="%c, %d")),
        ("next axis", _chain("%a: f32[2,1], %b: f32[2,1] = Split(%x) {axis=1, sizes=(1, 1)}",
                             "%c: f32[2] = Squeeze(%a) {axes=(1,)}", "%d: f32[2] = Squeeze(%b) {axes=(1,)}",
                             params="%x: f32[2,2]", result="%c, %d")),
        ("next axis", _chain("%a: f32[1,N], %b: f32[1,N] = Split(%x) {sizes=(1, 1)}",
                             "%c: f32[N] = Squeeze(%a) {axes=(0,)}", "%d: f32[N] = Squeeze(%b) {axes=(0,)}",
                             params="%x: f32[2,N]", result="%c, %d")),
    ],
    "split_gathered": [
        ("not all of three", _chain("%a: f32[5] = Gather(%x, i64[](0))", "%b: f32[5] = Gather(%x, i64[](1))",
                                    "%c: f32[5] = Gather(%x, i64[](1))", params="%x: f32[3,5]", result="%a, %b, %c")),
        ("not all of three", _chain("%a: f32[5] = Gather(%x, i64[](0))", "%b: f32[5] = Gather(%x, i64[](1))",
                                    params="%x: f32[2,5]", result="%a, %b")),
        ("next axis", _chain("%a: f32[5] = Gather(%x, i64[](0)) {axis=1}", "%b: f32[5] = Gather(%x, i64[](1)) {axis=1}",
                             "%c: f32[5] = Gather(%x, i64[](2)) {axis=1}", params="%x: f32[5,3]",
                             result="%a, %b, %c")),
        ("not known", _chain("%a: f32[5] = Gather(%x, i64[](0))", "%b: f32[5] = Gather(%x, i64[](1))",
                             "%c: f32[5] = Gather(%x, i64[](2))", params="%x: f32[N,5]", result="%a, %b, %c")),
    ],
    "stack_by_view": [
        ("next axis", _chain("%a: f32[2,1] = Unsqueeze(%x) {axes=(1,)}", "%b: f32[2,1] = Unsqueeze(%y) {axes=(1,)}",
                             "%z: f32[2,2] = Concat(%a, %b) {axis=1}", params="%x: f32[2], %y: f32[2]", result="%z")),
        ("not all operands", _chain("%a: f32[1,5] = Unsqueeze(%x) {axes=(0,)}",
                                    "%b: f32[2,1,5] = Unsqueeze(%y) {axes=(1,)}",
                                 "%c: f32[2,5] = Squeeze(%b) {axes=(1,)}", "%z: f32[3,5] = Concat(%a, %c) {axis=0}",
                                 params="%x: f32[5], %y: f32[2,5]", result="%z")),
        ("others read", _chain("%a: f32[1,5] = Unsqueeze(%x) {axes=(0,)}", "%b: f32[1,5] = Unsqueeze(%y) {axes=(0,)}",
                               "%z: f32[2,5] = Concat(%a, %b) {axis=0}", "%e: f32[1,5] = Exp(%b)",
                               params="%x: f32[5], %y: f32[5]", result="%z, %e")),
        ("fewer than two", _chain("%a: f32[1,5] = Unsqueeze(%x) {axes=(0,)}", "%z: f32[2,5] = Concat(%a, %a) {axis=0}",
                                  params="%x: f32[5]", result="%z")),
    ],
    "view_behind_concat": [
        ("same one", _chain("%a: f32[2,6] = Reshape(%x, i64[2](2, 6))", "%b: f32[2,6] = Reshape(%y, i64[2](2, 6))",
                            "%z: f32[2,12] = Concat(%a, %b) {axis=1}", params="%x: f32[2,2,3], %y: f32[2,2,3]",
                            result="%z")),
        ("stand elsewhere", _chain("%a: f32[4,5] = Squeeze(%x) {axes=(1,)}", "%b: f32[4,5] = Squeeze(%y) {axes=(2,)}",
                                   "%z: f32[8,5] = Concat(%a, %b) {axis=0}", params="%x: f32[4,1,5], %y: f32[4,5,1]",
                                   result="%z")),
        ("same one", _chain("%a: f32[1,5] = Squeeze(%x) {axes=(1,)}", "%b: f32[3,5] = Squeeze(%y) {axes=(1,)}",
                            "%z: f32[4,5] = Concat(%a, %b) {axis=0}", params="%x: f32[1,1,5], %y: f32[3,1,5]",
                            result="%z")),
    ],
    "view_before_transpose": [
        ("other axes", _chain("%a: f32[5,3,2] = Reshape(%x, i64[3](5, 3, 2))",
                              "%b: f32[3,5,2] = Transpose(%a) {perm=(1, 0, 2)}",
                              "%y: f32[3,10] = Reshape(%b, i64[2](3, 10))", params="%x: f32[5,6]")),
        ("expected", _chain("%b: f32[3,1,5] = Transpose(%x) {perm=(2, 0, 1)}",
                            "%y: f32[3,5] = Squeeze(%b) {axes=(1,)}", params="%x: f32[1,5,3]")),
    ],
    "split_tiles": [
        ("every element once", _chain("%a: f32[9,3] = Slice(%x, i64[1](0), i64[1](3), i64[1](1))",
                                      "%b: f32[9,4] = Slice(%x, i64[1](2), i64[1](6), i64[1](1))", params=_96,
                                      result="%a, %b")),
        ("every element once", _chain("%a: f32[9,3] = Slice(%x, i64[1](0), i64[1](3), i64[1](1))", params=_96,
                                      result="%a")),
        ("steps", _chain("%a: f32[9,3] = Slice(%x, i64[1](0), i64[1](6), i64[1](1), i64[1](2))",
                         "%b: f32[9,3] = Slice(%x, i64[1](1), i64[1](6), i64[1](1), i64[1](2))", params=_96,
                         result="%a, %b")),
        ("several axes", _chain("%a: f32[3,3] = Slice(%x, i64[2](0, 0), i64[2](3, 3), i64[2](0, 1))", params=_96,
                                result="%a")),
        ("not known", _chain("%a: f32[3,6] = Slice(%x, i64[1](0), i64[1](3), i64[1](0))", params="%x: f32[N,6]",
                             result="%a")),
    ],
    "fuse_depth_to_space": [
        ("no squares", _blocks("0,1,4,2,5,3", "2,1,4,2,4,6", "2,1,16,12")),
        ("no squares", _blocks("0,3,4,1,5,2", "2,1,1,8,4,6", "2,8,4,6")),
        ("do not divide channels", _blocks("0,1,4,2,5,3", "2,2,2,2,6,4", "2,2,12,8")),
        ("do not divide channels", _blocks("0,1,4,2,5,3", "1,4,2,2,4,6", "1,4,8,12")),
        ("do not divide channels", _blocks("0,1,4,2,5,3", "2,2,2,2,4,6", "2,2,12,8")),
        # The columns of a block before its rows.
        ("perm=", _blocks("0,1,4,3,5,2", "2,2,2,2,4,6", "2,2,8,12")),
        # A shuffle of channels.
        ("expected Transpose", _chain("%a: f32[2,8,4,6] = Reshape(%x, i64[4](2, 8, 4, 6))", params="%x: f32[2,8,24]",
                                      result="%a")),
        ("perm=", _blocks("0,2,1,3,4,5", "2,2,4,1,4,6", "2,8,4,6")),
        ("as far as is known", _chain("%a: f32[1,2,2,2,3,5] = Reshape(%x, i64[6](1, 2, 2, 2, 3, 5))",
                                      "%b: f32[1,2,3,2,5,2] = Transpose(%a) {perm=(0, 1, 4, 2, 5, 3)}",
                                      "%y: f32[1,2,6,10] = Reshape(%b, i64[4](1, 2, 6, 10))",
                                      params="%x: f32[?,8,3,5]")),
    ],
    "fuse_space_to_depth": [
        ("behind the channels", _blocks("0,1,3,5,2,4", "2,8,2,2,3,2", "2,32,2,3")),
        ("no squares", _blocks("0,3,5,1,2,4", "2,8,1,4,3,2", "2,64,1,3")),
        ("do not divide height", _blocks("0,3,5,1,2,4", "2,8,3,2,2,2", "2,32,3,2")),
        ("do not divide height", _blocks("0,3,5,1,2,4", "2,8,2,2,3,2", "2,32,3,2")),
        ("perm=", _blocks("0,5,3,1,2,4", "2,8,2,2,3,2", "2,32,2,3")),
    ],
    "eliminate_tile_before_broadcast": [
        ("may decide", _chain("%a: f32[3,4] = Tile(%x, i64[2](3, 1))", "%y: f32[3,4] = Add(%a, f32[](1.0))",
                              params="%x: f32[1,4]")),
        ("may decide", _chain("%a: f32[2,4] = Tile(%x, i64[2](1, 2))", "%y: f32[2,4] = Add(%a, %z)",
                              params="%x: f32[2,2], %z: f32[2,4]")),
        ("may decide", _chain("%a: f32[?,4] = Tile(%x, %s)", "%y: f32[?,4] = Add(%a, %z)",
                              params="%x: f32[1,4], %s: i64[2], %z: f32[N,4]")),
        ("with the expansion only", _chain("%a: f32[3,4] = Tile(%x, i64[2](1, 4))", "%y: bool[3,4] = Less(%a, %z)",
                                           params="%x: f32[3,1], %z: f32[1,4]")),
        ("no operand", _chain("%y: f32[4] = Add(%x, f32[](1.0))")),
    ],
}  # fmt: skip
