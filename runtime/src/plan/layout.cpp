#include "runtime/src/plan/layout.h"

#include <algorithm>

namespace minnow {
namespace {

bool is_full_or_channel(const Shape& shape, const Shape& full) {
  if (shape == full) return true;
  if (shape.rank() != full.rank() || shape[1] != full[1]) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != 1 && shape[i] != 1) return false;
  return true;
}

// Channel blocks would be padding for the most part: on plain memory there is several times less to compute.
bool is_mostly_padding(const Shape& shape, int block) { return shape.rank() >= 2 && shape[1] * 4 <= block; }

// Not numbers for each channel. An image of one pixel lies alike in both layouts, where vectors of channels are whole.
bool is_image(const Shape& shape) { return shape.rank() > 2 && shape.count() != std::max(shape[0], shape[1]); }

}  // namespace

bool can_be_packed(const KernelRow& row, const Attrs& attrs, const std::vector<const TensorType*>& inputs,
                   const std::vector<bool>& packed, const TensorType& out, int channel_block) {
  if (inputs.empty() || inputs[0] == nullptr || channel_block == 1) return false;
  const auto is_packed = [&](size_t i) { return inputs[i] != nullptr && packed[i]; };
  switch (row.layout_of(inputs, attrs)) {
    case LayoutRule::kPlain:
      return false;
    case LayoutRule::kPacked:
    case LayoutRule::kPacks:
      return inputs[0]->shape.rank() >= 2;
    case LayoutRule::kLast:
    case LayoutRule::kMakesLast:
    case LayoutRule::kReadsLast:
      // Integers end as bytes, or in planes.
      return dtype_size(inputs[0]->dtype) != 1 || dtype_size(out.dtype) == 1;
    case LayoutRule::kConcatLast: {
      const int64_t axis = attrs.i("axis");
      bool all = inputs[0]->shape.rank() == 4 && (axis == 1 || axis == -3);
      for (size_t i = 0; i < inputs.size(); ++i) all = all && inputs[i] != nullptr && packed[i];
      return all;
    }
    case LayoutRule::kFollowLast:
      return std::find(packed.begin(), packed.end(), true) != packed.end() && out.shape.rank() == 4 &&
             dtype_size(out.dtype) == 1 && (attrs.i("axis", 1) == 1 || attrs.i("axis") == -3);
    case LayoutRule::kFollow:
      return is_packed(0) && inputs[0]->shape.rank() >= 2 && out.shape.rank() >= 2 &&
             !is_mostly_padding(out.shape, channel_block);
    case LayoutRule::kElementwise: {
      bool some = false;
      if (out.shape.rank() < 2 || is_mostly_padding(out.shape, channel_block)) return false;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == nullptr || inputs[i]->count() == 1) continue;
        if (!is_full_or_channel(inputs[i]->shape, out.shape)) return false;
        some = some || packed[i];
      }
      return some;
    }
    case LayoutRule::kConcat: {
      const int rank = inputs[0]->shape.rank();
      if (rank < 2) return false;
      int64_t axis = attrs.i("axis");
      if (axis < 0) axis += rank;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == nullptr || !packed[i]) return false;
        if (channel_block == kChannelsLast) continue;
        if (axis == 1 && i + 1 < inputs.size() && inputs[i]->shape[1] % channel_block != 0) return false;
      }
      return true;
    }
  }
  return false;
}

Layout operand_layout(LayoutRule rule, size_t i, const TensorType& type, bool packed) {
  if (!packed) return Layout::kPlain;
  switch (rule) {
    case LayoutRule::kPacked:
      if (i == 0) return Layout::kPacked;
      if (i == kResidual) return type.shape.rank() > 1 ? Layout::kPacked : Layout::kPlain;
      if ((i == kOtherTerm || i == kQuantizedTerm) && dtype_size(type.dtype) == 1)
        return type.shape.rank() > 2 ? Layout::kPacked : Layout::kPlain;
      return i == kMoreChannels && is_image(type.shape) ? Layout::kPacked : Layout::kPlain;
    case LayoutRule::kPacks:
      return i == kResidual ? Layout::kPacked : Layout::kPlain;
    case LayoutRule::kFollow:
      return i == 0 ? Layout::kPacked : Layout::kPlain;
    case LayoutRule::kMakesLast:
      return Layout::kPlain;
    case LayoutRule::kConcatLast:
      return Layout::kLast;
    case LayoutRule::kLast:
    case LayoutRule::kReadsLast:
      if (i == kResidual && type.dtype == DType::kF32 && type.shape.rank() == 4) return Layout::kLast;
      return i == 0 ? Layout::kLast : Layout::kPlain;
    case LayoutRule::kFollowLast:
      return type.shape.rank() == 4 && dtype_size(type.dtype) == 1 ? Layout::kLast : Layout::kPlain;
    case LayoutRule::kElementwise:
      return type.count() == 1 ? Layout::kPlain : Layout::kPacked;
    default:
      return Layout::kPacked;
  }
}

}  // namespace minnow
