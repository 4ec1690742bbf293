/* Minnow's C API for text: language models, from a folder that `mnnconvert` has made to text.
 *
 *   minnow_text* model;
 *   if (minnow_text_load("smollm2", NULL, &model) != MINNOW_OK) return puts(minnow_text_last_error());
 *   minnow_text_request request = MINNOW_TEXT_REQUEST;
 *   request.prompt = "Once upon a time";
 *   request.prompt_size = strlen(request.prompt);
 *   minnow_text_generate(model, &request, on_piece, NULL, NULL);
 *   minnow_text_free(model);
 *
 * The library libminnow_text needs libminnow, and is a separate one: programs without text do not carry it. Functions
 * may be called from any thread; generations of one model wait for each other. No function throws, aborts or prints.
 * Functions that can fail return a minnow_code; minnow_text_last_error() then has the message. Texts are UTF-8.
 */
#ifndef MINNOW_MINNOW_TEXT_H
#define MINNOW_MINNOW_TEXT_H

#include <minnow/minnow.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct minnow_tokenizer minnow_tokenizer;
typedef struct minnow_decoder minnow_decoder;
typedef struct minnow_text minnow_text;

/* The message of the last call that failed in this thread. Valid until the thread's next call. */
MINNOW_API const char* minnow_text_last_error(void);

/* ---- tokenizers ---- */

/* Reads a tokenizer.json, or the one of a folder: byte-pair encoding, of bytes or with bytes for unknown characters, as
 * Llama, Qwen, GPT-2 and SmolLM have it; Unigram (T5, XLM-RoBERTa); WordPiece (BERT). Errors: MINNOW_FORMAT;
 * MINNOW_UNSUPPORTED for other kinds. */
MINNOW_API minnow_code minnow_tokenizer_load(const char* path, minnow_tokenizer** tokenizer);
/* NULL is allowed, here and below. Decoders must be freed before. */
MINNOW_API void minnow_tokenizer_free(minnow_tokenizer* tokenizer);

/* What becomes of a text: MARKS puts the tokens around it that the file says, such as the one that begins a text; PARSE
 * makes tokens of texts of special tokens in it, such as <|im_start|>: not for what strangers have written. */
enum { MINNOW_TEXT_MARKS = 1, MINNOW_TEXT_PARSE = 2 };
/* The tokens of a text. `count` is set to how many there are; with less `capacity` nothing is written, and the result
 * is MINNOW_USAGE unless `ids` is NULL. */
MINNOW_API minnow_code minnow_tokenizer_encode(const minnow_tokenizer* tokenizer, const char* text, size_t size,
                                               int32_t flags, int32_t* ids, size_t capacity, size_t* count);
/* The text of tokens, without special ones. `size` is set to its bytes; capacity as above. No zero byte is added. */
MINNOW_API minnow_code minnow_tokenizer_decode(const minnow_tokenizer* tokenizer, const int32_t* ids, size_t count,
                                               char* text, size_t capacity, size_t* size);

/* Gives the text of tokens that come one after the other, and never a part of a character. */
MINNOW_API minnow_code minnow_decoder_create(const minnow_tokenizer* tokenizer, minnow_decoder** decoder);
/* The text that is complete with the next token; it belongs to the decoder and is valid until the next call with it. */
MINNOW_API minnow_code minnow_decoder_push(minnow_decoder* decoder, int32_t id, const char** text, size_t* size);
/* The rest: what never became a character is U+FFFD. The decoder then begins anew. */
MINNOW_API minnow_code minnow_decoder_finish(minnow_decoder* decoder, const char** text, size_t* size);
MINNOW_API void minnow_decoder_free(minnow_decoder* decoder);

/* ---- language models ---- */

/* Initialize with MINNOW_TEXT_OPTIONS, which has the defaults of the command line. New fields are added at the end
 * only.
 */
typedef struct minnow_text_options {
  size_t struct_size;         /* sizeof(minnow_text_options) */
  int32_t threads;            /* 0: all that this process may use */
  minnow_precision precision; /* of products, as in minnow_options */
  int64_t cached_tokens;      /* the most tokens of a prompt and its answer; 0: the context of the model */
} minnow_text_options;
#define MINNOW_TEXT_OPTIONS \
  { sizeof(minnow_text_options), 0, MINNOW_NORMAL, 0 }

/* Loads the folder of a language model that continues texts: llm.json, tokenizer.json, model.mnn. Errors:
 * MINNOW_FORMAT, MINNOW_UNSUPPORTED, MINNOW_USAGE. */
MINNOW_API minnow_code minnow_text_load(const char* folder, const minnow_text_options* options, minnow_text** model);
MINNOW_API void minnow_text_free(minnow_text* model);

/* What there is to know of a model. The strings are valid as long as it. Initialize with MINNOW_TEXT_INFO. */
typedef struct minnow_text_info {
  size_t struct_size;        /* sizeof(minnow_text_info) */
  const char* name;          /* of the model */
  const char* architecture;  /* "llama" */
  const char* chat_template; /* Jinja, which the caller renders; NULL: there is none */
  int32_t vocabulary;        /* how many tokens there are */
  int32_t context;           /* the most tokens of a text */
  int32_t bos;               /* the token that begins a text; -1: none */
} minnow_text_info;
#define MINNOW_TEXT_INFO \
  { sizeof(minnow_text_info), NULL, NULL, NULL, 0, 0, 0 }
MINNOW_API minnow_code minnow_text_get_info(const minnow_text* model, minnow_text_info* info);
/* The tokenizer of a model, which owns it. */
MINNOW_API const minnow_tokenizer* minnow_text_tokenizer(const minnow_text* model);

/* What to write, and how tokens are chosen: penalties, top_k, top_p, min_p, the temperature. Initialize with
 * MINNOW_TEXT_REQUEST, which has the defaults of the command line. New fields are added at the end only. */
typedef struct minnow_text_request {
  size_t struct_size;    /* sizeof(minnow_text_request) */
  const char* prompt;    /* a text to continue, as it is; chat templates are the caller's */
  size_t prompt_size;    /* in bytes */
  int32_t flags;         /* MINNOW_TEXT_MARKS, MINNOW_TEXT_PARSE */
  const int32_t* tokens; /* other than NULL: the prompt as tokens, in place of `prompt` */
  size_t num_tokens;     /* how many */
  int32_t max_tokens;    /* of the answer; 0: what the context has left */
  double temperature;    /* 0: always the most probable token */
  int32_t top_k;         /* keeps so many tokens; 0: all */
  double top_p;          /* keeps the most probable ones up to this probability in all; 1: all */
  double min_p;          /* keeps those with this part of the largest probability; 0: all */
  double repetition_penalty, presence_penalty, frequency_penalty; /* 1, 0, 0: none */
  int32_t penalty_window;                                         /* how many of the last tokens they look at; 0: all */
  int64_t seed;            /* of the random numbers; below 0: each answer has its own */
  const char* const* stop; /* texts, ended by zero bytes, in front of which the answer ends */
  size_t num_stop;         /* how many */
} minnow_text_request;
#define MINNOW_TEXT_REQUEST                                                                                            \
  {                                                                                                                    \
    sizeof(minnow_text_request), NULL, 0, MINNOW_TEXT_MARKS | MINNOW_TEXT_PARSE, NULL, 0, 0, 0.8, 40, 0.95, 0.05, 1.0, \
        0.0, 0.0, 64, -1, NULL, 0                                                                                      \
  }

/* Gets a piece of the answer: whole characters, not ended by a zero byte. Returns 0 to continue; anything else ends the
 * answer. It is called in the thread of minnow_text_generate, and must not call functions with this model but
 * minnow_text_cancel. */
typedef int32_t (*minnow_text_callback)(void* user, const char* piece, size_t size);

/* Why an answer ended: a token or text that ends it; its length; the callback, or minnow_text_cancel. */
typedef int32_t minnow_text_reason;
enum { MINNOW_TEXT_STOP, MINNOW_TEXT_LENGTH, MINNOW_TEXT_CANCELLED };

/* What became of a request. Initialize with MINNOW_TEXT_RESULT. */
typedef struct minnow_text_result {
  size_t struct_size; /* sizeof(minnow_text_result) */
  minnow_text_reason reason;
  const int32_t* tokens; /* of the answer, without the one that ended it; valid until the next answer of the model */
  size_t num_tokens;     /* of the answer */
  size_t prompt_tokens;  /* of the prompt */
  size_t cached_tokens;  /* of these, how many the last answer had left in the cache */
  double prompt_seconds; /* to the first token */
  double answer_seconds; /* from there on */
} minnow_text_result;
#define MINNOW_TEXT_RESULT \
  { sizeof(minnow_text_result), 0, NULL, 0, 0, 0, 0, 0 }

/* Writes an answer. `callback` and `result` may be NULL. What the prompt has in common with the text before it is not
 * computed again. Errors: MINNOW_USAGE (the prompt is empty, too long or no UTF-8, an option is wrong), those of
 * minnow_run. */
MINNOW_API minnow_code minnow_text_generate(minnow_text* model, const minnow_text_request* request,
                                            minnow_text_callback callback, void* user, minnow_text_result* result);
/* Ends the current answer, which then has the reason MINNOW_TEXT_CANCELLED. May be called from another thread. */
MINNOW_API void minnow_text_cancel(minnow_text* model);

#ifdef __cplusplus
}
#endif

#endif
