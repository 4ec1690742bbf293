// Lowering of what stands behind the layers of detectors, by suppression of boxes that overlap.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

class Boxes {
 public:
  explicit Boxes(Expansion& e) : e_(e) {}

  int number(double value) { return e_.add("Reshape", {e_.floats({static_cast<float>(value)}), e_.ints({})}); }
  int shaped(int x, const Ints& dims) { return e_.add("Reshape", {x, e_.ints(dims)}); }
  int part(int x, int64_t axis, int64_t from, int64_t to) {
    return e_.add("Slice", {x, e_.ints({from}), e_.ints({to}), e_.ints({axis})});
  }
  // Of the rows that suppression gives (image, class, box).
  int column(int rows, int64_t i) { return e_.add("Squeeze", {part(rows, 1, i, i + 1)}, {{"axes", Ints{1}}}); }
  int gathered(int x, int places) { return e_.add("Gather", {x, places}, {{"axis", int64_t{0}}}); }
  int to_float(int x) { return e_.add("Cast", {x}, {{"to", DType::kF32}}); }

  // Of two columns each, the lower and the upper corner around a center.
  int around(int center, int half) {
    return e_.add("Concat", {e_.add("Sub", {center, half}), e_.add("Add", {center, half})}, {{"axis", int64_t{1}}});
  }
  // Corners of boxes [n, 4] that are told as differences from others [n, 4].
  int decoded(int codes, int prior, int variance) {
    if (variance >= 0) codes = e_.add("Mul", {codes, variance});
    if (e_.attrs().b("corners")) return e_.add("Add", {prior, codes});
    const int low = part(prior, 1, 0, 2), high = part(prior, 1, 2, 4);
    const int size = e_.add("Sub", {high, low}), middle = e_.add("Mul", {e_.add("Add", {low, high}), number(0.5)});
    const int center = e_.add("Add", {e_.add("Mul", {part(codes, 1, 0, 2), size}), middle});
    const int grown = e_.add("Mul", {e_.add("Exp", {part(codes, 1, 2, 4)}), size});
    return around(center, e_.add("Mul", {grown, number(0.5)}));
  }

 private:
  Expansion& e_;
};

// Boxes and scores of one image. A row for each box that is found: its label, its score, its corners.
Status expand_detection_output(Expansion& e) {
  Boxes b(e);
  const int64_t n = e.shape(2).count() / 8, classes = e.attrs().i("classes");
  const int64_t keep = e.attrs().i("keep"), top = e.attrs().i("top"), background = e.attrs().i("background");
  if (n < 1 || e.shape(2).count() != n * 8 || e.shape(0).count() % (4 * n) != 0 ||
      e.shape(1).count() % (classes * n) != 0)
    return fail(Code::kFormat, "boxes of shape %s and scores of %lld classes of shape %s for prior boxes of shape %s",
                e.shape(0).str().c_str(), static_cast<long long>(classes), e.shape(1).str().c_str(),
                e.shape(2).str().c_str());
  if (e.shape(0).count() != 4 * n || e.shape(1).count() != classes * n)
    return fail(Code::kUnsupported, "the boxes of more than one image");
  const int both = b.shaped(e.in(2), {2, n, 4});
  const int variance = e.attrs().b("scaled") ? b.shaped(b.part(both, 0, 1, 2), {n, 4}) : -1;
  int prior = b.shaped(b.part(both, 0, 0, 1), {n, 4});
  int scores = e.add("Transpose", {b.shaped(e.in(1), {n, classes})}, {{"perm", Ints{1, 0}}});
  const int nothing = b.number(-std::numeric_limits<double>::infinity());
  if (e.num_inputs() > 3) {
    // A first guess moves the prior boxes, and says where there is only background.
    if (e.shape(3).count() != 2 * n || e.shape(4).count() != 4 * n)
      return fail(Code::kFormat, "a first guess of %s and %s for %lld boxes", e.shape(3).str().c_str(),
                  e.shape(4).str().c_str(), static_cast<long long>(n));
    const int object = b.shaped(b.part(b.shaped(e.in(3), {n, 2}), 1, 1, 2), {1, n});
    const int there = e.add("GreaterOrEqual", {object, b.number(e.attrs().f("objectness"))});
    scores = e.add("Where", {there, scores, b.number(0)});
    prior = b.decoded(b.shaped(e.in(4), {n, 4}), prior, variance);
  }
  const int boxes = b.decoded(b.shaped(e.in(0), {n, 4}), prior, variance);
  if (background >= 0 && background < classes) {
    std::vector<float> drop(static_cast<size_t>(classes));
    drop[static_cast<size_t>(background)] = 1;
    const int test = e.add("Cast", {b.shaped(e.floats(drop), {classes, 1})}, {{"to", DType::kBool}});
    scores = e.add("Where", {test, nothing, scores});
  }
  if (top > 0 && top < n) {
    const int best = e.add("TopK", {scores, e.ints({top})}, {{"axis", int64_t{1}}});
    e.another_output();
    const int stays = e.add("GreaterOrEqual", {scores, b.part(best, 1, top - 1, top)});
    scores = e.add("Where", {stays, scores, nothing});
  }
  // A box that is turned inside out shares nothing with others.
  const int low = b.part(boxes, 1, 0, 2), high = e.add("Max", {low, b.part(boxes, 1, 2, 4)});
  const int upright = e.add("Concat", {low, high}, {{"axis", int64_t{1}}});
  const int rows =
      e.add("NonMaxSuppression", {b.shaped(upright, {1, n, 4}), b.shaped(scores, {1, classes, n}), e.ints({n}),
                                  b.number(e.attrs().f("overlap")), b.number(std::max(e.attrs().f("least"), -1e30))});
  const int found = e.add("GatherND", {scores, b.part(rows, 1, 1, 3)}, {{"batch_dims", int64_t{0}}});
  int count = e.add("Shape", {found});
  if (keep > 0) count = e.add("Min", {count, e.ints({keep})});
  const int value = e.add("TopK", {found, count}, {{"axis", int64_t{0}}});
  const int order = e.another_output();
  const auto as_column = [&](int x) { return e.add("Unsqueeze", {x}, {{"axes", Ints{1}}}); };
  const int label = as_column(b.to_float(b.gathered(b.column(rows, 1), order)));
  const int corners = b.gathered(boxes, b.gathered(b.column(rows, 2), order));
  const int all = e.add("Concat", {label, as_column(value), corners}, {{"axis", int64_t{1}}});
  e.finish("Unsqueeze", {all}, {{"axes", Ints{0, 1}}});
  return ok();
}
MINNOW_LOWERING("mnn.DetectionOutput", expand_detection_output);

// Boxes [1, n, 4] relative to anchors [n, 4] (y, x, height, width) and scores [1, n, classes]: suppression by the best
// score of each box, whatever its class.
Status expand_detection_post_process(Expansion& e) {
  Boxes b(e);
  if (e.rank(0) != 3 || e.rank(1) != 3 || e.rank(2) != 2 || e.shape(0)[0] != 1 || e.shape(1)[0] != 1 ||
      e.shape(0)[2] != 4 || e.shape(2)[1] != 4 || e.shape(0)[1] != e.shape(2)[0] || e.shape(1)[1] != e.shape(2)[0])
    return fail(Code::kFormat, "boxes of shape %s and scores of shape %s for anchors of shape %s",
                e.shape(0).str().c_str(), e.shape(1).str().c_str(), e.shape(2).str().c_str());
  const int64_t n = e.shape(2)[0], given = e.shape(1)[2], classes = e.attrs().i("classes");
  const int64_t most = e.attrs().i("most"), per_box = e.attrs().i("per_box");
  if (given != classes && given != classes + 1)
    return fail(Code::kFormat, "%lld scores for %lld classes", static_cast<long long>(given),
                static_cast<long long>(classes));
  const auto scales = e.attrs().get<std::vector<double>>("scales", {});
  const auto two = [&](size_t i) {
    return e.floats({static_cast<float>(scales[i]), static_cast<float>(scales[i + 1])});
  };
  const int codes = b.shaped(e.in(0), {n, 4});
  const int place = b.part(e.in(2), 1, 0, 2), size = b.part(e.in(2), 1, 2, 4);
  const int moved = e.add("Mul", {e.add("Div", {b.part(codes, 1, 0, 2), two(0)}), size});
  const int grown = e.add("Mul", {e.add("Exp", {e.add("Div", {b.part(codes, 1, 2, 4), two(2)})}), size});
  const int boxes = b.around(e.add("Add", {moved, place}), e.add("Mul", {grown, b.number(0.5)}));

  const int scores = b.part(b.shaped(e.in(1), {n, given}), 1, given - classes, given);  // the first may be background
  const int best = e.add("TopK", {scores, e.ints({per_box})}, {{"axis", int64_t{1}}});
  const int labels = e.another_output();
  // "At least" as "more than".
  const float least = std::nextafter(static_cast<float>(e.attrs().f("least")), -std::numeric_limits<float>::infinity());
  const int rows = e.add("NonMaxSuppression",
                         {b.shaped(boxes, {1, n, 4}), b.shaped(b.part(best, 1, 0, 1), {1, 1, n}), e.ints({most}),
                          b.number(e.attrs().f("overlap")), b.number(static_cast<double>(least))});
  const int found = b.column(rows, 2);
  const int padded = e.add("Concat", {found, e.ints(Ints(static_cast<size_t>(most)))}, {{"axis", int64_t{0}}});
  const int places = b.part(padded, 0, 0, most), valid = e.add("Shape", {found});
  Ints order(static_cast<size_t>(most));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const int there = e.add("Unsqueeze", {e.add("Less", {e.ints(order), valid})}, {{"axes", Ints{1}}});
  const auto picked = [&](int x) { return e.add("Where", {there, b.gathered(x, places), b.number(0)}); };
  const auto finish = [&](int output, int x, const Ints& dims) {
    e.finish(output, "Reshape", {x, e.ints(dims)}, Attrs());
  };
  const int each = e.add("Unsqueeze", {picked(boxes)}, {{"axes", Ints{1}}});
  const int repeated = e.add("Expand", {each, e.ints({most, per_box, 4})});
  const int named = picked(b.to_float(labels)), scored = picked(best), counted = b.to_float(valid);
  finish(0, repeated, {1, most * per_box, 4});
  finish(1, named, {1, most * per_box});
  finish(2, scored, {1, most * per_box});
  finish(3, counted, {1});
  return ok();
}
MINNOW_LOWERING("mnn.DetectionPostProcess", expand_detection_post_process);

}  // namespace
}  // namespace minnow
