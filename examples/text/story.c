/* Continues a text with a language model: ./story FOLDER "Once upon a time"
 *
 * FOLDER is what `mnnconvert MODEL.gguf -o FOLDER` has made. To build it against libminnow and libminnow_text:
 *   cc story.c $(pkg-config --cflags --libs minnow_text) -o story
 */
#include <minnow/minnow_text.h>
#include <stdio.h>
#include <string.h>

static int32_t print(void* user, const char* piece, size_t size) {
  (void)user;
  fwrite(piece, 1, size, stdout);
  fflush(stdout);
  return 0; /* go on */
}

static int failed(minnow_code code) {
  fprintf(stderr, "error %d: %s\n", (int)code, minnow_text_last_error());
  return code;
}

int main(int argc, char** argv) {
  minnow_text* model;
  minnow_text_request request = MINNOW_TEXT_REQUEST;
  minnow_text_result result = MINNOW_TEXT_RESULT;
  minnow_code code;
  if (argc != 3) return fprintf(stderr, "usage: story FOLDER TEXT\n"), 2;
  code = minnow_text_load(argv[1], NULL, &model);
  if (code != MINNOW_OK) return failed(code);
  request.prompt = argv[2];
  request.prompt_size = strlen(argv[2]);
  request.temperature = 0; /* the most probable token each time */
  request.max_tokens = 60;
  code = minnow_text_generate(model, &request, print, NULL, &result);
  if (code == MINNOW_OK) printf("\n%d tokens after %d\n", (int)result.num_tokens, (int)result.prompt_tokens);
  minnow_text_free(model);
  return code == MINNOW_OK ? 0 : failed(code);
}
