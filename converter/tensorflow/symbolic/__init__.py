"""Running a TensorFlow graph on values: bodies and calls, control flow of both versions, variables, lists of tensors.

`translator` goes through a body node by node. Operators of control flow and state register here, all others in `ops`.
"""
