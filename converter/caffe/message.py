"""The messages of Caffe's files as classes: `message.NetParameter.FromString(bytes)`."""

from __future__ import annotations

from minnow.converter.caffe.caffe_descriptor import FILES
from minnow.converter.file.message import load

_class = load(FILES, "minnow.caffe")
NetParameter = _class("NetParameter")
LayerParameter = _class("LayerParameter")
LooseBlob = _class("LooseBlob")
