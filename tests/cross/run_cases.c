/* Runs models through the C API where there is no Python: reads cases from stdin, writes what comes out to stdout.
 *
 * In:  i32 threads, i32 precision, then for each case: u64 size, the .mnn file, i32 number of inputs, the inputs.
 * Out: for each case: i32 code; if it is not 0, u64 length and the message, else i32 number of outputs, the outputs.
 * A tensor is: i32 dtype, i32 rank, i64 shape[rank], u64 bytes, the data. Byte order is that of the processor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "minnow/minnow.h"

enum { kMost = 64 };

static void take(void* to, size_t bytes) {
  if (fread(to, 1, bytes, stdin) != bytes) exit(3);
}

static void* take_block(uint64_t* bytes) {
  void* block;
  take(bytes, sizeof(*bytes));
  block = malloc(*bytes + 1);
  if (block == NULL) exit(3);
  take(block, *bytes);
  return block;
}

static void give(const void* from, size_t bytes) {
  if (bytes != 0 && fwrite(from, 1, bytes, stdout) != bytes) exit(3);
}

static void give_tensor(const minnow_tensor* t) {
  static const uint64_t kWide[] = {4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 8, 8}; /* all types after these are of a byte */
  uint64_t bytes = t->dtype < 12 ? kWide[t->dtype] : 1;
  for (int32_t i = 0; i < t->rank; ++i) bytes *= (uint64_t)t->shape[i];
  give(&t->dtype, sizeof(t->dtype));
  give(&t->rank, sizeof(t->rank));
  give(t->shape, sizeof(t->shape[0]) * (size_t)t->rank);
  give(&bytes, sizeof(bytes));
  give(t->data, bytes);
}

static minnow_code run(const void* file, uint64_t size, const minnow_options* options, const minnow_tensor* inputs,
                       int32_t count) {
  minnow_tensor outputs[kMost];
  minnow_model* model = NULL;
  minnow_session* session = NULL;
  int32_t number = 0;
  minnow_code code = minnow_load_memory(file, size, &model);
  if (code == MINNOW_OK) code = minnow_create_session(model, options, &session);
  if (code == MINNOW_OK) {
    number = (int32_t)minnow_num_outputs(session);
    if (number > kMost) exit(3);
    memset(outputs, 0, sizeof(outputs));
    code = minnow_run(session, inputs, (size_t)count, outputs, (size_t)number);
  }
  give(&code, sizeof(code));
  if (code == MINNOW_OK) {
    give(&number, sizeof(number));
    for (int32_t i = 0; i < number; ++i) give_tensor(&outputs[i]);
  } else {
    const uint64_t length = strlen(minnow_last_error());
    give(&length, sizeof(length));
    give(minnow_last_error(), length);
  }
  minnow_free_session(session);
  minnow_free_model(model);
  return code;
}

int main(void) {
  minnow_options options = MINNOW_OPTIONS;
  uint64_t size;
  take(&options.threads, sizeof(options.threads));
  take(&options.precision, sizeof(options.precision));
  while (fread(&size, 1, sizeof(size), stdin) == sizeof(size)) {
    minnow_tensor inputs[kMost];
    int32_t count;
    uint64_t bytes;
    void* file = malloc(size);
    if (file == NULL) return 3;
    take(file, size);
    take(&count, sizeof(count));
    if (count > kMost) return 3;
    memset(inputs, 0, sizeof(inputs));
    for (int32_t i = 0; i < count; ++i) {
      take(&inputs[i].dtype, sizeof(inputs[i].dtype));
      take(&inputs[i].rank, sizeof(inputs[i].rank));
      take(inputs[i].shape, sizeof(inputs[i].shape[0]) * (size_t)inputs[i].rank);
      inputs[i].data = take_block(&bytes);
    }
    run(file, size, &options, inputs, count);
    for (int32_t i = 0; i < count; ++i) free(inputs[i].data);
    free(file);
  }
  return 0;
}
