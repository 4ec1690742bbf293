"""What a user says of a model's inputs and outputs: shapes, element types, arrays, and tensors to cut the model at.

All readers take it (`given.Inputs`), and so do the command line and verification.
"""
