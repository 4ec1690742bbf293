// A session of a step graph with one sequence of tokens in its cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "minnow/minnow_text.h"

namespace minnow_language {

// What llm.json says.
struct Description {
  std::string name, architecture, chat_template;
  int32_t vocabulary, context, block, bos = -1;
  std::vector<int32_t> eos;
  bool add_bos = false, has_template = false;
};
Description read_description(const std::string& folder);

class LanguageModel {
 public:
  LanguageModel(const std::string& folder, const Description& description, const minnow_text_options& options);
  // The cache keeps what these tokens have in common with it, at least one of them excepted. Returns how many.
  size_t rewind(const std::vector<int32_t>& tokens);
  // Appends tokens to the sequence, and gives the logits of the last one. Errors: those of minnow_run.
  void step(const int32_t* tokens, size_t count, std::vector<float>* logits);
  size_t most() const { return most_; }  // tokens of a sequence
  void cancel() { minnow_cancel(session_.get()); }

 private:
  void run(const int32_t* tokens, size_t count, bool last, std::vector<float>* logits);
  struct Free {
    void operator()(minnow_session* session) const { minnow_free_session(session); }
  };
  Description description_;
  std::unique_ptr<minnow_session, Free> session_;
  std::vector<int32_t> cached_;
  size_t most_, blocks_ = 0;
};

}  // namespace minnow_language
