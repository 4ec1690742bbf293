// The C API: exceptions become codes and messages here.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <random>

#include "minnow/minnow_text.h"
#include "runtime/text/answer.h"
#include "runtime/text/language_model.h"
#include "runtime/text/sampler.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"

using namespace minnow_language;

struct minnow_tokenizer {
  explicit minnow_tokenizer(const std::string& path) : own(path) {}
  Tokenizer own;
};

struct minnow_decoder {
  explicit minnow_decoder(const minnow_tokenizer* t) : tokenizer(&t->own), chain(t->own.decoder(), true) {}
  const Tokenizer* tokenizer;
  Chain chain;
  std::string text;
};

struct minnow_text {
  minnow_text(const std::string& folder, const minnow_text_options& options)
      : description(read_description(folder)), tokenizer(folder), model(folder, description, options) {}
  Description description;
  minnow_tokenizer tokenizer;
  LanguageModel model;
  std::mutex turn;
  std::vector<int32_t> answer;
  std::atomic<bool> cancelled{false};
};

namespace {

constexpr size_t kMessage = 4096;
thread_local char last_error[kMessage] = "";

minnow_code failed(minnow_code code, const char* message) {
  std::strncpy(last_error, message, kMessage - 1);
  return code;
}

template <class F>
minnow_code guarded(F&& work) {
  last_error[0] = '\0';
  try {
    work();
    return MINNOW_OK;
  } catch (const Error& e) {
    return failed(e.code, e.what());
  } catch (const std::bad_alloc&) {
    return failed(MINNOW_UNSUPPORTED, "there is not enough memory");
  } catch (const std::exception& e) {
    return failed(MINNOW_INTERNAL, e.what());
  } catch (...) {
    return failed(MINNOW_INTERNAL, "an unknown error");
  }
}

void require(bool given, const char* what) {
  if (!given) wrong(std::string(what) + " is NULL");
}

template <class T>
void give(const T* found, size_t count, T* into, size_t capacity, size_t* size) {
  *size = count;
  if (count > capacity) {
    if (into) wrong("there is room for " + std::to_string(capacity) + " of " + std::to_string(count));
    return;
  }
  if (into && count) std::memcpy(into, found, count * sizeof(T));
}

// The fields of a struct that the caller knows, and defaults for the others.
template <class T>
T known(const T* given, T defaults) {
  if (!given) return defaults;
  if (given->struct_size < sizeof(size_t) || given->struct_size > 1 << 16) wrong("struct_size is not set");
  std::memcpy(&defaults, given, std::min(given->struct_size, sizeof(T)));
  return defaults;
}

template <class T>
void fill(T* target, T made) {
  made.struct_size = target->struct_size;
  if (made.struct_size < sizeof(size_t)) wrong("struct_size is not set");
  std::memcpy(target, &made, std::min(made.struct_size, sizeof(T)));
}

std::string text_of(const char* text, size_t size) {
  require(text || !size, "the text");
  std::string made(text ? text : "", size);
  if (!is_utf8(made)) wrong("the text is no UTF-8");
  return made;
}

std::vector<int32_t> prompt_of(const minnow_text& model, const minnow_text_request& request) {
  std::vector<int32_t> tokens;
  const Description& d = model.description;
  if (request.tokens) {
    tokens.assign(request.tokens, request.tokens + request.num_tokens);
  } else {
    const bool marks = request.flags & MINNOW_TEXT_MARKS;
    tokens = model.tokenizer.own.encode(text_of(request.prompt, request.prompt_size), marks,
                                        request.flags & MINNOW_TEXT_PARSE);
    if (marks && d.add_bos && d.bos >= 0 && (tokens.empty() || tokens[0] != d.bos))
      tokens.insert(tokens.begin(), d.bos);
  }
  if (tokens.empty()) wrong("the prompt is empty");
  for (const int32_t token : tokens)
    if (token < 0 || token >= d.vocabulary) wrong("a token of the prompt is not in the vocabulary");
  if (tokens.size() >= model.model.most())
    wrong("the prompt has " + std::to_string(tokens.size()) + " tokens, and there is room for " +
          std::to_string(model.model.most() - 1));
  return tokens;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void generate(minnow_text* m, const minnow_text_request& request, minnow_text_callback callback, void* user,
              minnow_text_result* result) {
  std::vector<int32_t> tokens = prompt_of(*m, request);
  std::random_device dice;
  const uint64_t seed = request.seed >= 0 ? static_cast<uint64_t>(request.seed) : uint64_t{dice()} << 32 | dice();
  const Sampler sampler(request, seed);
  std::vector<std::string> stop;
  for (size_t i = 0; i < request.num_stop; ++i) {
    require(request.stop && request.stop[i], "a stop text");
    stop.emplace_back(request.stop[i]);
    if (stop.back().empty()) wrong("a stop text is empty");
  }
  if (request.max_tokens < 0) wrong("max_tokens is below 0");
  minnow_text_result made = MINNOW_TEXT_RESULT;
  made.prompt_tokens = tokens.size();
  size_t left = m->model.most() - tokens.size();
  if (request.max_tokens) left = std::min(left, static_cast<size_t>(request.max_tokens));
  made.reason = MINNOW_TEXT_LENGTH;
  m->answer.clear();
  Answer answer(std::move(stop));
  Chain chain(m->tokenizer.own.decoder(), true);
  auto say = [&](const std::string& piece, bool last) {
    const std::string text = answer.push(piece, last);
    if (!text.empty() && callback && callback(user, text.data(), text.size()) != 0) m->cancelled = true;
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<float> logits;
  size_t at = made.cached_tokens = m->model.rewind(tokens);
  try {
    while (m->answer.size() < left && !m->cancelled) {
      m->model.step(tokens.data() + at, tokens.size() - at, &logits);
      at = tokens.size();
      const int32_t token = sampler.choose(&logits, tokens, m->answer.size());
      if (m->answer.empty()) made.prompt_seconds = seconds_since(begin);
      const auto& eos = m->description.eos;
      if (std::find(eos.begin(), eos.end(), token) != eos.end()) {
        made.reason = MINNOW_TEXT_STOP;
        break;
      }
      tokens.push_back(token);
      m->answer.push_back(token);
      say(chain.push(m->tokenizer.own.shown(&token, 1)), false);
      if (answer.stopped()) {
        made.reason = MINNOW_TEXT_STOP;
        break;
      }
    }
  } catch (const Error& e) {
    if (e.code != MINNOW_STOPPED || !m->cancelled) throw;
  }
  if (!answer.stopped() && !m->cancelled) {
    say(chain.finish(), true);
    if (answer.stopped()) made.reason = MINNOW_TEXT_STOP;
  }
  if (m->cancelled) made.reason = MINNOW_TEXT_CANCELLED;
  made.answer_seconds = seconds_since(begin) - made.prompt_seconds;
  made.tokens = m->answer.data();
  made.num_tokens = m->answer.size();
  if (result) fill(result, made);
}

}  // namespace

const char* minnow_text_last_error(void) { return last_error; }

minnow_code minnow_tokenizer_load(const char* path, minnow_tokenizer** tokenizer) {
  return guarded([&] {
    require(path && tokenizer, "an argument");
    *tokenizer = nullptr;
    *tokenizer = new minnow_tokenizer(path);
  });
}

void minnow_tokenizer_free(minnow_tokenizer* tokenizer) { delete tokenizer; }

minnow_code minnow_tokenizer_encode(const minnow_tokenizer* tokenizer, const char* text, size_t size, int32_t flags,
                                    int32_t* ids, size_t capacity, size_t* count) {
  return guarded([&] {
    require(tokenizer && count, "an argument");
    const auto found = tokenizer->own.encode(text_of(text, size), flags & MINNOW_TEXT_MARKS, flags & MINNOW_TEXT_PARSE);
    give(found.data(), found.size(), ids, capacity, count);
  });
}

minnow_code minnow_tokenizer_decode(const minnow_tokenizer* tokenizer, const int32_t* ids, size_t count, char* text,
                                    size_t capacity, size_t* size) {
  return guarded([&] {
    require(tokenizer && size && (ids || !count), "an argument");
    const std::string found = tokenizer->own.decode(ids, count);
    give(found.data(), found.size(), text, capacity, size);
  });
}

minnow_code minnow_decoder_create(const minnow_tokenizer* tokenizer, minnow_decoder** decoder) {
  return guarded([&] {
    require(tokenizer && decoder, "an argument");
    *decoder = nullptr;
    *decoder = new minnow_decoder(tokenizer);
  });
}

minnow_code minnow_decoder_push(minnow_decoder* decoder, int32_t id, const char** text, size_t* size) {
  return guarded([&] {
    require(decoder && text && size, "an argument");
    decoder->text = decoder->chain.push(decoder->tokenizer->shown(&id, 1));
    *text = decoder->text.data();
    *size = decoder->text.size();
  });
}

minnow_code minnow_decoder_finish(minnow_decoder* decoder, const char** text, size_t* size) {
  return guarded([&] {
    require(decoder && text && size, "an argument");
    decoder->text = decoder->chain.finish();
    *text = decoder->text.data();
    *size = decoder->text.size();
  });
}

void minnow_decoder_free(minnow_decoder* decoder) { delete decoder; }

minnow_code minnow_text_load(const char* folder, const minnow_text_options* options, minnow_text** model) {
  return guarded([&] {
    require(folder && model, "an argument");
    *model = nullptr;
    *model = new minnow_text(folder, known(options, minnow_text_options MINNOW_TEXT_OPTIONS));
  });
}

void minnow_text_free(minnow_text* model) { delete model; }

minnow_code minnow_text_get_info(const minnow_text* model, minnow_text_info* info) {
  return guarded([&] {
    require(model && info, "an argument");
    const Description& d = model->description;
    fill(info, {0, d.name.c_str(), d.architecture.c_str(), d.has_template ? d.chat_template.c_str() : nullptr,
                d.vocabulary, d.context, d.bos});
  });
}

const minnow_tokenizer* minnow_text_tokenizer(const minnow_text* model) { return model ? &model->tokenizer : nullptr; }

minnow_code minnow_text_generate(minnow_text* model, const minnow_text_request* request, minnow_text_callback callback,
                                 void* user, minnow_text_result* result) {
  return guarded([&] {
    require(model && request, "an argument");
    const minnow_text_request own = known(request, minnow_text_request MINNOW_TEXT_REQUEST);
    std::lock_guard<std::mutex> lock(model->turn);
    model->cancelled = false;
    generate(model, own, callback, user, result);
  });
}

void minnow_text_cancel(minnow_text* model) {
  if (!model) return;
  model->cancelled = true;
  model->model.cancel();
}
