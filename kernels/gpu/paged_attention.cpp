// PagedAttention: where each token lies, its key and value into the caches, and then the queries over them.
#include <algorithm>

#include "kernels/core/rounding.h"
#include "kernels/gpu/dense/layer.h"

namespace minnow::gpu {
namespace {

enum : size_t { kQ, kK, kV, kKeys, kValues, kStarts, kLengths, kBlocks, kSinks, kSlopes };
// As in paged_attention.gpu.
constexpr int64_t kMostHeads = 8, kMostQueries = 2048, kColumns = 256;
constexpr int64_t kMostTokens = 65535;  // work-groups of one direction
constexpr int64_t kEnough = 512;        // work-groups
constexpr int64_t kKeysOfPart = 256, kMostParts = 64;
constexpr int64_t kMost = (int64_t{1} << 31) - 1;

const TensorType* type_at(const NodeContext& node, size_t i) { return i < node.in.size() ? node.in[i] : nullptr; }

struct Sizes {
  explicit Sizes(const NodeContext& node) {
    heads = node.attrs.i("num_heads");
    kv = node.attrs.i("num_kv_heads");
    group = heads / kv;
    tokens = node.in[kQ]->shape[0];
    size = node.in[kQ]->shape[1] / heads;
    width = node.in[kV]->shape[1] / kv;
    cached = node.in[kKeys]->shape[0];
    block = node.in[kKeys]->shape[3];
    sequences = node.in[kLengths]->shape[0];
    columns = node.in[kBlocks]->shape[1];
  }
  int64_t heads, kv, group, tokens, size, width, cached, block, sequences, columns;
};

bool supports(const NodeContext& node, std::string* why) {
  for (size_t i = 0; i < node.in.size(); ++i) {
    const TensorType* type = node.in[i];
    if (type == nullptr) continue;
    const bool cache = i == kKeys || i == kValues, place = i >= kStarts && i <= kBlocks;
    const DType t = type->dtype;
    if (!(place ? t == DType::kI32 : t == DType::kF32 || t == DType::kF16 || (cache && t == DType::kI8)) ||
        (!cache && !place && t != node.in[kQ]->dtype)) {
      *why = std::string("pages no ") + dtype_name(t);
      return false;
    }
    if (type->count() > kMost) {
      *why = "computes tensors of less than 2^31 elements";
      return false;
    }
  }
  const Sizes s(node);
  if (s.tokens > kMostTokens || s.size > kMostQueries || s.columns * s.block > kMost / 2 ||
      s.cached * s.block > kMost) {
    *why = "computes at most 65535 tokens at once, with heads of 2048 features";
    return false;
  }
  return true;
}

Status wrong_place(const int32_t* words) {
  if (words[0] == 1) return fail(Code::kUsage, "sequence %d has the rows from %d to %d", words[1], words[2], words[3]);
  if (words[0] == 2)
    return fail(Code::kUsage, "sequence %d has %d tokens and gets %d: there are no places for them", words[1], words[2],
                words[3]);
  return fail(Code::kUsage, "block %d of sequence %d is %d, which is none of the cache", words[2], words[1], words[3]);
}

class PagedAttention final : public GpuKernel {
 public:
  explicit PagedAttention(const NodeContext& node) : s_(node) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    s_ = Sizes(node);
    device_ = &device_of(node);
    const Attrs& a = node.attrs;
    scale_ = static_cast<float>(a.f("scale", 1));
    cap_ = static_cast<float>(a.f("soft_cap", 0));
    // More than all there are: none.
    window_ = std::min<int64_t>(a.i("window", 0), s_.columns * s_.block + 1);
    type_ = static_cast<int>(node.in[kQ]->dtype);
    cache_ = static_cast<int>(node.in[kKeys]->dtype);
    has_sinks_ = type_at(node, kSinks) != nullptr;
    has_slopes_ = type_at(node, kSlopes) != nullptr;
    at_once_ = std::clamp<int64_t>(kMostQueries / s_.size, 1, std::min(kMostHeads, s_.group));
    chunks_ = groups_for(s_.group, at_once_);
    const int64_t groups = std::max<int64_t>(s_.tokens * s_.kv * chunks_, 1);
    const int64_t wanted = has_many_units(*device_) ? std::min(kEnough / groups, kMostParts) : 1;
    parts_ = std::clamp<int64_t>(s_.columns * s_.block / kKeysOfPart, 1, std::max<int64_t>(wanted, 1));
    if (parts_ * s_.tokens * s_.heads * (s_.width + 2) > kMost) parts_ = 1;
    *workspace = places_bytes() + sums_bytes();
    for (size_t i : {0, 1}) {
      missing_[i] = node.out.size() <= i + 1 || node.out[i + 1] == nullptr;
      if (missing_[i]) *workspace += round_up(node.in[kKeys + i]->bytes(), 256);
    }
    return ok();
  }

  Status enqueue(const RunContext& context, Stream& stream) override {
    char* space = static_cast<char*>(context.workspace);
    void* const places = space;
    void* const sums = parts_ > 1 ? space + places_bytes() : places;
    space += places_bytes() + sums_bytes();
    void* caches[2];
    for (size_t i : {0, 1}) {
      const Tensor& from = *context.in[kKeys + i];
      caches[i] = missing_[i] ? space : context.out[1 + i]->data;
      if (missing_[i]) space += round_up(from.type.bytes(), 256);
      if (from.count() == 0)
        caches[i] = places;
      else if (caches[i] != from.data)
        MINNOW_RETURN_IF_ERROR(stream.copy(from.data, caches[i], from.type.bytes()));
    }
    MINNOW_RETURN_IF_ERROR(find_places(context, stream, places));
    if (s_.tokens == 0) return ok();
    if (s_.cached > 0 && s_.sequences > 0) MINNOW_RETURN_IF_ERROR(store(context, stream, places, caches));
    return look(context, stream, places, caches, sums);
  }

  Profile profile() const override {
    return {parts_ > 1 ? "parts" : "rows", s_.tokens * s_.heads * s_.columns * s_.block * (s_.size + s_.width)};
  }

 private:
  int64_t places_bytes() const { return round_up(std::max<int64_t>(3 * s_.tokens, 1) * 4, 256); }
  int64_t sums_bytes() const {
    return parts_ == 1 ? 0 : round_up(parts_ * s_.tokens * s_.heads * (s_.width + 2) * 4, 256);
  }
  static void add(Arguments* to, std::initializer_list<int64_t> numbers) {
    for (int64_t n : numbers) to->add(static_cast<int32_t>(n));
  }

  Status find_places(const RunContext& context, Stream& stream, void* places) const {
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("paged_places", {}, &program));
    void* error = nullptr;
    MINNOW_RETURN_IF_ERROR(stream.error_slot(context, wrong_place, &error));
    const void* starts = context.in[kStarts]->data;
    const bool empty = s_.sequences * s_.columns == 0;
    Arguments arguments;
    arguments.buffer(starts).buffer(s_.sequences == 0 ? starts : context.in[kLengths]->data);
    arguments.buffer(empty ? starts : context.in[kBlocks]->data).buffer(places).buffer(error);
    add(&arguments, {s_.tokens, s_.sequences, s_.columns, s_.block, s_.cached});
    const int64_t items = std::max(s_.tokens, s_.sequences);
    return stream.launch(*program, arguments,
                         {std::clamp<int64_t>(groups_for(items, program->text.group), 1, kMostTokens)});
  }

  Status store(const RunContext& context, Stream& stream, const void* places, void* const* caches) const {
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("paged_store", {{"TYPE", type_}, {"CACHE", cache_}}, &program));
    Arguments arguments;
    arguments.buffer(context.in[kK]->data).buffer(context.in[kV]->data).buffer(caches[0]).buffer(caches[1]);
    arguments.buffer(places);
    add(&arguments, {s_.tokens, s_.kv, s_.size, s_.width, s_.block});
    return stream.launch(*program, arguments, {s_.tokens, s_.kv, 2});
  }

  Status look(const RunContext& context, Stream& stream, const void* places, void* const* caches, void* sums) const {
    const void* y = context.out[0]->data;
    const void* const sinks = has_sinks_ ? context.in[kSinks]->data : y;
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("paged_attention",
                                            {{"TYPE", type_},
                                             {"CACHE", cache_},
                                             {"HEADS", static_cast<int>(at_once_)},
                                             {"SINKS", has_sinks_ ? 1 : 0},
                                             {"SLOPES", has_slopes_ ? 1 : 0}},
                                            &program));
    Arguments arguments;
    arguments.buffer(context.in[kQ]->data).buffer(caches[0]).buffer(caches[1]).buffer(places);
    arguments.buffer(s_.sequences * s_.columns == 0 ? places : context.in[kBlocks]->data).buffer(sinks);
    arguments.buffer(has_slopes_ ? context.in[kSlopes]->data : y).buffer(y).buffer(sums);
    add(&arguments, {s_.kv, s_.group, chunks_, s_.size, s_.width, s_.block, s_.columns, s_.cached, window_, parts_});
    arguments.add(scale_).add(cap_);
    MINNOW_RETURN_IF_ERROR(
        stream.launch(*program, arguments, {s_.tokens, s_.kv * chunks_, parts_ * groups_for(s_.width, kColumns)}));
    if (parts_ == 1) return ok();
    MINNOW_RETURN_IF_ERROR(device_->program("paged_join", {{"TYPE", type_}, {"SINKS", has_sinks_ ? 1 : 0}}, &program));
    Arguments join;
    join.buffer(sums).buffer(places).buffer(sinks).buffer(y);
    add(&join, {s_.heads, s_.width, parts_});
    return stream.launch(*program, join, {s_.tokens, s_.heads});
  }

  Sizes s_;
  Device* device_ = nullptr;
  float scale_ = 1, cap_ = 0;
  int type_ = 0, cache_ = 0;
  int64_t window_ = 0, at_once_ = 1, chunks_ = 1, parts_ = 1;
  bool has_sinks_ = false, has_slopes_ = false, missing_[2] = {};
};

std::unique_ptr<Kernel> create(const NodeContext& node) { return std::make_unique<PagedAttention>(node); }

}  // namespace

MINNOW_GPU_KERNEL("PagedAttention", create, supports);

}  // namespace minnow::gpu
