/* Loads each .mnn file given, makes a session, runs it on zeros and on small numbers, and prints what that came to:
 *
 *   CODE FILE: MESSAGE
 *
 * Whatever the files hold, the program ends with 0.
 */
#include <minnow/minnow.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMost = 64, kMostBytes = 1 << 26 };

static void* numbers(minnow_tensor* tensor, int seed) {
  size_t count = 1;
  for (int32_t i = 0; i < tensor->rank; ++i) {
    if (tensor->shape[i] != 0 && count > kMostBytes / 8 / (size_t)tensor->shape[i]) return NULL;
    count *= (size_t)tensor->shape[i];
  }
  unsigned char* data = calloc(count + 1, 8); /* no type has more bytes */
  if (seed == 0 || data == NULL) return data;
  if (tensor->dtype == MINNOW_F32) {
    for (size_t i = 0; i < count; ++i) ((float*)(void*)data)[i] = (float)(i % 7) - 3;
  } else { /* 1 in integers, true */
    const size_t size = tensor->dtype == MINNOW_I64 ? 8 : tensor->dtype == MINNOW_I32 ? 4 : 1;
    for (size_t i = 0; i < count; ++i) data[i * size] = 1;
  }
  return data;
}

static minnow_code run(minnow_session* session, int seed) {
  minnow_tensor inputs[kMost], outputs[kMost];
  const size_t n = minnow_num_inputs(session), m = minnow_num_outputs(session);
  minnow_code code = MINNOW_OK;
  if (n > kMost || m > kMost) return code;
  memset(inputs, 0, sizeof inputs);
  memset(outputs, 0, sizeof outputs);
  for (size_t i = 0; i < n && code == MINNOW_OK; ++i) {
    minnow_tensor_info info = MINNOW_TENSOR_INFO;
    code = minnow_input_info(session, i, &info);
    if (code != MINNOW_OK) break;
    inputs[i].dtype = info.dtype;
    inputs[i].rank = info.rank < 0 ? 1 : info.rank;
    for (int32_t k = 0; k < inputs[i].rank; ++k)
      inputs[i].shape[k] = info.rank < 0 || info.shape[k] < 0 ? 2 : info.shape[k];
    inputs[i].data = numbers(&inputs[i], seed);
    if (inputs[i].data == NULL) code = MINNOW_UNSUPPORTED; /* nobody has that much */
  }
  if (code == MINNOW_OK) code = minnow_run(session, inputs, n, outputs, m);
  for (size_t i = 0; i < n; ++i) free(inputs[i].data);
  return code;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    minnow_options options = MINNOW_OPTIONS;
    minnow_model* model = NULL;
    minnow_session* session = NULL;
    options.threads = 1;
    options.max_rounds = 200000; /* sanitizers are slow */
    printf("%s\n", argv[i]);     /* should it crash */
    fflush(stdout);
    minnow_code code = minnow_load_file(argv[i], &model);
    if (code == MINNOW_OK) code = minnow_create_session(model, &options, &session);
    for (int seed = 0; seed < 2 && code == MINNOW_OK; ++seed) code = run(session, seed);
    printf("%d %s: %s\n", code, argv[i], code == MINNOW_OK ? "" : minnow_last_error());
    minnow_free_session(session);
    minnow_free_model(model);
  }
  return 0;
}
