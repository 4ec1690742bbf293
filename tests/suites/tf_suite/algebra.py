"""Matrices, einsum, diagonals, and spectra."""

from __future__ import annotations

import numpy as np

from .case import case, f16, f32, f64, i32, tf, value, weight

EIGHT = "int8 uint8 int16 int8_float"

case("dense", [f32(3, 11)], also=EIGHT + " half")(lambda x: tf.matmul(x, weight(11, 5)) + weight(5))
case("dense_relu", [f32(1, 11)], also=EIGHT)(lambda x: tf.nn.relu(tf.matmul(x, weight(11, 5)) + weight(5)))
case("dense_wide", [f32(3, 64)], also="dynamic half int8 int16")(
    lambda x: tf.matmul(x, weight(64, 37, low=-0.3, high=0.3)) + weight(37)
)
case("dense_open_batch", [f32(3, 11).open(None, 11)], also="int8 half")(lambda x: tf.matmul(x, weight(11, 5)))
case("dense_of_three_axes", [f32(2, 3, 11)], also="int8")(lambda x: tf.tensordot(x, weight(11, 5), 1))
case("dense_three_layers", [f32(2, 32)], also="dynamic int8 int16 uint8 half")(
    lambda x: tf.nn.softmax(
        tf.matmul(
            tf.nn.relu(tf.matmul(x, weight(32, 48, low=-0.2, high=0.2)) + weight(48)), weight(48, 7, low=-0.2, high=0.2)
        )
    )
)
for left, right in ((False, True), (True, False), (True, True)):
    case(
        f"matmul_{'t' if left else 'n'}{'t' if right else 'n'}",
        [f32(*((5, 3) if left else (3, 5))), f32(*((7, 5) if right else (5, 7)))],
        also="int8 int16",
    )(lambda x, y, a=left, b=right: tf.matmul(x, y, a, b))
case("matmul_batch", [f32(2, 3, 5), f32(2, 5, 7)], also="int8 int16")(lambda x, y: tf.matmul(x, y))
case("matmul_batch_broadcast", [f32(2, 1, 3, 5), f32(4, 5, 7)])(lambda x, y: tf.matmul(x, y))
case("matmul_batch_adjoint", [f32(2, 5, 3), f32(2, 7, 5)])(lambda x, y: tf.matmul(x, y, adjoint_a=True, adjoint_b=True))
case("matmul_batch_constant", [f32(2, 3, 5)], also="int8")(lambda x: tf.matmul(x, weight(2, 5, 4)))
case("matmul_i32", [i32(3, 5), i32(5, 7)], kinds="tf")(lambda x, y: tf.matmul(x, y))
case("matmul_f64", [f64(3, 5), f64(5, 7)], kinds="tf")(lambda x, y: tf.matmul(x, y))
case("matmul_f16", [f16(3, 5), f16(5, 7)], kinds="tf")(lambda x, y: tf.matmul(x, y))
case("matmul_no_rows", [f32(0, 5), f32(5, 7)], kinds="tf")(lambda x, y: tf.matmul(x, y))
case("matmul_nothing_to_sum", [f32(3, 0), f32(0, 7)], kinds="tf")(lambda x, y: tf.matmul(x, y))
case("matvec", [f32(3, 5), f32(5)])(lambda x, y: tf.linalg.matvec(x, y))
case("tensordot", [f32(3, 4, 5), f32(5, 4, 2)])(lambda x, y: tf.tensordot(x, y, [[1, 2], [1, 0]]))
case("attention_spelled", [f32(1, 2, 5, 8), f32(1, 2, 7, 8), f32(1, 2, 7, 8)], also="int8")(
    lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.35), v)
)
EINSUMS = {
    "ij,jk->ik": [(3, 5), (5, 7)],
    "bij,bjk->bik": [(2, 3, 5), (2, 5, 7)],
    "bhid,bhjd->bhij": [(2, 3, 5, 4), (2, 3, 7, 4)],
    "bqnh,bknh->bnqk": [(2, 3, 4, 5), (2, 7, 4, 5)],
    "abc,cde->abde": [(2, 3, 5), (5, 4, 2)],
    "ij->ji": [(3, 5)],
    "ijk->ik": [(3, 5, 2)],
    "i,j->ij": [(3,), (5,)],
    "ii->i": [(4, 4)],
    "...ij,...jk->...ik": [(2, 1, 3, 5), (4, 5, 7)],
    "bi,bi->b": [(3, 5), (3, 5)],
}
for number, (equation, shapes) in enumerate(EINSUMS.items()):
    letters = equation.replace(",", "_").replace("->", "_to_").replace("...", "x")
    case(f"einsum_{number}_{letters}", [f32(*s) for s in shapes], kinds="tf lite")(
        lambda *xs, e=equation: tf.einsum(e, *xs)
    )
case("einsum_constant", [f32(2, 3, 5)], also="int8")(lambda x: tf.einsum("abc,cd->abd", x, weight(5, 4)))

case("band_part", [f32(2, 5, 7)], kinds="tf")(lambda x: tf.linalg.band_part(x, 1, 2))
case("band_part_lower", [f32(5, 5)], kinds="tf")(lambda x: tf.linalg.band_part(x, -1, 0))
case("diag", [f32(2, 5)], kinds="tf")(lambda x: tf.linalg.diag(x))
case("diag_lite", [f32(5)], kinds="lite")(lambda x: tf.linalg.diag(x))
case("diag_offset", [f32(3, 5)], kinds="tf")(lambda x: tf.linalg.diag(x, k=-1, padding_value=0.5))
case("diag_part", [f32(2, 5, 7)], kinds="tf")(lambda x: tf.linalg.diag_part(x))
case("diag_part_offset", [f32(2, 5, 7)], kinds="tf")(lambda x: tf.linalg.diag_part(x, k=2))
case("diag_part_band", [f32(5, 7)], kinds="tf")(lambda x: tf.linalg.diag_part(x, k=(-1, 1), padding_value=9.0))
case("set_diag", [f32(2, 5, 7), f32(2, 5)], kinds="tf lite")(lambda x, d: tf.linalg.set_diag(x, d))
case("tensor_diag", [f32(3)], kinds="tf")(lambda x: tf.linalg.tensor_diag(x))
case("trace", [f32(2, 5, 5)], kinds="tf")(lambda x: tf.linalg.trace(x))
case("cross", [f32(4, 3), f32(4, 3)], kinds="tf")(lambda x, y: tf.linalg.cross(x, y))
case("matrix_inverse", [f32(2, 3, 3)], kinds="tf", tolerance=1e-3)(lambda x: tf.linalg.inv(x + 4 * tf.eye(3)))
case("matrix_determinant", [f32(2, 3, 3)], kinds="tf")(lambda x: tf.linalg.det(x))
case("cholesky", [f32(2, 4, 4)], kinds="tf", tolerance=1e-3)(
    lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True) + tf.eye(4))
)
case("triangular_solve", [f32(4, 4), f32(4, 2)], kinds="tf", tolerance=1e-3)(
    lambda a, b: tf.linalg.triangular_solve(a + 5 * tf.eye(4), b)
)

case("rfft", [f32(3, 16)], kinds="tf")(lambda x: tf.abs(tf.signal.rfft(x)))
case("rfft_length", [f32(3, 13)], kinds="tf")(lambda x: tf.abs(tf.signal.rfft(x, [16])))
case("rfft_cut_prime", [f32(3, 16)], kinds="tf")(lambda x: tf.abs(tf.signal.rfft(x, [11])))
case("rfft_parts", [f32(8)], kinds="tf lite")(lambda x: (tf.math.real(z := tf.signal.rfft(x)), tf.math.imag(z)))
case("rfft_complex_output", [f32(8)], kinds="tf lite")(lambda x: tf.signal.rfft(x))
case("irfft", [f32(3, 16)], kinds="tf")(lambda x: tf.signal.irfft(tf.signal.rfft(x) * tf.complex(weight(9), weight(9))))
case("fft", [f32(3, 12), f32(3, 12)], kinds="tf")(lambda x, y: tf.abs(tf.signal.fft(tf.complex(x, y))))
case("ifft", [f32(3, 7), f32(3, 7)], kinds="tf")(lambda x, y: tf.math.real(tf.signal.ifft(tf.complex(x, y))))
case("fft2d", [f32(2, 5, 6), f32(2, 5, 6)], kinds="tf")(lambda x, y: tf.abs(tf.signal.fft2d(tf.complex(x, y))))
case("rfft2d", [f32(1, 8, 16)], kinds="tf lite")(lambda x: tf.abs(tf.signal.rfft2d(x)))
case("fftshift", [f32(7)])(lambda x: tf.signal.fftshift(x))
case("stft", [f32(1, 400)], kinds="tf")(lambda x: tf.abs(tf.signal.stft(x, 64, 32)))
case("stft_padded_frames", [f32(1, 200)], kinds="tf")(lambda x: tf.abs(tf.signal.stft(x, 48, 16, 64, pad_end=True)))
case("inverse_stft", [f32(1, 256)], kinds="tf")(lambda x: tf.signal.inverse_stft(tf.signal.stft(x, 64, 32), 64, 32))
case("frame", [f32(1, 50)])(lambda x: tf.signal.frame(x, 12, 5))
case("overlap_and_add", [f32(1, 5, 8)], kinds="tf")(lambda x: tf.signal.overlap_and_add(x, 3))
case("mel_spectrogram", [f32(1, 400)], kinds="tf")(
    lambda x: tf.math.log(
        tf.tensordot(
            tf.abs(tf.signal.stft(x, 128, 64)), tf.signal.linear_to_mel_weight_matrix(10, 65, 8000, 80.0, 3800.0), 1
        ) + 1e-3
    )
)  # fmt: skip
case("mfcc", [f32(1, 9, 16, low=0.1)], kinds="tf")(lambda x: tf.signal.mfccs_from_log_mel_spectrograms(x)[..., :7])
case("dct", [f32(2, 8)], kinds="tf")(lambda x: (tf.signal.dct(x, 2), tf.signal.dct(x, 2, norm="ortho")))
case("windows", [f32(2, 16)])(lambda x: x * tf.signal.hann_window(16) * tf.signal.hamming_window(16, False))
case("audio_spectrogram", [f32(300, 1)], kinds="tf")(
    lambda x: tf.raw_ops.AudioSpectrogram(input=x, window_size=64, stride=40, magnitude_squared=True)
)
case("mfcc_op", [f32(300, 1)], kinds="tf")(
    lambda x: tf.raw_ops.Mfcc(
        spectrogram=tf.raw_ops.AudioSpectrogram(input=x, window_size=256, stride=20, magnitude_squared=True),
        sample_rate=8000, upper_frequency_limit=3800, lower_frequency_limit=30, filterbank_channel_count=20,
        dct_coefficient_count=7,
    )
)  # fmt: skip
case("sorted_median", [f32(3, 7)])(lambda x: tf.sort(x)[:, 3])
case("pairwise_distance", [f32(3, 5), f32(4, 5)])(lambda x, y: tf.reduce_sum(tf.square(x[:, None] - y[None]), -1))
case("outer_special", [value([np.inf, 1.0, -2.0]), value([1.0, 0.5])], kinds="tf")(lambda x, y: x[:, None] * y[None])
