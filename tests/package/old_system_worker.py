"""Runs a model with the engine of a wheel in a Python that is too old for the wheel: through the C API of the engine.

Only the standard library is there. Arguments: a library with all names of newer Pythons, the engine, a model with one
input, and a file with numbers for an input of [1, 1, 8, 8]. Prints the version of the C library and the first output.
"""

import ctypes as c
import os
import sys
from pathlib import Path


class Tensor(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("dtype", c.c_int),
        ("rank", c.c_int32),
        ("shape", c.c_int64 * 12),
        ("data", c.c_void_p),
    ]


stub, engine, model_file, numbers = sys.argv[1:]
c.CDLL(stub, os.RTLD_GLOBAL | os.RTLD_LAZY)
library = c.CDLL(engine, os.RTLD_LAZY)
library.minnow_last_error.restype = c.c_char_p


def call(name, *arguments):
    if getattr(library, name)(*arguments):
        sys.exit(f"{name}: {library.minnow_last_error().decode()}")


model, session = c.c_void_p(), c.c_void_p()
call("minnow_load_file", model_file.encode(), c.byref(model))
call("minnow_create_session", model, None, c.byref(session))
given = c.create_string_buffer(Path(numbers).read_bytes())
image = Tensor(None, 0, 4, (c.c_int64 * 12)(1, 1, 8, 8), c.addressof(given))
result = Tensor()
call("minnow_run", session, c.byref(image), c.c_size_t(1), c.byref(result), c.c_size_t(1))
count = 1
for size in result.shape[: result.rank]:
    count *= size
print(os.confstr("CS_GNU_LIBC_VERSION"))
print(*(c.c_float * count).from_address(result.data))
