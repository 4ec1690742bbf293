"""Several hundred small models made by TensorFlow, each with inputs and the outputs that TensorFlow or LiteRT gave."""
