"""Nodes that become one whatever layer they belong to: elementwise programs, and residuals and activations of
layers.
"""
