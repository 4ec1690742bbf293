// PagedAttention: new keys and values are written into the caches, then tiles of queries look at them (paged_tile.cpp).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/infer.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/attention/paged_tile.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

constexpr int64_t kTileRows = 48;
constexpr int64_t kSerialWork = 30000;          // multiply-accumulates; fewer are not worth waking a thread
constexpr int64_t kMostStateBytes = 8 << 20;    // of chunks that are computed side by side
constexpr int64_t kScaleBytes = sizeof(float);  // of a key or a value in a cache of i8
struct PagedInput {
  enum : size_t { kQ, kK, kV, kKeys, kValues, kStarts, kLengths, kBlocks, kSinks, kSlopes };
};

struct PagedSizes {
  int64_t tokens = 0, sequences = 0, most = 0;  // most: blocks of a sequence
  int64_t heads = 0, kv = 0, group = 0, size = 0, width = 0;
  int64_t cached = 0, block = 0;  // blocks of the caches, tokens of a block
  DType dtype = DType::kF32;      // of the caches

  int64_t extra() const { return dtype == DType::kI8 ? kScaleBytes : 0; }
  int64_t key_block() const { return (size + extra()) * block; }
  int64_t value_block() const { return (width + extra()) * block; }
  int64_t capacity() const { return most * block; }
};

Status read_sizes(const Attrs& attrs, const std::vector<const TensorType*>& in, PagedSizes* s) {
  const auto shape = [&](size_t i) -> const Shape& { return in[i]->shape; };
  constexpr int kRanks[] = {2, 2, 2, 4, 4, 1, 1, 2, 1, 1};
  for (size_t i = 0; i < in.size() && i <= PagedInput::kSlopes; ++i) {
    if (in[i] == nullptr) continue;
    const DType type = in[i]->dtype;
    const bool cache = i == PagedInput::kKeys || i == PagedInput::kValues,
               place = i >= PagedInput::kStarts && i <= PagedInput::kBlocks;
    const bool fits = cache   ? type == DType::kF32 || type == DType::kF16 || type == DType::kI8
                      : place ? type == DType::kI32
                              : type == DType::kF32;
    if (!fits || shape(i).rank() != kRanks[i])
      return fail(Code::kFormat, "input %zu is %s%s", i, dtype_name(type), shape(i).str().c_str());
  }
  s->heads = attrs.i("num_heads");
  s->kv = attrs.i("num_kv_heads");
  if (s->heads < 1 || s->kv < 1 || s->heads % s->kv != 0 || s->heads > int64_t{1} << 30)
    return fail(Code::kFormat, "%lld heads of queries cannot share %lld of keys and values",
                static_cast<long long>(s->heads), static_cast<long long>(s->kv));
  if (attrs.i("window") < 0 || !(attrs.f("soft_cap") >= 0 && std::isfinite(attrs.f("soft_cap"))))
    return fail(Code::kFormat, "a window or a cap that makes no sense");
  s->group = s->heads / s->kv;
  s->tokens = shape(PagedInput::kQ)[0];
  s->size = shape(PagedInput::kQ)[1] / s->heads;
  s->width = shape(PagedInput::kV)[1] / s->kv;
  s->dtype = in[PagedInput::kKeys]->dtype;
  s->cached = shape(PagedInput::kKeys)[0];
  s->block = shape(PagedInput::kKeys)[3];
  s->sequences = shape(PagedInput::kLengths)[0];
  s->most = shape(PagedInput::kBlocks)[1];
  const auto has = [&](size_t i) { return i < in.size() && in[i] != nullptr; };
  if (shape(PagedInput::kQ) == Shape{s->tokens, s->heads * s->size} &&
      shape(PagedInput::kK) == Shape{s->tokens, s->kv * s->size} &&
      shape(PagedInput::kV) == Shape{s->tokens, s->kv * s->width} && in[PagedInput::kValues]->dtype == s->dtype &&
      s->size > 0 && s->width > 0 && s->block > 0 &&
      shape(PagedInput::kKeys) == Shape{s->cached, s->kv, s->size + s->extra(), s->block} &&
      shape(PagedInput::kValues) == Shape{s->cached, s->kv, s->block, s->width + s->extra()} &&
      shape(PagedInput::kStarts) == Shape{s->sequences + 1} &&
      shape(PagedInput::kBlocks) == Shape{s->sequences, s->most} &&
      (!has(PagedInput::kSinks) || shape(PagedInput::kSinks) == Shape{s->heads}) &&
      (!has(PagedInput::kSlopes) || shape(PagedInput::kSlopes) == Shape{s->heads}))
    return ok();
  return fail(Code::kFormat, "operands that do not fit each other");
}

Status infer_paged_attention(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, PagedInput::kBlocks + 1));
  std::vector<const TensorType*> in;
  for (int i = 0; i < c.num_inputs(); ++i) in.push_back(c.has(i) ? &c.in(i) : nullptr);
  PagedSizes s;
  MINNOW_RETURN_IF_ERROR(read_sizes(c.attrs, in, &s));
  const Shape y{s.tokens, s.heads * s.width};
  MINNOW_RETURN_IF_ERROR(check_shape(y));
  if (c.num_outputs() != 3) return fail(Code::kFormat, "%d outputs, not 3", c.num_outputs());
  c.set(0, DType::kF32, y);
  c.set(1, s.dtype, c.shape(PagedInput::kKeys));
  c.set(2, s.dtype, c.shape(PagedInput::kValues));
  return ok();
}

// A sequence of the batch.
struct PagedSequence {
  int64_t row, tokens, length;  // the first of its new tokens, how many there are, and those before
  const int32_t* table;
};

class PagedAttention final : public Kernel {
 public:
  explicit PagedAttention(const NodeContext& node) : attrs_(node.attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    MINNOW_RETURN_IF_ERROR(read_sizes(attrs_, node.in, &s_));
    threads_ = node.threads;
    tile_tokens_ = std::max<int64_t>(1, std::min(kTileRows / s_.group, s_.tokens));
    const int64_t rows = tile_tokens_ * s_.group;
    state_floats_ = rows * paged_state_floats(s_.width);
    own_floats_ = round_up(
        state_floats_ + paged_space_floats(rows, s_.block, s_.size, s_.width) + std::max(s_.size, s_.width), 16);
    // Where there are few tiles, chunks of the keys are shared out, too.
    most_chunks_ = s_.capacity() / kPagedChunk + 1;
    const int64_t tiles = std::min<int64_t>(s_.tokens, 4 * threads_) * s_.kv;
    shared_tiles_ = std::min(tiles, kMostStateBytes / (most_chunks_ * state_floats_ * kFloat));
    *workspace = round_up((s_.sequences + 1) * static_cast<int64_t>(sizeof(int64_t)), 64) +
                 (threads_ * own_floats_ + round_up(shared_tiles_ * most_chunks_ * state_floats_, 16)) * kFloat;
    for (size_t i : {0, 1}) {
      missing_[i] = node.out.size() <= i + 1 || node.out[i + 1] == nullptr;
      if (missing_[i]) *workspace += round_up(node.in[PagedInput::kKeys + i]->bytes(), 64);
    }
    return ok();
  }

  [[gnu::cold]] Profile profile() const override { return {std::string("blocks_") + dtype_name(s_.dtype)}; }

  void run(const RunContext& c) override {
    int64_t* tiles = static_cast<int64_t*>(c.workspace);
    float* space = static_cast<float*>(
        static_cast<void*>(offset(c.workspace, round_up((s_.sequences + 1) * int64_t{sizeof(int64_t)}, 64), 1)));
    char* copies = offset(static_cast<void*>(space),
                          threads_ * own_floats_ + round_up(shared_tiles_ * most_chunks_ * state_floats_, 16), kFloat);
    Status status = check(c, tiles);
    if (!status.ok()) return c.report(std::move(status));
    char* caches[2];
    for (size_t i : {0, 1}) {
      const Tensor& from = *c.in[PagedInput::kKeys + i];
      caches[i] = missing_[i] ? copies : static_cast<char*>(c.out[1 + i]->data);
      if (missing_[i]) copies += round_up(from.type.bytes(), 64);
      if (caches[i] != from.data && from.type.bytes() > 0)
        std::memcpy(caches[i], from.data, static_cast<size_t>(from.type.bytes()));
    }
    float* y = c.out[0]->as<float>();
    const int64_t used = c.in[PagedInput::kStarts]->as<int32_t>()[s_.sequences];
    std::fill(y + used * s_.heads * s_.width, y + s_.tokens * s_.heads * s_.width, 0.0f);
    if (used == 0) return;
    store(c, caches, space);
    look(c, caches, tiles, space, y);
  }

 private:
  static constexpr int64_t kFloat = sizeof(float);

  PagedSequence sequence(const RunContext& c, int64_t i) const {
    const int32_t* starts = c.in[PagedInput::kStarts]->as<int32_t>();
    return {starts[i], starts[i + 1] - starts[i], c.in[PagedInput::kLengths]->as<int32_t>()[i],
            c.in[PagedInput::kBlocks]->as<int32_t>() + i * s_.most};
  }

  // Everything that is used as a place, before anything is written; tiles[i]: of the sequences before i.
  Status check(const RunContext& c, int64_t* tiles) const {
    const int32_t* starts = c.in[PagedInput::kStarts]->as<int32_t>();
    if (starts[0] != 0) return fail(Code::kUsage, "the first sequence starts at row %d, not 0", starts[0]);
    tiles[0] = 0;
    for (int64_t i = 0; i < s_.sequences; ++i) {
      const auto at = static_cast<long long>(i);
      if (starts[i + 1] < starts[i] || starts[i + 1] > s_.tokens)
        return fail(Code::kUsage, "sequence %lld has the rows from %d to %d, of %lld", at, starts[i], starts[i + 1],
                    static_cast<long long>(s_.tokens));
      const PagedSequence q = sequence(c, i);
      if (q.length < 0 || q.length + q.tokens > s_.capacity())
        return fail(Code::kUsage, "sequence %lld has %lld tokens and gets %lld, with places for %lld", at,
                    static_cast<long long>(q.length), static_cast<long long>(q.tokens),
                    static_cast<long long>(s_.capacity()));
      const int64_t blocks = q.tokens == 0 ? 0 : (q.length + q.tokens + s_.block - 1) / s_.block;
      for (int64_t b = 0; b < blocks; ++b)
        if (q.table[b] < 0 || q.table[b] >= s_.cached)
          return fail(Code::kUsage, "block %lld of sequence %lld is %d, of %lld in the cache",
                      static_cast<long long>(b), at, q.table[b], static_cast<long long>(s_.cached));
      tiles[i + 1] = tiles[i] + (q.tokens + tile_tokens_ - 1) / tile_tokens_;
    }
    return ok();
  }

  // Writes new keys and values, those of a head in the order of the tokens.
  void store(const RunContext& c, char* const* caches, float* space) const {
    const int64_t heads = 2 * s_.kv, features = s_.tokens * std::max(s_.size, s_.width);
    const int64_t grain = features * heads < kSerialWork ? heads : 1;
    c.pool->parallel_for(heads, grain, [&](int64_t begin, int64_t end, int worker) {
      float* row = space + (worker + 1) * own_floats_ - std::max(s_.size, s_.width);
      for (int64_t head = begin; head < end; ++head) {
        const bool values = head >= s_.kv;
        const int64_t h = head % s_.kv, size = values ? s_.width : s_.size;
        const float* from = c.in[values ? PagedInput::kV : PagedInput::kK]->as<float>() + h * size;
        for (int64_t i = 0; i < s_.sequences; ++i) {
          const PagedSequence q = sequence(c, i);
          for (int64_t j = 0; j < q.tokens; ++j) {
            const int64_t at = q.length + j, place = q.table[at / s_.block] * s_.kv + h;
            store_row(from + (q.row + j) * s_.kv * size, values, caches[values], place, at % s_.block, row);
          }
        }
      }
    });
  }

  void store_row(const float* from, bool values, char* cache, int64_t place, int64_t slot, float* space) const {
    const size_t bytes = dtype_size(s_.dtype);
    const int64_t n = values ? s_.width : s_.size;
    char* block = offset(static_cast<void*>(cache), place * (values ? s_.value_block() : s_.key_block()), bytes);
    void* to = values ? offset(static_cast<void*>(block), slot * (n + s_.extra()), bytes) : static_cast<void*>(space);
    const void* row = to;
    if (s_.dtype == DType::kI8) {
      const float scale = quantize(from, n, static_cast<int8_t*>(to));
      char* behind = values ? static_cast<char*>(to) + n : block + n * s_.block + slot * kScaleBytes;
      std::memcpy(behind, &scale, sizeof scale);
    } else if (s_.dtype != DType::kF32 || values) {
      convert(DType::kF32, from, s_.dtype, to, n);
    } else {
      row = from;
    }
    if (values) return;
    const auto scatter = [&](auto number) {
      using T = decltype(number);
      T* column = reinterpret_cast<T*>(block) + slot;
      for (int64_t i = 0; i < n; ++i) column[i * s_.block] = static_cast<const T*>(row)[i];
    };
    bytes == 1 ? scatter(int8_t{}) : bytes == 2 ? scatter(uint16_t{}) : scatter(float{});
  }

  // A row in 8 bits, and its scale; what has no finite numbers gets NaN, what is next to nothing 0.
  static float quantize(const float* from, int64_t n, int8_t* to) {
    float most = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; ++i) {
      most = std::max(most, std::fabs(from[i]));
      finite = finite && std::isfinite(from[i]);
    }
    if (!finite || most < 1e-30f) {
      std::memset(to, 0, static_cast<size_t>(n));
      return finite ? 0 : std::nanf("");
    }
    const float inverse = 127 / most;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int8_t>(std::nearbyintf(from[i] * inverse));
    return most / 127;
  }

  PagedTile tile(const RunContext& c, char* const* caches, const int64_t* tiles, int64_t index) const {
    const int64_t t = index / s_.kv, h = index % s_.kv;
    const int64_t i = std::upper_bound(tiles, tiles + s_.sequences + 1, t) - tiles - 1;
    const PagedSequence q = sequence(c, i);
    const int64_t first = (t - tiles[i]) * tile_tokens_, bytes = static_cast<int64_t>(dtype_size(s_.dtype));
    PagedTile out;
    out.q_stride = s_.heads * s_.size;
    out.q = c.in[PagedInput::kQ]->as<float>() + (q.row + first) * out.q_stride + h * s_.group * s_.size;
    out.tokens = std::min(tile_tokens_, q.tokens - first);
    out.group = s_.group;
    out.position = q.length + first;
    out.keys = caches[0] + h * s_.key_block() * bytes;
    out.values = caches[1] + h * s_.value_block() * bytes;
    out.key_stride = s_.kv * s_.key_block();
    out.value_stride = s_.kv * s_.value_block();
    out.table = q.table;
    out.block = s_.block, out.size = s_.size, out.width = s_.width;
    out.window = attrs_.i("window");
    out.dtype = s_.dtype;
    out.scale = static_cast<float>(attrs_.f("scale"));
    out.soft_cap = static_cast<float>(attrs_.f("soft_cap"));
    const auto of_heads = [&](size_t input) {
      return input < c.in.size() && c.in[input] != nullptr ? c.in[input]->as<float>() + h * s_.group : nullptr;
    };
    out.slopes = of_heads(PagedInput::kSlopes);
    out.sinks = of_heads(PagedInput::kSinks);
    return out;
  }

  void look(const RunContext& c, char* const* caches, const int64_t* tiles, float* space, float* y) const {
    const int64_t count = tiles[s_.sequences] * s_.kv;
    int64_t chunks = 1, work = 0;
    for (int64_t i = 0; i < s_.sequences; ++i) {
      const PagedSequence q = sequence(c, i);
      if (q.tokens == 0) continue;
      chunks = std::max(chunks, (q.length + q.tokens - 1) / kPagedChunk + 1);
      work += q.tokens * (q.length + q.tokens / 2 + 1) * s_.heads * (s_.size + s_.width);
    }
    const auto out = [&](int64_t index) {
      const int64_t t = index / s_.kv, i = std::upper_bound(tiles, tiles + s_.sequences + 1, t) - tiles - 1;
      const int64_t row = sequence(c, i).row + (t - tiles[i]) * tile_tokens_;
      return y + (row * s_.heads + index % s_.kv * s_.group) * s_.width;
    };
    const int64_t y_stride = s_.heads * s_.width;
    const bool shared = chunks > 1 && threads_ > 1 && count <= shared_tiles_ && count < 4 * threads_;
    const int64_t units = shared ? count * chunks : count;
    const int64_t grain = std::max<int64_t>(1, units * kSerialWork / std::max<int64_t>(1, work));
    float* states = space + threads_ * own_floats_;
    c.pool->parallel_for(units, grain, [&](int64_t begin, int64_t end, int worker) {
      float* own = space + worker * own_floats_;
      LongLoop loop;
      for (int64_t unit = begin; unit < end && loop.goes_on(1 << 12); ++unit) {
        const PagedTile t = tile(c, caches, tiles, shared ? unit / chunks : unit);
        const int64_t first = t.first() / kPagedChunk, all = (t.end() - 1) / kPagedChunk + 1 - first;
        if (shared) {
          if (unit % chunks < all) attend(t, first + unit % chunks, 1, own, states + unit * state_floats_);
        } else {
          attend(t, first, all, own + state_floats_, own);
          finish_paged_states(t, own, out(unit), y_stride);
        }
      }
    });
    if (!shared) return;
    for (int64_t i = 0; i < count; ++i) {
      const PagedTile t = tile(c, caches, tiles, i);
      float* state = states + i * chunks * state_floats_;
      const int64_t first = t.first() / kPagedChunk, all = (t.end() - 1) / kPagedChunk + 1 - first;
      for (int64_t k = 1; k < all; ++k) merge_paged_states(state + k * state_floats_, t.rows(), t.width, state);
      finish_paged_states(t, state, out(i), y_stride);
    }
  }

  const Attrs& attrs_;
  PagedSizes s_;
  int threads_ = 1;
  int64_t tile_tokens_ = 1, state_floats_ = 0, own_floats_ = 0, most_chunks_ = 1, shared_tiles_ = 0;
  bool missing_[2] = {false, false};  // the output for keys, or values, is unused
};

std::unique_ptr<Kernel> create_paged_attention(const NodeContext& node) {
  return std::make_unique<PagedAttention>(node);
}

MINNOW_OP("PagedAttention", infer_paged_attention, kUpdates);
MINNOW_KERNEL("PagedAttention", create_paged_attention);

}  // namespace
}  // namespace minnow
