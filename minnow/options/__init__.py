"""What a user can ask for, said once: frozen dataclasses whose fields have a type, a default, a sentence and a range.

From the fields come the signatures of the public functions (`signature.takes`), the flags of the commands
(`minnow.cli._option`), the command lines that are printed (`text.words`) and `docs/options.md`. `option.py` says how a
field is written. Nothing here imports more than the standard library and the errors; the runtime may use it, too.
"""
