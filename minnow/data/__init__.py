"""Data sets, and batches of their examples: MNN's `data`.

from minnow import data

class Photos(data.Dataset):
    def __getitem__(self, index):
        return [image], [label]
    def __len__(self):
        return 1000

loader = data.DataLoader(Photos(), batch_size=32, shuffle=True)
"""

from minnow.data.loader import DataLoader, Dataset

__all__ = ["DataLoader", "Dataset"]
