"""Operators of several formats that the registry lacks: decomposed into ops that it has.

Each function takes the builder and Values, and gives Values. The mappings of the formats call them.
"""
