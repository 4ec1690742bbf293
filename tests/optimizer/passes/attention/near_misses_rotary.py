"""Graphs that come close to rotary positions, and must stay as they are; see test_negative.py."""

from __future__ import annotations


def _at(start: int, stop: int, axis: int = 2, step: int = 1) -> str:
    return f"({start}), i64[1]({stop}), i64[1]({axis}), i64[1]({step})"


def _features(a: str = _at(0, 2), b: str = _at(2, 4),
              r: str = "%n, %a", c: str = "1,5,4", y: str = "2,5,4", axis: int = -1, of: str = "%x", x: str = "2,5,4",
              half: str = "2,5,2", whole: str = "2,5,4") -> str:  # fmt: skip
    """x * cos + concat(-b, a) * sin"""
    return f"""graph g(%x: f32[{x}], %z: f32[{x}], %c: f32[{c}], %s: f32[{c}]) {{
      %a: f32[{half}] = Slice({of}, i64[1]{a})
      %b: f32[{half}] = Slice(%x, i64[1]{b})
      %n: f32[{half}] = Neg(%b)
      %r: f32[{whole}] = Concat({r}) {{axis={axis}}}
      %p: f32[{y}] = Mul(%x, %c)
      %q: f32[{y}] = Mul(%r, %s)
      %y: f32[{y}] = Add(%p, %q)
      return %y
    }}"""


def _stacked(a: str = "0", b: str = "1", axis: int = -1, shape: str = "2, 6", wide: str = "2,3,1", both: str = "2,3,2",
             y: str = "2,6", result: str = "2,6") -> str:  # fmt: skip
    """The same with neighbors for pairs, tables of ones."""
    return f"""graph g(%x: f32[2,6], %c: f32[6], %s: f32[6]) {{
      %a: f32[2,3] = Slice(%x, i64[1]({a}), i64[1](6), i64[1](1), i64[1](2))
      %b: f32[2,3] = Slice(%x, i64[1]({b}), i64[1](6), i64[1](1), i64[1](2))
      %n: f32[2,3] = Neg(%b)
      %v: f32[{wide}] = Unsqueeze(%n) {{axes=({axis},)}}
      %w: f32[{wide}] = Unsqueeze(%a) {{axes=({axis},)}}
      %r: f32[{both}] = Concat(%v, %w) {{axis={axis}}}
      %f: f32[{y}] = Reshape(%r, i64[{shape.count(",") + 1}]({shape}))
      %p: f32[2,6] = Mul(%x, %c)
      %q: f32[{y}] = Mul(%f, %s)
      %y: f32[{result}] = Add(%p, %q)
      return %y
    }}"""


def _pairs(first: str = "Sub(%0, %1)", parts: str = "%2, %5", c: str = "S,1,3", axis: int = 3,
           at: int = 3, y: str = "2,S,3,6", own: str = "2,S,3,3", of: str = "2,S,3,6") -> str:  # fmt: skip
    """(a * cos - b * sin, b * cos + a * sin)"""
    return f"""graph g(%x: f32[{of}], %c: f32[{c}], %s: f32[{c}]) {{
      %a: f32[{own}], %b: f32[{own}] = Split(%x) {{axis={at}, sizes=(3, 3)}}
      %0: f32[2,S,3,3] = Mul(%a, %c)
      %1: f32[2,S,3,3] = Mul(%b, %s)
      %2: f32[2,S,3,3] = {first}
      %3: f32[2,S,3,3] = Mul(%b, %c)
      %4: f32[2,S,3,3] = Mul(%a, %s)
      %5: f32[2,S,3,3] = Add(%3, %4)
      %y: f32[{y}] = Concat({parts}) {{axis={axis}}}
      return %y
    }}"""


def _rest(a: str = "0, 4", b: str = "4, 6", left: str = "%b", attrs: str = "", axis: int = -1, whole: int = 6,
          y: str = "2,S,6") -> str:  # fmt: skip
    """Some features that are turned, and the others."""
    rest = int(b[-1]) - int(b[0])
    return f"""graph g(%x: f32[2,S,{whole}], %c: f32[S,2], %s: f32[S,2], %z: f32[2,S,2]) {{
      %a: f32[2,S,4] = Slice(%x, i64[1]({a[0]}), i64[1]({a[-1]}), i64[1](2))
      %b: f32[2,S,{rest}] = Slice(%x, i64[1]({b[0]}), i64[1]({b[-1]}), i64[1](2))
      %r: f32[2,S,4] = RotaryEmbedding(%a, %c, %s){attrs}
      %y: f32[{y}] = Concat(%r, {left}) {{axis={axis}}}
      return %y, %b
    }}"""


def _transposed(second: str = "(1, 0, 2)", first: str = "(1, 0, 2)", c: str = "5,1,4", y: str = "2,5,4",
                a: str = "5,2,4", x: str = "2,5,4") -> str:  # fmt: skip
    """Rows that are transposed around their rotation."""
    return f"""graph g(%x: f32[{x}], %c: f32[{c}]) {{
      %a: f32[{a}] = Transpose(%x) {{perm={first}}}
      %r: f32[{a}] = RotaryEmbedding(%a, %c, %c)
      %y: f32[{y}] = Transpose(%r) {{perm={second}}}
      return %y
    }}"""


CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_rotary": [
        ("not both halves", _features(of="%z")),
        ("not both halves", _features(a=_at(1, 3))),
        ("not both halves", _features(a=_at(0, 4, 2, 2), b=_at(1, 3))),
        ("put together as they were taken apart",
         _features(a=_at(0, 4, 2, 2), b=_at(1, 4, 2, 2))),
        ("Neg", _features(r="%a, %n")),
        ("not both halves", _features(a=_at(2, 4), b=_at(0, 2))),
        ("is no table", _features(c="1,5,1")),
        ("is no table", _features(c="")),
        ("is no table", _features(c="3,2,5,4", y="3,2,5,4")),
        # Halves of another axis.
        ("not both halves", _features(a=_at(0, 2, 1), b=_at(2, 4, 1),
                                      x="2,4,4", c="1,4,4", y="2,4,4", half="2,2,4", whole="2,4,4", axis=1)),
        # Nobody knows how many features S are.
        ("not both halves", _features(x="2,5,S", c="1,5,4", y="2,5,4")),
        ("not both halves", _stacked(a="1", b="0")),
        ("put together as they were taken apart", _stacked(axis=1, wide="2,1,3", both="2,2,3")),
        # Rows of another length, whose number is not known.
        ("taken apart", _stacked(shape="-1, 1, 6", y="?,1,6", result="?,2,6")),
        ("taken apart", _stacked(axis=0, wide="1,2,3", both="2,2,3")),
        ("with floats", _features().replace("f32", "i32")),
    ],
    "fuse_rotary_pairs": [
        ("expected Sub", _pairs(first="Add(%0, %1)")),
        ("not both halves", _pairs(first="Sub(%1, %0)")),
        ("expected Sub", _pairs(parts="%5, %2")),
        ("taken apart", _pairs(axis=2, y="2,S,6,3")),
        ("not both halves", _pairs(at=2, own="2,S,3,3", of="2,S,6,3")),
        ("is no table", _pairs(c="S,1,1")),
        ("is no table", _pairs(c="")),
        # Which of S and T is longer is not known.
        ("is no table", _pairs(c="T,1,3")),
    ],
    "fuse_rotary_rest": [
        ("not the first features", _rest(a="2, 6", b="0, 2")),
        ("not the first features", _rest(b="2, 4")),
        ("not parts of one value", _rest(left="%z")),
        # There are two more features behind both.
        ("not all of a value's", _rest(whole=8)),
        ("along the last axis", _rest(b="4, 8", axis=1, whole=8, y="2,?,4")),
        ("size=", _rest(attrs=" {size=4}")),
    ],
    "fuse_rotary_transposes": [
        ("do not cancel", _transposed(second="(0, 1, 2)", y="5,2,4")),
        ("move the features", _transposed("(0, 2, 1)", "(0, 2, 1)", c="1,6", y="2,6,4", a="2,4,6", x="2,6,4")),
        ("other axes", _transposed(c="5,2,4")),
    ],
    "negate_rotary_table": [
        ("no other layer", _features()),
        ("along the last axis", """graph g(%a: f32[2,4], %b: f32[2,4]) {
          %n: f32[2,4] = Neg(%b)
          %r: f32[4,4] = Concat(%n, %a) {axis=0}
          %y: f32[4,4] = Mul(%r, f32[4](1.0, 2.0, 3.0, 4.0))
          return %y
        }"""),
        ("half of them each", """graph g(%a: f32[2,1], %b: f32[2,3]) {
          %n: f32[2,3] = Neg(%b)
          %r: f32[2,4] = Concat(%n, %a) {axis=1}
          %y: f32[2,4] = Mul(%r, f32[4](1.0, 2.0, 3.0, 4.0))
          return %y
        }"""),
        ("no number for each feature", """graph g(%a: f32[2,2], %b: f32[2,2]) {
          %n: f32[2,2] = Neg(%b)
          %r: f32[2,4] = Concat(%n, %a) {axis=1}
          %y: f32[2,4] = Mul(%r, f32[](2.0))
          return %y
        }"""),
    ],
}  # fmt: skip
