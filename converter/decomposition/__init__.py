"""Operators that several formats have and the registry has not: spelled out in terms of ops that it has.

Each function takes the builder and Values, and gives Values. The mappings of the formats call them.
"""
