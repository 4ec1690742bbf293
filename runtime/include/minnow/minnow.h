/* Minnow's C API: runs .mnn models.
 *
 *   minnow_model* model;
 *   minnow_session* session;
 *   if (minnow_load_file("model.mnn", &model) != MINNOW_OK) return puts(minnow_last_error());
 *   if (minnow_create_session(model, NULL, &session) != MINNOW_OK) return puts(minnow_last_error());
 *   minnow_tensor in = {"x", MINNOW_F32, 2, {1, 3}, data}, out = {"y"};
 *   if (minnow_run(session, &in, 1, &out, 1) != MINNOW_OK) return puts(minnow_last_error());
 *   ... out.shape, out.data ...
 *   minnow_free_session(session);
 *   minnow_free_model(model);
 *
 * Every function may be called from any thread. Runs of one session wait for each other; sessions of one model share
 * its weights and run side by side. No function throws, aborts or prints, whatever the file holds.
 */
#ifndef MINNOW_MINNOW_H
#define MINNOW_MINNOW_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MINNOW_API __attribute__((visibility("default")))
#else
#define MINNOW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to; also the exit code of the command line. */
typedef int32_t minnow_code;
enum {
  MINNOW_OK = 0,
  MINNOW_INTERNAL = 1,    /* a defect of Minnow */
  MINNOW_USAGE = 2,       /* a wrong argument: a name, a shape, a type */
  MINNOW_UNSUPPORTED = 3, /* ops that this build cannot run, all of them in the message; or not enough memory, or more
                             memory, rounds of loops or nodes than is allowed */
  MINNOW_FORMAT = 6,      /* the file cannot be read, or the model in it is invalid */
  MINNOW_DEVICE = 7,      /* the processor has not what is needed */
  MINNOW_WRITE = 8,       /* the output cannot be written: disk full, read-only, or no regular file */
  MINNOW_STOPPED = 9      /* it was cancelled, or its time was over */
};

typedef int32_t minnow_dtype;
enum {
  MINNOW_F32,
  MINNOW_F64,
  MINNOW_F16,
  MINNOW_BF16,
  MINNOW_I8,
  MINNOW_U8,
  MINNOW_I16,
  MINNOW_U16,
  MINNOW_I32,
  MINNOW_U32,
  MINNOW_I64,
  MINNOW_U64,
  MINNOW_BOOL,
  MINNOW_F8E4M3FN,
  MINNOW_F8E4M3FNUZ,
  MINNOW_F8E5M2,
  MINNOW_F8E5M2FNUZ,
  MINNOW_F8E8M0,
  MINNOW_F6E2M3,
  MINNOW_F6E3M2,
  MINNOW_F4E2M1,
  MINNOW_I4,
  MINNOW_U4,
  MINNOW_I2,
  MINNOW_U2
};

/* Of products with constant weights; sums, and everything else, are float32. MINNOW_HIGH: float32. MINNOW_NORMAL: the
 * same, but 16 bits of each number where the processor has AMX. MINNOW_LOW: bfloat16 where the processor has
 * instructions for it, and where weights take longer to read than to multiply with: recurrent layers, products of few
 * rows. */
typedef int32_t minnow_precision;
enum { MINNOW_HIGH, MINNOW_NORMAL, MINNOW_LOW };

#define MINNOW_MAX_RANK 12

typedef struct minnow_model minnow_model;
typedef struct minnow_session minnow_session;

/* Begin with MINNOW_OPTIONS: what is not set is 0, which stands for the default. Fields are only ever added at the end,
 * and struct_size tells which of them the caller knows. */
typedef struct minnow_options {
  size_t struct_size;         /* sizeof(minnow_options) */
  int32_t threads;            /* 0: as many as this process may use; never more */
  minnow_precision precision; /* MINNOW_HIGH: float32 throughout */
  int64_t timeout_ms;         /* to create the session, and for each run; 0: any time. See minnow_set_timeout */
  /* Bytes for intermediate tensors, states and results; weights in the form that is computed with come on top. 0: 512
   * MiB and 256 times the size of the model and its inputs, but no more than three quarters of the machine's memory. */
  int64_t max_memory;
  int64_t max_rounds; /* of all loops in one run, and branches taken; 0: 5 million */
} minnow_options;
#define MINNOW_OPTIONS \
  { sizeof(minnow_options), 0, MINNOW_HIGH, 0, 0, 0 }

/* Row-major, without gaps, native byte order. Types of less than 8 bits take a byte, its upper bits are 0. */
typedef struct minnow_tensor {
  const char* name; /* of the model's input or output; NULL: the one at this place in the model's order */
  minnow_dtype dtype;
  int32_t rank;
  int64_t shape[MINNOW_MAX_RANK];
  void* data;
} minnow_tensor;

/* An input or output as the source model declares it. Strings live as long as the session. A sequence or an optional
 * is a vector of bytes (MINNOW_U8) that holds its tensors; schema/ir/sequence.py says how. */
typedef struct minnow_tensor_info {
  const char* name;
  minnow_dtype dtype;
  int32_t rank;                         /* -1: not known before a run */
  int64_t shape[MINNOW_MAX_RANK];       /* -1: any size */
  const char* symbols[MINNOW_MAX_RANK]; /* the name of such a size; NULL where it has none */
} minnow_tensor_info;

typedef struct minnow_profile_row {
  const char* name; /* of the node, as in the file */
  const char* op;
  const char* scheme; /* how it is computed; "" where there is one way only */
  const char* shape;  /* of its first output: "[1,3,224,224]" */
  double ms;          /* of one run, on average */
  int64_t macs;       /* multiply-accumulates; 0 where they do not matter */
  int64_t bytes;      /* of its operands and results, as tensors */
} minnow_profile_row;

typedef struct minnow_stats {
  int64_t arena_bytes;  /* for intermediate tensors, after the runs so far */
  int64_t weight_bytes; /* of the model's constants, as tensors */
  int32_t threads;
  int64_t least_arena_bytes; /* that intermediate tensors need at one time, wherever they lie */
} minnow_stats;

MINNOW_API const char* minnow_version(void);
/* The instruction set in use: "avx512", "avx2", "sse4", "neon", "scalar". MINNOW_ISA in the environment chooses. */
MINNOW_API const char* minnow_isa(void);
/* Why the last call of this thread that failed did so: where, then what. Valid until the thread's next call. */
MINNOW_API const char* minnow_last_error(void);

/* Maps the file into memory; it must not change while the model is in use. Weights may lie in a file beside it. */
MINNOW_API minnow_code minnow_load_file(const char* path, minnow_model** model);
/* Copies the bytes. */
MINNOW_API minnow_code minnow_load_memory(const void* bytes, size_t size, minnow_model** model);
/* Sessions keep what they need of the model: it may be freed before them. NULL is fine, here and below. */
MINNOW_API void minnow_free_model(minnow_model* model);

/* `options` may be NULL. */
MINNOW_API minnow_code minnow_create_session(const minnow_model* model, const minnow_options* options,
                                             minnow_session** session);
MINNOW_API void minnow_free_session(minnow_session* session);

MINNOW_API size_t minnow_num_inputs(const minnow_session* session);
MINNOW_API size_t minnow_num_outputs(const minnow_session* session);
MINNOW_API minnow_code minnow_input_info(const minnow_session* session, size_t index, minnow_tensor_info* info);
MINNOW_API minnow_code minnow_output_info(const minnow_session* session, size_t index, minnow_tensor_info* info);

/* Runs the model. All inputs must be given. For each wanted output, name it (or leave the name NULL for the one at
 * that place); its dtype, rank, shape and data are filled in. The data belongs to the session, until its next run. */
MINNOW_API minnow_code minnow_run(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs,
                                  minnow_tensor* outputs, size_t num_outputs);

/* Ends the run of this session that is under way with MINNOW_STOPPED, as soon as the node that is being computed is
 * done; without one it does nothing. To be called from another thread, or from the handler of a signal. The session can
 * be used as before; a streaming model remembers what it did before that run. */
MINNOW_API void minnow_cancel(minnow_session* session);
/* The time that each run may take from now on, in milliseconds, before it ends with MINNOW_STOPPED; 0: any time. It is
 * looked at between nodes. */
MINNOW_API minnow_code minnow_set_timeout(minnow_session* session, int64_t timeout_ms);

/* Forgets what a streaming model remembers from run to run: the next run is like the first one. */
MINNOW_API minnow_code minnow_reset(minnow_session* session);

/* Times each node over some runs. The rows belong to the session, until the next call of this function for it. */
MINNOW_API minnow_code minnow_profile(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs,
                                      int32_t runs, const minnow_profile_row** rows, size_t* num_rows);
MINNOW_API minnow_code minnow_get_stats(minnow_session* session, minnow_stats* stats);

/* Writes the weights packed by this model's sessions so far, for this kind of processor, to a file beside the model:
 * the model's path with ".packed" behind it. Whoever loads the model later maps them instead of packing them; where the
 * file fits neither the model nor the processor, it is not used. Run once before, if sizes of the inputs are open. */
MINNOW_API minnow_code minnow_write_packed(minnow_session* session);

#ifdef __cplusplus
}
#endif

#endif
