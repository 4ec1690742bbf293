"""The operators of the domain com.microsoft: each module registers the mappings of a family.

`domain` has what all of them share.
"""
