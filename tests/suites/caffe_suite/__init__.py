"""Several hundred small Caffe nets, each with inputs and the outputs that OpenCV or torch gave."""
