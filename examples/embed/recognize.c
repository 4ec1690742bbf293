/* The engine in a C program, without Python: recognizes the digit drawn below.
 *
 *   ./dev demo                                        # makes examples/digits/out/digits.mnn
 *   cmake --install build/cp* --component library --prefix ~/minnow
 *   export PKG_CONFIG_PATH=~/minnow/lib/pkgconfig
 *   cc recognize.c $(pkg-config --cflags --libs minnow) -Wl,-rpath,$HOME/minnow/lib -o recognize
 *   ./recognize ../digits/out/digits.mnn
 */
#include <minnow/minnow.h>
#include <stdio.h>

static const char* const kDrawing[8] = {
    "  .##.  ",  //
    " .#..#. ",  //
    " #.  .# ",  //
    " #    # ",  //
    " #    # ",  //
    " #.  .# ",  //
    " .#..#. ",  //
    "  .##.  ",
};

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, minnow_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: %s digits.mnn\n", argv[0]), 2;

  minnow_model* model;
  minnow_session* session;
  if (minnow_load_file(argv[1], &model) != MINNOW_OK) return fail("load");
  minnow_options options = MINNOW_OPTIONS;
  options.timeout_ms = 10000; /* of each run, for models that may be slow or malicious */
  if (minnow_create_session(model, &options, &session) != MINNOW_OK) return fail("session");
  minnow_free_model(model); /* the session keeps what it needs */

  float image[8 * 8];
  for (int i = 0; i < 8 * 8; ++i) {
    const char ink = kDrawing[i / 8][i % 8];
    image[i] = ink == '#' ? 1.0f : ink == '.' ? 0.4f : 0.0f;
  }
  const minnow_tensor in = {.name = "image", .dtype = MINNOW_F32, .rank = 4, .shape = {1, 1, 8, 8}, .data = image};
  minnow_tensor out = {.name = "probability"};
  if (minnow_run(session, &in, 1, &out, 1) != MINNOW_OK) return fail("run");

  const float* probability = out.data;
  int best = 0;
  for (int digit = 1; digit < out.shape[1]; ++digit) {
    if (probability[digit] > probability[best]) best = digit;
  }
  printf("a %d, with probability %.2f\n", best, probability[best]);
  minnow_free_session(session);
  return 0;
}
