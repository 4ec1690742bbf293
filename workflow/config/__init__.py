"""The configuration of many conversions: `minnow.toml`, or the table `tool.minnow` of `pyproject.toml`.

`keys` describes the file, once: reading, its errors, `docs/configuration.md` and the JSON schema come from it.
`cells` makes the cells of it.
"""
