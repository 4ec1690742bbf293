"""What is known of a graph without running it, which rules ask: ranges, formulas of sizes, views, equality, the file
format.
"""
