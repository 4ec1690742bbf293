#include "runtime/text/language_model.h"

#include <algorithm>

#include "runtime/text/json_part.h"

namespace minnow_language {
namespace {

constexpr size_t kChunk = 512;  // tokens of a run
constexpr size_t kSmallTable = 1024;
constexpr const char* kBlocks = "cache_blocks";

void check(minnow_code code) {
  if (code != MINNOW_OK) throw Error(code, minnow_last_error());
}

// The next of few numbers from `count` on, so that few shapes have to be planned for.
size_t rounded(size_t count) {
  if (count <= 8) return count;
  size_t step = 1;
  while (step * 16 <= count - 1) step *= 2;
  return (count + step - 1) / step * step;
}

minnow_tensor ints(const char* name, std::vector<int32_t>& numbers, int64_t rows = 0) {
  minnow_tensor made = {};
  made.name = name;
  made.dtype = MINNOW_I32;
  made.rank = rows ? 2 : 1;
  made.shape[0] = rows ? rows : static_cast<int64_t>(numbers.size());
  if (rows) made.shape[1] = static_cast<int64_t>(numbers.size()) / rows;
  made.data = numbers.data();
  return made;
}

}  // namespace

Description read_description(const std::string& folder) {
  const std::string path = folder + "/llm.json";
  const Part part = Part::of_file(path, 64 << 20);
  if (part.number("format") != 1) part.fail("the file is of another format; convert the model again");
  if (part.text("kind", "generate") != "generate") unsupported(path + ": the model does not continue texts");
  if (part.has("image")) unsupported(path + ": the model sees images, which only Python and the server can give it");
  Description d;
  d.name = part.text("name");
  d.architecture = part.text("architecture");
  d.has_template = part.has("chat_template");
  d.chat_template = part.text("chat_template", "");
  d.vocabulary = part.number("vocab_size");
  d.context = part.number("context");
  d.block = part.number("block", 32);
  d.bos = part.has("bos") ? part.number("bos") : -1;
  d.add_bos = part.flag("add_bos", false);
  if (part.has("eos")) d.eos = part.ids("eos");
  bool known = d.bos < d.vocabulary;
  for (const int32_t id : d.eos) known = known && id < d.vocabulary;
  if (d.vocabulary < 1 || d.context < 1 || d.block < 1 || d.block > 1 << 20 || !known)
    part.fail("a size is 0 or too large, or a token is not in the vocabulary");
  return d;
}

LanguageModel::LanguageModel(const std::string& folder, const Description& description,
                             const minnow_text_options& options)
    : description_(description), most_(static_cast<size_t>(description.context)) {
  if (options.cached_tokens < 0 || options.threads < 0) wrong("a number of tokens or threads is below 0");
  if (options.cached_tokens) most_ = std::min(most_, static_cast<size_t>(options.cached_tokens));
  minnow_model* model = nullptr;
  check(minnow_load_file((folder + "/model.mnn").c_str(), &model));
  minnow_options given = MINNOW_OPTIONS;
  given.threads = options.threads;
  given.precision = options.precision;
  minnow_session* session = nullptr;
  const minnow_code code = minnow_create_session(model, &given, &session);
  minnow_free_model(model);
  check(code);
  session_.reset(session);
  const std::vector<std::string> wanted = {"input_ids", "positions", "starts", "lengths", "blocks", "rows"};
  for (const std::string& name : wanted) {
    bool found = false;
    for (size_t i = 0; i < minnow_num_inputs(session); ++i) {
      minnow_tensor_info info = MINNOW_TENSOR_INFO;
      check(minnow_input_info(session, i, &info));
      found = found || name == info.name;
      // Learned positions, and what else an architecture may not need, is not an input then.
    }
    if (!found && name != "positions") damaged(folder + ": the step graph has no input '" + name + "'");
  }
}

size_t LanguageModel::rewind(const std::vector<int32_t>& tokens) {
  const auto most = std::min(cached_.size(), tokens.size() - 1);
  size_t same = 0;
  while (same < most && cached_[same] == tokens[same]) ++same;
  cached_.resize(same);
  return same;
}

void LanguageModel::step(const int32_t* tokens, size_t count, std::vector<float>* logits) {
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t size = std::min(kChunk, count - begin);
    run(tokens + begin, size, begin + size == count, logits);
    cached_.insert(cached_.end(), tokens + begin, tokens + begin + size);
  }
}

void LanguageModel::run(const int32_t* tokens, size_t count, bool last, std::vector<float>* logits) {
  const auto block = static_cast<size_t>(description_.block);
  const size_t length = cached_.size(), needed = (length + count + block - 1) / block;
  if (needed > blocks_) {
    const size_t all = (most_ + block - 1) / block, grown = std::max(needed, std::min(all, 2 * blocks_));
    check(minnow_resize_states(session_.get(), kBlocks, static_cast<int64_t>(grown)));
    blocks_ = grown;
  }
  size_t table = (static_cast<size_t>(description_.context) + block - 1) / block;
  if (table > kSmallTable) {
    size_t wide = kSmallTable;
    while (wide < needed) wide *= 2;
    table = std::min(table, wide);
  }
  const size_t rows = rounded(count);
  std::vector<int32_t> ids(rows), positions(rows), starts = {0, static_cast<int32_t>(count)},
                                                   lengths = {static_cast<int32_t>(length)}, blocks(table), wanted;
  std::copy(tokens, tokens + count, ids.begin());
  for (size_t i = 0; i < count; ++i) positions[i] = static_cast<int32_t>(length + i);
  for (size_t i = 0; i < needed; ++i) blocks[i] = static_cast<int32_t>(i);
  if (last) wanted = {static_cast<int32_t>(count - 1)};
  minnow_tensor all[] = {ints("input_ids", ids),   ints("positions", positions), ints("starts", starts),
                         ints("lengths", lengths), ints("blocks", blocks, 1),    ints("rows", wanted)};
  std::vector<minnow_tensor> inputs;
  for (size_t i = 0; i < minnow_num_inputs(session_.get()); ++i) {
    minnow_tensor_info info = MINNOW_TENSOR_INFO;
    check(minnow_input_info(session_.get(), i, &info));
    for (const minnow_tensor& tensor : all)
      if (std::string(tensor.name) == info.name) inputs.push_back(tensor);
  }
  minnow_tensor output = {};
  output.name = "logits";
  check(minnow_run(session_.get(), inputs.data(), inputs.size(), &output, 1));
  if (!last) return;
  const auto size = static_cast<size_t>(description_.vocabulary);
  if (output.dtype != MINNOW_F32 || output.rank != 2 || output.shape[0] != 1 ||
      output.shape[1] != description_.vocabulary)
    damaged("the step graph gives other logits than llm.json says");
  const auto* numbers = static_cast<const float*>(output.data);
  logits->assign(numbers, numbers + size);
}

}  // namespace minnow_language
