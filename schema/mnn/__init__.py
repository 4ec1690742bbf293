"""The `.mnn` format: its FlatBuffers schema, the wire level (bytes <-> dicts) and the codec (dicts <-> IR)."""
