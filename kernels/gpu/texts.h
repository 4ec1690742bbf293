// The texts of this build, sorted by name: in the same order for each API.
#pragma once

#include "kernels/gpu/device.h"

namespace minnow::gpu {

extern const TextInfo kTexts[];
extern const int kNumTexts;

inline int index_of(const TextInfo& text) { return static_cast<int>(&text - kTexts); }

// All constants of the text, in its order: those that are given, and what the text says of the others. An error where
// one is given that it does not have.
Status resolve_constants(const TextInfo& text, std::initializer_list<Constant> given, std::vector<Constant>* out,
                         std::vector<std::string>* names);

}  // namespace minnow::gpu
