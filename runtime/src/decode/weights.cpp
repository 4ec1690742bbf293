#include "runtime/src/decode/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/elements.h"
#include "kernels/core/sort.h"

namespace minnow {
namespace {

// The sparsest weights that are plausible: one in a thousand is listed.
constexpr int64_t kMostPerByte = 1024, kFewest = 4096;

struct Bytes {
  const char* data = nullptr;
  int64_t size = 0;
};

// The numbers of a sparse stream, by rows: value = scale[row] * q + bias[row].
struct Stream {
  Bytes indices;  // of the table, `bits` each, most significant first
  int bits = 8;
  Bytes steps;  // distance from the number before, `step_bits` each
  int step_bits = 0;
  int64_t count = 0;  // of indices
  std::vector<int8_t> table;
  std::vector<float> scale, bias;
  std::vector<float> rest;  // what the numbers that are not listed are, by rows
};

// `alpha` in either precision: a scale for each row, or for asymmetric rows two numbers.
struct Alpha {
  Bytes bytes;
  bool half = false, asymmetric = false;
  int least = -128;  // see read()
  float extra = 1;   // multiplies all

  // `stored`: the first number of a pair as it is; else what the quantized value 0 stands for.
  void read(int64_t first, int64_t count, float* scale, float* bias, bool stored = false) const {
    constexpr int64_t kPart = 256;
    const int64_t each = asymmetric ? 2 : 1;
    for (int64_t at = 0; at < count; at += kPart) {
      const int64_t n = std::min(kPart, count - at) * each, from = (first + at) * each;
      float numbers[2 * kPart];
      if (half) {
        uint16_t aligned[2 * kPart];
        std::memcpy(aligned, bytes.data + 2 * from, static_cast<size_t>(2 * n));
        convert_elements(DType::kF16, aligned, DType::kF32, numbers, n);
      } else {
        std::memcpy(numbers, bytes.data + 4 * from, static_cast<size_t>(4 * n));
      }
      for (int64_t i = 0; i < n; ++i) numbers[i] *= extra;
      for (int64_t r = 0; r < n / each; ++r) {
        scale[at + r] = asymmetric ? numbers[2 * r + 1] : numbers[r];
        bias[at + r] = 0;
        // The first number of a pair belongs to the smallest quantized value where that is negative, otherwise to 0.
        if (asymmetric)
          bias[at + r] =
              least < 0 && !stored ? numbers[2 * r] - static_cast<float>(least) * numbers[2 * r + 1] : numbers[2 * r];
      }
    }
  }
};

class BitReader {
 public:
  BitReader(Bytes bytes, int bits, int64_t first = 0) : bytes_(bytes), bits_(bits), at_(first * bits / 8) {
    const int skipped = static_cast<int>(first * bits % 8);
    if (skipped == 0) return;
    hold_ = at_ < bytes_.size ? static_cast<uint8_t>(bytes_.data[at_]) : 0u;
    ++at_;
    have_ = 8 - skipped;
  }
  uint32_t next() {
    while (have_ < bits_) {
      const auto byte = at_ < bytes_.size ? static_cast<uint8_t>(bytes_.data[at_]) : 0u;
      hold_ = hold_ << 8 | byte;
      ++at_;
      have_ += 8;
    }
    have_ -= bits_;
    return static_cast<uint32_t>(hold_ >> have_ & ((uint64_t{1} << bits_) - 1));
  }

 private:
  Bytes bytes_;
  int bits_;
  uint64_t hold_ = 0;
  int have_ = 0;
  int64_t at_ = 0;
};

// The dense streams.
class StreamMatrix final : public QuantizedMatrix {
 public:
  StreamMatrix(const Shape& shape, int64_t stream_rows, Bytes indices, int index_bits, const std::vector<int8_t>& table,
               const Alpha& alpha, std::shared_ptr<const MappedFile> file)
      : indices_(indices), index_bits_(index_bits), alpha_(alpha), file_(std::move(file)) {
    const int64_t count = shape.count(), length = count / stream_rows;
    rows = count / shape[0] % length == 0 ? shape[0] : stream_rows;
    columns = count / rows;
    block = length;
    bits = index_bits;
    has_offset = alpha.asymmetric;
    std::copy(table.begin(), table.end(), table_);
    // A table of other numbers than those that the bits stand for holds any of 8 bits.
    for (int i = 0; i < 1 << index_bits; ++i)
      if (bits < 2 || table_[i] != i - (1 << (index_bits - 1))) bits = 8;
    offset_of_least = has_offset && alpha.least == -(1 << (bits - 1));
    half_scales = alpha.half && alpha.extra == 1 && (!has_offset || offset_of_least || alpha.least >= 0);
    for (int i = 0; i < 256; ++i) {
      high_[i] = table_[i >> 4 & 15];
      low_[i] = table_[i & 15];
    }
  }

  void codes(int64_t first, int64_t count, int8_t* to) const override {
    const auto* bytes = reinterpret_cast<const uint8_t*>(indices_.data);
    if (index_bits_ == 8) {
      for (int64_t i = 0; i < count; ++i) to[i] = table_[bytes[first + i]];
      return;
    }
    if (index_bits_ == 4) {
      if (count > 0 && first % 2 != 0) *to++ = low_[bytes[first++ / 2]], --count;
      bytes += first / 2;
      for (int64_t i = 0; i + 1 < count; i += 2) to[i] = high_[bytes[i / 2]], to[i + 1] = low_[bytes[i / 2]];
      if (count % 2 != 0) to[count - 1] = high_[bytes[count / 2]];
      return;
    }
    BitReader reader(indices_, index_bits_, first);
    for (int64_t i = 0; i < count; ++i) to[i] = table_[reader.next()];
  }
  void release(int64_t count) const override {
    if (file_ != nullptr) file_->release(count * index_bits_ / 8);
  }
  void stored_scales(int64_t first, int64_t count, float* scale, float* offset) const override {
    alpha_.read(first, count, scale, offset, offset_of_least);
  }

 private:
  Bytes indices_;
  int index_bits_;
  Alpha alpha_;
  std::shared_ptr<const MappedFile> file_;         // of the indices, or null
  int8_t table_[256] = {}, high_[256], low_[256];  // of an index, and of the two that a byte holds
};

// Takes bytes off the front.
class StreamReader {
 public:
  explicit StreamReader(Bytes bytes) : bytes_(bytes) {}
  Status take(int64_t n, Bytes* out) {
    if (n < 0 || n > bytes_.size) return fail(Code::kFormat, "its compressed weights are cut off");
    *out = {bytes_.data, n};
    bytes_.data += n;
    bytes_.size -= n;
    return ok();
  }
  template <typename T>
  Status number(int64_t* out) {
    Bytes b;
    MINNOW_RETURN_IF_ERROR(take(sizeof(T), &b));
    T value;
    std::memcpy(&value, b.data, sizeof(T));
    *out = static_cast<int64_t>(value);
    return ok();
  }

 private:
  Bytes bytes_;
};

Status read_shape(StreamReader& in, bool wide, int64_t count, int64_t* rows) {
  int64_t rank = 0, product = 1;
  MINNOW_RETURN_IF_ERROR(in.number<uint8_t>(&rank));
  for (int64_t i = 0; i < rank; ++i) {
    int64_t dim = 0;
    MINNOW_RETURN_IF_ERROR(wide ? in.number<uint32_t>(&dim) : in.number<uint16_t>(&dim));
    if (i == 0) *rows = dim;
    if (dim == 0 || product > count / dim) return fail(Code::kFormat, "its compressed weights have another size");
    product *= dim;
  }
  if (rank < 1 || product != count) return fail(Code::kFormat, "its compressed weights have another size");
  return ok();
}

Status read_table(StreamReader& in, Stream* s) {
  int64_t n = 0;
  MINNOW_RETURN_IF_ERROR(in.number<uint8_t>(&n));
  if (n == 0) n = 256;
  Bytes table;
  MINNOW_RETURN_IF_ERROR(in.take(n, &table));
  const auto entry = [&](int64_t i) { return static_cast<int8_t>(table.data[i]); };
  s->table.clear();
  for (int64_t i : order_of(n, [&](int64_t a, int64_t b) { return entry(a) < entry(b); })) s->table.push_back(entry(i));
  for (s->bits = 1; (int64_t{1} << s->bits) < n;) ++s->bits;
  // The bits of an index can hold one beyond the table: the table is filled up, so that no read is out of bounds.
  s->table.resize(size_t{1} << s->bits, s->table.back());
  return ok();
}

Status read_bits(StreamReader& in, int bits, int64_t count, Bytes* out) {
  if (count > INT64_MAX / 64) return fail(Code::kFormat, "its compressed weights are too many");
  return in.take((count * bits + 7) / 8, out);
}

void expand(const Stream& s, int64_t rows, int64_t count, float* out) {
  const int64_t length = count / rows;
  BitReader indices(s.indices, s.bits);
  for (int64_t r = 0; r < rows; ++r) std::fill_n(out + r * length, length, s.rest[static_cast<size_t>(r)]);
  BitReader steps(s.steps, s.step_bits);
  int64_t at = 0;
  for (int64_t i = 0; i < s.count; ++i) {
    at += steps.next();
    const float q = static_cast<float>(s.table[indices.next()]);
    if (at >= count) return;
    const auto r = static_cast<size_t>(at / length);
    out[at] = q * s.scale[r] + s.bias[r];
  }
}

// `aMin`, in which 0 means the smallest 8-bit number.
int least_quantum(const wire::IDSTQuan& quan) { return quan.aMin() == 0 ? -128 : quan.aMin(); }

// Whether two numbers of `alpha` belong to each row. The oldest files with plain bytes say so by what they leave out.
bool is_asymmetric(const wire::IDSTQuan& quan) {
  return quan.readType() != 0 || (quan.type() == 4 && quan.aMin() == 0 && quan.quantScale() == 0.0f);
}

Status read_alpha(const wire::IDSTQuan& quan, Bytes bytes, bool half, int64_t rows, Alpha* alpha) {
  *alpha = {bytes, half, is_asymmetric(quan), least_quantum(quan),
            quan.quantScale() == 0.0f ? 1.0f : quan.quantScale()};
  const int64_t size = half ? 2 : 4, each = alpha->asymmetric ? 2 : 1;
  if (bytes.size / size / each != rows || bytes.size % (size * each) != 0)
    return fail(Code::kFormat, "it has %lld bytes of scales for %lld rows of weights",
                static_cast<long long>(bytes.size), static_cast<long long>(rows));
  return ok();
}

// `index` has places, `alpha` the numbers there; both are parts of `file`.
Status read_sparse_floats(Bytes index, Bytes alpha, const TensorType& type, std::shared_ptr<const MappedFile> file,
                          std::shared_ptr<Constant>* out) {
  if (index.data == nullptr || index.size % 4 != 0 || index.size != alpha.size)
    return fail(Code::kFormat, "its sparse weights have no place or no value");
  const auto place = [index](int64_t i) {
    uint32_t at;
    std::memcpy(&at, index.data + 4 * i, 4);
    return static_cast<int64_t>(at);
  };
  const int64_t listed = index.size / 4;
  for (int64_t i = 0; i < listed; ++i)
    if (place(i) >= type.count()) return fail(Code::kFormat, "a sparse weight is out of range");
  const auto decode = [place, alpha, listed, n = type.count(), file = std::move(file)](void* to) {
    float* w = static_cast<float*>(to);
    std::fill_n(w, n, 0.0f);
    for (int64_t i = 0; i < listed; ++i) std::memcpy(w + place(i), alpha.data + 4 * i, 4);
  };
  *out = Constant::decoded(type, decode, {});
  return ok();
}

}  // namespace

Status decode_quantized(Decoder& d, const wire::IDSTQuan& quan, const flatbuffers::Vector<int64_t>* external,
                        const Shape& shape, std::shared_ptr<Constant>* out) {
  const TensorType type{DType::kF32, Layout::kPlain, shape};
  const int64_t count = type.count();
  const bool half = quan.scaleStorage() == wire::ScaleStorageType::FP16 && quan.type() != 0;
  Bytes buffer, alpha, index;
  std::shared_ptr<const MappedFile> file = d.main_file();
  if (external != nullptr && external->size() > 0) {
    MINNOW_RETURN_IF_ERROR(d.external_bytes(*external, 0, &buffer.data, &buffer.size, &file));
    MINNOW_RETURN_IF_ERROR(d.external_bytes(*external, 1, &alpha.data, &alpha.size, &file));
    // Only this kind needs what comes behind the bias.
    if (quan.type() == 0 && quan.index() == nullptr)
      MINNOW_RETURN_IF_ERROR(d.external_bytes(*external, 3, &index.data, &index.size, &file));
  } else {
    if (quan.buffer() != nullptr)
      buffer = {reinterpret_cast<const char*>(quan.buffer()->data()), quan.buffer()->size()};
    if (half && quan.alphaFp16() != nullptr) {
      alpha = {reinterpret_cast<const char*>(quan.alphaFp16()->data()), int64_t{quan.alphaFp16()->size()} * 2};
    } else if (!half && quan.alpha() != nullptr) {
      alpha = {reinterpret_cast<const char*>(quan.alpha()->data()), int64_t{quan.alpha()->size()} * 4};
    }
  }
  if (quan.index() != nullptr)
    index = {reinterpret_cast<const char*>(quan.index()->data()), int64_t{quan.index()->size()} * 4};
  if (count == 0) return fail(Code::kFormat, "it has no weights");
  // Sparse weights are few bytes for many numbers, but not for any number of them.
  if (count / kMostPerByte > kFewest + buffer.size + alpha.size + index.size)
    return fail(Code::kFormat, "it has %lld weights in %lld bytes", static_cast<long long>(count),
                static_cast<long long>(buffer.size + alpha.size + index.size));

  auto s = std::make_shared<Stream>();
  Alpha scales;
  int64_t rows = 0;
  switch (quan.type()) {
    case 0:
      return read_sparse_floats(index, alpha, type, std::move(file), out);
    case 1:
    case 2: {
      StreamReader in(buffer);
      MINNOW_RETURN_IF_ERROR(read_shape(in, quan.shapeInt32(), count, &rows));
      s->count = count;
      if (quan.type() == 2) {
        int64_t bits = 0;
        MINNOW_RETURN_IF_ERROR(in.number<uint32_t>(&s->count));
        MINNOW_RETURN_IF_ERROR(in.number<uint8_t>(&bits));
        if (bits < 1 || bits > 32)
          return fail(Code::kFormat, "its sparse weights have steps of %d bits", static_cast<int>(bits));
        s->step_bits = static_cast<int>(bits);
        MINNOW_RETURN_IF_ERROR(read_bits(in, s->step_bits, s->count, &s->steps));
      }
      MINNOW_RETURN_IF_ERROR(read_table(in, s.get()));
      MINNOW_RETURN_IF_ERROR(read_bits(in, s->bits, s->count, &s->indices));
      MINNOW_RETURN_IF_ERROR(read_alpha(quan, alpha, half, rows, &scales));
      if (quan.type() == 2) {
        s->scale.resize(static_cast<size_t>(rows));
        s->bias.resize(static_cast<size_t>(rows));
        scales.read(0, rows, s->scale.data(), s->bias.data());
        // What is not listed is zero, or the number nearest to it that the row can hold.
        const int least = least_quantum(quan);
        for (size_t r = 0; r < s->scale.size(); ++r) {
          const float lowest = s->bias[r] + static_cast<float>(least) * s->scale[r];
          const float q = s->scale[r] > 1e-6f ? std::round(-lowest / s->scale[r]) + static_cast<float>(least)
                                              : static_cast<float>(least);
          s->rest.push_back(!is_asymmetric(quan) ? 0.0f : q * s->scale[r] + s->bias[r]);
        }
      }
      break;
    }
    case 3:
      if (buffer.size != 2 * count)
        return fail(Code::kFormat, "it has %lld bytes of 16-bit weights, not %lld", static_cast<long long>(buffer.size),
                    static_cast<long long>(2 * count));
      *out = constant_of_halves(DType::kF16, shape, {buffer.data, buffer.size, std::move(file)});
      return ok();
    case 4:
      rows = shape[0];
      if (buffer.size != count)
        return fail(Code::kFormat, "it has %lld bytes of 8-bit weights, not %lld", static_cast<long long>(buffer.size),
                    static_cast<long long>(count));
      for (int q = 0; q < 256; ++q) s->table.push_back(static_cast<int8_t>(q));
      s->indices = buffer;
      MINNOW_RETURN_IF_ERROR(read_alpha(quan, alpha, half, rows, &scales));
      break;
    default:
      return d.unsupported("weights compressed in the form " + std::to_string(quan.type()));
  }
  FileBytes source{buffer.data, buffer.size, file};
  if (s->step_bits == 0) {
    *out = Constant::of_quantized(
        type, std::make_shared<StreamMatrix>(shape, rows, s->indices, s->bits, s->table, scales, file),
        std::move(source), {{alpha.data, alpha.size, file}});  // arguments are made in any order: no move
    return ok();
  }
  const auto decode = [s, rows, count](void* to) { expand(*s, rows, count, static_cast<float*>(to)); };
  *out = Constant::decoded(type, decode, std::move(source));
  return ok();
}

}  // namespace minnow
