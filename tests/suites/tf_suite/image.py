"""Images: resizes of all kinds, crops, patches, colors, boxes."""

from __future__ import annotations

import numpy as np

from .case import case, f32, i32, tf, u8, value, weight

X = [f32(1, 5, 7, 3)]
TABLE = 2e-3
"""How far off TensorFlow's own bicubic resizes are: their weights come from a table of 1024 positions."""

SIZES = {"up": (11, 13), "down": (3, 4), "double": (10, 14), "same": (5, 7), "one": (1, 1), "mixed": (8, 3)}

for method in ("bilinear", "nearest"):
    for name, size in SIZES.items():
        case(f"resize_{method}_{name}", X, also="int8" if name in ("up", "double", "down") else "")(
            lambda x, m=method, s=size: tf.image.resize(x, s, m)
        )
        for flags in ((True, False), (False, False)):
            text = "align_corners" if flags[0] else "legacy"
            case(f"resize_{method}_{text}_{name}", X, also="int8" if name == "double" else "")(
                lambda x, m=method, s=size, f=flags: getattr(
                    tf.compat.v1.image, f"resize_{'nearest_neighbor' if m == 'nearest' else m}"
                )(x, s, align_corners=f[0])
            )
for method in ("bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"):
    for name in ("up", "down"):
        case(f"resize_{method}_{name}", X, kinds="tf", tolerance=TABLE if method == "bicubic" else 1e-4)(
            lambda x, m=method, s=SIZES[name]: tf.image.resize(x, s, m)
        )
case("resize_bilinear_antialias", X, kinds="tf")(lambda x: tf.image.resize(x, (3, 3), antialias=True))
case("resize_bicubic_legacy", X, kinds="tf", tolerance=TABLE)(lambda x: tf.compat.v1.image.resize_bicubic(x, (8, 11)))
case("resize_bicubic_align_corners", X, kinds="tf", tolerance=TABLE)(
    lambda x: tf.compat.v1.image.resize_bicubic(x, (8, 11), align_corners=True)
)
case("resize_computed_size", [f32(1, 5, 7, 3), value([8, 9], np.int32)], also="int8 int16")(
    lambda x, s: tf.image.resize(x, s)
)
case("resize_open_doubled", [f32(1, 5, 7, 3).open(None, None, None, 3)])(
    lambda x: tf.image.resize(x, tf.shape(x)[1:3] * 2, "nearest")
)
case("resize_u8_nearest", [u8(1, 5, 7, 3)])(lambda x: tf.image.resize(x, (10, 9), "nearest"))
case("resize_with_pad", X, kinds="tf")(lambda x: tf.image.resize_with_pad(x, 9, 8))
case("resize_with_crop_or_pad", X, kinds="tf")(lambda x: tf.image.resize_with_crop_or_pad(x, 9, 4))
case("central_crop", [f32(1, 8, 8, 3)], kinds="tf")(lambda x: tf.image.central_crop(x, 0.5))
case("crop_to_bounding_box", X)(lambda x: tf.image.crop_to_bounding_box(x, 1, 2, 3, 4))
case("pad_to_bounding_box", X)(lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 9, 11))
case("flips", X)(lambda x: (tf.image.flip_left_right(x), tf.image.flip_up_down(x)))
case("rot90", X)(lambda x: tf.image.rot90(x))
case("image_transpose", X)(lambda x: tf.image.transpose(x))

BOXES = value([[0.1, 0.2, 0.8, 0.9], [-0.2, 0.3, 1.3, 0.6], [0.9, 0.1, 0.2, 0.7]])
for method in ("bilinear", "nearest"):
    case(f"crop_and_resize_{method}", [f32(2, 6, 8, 3), BOXES, value([0, 1, 0], np.int32)], kinds="tf")(
        lambda x, b, i, m=method: tf.image.crop_and_resize(x, b, i, (4, 5), m, extrapolation_value=0.5)
    )
case("crop_and_resize_one", [f32(2, 6, 8, 3), BOXES], kinds="tf")(
    lambda x, b: tf.image.crop_and_resize(x, b, [1, 1, 0], (1, 1))
)
case("extract_patches", X, kinds="tf")(
    lambda x: tf.image.extract_patches(x, [1, 3, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
)
case("extract_patches_dilated", X, kinds="tf")(
    lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 2, 3, 1], "VALID")
)
case("extract_glimpse", [f32(2, 9, 8, 3), f32(2, 2, low=-0.5, high=0.5)], kinds="tf")(
    lambda x, o: tf.image.extract_glimpse(x, (3, 4), o, noise="zero")
)
case("grayscale", [f32(1, 5, 7, 3, low=0, high=1)])(lambda x: tf.image.rgb_to_grayscale(x))
case("gray_to_rgb", [f32(1, 5, 7, 1)])(lambda x: tf.image.grayscale_to_rgb(x))
case("hsv", [f32(1, 5, 7, 3, low=0, high=1)], kinds="tf")(lambda x: tf.image.rgb_to_hsv(x))
case("hsv_back", [f32(1, 5, 7, 3, low=0, high=1)], kinds="tf")(lambda x: tf.image.hsv_to_rgb(x))
case("yuv", [f32(1, 5, 7, 3, low=0, high=1)])(lambda x: tf.image.rgb_to_yuv(x))
case("adjust_brightness_contrast", [f32(1, 5, 7, 3, low=0, high=1)], kinds="tf")(
    lambda x: tf.image.adjust_contrast(tf.image.adjust_brightness(x, 0.1), 1.7)
)
case("adjust_saturation_hue", [f32(1, 5, 7, 3, low=0, high=1)], kinds="tf")(
    lambda x: tf.image.adjust_hue(tf.image.adjust_saturation(x, 1.3), 0.1)
)
case("adjust_gamma", [f32(1, 5, 7, 3, low=0, high=1)])(lambda x: tf.image.adjust_gamma(x, 1.7, 0.9))
case("per_image_standardization", [f32(2, 5, 7, 3)], kinds="tf lite")(lambda x: tf.image.per_image_standardization(x))
case("convert_image_dtype", [u8(1, 5, 7, 3)], kinds="tf lite")(lambda x: tf.image.convert_image_dtype(x, tf.float32))
case("sobel_edges", X, kinds="tf lite")(lambda x: tf.image.sobel_edges(x))
case("image_gradients", X)(lambda x: tf.image.image_gradients(x))
case("total_variation", X)(lambda x: tf.image.total_variation(x))
case("psnr", [f32(2, 5, 7, 3, low=0, high=1), f32(2, 5, 7, 3, low=0, high=1)])(lambda x, y: tf.image.psnr(x, y, 1.0))
case("ssim", [f32(1, 16, 17, 3, low=0, high=1), f32(1, 16, 17, 3, low=0, high=1)], kinds="tf")(
    lambda x, y: tf.image.ssim(x, y, 1.0)
)
case("projective_transform", X, kinds="tf")(
    lambda x: tf.raw_ops.ImageProjectiveTransformV3(
        images=x, transforms=[[0.9, 0.1, 0.5, -0.2, 1.1, 0.3, 0.01, 0.0]], output_shape=[6, 6], fill_value=0.25,
        interpolation="BILINEAR", fill_mode="CONSTANT",
    )
)  # fmt: skip
case("scale_and_translate", X, kinds="tf")(
    lambda x: tf.raw_ops.ScaleAndTranslate(
        images=x, size=[9, 8], scale=[1.7, 1.2], translation=[0.3, -0.4], kernel_type="triangle", antialias=True
    )
)
case("draw_bounding_boxes", [f32(1, 9, 11, 3)], kinds="tf")(
    lambda x: tf.image.draw_bounding_boxes(x, [[[0.1, 0.2, 0.8, 0.9]]], [[1.0, 0.5, 0.0]])
)


def boxes(n):
    """Boxes of the unit square that overlap."""
    return value(np.concatenate([c := np.random.default_rng(n).uniform(0, 0.6, (n, 2)), c + 0.3], 1))


SCORES = f32(23, low=0, high=1)
case("nms", [boxes(23), SCORES], kinds="tf lite")(lambda b, s: tf.image.non_max_suppression(b, s, 7, 0.4))
case("nms_score_threshold", [boxes(23), SCORES], kinds="tf lite")(
    lambda b, s: tf.image.non_max_suppression(b, s, 20, 0.5, 0.6)
)
case("nms_more_than_there_are", [boxes(5), f32(5)], kinds="tf")(
    lambda b, s: tf.image.non_max_suppression(b, s, 50, 0.99)
)
case("nms_then_gather", [boxes(23), SCORES])(lambda b, s: tf.gather(b, tf.image.non_max_suppression(b, s, 7, 0.4)))
case("nms_with_scores_soft", [boxes(23), SCORES], kinds="tf lite")(
    lambda b, s: tf.image.non_max_suppression_with_scores(b, s, 9, 0.5, 0.1, soft_nms_sigma=0.5)
)
case("nms_padded", [boxes(23), SCORES], kinds="tf lite")(
    lambda b, s: tf.image.non_max_suppression_padded(b, s, 11, 0.4, 0.3, pad_to_max_output_size=True)
)
case("nms_overlaps", [f32(9, 9, low=0, high=1), f32(9, low=0, high=1)], kinds="tf")(
    lambda o, s: tf.image.non_max_suppression_overlaps(o, s, 5, 0.5, 0.1)
)
case("combined_nms", [f32(2, 13, 1, 4, low=0, high=1), f32(2, 13, 3, low=0, high=1)], kinds="tf")(
    lambda b, s: tf.image.combined_non_max_suppression(tf.sort(b), s, 4, 9, 0.5, 0.2)
)
case("preprocessing_normalize", [u8(1, 5, 7, 3)])(lambda x: (tf.cast(x, tf.float32) - [123.7, 116.8, 103.9]) / 58.4)
case("preprocessing_bgr", [f32(1, 5, 7, 3)])(lambda x: x[..., ::-1] * weight(3))
case("color_matrix", [f32(1, 5, 7, 3), i32(1, low=0, high=2)])(
    lambda x, i: tf.tensordot(x, weight(3, 3), 1) + tf.cast(i, tf.float32)
)
