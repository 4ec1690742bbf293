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
 * its weights and can run at the same time. No function throws, aborts or prints, whatever the file contains.
 *
 * Functions that can fail return a minnow_code; minnow_last_error() then has the message. Strings are UTF-8.
 */
#ifndef MINNOW_MINNOW_H
#define MINNOW_MINNOW_H

#include <stddef.h>
#include <stdint.h>

/* What the library exports and programs import. Only the build of the library defines MINNOW_BUILDS_LIBRARY. */
#if defined(_WIN32)
#if defined(MINNOW_BUILDS_LIBRARY)
#define MINNOW_API __declspec(dllexport)
#else
#define MINNOW_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define MINNOW_API __attribute__((visibility("default")))
#else
#define MINNOW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The result of a call. The exit codes of the command line are the same. */
typedef int32_t minnow_code;
enum {
  MINNOW_OK = 0,
  MINNOW_INTERNAL = 1,    /* a defect of Minnow */
  MINNOW_USAGE = 2,       /* an invalid argument: a name, a shape, a type */
  MINNOW_UNSUPPORTED = 3, /* the model has ops that this build does not support (the message lists all of them), or
                             needs more memory, loop iterations or nodes than allowed, or more memory than there is */
  MINNOW_FORMAT = 6,      /* the file cannot be read, or the model in it is invalid */
  MINNOW_DEVICE = 7,      /* a device, or an instruction set of the processor, that was requested is not available */
  MINNOW_WRITE = 8,       /* the output cannot be written: disk full, read-only, or not a regular file */
  MINNOW_STOPPED = 9      /* the run was cancelled, or its timeout has passed */
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

/* The precision of products with constant weights; sums, and everything else, are float32. MINNOW_HIGH: float32.
 * MINNOW_NORMAL: float32, but 16 significant bits of each value on processors with AMX. MINNOW_LOW: bfloat16 on
 * processors with instructions for it, and on all processors for layers whose time goes into reading weights (recurrent
 * layers, matrix products with few rows). */
typedef int32_t minnow_precision;
enum { MINNOW_HIGH, MINNOW_NORMAL, MINNOW_LOW };

#define MINNOW_MAX_RANK 12

typedef struct minnow_model minnow_model;
typedef struct minnow_session minnow_session;
typedef struct minnow_arena minnow_arena;

/* Initialize with MINNOW_OPTIONS. A field that is 0 has its default. New fields are added at the end only; struct_size
 * tells the library which fields the caller knows. */
typedef struct minnow_options {
  size_t struct_size;         /* sizeof(minnow_options) */
  int32_t threads;            /* 0: all that this process may use, which is also the maximum */
  minnow_precision precision; /* 0: MINNOW_HIGH, float32 throughout */
  int64_t timeout_ms; /* milliseconds to create the session, and for each run; 0: no limit. See minnow_set_timeout */
  /* Bytes for intermediate tensors, states, results, and what the sessions of the model share in memory: packed
   * weights, unless they are mapped from a file. 0: 512 MiB plus 256 times the size of the model and its inputs, but at
   * most the machine's memory, and three quarters of it beside packed weights. */
  int64_t max_memory;
  int64_t max_rounds; /* iterations of all loops, and branches taken, in one run; 0: 5 million */
  /* NULL or "cpu"; a device such as "cuda" or "cuda:1", beside which the CPU runs what that device cannot; "auto": all
   * devices that there are, else the CPU. A device that is not there is an error: MINNOW_DEVICE. */
  const char* device;
  minnow_arena* arena; /* memory shared with other sessions (see minnow_create_arena); NULL: the session has its own */
} minnow_options;
#define MINNOW_OPTIONS \
  { sizeof(minnow_options), 0, MINNOW_HIGH, 0, 0, 0, NULL, NULL }

/* Initialize with MINNOW_LOAD_OPTIONS. New fields are added at the end only. */
typedef struct minnow_load_options {
  size_t struct_size; /* sizeof(minnow_load_options) */
  /* Other than 0: the model, its companion weights file and its packed weights are read into memory. Else they are
   * mapped, and must not change while the model is in use: the process is ended (SIGBUS) when it reads what a program
   * has cut off. */
  int32_t copies;
} minnow_load_options;
#define MINNOW_LOAD_OPTIONS \
  { sizeof(minnow_load_options), 0 }

/* A tensor: row-major, without gaps, native byte order. Elements of less than 8 bits take a byte whose upper bits are
 * 0. This struct is final. */
typedef struct minnow_tensor {
  const char* name; /* of the graph input or output; NULL: the one at this position in the model's order */
  minnow_dtype dtype;
  int32_t rank;
  int64_t shape[MINNOW_MAX_RANK];
  void* data;
} minnow_tensor;

/* A graph input or output as the source model declares it. The strings are valid as long as the session. A sequence or
 * an optional is a vector of bytes (MINNOW_U8) with its tensors; schema/ir/sequence.py describes the encoding.
 * Initialize with MINNOW_TENSOR_INFO: struct_size tells the library which fields the caller knows. */
typedef struct minnow_tensor_info {
  size_t struct_size; /* sizeof(minnow_tensor_info) */
  const char* name;
  minnow_dtype dtype;
  int32_t rank;                         /* -1: unknown before a run */
  int64_t shape[MINNOW_MAX_RANK];       /* -1: a dynamic dimension */
  const char* symbols[MINNOW_MAX_RANK]; /* the name of a dynamic dimension; NULL if it has none */
} minnow_tensor_info;
#define MINNOW_TENSOR_INFO                                \
  {                                                       \
    sizeof(minnow_tensor_info), NULL, 0, 0, {0}, { NULL } \
  }

typedef struct minnow_profile_row {
  const char* name; /* of the node, as in the file */
  const char* op;
  const char* scheme; /* the algorithm; "" if there is only one */
  const char* shape;  /* of its first output: "[1,3,224,224]" */
  double ms;          /* milliseconds of one run, on average */
  int64_t macs;       /* multiply-accumulates; 0 for ops without them */
  int64_t bytes;      /* of its operands and results */
  const char* device; /* where it runs: "cpu", "cuda:0" */
  const char* why;    /* it runs there, where there was a choice; else "" */
} minnow_profile_row;

/* Initialize with MINNOW_STATS. */
typedef struct minnow_stats {
  size_t struct_size;   /* sizeof(minnow_stats) */
  int64_t arena_bytes;  /* allocated for intermediate tensors by the runs so far */
  int64_t weight_bytes; /* of the model's constants */
  int32_t threads;
  int64_t least_arena_bytes; /* lower bound of arena_bytes: the most bytes of tensors needed at the same time */
} minnow_stats;
#define MINNOW_STATS \
  { sizeof(minnow_stats), 0, 0, 0, 0 }

/* A node, as the callback of a session sees it. The library allocates it; it is valid during the call. */
typedef struct minnow_node {
  size_t struct_size; /* sizeof(minnow_node) of the library */
  const char* name;   /* as in the file, after the names of the control flow nodes around it: "loop/add" */
  const char* op;
  size_t num_inputs, num_outputs;
  const minnow_tensor* inputs;  /* their names are NULL, as is the data of those that are missing */
  const minnow_tensor* outputs; /* NULL before the node runs */
} minnow_node;
/* Returns 0 to continue; anything else ends the run with MINNOW_STOPPED. */
typedef int32_t (*minnow_callback)(void* user, const minnow_node* node);

MINNOW_API const char* minnow_version(void);
/* The instruction set in use: "avx512", "avx2", "sse4", "neon", "scalar". The environment variable MINNOW_ISA
 * selects one. */
MINNOW_API const char* minnow_isa(void);
/* The message of the last call that failed in this thread: where, then what; of a long one its first 4095 bytes. Valid
 * until the thread's next call. */
MINNOW_API const char* minnow_last_error(void);

/* Loads a model. The file is mapped into memory, so it must not change while the model is in use. Its companion weights
 * file, if it has one, is expected beside it. Errors: MINNOW_FORMAT, MINNOW_UNSUPPORTED. */
MINNOW_API minnow_code minnow_load_file(const char* path, minnow_model** model);
/* The same with options, which may be NULL. Files that others may change are safe to load only as copies. */
MINNOW_API minnow_code minnow_load_file_with(const char* path, const minnow_load_options* options,
                                             minnow_model** model);
/* Loads a model from memory; copies the bytes. */
MINNOW_API minnow_code minnow_load_memory(const void* bytes, size_t size, minnow_model** model);
/* The model may be freed before its sessions. NULL is allowed, here and below. */
MINNOW_API void minnow_free_model(minnow_model* model);

/* Creates a session. `options` may be NULL. Errors: MINNOW_USAGE, MINNOW_FORMAT, MINNOW_UNSUPPORTED, MINNOW_DEVICE,
 * MINNOW_STOPPED. */
MINNOW_API minnow_code minnow_create_session(const minnow_model* model, const minnow_options* options,
                                             minnow_session** session);
MINNOW_API void minnow_free_session(minnow_session* session);

MINNOW_API size_t minnow_num_inputs(const minnow_session* session);
MINNOW_API size_t minnow_num_outputs(const minnow_session* session);
MINNOW_API minnow_code minnow_input_info(const minnow_session* session, size_t index, minnow_tensor_info* info);
MINNOW_API minnow_code minnow_output_info(const minnow_session* session, size_t index, minnow_tensor_info* info);

/* Runs the model. All inputs must be given. Each entry of `outputs` names a graph output (NULL: the one at that
 * position); its dtype, rank, shape and data are filled in. The data belongs to the session and is valid until its next
 * run. Errors: MINNOW_USAGE, MINNOW_UNSUPPORTED, MINNOW_FORMAT, MINNOW_STOPPED. */
MINNOW_API minnow_code minnow_run(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs,
                                  minnow_tensor* outputs, size_t num_outputs);

/* With `on` other than 0, later calls of minnow_run and minnow_run_part give the data of outputs in the memory of the
 * CUDA device on which the session runs, instead of the host's; it is complete when the call returns. Inputs may lie in
 * the memory of that device in any case: their data is then an address of it, and what the default stream of the device
 * has been given comes before they are read. Errors: MINNOW_USAGE where the session runs on no CUDA device. */
MINNOW_API minnow_code minnow_set_device_outputs(minnow_session* session, int32_t on);

/* Runs a part of the model: computes the values that `outputs` names, and nothing that they do not need. These are
 * outputs, inputs and states of the model, and values between nodes of its main graph, by their names in the file.
 * Nodes are not fused where the values between them are wanted. All inputs must be given; states stay as they are. The
 * data belongs to the session and is valid until its next run of a part. Errors as for minnow_run; MINNOW_USAGE lists
 * names similar to an unknown one. */
MINNOW_API minnow_code minnow_run_part(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs,
                                       minnow_tensor* outputs, size_t num_outputs);

/* The same as minnow_run, but the results are written into the caller's memory: each entry of `outputs` has a dtype,
 * rank, shape and data, which must be those of the result. Errors as for minnow_run; MINNOW_USAGE where a result has
 * another type or shape, after which the states are those before the run. */
MINNOW_API minnow_code minnow_run_into(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs,
                                       const minnow_tensor* outputs, size_t num_outputs);

/* Prepares the session for inputs of these types and shapes, whose data may be NULL: shapes are inferred, kernels are
 * chosen, weights are packed and memory is allocated. Optional: the first run with such inputs does it, too, and then
 * takes longer. Shapes that depend on the values of tensors are left to the run. Errors as for minnow_run. */
MINNOW_API minnow_code minnow_prepare(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs);

/* Calls a function before and after each node in all later runs of this session, in the thread of the run, with the
 * node's inputs and outputs; NULL: no longer. Nodes are those that run after fusion, conversions of layout and copies
 * between devices included; parallel nodes run one after the other. For a callback, functions with this session
 * return MINNOW_USAGE, except minnow_cancel. */
MINNOW_API minnow_code minnow_set_callback(minnow_session* session, minnow_callback callback, void* user);

/* Ends the current run of this session with MINNOW_STOPPED, within a node that takes long; does nothing without a run.
 * May be called from another thread or from a signal handler. The session can be used afterwards; its states are those
 * before that run. */
MINNOW_API void minnow_cancel(minnow_session* session);
/* Sets the timeout of later runs in milliseconds; 0: no limit. A run that takes longer ends with MINNOW_STOPPED. The
 * time is checked between nodes and, on the CPU, within those that take long. */
MINNOW_API minnow_code minnow_set_timeout(minnow_session* session, int64_t timeout_ms);

/* Restores the initial values of all states of a streaming model: the next run is like the first one. */
MINNOW_API minnow_code minnow_reset(minnow_session* session);

/* The states of a streaming model: what one run hands on to the next. Their names and types: */
MINNOW_API size_t minnow_num_states(const minnow_session* session);
MINNOW_API minnow_code minnow_state_info(const minnow_session* session, size_t index, minnow_tensor_info* info);
/* Fills in the states that `states` names, as outputs of minnow_run: the values with which the next run begins. The
 * data belongs to the session and is valid until its next run, or change of its states. */
MINNOW_API minnow_code minnow_get_states(minnow_session* session, minnow_tensor* states, size_t num_states);
/* Sets the states that `states` names to copies of these values; the others keep theirs. Errors: MINNOW_USAGE. */
MINNOW_API minnow_code minnow_set_states(minnow_session* session, const minnow_tensor* states, size_t num_states);
/* Sets a dynamic dimension of states, such as the number of blocks of a cache, by its symbol; at the beginning it is 0.
 * States keep what they have, as far as there is room for it; what is added is 0. After an error all are as before.
 * Errors: MINNOW_USAGE where no state has it; MINNOW_UNSUPPORTED where there is not so much memory. */
MINNOW_API minnow_code minnow_resize_states(minnow_session* session, const char* dimension, int64_t size);
/* Copies what each of these states has at one place of that dimension to another, such as a block of a cache. */
MINNOW_API minnow_code minnow_copy_in_states(minnow_session* session, const char* dimension, int64_t from, int64_t to);
/* Gives the states that `states` names other types, with which a cache takes less or more memory. Each has a dynamic
 * dimension, which is 0 now and in its new shape; the next run tells whether the model takes them. Errors:
 * MINNOW_USAGE. */
MINNOW_API minnow_code minnow_retype_states(minnow_session* session, const minnow_tensor* states, size_t num_states);
/* Writes all states as bytes that minnow_restore_states takes, in another process or on another machine with the same
 * byte order too. `size` is set to the number of bytes needed; with less `capacity` nothing is written, and the result
 * is MINNOW_USAGE unless `bytes` is NULL. */
MINNOW_API minnow_code minnow_save_states(minnow_session* session, void* bytes, size_t capacity, size_t* size);
/* Sets all states to what was saved. The bytes need not be trusted. Errors, which leave the states as they are:
 * MINNOW_FORMAT where these are no saved states; MINNOW_USAGE where they are those of another model. */
MINNOW_API minnow_code minnow_restore_states(minnow_session* session, const void* bytes, size_t size);

/* Creates an arena: one piece of the host's memory in which several sessions, of any models, keep their intermediate
 * tensors. It is as large as the largest of them needs, where sessions with arenas of their own need the sum. They take
 * turns: a run waits while another of them runs, and so does every other call with such a session. Inputs, results and
 * states are not in it, nor is memory of other devices. */
MINNOW_API minnow_code minnow_create_arena(minnow_arena** arena);
/* May be called before its sessions are freed: the last of them frees the memory. */
MINNOW_API void minnow_free_arena(minnow_arena* arena);

/* Where the library gets memory. Initialize with MINNOW_ALLOCATOR. Both functions are called from any thread, must not
 * call the library and must not throw. */
typedef struct minnow_allocator {
  size_t struct_size; /* sizeof(minnow_allocator) */
  /* Memory whose address is a multiple of `alignment`, a power of 2; NULL where there is none. Both sizes are in bytes
   * and above 0. */
  void* (*allocate)(void* user, size_t size, size_t alignment);
  void (*free)(void* user, void* memory, size_t size);
  void* user;
} minnow_allocator;
#define MINNOW_ALLOCATOR \
  { sizeof(minnow_allocator), NULL, NULL, NULL }
/* Says where memory for tensors comes from, from now on: weights that are read or packed, intermediate tensors, states
 * and results. Small records, mapped files and the memory of other devices come from the system as before. Memory goes
 * back to the allocator that it is from, so each one must work until the process ends. NULL: the library's own again.
 * Errors: MINNOW_USAGE where only one of the functions is given. */
MINNOW_API minnow_code minnow_set_allocator(const minnow_allocator* allocator);

/* The threads that all sessions of the process share, beside the threads that call the library. Initialize with
 * MINNOW_WORKERS. */
typedef struct minnow_workers {
  size_t struct_size;  /* sizeof(minnow_workers) */
  const int32_t* cpus; /* the processors on which they may run, by number; NULL: all that the process may use */
  size_t num_cpus;
  int32_t nice; /* added to the priority number of the process, from -20 to 19: above 0 others go first */
} minnow_workers;
#define MINNOW_WORKERS \
  { sizeof(minnow_workers), NULL, 0, 0 }
/* Says where these threads run and at what priority, from their next work on. Errors, which change nothing:
 * MINNOW_USAGE where a processor is not there or not allowed, or a priority is not permitted. */
MINNOW_API minnow_code minnow_set_workers(const minnow_workers* workers);

/* Kinds of messages. */
enum { MINNOW_LOG_ERROR, MINNOW_LOG_INFO };
/* Gets a message: the errors of all calls, and what was loaded and created. It is called in the thread of the call, and
 * must not call the library. */
typedef void (*minnow_logger)(void* user, int32_t kind, const char* message);
/* Sets the logger of the process; NULL: no longer. Without one, the library is silent. */
MINNOW_API void minnow_set_logger(minnow_logger logger, void* user);

/* How the pixels of an image lie: bytes. Those after GRAY are formats of sources only: luma, and after all its rows
 * chroma of half the width and half the height; as pairs V, U (NV21) or U, V (NV12) in rows of the same stride, or as
 * planes U, V in rows of half the stride (I420). */
typedef int32_t minnow_image_format;
enum {
  MINNOW_RGBA = 0,
  MINNOW_RGB = 1,
  MINNOW_BGR = 2,
  MINNOW_GRAY = 3,
  MINNOW_BGRA = 4,
  MINNOW_NV21 = 11,
  MINNOW_NV12 = 12,
  MINNOW_I420 = 13
};
/* How pixels between those of the source are found, and what lies outside of it: the nearest pixel, `padding`, or the
 * image again. */
enum { MINNOW_NEAREST, MINNOW_BILINEAR, MINNOW_BICUBIC };
enum { MINNOW_WRAP_CLAMP, MINNOW_WRAP_ZERO, MINNOW_WRAP_REPEAT };

/* What to do with an image on its way into a tensor. Initialize with MINNOW_IMAGE_PROCESS. */
typedef struct minnow_image_process {
  size_t struct_size; /* sizeof(minnow_image_process) */
  minnow_image_format source, target;
  int32_t filter;
  int32_t wrap;
  float mean[4], normal[4]; /* of each channel of the target: (byte - mean) * normal, in tensors of float32 */
  float matrix[9];          /* maps (x, y, 1) of a pixel in the tensor to that in the image, row by row */
  int32_t padding;          /* a byte, for all channels of the source */
  int32_t channels_last;    /* not 0: the tensor is [1, height, width, channels], else [1, channels, height, width] */
  int32_t threads;          /* 0: only the caller's */
} minnow_image_process;
#define MINNOW_IMAGE_PROCESS                                                                                \
  {                                                                                                         \
    sizeof(minnow_image_process), MINNOW_BGR, MINNOW_RGB, MINNOW_BILINEAR, MINNOW_WRAP_CLAMP, {0, 0, 0, 0}, \
        {1, 1, 1, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, 0, 0, 0                                                  \
  }
/* Converts an image to a tensor of float32 or uint8, in one pass: scales, turns, converts colors and normalizes. To fit
 * a whole image into a tensor, matrix[0] and matrix[4] are (width - 1) / (tensor width - 1) and the same of the
 * heights. `stride`: bytes from one row of the image to the next; 0: rows without gaps. Errors: MINNOW_USAGE;
 * MINNOW_UNSUPPORTED in a slim build without it. */
MINNOW_API minnow_code minnow_convert_image(const minnow_image_process* process, const void* pixels, int32_t width,
                                            int32_t height, int64_t stride, const minnow_tensor* tensor);

/* Times each node over several runs. `row_size` is sizeof(minnow_profile_row): the rows have the fields that the caller
 * knows. They belong to the session and are valid until the next such call. */
MINNOW_API minnow_code minnow_profile(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs,
                                      int32_t runs, size_t row_size, const minnow_profile_row** rows, size_t* num_rows);
MINNOW_API minnow_code minnow_get_stats(minnow_session* session, minnow_stats* stats);

/* Writes the weights that this model's sessions have packed so far, for this kind of processor, to a file beside the
 * model: the model's path with ".packed" appended. Later loads map that file instead of packing the weights; it is
 * ignored if it does not match the model or the processor. If the model has dynamic dimensions, run it once before.
 * Errors: MINNOW_USAGE, MINNOW_WRITE. */
MINNOW_API minnow_code minnow_write_packed(minnow_session* session);

#ifdef __cplusplus
}
#endif

#endif
