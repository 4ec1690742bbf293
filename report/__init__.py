"""Reports for people and machines: of one model (`page`), and of many conversions (`formats`).

`drawing` lays graphs out and draws them.
"""
