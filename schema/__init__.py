"""What a model is: errors, the IR, the op registry and the `.mnn` format."""
