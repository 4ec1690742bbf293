"""PyTorch's own samples of its operators, through torch.export and through TorchScript."""
