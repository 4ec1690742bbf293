"""The operators of ONNX's own domains: each module registers the mappings of a family."""
