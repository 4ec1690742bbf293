"""How a file gets in: what it is by its content, its bytes and messages, and the limits and errors of reading it.

Readers of all formats use it; `sandbox` also confines the processes that load files with PyTorch or Keras.
"""
