// Attention and rotary embeddings as MNN's converter fuses them.
#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

// q[B, L, heads, size], k and v[B, L, fewer heads, size], and a mask that is added. MNN's runtime keeps keys and values
// from one call to the next only for its own text generation: here each call stands for itself.
Status decode_attention(Decoder& d) {
  const auto* main = d.main<wire::AttentionParam>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  if (d.num_inputs() > 4) return d.unsupported("sinks");
  if (main != nullptr && main->attnScale() != 0) return d.unsupported("a scale of its own");
  if (main != nullptr && main->mhq_quant() != nullptr && main->mhq_quant()->size() > 0)
    return d.unsupported("operands of 8 bits");
  const bool packed = main != nullptr && main->output_c4();
  d.finish("mnn.Attention", {d.in(0), d.in(1), d.in(2), d.in(3)}, {{"packed", packed}});
  d.set_format(d.out(0), packed ? Format::NC4HW4 : Format::NCHW);
  return ok();
}
MINNOW_DECODE(Attention, decode_attention);

// Rows of the features of all heads, in packs of channels; what comes out is [1, rows, heads, size].
Status decode_rope(Decoder& d) {
  const auto* main = d.main<wire::RoPEParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(4));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(2));
  for (int i = 0; i < 2; ++i) {
    const int64_t heads = i == 0 ? main->num_head() : main->kv_num_head(), size = main->head_dim();
    if (heads < 1 || size < 1)
      return fail(Code::kFormat, "%lld heads of size %lld", static_cast<long long>(heads),
                  static_cast<long long>(size));
    int dims = -1;
    MINNOW_RETURN_IF_ERROR(d.ints({1, -1, heads, size}, &dims));
    int x = d.add("Reshape", {d.channels_first(d.in(i)), dims});
    d.set_format(x, Format::NCHW);
    const wire::LayerNorm* norm = i == 0 ? main->q_norm() : main->k_norm();
    if (norm != nullptr && norm->gamma() != nullptr && norm->gamma()->size() > 0) {
      int gamma = -1;
      MINNOW_RETURN_IF_ERROR(d.weights(norm->gamma(), nullptr, 0, Shape{size}, &gamma));
      x = d.add("RMSNorm", {x, gamma}, {{"axis", int64_t{-1}}, {"epsilon", static_cast<double>(norm->epsilon())}});
    } else if (norm != nullptr && norm->external() != nullptr && norm->external()->size() > 0) {
      return d.unsupported("scales in a companion file");
    }
    d.add_node("mnn.RoPE", {x, d.in(2), d.in(3)}, {d.out(i)}, Attrs());
    d.set_format(d.out(i), Format::NCHW);
  }
  return ok();
}
MINNOW_DECODE(RoPE, decode_rope);

}  // namespace
}  // namespace minnow
