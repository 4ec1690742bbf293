// From tokens back to text, one token after the other: a chain of stages, each of which gives on what is certain.
#pragma once

#include "runtime/text/json_part.h"

namespace minnow_language {

using Tokens = std::vector<std::string>;

class Stage {
 public:
  virtual ~Stage() = default;
  virtual Tokens push(const Tokens& tokens) = 0;
  virtual Tokens finish() { return {}; }  // what is left; the stage then begins anew
};

// Makes a stage. `fused`: what it gets is one text already, and no tokens; `streams`: nothing waits longer than it
// must.
struct Maker {
  std::function<std::unique_ptr<Stage>(bool fused, bool streams)> make;
  bool fuses = false;
};
std::vector<Maker> read_decoder(const Part& part);
std::vector<Maker> no_decoder();

class Chain {
 public:
  Chain(const std::vector<Maker>& makers, bool streams);
  std::string push(const Tokens& tokens);
  std::string finish();

 private:
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace minnow_language
