"""All options of the Python API and the command line: one field of a frozen dataclass for each.

A field has a type, a default, a description and a range (`option.py`). From the fields come the signatures of public
functions (`signature.takes`), the flags of commands (`minnow.cli._option`), the command lines that are printed
(`text.words`) and `docs/options.md`. Only the standard library and the errors are imported here, so that all other
folders may use it and `--help` stays fast.
"""
