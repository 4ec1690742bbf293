/* Ops of your own, in C: what a library exports that MINNOW_PLUGINS names.
 *
 *   static const minnow_op kOps[] = {{sizeof(minnow_op), "Distance", infer, create, run, destroy}};
 *   static const minnow_op_library kLibrary = {MINNOW_OP_VERSION, 1, kOps};
 *   const minnow_op_library* minnow_ops(const minnow_op_host* host) { return &kLibrary; }
 *
 * A file has a node of such an op where the conversion was given a module for it (`--op-plugin`). The library is opened
 * when a model needs an op that the engine does not have, runs with the rights of the process, and stays open. All
 * functions may be called from several threads at the same time. Those that return text return NULL for "done", or a
 * message, which ends the run or the session with an error; it must live as long as the library.
 */
#ifndef MINNOW_OP_H
#define MINNOW_OP_H

#include <minnow/minnow.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MINNOW_OP_VERSION 1

/* The attributes of a node; valid during the call. */
typedef struct minnow_attrs minnow_attrs;

/* What the engine gives to the library. Attributes that the node does not have, or has with another type, are the
 * fallback, or no numbers. Texts and numbers are valid during the call. */
typedef struct minnow_op_host {
  size_t struct_size;
  int64_t (*attr_int)(minnow_attrs* attrs, const char* name, int64_t fallback);
  double (*attr_float)(minnow_attrs* attrs, const char* name, double fallback);
  const char* (*attr_text)(minnow_attrs* attrs, const char* name, const char* fallback);
  size_t (*attr_ints)(minnow_attrs* attrs, const char* name, const int64_t** numbers);
} minnow_op_host;

typedef struct minnow_op {
  size_t struct_size; /* sizeof(minnow_op) */
  const char* name;
  /* Says of what type and shape the outputs are: fills in dtype, rank and shape. The inputs have no data; one that is
   * missing has the rank -1. */
  const char* (*infer)(minnow_attrs* attrs, const minnow_tensor* inputs, size_t num_inputs, minnow_tensor* outputs,
                       size_t num_outputs);
  /* Makes what runs with these shapes need, such as tables; may be NULL. The data of inputs is that of constants, else
   * NULL. Called again when shapes change, after `destroy`. */
  const char* (*create)(minnow_attrs* attrs, const minnow_tensor* inputs, size_t num_inputs,
                        const minnow_tensor* outputs, size_t num_outputs, void** state);
  /* Computes the outputs, whose data is there, from the inputs: row-major, without gaps. */
  const char* (*run)(void* state, const minnow_tensor* inputs, size_t num_inputs, const minnow_tensor* outputs,
                     size_t num_outputs);
  /* May be NULL where `create` is. */
  void (*destroy)(void* state);
} minnow_op;

typedef struct minnow_op_library {
  uint32_t version; /* MINNOW_OP_VERSION */
  size_t num_ops;
  const minnow_op* ops;
} minnow_op_library;

/* What the library exports. `host` lives as long as the process. */
#if defined(_WIN32)
__declspec(dllexport)
#elif defined(__GNUC__)
__attribute__((visibility("default")))
#endif
    const minnow_op_library* minnow_ops(const minnow_op_host* host);

#ifdef __cplusplus
}
#endif

#endif
