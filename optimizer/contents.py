"""What passes know of the contents of small integer tensors, as `schema.ops.symbolic` finds it out."""

from minnow.schema.ops.symbolic import Atom, Extent, Known, Memo, contents, extent, of_dim

__all__ = ["Atom", "Extent", "Known", "Memo", "contents", "extent", "of_dim"]
