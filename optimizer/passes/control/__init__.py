"""Branches, loops and sequences: decided, unrolled, hoisted out of, or replaced by what they hold."""
