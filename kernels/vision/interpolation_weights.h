// Weights of cubic and Lanczos interpolation, as OpenCV computes them.
#pragma once

#include <cmath>

namespace minnow::vision {

// Of 4 neighbors, for a place in [0, 1) after the second one.
inline void cubic_weights(float x, float* w) {
  constexpr float a = -0.75f;
  w[0] = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a;
  w[1] = ((a + 2) * x - (a + 3)) * x * x + 1;
  w[2] = ((a + 2) * (1 - x) - (a + 3)) * (1 - x) * (1 - x) + 1;
  w[3] = 1.0f - w[0] - w[1] - w[2];
}

// Of 8 neighbors, for a place after the fourth one.
inline void lanczos_weights(float x, float* w) {
  constexpr double kPi = 3.14159265358979323846;
  constexpr double kRoot = 0.70710678118654752440;
  constexpr double kTurns[8][2] = {{1, 0},  {-kRoot, -kRoot}, {0, 1},  {kRoot, -kRoot},
                                   {-1, 0}, {kRoot, kRoot},   {0, -1}, {-kRoot, kRoot}};
  const double y0 = -(static_cast<double>(x) + 3) * kPi * 0.25;
  const double s0 = std::sin(y0), c0 = std::cos(y0);
  float sum = 0;
  for (int i = 0; i < 8; ++i) {
    const float distance = x + 3 - static_cast<float>(i);
    if (std::fabs(distance) >= 1e-6f) {
      const double y = -static_cast<double>(distance) * kPi * 0.25;
      w[i] = static_cast<float>((kTurns[i][0] * s0 + kTurns[i][1] * c0) / (y * y));
    } else {
      w[i] = 1e30f;  // all that counts
    }
    sum += w[i];
  }
  for (int i = 0; i < 8; ++i) w[i] *= 1.0f / sum;
}

}  // namespace minnow::vision
