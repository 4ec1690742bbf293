/* An op of your own for the engine: the distances between the rows of two matrices. distance.py is its side of the
 * conversion.
 *
 *   cc -std=c99 -O2 -shared -fPIC -I ../../runtime/include distance.c -o libdistance.so -lm
 *   mnnconvert convert model.onnx --op-plugin distance.py
 *   MINNOW_PLUGINS=$PWD/libdistance.so mnnconvert run model.mnn
 */
#include <math.h>
#include <minnow/op.h>
#include <stdlib.h>

static const minnow_op_host* host;

static const char* infer(minnow_attrs* attrs, const minnow_tensor* in, size_t num_inputs, minnow_tensor* out,
                         size_t num_outputs) {
  (void)attrs;
  if (num_inputs != 2 || num_outputs != 1) return "it takes two matrices and gives one";
  if (in[0].rank != 2 || in[1].rank != 2 || in[0].dtype != MINNOW_F32 || in[1].dtype != MINNOW_F32)
    return "it takes matrices of f32";
  if (in[0].shape[1] != in[1].shape[1]) return "the rows of the two matrices have different lengths";
  out[0].dtype = MINNOW_F32;
  out[0].rank = 2;
  out[0].shape[0] = in[0].shape[0];
  out[0].shape[1] = in[1].shape[0];
  return NULL;
}

/* What runs need and is not in the tensors. */
struct distance {
  int64_t squared;
};

static const char* create(minnow_attrs* attrs, const minnow_tensor* in, size_t num_inputs, const minnow_tensor* out,
                          size_t num_outputs, void** state) {
  (void)in, (void)num_inputs, (void)out, (void)num_outputs;
  struct distance* made = malloc(sizeof *made);
  if (made == NULL) return "no memory is left";
  made->squared = host->attr_int(attrs, "squared", 0);
  *state = made;
  return NULL;
}

static const char* run(void* state, const minnow_tensor* in, size_t num_inputs, const minnow_tensor* out,
                       size_t num_outputs) {
  (void)num_inputs, (void)num_outputs;
  const struct distance* self = state;
  const float *a = in[0].data, *b = in[1].data;
  float* y = out[0].data;
  const int64_t n = in[0].shape[0], m = in[1].shape[0], length = in[0].shape[1];
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < length; ++k) {
        const float d = a[i * length + k] - b[j * length + k];
        sum += d * d;
      }
      y[i * m + j] = self->squared ? sum : sqrtf(sum);
    }
  }
  return NULL;
}

static const minnow_op kOps[] = {{sizeof(minnow_op), "Distance", infer, create, run, free}};
static const minnow_op_library kLibrary = {MINNOW_OP_VERSION, 1, kOps};

const minnow_op_library* minnow_ops(const minnow_op_host* given) {
  host = given;
  return &kLibrary;
}
