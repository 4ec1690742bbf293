// NonMaxSuppression: of boxes that overlap much, the one with the best score.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/operand.h"

namespace minnow {
namespace {

struct Settings {
  int64_t most = 0;  // boxes per image and class
  float overlap = 0;
  float least_score = 0;
  bool has_least_score = false;
  bool centers = false;  // boxes are [x, y, width, height], not two corners [y, x, y, x]
};

template <typename At>
Settings read_settings(const Attrs& attrs, At at) {
  Settings s;
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
  float x0, y0, x1, y1;

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
  }
  float area() const { return (x1 - x0) * (y1 - y0); }
};

bool overlaps(const Box& a, const Box& b, float threshold) {
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(width > 0) || !(height > 0)) return false;
  const float common = width * height, area_a = a.area(), area_b = b.area();
  if (area_a <= 0 || area_b <= 0) return false;
  const float all = area_a + area_b - common;
  return all > 0 && common / all > threshold;
}

// Chooses boxes for all images and classes; `work` has room for the number of boxes. Calls keep(image, class, box).
template <typename Keep>
void select_boxes(const Tensor& boxes, const Tensor& scores, const Settings& s, int64_t* work, Keep keep) {
  const int64_t n = boxes.dim(1), classes = scores.dim(1);
  if (s.most == 0) return;
  for (int64_t line = 0; line < scores.dim(0) * classes; ++line) {
    const float* score = scores.as<float>() + line * n;
    const float* box = boxes.as<float>() + line / classes * n * 4;
    int64_t candidates = 0;
    for (int64_t i = 0; i < n; ++i)
      if (!std::isnan(score[i]) && (!s.has_least_score || score[i] > s.least_score)) work[candidates++] = i;
    std::sort(work, work + candidates,
              [score](int64_t a, int64_t b) { return score[a] != score[b] ? score[a] > score[b] : a < b; });
    int64_t kept = 0;  // the chosen ones move to the front of `work`
    for (int64_t i = 0; i < candidates && kept < s.most; ++i) {
      const Box candidate(box + work[i] * 4, s.centers);
      bool free = true;
      for (int64_t k = 0; k < kept && free; ++k) free = !overlaps(candidate, Box(box + work[k] * 4, s.centers), s.overlap);
      if (!free) continue;
      work[kept++] = work[i];
      keep(line / classes, line % classes, work[kept - 1]);
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
  std::vector<int64_t> work(static_cast<size_t>(boxes[1]));
  int64_t found = 0;
  const Settings settings = read_settings(c.attrs, [&](int i) { return c.value(i); });
  select_boxes(*c.value(0), *c.value(1), settings, work.data(), [&](int64_t, int64_t, int64_t) { ++found; });
  c.set(0, DType::kI64, {found, 3});
  return ok();
}

class NmsKernel final : public Kernel {
 public:
  explicit NmsKernel(const Attrs& attrs) : attrs_(attrs) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = node.in[0]->shape[1] * static_cast<int64_t>(sizeof(int64_t));
    return ok();
  }

  void run(const RunContext& c) override {
    const auto at = [&](size_t i) { return i < c.in.size() ? c.in[i] : nullptr; };
    int64_t *y = c.out[0]->as<int64_t>(), *end = y + c.out[0]->count();
    select_boxes(*c.in[0], *c.in[1], read_settings(attrs_, at), static_cast<int64_t*>(c.workspace),
                 [&](int64_t image, int64_t klass, int64_t box) {
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

MINNOW_OP("NonMaxSuppression", infer_nms, create_nms);

}  // namespace
}  // namespace minnow
