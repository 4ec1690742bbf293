"""A program that was compiled with an older header, whose structs had fewer fields, runs with this library."""

from __future__ import annotations

import ctypes as c
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from engine_oracle import f32, model_of

from minnow.runtime import _engine
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

# The structs before `device` and `why` were added, as far as the program needs them. Guards behind each of them show
# whether the library writes more than the program knows.
PROGRAM = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct { size_t struct_size; int32_t threads, precision; int64_t timeout_ms, max_memory, max_rounds; } options;
typedef struct { const char* name; int32_t dtype, rank; int64_t shape[12]; void* data; } tensor;
typedef struct {
  size_t struct_size; const char* name; int32_t dtype, rank; int64_t shape[12]; const char* symbols[12];
} info;
typedef struct { const char *name, *op, *scheme, *shape; double ms; int64_t macs, bytes; } row;
typedef struct { size_t struct_size; int64_t arena, weights; int32_t threads; int64_t least; } stats;

int32_t minnow_load_memory(const void*, size_t, void**);
int32_t minnow_create_session(const void*, const options*, void**);
int32_t minnow_input_info(const void*, size_t, info*);
int32_t minnow_run(void*, const tensor*, size_t, tensor*, size_t);
int32_t minnow_profile(void*, const tensor*, size_t, int32_t, size_t, const row**, size_t*);
int32_t minnow_get_stats(void*, stats*);
void minnow_free_session(void*);
void minnow_free_model(void*);

/* 0, or the number of what went wrong. */
int older_program(const void* bytes, size_t size, float* x, float* y) {
  static const char guard[64] = "what a program keeps behind its struct";
  struct { options it; char guard[64]; } o = {{sizeof(options), 1, 0, 0, 0, 0}, ""};
  struct { info it; char guard[64]; } i = {{sizeof(info)}, ""};
  struct { stats it; char guard[64]; } s = {{sizeof(stats)}, ""};
  memcpy(o.guard, guard, sizeof guard);
  memcpy(i.guard, guard, sizeof guard);
  memcpy(s.guard, guard, sizeof guard);
  void *model, *session;
  if (minnow_load_memory(bytes, size, &model) != 0) return 1;
  if (minnow_create_session(model, &o.it, &session) != 0) return 2;
  if (minnow_input_info(session, 0, &i.it) != 0 || i.it.rank != 2 || memcmp(i.guard, guard, sizeof guard)) return 3;
  tensor in = {i.it.name, i.it.dtype, i.it.rank, {2, 3}, x}, out = {0};
  if (minnow_run(session, &in, 1, &out, 1) != 0) return 4;
  memcpy(y, out.data, 6 * sizeof(float));
  const row* rows;
  size_t n;
  if (minnow_profile(session, &in, 1, 2, sizeof(row), &rows, &n) != 0 || n != 2) return 5;
  if (strcmp(rows[0].op, "Softmax") || strcmp(rows[1].op, "CumSum") || strcmp(rows[1].shape, "[2,3]")) return 6;
  if (minnow_get_stats(session, &s.it) != 0 || s.it.threads != 1 || memcmp(s.guard, guard, sizeof guard)) return 7;
  minnow_free_session(session);
  minnow_free_model(model);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_program_with_older_structs(tmp_path: Path) -> None:
    (tmp_path / "older.c").write_text(PROGRAM)
    library = tmp_path / "older.so"
    flags = ["-std=c99", "-Wall", "-Werror", "-Wno-missing-field-initializers", "-shared", "-fPIC", "-O1"]
    subprocess.run(["cc", *flags, "-o", library, tmp_path / "older.c"], check=True)
    c.CDLL(_engine.__file__, c.RTLD_GLOBAL)
    graph = Graph()
    x = graph.add_param(f32(2, 3))
    b = Builder(graph)
    graph.outputs = [b.CumSum(b.Softmax(x, axis=1), np.int64(1))]
    data = encode(model_of(graph))
    given, result = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    pointers = [a.ctypes.data_as(c.c_void_p) for a in (given, result)]
    assert c.CDLL(str(library)).older_program(data, c.c_size_t(len(data)), *pointers) == 0
    soft = np.exp(given) / np.exp(given).sum(1, keepdims=True)
    np.testing.assert_allclose(result, soft.cumsum(1), rtol=1e-5)
