// Loops of TensorFlow: a graph says before each round whether there is one, and tensors are tied by their names. They
// become loops that have the condition for the next round among the results of their body.
#include <algorithm>

#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

// What is passed from round to round.
struct Carried {
  std::string name;
  int source = -1;  // input of the op: its first value
  int place = -1;   // value of the body: an input of it
  int next = -1;    // value of the body: what it is in the next round
};

using Names = flatbuffers::Vector<flatbuffers::Offset<wire::StringVec>>;

const flatbuffers::String* name_in(const Names* rows, flatbuffers::uoffset_t row, flatbuffers::uoffset_t i) {
  const auto* names = rows == nullptr || rows->size() <= row ? nullptr : rows->Get(row)->data();
  return names == nullptr || names->size() <= i ? nullptr : names->Get(i);
}

Carried* find_carried(std::vector<Carried>& list, const std::string& name) {
  for (Carried& c : list)
    if (c.name == name) return &c;
  return nullptr;
}

// Puts the nodes of `from` behind those of `graph`, with `fed` for its inputs; gives the value of its only output.
Status append_condition(Decoder& d, const Graph& from, const std::vector<int>& fed, Graph* graph, int* result) {
  MINNOW_RETURN_IF_ERROR(d.count_copies(static_cast<int64_t>(from.values.size() + from.nodes.size())));
  const auto make = [&] {
    if (graph == &d.graph()) return d.new_value();
    graph->values.emplace_back();
    return static_cast<int>(graph->values.size()) - 1;
  };
  std::vector<int> here(from.values.size(), -1);
  for (size_t i = 0; i < fed.size(); ++i) here[static_cast<size_t>(from.inputs[i])] = fed[i];
  for (size_t v = 0; v < here.size(); ++v) {
    if (here[v] >= 0) continue;
    here[v] = make();
    graph->values[static_cast<size_t>(here[v])] = from.values[v];
  }
  for (Node node : from.nodes) {
    for (std::vector<int>* values : {&node.in, &node.out})
      for (int& v : *values)
        if (v >= 0) v = here[static_cast<size_t>(v)];
    graph->nodes.push_back(std::move(node));
  }
  Node test;
  test.op = "Cast";
  test.name = from.name;
  test.attrs = make_attrs({{"to", DType::kBool}});
  test.in = {here[static_cast<size_t>(from.outputs[0])]};
  *result = make();
  test.out = {*result};
  graph->nodes.push_back(std::move(test));
  return ok();
}

// Names of the body's values, and of its inputs, with what they are in the next round.
Status read_carried(Decoder& d, const wire::WhileParam& main, int body_index, std::vector<Carried>* list) {
  const Graph& body = d.model().graphs[static_cast<size_t>(body_index)];
  for (flatbuffers::uoffset_t i = 0; main.aliases_inputs() != nullptr && i < main.aliases_inputs()->size(); ++i) {
    const auto* names = main.aliases_inputs()->Get(i)->data();
    for (flatbuffers::uoffset_t k = 0; names != nullptr && k < names->size(); ++k) {
      Carried c;
      c.name = names->Get(k)->str();
      c.source = static_cast<int>(i);
      if (find_carried(*list, c.name) == nullptr && static_cast<int>(i) < d.num_inputs()) list->push_back(c);
    }
  }
  for (int v : body.inputs) {
    Carried* c = find_carried(*list, body.values[static_cast<size_t>(v)].name);
    if (c == nullptr)
      return fail(Code::kFormat, "nothing feeds the input '%s' of its body",
                  body.values[static_cast<size_t>(v)].name.c_str());
    c->place = c->next = v;
  }
  const std::map<std::string, int>& made = d.made_by_name(body_index);
  for (flatbuffers::uoffset_t i = 0; main.aliases_updates() != nullptr && i < main.aliases_updates()->size(); ++i) {
    const auto *from = name_in(main.aliases_updates(), i, 0), *to = name_in(main.aliases_updates(), i, 1);
    Carried* c = to == nullptr ? nullptr : find_carried(*list, to->str());
    if (c == nullptr) return fail(Code::kFormat, "its update %u is of no input", i);
    const auto it = made.find(from->str());
    if (it != made.end()) {
      c->next = it->second;
    } else if (const Carried* same = find_carried(*list, from->str()); same == nullptr || same != c) {
      return d.unsupported("an update by '" + from->str() + "', which is not in its body");
    }
  }
  return ok();
}

// The place among the carried values of what the op gives by this name.
int place_of_result(const wire::WhileParam& main, const std::vector<Carried>& list, const std::string& name) {
  for (size_t k = 0; k < list.size(); ++k)
    if (list[k].name == name) return static_cast<int>(k);
  for (flatbuffers::uoffset_t i = 0; main.aliases_updates() != nullptr && i < main.aliases_updates()->size(); ++i) {
    const auto *from = name_in(main.aliases_updates(), i, 0), *to = name_in(main.aliases_updates(), i, 1);
    if (from == nullptr || to == nullptr || from->str() != name) continue;
    for (size_t k = 0; k < list.size(); ++k)
      if (list[k].name == to->str()) return static_cast<int>(k);
  }
  return -1;
}

}  // namespace

Status decode_conditional_loop(Decoder& d, const wire::WhileParam& main) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(d.num_inputs()));
  int body_index = -1, test_index = -1;
  MINNOW_RETURN_IF_ERROR(find_graph(d, main.body_graph(), &body_index));
  MINNOW_RETURN_IF_ERROR(find_graph(d, main.cond_graph(), &test_index));
  Graph& body = d.model().graphs[static_cast<size_t>(body_index)];
  const Graph& test = d.model().graphs[static_cast<size_t>(test_index)];
  MINNOW_RETURN_IF_ERROR(add_call(d, body));
  MINNOW_RETURN_IF_ERROR(add_call(d, test));
  if (body.is_closed || body_index == test_index) return d.unsupported("a body that several loops share");
  if (test.outputs.size() != 1) return fail(Code::kFormat, "its condition has %zu outputs", test.outputs.size());
  std::vector<Carried> carried;
  MINNOW_RETURN_IF_ERROR(read_carried(d, main, body_index, &carried));

  const auto add_input = [&](const std::string& name) {
    body.values.emplace_back().name = name;
    return static_cast<int>(body.values.size()) - 1;
  };
  std::vector<int> inputs = {add_input("round"), add_input("condition")}, results;
  std::vector<DType> types = {DType::kI64, DType::kBool};
  for (Carried& c : carried) {
    if (c.place < 0) c.place = c.next = add_input(c.name);  // only the condition reads it
    inputs.push_back(c.place);
    types.push_back(DType::kF32);
    results.push_back(c.next);
  }
  std::vector<int> first, later;  // what the condition reads before the first round, and behind one
  for (int v : test.inputs) {
    const Carried* c = find_carried(carried, test.values[static_cast<size_t>(v)].name);
    if (c == nullptr)
      return fail(Code::kFormat, "nothing feeds the input '%s' of its condition",
                  test.values[static_cast<size_t>(v)].name.c_str());
    first.push_back(d.in(c->source));
    later.push_back(c->next);
  }
  int starts = -1, goes_on = -1;
  MINNOW_RETURN_IF_ERROR(append_condition(d, test, later, &body, &goes_on));
  results.insert(results.begin(), goes_on);
  body.depth = std::max(body.depth, test.depth);
  body.inputs = std::move(inputs);
  body.outputs = std::move(results);
  body.input_ranks.assign(types.size(), 0);
  body.input_types = std::move(types);
  body.is_closed = true;

  MINNOW_RETURN_IF_ERROR(append_condition(d, test, first, &d.graph(), &starts));
  std::vector<int> operands = {-1, starts}, outputs(carried.size(), -1);
  for (const Carried& c : carried) operands.push_back(d.in(c.source));
  std::vector<std::pair<int, int>> same;
  for (int i = 0; i < d.num_outputs(); ++i) {
    const auto* names = main.aliases_outputs();
    const auto* name = names == nullptr || static_cast<int>(names->size()) <= i
                           ? nullptr
                           : names->Get(static_cast<flatbuffers::uoffset_t>(i));
    const int place = name == nullptr ? -1 : place_of_result(main, carried, name->str());
    if (place < 0) return d.unsupported("a result " + std::to_string(i) + " that is none of its carried values");
    int& v = outputs[static_cast<size_t>(place)];
    if (v < 0) {
      v = d.out(i);
    } else {
      same.emplace_back(v, d.out(i));
    }
  }
  Call call;
  call.graph = body_index;
  d.add_node("Loop", operands, outputs, Attrs()).calls = {std::move(call)};
  for (const auto& [from, to] : same) d.add_node("Identity", {from}, {to}, Attrs());
  return ok();
}

}  // namespace minnow
