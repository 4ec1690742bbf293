"""What minnow.hpp makes of shapes, places and tensors that cannot be: an error, under AddressSanitizer and UBSan."""

from __future__ import annotations

import subprocess
from pathlib import Path

INCLUDE = Path(__file__).parents[3] / "runtime" / "include"
PROGRAM = """
#include <minnow/minnow.hpp>

#include <cstdio>

template <typename Call>
void refused(const char* what, Call call) {
  try {
    call();
    std::printf("%s: no error\\n", what);
  } catch (const minnow::Error& e) {
    if (e.code() != MINNOW_USAGE) std::printf("%s: %d\\n", what, e.code());
  }
}

int main() {
  std::vector<float> one(1), none;
  const int64_t half = int64_t{1} << 32;
  refused("13 axes", [&] { minnow::shape_of("x", MINNOW_F32, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  refused("14 axes", [&] { minnow::tensor("x", one, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  refused("two below 0", [&] { minnow::tensor("x", one, {-1, -1}); });
  refused("a product of 2^64", [&] { minnow::tensor("x", none, {half, half}); });
  minnow_tensor missing{};
  const minnow_node before{sizeof(minnow_node), "n", "Add", 1, 0, &missing, nullptr};
  const minnow::Node node(before);
  refused("an input that is not there", [&] { node.input(1); });
  refused("an output before the run", [&] { node.output(0); });
  for (float x : node.input(0).data<float>()) std::printf("%f of a missing input\\n", x);
  if (minnow::tensor("x", one, {1, 1}).count() != 1) std::printf("not one\\n");
  if (minnow::tensor("x", none, {0, half}).count() != 0) std::printf("not none\\n");
}
"""


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(PROGRAM)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=address,undefined"]
    line = ["g++", *flags, f"-I{INCLUDE}", "main.cpp", "-o", "main", "-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run(line, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")
