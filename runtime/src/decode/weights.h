// Compressed weights: IDSTQuan, which holds 16-bit floats or quantized numbers in one of several streams.
#pragma once

#include <memory>

#include "runtime/src/decode/decode.h"

namespace minnow {

// The weights of a convolution as f32 of this shape (output channels first, or whatever the rows of the stream are).
// All sizes are checked now; the numbers are decoded when they are asked for.
Status decode_quantized(Decoder& d, const wire::IDSTQuan& quan, const flatbuffers::Vector<int64_t>* external,
                        const Shape& shape, std::shared_ptr<Constant>* out);

}  // namespace minnow
