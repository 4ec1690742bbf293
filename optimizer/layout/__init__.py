"""Where a value has which memory layout or order of axes: chosen by minimum cuts of the bytes that are moved."""
