/* References and gradient rules compared with numbers from PyTorch: tests/golden/operators.json, whose format
 * is described in tools/golden/README.md. Everything is computed on the host in double precision. */
#include "ops_tests.h"

#include "formats/formats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kn_host host;
static kn_arena arena;
static const kn_json *root;
static const char *path;

/* ---- reading ------------------------------------------------------------------------------------------ */

static const kn_json *member(const kn_json *object, const char *key) {
    const kn_json *found = kn_json_member(object, key);
    if (!found) fail_msg("%s: no \"%s\"", path, key);
    return found;
}

static const char *text_of(const kn_json *object, const char *key) {
    return member(object, key)->text;
}

static bool is_true(const kn_json *object, const char *key) {
    return member(object, key)->truth;
}

static double number_of(const kn_json *object, const char *key) {
    return member(object, key)->number;
}

/* A list of integers as "1,2,3". */
static const char *list_of(const kn_json *object, const char *key) {
    kn_text text;
    kn_text_init(&text, &host);
    for (const kn_json *item = member(object, key)->first; item; item = item->next)
        kn_text_format(&text, "%s%d", text.length ? "," : "", (int)item->number);
    const char *kept = kn_arena_text(&arena, text.data);
    kn_text_finish(&text);
    return kept;
}

static void integers_of(const kn_json *object, const char *key, int64_t *numbers) {
    for (const kn_json *item = member(object, key)->first; item; item = item->next)
        *numbers++ = (int64_t)item->number;
}

static int64_t product_of(const kn_json *shape) {
    int64_t product = 1;
    for (const kn_json *item = shape->first; item; item = item->next)
        product *= (int64_t)item->number;
    return product;
}

static double *take(int64_t count) {
    double *numbers = kn_arena_take(&arena, (size_t)count + 1, sizeof *numbers);
    assert_non_null(numbers);
    return numbers;
}

static void draw_uniform(const char *stream, const char *name, double low, double high, int64_t count,
                         double *numbers) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", stream, name);
    uint64_t key = kn_random_key((uint64_t)number_of(root, "seed"), full);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)(low + (high - low) * (double)kn_random_uniform(key, (uint64_t)i));
}

/* The elements of an input; their sum shows whether the rule was implemented right. */
static double *numbers_of_input(const kn_json *sample, const kn_json *input) {
    int64_t count = product_of(member(input, "shape"));
    double *numbers = take(count), sum = 0, size = 1;
    const kn_json *uniform = kn_json_member(input, "uniform"), *below = kn_json_member(input, "below");
    if (uniform) {
        draw_uniform(text_of(sample, "stream"), text_of(input, "name"), uniform->first->number,
                     uniform->first->next->number, count, numbers);
    } else if (below) {
        char full[128];
        snprintf(full, sizeof full, "%s.%s", text_of(sample, "stream"), text_of(input, "name"));
        uint64_t key = kn_random_key((uint64_t)number_of(root, "seed"), full);
        for (int64_t i = 0; i < count; i++)
            numbers[i] = kn_random_below(key, (uint64_t)i, (uint32_t)below->number);
    } else {
        int64_t i = 0;
        for (const kn_json *item = member(input, "values")->first; item; item = item->next)
            numbers[i++] = item->number;
        assert_int_equal(i, count);
    }
    for (int64_t i = 0; i < count; i++) {
        sum += numbers[i];
        size += fabs(numbers[i]);
    }
    if (!(fabs(sum - number_of(input, "sum")) <= 1e-12 * size))
        fail_msg("%s.%s is drawn otherwise", text_of(sample, "name"), text_of(input, "name"));
    return numbers;
}

/* ---- the file's operators in Koine's words --------------------------------------------------- */

static kn_value *apply(kn_graph *graph, const char *row, kn_value **inputs, int count, const char *format,
                       ...) {
    char attributes[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(attributes, sizeof attributes, format, arguments);
    va_end(arguments);
    return kn_apply(graph, row, inputs, (size_t)count, attributes);
}

static kn_value *convolution(kn_value **in, int count, const kn_json *given) {
    kn_conv_params params = {.size = sizeof params, .groups = (int64_t)number_of(given, "groups")};
    integers_of(given, "stride", params.stride);
    integers_of(given, "dilation", params.dilation);
    integers_of(given, "padding", params.padding);
    return kn_conv2d(in[0], in[1], count == 3 ? in[2] : NULL, &params);
}

static kn_value *slices(kn_value *x, const kn_json *given) {
    int64_t start[KN_MAX_RANK], end[KN_MAX_RANK], step[KN_MAX_RANK];
    integers_of(given, "start", start);
    integers_of(given, "end", end);
    integers_of(given, "step", step);
    for (int i = 0; i < kn_value_rank(x) && !kn_value_failed(x); i++)
        x = apply(x->graph, "slice", &x, 1, "axis=%d begin=%d end=%d step=%d", i, (int)start[i], (int)end[i],
                  (int)step[i]);
    return x;
}

static kn_value *losses(const char *name, kn_value **in, const kn_json *given) {
    if (!strcmp(name, "mse")) return kn_mse(in[0], in[1]);
    if (!strcmp(name, "bce_with_logits")) return kn_binary_cross_entropy(in[0], in[1]);
    return kn_huber(in[0], in[1], number_of(given, "delta"));
}

static kn_value *reductions(const char *name, kn_value *x, const kn_json *given) {
    const char *axes = list_of(given, "axes");
    bool keep = is_true(given, "keep");
    if (!strcmp(name, "reduce_sum")) return kn_sum(x, axes, keep);
    if (!strcmp(name, "reduce_mean")) return kn_mean(x, axes, keep);
    return !strcmp(name, "reduce_max") ? kn_reduce_max(x, axes, keep) : kn_reduce_min(x, axes, keep);
}

static kn_value *build(const kn_json *sample, kn_graph *graph, kn_value **in, int count) {
    const char *name = text_of(sample, "operator");
    const kn_json *given = member(sample, "attributes");
    if (kn_json_member(given, "words"))
        return kn_apply(graph, name, in, (size_t)count, text_of(given, "words"));
    if (!strcmp(name, "einsum")) return kn_einsum(text_of(given, "equation"), in, (size_t)count);
    if (!strncmp(name, "reduce_", 7)) return reductions(name, in[0], given);
    if (!strcmp(name, "gelu"))
        return !strcmp(text_of(given, "approximate"), "tanh") ? kn_gelu_tanh(in[0]) : kn_gelu(in[0]);
    if (!strcmp(name, "leaky_relu")) return kn_leaky_relu(in[0], number_of(given, "slope"));
    if (!strcmp(name, "elu")) return kn_elu(in[0], number_of(given, "alpha"));
    if (!strcmp(name, "clip")) return kn_clip(in[0], number_of(given, "low"), number_of(given, "high"));
    if (!strcmp(name, "cast")) return apply(graph, "cast", in, 1, "dtype=%s", text_of(given, "to"));
    if (!strcmp(name, "softmax")) return kn_softmax(in[0], (int)number_of(given, "axis"));
    if (!strcmp(name, "log_softmax")) return kn_log_softmax(in[0], (int)number_of(given, "axis"));
    if (!strcmp(name, "linear")) {
        kn_value *product = kn_matmul(in[0], in[1], false, true);
        return count == 3 ? kn_add(product, in[2]) : product;
    }
    if (!strcmp(name, "matmul"))
        return kn_matmul(in[0], in[1], is_true(given, "transpose_a"), is_true(given, "transpose_b"));
    if (!strcmp(name, "conv2d")) return convolution(in, count, given);
    if (!strcmp(name, "global_avg_pool")) return kn_global_average_pool(in[0]);
    if (!strcmp(name, "batch_norm"))
        return apply(graph, "batch_norm", in, count, "momentum=%s epsilon=%s", text_of(given, "momentum"),
                     text_of(given, "eps"));
    if (!strcmp(name, "mse") || !strcmp(name, "bce_with_logits") || !strcmp(name, "huber"))
        return losses(name, in, given);
    if (!strcmp(name, "concat")) return kn_concat(in, (size_t)count, (int)number_of(given, "axis"));
    if (!strcmp(name, "slice")) return slices(in[0], given);
    if (!strcmp(name, "pad")) {
        char amounts[128];
        snprintf(amounts, sizeof amounts, "%s,%s", list_of(given, "before"), list_of(given, "after"));
        return kn_pad(in[0], amounts, number_of(given, "value"));
    }
    if (!strcmp(name, "transpose")) return kn_transpose(in[0], list_of(given, "order"));
    if (!strcmp(name, "reshape")) return kn_reshape(in[0], list_of(given, "shape"));
    if (!strcmp(name, "expand")) return kn_broadcast(in[0], list_of(given, "shape"));
    kn_value *layer = golden_layer(name, given, in, count);
    return layer ? layer
                 : kn_apply(graph, name, in, (size_t)count,
                            NULL); /* the names are the same, and there are no attributes */
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* 1e-10 of the largest element of the tensor: only the order of sums may differ. But the file was computed
 * with 1/6 as a float32 in the hard activations. */
static void compare(const char *name, const char *what, const kn_json *expected, const double *actual,
                    int64_t count) {
    double largest = 1e-3, share = !strncmp(name, "hard_", 5) ? 1e-7 : 1e-10;
    int64_t i = 0;
    for (const kn_json *item = expected->first; item; item = item->next)
        largest = fmax(largest, fabs(item->number));
    for (const kn_json *item = expected->first; item; item = item->next, i++)
        if (i < count && !(fabs(actual[i] - item->number) <= share * largest))
            fail_msg("%s, %s, element %d: %.17g; expected %.17g", name, what, (int)i, actual[i],
                     item->number);
    if (i != count) fail_msg("%s, %s: %d elements; expected %d", name, what, (int)count, (int)i);
}

static const kn_json *gradient_by(const kn_json *sample, const char *input) {
    for (const kn_json *entry = member(sample, "gradients")->first; entry; entry = entry->next)
        if (!strcmp(text_of(entry, "input"), input)) return member(entry, "values");
    return NULL;
}

enum { MAX_INPUTS = 24 };

static void run(const kn_json *sample) {
    const char *name = text_of(sample, "name");
    kn_graph *graph = kn_graph_create(NULL), *bound;
    kn_value *in[MAX_INPUTS], *outputs[4], *results[4], *by[MAX_INPUTS], *gradients[MAX_INPUTS];
    const kn_json *expected[MAX_INPUTS];
    host_input given[MAX_INPUTS];
    int count = 0, output_count = 0, wanted = 0;
    for (const kn_json *input = member(sample, "inputs")->first; input; input = input->next) {
        kn_dtype dtype;
        assert_true(count < MAX_INPUTS && kn_dtype_parse(text_of(input, "dtype"), &dtype));
        given[count] = (host_input){text_of(input, "name"), numbers_of_input(sample, input)};
        in[count] = kn_input(graph, given[count].name, dtype, list_of(input, "shape"));
        count++;
    }
    kn_value *first = build(sample, graph, in, count);
    if (kn_value_failed(first)) fail_msg("%s: %s", name, kn_graph_error(graph));
    for (const kn_json *output = member(sample, "outputs")->first; output; output = output->next) {
        assert_true(output_count < 4);
        outputs[output_count++] = first;
    }
    /* With several: running statistics, which are the last of the hidden results. */
    for (int i = 1; i < output_count; i++)
        outputs[i] = first->producer->outputs[first->producer->output_count - output_count + i];
    const kn_json *training = kn_json_member(member(sample, "attributes"), "training");
    kn_bind_request request = {.training = training && training->truth};
    kn_error error = {0};
    if (kn_graph_bind(graph, outputs, (size_t)output_count, &request, &bound, results, &error))
        fail_msg("%s: %s", name, error.text);
    for (int i = 0; i < count; i++) {
        expected[wanted] = gradient_by(sample, given[i].name);
        by[wanted] = kn_graph_find(bound, given[i].name);
        if (expected[wanted] && by[wanted]) wanted++;
    }
    if (wanted) {
        int64_t elements = host_elements(results[0]);
        double *weights = take(elements);
        char stream[64];
        snprintf(stream, sizeof stream, "%s.gradient", text_of(member(sample, "outputs")->first, "name"));
        draw_uniform(text_of(sample, "stream"), stream, -1, 1, elements, weights);
        kn_value *loss = host_loss(bound, results, &weights, 1);
        if (kn_graph_gradient(bound, loss, by, (size_t)wanted, gradients, &error))
            fail_msg("%s: %s", name, error.text);
    }
    host_values values = host_compute(bound, given, count);
    int k = 0;
    for (const kn_json *output = member(sample, "outputs")->first; output; output = output->next, k++) {
        int rank = 0;
        for (const kn_json *item = member(output, "shape")->first; item; item = item->next, rank++)
            assert_int_equal(results[k]->shape.dims[rank], (int64_t)item->number);
        assert_int_equal(results[k]->shape.rank, rank);
        compare(name, text_of(output, "name"), member(output, "values"), values.numbers[results[k]->id],
                host_elements(results[k]));
    }
    for (int i = 0; i < wanted; i++) {
        if (!gradients[i]) fail_msg("%s: no gradient by %s", name, by[i]->name);
        compare(name, by[i]->name, expected[i], values.numbers[gradients[i]->id],
                host_elements(gradients[i]));
    }
    host_release(&values);
    kn_graph_destroy(&bound);
    kn_graph_destroy(&graph);
}

static void golden_operators(void **state) {
    int count = 0;
    for (const kn_json *sample = member(root, "cases")->first; sample; sample = sample->next, count++)
        run(sample);
    assert_true(count >= 238);
}

static int open_file(void **state) {
    uint8_t *bytes;
    uint64_t count;
    kn_json *read = NULL;
    kn_error error = {0};
    host = kn_host_defaults();
    kn_arena_init(&arena, &host);
    if (kn_file_read(&host, path, 1 << 24, &bytes, &count, &error)) {
        print_error("%s\n", error.text);
        return 1;
    }
    kn_status status = kn_json_read(&arena, path, bytes, count, 1 << 24, 32, &read, &error);
    kn_release(&host, bytes);
    if (status) print_error("%s\n", error.text);
    root = read;
    return status != KN_OK;
}

static int close_file(void **state) {
    kn_arena_finish(&arena);
    return 0;
}

int test_golden(const char *file) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_operators)};
    path = file;
    return cmocka_run_group_tests_name("golden operators", tests, open_file, close_file);
}
