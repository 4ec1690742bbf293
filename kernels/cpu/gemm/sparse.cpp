#include "kernels/cpu/gemm/sparse.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/sparse_micro_kernel.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/movement/transpose.h"

namespace minnow {
namespace {

// Of fewer zeros no kernel makes use.
constexpr double kLeastZeros = 0.4;
constexpr int kSamples = 64, kSampled = 64;  // runs of weights that are looked at first, and how long these are
// What a piece reads, in bytes: of one row it should stay in the first-level cache while there are vectors enough, of
// several it is in the second-level cache.
constexpr int64_t kRowBytes = 48 << 10, kBandBytes = 512 << 10;
constexpr int64_t kMostTiles = 4;     // of a piece of one row
constexpr int64_t kHeld = 16;         // floats in front of what a worker has gathered
constexpr int64_t kBehind = 12 * 16;  // floats behind it that tiles read
// Multiplications that take as long as what a tile does once, and what a step waits for.
constexpr double kTileStart = 50, kLatency = 8;
// What a step takes is more by this where its inputs come from the second-level cache, several rows of them, and where
// there is one product for each vector that is read.
constexpr double kOfRows = 1.6, kAlone = 2.5;
// A transform as the cost model knows it is of tiles of Winograd; vectors that are transposed take a third of it.
constexpr double kTransposition = 0.35;

bool looks_sparse(const SparseMatrix& m) {
  const int64_t run = std::min<int64_t>(kSampled, m.inputs);
  int64_t zeros = 0;
  for (int i = 0; i < kSamples; ++i) {
    const int64_t row = i * m.outputs / kSamples, first = (m.inputs - run) * (i * 37 % kSamples) / kSamples;
    for (int64_t k = 0; k < run; ++k) zeros += *m.at(row, first + k) == 0.0f;
  }
  return static_cast<double>(zeros) >= kLeastZeros * static_cast<double>(kSamples * run);
}

// How many blocks of 1 and of 4 outputs are not 0.
struct Nonzero {
  int64_t ones = 0, fours = 0;
};

Nonzero count_nonzero(const SparseMatrix& m, int64_t outputs_of_group) {
  Nonzero found;
  LongLoop loop;
  for (int64_t group = 0; group < m.outputs; group += outputs_of_group)
    for (int64_t row = group; row < group + outputs_of_group && loop.goes_on(m.inputs); row += 4) {
      const int64_t rows = std::min<int64_t>(4, group + outputs_of_group - row);
      for (int64_t k = 0; k < m.inputs; ++k) {
        int there = 0;
        for (int64_t r = 0; r < rows; ++r) there += *m.at(row + r, k) != 0.0f;
        found.ones += there;
        found.fours += there != 0;
      }
    }
  return found;
}

}  // namespace

SparseShape SparseShape::of_rows(int64_t rows, int64_t inputs, int64_t outputs, const Activation& activation,
                                 int threads) {
  const int64_t pack = pack_width();
  SparseShape s;
  s.ic = inputs;
  s.oc = outputs;
  s.iw = s.ow = rows;
  s.in = {inputs, rows * inputs, pack, rows * inputs};
  s.out = {outputs, rows * outputs, pack, rows * outputs};
  s.out_lanes = outputs - (ceil_div(outputs, pack) - 1) * pack;
  s.activation = activation;
  s.threads = threads;
  return s;
}

std::unique_ptr<SparseProduct> SparseProduct::faster_than(double seconds, const SparseShape& s,
                                                          const SparseMatrix& matrix) {
  if constexpr (!is_kept("sparse products")) return nullptr;
  const int64_t pack = pack_width(), ocg = s.oc / s.group, icg = s.ic / s.group;
  if (Shape{s.n, s.oh, s.ow, s.oc, icg, s.kh, s.kw, s.ih, s.iw}.count() == 0) return nullptr;
  if (s.group > 1 && (icg % pack != 0 || ocg % pack != 0)) return nullptr;
  if (Shape{s.oc, icg, s.kh, s.kw}.count() > INT32_MAX || !looks_sparse(matrix)) return nullptr;
  const Nonzero nonzero = count_nonzero(matrix, ocg);
  std::unique_ptr<SparseProduct> best;
  for (int block : {4, 1}) {
    std::unique_ptr<SparseProduct> made(new SparseProduct(s, block, block == 4 ? nonzero.fours : nonzero.ones));
    if (!made->is_small() || estimate_seconds(made->work_) >= seconds) continue;
    seconds = estimate_seconds(made->work_);
    best = std::move(made);
  }
  if (best != nullptr) best->find(matrix);
  return best;
}

SparseProduct::SparseProduct(const SparseShape& shape, int block, int64_t nonzero)
    : shape_(shape), block_(block), pack_(pack_width()), most_vectors_(sparse_vectors(block)) {
  SparseShape& s = shape_;
  row_phases_ = std::min(s.kh, s.sh / std::gcd(s.sh, s.dh));
  column_phases_ = std::min(s.kw, s.sw / std::gcd(s.sw, s.dw));
  flat_ = s.kh == 1 && s.kw == 1 && s.sh == 1 && s.sw == 1 && s.top == 0 && s.left == 0 && s.ih == s.oh &&
          s.iw == s.ow && s.in.row == s.iw * s.in.pixel && s.out.row == s.ow * s.out.pixel;
  if (flat_) {
    s.iw = s.ow = s.ih * s.iw;
    s.ih = s.oh = 1;
  }
  divide();
  const double vectors = static_cast<double>(vectors_of(band_, width_));
  const double tiles = static_cast<double>(ceil_div(static_cast<int64_t>(vectors), most_vectors_));
  const double each = vectors / tiles, b = block;
  const double step = std::max({b * each, each + b + 1, kLatency}) * (block == 1 ? kAlone : 1) * (flat_ ? 1 : kOfRows);
  const double pieces = static_cast<double>(s.n * bands_);
  const double starts = static_cast<double>(row_blocks() * s.group) * (2 * b * each + kTileStart);
  const double gathered = static_cast<double>(s.ic * plane_) * std::min(static_cast<double>(parts_), 1.0 * s.threads);
  work_.products = pieces * tiles * (static_cast<double>(nonzero) * step + starts);
  work_.transforms = kTransposition *
                     (pieces * gathered + static_cast<double>(s.n * s.oh * s.ow * round_up(s.oc, pack_))) /
                     static_cast<double>(pack_);
  work_.bytes = static_cast<double>(nonzero) * (4 * b + 4);
}

int64_t SparseProduct::row_blocks() const { return ceil_div(of_group(shape_.oc), block_); }
int64_t SparseProduct::out_blocks() const { return ceil_div(of_group(shape_.oc), pack_); }

// Vectors of pixels from the first of a piece to its last, those between the rows too.
int64_t SparseProduct::vectors_of(int64_t rows, int64_t width) const {
  return ceil_div((rows - 1) * row_ + width, pack_);
}

int64_t SparseProduct::sums_stride() const { return vectors_of(band_, width_) * pack_; }

int64_t SparseProduct::worker_floats() const {
  return kHeld + round_up(of_group(shape_.ic) * plane_ + kBehind, 16) + round_up(pack_ * sums_stride(), 16) +
         round_up(columns() * block_, 16);
}

void SparseProduct::divide() {
  const SparseShape& s = shape_;
  const int64_t icg = of_group(s.ic), images = s.n * s.group;
  const int64_t beside = (s.kw - 1) * s.dw / s.sw, below = (s.kh - 1) * s.dh / s.sh;
  const int64_t phases = row_phases_ * column_phases_;
  const int64_t wanted = s.threads == 1 ? 1 : ceil_div(4 * s.threads, images);  // pieces of an image
  if (flat_) {
    const int64_t tile = most_vectors_ * pack_;
    const int64_t tiles = std::clamp<int64_t>(kRowBytes / (4 * icg * tile), 1, kMostTiles);
    bands_ = std::max(ceil_div(s.ow, tiles * tile), std::min(wanted, ceil_div(s.ow, tile)));
    width_ = round_up(ceil_div(s.ow, bands_), pack_);
    bands_ = ceil_div(s.ow, width_);
    width_ = std::min(width_, s.ow);
  } else {
    width_ = s.ow;
    const int64_t row_bytes = 4 * icg * phases * (s.ow + beside);
    const int64_t most = std::max<int64_t>(1, kBandBytes / row_bytes - below);
    bands_ = std::max(ceil_div(s.oh, most), std::min(wanted, ceil_div(s.oh * s.ow, most_vectors_ * pack_)));
    bands_ = std::clamp<int64_t>(bands_, 1, s.oh);
    band_ = ceil_div(s.oh, bands_);
    bands_ = ceil_div(s.oh, band_);
  }
  row_ = width_ + beside;
  plane_rows_ = band_ + below;
  plane_ = phases * plane_rows_ * row_;
  parts_ = std::clamp<int64_t>(ceil_div(wanted, bands_), 1, out_blocks());
}

void SparseProduct::find(const SparseMatrix& m) {
  const SparseShape& s = shape_;
  const int64_t taps = s.kh * s.kw, ocg = of_group(s.oc);
  for (int64_t k = 0; k < columns(); ++k) {
    const int64_t c = k / taps, y = k % taps / s.kw * s.dh, x = k % s.kw * s.dw;
    const int64_t phase = k % taps / s.kw % row_phases_ * column_phases_ + k % s.kw % column_phases_;
    columns_.push_back(static_cast<uint32_t>(c * plane_ + (phase * plane_rows_ + y / s.sh) * row_ + x / s.sw));
  }
  starts_.push_back(0);
  LongLoop loop;
  for (int64_t g = 0; g < s.group; ++g)
    for (int64_t row = 0; row < ocg && loop.goes_on(columns()); row += block_) {
      const int64_t rows = std::min<int64_t>(block_, ocg - row);
      for (int64_t k = 0; k < columns(); ++k) {
        bool there = false;
        for (int64_t r = 0; r < rows; ++r) there |= *m.at(g * ocg + row + r, k) != 0.0f;
        if (there) offsets_.push_back(columns_[static_cast<size_t>(k)]);
      }
      starts_.push_back(static_cast<uint32_t>(offsets_.size()));
    }
}

void SparseProduct::pack(const SparseMatrix& m, float* packed) const {
  const int64_t ocg = of_group(shape_.oc);
  size_t i = 0;
  LongLoop loop;
  for (int64_t block = 0; block + 1 < static_cast<int64_t>(starts_.size()) && loop.goes_on(4 * columns()); ++block) {
    const int64_t first = block / row_blocks() * ocg + block % row_blocks() * block_;
    const int64_t rows = std::min<int64_t>(block_, ocg - block % row_blocks() * block_);
    int64_t k = 0;
    for (; i < starts_[static_cast<size_t>(block) + 1]; ++i, ++k) {
      while (columns_[static_cast<size_t>(k)] != offsets_[i]) ++k;
      for (int64_t r = 0; r < block_; ++r) *packed++ = r < rows ? *m.at(first + r, k) : 0.0f;
    }
  }
}

SparseProduct::Piece SparseProduct::piece(int64_t i) const {
  const int64_t band = i % bands_, image = i / bands_;
  Piece p = {image / shape_.group, image % shape_.group, 0, 1, 0, width_};
  if (flat_) {
    p.column_begin = band * width_;
    p.column_end = std::min(shape_.ow, p.column_begin + width_);
  } else {
    p.row_begin = band * band_;
    p.row_end = std::min(shape_.oh, p.row_begin + band_);
  }
  return p;
}

// What the piece reads, with a plane for each input channel; 0 for what lies outside of the image. False: some of it is
// not finite.
bool SparseProduct::gather(const SparseCall& call, const Piece& p, float* to) const {
  const SparseShape& s = shape_;
  const int64_t icg = of_group(s.ic);
  LongLoop loop;
  for (int64_t c = 0; c < icg && loop.goes_on(plane_); c += pack_) {
    const int64_t lanes = std::min(pack_, icg - c);
    const float* image = call.x + p.image * s.in.image + (p.group * icg + c) / pack_ * s.in.block;
    for (int64_t a = 0; a < row_phases_; ++a)
      for (int64_t b = 0; b < column_phases_; ++b) {
        // Of the columns of this phase, those inside the image.
        const int64_t before = s.left - column_phase(b), first = p.column_begin * s.sw - before;
        const int64_t begin = std::clamp<int64_t>(first < 0 ? ceil_div(-first, s.sw) : 0, 0, row_);
        const int64_t end = std::clamp<int64_t>(first < s.iw ? (s.iw - 1 - first) / s.sw + 1 : 0, begin, row_);
        for (int64_t r = 0; r < plane_rows_; ++r) {
          float* row = to + c * plane_ + ((a * column_phases_ + b) * plane_rows_ + r) * row_;
          const int64_t y = (p.row_begin + r) * s.sh + row_phase(a) - s.top;
          const bool inside = y >= 0 && y < s.ih && begin < end;
          const int64_t from = inside ? begin : row_, until = inside ? end : row_;
          for (int64_t l = 0; l < lanes; ++l) {
            std::fill(row + l * plane_, row + l * plane_ + from, 0.0f);
            std::fill(row + l * plane_ + until, row + l * plane_ + row_, 0.0f);
          }
          if (!inside) continue;
          const int64_t stride = s.sw * s.in.pixel;
          const Transposition t = {lanes, end - begin, stride, plane_, end - begin, lanes};
          transpose(t, image + y * s.in.row + (first + begin * s.sw) * s.in.pixel, row + begin, sizeof(float));
        }
      }
  }
  return all_finite(to, icg * plane_);
}

// The sums of a block of pack_width() outputs, each with its pixels side by side.
void SparseProduct::multiply(const SparseCall& call, const Piece& p, int64_t block, const float* x, bool finite,
                             float* sums, float* spare) const {
  static const float kNoBias[4] = {};
  const int64_t ocg = of_group(shape_.oc), stride = sums_stride();
  const int64_t vectors = vectors_of(p.row_end - p.row_begin, p.column_end - p.column_begin);
  const int64_t tiles = ceil_div(vectors, most_vectors_);
  const int64_t last = std::min(row_blocks(), (block + 1) * pack_ / block_);
  SparseTile t;
  t.out_stride = stride;
  const bool clamps = call.residual == nullptr;
  t.low = clamps ? shape_.activation.low : -std::numeric_limits<float>::infinity();
  t.high = clamps ? shape_.activation.high : std::numeric_limits<float>::infinity();
  for (int64_t row = block * pack_ / block_; row < last; ++row) {
    const size_t at = static_cast<size_t>(p.group * row_blocks() + row);
    t.offsets = offsets_.data() + starts_[at];
    t.count = starts_[at + 1] - starts_[at];
    t.w = call.w + static_cast<int64_t>(starts_[at]) * block_;
    if (!finite) {
      const uint32_t* offset = t.offsets;
      const uint32_t* const end = offset + t.count;
      const float* w = t.w;
      for (size_t k = 0; k < columns_.size(); ++k) {
        const bool there = offset != end && *offset == columns_[k];
        for (int r = 0; r < block_; ++r) spare[static_cast<int64_t>(k) * block_ + r] = there ? *w++ : 0.0f;
        offset += there;
      }
      t.offsets = columns_.data();
      t.count = columns();
      t.w = spare;
    }
    t.bias = call.bias == nullptr ? kNoBias : call.bias + p.group * ocg + row * block_;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t first = i * vectors / tiles, count = (i + 1) * vectors / tiles - first;
      t.x = x + first * pack_;
      t.out = sums + (row * block_ - block * pack_) * stride + first * pack_;
      sparse_tile_function(block_, static_cast<int>(count))(t);
    }
  }
}

void SparseProduct::finish(const SparseCall& call, const Piece& p, int64_t block, const float* sums) const {
  const SparseShape& s = shape_;
  const int64_t ocg = of_group(s.oc), stride = sums_stride(), columns = p.column_end - p.column_begin;
  const int64_t lanes = p.group == s.group - 1 && block == out_blocks() - 1 ? s.out_lanes : pack_;
  const int64_t rows = std::min(lanes, ocg - block * pack_);
  const bool joined = s.out.pixel == lanes;
  for (int64_t y = p.row_begin; y < p.row_end; ++y) {
    const int64_t from = (y - p.row_begin) * row_;
    const int64_t at = p.image * s.out.image + (p.group * ocg / pack_ + block) * s.out.block + y * s.out.row +
                       p.column_begin * s.out.pixel;
    float* out = call.y + at;
    transpose({columns, lanes, stride, s.out.pixel, rows, stride - from}, sums + from, out, sizeof(float));
    if (call.residual != nullptr) {
      const int64_t count = joined ? 1 : columns, length = joined ? columns * lanes : lanes;
      for (int64_t i = 0; i < count; ++i)
        add_clamped(call.residual + at + i * s.out.pixel, length, s.activation.low, s.activation.high,
                    out + i * s.out.pixel);
    }
    if (s.activation.is_clamp()) continue;
    if (joined) {
      activate(s.activation, out, columns * lanes);
    } else {
      activate(s.activation, out, columns, s.out.pixel, lanes);
    }
  }
}

void SparseProduct::run(const SparseCall& call) const {
  float* workspace = static_cast<float*>(call.workspace);
  for (int i = 0; i < shape_.threads; ++i)  // no worker has gathered a piece yet
    *reinterpret_cast<int64_t*>(workspace + i * worker_floats()) = -1;
  const int64_t blocks = out_blocks();
  const auto items = [&](int64_t begin, int64_t end, int worker) {
    float* space = workspace + worker * worker_floats();
    int64_t* held = reinterpret_cast<int64_t*>(space);  // the piece, and whether it is finite
    float* x = space + kHeld;
    float* sums = x + round_up(of_group(shape_.ic) * plane_ + kBehind, 16);
    float* spare = sums + round_up(pack_ * sums_stride(), 16);
    LongLoop loop;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i % parts_;
      const Piece p = piece(i / parts_);
      if (held[0] != i / parts_) {
        held[1] = gather(call, p, x);
        held[0] = i / parts_;
      }
      for (int64_t b = part * blocks / parts_; b < (part + 1) * blocks / parts_; ++b) {
        if (!loop.goes_on(columns() * sums_stride() / 8)) return;
        multiply(call, p, b, x, held[1] != 0, sums, spare);
        finish(call, p, b, sums);
      }
    }
  };
  const int64_t count = shape_.n * shape_.group * bands_ * parts_;
  if (call.pool == nullptr) return items(0, count, 0);
  call.pool->parallel_for(count, 1, items);
}

}  // namespace minnow
