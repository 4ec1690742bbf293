"""Language models: from a folder that `mnnconvert` has made of a checkpoint to tokens."""
