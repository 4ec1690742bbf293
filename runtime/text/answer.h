// The text of an answer while its tokens come, up to a stop string.
#pragma once

#include <string>
#include <vector>

namespace minnow_language {

class Answer {
 public:
  explicit Answer(std::vector<std::string> stop) : stop_(std::move(stop)) {}
  // What is certain with the next piece: what may be the beginning of a stop string is kept.
  std::string push(const std::string& piece, bool last);
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stop_;
  std::string kept_;
  bool stopped_ = false;
};

}  // namespace minnow_language
