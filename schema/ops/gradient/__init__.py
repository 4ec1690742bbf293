"""The derivatives of the ops, one module per family; loaded when one is first asked for (`Op.gradient_rule`)."""
