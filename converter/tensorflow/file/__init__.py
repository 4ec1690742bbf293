"""TensorFlow's files: graphs, SavedModels and the numbers of their variables, and Keras files.

`source` opens any of them; `keras_child` is the process that Keras runs in.
"""
