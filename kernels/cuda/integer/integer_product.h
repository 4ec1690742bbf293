// Products of 8-bit integers: the ways to compute one, by tensor cores, and what makes operands fit them.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/integer/arguments.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

// A tile of the table, and how many blocks of a cluster share its depth.
struct IntegerConfig {
  int tile = 0, cluster = 1;
};
int integer_tiles();
// Sorted by an estimate of their time; empty: none can.
std::vector<IntegerConfig> integer_configs(const IntegerProduct& product, const Target& target, size_t most);
bool can_multiply(const IntegerProduct& product, const IntegerConfig& config, const Target& target);
std::string config_name(const IntegerConfig& config);  // "int8_64x64x4 z2"
cudaError_t multiply_integers(const IntegerProduct& product, const IntegerConfig& config, const Target& target);

// Rows of `count` bytes, one after the other, to rows of `padded` bytes that end with zeros.
cudaError_t pad_rows(const void* from, void* to, int64_t rows, int count, int padded, const Target& target);

// What comes as [batch, k, n], while the network runs, as weights [batch, n, depth].
struct TurnedWeights {
  const void* from = nullptr;
  bool is_unsigned = false;
  int batch = 1, k = 0, n = 0;
  const void* zero = nullptr;  // of `from`'s type: one number, or n of them; or null
  int zero_step = 0;           // 1: n of them
  int8_t* to = nullptr;        // less 128, where they are unsigned
  int depth = 0;               // k up to a multiple of 16
  // [batch, n up to a multiple of 8], see IntegerEnding
  int32_t* correction = nullptr;
  int32_t* w_zero = nullptr;
};
cudaError_t turn_weights(const TurnedWeights& turn, const Target& target);

// 16 times the byte at `from`.
cudaError_t spread_byte(const void* from, void* to, const Target& target);

// A depthwise convolution, channels last. Weights are words [taps, channels up to a multiple of 8]: those of an odd
// channel are in the upper half. Of `shape`, sizes, strides, x, pad, flip and the ending matter.
struct IntegerDepthwise {
  int images = 1, channels = 0;  // a multiple of 8
  const int32_t* words = nullptr;
  IntegerArguments shape;
};
cudaError_t integer_depthwise(const IntegerDepthwise& conv, const Target& target);

// A convolution in groups of any sizes, one result by a thread. Weights are [outputs, taps, inputs of a group].
struct IntegerGroups {
  int images = 1, groups = 1, inputs = 0, outputs = 0;  // of a group
  const int8_t* w = nullptr;
  int x_zero = 0;                   // as x is multiplied
  const void* x_zero_at = nullptr;  // takes its place
  IntegerArguments shape;
};
cudaError_t integer_groups(const IntegerGroups& conv, const Target& target);

}  // namespace minnow::cuda
