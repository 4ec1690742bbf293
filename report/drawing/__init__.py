"""Drawings of graphs and charts.

`outline` groups the nodes of a graph, `layers` orders each group in rows, `place` gives coordinates; `svg` draws the
result as one picture, and the page of a report lays it out again when the reader opens or closes a group.
"""
