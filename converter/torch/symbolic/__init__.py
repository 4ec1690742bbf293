"""Running a program of PyTorch with values of the graph in place of numbers.

`translator` goes through it node by node, `tensor` follows what shares memory, `memory` what is left for the next run,
and `control_flow` makes If and Loop of what only a run decides. Views, numbers, lists and text register their operators
here.
"""
