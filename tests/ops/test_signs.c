/* In a copy of the library's kernels one sign of each family is inverted: the smallest cases of the table
 * must detect it, or the device must refuse the kernel. Unmodified they must pass. A file of cl/ without a
 * row here fails, so that a new family must add its sign. (Expressions and gradient rules: test_rows.c.) */
#include "changed_kernels.h"
#include "device_support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = KN_KERNELS_CPU, MANY = KN_KERNELS_GPU };

typedef struct turned {
    const char *file, *from, *to, *operators, *variants;
    int kind, width; /* width 0: 4 on wide-vector devices */
    const char *matrix_unit;
    kn_precision precision;
} turned;

static const turned families[] = {
    {"attention/fragment.cl", "exp(*(local const KN_A4 *)(own_scores + turned) - base)",
     "exp(-*(local const KN_A4 *)(own_scores + turned) - base)", "attention", "matrix", MANY, 0,
     "emulated-mma", KN_PRECISION_BFLOAT16},
    {"attention/numbers.cl", "? max(0, limit - queries)", "? max(0, limit + queries)", "attention_gradient",
     "tiled", MANY},
    {"attention/plain.cl", "exp(KN_SCORE(query, j) - most)", "exp(-KN_SCORE(query, j) - most)", "attention",
     "plain", MANY},
    {"attention/tiled.cl", "exp(own_scores[j] - base)", "exp(-own_scores[j] - base)", "attention", "tiled",
     MANY},
    {"attention/wide.cl", "exp_of(load(0, scores + j)", "exp_of(-load(0, scores + j)", "attention", "wide",
     WIDE},
    {"norm/batch_norm.cl", "(KN_SAMPLE(i, x) - center) * scale + shift",
     "(KN_SAMPLE(i, x) + center) * scale + shift", "batch_norm", "parts", WIDE},
    {"norm/batch_norm_groups.cl", "(loaded[i] - center) * scale + shift",
     "(loaded[i] + center) * scale + shift", "batch_norm", "parts", MANY},
    {"norm/moments.cl", "right.mean - left.mean", "right.mean + left.mean", "batch_norm", "parts", MANY},
    {"conv/blocked.cl", "((line)*stride_y - pad_top)", "((line)*stride_y + pad_top)", "conv2d",
     "matrix_blocked", MANY, 0, "emulated-mma", KN_PRECISION_BFLOAT16},
    {"conv/blocked_tile.cl", "(uint)(y) < (uint)(height)", "(uint)(y) > (uint)(height)", "conv2d",
     "matrix_blocked", MANY, 0, "emulated-mma", KN_PRECISION_BFLOAT16},
    {"conv/blocked_weight.cl", "dilation_y - pad_top", "dilation_y + pad_top", "conv2d_weight",
     "matrix_blocked", MANY, 0, "emulated-mma", KN_PRECISION_BFLOAT16},
    {"conv/columns.cl", "dilation_x - pad_x", "dilation_x + pad_x", "columns", "lines", MANY},
    {"conv/single_tile.cl", "sum##row##_##v += value", "sum##row##_##v -= value", "conv2d", "wide", WIDE},
    {"conv/depthwise.cl", "sum += KN_READ(from + s", "sum -= KN_READ(from + s", "conv2d", "depthwise", MANY},
    {"conv/depthwise_wide.cl", "sum##i += load", "sum##i -= load", "conv2d", "depthwise_wide", WIDE},
    {"conv/first.cl", "sum##row##_##v += value", "sum##row##_##v -= value", "conv2d", "first", WIDE},
    {"conv/implicit.cl", "stride_y - pad_top", "stride_y + pad_top", "conv2d", "implicit", MANY},
    {"conv/implicit_data.cl", "entry.y = -tap_y", "entry.y = tap_y", "conv2d_data", "implicit", MANY},
    {"conv/implicit_tile.cl", "inside ? KN_LOAD_SIDE(", "inside ? -KN_LOAD_SIDE(", "conv2d", "implicit",
     MANY},
    {"conv/implicit_weight.cl", "stride_y - pad_top", "stride_y + pad_top", "conv2d_weight", "implicit",
     MANY},
    {"conv/packing.cl", "x##i = load(0, from + i * plain", "x##i = -load(0, from + i * plain", "conv2d",
     "wide", WIDE},
    {"conv/phase.cl", "phase.first + pad", "phase.first - pad", "conv2d_data", "implicit", MANY},
    {"conv/plain.cl", "stride_y - pad_top", "stride_y + pad_top", "conv2d", "plain", MANY},
    {"conv/wide.cl", "sum##row##_##v += value", "sum##row##_##v -= value", "conv2d", "wide", WIDE},
    {"conv/wide_single.cl", "pixel##row[at]", "-pixel##row[at]", "conv2d", "wide", WIDE},
    {"conv/wide_weights.cl", "off_y = tap / filter_width * dilation_y - pad_y",
     "off_y = tap / filter_width * dilation_y + pad_y", "conv2d_weight", "wide", WIDE},
    {"conv/winograd.cl", "+= value * right##v", "-= value * right##v", "conv2d", "winograd4", WIDE},
    {"conv/winograd_points.cl", "f##2 = f##a - f##b", "f##2 = f##a + f##b", "conv2d", "winograd4", WIDE},
    {"conv/winograd_tiled.cl", "row = tile.row - pad_y", "row = tile.row + pad_y", "conv2d",
     "winograd4_tiled", MANY},
    {"losses/cross_entropy.cl", "mass * e - KN_PROBABILITY(j)", "mass * e + KN_PROBABILITY(j)",
     "cross_entropy_gradient", "tree", MANY},
    {"losses/ctc.cl", "exp(b - most)", "exp(b + most)", "ctc", "steps", WIDE},
    {"reduce/cumulative.cl", "sum += element", "sum -= element", "cumsum", "threads", MANY},
    {"gather/embedding.cl", "(KN_A)*sum + (KN_A)KN_READ_AS", "(KN_A)*sum - (KN_A)KN_READ_AS",
     "embedding_gradient", "threads", MANY},
    {"gather/gather.cl", "place[i] += update[i]", "place[i] -= update[i]", "gather_gradient", "threads",
     MANY},
    {"norm/layer_norm.cl", "KN_AGAIN(bias_of, ", "-KN_AGAIN(bias_of, ", "layer_norm", "tree", MANY},
    {"reduce/sums.cl", "sum += from[", "sum -= from[", "matmul", "tiled", MANY},
    {"shape/blocks.cl", "plain[pixels] = channels.s1", "plain[pixels] = channels.s2", "conv2d",
     "matrix_blocked", MANY, 0, "emulated-mma", KN_PRECISION_BFLOAT16},
    {"shape/layout.cl", "i < count ? plain[i", "i < count ? -plain[i", "conv2d", "wide", WIDE},
    {"shape/widen.cl", "y[i] = scale", "y[i] = -scale", "widen", "threads", WIDE},
    {"matmul/amx.cl", "KN_FINISH(load(", "KN_FINISH(-load(", "matmul", "amx", WIDE, 16, "emulated-amx",
     KN_PRECISION_BFLOAT16},
    {"common/fragment.cl", "low[at] = KN_LOW_OF", "low[at] = 0 * KN_LOW_OF", "matmul", "matrix_split", MANY,
     0, "emulated-mma"},
    {"common/amx.cl", "low ? kn_to_bfloat(number - ", "low ? kn_to_bfloat(number + ", "matmul", "amx_split",
     WIDE, 16, "emulated-amx"},
    {"matmul/integer_tiled.cl", "s * column_sums", "-s * column_sums", "matmul_integer", "tiled", MANY},
    {"matmul/integer_tiled.cl", "r0.s1, r1.s1, r2.s1, r3.s1", "r0.s1, -r1.s1, r2.s1, r3.s1", "matmul_integer",
     "matrix", MANY, 0, "emulated-mma"},
    {"matmul/integer_wide.cl", "a[at] - less", "a[at] + less", "matmul_integer", "wide", WIDE},
    {"matmul/quantized.cl", "(weights.part[i] - zero)", "(weights.part[i] + zero)", "matmul_quantized",
     "tree", MANY},
    {"matmul/plain.cl", "sum += run", "sum -= run", "matmul", "plain", MANY},
    {"matmul/tiled.cl", "KN_EPILOGUE(each[l]", "KN_EPILOGUE(-each[l]", "matmul", "tiled", MANY},
    {"matmul/skinny.cl", "sum##row##_##v += left", "sum##row##_##v -= left", "matmul", "wide", WIDE},
    {"matmul/wide.cl", "sum##row##_##v += left", "sum##row##_##v -= left", "matmul", "wide", WIDE},
    {"matmul/wide_finish.cl", "vector finished = value;", "vector finished = -value;", "matmul", "wide",
     WIDE},
    {"shape/pad.cl", "inside ? in[from]", "inside ? -in[from]", "pad", "plain", MANY},
    {"pointwise/pointwise.cl", "#if KN_RANDOM\n",
     "#undef exp\n#define exp(x) exp2(-1.442695f * (x))\n#if KN_RANDOM\n", "exp", NULL, MANY},
    {"conv/pool.cl", "lanes most = -INFINITY", "lanes most = INFINITY", "max_pool", "window", MANY},
    {"conv/pool.cl", "sum += KN_TO(KN_A, KN_LOAD((plane * height",
     "sum -= KN_TO(KN_A, KN_LOAD((plane * height", "average_pool", "window", MANY},
    {"conv/pool.cl", "most[c] = -INFINITY", "most[c] = INFINITY", "max_pool", "window", WIDE},
    {"common/random.cl", "k0 += 0x9E3779B9u", "k0 -= 0x9E3779B9u", "dropout", NULL, MANY},
    {"recurrent/fragment.cl", "min(KN_GATE_OF(column), KN_GATES - 1)",
     "KN_GATES - 1 - min(KN_GATE_OF(column), KN_GATES - 1)", "lstm", "matrix", MANY, 0, "emulated-mma",
     KN_PRECISION_BFLOAT16},
    {"recurrent/gru.cl", "dh * (1.0f - z)", "dh * (1.0f + z)", "gru_gradient,gru", "tiled", MANY},
    {"recurrent/lstm.cl", "o * (1.0f - c * c)", "o * (1.0f + c * c)", "lstm_gradient,lstm", "tiled", MANY},
    {"recurrent/rnn.cl", "dh * (1.0f - kept[0]", "dh * (1.0f + kept[0]", "rnn_gradient,rnn", "tiled", MANY},
    {"recurrent/plain.cl", "sum += (KN_A)before", "sum -= (KN_A)before", "lstm", "plain", MANY},
    {"recurrent/tiled.cl", "inside ? KN_TO_A(before", "inside ? -KN_TO_A(before", "lstm", "tiled", MANY},
    {"recurrent/unit.cl", "dh += carry[carried]", "dh -= carry[carried]", "lstm_gradient,lstm", "tiled",
     MANY},
    {"recurrent/wide.cl", "dh += load_part(carry", "dh -= load_part(carry", "lstm_gradient,lstm", "wide",
     WIDE},
    {"reduce/reduce.cl", "loaded[i] = KN_LOAD(from", "loaded[i] = -KN_LOAD(from", "sum", "tree", MANY},
    {"shape/resize.cl", "weights[0] = 1 - part", "weights[0] = 1 + part", "resize", "threads", MANY},
    {"attention/rotary.cl", "left * c - right * s", "left * c + right * s", "rotary", "threads", MANY},
    {"gather/rows.cl", "(KN_T)0 : rows[", "(KN_T)0 : -rows[", "put_rows", NULL, MANY},
    {"reduce/softmax.cl", "((y) * ((g) - (sum)))", "((y) * ((g) + (sum)))", "softmax_gradient", "tree", MANY},
    {"shape/strided.cl", "*out = *in;", "*out = -*in;", "slice", "plain", MANY},
    {"reduce/top_k.cl", "= last = best;", "= last = -best;", "top_k", "threads", MANY},
    {"reduce/top_k.cl", "best[at] = element", "best[at] = -element", "top_k", "wide", WIDE},
    {"shape/transpose.cl", "= tile[x][y];", "= -tile[x][y];", "transpose", "tiled", MANY},
};

/* ---- each sign ------------------------------------------------------------------------------- */

static void keep_refusals(void *user, kn_log_level level, const char *message) {
    verify_outcome *seen = user;
    size_t used = strlen(seen->failures);
    if (level == KN_LOG_WARNING)
        snprintf(seen->failures + used, sizeof seen->failures - used, "\n%s", message);
}

static kn_status verify(const turned *family, const char *folder, verify_outcome *seen) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = family->kind;
    params.trust_claims = true;
    debug.vector_width = family->width ? family->width : family->kind == WIDE ? 4 : 0;
    params.matrix_unit = family->matrix_unit;
    if (folder) params.cache_folder = NULL; /* verdicts on these kernels must not be stored */
    params.kernel_folder = folder;
    params.log = (kn_logger){.user = seen, .level = KN_LOG_WARNING, .write = keep_refusals};
    kn_context *context = device_open(&params);
    kn_verify_params wanted;
    kn_verify_params_init(&wanted);
    wanted.operators = family->operators;
    wanted.variants = family->variants;
    wanted.precision = family->precision;
    wanted.thoroughness = 2;
    wanted.user = seen;
    wanted.report = take_verify_result;
    kn_status status = kn_verify(context, &wanted, NULL, NULL);
    device_close(&context);
    return status;
}

static void a_wrong_sign_is_noticed(void **state) {
    const turned *family = *state;
    static verify_outcome right, wrong;
    memset(&right, 0, sizeof right);
    memset(&wrong, 0, sizeof wrong);
    kn_status status = verify(family, NULL, &right);
    if (status != KN_OK || right.failures[0] || !right.right)
        fail_msg("%s, %d right:%s", kn_status_name(status), right.right, right.failures);
    char *folder = test_folder_make();
    link_kernels(KERNEL_FOLDER, folder);
    change_kernel(folder, family->file, family->from, family->to);
    verify(family, folder, &wrong);
    test_folder_remove(folder);
    if (!strstr(wrong.failures, "the device computed")) /* a kernel that does not compile would not count */
        fail_msg("%s with \"%s\": no case failed; %d right%s", family->file, family->to, wrong.right,
                 wrong.failures);
}

/* ---- that none is missing -------------------------------------------------------------------- */

/* Files of tests, of helpers that families include, and of two operators at once
 * (tests/run/test_producers.c). */
static bool is_no_family(const char *name) {
    return !strncmp(name, "probe/", 6) || !strncmp(name, "common/", 7) ||
           !strcmp(name, "attention/stored.cl") || !strcmp(name, "conv/fused_depthwise.cl") ||
           !strcmp(name, "recurrent/present.cl");
}

static int count_missing(const char *folder, const char *prefix) {
    int missing = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        char path[4096], name[300];
        if (entry->d_name[0] == '.') continue;
        const char *ending = strrchr(entry->d_name, '.');
        snprintf(name, sizeof name, "%s%s", prefix, entry->d_name);
        if (!ending) {
            strncat(name, "/", sizeof name - strlen(name) - 1);
            missing += count_missing(test_path(path, sizeof path, folder, entry->d_name), name);
        }
        if (!ending || strcmp(ending, ".cl") != 0 || is_no_family(name)) continue;
        bool known = false;
        for (size_t i = 0; i < sizeof families / sizeof *families; i++)
            known = known || !strcmp(families[i].file, name);
        if (!known) print_error("%s has no sign in tests/ops/test_signs.c\n", name);
        missing += !known;
    }
    closedir(listing);
    return missing;
}

static void every_family_has_one(void **state) {
    (void)state;
    assert_int_equal(count_missing(KERNEL_FOLDER, ""), 0);
}

static void every_sign_is_in_its_file(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char *folder = test_folder_make();
        link_kernels(KERNEL_FOLDER, folder);
        change_kernel(folder, families[i].file, families[i].from, families[i].to);
        test_folder_remove(folder);
    }
}

/* With arguments PART PARTS, runs one of PARTS slices of the families; with one argument, a pattern such as
 * "conv*", only the tests that match. */
int main(int argc, char **argv) {
    enum { COUNT = sizeof families / sizeof *families };
    static struct CMUnitTest tests[COUNT + 2];
    static char names[COUNT][100];
    const test_part wanted = argc > 2 ? test_part_of(argc, argv) : (test_part){0, 1};
    size_t count = 0;
    if (!device_is_there()) return 77;
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(every_family_has_one);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(every_sign_is_in_its_file);
    for (int i = 0; i < COUNT; i++) {
        if (!test_part_has(wanted, (size_t)i)) continue;
        snprintf(names[i], sizeof names[i], "%s: %s", families[i].file, families[i].operators);
        tests[count++] = (struct CMUnitTest){
            .name = names[i], .test_func = a_wrong_sign_is_noticed, .initial_state = (void *)&families[i]};
    }
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("signs", tests, count, NULL, NULL) != 0;
}
