"""TFLite's operators on quantized tensors, in the steps of its own kernels, and the fixed-point numbers they take."""
