"""PyTorch's operators: each module registers the mappings of a family; rare families stand in folders of their own."""
