"""TensorFlow's operators: each module registers the mappings of a family."""
