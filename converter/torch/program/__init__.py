"""Reading PyTorch's files: both formats become one `Program` (`program`), and are vetted before PyTorch is given any.

`exported` reads `.pt2` archives, `script` TorchScript files by the process `child`; `live` writes models of this
process to such files.
"""
