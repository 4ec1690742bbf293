// Sequences and optionals: tensors of bytes that hold tensors. schema/ir/sequence.py says how; what an op takes out of
// one is converted to the type that its attributes say. The bytes are untrusted: each number in them is checked.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

constexpr int64_t kKindBytes = 8, kNameBytes = 16;
constexpr int64_t kHeader = kKindBytes + 8;      // kind, count
constexpr int64_t kRecord = 8 + kNameBytes + 8;  // bytes of the record, element type, rank; dims and elements follow
constexpr int64_t kMaxBytes = int64_t{1} << 50;  // what no machine has, and no sum of a few overflows
constexpr char kSequence[] = "sequence";         // kinds, of 8 letters each
constexpr char kOptional[] = "optional";

int64_t load_int(const char* p) {
  int64_t v = 0;
  std::memcpy(&v, p, sizeof v);
  return v;
}

char* store_int(char* p, int64_t v) {
  std::memcpy(p, &v, sizeof v);
  return p + sizeof v;
}

int64_t padded(int64_t bytes) { return (bytes + 7) / 8 * 8; }

int64_t record_bytes(const TensorType& type) { return kRecord + 8 * type.shape.rank() + padded(type.bytes()); }

// The header of `count` elements; gives where the first record goes.
char* write_header(char* to, const char* kind, int64_t count) {
  std::memcpy(to, kind, kKindBytes);
  return store_int(to + kKindBytes, count);
}

// A record but for its elements; gives where these go. What pads them is zero.
char* write_record(char* to, const TensorType& type) {
  char name[kNameBytes] = {};
  std::strncpy(name, dtype_name(type.dtype), kNameBytes - 1);
  to = store_int(to, record_bytes(type));
  std::memcpy(to, name, kNameBytes);
  to = store_int(to + kNameBytes, type.shape.rank());
  for (int64_t d : type.shape) to = store_int(to, d);
  const int64_t bytes = type.bytes();
  if (bytes % 8 != 0) std::memset(to + bytes, 0, static_cast<size_t>(padded(bytes) - bytes));
  return to;
}

char* write_tensor(char* to, const Tensor& tensor) {
  char* data = write_record(to, tensor.type);
  if (tensor.count() != 0) std::memcpy(data, tensor.data, static_cast<size_t>(tensor.type.bytes()));
  return to + record_bytes(tensor.type);
}

// Walks through the elements of a sequence, and trusts none of its bytes.
class Reader {
 public:
  explicit Reader(const Tensor& bytes) : first_(bytes.as<char>()), size_(bytes.count()) {
    if (size_ < kHeader || (!is(kSequence) && !is(kOptional))) {
      status_ = fail(Code::kFormat, "the bytes are not those of a sequence");
      return;
    }
    count_ = load_int(first_ + kKindBytes);
    if (count_ < 0 || count_ > (size_ - kHeader) / kRecord || (is(kOptional) && count_ > 1))
      status_ = damaged("it says that it has %lld elements", count_);
    at_ = kHeader;
  }

  const Status& status() const { return status_; }
  int64_t count() const { return count_; }
  // Bytes up to the element that next() gives.
  int64_t at() const { return at_; }
  int64_t size() const { return size_; }

  // The next element; false behind the last one, or where something is wrong. Then status() says what.
  bool next(Tensor* element) {
    if (!status_.ok()) return false;
    if (index_ == count_) {
      if (at_ != size_) status_ = damaged("there are %lld bytes behind its last element", size_ - at_);
      return false;
    }
    if (!read(element)) status_ = damaged("its element %lld is invalid", index_);
    ++index_;
    return status_.ok();
  }

  // The element of that number, from 0.
  Status find(int64_t index, Tensor* element) {
    for (int64_t i = 0; i <= index; ++i)
      if (!next(element)) break;
    return status_;
  }

 private:
  bool is(const char* kind) const { return std::memcmp(first_, kind, kKindBytes) == 0; }

  Status damaged(const char* format, int64_t number) const {
    const std::string text = std::string("the bytes of the ") + (is(kOptional) ? kOptional : kSequence) +
                             " are damaged: " + fail(Code::kFormat, format, static_cast<long long>(number)).message();
    return Status(Code::kFormat, text);
  }

  bool read(Tensor* element) {
    const int64_t left = size_ - at_;
    if (left < kRecord) return false;
    const char* p = first_ + at_;
    const int64_t bytes = load_int(p), rank = load_int(p + 8 + kNameBytes);
    if (bytes > left || rank < 0 || rank > kMaxRank || bytes < kRecord + 8 * rank || !read_dtype(p + 8)) return false;
    TensorType type{dtype_, Layout::kPlain, Shape()};
    int64_t count = 1;
    bool empty = false;
    for (int64_t k = 0; k < rank; ++k) {
      const int64_t d = load_int(p + kRecord + 8 * k);
      if (d < 0 || d > kMaxBytes) return false;
      empty = empty || d == 0;
      if (d != 0 && __builtin_mul_overflow(count, d, &count)) return false;
      type.shape.push_back(d);
    }
    if (count > kMaxBytes || (!empty && count > bytes) || record_bytes(type) != bytes) return false;
    *element = Tensor{type, const_cast<char*>(p + kRecord + 8 * rank)};
    at_ += bytes;
    return true;
  }

  bool read_dtype(const char* name) {
    if (name[kNameBytes - 1] != 0) return false;
    return dtype_of_name(name, &dtype_);
  }

  const char* first_;
  int64_t size_, count_ = 0, index_ = 0, at_ = 0;
  DType dtype_ = DType::kF32;
  Status status_;
};

Status require_sequence(const InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(require_dtype(c, 0, DType::kU8));
  return require_rank(c, 0, 1, 1);
}

Status require_position(const InferContext& c, int i) {
  if (!c.has(i)) return ok();
  MINNOW_RETURN_IF_ERROR(require_int(c, i));
  if (c.in(i).count() == 1) return ok();
  return fail(Code::kFormat, "the position must be one number, not of shape %s", c.shape(i).str().c_str());
}

// The position counted from the front, of `end` that are possible; without one the last of these.
Status place(const Tensor* position, int64_t count, int64_t end, int64_t* at) {
  *at = position == nullptr ? end - 1 : IntView(*position)[0];
  if (*at >= -count && *at < end && end > 0) {
    if (*at < 0) *at += count;
    return ok();
  }
  if (count == 0 && end == 0) return fail(Code::kFormat, "it asks for an element of what is empty");
  return fail(Code::kFormat, "position %lld is out of range for %lld elements", static_cast<long long>(*at),
              static_cast<long long>(count));
}

// The element that an op asks for.
Status find_element(const Tensor* position, Reader* reader, Tensor* element) {
  MINNOW_RETURN_IF_ERROR(reader->status());
  int64_t at = 0;
  MINNOW_RETURN_IF_ERROR(place(position, reader->count(), reader->count(), &at));
  return reader->find(at, element);
}

// --- results: what the attributes say of them

// The dimensions that the `shape` attribute gives, -1 standing for any. False when it does not say the rank.
bool declared_shape(const Attrs& attrs, Shape* shape, bool* is_static) {
  *is_static = false;
  if (!attrs.has("shape")) return false;
  const std::vector<int64_t> dims = attrs.ints("shape");
  if (dims.size() > static_cast<size_t>(kMaxRank)) return false;
  *is_static = true;
  for (int64_t d : dims) {
    shape->push_back(d);
    *is_static = *is_static && d >= 0;
  }
  return true;
}

Status check_declared(const Attrs& attrs, const Shape& shape) {
  Shape declared;
  bool is_static = false;
  if (!declared_shape(attrs, &declared, &is_static)) return ok();
  bool same = declared.rank() == shape.rank();
  for (int k = 0; same && k < shape.rank(); ++k) same = declared[k] < 0 || declared[k] == shape[k];
  if (same) return ok();
  return fail(Code::kFormat, "the sequence gives a tensor of shape %s, where the model expects %s", shape.str().c_str(),
              declared.str().c_str());
}

// Sets the output to the declared shape when that is enough to know; else false.
bool set_declared(InferContext& c, DType dtype) {
  Shape shape;
  bool is_static = false;
  if (!declared_shape(c.attrs, &shape, &is_static) || !is_static) return false;
  c.set(0, dtype, shape);
  return true;
}

DType result_dtype(const Attrs& attrs) { return attrs.get<DType>("dtype", DType::kF32); }

// The first of n numbers of 64 bits that has no place in 32; null if there is none.
const int64_t* first_wide(const void* numbers, int64_t n) {
  const int64_t* end = static_cast<const int64_t*>(numbers) + n;
  const int64_t* found =
      std::find_if(end - n, end, [](int64_t x) { return x != static_cast<int64_t>(static_cast<int32_t>(x)); });
  return found == end ? nullptr : found;
}

// Elements of a record, converted. A record is aligned to 8 bytes in the sequence, which may lie anywhere itself.
Status convert_record(DType from, const char* in, DType to, char* out, int64_t n) {
  const size_t in_size = dtype_size(from), out_size = dtype_size(to);
  // Models whose integers are kept with 32 bits get sequences from outside that hold 64.
  const bool narrows = (from == DType::kI64 || from == DType::kU64) && to == DType::kI32;
  Block block;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t part = std::min(kBlock, n - i);
    std::memcpy(block.bytes, in + i * static_cast<int64_t>(in_size), static_cast<size_t>(part) * in_size);
    const int64_t* wide = narrows ? first_wide(block.bytes, part) : nullptr;
    if (wide != nullptr)
      return fail(Code::kUsage, "a sequence holds %lld, where the file has 32 bits for numbers",
                  static_cast<long long>(*wide));
    convert(from, block.bytes, to, out + i * static_cast<int64_t>(out_size), part);
  }
  return ok();
}

// Rows of elements from one place to another, converted where the types differ.
Status copy_rows(const Tensor& from, Tensor& to, int64_t rows, int64_t from_row, int64_t to_row, int64_t to_first) {
  const size_t in_size = dtype_size(from.type.dtype), out_size = dtype_size(to.type.dtype);
  for (int64_t r = 0; r < rows && from_row > 0; ++r) {
    const char* p = offset(static_cast<const void*>(from.data), r * from_row, in_size);
    char* q = offset(to.data, to_first + r * to_row, out_size);
    if (from.type.dtype == to.type.dtype) {
      std::memcpy(q, p, static_cast<size_t>(from_row) * in_size);
    } else {
      MINNOW_RETURN_IF_ERROR(convert_record(from.type.dtype, p, to.type.dtype, q, from_row));
    }
  }
  return ok();
}

// --- SequenceConstruct, SequenceInsert, SequenceErase

Status infer_construct(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, c.num_inputs()));
  if (c.attrs.b("is_optional") && c.num_inputs() > 1)
    return fail(Code::kFormat, "an optional cannot hold %d tensors", c.num_inputs());
  int64_t bytes = kHeader;
  for (int i = 0; i < c.num_inputs(); ++i)
    if (__builtin_add_overflow(bytes, record_bytes(c.in(i)), &bytes)) return fail(Code::kFormat, "it is too large");
  c.set(0, DType::kU8, {bytes});
  return ok();
}

void run_construct(const Attrs& attrs, const RunContext& c) {
  char* to = write_header(c.out[0]->as<char>(), attrs.b("is_optional") ? kOptional : kSequence,
                          static_cast<int64_t>(c.in.size()));
  for (const Tensor* tensor : c.in) to = write_tensor(to, *tensor);
}

MINNOW_OP("SequenceConstruct", infer_construct);
MINNOW_KERNEL("SequenceConstruct", create_simple<run_construct>);

Status infer_insert(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_sequence(c));
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(require_position(c, 2));
  c.set(0, DType::kU8, {c.shape(0)[0] + record_bytes(c.in(1))});
  return ok();
}

void run_insert(const Attrs&, const RunContext& c) {
  Reader reader(*c.in[0]);
  if (!reader.status().ok()) return c.report(reader.status());
  int64_t at = 0;
  const Tensor* position = c.in.size() > 2 ? c.in[2] : nullptr;
  const Status status = place(position, reader.count(), reader.count() + 1, &at);
  if (!status.ok()) return c.report(status);
  Tensor before;
  if (at > 0 && !reader.find(at - 1, &before).ok()) return c.report(reader.status());
  const char* from = c.in[0]->as<char>();
  char* to = write_header(c.out[0]->as<char>(), kSequence, reader.count() + 1);
  const int64_t head = reader.at() - kHeader;
  std::memcpy(to, from + kHeader, static_cast<size_t>(head));
  to = write_tensor(to + head, *c.in[1]);
  std::memcpy(to, from + reader.at(), static_cast<size_t>(reader.size() - reader.at()));
}

MINNOW_OP("SequenceInsert", infer_insert);
MINNOW_KERNEL("SequenceInsert", create_simple<run_insert>);

Status infer_erase(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_sequence(c));
  MINNOW_RETURN_IF_ERROR(require_position(c, 1));
  const Tensor* position = c.has(1) ? c.value(1) : nullptr;
  if (c.value(0) == nullptr) return c.needs_value(0);
  if (c.has(1) && position == nullptr) return c.needs_value(1);
  Reader reader(*c.value(0));
  Tensor element;
  MINNOW_RETURN_IF_ERROR(find_element(position, &reader, &element));
  c.set(0, DType::kU8, {c.shape(0)[0] - record_bytes(element.type)});
  return ok();
}

void run_erase(const Attrs&, const RunContext& c) {
  Reader reader(*c.in[0]);
  Tensor element;
  const Status status = find_element(c.in.size() > 1 ? c.in[1] : nullptr, &reader, &element);
  if (!status.ok()) return c.report(status);
  const int64_t bytes = record_bytes(element.type), begin = reader.at() - bytes;
  if (c.out[0]->count() != reader.size() - bytes) return c.report(fail(Code::kInternal, "the sequence has changed"));
  const char* from = c.in[0]->as<char>();
  char* to = write_header(c.out[0]->as<char>(), kSequence, reader.count() - 1);
  std::memcpy(to, from + kHeader, static_cast<size_t>(begin - kHeader));
  std::memcpy(to + begin - kHeader, from + reader.at(), static_cast<size_t>(reader.size() - reader.at()));
}

MINNOW_OP("SequenceErase", infer_erase);
MINNOW_KERNEL("SequenceErase", create_simple<run_erase>);

// --- SequenceAt, SequenceLength

Status infer_at(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_sequence(c));
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(require_position(c, 1));
  if (set_declared(c, result_dtype(c.attrs))) return ok();
  const Tensor *bytes = c.value(0), *position = c.value(1);
  if (bytes == nullptr) return c.needs_value(0);
  if (position == nullptr) return c.needs_value(1);
  Reader reader(*bytes);
  Tensor element;
  MINNOW_RETURN_IF_ERROR(find_element(position, &reader, &element));
  MINNOW_RETURN_IF_ERROR(check_declared(c.attrs, element.shape()));
  c.set(0, result_dtype(c.attrs), element.shape());
  return ok();
}

void run_at(const Attrs& attrs, const RunContext& c) {
  Reader reader(*c.in[0]);
  Tensor element;
  Status status = find_element(c.in[1], &reader, &element);
  if (status.ok() && element.shape() != c.out[0]->shape()) status = check_declared(attrs, element.shape());
  if (!status.ok()) return c.report(status);
  if (element.shape() != c.out[0]->shape()) return c.report(fail(Code::kInternal, "the sequence has changed"));
  status = copy_rows(element, *c.out[0], 1, element.count(), 0, 0);
  if (!status.ok()) c.report(status);
}

MINNOW_OP("SequenceAt", infer_at);
MINNOW_KERNEL("SequenceAt", create_simple<run_at>);

Status infer_length(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_sequence(c));
  c.set(0, DType::kI64, {});
  return ok();
}

void run_length(const Attrs&, const RunContext& c) {
  const Reader reader(*c.in[0]);
  if (!reader.status().ok()) return c.report(reader.status());
  *c.out[0]->as<int64_t>() = reader.count();
}

MINNOW_OP("SequenceLength", infer_length);
MINNOW_KERNEL("SequenceLength", create_simple<run_length>);

// --- ConcatFromSequence

// The shape of the tensors of a sequence behind each other, or stacked.
Status concat_shape(const Attrs& attrs, const Tensor& bytes, Shape* shape, int* axis) {
  Reader reader(bytes);
  Tensor element;
  const bool stacks = attrs.b("new_axis");
  Shape first;
  int64_t total = 0;
  bool is_first = true;
  while (reader.next(&element)) {
    Shape now = element.shape();
    if (std::exchange(is_first, false)) {
      const int rank = now.rank() + (stacks ? 1 : 0);
      MINNOW_RETURN_IF_ERROR(require_out_rank(rank));
      MINNOW_RETURN_IF_ERROR(normalize_axis(attrs.i("axis"), rank, axis));
      first = now;
    }
    bool same = now.rank() == first.rank();
    for (int k = 0; same && k < now.rank(); ++k) same = (k == *axis && !stacks) || now[k] == first[k];
    if (!same)
      return fail(Code::kFormat, "tensors of the shapes %s and %s cannot be concatenated along axis %d",
                  first.str().c_str(), now.str().c_str(), *axis);
    if (__builtin_add_overflow(total, stacks ? 1 : now[*axis], &total)) return fail(Code::kFormat, "it is too large");
  }
  MINNOW_RETURN_IF_ERROR(reader.status());
  if (reader.count() == 0) return fail(Code::kFormat, "an empty sequence cannot be concatenated");
  *shape = Shape();
  for (int k = 0; k < first.rank() + (stacks ? 1 : 0); ++k)
    shape->push_back(k == *axis ? total : first[stacks && k > *axis ? k - 1 : k]);
  MINNOW_RETURN_IF_ERROR(check_shape(*shape));
  return check_declared(attrs, *shape);
}

Status infer_concat_sequence(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_sequence(c));
  if (set_declared(c, result_dtype(c.attrs))) return ok();
  if (c.value(0) == nullptr) return c.needs_value(0);
  Shape shape;
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(concat_shape(c.attrs, *c.value(0), &shape, &axis));
  c.set(0, result_dtype(c.attrs), shape);
  return ok();
}

void run_concat(const Attrs& attrs, const RunContext& c) {
  Tensor& y = *c.out[0];
  Shape shape;
  int axis = 0;
  const Status status = concat_shape(attrs, *c.in[0], &shape, &axis);
  if (!status.ok()) return c.report(status);
  if (shape != y.shape()) return c.report(fail(Code::kInternal, "the sequence has changed"));
  const int64_t rows = shape.count(0, axis), inner = shape.count(axis + 1, shape.rank()), row = shape[axis] * inner;
  Reader reader(*c.in[0]);
  Tensor element;
  int64_t first = 0;
  while (reader.next(&element)) {
    const int64_t part = (attrs.b("new_axis") ? 1 : element.dim(axis)) * inner;
    const Status copied = copy_rows(element, y, rows, part, row, first);
    if (!copied.ok()) return c.report(copied);
    first += part;
  }
}

MINNOW_OP("ConcatFromSequence", infer_concat_sequence);
MINNOW_KERNEL("ConcatFromSequence", create_simple<run_concat>);

// --- SplitToSequence

// How an axis is cut: into parts of one size, or of those given.
struct SequenceCut {
  int axis = 0;
  int64_t parts = 0, size = 1;
  const Tensor* sizes = nullptr;
  bool drops_axis = false;

  Status make(const Attrs& attrs, const Shape& x, const Tensor* split) {
    MINNOW_RETURN_IF_ERROR(normalize_axis(attrs.i("axis"), x.rank(), &axis));
    const int64_t length = x[axis];
    drops_axis = split == nullptr && !attrs.b("keepdims", true);
    if (split != nullptr && split->rank() == 1) {
      sizes = split;
      parts = split->count();
      const IntView given(*split);
      int64_t left = length;
      for (int64_t i = 0; i < parts; ++i) {
        if (given[i] < 0 || given[i] > left) left = -1;
        if (left < 0) break;
        left -= given[i];
      }
      if (left == 0) return ok();
      return fail(Code::kFormat, "the sizes of the parts do not add up to the %lld of axis %d",
                  static_cast<long long>(length), axis);
    }
    if (split != nullptr) size = IntView(*split)[0];
    if (size < 1) return fail(Code::kFormat, "parts of %lld", static_cast<long long>(size));
    parts = length / size + (length % size != 0 ? 1 : 0);
    return ok();
  }
  int64_t part(int64_t i, int64_t length) const {
    return sizes != nullptr ? IntView(*sizes)[i] : std::min(size, length - i * size);
  }
  TensorType type(const TensorType& x, int64_t length) const {
    TensorType part{x.dtype, Layout::kPlain, Shape()};
    for (int k = 0; k < x.shape.rank(); ++k)
      if (k != axis || !drops_axis) part.shape.push_back(k == axis ? length : x.shape[k]);
    return part;
  }
};

Status infer_split_sequence(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  const Tensor* split = nullptr;
  if (c.has(1)) {
    MINNOW_RETURN_IF_ERROR(require_int(c, 1));
    MINNOW_RETURN_IF_ERROR(require_rank(c, 1, 0, 1));
    split = c.value(1);
    if (split == nullptr) return c.needs_value(1);
  }
  SequenceCut cut;
  MINNOW_RETURN_IF_ERROR(cut.make(c.attrs, c.shape(0), split));
  const int64_t length = c.shape(0)[cut.axis];
  int64_t bytes = kHeader;
  // Of parts of one size all but the last are alike. There may be very many, of no elements.
  int64_t alike = cut.sizes == nullptr ? std::max<int64_t>(0, cut.parts - 1) : 0;
  if (alike > 0 && __builtin_mul_overflow(alike, record_bytes(cut.type(c.in(0), cut.size)), &alike))
    return fail(Code::kFormat, "it is too large");
  const bool fits = !__builtin_add_overflow(bytes, alike, &bytes);
  for (int64_t i = alike > 0 ? cut.parts - 1 : 0; i < cut.parts; ++i) {
    if (!fits || __builtin_add_overflow(bytes, record_bytes(cut.type(c.in(0), cut.part(i, length))), &bytes))
      return fail(Code::kFormat, "it is too large");
  }
  c.set(0, DType::kU8, {bytes});
  return ok();
}

void run_split(const Attrs& attrs, const RunContext& c) {
  const Tensor& x = *c.in[0];
  SequenceCut cut;
  const Status status = cut.make(attrs, x.shape(), c.in.size() > 1 ? c.in[1] : nullptr);
  if (!status.ok()) return c.report(status);
  const int64_t length = x.dim(cut.axis), size = static_cast<int64_t>(dtype_size(x.type.dtype));
  const int64_t rows = x.shape().count(0, cut.axis), inner = x.shape().count(cut.axis + 1, x.rank());
  char* to = write_header(c.out[0]->as<char>(), kSequence, cut.parts);
  int64_t first = 0;
  for (int64_t i = 0; i < cut.parts; ++i) {
    const int64_t part = cut.part(i, length);
    const TensorType type = cut.type(x.type, part);
    char* data = write_record(to, type);
    const auto bytes = static_cast<size_t>(part * inner * size);
    for (int64_t r = 0; r < rows && bytes > 0; ++r)
      std::memcpy(data + static_cast<size_t>(r) * bytes, x.as<char>() + (r * length + first) * inner * size, bytes);
    first += part;
    to += record_bytes(type);
  }
}

MINNOW_OP("SplitToSequence", infer_split_sequence);
MINNOW_KERNEL("SplitToSequence", create_simple<run_split>);

}  // namespace
}  // namespace minnow
