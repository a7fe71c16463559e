/* From nodes to steps: every variant lowers every case of its row, no step is empty, and the number of
 * compute units changes no step. */
#include "ops_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kn_target wide = {.wide_vector = true,
                               .vector_width = 16,
                               .vector_registers = 32,
                               .compute_units = 2,
                               .work_group_items = 4096,
                               .local_bytes = 65536};
static const kn_target many = {.vector_width = 4,
                               .vector_registers = 16,
                               .compute_units = 2,
                               .work_group_items = 256,
                               .local_bytes = 32768};

typedef struct lowered {
    kn_host host;
    kn_arena arena;
    kn_error error;
    kn_emitter emitter;
} lowered;

/* The steps of a node with a variant; the caller frees them with drop. */
static void lower(lowered *on, const kn_node *node, const kn_variant *variant, const kn_target *target) {
    on->host = kn_host_defaults();
    on->error = (kn_error){0};
    kn_arena_init(&on->arena, &on->host);
    kn_emitter_init(&on->emitter, &on->arena, &on->host, target, &on->error);
    kn_lowering lowering = {.target = target,
                            .node = node,
                            .emitter = &on->emitter,
                            .result = node->outputs[0],
                            .error = &on->error};
    kn_status status = kn_variant_lower(variant, &lowering);
    if (status) fail_msg("%s, %s: %s", node->op->name, variant->name, on->error.text);
    const kn_graph *graph = node->outputs[0]->graph;
    if (kn_graph_status(graph)) fail_msg("%s, %s: %s", node->op->name, variant->name, kn_graph_error(graph));
}

static void drop(lowered *on) {
    kn_emitter_finish(&on->emitter);
    kn_arena_finish(&on->arena);
}

/* A bound case; *node is NULL if binding removed it. */
static kn_graph *bind_case(const kn_operator *row, const kn_case *sample, const kn_node **node) {
    kn_graph *graph = kn_graph_create(NULL), *bound = NULL;
    kn_value *inputs[8] = {NULL}, *outputs[KN_MAX_OUTPUTS];
    int count = 0;
    for (; count < 8 && sample->inputs[count]; count++) {
        const char *text = sample->inputs[count], *space = strchr(text, ' ');
        char word[16], name[16];
        kn_dtype dtype = KN_FLOAT32;
        if (!strcmp(text, "-")) continue;
        snprintf(name, sizeof name, "x%d", count);
        snprintf(word, sizeof word, "%.*s", space ? (int)(space - text) : 15, text);
        if (kn_dtype_parse(word, &dtype)) text = space ? space + 1 : "";
        inputs[count] = kn_input(graph, name, dtype, text);
    }
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
    kn_error error = {0};
    if (kn_attributes_parse(graph, row, sample->attributes, attributes, &error))
        fail_msg("%s: %s", row->name, error.text);
    kn_value *first = kn_node_add(graph, row, "case", inputs, count, attributes);
    if (kn_value_failed(first)) fail_msg("%s: %s", row->name, kn_graph_error(graph));
    kn_bind_request request = {.training = sample->training};
    if (kn_graph_bind(graph, &first, 1, &request, &bound, outputs, &error))
        fail_msg("%s: %s", row->name, error.text);
    *node = outputs[0]->producer;
    for (int i = 0; *node && i < (*node)->output_count; i++)
        assert_non_null((*node)->outputs[i]);
    kn_graph_destroy(&graph);
    return bound;
}

static bool suits(const kn_variant *variant, const kn_target *target, const kn_node *node) {
    return !variant->choice.accepts || variant->choice.accepts(target, node);
}

/* The first `count` outputs are empty. */
static bool empty(const kn_node *node, int count) {
    for (int i = 0; i < count; i++)
        if (host_elements(node->outputs[i])) return false;
    return true;
}

static void check_step(const kn_step *step, const kn_node *node, const kn_variant *variant,
                       const kn_target *target) {
    size_t items = 1, all = 1;
    bool slow = !strcmp(variant->name, "plain"); /* only used if the others compute incorrectly */
    if (step->kind != KN_STEP_KERNEL) return;
    for (int d = 0; d < step->dimensions; d++) {
        size_t local = step->local[d] ? step->local[d] : 1; /* 0: the plan chooses */
        items *= local;
        all *= step->global[d];
        if (!step->global[d] || step->global[d] % local)
            fail_msg("%s launches %zu in groups of %zu", node->op->name, step->global[d], step->local[d]);
    }
    if (items > target->work_group_items) fail_msg("%s: a group of %zu", node->op->name, items);
    if (!target->wide_vector && !slow && items < 32 && all >= 64)
        fail_msg("%s: %zu work-items of %s in groups of %zu, which use few of the lanes of a GPU",
                 node->op->name, all, step->kernel, items);
    assert_non_null(step->file);
    assert_non_null(step->kernel);
}

TEST(cases_lower) {
    const kn_target *const targets[] = {&wide, &many};
    int steps = 0;
    for (int i = 0; i < kn_operator_table_count; i++)
        for (int j = 0; j < kn_operator_table[i]->case_count; j++) {
            const kn_operator *row = kn_operator_table[i];
            const kn_node *node;
            kn_graph *bound = bind_case(row, &row->cases[j], &node);
            for (int v = 0; node && node->op == row && v < row->variant_count; v++)
                for (size_t t = 0; t < KN_COUNT_OF(targets); t++) {
                    if (!suits(&row->variants[v], targets[t], node)) continue;
                    lowered on;
                    lower(&on, node, &row->variants[v], targets[t]);
                    /* Hidden outputs of empty results need not be written. */
                    bool nothing = empty(node, node->output_count),
                         unseen = empty(node, node->output_count - row->hidden);
                    if (on.emitter.step_count ? nothing : !unseen)
                        fail_msg("%s case %d, %s: %d steps", row->name, j, row->variants[v].name,
                                 on.emitter.step_count);
                    for (int s = 0; s < on.emitter.step_count; s++)
                        check_step(on.emitter.steps[s], node, &row->variants[v], targets[t]);
                    steps += on.emitter.step_count;
                    drop(&on);
                }
            kn_graph_destroy(&bound);
        }
    assert_true(steps > 200);
}

/* ---- the last variants ------------------------------------------------------------------------- */

/* What the kernel of a step is after the preprocessor; the caller frees it. */
static char *preprocessed(const kn_step *step, const char *folder) {
    char path[4096], command[8192];
    test_path(path, sizeof path, folder, "kernel.i");
    snprintf(command, sizeof command, PREPROCESSOR " -E -P -x c -I '" KERNEL_FOLDER "' -o '%s' -", path);
    FILE *input = popen(command, "w");
    assert_non_null(input);
    fprintf(input, "%s\n#define KN_ONLY 1\n#define KN_ONLY_%s 1\n#include \"%s\"\n", step->prelude,
            step->kernel, step->file);
    assert_int_equal(pclose(input), 0);
    enum { ROOM = 1 << 18 };
    char *text = calloc(1, ROOM);
    FILE *file = fopen(path, "rb");
    assert_true(text && file);
    size_t length = fread(text, 1, ROOM - 1, file);
    assert_true(length > 0 && length < ROOM - 1);
    fclose(file);
    return text;
}

/* Whether a text declares an array in local memory. */
static bool has_local_array(const char *text) {
    static const char word[] = "local";
    for (const char *at = text; (at = strstr(at, word)); at++) {
        bool whole = (at == text || strchr(" \t\n({;,", at[-1])) && strchr(" \t\n", at[sizeof word - 1]);
        if (whole && at[strcspn(at, ";=),{[")] == '[') return true;
    }
    return false;
}

typedef struct programs_seen {
    uint64_t hashes[2000]; /* of kernel and prelude */
    size_t count;
} programs_seen;

static bool is_new(programs_seen *seen, const kn_step *step) {
    const uint64_t hash = kn_hash_text(kn_hash_text(KN_HASH_START, step->kernel), step->prelude);
    for (size_t i = 0; i < seen->count; i++)
        if (seen->hashes[i] == hash) return false;
    assert_true(seen->count < KN_COUNT_OF(seen->hashes));
    seen->hashes[seen->count++] = hash;
    return true;
}

static void check_plain(const lowered *on, const char *name, const char *folder, programs_seen *seen) {
    for (int i = 0; i < on->emitter.step_count; i++) {
        const kn_step *step = on->emitter.steps[i];
        if (step->kind != KN_STEP_KERNEL || !is_new(seen, step)) continue;
        char *text = preprocessed(step, folder);
        if (strstr(text, "barrier(") || strstr(text, "sub_group") || has_local_array(text))
            fail_msg("%s: %s of %s shares work among work-items", name, step->kernel, step->file);
        free(text);
    }
}

/* The last variant of a row replaces others that fail: it has no barrier, no local memory and no sub-groups.
 */
TEST(last_variants_are_plain) {
    static programs_seen seen;
    char *folder = test_folder_make();
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        if (!row->variant_count) continue;
        const kn_variant *last = &row->variants[row->variant_count - 1];
        for (int j = 0; j < row->case_count; j++) {
            const kn_node *node;
            if (!row->cases[j].smallest) continue;
            kn_graph *bound = bind_case(row, &row->cases[j], &node);
            if (node && node->op == row && suits(last, &many, node)) {
                lowered on;
                lower(&on, node, last, &many);
                check_plain(&on, row->name, folder, &seen);
                drop(&on);
            }
            kn_graph_destroy(&bound);
        }
    }
    assert_true(seen.count > 50);
    test_folder_remove(folder);
}

/* Every row with kernels has a variant for each kind of device. */
TEST(every_device_is_served) {
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        for (int j = 0; j < row->case_count; j++) {
            const kn_node *node;
            kn_graph *bound = bind_case(row, &row->cases[j], &node);
            bool on_wide = false, on_many = false;
            for (int v = 0; node && v < row->variant_count; v++) {
                on_wide = on_wide || suits(&row->variants[v], &wide, node);
                on_many = on_many || suits(&row->variants[v], &many, node);
            }
            if (row->class == KN_CLASS_KERNEL && !kn_row_is_replaced(row) && node && (!on_wide || !on_many))
                fail_msg("%s case %d has no variant for %s", row->name, j,
                         on_wide ? "many threads" : "wide vectors");
            kn_graph_destroy(&bound);
        }
    }
}

static void steps_are_equal(const kn_step *left, const kn_step *right, const char *what) {
    assert_int_equal(left->kind, right->kind);
    if (left->kind != KN_STEP_KERNEL) return;
    if (strcmp(left->prelude, right->prelude) != 0)
        fail_msg("%s: the macros depend on the number of units:\n%s\n%s", what, left->prelude,
                 right->prelude);
    assert_int_equal(left->argument_count, right->argument_count);
}

/* A full reduction is split by its shape: its parts are the same on a device with 64 times the units. */
TEST(units_change_no_bits) {
    static const char *const names[] = {"sum", "mean", "softmax", "cross_entropy", "accuracy", "reduce_max"};
    for (size_t i = 0; i < KN_COUNT_OF(names); i++) {
        const kn_operator *row = kn_operator_find(names[i]);
        assert_non_null(row);
        for (int j = 0; j < row->case_count; j++) {
            const kn_node *node;
            kn_graph *bound = bind_case(row, &row->cases[j], &node);
            for (int v = 0; v < row->variant_count; v++)
                for (int kind = 0; kind < 2; kind++) {
                    kn_target few = kind ? wide : many, lots = few;
                    lots.compute_units = few.compute_units * 64;
                    if (!suits(&row->variants[v], &few, node)) continue;
                    lowered left, right;
                    lower(&left, node, &row->variants[v], &few);
                    lower(&right, node, &row->variants[v], &lots);
                    assert_int_equal(left.emitter.step_count, right.emitter.step_count);
                    assert_int_equal(left.emitter.scratch_count, right.emitter.scratch_count);
                    for (int s = 0; s < left.emitter.scratch_count; s++)
                        assert_int_equal(left.emitter.scratch_bytes[s], right.emitter.scratch_bytes[s]);
                    for (int s = 0; s < left.emitter.step_count; s++)
                        steps_are_equal(left.emitter.steps[s], right.emitter.steps[s], names[i]);
                    drop(&left);
                    drop(&right);
                }
            kn_graph_destroy(&bound);
        }
    }
}

/* A long reduction is split, so that more than one unit of a large device works. */
TEST(long_reductions_are_split) {
    const kn_operator *row = kn_operator_find("sum");
    static const kn_case long_case = {.inputs = {"1000000"}},
                         wide_case = {.inputs = {"100000,8"}, .attributes = "axes=0"};
    const kn_case *const cases[] = {&long_case, &wide_case};
    for (int i = 0; i < 2; i++)
        for (int v = 0; v < row->variant_count; v++) {
            const kn_node *node;
            kn_graph *bound = bind_case(row, cases[i], &node);
            const kn_target *target = suits(&row->variants[v], &many, node) ? &many : &wide;
            if (!suits(&row->variants[v], target, node)) { /* for blocked images */
                kn_graph_destroy(&bound);
                continue;
            }
            lowered on;
            lower(&on, node, &row->variants[v], target);
            assert_int_equal(on.emitter.step_count, 2);
            assert_int_equal(on.emitter.scratch_count, 1);
            assert_in_range(on.emitter.scratch_bytes[0], 64, 1 << 20);
            drop(&on);
            kn_graph_destroy(&bound);
        }
}

static void check_cost(const kn_step *step, const char *kernel, double flops, double bytes) {
    assert_string_equal(step->kernel, kernel);
    if (step->cost.flops != flops || step->cost.bytes != bytes)
        fail_msg("%s: %g operations and %g bytes, expected %g and %g", kernel, step->cost.flops,
                 step->cost.bytes, flops, bytes);
}

/* The steps of an operator for many threads, by its variant "tiled", and the node's cost. */
static kn_graph *lower_tiled(lowered *on, const char *name, const kn_case *sample, kn_cost *cost) {
    const kn_operator *row = kn_operator_find(name);
    const kn_node *node;
    kn_graph *bound = bind_case(row, sample, &node);
    int v = 0;
    while (strcmp(row->variants[v].name, "tiled") != 0)
        v++;
    lower(on, node, &row->variants[v], &many);
    kn_node_cost(node, cost);
    return bound;
}

/* Steps that only add numbers, before a product or after it, have the cost of that, and the product the
 * node's. */
TEST(sums_of_products_have_their_cost) {
    static const kn_case bytes = {.inputs = {"uint8 6,10", "uint8 10,7", "uint8", "uint8"}},
                         halves = {.inputs = {"float16 3,5000", "float16 5000,8"}};
    lowered on;
    kn_cost cost;
    kn_graph *bound = lower_tiled(&on, "matmul_integer", &bytes, &cost);
    kn_step **steps = on.emitter.steps;
    assert_int_equal(on.emitter.step_count, 3);
    check_cost(steps[0], "kn_line_sums", 60, 60 + 6 * 4);
    check_cost(steps[1], "kn_line_sums", 70, 70 + 7 * 4);
    check_cost(steps[2], "kn_matmul_integer", cost.flops, cost.bytes);
    drop(&on);
    kn_graph_destroy(&bound);

    bound = lower_tiled(&on, "matmul", &halves, &cost);
    steps = on.emitter.steps;
    assert_int_equal(on.emitter.step_count, 2);
    const double read = (double)on.emitter.scratch_bytes[0], parts = read / (24 * 4);
    assert_true(parts > 1);
    check_cost(steps[0], "kn_matmul", cost.flops, cost.bytes);
    check_cost(steps[1], "kn_sum_parts", 24 * (parts - 1), read + 24 * 2);
    drop(&on);
    kn_graph_destroy(&bound);
}

TEST_FILE(test_lowering, NULL, NULL)
