/* Builders that combine rows: each on small numbers, compared with PyTorch. */
#include "ops_tests.h"

#include <math.h>
#include <string.h>

static kn_graph *graph;
static kn_value *x, *y, *z, *image, *numbers, *pairs, *elements;

enum { MOST = 96 };

typedef struct built {
    const char *name;
    kn_value *(*make)(void);
    const char *shape;
    double expected[MOST];
} built;

static kn_value *resized(kn_resize_params params) {
    return kn_resize_image(y, 5, 3, &params);
}

/* The difference between an integer convolution and the same in floating point: images in two groups, with
 * windows of 3x2 or 1x1, or a sequence with a zero point for each filter. */
static kn_value *convolution_off_by(bool along, bool single) {
    const uint8_t zero = 17;
    const int8_t low = 3, lows[6] = {1, -2, 3, -4, 5, -6};
    const kn_conv_params params = {.size = sizeof params,
                                   .stride = {single ? 1 : 2, 1},
                                   .padding = {single ? 0 : 1, single ? 0 : 2},
                                   .groups = along ? 1 : 2,
                                   .all_padding = along};
    kn_value *points = kn_constant(graph, KN_UINT8, "", &zero, 1);
    kn_value *pixels = kn_cast(kn_range(graph, KN_FLOAT32, 0, 100, 1), KN_UINT8);
    kn_value *taps = kn_cast(kn_range(graph, KN_FLOAT32, -36, 36, 1), KN_INT8);
    kn_value *filters =
        along ? kn_constant(graph, KN_INT8, "6", lows, 6) : kn_constant(graph, KN_INT8, "", &low, 1);
    pixels = kn_reshape(pixels, along ? "1,4,25" : "1,4,5,5");
    if (single) taps = kn_slice(taps, 0, 30, 42);
    taps = kn_reshape(taps, along ? "6,4,3" : single ? "6,2,1,1" : "6,2,3,2");
    kn_value *whole = along ? kn_conv1d_integer(pixels, taps, points, filters, &params)
                            : kn_conv2d_integer(pixels, taps, points, filters, &params);
    pixels = kn_sub(kn_cast(pixels, KN_FLOAT32), kn_cast(points, KN_FLOAT32));
    filters = kn_cast(filters, KN_FLOAT32);
    taps = kn_sub(kn_cast(taps, KN_FLOAT32), along ? kn_reshape(filters, "6,1,1") : filters);
    kn_value *parts = along ? kn_conv1d(pixels, taps, NULL, &params) : kn_conv2d(pixels, taps, NULL, &params);
    return kn_sum(kn_abs(kn_sub(kn_cast(whole, KN_FLOAT32), parts)), NULL, false);
}

#define MADE(name, ...)                                                                                      \
    static kn_value *made_##name(void) {                                                                     \
        return __VA_ARGS__;                                                                                  \
    }
MADE(convolution, convolution_off_by(false, false))
MADE(convolution_single, convolution_off_by(false, true))
MADE(convolution_along, convolution_off_by(true, false))
MADE(flip, kn_flip(x, "-1"))
MADE(squeeze, kn_squeeze(kn_slice(x, 0, 1, 2), NULL))
MADE(squeeze_axis, kn_squeeze(kn_slice(x, 1, 1, 2), "-1"))
MADE(unsqueeze, kn_unsqueeze(x, "0,-1"))
MADE(expand, kn_expand(kn_slice(x, 0, 0, 1), "2,2,1"))
MADE(tile, kn_tile(x, "2,1,2"))
MADE(tile_last, kn_tile(x, "2"))
MADE(repeat, kn_repeat(x, 1, 2))
MADE(stack, kn_stack((kn_value *const[]){x, x}, 2, -1))
MADE(depth_to_space, kn_depth_to_space(image, 2, true))
MADE(depth_to_space_pixels, kn_depth_to_space(image, 2, false))
MADE(space_to_depth, kn_space_to_depth(kn_reshape(image, "1,1,4,4"), 2, true))
MADE(there_and_back, kn_space_to_depth(kn_depth_to_space(image, 2, false), 2, false))
MADE(range, kn_range(graph, KN_FLOAT32, 3, -1, -1.5))
MADE(tril, kn_tril(y, -1))
MADE(triu, kn_triu(y, 1))
MADE(reflect, kn_pad_with_mode(x, "1,2,0,1", KN_PAD_REFLECT))
MADE(edge, kn_pad_with_mode(x, "1,2,0,1", KN_PAD_EDGE))
MADE(wrap, kn_pad_with_mode(x, "0,2,0,1", KN_PAD_WRAP))
MADE(gather, kn_gather(x, numbers, 1))
MADE(gather_elements, kn_gather_elements(x, elements, 1))
MADE(gather_elements_of_part, kn_gather_elements(y, elements, 0))
MADE(gather_nd, kn_gather_nd(x, pairs))
MADE(gather_nd_batches, kn_gather_nd_batches(x, kn_reshape(elements, "2,2,1"), 1))
MADE(gather_nd_batches_of_rows, kn_gather_nd_batches(z, kn_slice(elements, 1, 1, 2), 1))
MADE(scatter, kn_scatter(x, numbers, kn_scale(x, 10), 1, KN_SCATTER_ADD))
MADE(scatter_elements,
     kn_scatter_elements(y, elements, kn_scale(kn_slice(x, 1, 0, 2), 10), 0, KN_SCATTER_REPLACE))
MADE(scatter_nd, kn_scatter_nd(x, pairs, kn_range(graph, KN_FLOAT32, 10, 21, 10), KN_SCATTER_MULTIPLY))
MADE(one_hot, kn_one_hot(numbers, 3, 0, 2, -1))
MADE(top_k, kn_top_k(y, 2, 0, false, NULL))
MADE(argmax, kn_cast(kn_argmax(x, -1, false), KN_FLOAT32))
MADE(argmin, kn_cast(kn_argmin(x, 0, true), KN_FLOAT32))
MADE(cumulative_sum, kn_cumulative_sum(x, 1, true, true))
MADE(einsum_ij_jk_to_ik, kn_einsum("ij,jk->ik", (kn_value *const[]){x, y}, 2))
MADE(einsum_ij_jk_to_ki, kn_einsum("ij,jk->ki", (kn_value *const[]){x, y}, 2))
MADE(einsum_ij_jk, kn_einsum("ij, jk", (kn_value *const[]){x, y}, 2))
MADE(einsum_ij_to_ji, kn_einsum("ij->ji", (kn_value *const[]){x}, 1))
MADE(einsum_ij_to_, kn_einsum("ij->", (kn_value *const[]){x}, 1))
MADE(einsum_ij_to_i, kn_einsum("ij->i", (kn_value *const[]){x}, 1))
MADE(einsum_bii_to_bi, kn_einsum("bii->bi", (kn_value *const[]){z}, 1))
MADE(einsum_bij_bkj_to_bik, kn_einsum("bij,bkj->bik", (kn_value *const[]){z, z}, 2))
MADE(einsum_bij_bjk_to_ikb, kn_einsum("bij,bjk->ikb", (kn_value *const[]){z, z}, 2))
MADE(einsum_ij_kl_to_ijkl, kn_einsum("ij,kl->ijkl", (kn_value *const[]){x, y}, 2))
MADE(einsum_ij_ij_to_ij, kn_einsum("ij,ij->ij", (kn_value *const[]){x, x}, 2))
MADE(einsum_ij_ij_to_, kn_einsum("ij,ij->", (kn_value *const[]){x, x}, 2))
MADE(einsum_ij_jk_il_to_lk, kn_einsum("ij,jk,il->lk", (kn_value *const[]){x, y, x}, 3))
MADE(einsum_iji_ik_to_j, kn_einsum("iji,ik->j", (kn_value *const[]){z, x}, 2))
MADE(einsum_ji_jk_to_ik, kn_einsum("ji,jk->ik", (kn_value *const[]){y, y}, 2))
MADE(einsum_points_ii_to_points_i, kn_einsum("...ii->...i", (kn_value *const[]){z}, 1))
MADE(einsum_points_bik_kj, kn_einsum("...ik, ...kj", (kn_value *const[]){z, kn_slice(y, 0, 0, 2)}, 2))
MADE(einsum_points_to_first,
     kn_einsum("i...,j->...ij", (kn_value *const[]){x, kn_slice(kn_reshape(y, "12"), 0, 0, 2)}, 2))
MADE(einsum_points_summed, kn_einsum("...j->j", (kn_value *const[]){z}, 1))
MADE(einsum_points_repeat,
     kn_einsum("a...,a...->...a", (kn_value *const[]){z, kn_slice(kn_reshape(y, "2,1,6"), 2, 0, 2)}, 2))
MADE(einsum_points_none, kn_einsum("...ij,...->i...", (kn_value *const[]){x, kn_scalar(graph, 2)}, 2))
MADE(resize_nearest, resized((kn_resize_params){.size = sizeof(kn_resize_params),
                                                .cubic = -0.75,
                                                .coordinates = KN_RESIZE_COORDINATES_ASYMMETRIC,
                                                .rounding = KN_RESIZE_ROUNDING_FLOOR}))
MADE(resize_nearest_exact,
     resized((kn_resize_params){
         .size = sizeof(kn_resize_params), .cubic = -0.75, .rounding = KN_RESIZE_ROUNDING_PREFER_CEIL}))
MADE(resize_bilinear,
     resized((kn_resize_params){.size = sizeof(kn_resize_params), .cubic = -0.75, .mode = KN_RESIZE_LINEAR}))
MADE(resize_bilinear_corners, resized((kn_resize_params){.size = sizeof(kn_resize_params),
                                                         .cubic = -0.75,
                                                         .mode = KN_RESIZE_LINEAR,
                                                         .coordinates = KN_RESIZE_COORDINATES_ALIGN_CORNERS}))
MADE(resize_bicubic,
     resized((kn_resize_params){.size = sizeof(kn_resize_params), .cubic = -0.75, .mode = KN_RESIZE_CUBIC}))
MADE(resize_bicubic_corners, resized((kn_resize_params){.size = sizeof(kn_resize_params),
                                                        .cubic = -0.75,
                                                        .mode = KN_RESIZE_CUBIC,
                                                        .coordinates = KN_RESIZE_COORDINATES_ALIGN_CORNERS}))
MADE(prod, kn_reduce_prod(x, "1", false))
MADE(prod_all, kn_reduce_prod(x, NULL, true))
MADE(l1, kn_reduce_l1(kn_neg(x), "1", false))
MADE(l2, kn_reduce_l2(x, "0", true))
MADE(sum_square, kn_reduce_sum_square(x, NULL, false))
MADE(log_sum, kn_reduce_log_sum(x, "1", false))
MADE(log_sum_exp, kn_reduce_log_sum_exp(kn_scale(x, 200), "1", false))
MADE(log_sum_exp_keep, kn_reduce_log_sum_exp(x, "0", true))
MADE(log_sum_exp_of_nothing, kn_exp(kn_reduce_log_sum_exp(kn_log(kn_scale(x, 0)), "1", false)))
MADE(wrong_squeeze, kn_squeeze(x, "0"))
MADE(wrong_unsqueeze, kn_unsqueeze(x, "0,-4"))
MADE(wrong_expand, kn_expand(x, "2,2"))
MADE(wrong_tile, kn_tile(x, "-1"))
MADE(wrong_stack, kn_stack((kn_value *const[]){x, x}, 2, 5))
MADE(wrong_depth, kn_depth_to_space(image, 3, true))
MADE(wrong_range, kn_range(graph, KN_INT32, 0, 1, 0))
MADE(wrong_triangle, kn_tril(kn_slice(kn_reshape(x, "6"), 0, 0, 2), 0))
MADE(wrong_padding, kn_pad_with_mode(x, "1,1,1", KN_PAD_EDGE))
MADE(wrong_gather, kn_gather(x, y, 0))
MADE(wrong_elements, kn_gather_elements(x, kn_cast(y, KN_INT32), 1))
MADE(wrong_places, kn_gather_nd(x, kn_reshape(kn_cast(y, KN_INT32), "4,3")))
MADE(wrong_batches, kn_gather_nd_batches(y, kn_reshape(pairs, "2,2"), 1))
MADE(wrong_scatter, kn_scatter(x, numbers, y, 1, KN_SCATTER_ADD))
MADE(wrong_reduction, kn_scatter(x, numbers, x, 1, (kn_scatter_reduction)7))
MADE(wrong_classes, kn_one_hot(numbers, 0, 0, 1, 0))
MADE(wrong_k, kn_argmax(kn_slice(x, 1, 0, 0), 1, false))
MADE(wrong_letters, kn_einsum("ijk->i", &x, 1))
MADE(wrong_result, kn_einsum("ij->k", &x, 1))
MADE(wrong_sizes, kn_einsum("ij,ij->i", (kn_value *const[]){x, y}, 2))
MADE(wrong_equation, kn_einsum("ij=>i", &x, 1))
MADE(wrong_points, kn_einsum("...i...j->i", &x, 1))
MADE(wrong_points_sizes, kn_einsum("...,...->", (kn_value *const[]){x, y}, 2))
MADE(wrong_points_letters, kn_einsum("...ijk->i", &x, 1))
MADE(wrong_image, kn_resize_image(kn_reshape(x, "6"), 2, 2, NULL))
MADE(wrong_mode,
     kn_resize_image(x, 4, 4,
                     &(kn_resize_params){.size = sizeof(kn_resize_params), .mode = (kn_resize_mode)9}))
MADE(wrong_flip, kn_flip(x, "2"))
MADE(wrong_cumulative, kn_cumulative_sum(x, 2, false, false))
static kn_value *made_wrong_split(void) {
    kn_value *parts[2];
    kn_split(x, 0, (const int64_t[]){1, 2}, 2, parts);
    return parts[0];
}

static const built table[] = {
    {"log_sum_exp_of_nothing", made_log_sum_exp_of_nothing, "2", {0, 0}},
    {"flip", made_flip, "2,3", {3, 2, 1, 6, 5, 4}},
    {"squeeze", made_squeeze, "3", {4, 5, 6}},
    {"squeeze_axis", made_squeeze_axis, "2", {2, 5}},
    {"unsqueeze", made_unsqueeze, "1,2,3,1", {1, 2, 3, 4, 5, 6}},
    {"expand", made_expand, "2,2,3", {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}},
    {"tile", made_tile, "2,2,6", {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
    {"tile_last", made_tile_last, "2,6", {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
    {"repeat", made_repeat, "2,6", {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}},
    {"stack", made_stack, "2,3,2", {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}},
    {"depth_to_space",
     made_depth_to_space,
     "1,1,4,4",
     {1, 5, 2, 6, 9, 13, 10, 14, 3, 7, 4, 8, 11, 15, 12, 16}},
    {"depth_to_space_pixels",
     made_depth_to_space_pixels,
     "1,1,4,4",
     {1, 5, 2, 6, 9, 13, 10, 14, 3, 7, 4, 8, 11, 15, 12, 16}},
    {"space_to_depth",
     made_space_to_depth,
     "1,4,2,2",
     {1, 3, 9, 11, 2, 4, 10, 12, 5, 7, 13, 15, 6, 8, 14, 16}},
    {"there_and_back",
     made_there_and_back,
     "1,4,2,2",
     {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
    {"range", made_range, "3", {3, 1.5, 0}},
    {"tril", made_tril, "3,4", {0, 0, 0, 0, 5, 0, 0, 0, 9, 10, 0, 0}},
    {"triu", made_triu, "3,4", {0, 2, 3, 4, 0, 0, 7, 8, 0, 0, 0, 12}},
    {"reflect", made_reflect, "3,6", {6, 5, 4, 5, 6, 5, 3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5}},
    {"edge", made_edge, "3,6", {1, 1, 1, 2, 3, 3, 1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6}},
    {"wrap", made_wrap, "2,6", {2, 3, 1, 2, 3, 1, 5, 6, 4, 5, 6, 4}},
    {"gather", made_gather, "2,3", {3, 1, 3, 6, 4, 6}},
    {"gather_elements", made_gather_elements, "2,2", {3, 1, 5, 5}},
    {"gather_elements_of_part", made_gather_elements_of_part, "2,2", {9, 2, 5, 6}},
    {"gather_nd", made_gather_nd, "2", {6, 1}},
    {"gather_nd_batches", made_gather_nd_batches, "2,2", {3, 1, 5, 5}},
    {"gather_nd_batches_of_rows", made_gather_nd_batches_of_rows, "2,2", {1, 2, 7, 8}},
    {"scatter", made_scatter, "2,3", {21, 2, 43, 54, 5, 106}},
    {"scatter_elements", made_scatter_elements, "3,4", {1, 20, 3, 4, 40, 50, 7, 8, 10, 10, 11, 12}},
    {"scatter_nd", made_scatter_nd, "2,3", {20, 2, 3, 4, 5, 60}},
    {"one_hot", made_one_hot, "3,3", {-1, 2, -1, -1, -1, -1, 2, -1, 2}},
    {"top_k", made_top_k, "2,4", {9, 10, 11, 12, 5, 6, 7, 8}},
    {"argmax", made_argmax, "2", {2, 2}},
    {"argmin", made_argmin, "1,3", {0, 0, 0}},
    {"cumulative_sum", made_cumulative_sum, "2,3", {5, 3, 0, 11, 6, 0}},
    {"einsum_ij_jk_to_ik", made_einsum_ij_jk_to_ik, "2,4", {38, 44, 50, 56, 83, 98, 113, 128}},
    {"einsum_ij_jk_to_ki", made_einsum_ij_jk_to_ki, "4,2", {38, 83, 44, 98, 50, 113, 56, 128}},
    {"einsum_ij_jk", made_einsum_ij_jk, "2,4", {38, 44, 50, 56, 83, 98, 113, 128}},
    {"einsum_ij_to_ji", made_einsum_ij_to_ji, "3,2", {1, 4, 2, 5, 3, 6}},
    {"convolution", made_convolution, "", {0}},
    {"convolution_single", made_convolution_single, "", {0}},
    {"convolution_along", made_convolution_along, "", {0}},
    {"einsum_ij_to_", made_einsum_ij_to_, "", {21}},
    {"einsum_ij_to_i", made_einsum_ij_to_i, "2", {6, 15}},
    {"einsum_bii_to_bi", made_einsum_bii_to_bi, "2,2", {1, 4, 5, 8}},
    {"einsum_bij_bkj_to_bik", made_einsum_bij_bkj_to_bik, "2,2,2", {5, 11, 11, 25, 61, 83, 83, 113}},
    {"einsum_bij_bjk_to_ikb", made_einsum_bij_bjk_to_ikb, "2,2,2", {7, 67, 10, 78, 15, 91, 22, 106}},
    {"einsum_ij_kl_to_ijkl",
     made_einsum_ij_kl_to_ijkl,
     "2,3,3,4",
     {1, 2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 2, 4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24,
      3, 6,  9,  12, 15, 18, 21, 24, 27, 30, 33, 36, 4, 8,  12, 16, 20, 24, 28, 32, 36, 40, 44, 48,
      5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 6, 12, 18, 24, 30, 36, 42, 48, 54, 60, 66, 72}},
    {"einsum_ij_ij_to_ij", made_einsum_ij_ij_to_ij, "2,3", {1, 4, 9, 16, 25, 36}},
    {"einsum_ij_ij_to_", made_einsum_ij_ij_to_, "", {91}},
    {"einsum_ij_jk_il_to_lk",
     made_einsum_ij_jk_il_to_lk,
     "3,4",
     {370, 436, 502, 568, 491, 578, 665, 752, 612, 720, 828, 936}},
    {"einsum_iji_ik_to_j", made_einsum_iji_ik_to_j, "2", {96, 138}},
    {"einsum_ji_jk_to_ik",
     made_einsum_ji_jk_to_ik,
     "4,4",
     {107, 122, 137, 152, 122, 140, 158, 176, 137, 158, 179, 200, 152, 176, 200, 224}},
    {"einsum_points_ii_to_points_i", made_einsum_points_ii_to_points_i, "2,2", {1, 4, 5, 8}},
    {"einsum_points_bik_kj",
     made_einsum_points_bik_kj,
     "2,2,4",
     {11, 14, 17, 20, 23, 30, 37, 44, 35, 46, 57, 68, 47, 62, 77, 92}},
    {"einsum_points_to_first", made_einsum_points_to_first, "3,2,2", {1, 2, 4, 8, 2, 4, 5, 10, 3, 6, 6, 12}},
    {"einsum_points_summed", made_einsum_points_summed, "2", {16, 20}},
    {"einsum_points_repeat", made_einsum_points_repeat, "2,2,2", {1, 35, 4, 48, 3, 49, 8, 64}},
    {"einsum_points_none", made_einsum_points_none, "2", {12, 30}},
    {"resize_nearest", made_resize_nearest, "5,3", {1, 2, 3, 1, 2, 3, 5, 6, 7, 5, 6, 7, 9, 10, 11}},
    {"resize_nearest_exact",
     made_resize_nearest_exact,
     "5,3",
     {1, 3, 4, 1, 3, 4, 5, 7, 8, 9, 11, 12, 9, 11, 12}},
    {"resize_bilinear",
     made_resize_bilinear,
     "5,3",
     {1.1666666666666665, 2.5, 3.833333333333333, 2.7666666666666666, 4.1, 5.433333333333334,
      5.166666666666667, 6.5, 7.833333333333333, 7.5666666666666655, 8.899999999999999, 10.233333333333333,
      9.166666666666666, 10.499999999999998, 11.833333333333334}},
    {"resize_bilinear_corners",
     made_resize_bilinear_corners,
     "5,3",
     {1, 2.5, 4, 3, 4.5, 6, 5, 6.5, 8, 7, 8.5, 10, 9, 10.5, 12}},
    {"resize_bicubic",
     made_resize_bicubic,
     "5,3",
     {0.7421574074074072, 2.1159999999999983, 3.4898425925925904, 2.390157407407403, 3.763999999999993,
      5.137842592592585, 5.126157407407409, 6.5, 7.873842592592592, 7.8621574074074045, 9.235999999999995,
      10.609842592592585, 9.510157407407414, 10.884000000000004, 12.257842592592594}},
    {"resize_bicubic_corners",
     made_resize_bicubic_corners,
     "5,3",
     {1, 2.5, 4, 2.625, 4.125, 5.625, 5, 6.5, 8, 7.375, 8.875, 10.375, 9, 10.5, 12}},
    {"prod", made_prod, "2", {6, 120}},
    {"prod_all", made_prod_all, "1,1", {720}},
    {"l1", made_l1, "2", {6, 15}},
    {"l2", made_l2, "1,3", {4.123105625617661, 5.385164807134504, 6.708203932499369}},
    {"sum_square", made_sum_square, "", {91}},
    {"log_sum", made_log_sum, "2", {1.791759469228055, 2.70805020110221}},
    {"log_sum_exp", made_log_sum_exp, "2", {600, 1200}},
    {"log_sum_exp_keep",
     made_log_sum_exp_keep,
     "1,3",
     {4.048587351573742, 5.048587351573742, 6.048587351573742}},
};

static kn_value *whole_numbers(const char *shape, const int32_t *data, size_t count) {
    return kn_constant(graph, KN_INT32, shape, data, count * sizeof *data);
}

/* The elements of each input are 1, 2, 3, … */
static int begin(void **state) {
    graph = kn_graph_create(NULL);
    x = kn_input(graph, "x", KN_FLOAT32, "2,3");
    y = kn_input(graph, "y", KN_FLOAT32, "3,4");
    z = kn_input(graph, "z", KN_FLOAT32, "2,2,2");
    image = kn_input(graph, "image", KN_FLOAT32, "1,4,2,2");
    numbers = whole_numbers("3", (const int32_t[]){2, 0, -1}, 3);
    pairs = whole_numbers("2,2", (const int32_t[]){1, 2, -2, -3}, 4);
    elements = whole_numbers("2,2", (const int32_t[]){2, 0, 1, 1}, 4);
    return 0;
}

static int end(void **state) {
    kn_graph_destroy(&graph);
    return 0;
}

static void compare(const built *on, const kn_value *result, const double *actual) {
    int64_t elements_there = host_elements(result);
    assert_true(elements_there <= MOST);
    for (int64_t i = 0; i < elements_there; i++)
        if (!(fabs(actual[i] - on->expected[i]) <= 1e-9 * fmax(1, fabs(on->expected[i]))))
            fail_msg("%s: element %d is %.12g; expected %.12g", on->name, (int)i, actual[i], on->expected[i]);
}

TEST_WITH(builders_answer, begin, end) {
    static double counted[MOST];
    for (int i = 0; i < MOST; i++)
        counted[i] = i + 1;
    for (size_t i = 0; i < KN_COUNT_OF(table); i++) {
        kn_value *value = table[i].make(), *result;
        char shape[64];
        kn_graph *bound;
        kn_error error = {0};
        if (kn_value_failed(value)) fail_msg("%s: %s", table[i].name, kn_graph_error(graph));
        kn_value_shape_text(value, shape, sizeof shape);
        if (strcmp(shape, table[i].shape))
            fail_msg("%s is (%s); expected (%s)", table[i].name, shape, table[i].shape);
        kn_bind_request request = {0};
        if (kn_graph_bind(graph, &value, 1, &request, &bound, &result, &error))
            fail_msg("%s: %s", table[i].name, error.text);
        host_input given[4] = {{"x", counted}, {"y", counted}, {"z", counted}, {"image", counted}};
        host_values values = host_compute(bound, given, 4);
        compare(&table[i], result, values.numbers[result->id]);
        host_release(&values);
        kn_graph_destroy(&bound);
    }
}

/* Products over axes have gradients even if an element is 0. */
TEST_WITH(products_have_gradients, begin, end) {
    const double given_numbers[6] = {3, 0, 2, 5, 4, 7}, expected[6] = {0, 6, 0, 28, 35, 20};
    kn_value *sum = kn_sum(kn_reduce_prod(x, "1", false), NULL, false), *loss, *gradient;
    kn_graph *bound;
    kn_error error = {0};
    kn_bind_request request = {0};
    assert_int_equal(kn_graph_bind(graph, &sum, 1, &request, &bound, &loss, &error), KN_OK);
    kn_value *by = kn_graph_find(bound, "x");
    assert_int_equal(kn_graph_gradient(bound, loss, &by, 1, &gradient, &error), KN_OK);
    host_input given = {"x", given_numbers};
    host_values values = host_compute(bound, &given, 1);
    for (int i = 0; i < 6; i++)
        assert_true(values.numbers[gradient->id][i] == expected[i]);
    host_release(&values);
    kn_graph_destroy(&bound);
}

/* (rows,4) times two rows of weights, and the sum's gradient. With many rows the weights are made first. */
TEST_WITH(quantized_weights, begin, end) {
    const uint8_t bytes[4] = {0x9a, 0x78, 0x0f, 0x81}; /* 2 1 0 -1 and 7 -8 -7 0, plus 8 */
    const float scales[4] = {0.5f, 2, 1, 3};
    const double expected[2] = {-6, -72}, slopes[4] = {8, -7.5, -21, -2};
    double given_numbers[9 * 4];
    for (int i = 0; i < 9 * 4; i++)
        given_numbers[i] = i % 4 + 1;
    for (int rows = 1; rows <= 9; rows += 8) {
        kn_value *a = kn_input(graph, rows == 1 ? "few" : "many", KN_FLOAT32, rows == 1 ? "1,k" : "9,k");
        kn_value *codes = kn_constant(graph, KN_UINT8, "2,2", bytes, sizeof bytes);
        kn_value *scale = kn_constant(graph, KN_FLOAT32, "2,2", scales, sizeof scales);
        kn_value *made[2] = {kn_matmul_quantized(a, codes, scale, NULL, 4, 2)}, *results[2], *gradient;
        made[1] = kn_sum(made[0], NULL, false);
        if (kn_value_failed(made[1])) fail_msg("%s", kn_graph_error(graph));
        kn_graph *bound;
        kn_error error = {0};
        const kn_binding binding = {"k", 4};
        const kn_bind_request request = {.bindings = &binding, .binding_count = 1};
        if (kn_graph_bind(graph, made, 2, &request, &bound, results, &error)) fail_msg("%s", error.text);
        assert_string_equal(results[0]->producer->op->name, rows == 1 ? "matmul_quantized" : "matmul");
        kn_value *by = kn_graph_find(bound, rows == 1 ? "few" : "many");
        assert_int_equal(kn_graph_gradient(bound, results[1], &by, 1, &gradient, &error), KN_OK);
        host_input given = {rows == 1 ? "few" : "many", given_numbers};
        host_values values = host_compute(bound, &given, 1);
        for (int i = 0; i < 2 * rows; i++)
            assert_true(values.numbers[results[0]->id][i] == expected[i % 2]);
        for (int i = 0; i < 4 * rows; i++)
            assert_true(values.numbers[gradient->id][i] == slopes[i % 4]);
        host_release(&values);
        kn_graph_destroy(&bound);
    }
}

/* Saved symbolic sizes get their numbers on binding. */
TEST_WITH(triangles_of_open_sizes, begin, end) {
    const double given_numbers[6] = {1, 2, 3, 4, 5, 6},
                 expected[2][6] = {{1, 0, 0, 4, 5, 0}, {0, 2, 3, 0, 0, 6}};
    kn_value *v = kn_input(graph, "v", KN_FLOAT32, "rows,columns"), *results[2];
    kn_value *made[2] = {kn_tril(v, 0), kn_triu(v, 1)};
    kn_graph *bound;
    kn_error error = {0};
    const kn_binding bindings[2] = {{"rows", 2}, {"columns", 3}};
    const kn_bind_request request = {.bindings = bindings, .binding_count = 2};
    if (kn_graph_bind(graph, made, 2, &request, &bound, results, &error)) fail_msg("%s", error.text);
    host_input given = {"v", given_numbers};
    host_values values = host_compute(bound, &given, 1);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 6; i++)
            assert_true(values.numbers[results[k]->id][i] == expected[k][i]);
    host_release(&values);
    kn_graph_destroy(&bound);
}

static void shape_is(kn_value *value, const char *expected) {
    char shape[64];
    if (kn_value_failed(value)) fail_msg("%s: %s", expected, kn_graph_error(graph));
    kn_value_shape_text(value, shape, sizeof shape);
    assert_string_equal(shape, expected);
}

/* Sizes may be symbolic unless the number of nodes depends on them. */
TEST_WITH(symbols_stay, begin, end) {
    kn_value *v = kn_input(graph, "v", KN_FLOAT32, "batch,length,6"), *parts[3], *places;
    kn_value *w = kn_input(graph, "w", KN_FLOAT32, "batch,4,h,w");
    shape_is(kn_squeeze(kn_unsqueeze(v, "1,-1"), "1"), "batch,length,6,1");
    shape_is(kn_expand(v, "3,1,1,1"), "3,batch,length,6");
    shape_is(kn_tile(v, "2,1,2"), "2*batch,length,12");
    shape_is(kn_repeat(v, 1, 3), "batch,3*length,6");
    shape_is(kn_stack((kn_value *const[]){v, v}, 2, 0), "2,batch,length,6");
    shape_is(kn_depth_to_space(w, 2, true), "batch,1,2*h,2*w");
    shape_is(kn_space_to_depth(kn_depth_to_space(w, 2, true), 2, false), "batch,4,h,w");
    shape_is(kn_einsum("bld,bmd->blm", (kn_value *const[]){v, v}, 2), "batch,length,length");
    shape_is(kn_einsum("...d,...d->...", (kn_value *const[]){v, v}, 2), "batch,length");
    shape_is(kn_gather_nd_batches(w, kn_input(graph, "n", KN_INT32, "batch,5,1"), 1), "batch,5,h,w");
    shape_is(kn_gather_nd(v, kn_input(graph, "m", KN_INT64, "7,2")), "7,6");
    shape_is(kn_top_k(v, 2, -1, true, &places), "batch,length,2");
    shape_is(places, "batch,length,2");
    shape_is(kn_argmax(v, -1, false), "batch,length");
    shape_is(kn_gather(v, numbers, -1), "batch,length,3");
    shape_is(kn_pad_with_mode(v, "0,0,1,0,0,2", KN_PAD_REFLECT), "batch,length,9");
    shape_is(kn_reduce_prod(v, "-1", false), "batch,length");
    assert_int_equal(kn_split(v, -1, NULL, 3, parts), KN_OK);
    shape_is(parts[2], "batch,length,2");
    assert_int_equal(kn_split(v, -1, (const int64_t[]){1, 0, 5}, 3, parts), KN_OK);
    shape_is(parts[1], "batch,length,0");
    shape_is(parts[2], "batch,length,5");
}

/* Each in a separate graph, since the first failure is permanent. */
/* Gradients of convolutions whose channels do not fit the groups. */
static kn_value *made_wrong_groups(const char *row, const char *other, const char *attributes) {
    kn_value *inputs[2] = {kn_input(graph, "dy", KN_FLOAT32, "1,5,2,2"),
                           kn_input(graph, "other", KN_FLOAT32, other)};
    kn_attribute_value values[KN_MAX_ATTRIBUTES];
    kn_error error = {0};
    const kn_operator *found = kn_operator_find(row);
    assert_int_equal(kn_attributes_parse(graph, found, attributes, values, &error), KN_OK);
    return kn_node_add(graph, found, "wrong", inputs, 2, values);
}
static kn_value *made_wrong_data_groups(void) {
    return made_wrong_groups("conv2d_data", "5,2,1,1", "groups=2 size=2,2");
}
static kn_value *made_wrong_data_channels(void) {
    return made_wrong_groups("conv2d_data", "4,2,1,1", "groups=2 size=2,2");
}
static kn_value *made_wrong_weight_groups(void) {
    return made_wrong_groups("conv2d_weight", "1,4,2,2", "groups=2 size=1,1");
}

TEST(mistakes_are_reported) {
    const struct {
        kn_value *(*make)(void);
        const char *said;
    } mistakes[] = {
        {made_wrong_squeeze, "must have size 1"},
        {made_wrong_unsqueeze, "is repeated"},
        {made_wrong_expand, "does not fit"},
        {made_wrong_tile, "expected 0 or more"},
        {made_wrong_stack, "no axis 5"},
        {made_wrong_depth, "C a multiple of 9"},
        {made_wrong_range, "in the direction of the step"},
        {made_wrong_triangle, "expected (...,rows,columns)"},
        {made_wrong_padding, "there are 3 amounts"},
        {made_wrong_gather, "to int32 or int64"},
        {made_wrong_elements, "the same sizes"},
        {made_wrong_places, "expected int32 or int64 (...,K)"},
        {made_wrong_batches, "the same first 1 axes"},
        {made_wrong_scatter, "one per index"},
        {made_wrong_reduction, "unknown reduction"},
        {made_wrong_classes, "expected at least 1"},
        {made_wrong_k, "that many elements"},
        {made_wrong_letters, "different number of axes"},
        {made_wrong_result, "no operand has"},
        {made_wrong_sizes, "two different sizes"},
        {made_wrong_equation, "expected a letter, a comma"},
        {made_wrong_points, "... twice"},
        {made_wrong_points_sizes, "two different sizes"},
        {made_wrong_points_letters, "different number of axes"},
        {made_wrong_image, "expected (...,H,W)"},
        {made_wrong_mode, "unknown"},
        {made_wrong_flip, "no axis 2"},
        {made_wrong_cumulative, "no axis 2"},
        {made_wrong_split, "must have a total of"},
        {made_wrong_data_groups, "K a multiple of the groups"},
        {made_wrong_data_channels, "K a multiple of the groups"},
        {made_wrong_weight_groups, "multiples of the groups"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(mistakes); i++) {
        void *none = NULL;
        begin(&none);
        if (!kn_value_failed(mistakes[i].make())) fail_msg("mistake %d was accepted", (int)i);
        if (!strstr(kn_graph_error(graph), mistakes[i].said))
            fail_msg("mistake %d: \"%s\" does not say \"%s\"", (int)i, kn_graph_error(graph),
                     mistakes[i].said);
        end(&none);
    }
}

TEST_FILE(test_made_shapes, NULL, NULL)
