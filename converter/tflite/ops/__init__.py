"""TFLite's operators: each module registers the mappings of a family.

Those on quantized tensors stand in `quantized`.
"""
