"""The layers of Caffe and its forks: each module registers the mappings of a family."""
