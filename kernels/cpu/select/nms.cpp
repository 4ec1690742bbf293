// NonMaxSuppression: of boxes that overlap much, the one with the best score.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

struct NmsSettings {
  int64_t most = 0;  // boxes per image and class
  float overlap = 0;
  float least_score = 0;
  bool has_least_score = false;
  bool centers = false;  // boxes are [x, y, width, height], not two corners [y, x, y, x]
};

template <typename At>
NmsSettings read_nms(const Attrs& attrs, At at) {
  NmsSettings s;
  if (const Tensor* t = at(2)) s.most = std::max<int64_t>(0, number_at<int64_t>(*t, 0));
  if (const Tensor* t = at(3)) s.overlap = number_at<float>(*t, 0);
  if (const Tensor* t = at(4)) {
    s.least_score = number_at<float>(*t, 0);
    s.has_least_score = true;
  }
  s.centers = attrs.i("center_point_box", 0) != 0;
  return s;
}

struct Box {
  float x0, y0, x1, y1, area;

  Box(const float* b, bool centers) {
    if (centers) {
      x0 = b[0] - b[2] / 2;
      x1 = b[0] + b[2] / 2;
      y0 = b[1] - b[3] / 2;
      y1 = b[1] + b[3] / 2;
    } else {
      x0 = std::min(b[1], b[3]);
      x1 = std::max(b[1], b[3]);
      y0 = std::min(b[0], b[2]);
      y1 = std::max(b[0], b[2]);
    }
    area = (x1 - x0) * (y1 - y0);
  }
  bool overlaps(const Box& b, float threshold) const {
    const float width = std::min(x1, b.x1) - std::max(x0, b.x0), height = std::min(y1, b.y1) - std::max(y0, b.y0);
    if (!(width > 0) || !(height > 0) || area <= 0 || b.area <= 0) return false;
    const float common = width * height, all = area + b.area - common;
    return all > 0 && common / all > threshold;
  }
};

struct Candidate {
  float score;
  int32_t box;
};

// Room for the work on `n` boxes: all as candidates, and those that are kept.
int64_t work_bytes(int64_t n) { return n * static_cast<int64_t>(sizeof(Candidate) + sizeof(Box)); }

// Chooses boxes for all images and classes. Calls keep(image, class, box).
template <typename Keep>
void select_boxes(const Tensor& boxes, const Tensor& scores, const NmsSettings& s, void* work, Keep keep) {
  const int64_t n = boxes.dim(1), classes = scores.dim(1);
  Candidate* candidates = static_cast<Candidate*>(work);
  Box* kept = reinterpret_cast<Box*>(candidates + n);
  if (s.most == 0) return;
  LongLoop loop;
  for (int64_t line = 0; line < scores.dim(0) * classes; ++line) {
    const float* score = scores.as<float>() + line * n;
    const float* box = boxes.as<float>() + line / classes * n * 4;
    int64_t count = 0, kept_count = 0;
    for (int64_t i = 0; i < n; ++i)
      if (!std::isnan(score[i]) && (!s.has_least_score || score[i] > s.least_score))
        candidates[count++] = {score[i], static_cast<int32_t>(i)};
    const auto is_worse = [](const Candidate& a, const Candidate& b) {
      return a.score != b.score ? a.score < b.score : a.box > b.box;
    };
    // A heap, because often few of the best are all that is needed.
    for (std::make_heap(candidates, candidates + count, is_worse); count > 0 && kept_count < s.most; --count) {
      if (!loop.goes_on(64 + kept_count)) return;
      std::pop_heap(candidates, candidates + count, is_worse);
      const int64_t best = candidates[count - 1].box;
      const Box candidate(box + best * 4, s.centers);
      bool free = true;
      for (int64_t k = 0; k < kept_count && free; ++k) free = !candidate.overlaps(kept[k], s.overlap);
      if (!free) continue;
      kept[kept_count++] = candidate;
      keep(line / classes, line % classes, best);
    }
  }
}

Status infer_nms(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  for (int i = 0; i < 2; ++i) {
    MINNOW_RETURN_IF_ERROR(require_rank(c, i, 3, 3));
    MINNOW_RETURN_IF_ERROR(require_dtype(c, i, DType::kF32));
  }
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (boxes[0] != scores[0] || boxes[1] != scores[2] || boxes[2] != 4)
    return fail(Code::kFormat, "boxes must be [images,n,4] and scores [images,classes,n], not %s and %s",
                boxes.str().c_str(), scores.str().c_str());
  for (int i = 2; i < 5; ++i)
    if (c.has(i) && c.in(i).count() != 1)
      return fail(Code::kFormat, "input %d must be one number, not %s", i, c.shape(i).str().c_str());
  for (int i = 0; i < 5; ++i)
    if (c.has(i) && c.value(i) == nullptr) return c.needs_value(i);
  if (boxes[1] > std::numeric_limits<int32_t>::max()) return fail(Code::kUnsupported, "more than 2^31 boxes");
  MINNOW_RETURN_IF_ERROR(room_for(work_bytes(boxes[1])));
  std::vector<char> work(static_cast<size_t>(work_bytes(boxes[1])));
  int64_t found = 0;
  const NmsSettings settings = read_nms(c.attrs, [&](int i) { return c.value(i); });
  select_boxes(*c.value(0), *c.value(1), settings, work.data(), [&](int64_t, int64_t, int64_t) { ++found; });
  c.set(0, DType::kI64, {found, 3});
  return ok();
}

class NmsKernel final : public Kernel {
 public:
  explicit NmsKernel(const Attrs& attrs) : attrs_(attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = work_bytes(node.in[0]->shape[1]);
    return ok();
  }

  void run(const RunContext& c) override {
    const auto at = [&](size_t i) { return i < c.in.size() ? c.in[i] : nullptr; };
    int64_t *y = c.out[0]->as<int64_t>(), *end = y + c.out[0]->count();
    select_boxes(*c.in[0], *c.in[1], read_nms(attrs_, at), c.workspace, [&](int64_t image, int64_t klass, int64_t box) {
      if (y == end) return;
      *y++ = image;
      *y++ = klass;
      *y++ = box;
    });
  }

 private:
  const Attrs& attrs_;
};

std::unique_ptr<Kernel> create_nms(const NodeContext& node) { return std::make_unique<NmsKernel>(node.attrs); }

MINNOW_OP("NonMaxSuppression", infer_nms);
MINNOW_KERNEL("NonMaxSuppression", create_nms);

}  // namespace
}  // namespace minnow
