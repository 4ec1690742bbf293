// Contours and connected components of pictures, and convex hulls of points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace minnow::contour {

struct Pixel {
  int32_t x = 0, y = 0;
  bool operator==(const Pixel& o) const { return x == o.x && y == o.y; }
  bool operator!=(const Pixel& o) const { return !(*this == o); }
};

enum class Retrieval { kExternal = 0, kList = 1, kComponents = 2, kTree = 3 };
enum class Approximation { kNone = 1, kSimple = 2, kTehChinL1 = 3, kTehChinCosine = 4 };

// A border as steps between pixels: directions 0 to 7, from east counterclockwise as seen with y down.
struct Chain {
  Pixel start;
  std::vector<uint8_t> steps;
};

struct Contour {
  std::vector<Pixel> points;
  int32_t next = -1, previous = -1, child = -1, parent = -1;
};

// Borders between zero and nonzero pixels, the last found first, below their parents.
std::vector<Contour> find_contours(const uint8_t* picture, int64_t width, int64_t height, Retrieval retrieval,
                                   Approximation approximation, Pixel offset);

// The dominant points of a closed chain, by Teh and Chin.
std::vector<Pixel> dominant_points(const Chain& chain, bool cosine);

struct Component {
  int32_t left = 0, top = 0, right = -1, bottom = -1;  // the last row and column are included
  int64_t area = 0, sum_x = 0, sum_y = 0;
};

// Labels of the connected nonzero pixels from 1 on, and row 0 for the zeros. With 8 neighbors the components are in the
// order in which blocks of 2x2 pixels meet them, with 4 in that of pixels.
std::vector<Component> label_components(const uint8_t* picture, int64_t width, int64_t height, bool eight,
                                        int32_t* labels);

// Indices of the corners of the convex hull, without points on edges.
std::vector<int32_t> convex_hull(const double* points, size_t count, bool clockwise);

// A corner, and the two sides from there.
struct Rectangle {
  float corner_x, corner_y, along_x, along_y, across_x, across_y;
};

// Around a convex polygon of at least three corners [n, 2].
Rectangle least_rectangle(const std::vector<float>& polygon);

}  // namespace minnow::contour
