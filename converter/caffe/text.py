"""Net definitions in text form."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import text_format

from minnow.converter.caffe.message import LayerParameter, NetParameter
from minnow.schema.errors import FormatError, UnsupportedError

_WORD = re.compile(r'(?<![\w."])type\s*:\s*([A-Za-z_]\w*)')
_OLD_LAYER = re.compile(r"(?m)^[^#\n]*\blayers\s*(?::\s*)?\{")
_TOKEN = re.compile(
    r"""#[^\n]*|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|(?P<field>[A-Za-z_]\w*(?=\s*[:{<]))|[{}<>,;]|[^\s{}<>"'#,;]+"""
)

# What the parameters of layers hold for their training, and for one library or another that computes them.
_NO_MATTER = frozenset(
    {
        *("weight_filler", "bias_filler", "filler", "scale_filler", "shift_filler", "slope_filler", "center_filler"),
        *("engine", "force_nd_im2col", "stable_prod_grad", "debug_info", "share_in_parallel", "axis_filler"),
        *("conv_algos_override", "cudnn_convolution_algo_seeker", "momentum", "visualize", "visualize_threshold"),
        *("save_output_param", "save_file", "cudnn_flavor"),
    }
)


def parse_text(text: str, where: str) -> Any:
    """The net in a text.

    Raises:
        FormatError: it is none, with the line. UnsupportedError: a word is none of a parameter's choices.
    """
    if _OLD_LAYER.search(text):
        text = _WORD.sub(r'type_name: "\1"', text)
    try:
        return text_format.Parse(text, NetParameter(), allow_unknown_field=True)
    except Exception as e:  # noqa: BLE001  (the parser raises errors of many classes on text that is none)
        why = (str(e).splitlines() or [type(e).__name__])[0][:200]
        if "has no value named" in why:
            raise UnsupportedError("a setting has a value that Caffe does not know", where=where, why=why) from None
        raise FormatError("not the definition of a net, or damaged", where=where, why=why) from None


def decoded(data: bytes) -> str:
    """The text of a file in any encoding."""
    return data.decode("utf-8-sig", errors="replace")


def unknown_parameters(text: str) -> dict[str, set[tuple[str, str]]]:
    """What layers set that no message knows, though it may matter: by their name, the parameter and its field."""
    messages = {f.name: f.message_type for f in LayerParameter.DESCRIPTOR.fields if f.message_type is not None}
    found: dict[str, set[tuple[str, str]]] = {}
    path: list[str] = []
    name, field, strange = "", "", set[tuple[str, str]]()
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{<":
            path.append(field)
        elif token in "}>" and path:
            path.pop()
            if not path:
                if strange:
                    found.setdefault(name, set()).update(strange)
                name, strange = "", set()
        elif token[0] in "\"'":
            if len(path) == 1 and field == "name":
                name = token[1:-1]
        elif match["field"]:
            field = token
            known = messages.get(path[1]) if len(path) == 2 else None
            if known is not None and field not in _NO_MATTER and field not in known.fields_by_name:
                strange.add((path[1], field))
    return found
