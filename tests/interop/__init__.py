"""Files that MNN's converter writes from the cases of the suites, in our engine."""
