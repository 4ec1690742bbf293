#include "run_model.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace minnow::fuzz {
namespace {

constexpr size_t kMostTensors = 32, kMostElements = 1 << 16;

size_t element_size(minnow_dtype dtype) {
  switch (dtype) {
    case MINNOW_F64:
    case MINNOW_I64:
    case MINNOW_U64:
      return 8;
    case MINNOW_F32:
    case MINNOW_I32:
    case MINNOW_U32:
      return 4;
    case MINNOW_F16:
    case MINNOW_BF16:
    case MINNOW_I16:
    case MINNOW_U16:
      return 2;
    default:
      return 1;
  }
}

// Small numbers, which mean something as indices and sizes, too; now and then any bits.
void fill(minnow_dtype dtype, size_t count, uint32_t seed, std::vector<uint64_t>* words) {
  const size_t size = element_size(dtype);
  words->assign(count * size / 8 + 1, 0);
  char* data = reinterpret_cast<char*>(words->data());
  uint32_t dice = seed * 2654435761u + 1;
  const bool any = seed % 5 == 4;
  for (size_t i = 0; i < count; ++i) {
    dice = dice * 1664525u + 1013904223u;
    const int32_t small = static_cast<int32_t>(dice >> 24) % 7 - (seed % 3 == 0 ? 2 : 0);
    uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(small));
    if (any && i % 3 == 0) {
      bits = uint64_t{dice} << 32 | dice * 2246822519u;
    } else if (dtype == MINNOW_F32) {
      const auto number = static_cast<float>(small) * 0.75f;
      std::memcpy(&bits, &number, sizeof number);
    } else if (dtype == MINNOW_F64) {
      const double number = small * 0.75;
      std::memcpy(&bits, &number, sizeof number);
    } else if (dtype == MINNOW_F16) {
      bits = 0x3c00;
    } else if (dtype == MINNOW_BF16) {
      bits = 0x3f80;
    }
    if (dtype == MINNOW_BOOL) bits &= 1;
    if (dtype == MINNOW_I4 || dtype == MINNOW_U4 || dtype == MINNOW_F4E2M1) bits &= 15;
    if (dtype == MINNOW_I2 || dtype == MINNOW_U2) bits &= 3;
    if (dtype == MINNOW_F6E2M3 || dtype == MINNOW_F6E3M2) bits &= 63;
    std::memcpy(data + i * size, &bits, size);
  }
}

// False if that is more than a fuzzer should wait for.
bool make_inputs(minnow_session* session, uint32_t seed, std::vector<minnow_tensor>* inputs,
                 std::vector<std::vector<uint64_t>>* data) {
  const size_t n = minnow_num_inputs(session);
  if (n > kMostTensors) return false;
  inputs->assign(n, minnow_tensor{});
  data->assign(n, {});
  for (size_t i = 0; i < n; ++i) {
    minnow_tensor_info info = MINNOW_TENSOR_INFO;
    if (minnow_input_info(session, i, &info) != MINNOW_OK) return false;
    minnow_tensor& in = (*inputs)[i];
    in.dtype = info.dtype;
    in.rank = info.rank < 0 ? static_cast<int32_t>((seed + i) % 5) : info.rank;
    size_t count = 1;
    for (int32_t k = 0; k < in.rank; ++k) {
      const bool open = info.rank < 0 || info.shape[k] < 0;
      in.shape[k] = open ? static_cast<int64_t>(1 + (seed >> 2) % 3) : info.shape[k];
      if (in.shape[k] != 0 && count > kMostElements / static_cast<size_t>(in.shape[k])) return false;
      count *= static_cast<size_t>(in.shape[k]);
    }
    fill(in.dtype, count, seed + static_cast<uint32_t>(i), &(*data)[i]);
    in.data = (*data)[i].data();
  }
  return true;
}

}  // namespace

minnow_options small_options() {
  static const std::string precision =
      std::getenv("MINNOW_FUZZ_PRECISION") == nullptr ? "high" : std::getenv("MINNOW_FUZZ_PRECISION");
  minnow_options options = MINNOW_OPTIONS;
  options.threads = 1;
  options.precision = precision == "low" ? MINNOW_LOW : precision == "normal" ? MINNOW_NORMAL : MINNOW_HIGH;
  options.timeout_ms = kMostMilliseconds;
  options.max_memory = kMostMemory;
  options.max_rounds = kMostRounds;
  return options;
}

void run_session(minnow_session* session, uint32_t seed) {
  std::vector<minnow_tensor> inputs;
  std::vector<std::vector<uint64_t>> data;
  std::vector<minnow_tensor> outputs(std::min(minnow_num_outputs(session), kMostTensors));
  for (uint32_t round = 0; round < 2; ++round) {
    if (!make_inputs(session, seed + 4 * round, &inputs, &data)) return;
    if (minnow_run(session, inputs.data(), inputs.size(), outputs.data(), outputs.size()) != MINNOW_OK) return;
    for (const minnow_tensor& output : outputs) {  // all of it is there
      size_t bytes = element_size(output.dtype);
      for (int32_t k = 0; k < output.rank; ++k) bytes *= static_cast<size_t>(output.shape[k]);
      if (bytes == 0) continue;
      volatile char sink = static_cast<const char*>(output.data)[0] ^ static_cast<const char*>(output.data)[bytes - 1];
      (void)sink;
    }
  }
  if (seed % 8 == 0 && !outputs.empty()) {
    minnow_run_part(session, inputs.data(), inputs.size(), outputs.data(), 1);
  }
}

void run_model(minnow_model* model, uint32_t seed) {
  const minnow_options options = small_options();
  minnow_session* session = nullptr;
  if (minnow_create_session(model, &options, &session) == MINNOW_OK) run_session(session, seed);
  minnow_free_session(session);
  minnow_free_model(model);
}

}  // namespace minnow::fuzz
