"""Graphs that come close to what the rules of interpolation do; see test_negative.py."""

from __future__ import annotations

_IMAGE = "%x: f32[1,1,2,2]"
_TWICE = "f32[4](1.0, 1.0, 2.0, 2.0)"
_PADS = "i64[8](0, 0, 0, 0, 1, 1, 1, 1)"
_CONV = "f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)"


def _chain(*lines: str, params: str = _IMAGE, result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


def _padded_first(
    pad: str = f"Pad(%x, {_PADS})", attrs: str = "", reader: str = f"Conv(%b, {_CONV}}}", size: int = 8
) -> str:
    return _chain(
        f"%a: f32[1,1,4,4] = {pad}",
        f"%b: f32[1,1,8,8] = Resize(%a, _, {_TWICE}) {{{attrs}}}",
        f"%y: f32[1,1,{size},{size}] = {reader}",
        params=_IMAGE + ", %p: i64[8], %f: f32[]",
    )


def _padded_last(pad: str, attrs: str = "", *after: str, resize: str = f"Resize(%x, _, {_TWICE})", **more: str) -> str:
    return _chain(
        f"%a: f32[1,1,4,4] = {resize} {{{attrs}}}",
        pad,
        *after,
        params=_IMAGE + ", %p: i64[8]",
        **more,
    )


CASES: dict[str, list[tuple[str, str]]] = {
    "eliminate_resize": [
        ("not all 1", _chain(f"%y: f32[1,1,4,4] = Resize(%x, _, {_TWICE})")),
        # The dimensions stay, but the places do not.
        ("not all 1", _chain("%y: f32[1,1,2,2] = Resize(%x, _, f32[4](1.0, 1.0, 1.25, 1.0)) {mode=\"linear\"}")),
        ("not all 1", _chain("%y: f32[1,1,2,2] = Resize(%x, _, %s)", params=_IMAGE + ", %s: f32[4]")),
        ("not all 1", _chain("%y: f32[1,1,2,2] = Resize(%x, _, _, i64[4](1, 1, 2, 2)) {keep_aspect=\"not_larger\"}")),
        ("not all 1", _chain("%y: f32[1,1,2,2] = Resize(%x, _, _, i64[4](1, 1, 2, 2))", params="%x: f32[1,1,N,H]")),
        ("cuts out", _chain(
            "%y: f32[1,1,2,2] = Resize(%x, f32[8](0.0, 0.0, 0.5, 0.0, 1.0, 1.0, 1.0, 1.0), "
            'f32[4](1.0, 1.0, 1.0, 1.0)) {mode="linear", coordinate_mode="tf_crop_and_resize"}')),
        ("between the elements", _chain(
            "%y: f32[1,1,2,2] = Resize(%x, _, f32[4](1.0, 1.0, 1.0, 1.0)) "
            '{mode="linear", coordinate_mode="tf_half_pixel_for_nn"}')),
        ("between the elements", _chain(
            "%y: f32[1,1,2,2] = Resize(%x, _, f32[4](1.0, 1.0, 1.0, 1.0)) "
            '{coordinate_mode="tf_half_pixel_for_nn", nearest_mode="ceil"}')),
    ],
    "fuse_resizes": [
        ("more than to repeat", _chain(
            f"%a: f32[1,1,4,4] = Resize(%x, _, {_TWICE}) {{{attrs}}}",
            f"%y: f32[1,1,{size},{size}] = Resize(%a, _, f32[4](1.0, 1.0, {scale}, {scale}))"))
        for attrs, scale, size in (
            ('mode="linear"', 2.0, 8), ('nearest_mode="floor"', 2.0, 8), ('coordinate_mode="align_corners"', 2.0, 8),
            ('coordinate_mode="asymmetric", nearest_mode="ceil"', 2.0, 8), ("", 1.5, 6), ("", 0.5, 2),
        )
    ] + [
        ("more than to repeat", _chain(
            f"%a: f32[1,1,4,4] = Resize(%x, _, {_TWICE})", "%y: f32[1,1,?,?] = Resize(%a, _, _, %s)",
            params=_IMAGE + ", %s: i64[4]")),
        ("more than to repeat", _chain(
            "%a: f32[1,1,?,?] = Resize(%x, _, %s)", f"%y: f32[1,1,?,?] = Resize(%a, _, {_TWICE})",
            params=_IMAGE + ", %s: f32[4]")),
    ],
    "resize_before_pad": [
        ("more than to repeat", _padded_first(attrs='mode="linear"')),
        ("cut off", _padded_first("Pad(%x, %p)")),
        ("cut off", _padded_first(f"Pad(%x, {_PADS}, %f)")),
        ("nothing that follows", _padded_first(f"Pad(%x, {_PADS}, f32[](1.0))")),
        ("nothing that follows", _padded_first(reader="Exp(%b)")),
        ("nothing that follows", _padded_first(reader=f"Conv(%b, {_CONV}, auto_pad=\"SAME_UPPER\"}}")),
        ("nothing that follows", _padded_first(reader=f"Pad(%b, {_PADS}, f32[](1.0))", size=10)),
        ("nothing that follows", _padded_first(reader=f"Pad(%b, {_PADS}) {{mode=\"edge\"}}", size=10)),
        ("mode=", _padded_first(f"Pad(%x, {_PADS}) {{mode=\"edge\"}}")),
    ],
    "pad_before_resize": [
        ("ends within", _padded_last(f"%y: f32[1,1,6,6] = Pad(%a, {_PADS})")),
        ("more than to repeat", _padded_last(f"%y: f32[1,1,6,6] = Pad(%a, {_PADS})", 'mode="cubic"')),
        ("cut off", _padded_last("%y: f32[1,1,?,?] = Pad(%a, %p)")),
        ("mode=", _padded_last("%y: f32[1,1,8,8] = Pad(%a, i64[8](0, 0, 0, 0, 2, 2, 2, 2)) {mode=\"reflect\"}")),
        ("what follows", _padded_last(
            "%b: f32[1,1,8,8] = Pad(%a, i64[8](0, 0, 0, 0, 2, 2, 2, 2))", "",
            f"%y: f32[1,1,8,8] = Conv(%b, {_CONV}}}")),
    ],
}  # fmt: skip
