// Recurrent layers.
#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

// LSTM and RNN: x, w, r, the sum of both biases, and the states before the first step.
Status decode_summed(Decoder& d) {
  const auto* main = d.main<wire::LSTM>();
  if (main == nullptr) return d.missing_parameters();
  if (main->weightI() != nullptr || d.num_inputs() < 4) return d.unsupported("the form with weights in its parameters");
  MINNOW_RETURN_IF_ERROR(d.need_inputs(4));
  const bool lstm = d.op().type() == wire::OpType::LSTM;
  d.finish("mnn.Recurrent", d.inputs(), {{"op", std::string(lstm ? "LSTM" : "RNN")}});
  return ok();
}
MINNOW_DECODE(LSTM, decode_summed);
MINNOW_DECODE(RNN, decode_summed);

Status decode_gru(Decoder& d) {
  const auto* main = d.main<wire::RNNParam>();
  if (main == nullptr) return d.missing_parameters();
  const int operands = main->isBidirectionalRNN() ? 11 : 6;
  if (d.num_inputs() < operands) return d.unsupported("the form with weights in its parameters");
  MINNOW_RETURN_IF_ERROR(d.need_inputs(operands));
  if (!main->keepAllOutputs()) return d.unsupported("the form that gives the last output only");
  d.finish("mnn.GRU", d.inputs(),
           {{"directions", int64_t{main->isBidirectionalRNN() ? 2 : 1}},
            {"linear_before_reset", main->linearBeforeReset()}});
  return ok();
}
MINNOW_DECODE(RNNSequenceGRU, decode_gru);

}  // namespace
}  // namespace minnow
