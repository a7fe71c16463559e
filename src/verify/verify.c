/* kn_verify: runs the case table on a device. */
#include <stdio.h>
#include <string.h>

#include <koine/version.h>

#include "ops/ops.h"
#include "verify/verify_private.h"

KN_DEFINE_INIT(kn_verify_params, KN_VERIFY_DEFAULTS)

size_t kn_verify_case_count(void) {
    size_t count = 0;
    for (int i = 0; i < kn_operator_table_count; i++)
        count += (size_t)kn_operator_table[i]->case_count;
    return count;
}

static const kn_operator *row_at(size_t position, int *number) {
    for (int i = 0; i < kn_operator_table_count; i++) {
        const size_t cases = (size_t)kn_operator_table[i]->case_count;
        if (position < cases) {
            *number = (int)position;
            return kn_operator_table[i];
        }
        position -= cases;
    }
    return NULL;
}

const char *kn_verify_case_name_at(size_t position) {
    int number = 0;
    const kn_operator *row = row_at(position, &number);
    return row ? row->name : NULL;
}

/* Whether a comma-separated list contains a word; NULL or "" contains all. */
static bool listed(const char *list, const char *word) {
    size_t length = strlen(word);
    if (!list || !*list) return true;
    for (const char *item = list; item; item = strchr(item, ',') ? strchr(item, ',') + 1 : NULL)
        if (!strncmp(item, word, length) && (item[length] == ',' || !item[length])) return true;
    return false;
}

/* Whether `list` (see kn_verify_params.variants) contains a variant; *tile: the tile after its name, or 0. */
static bool lists_variant(const char *list, const char *name, int *tile) {
    char word[64], of_tile[KN_TILE_NAME];
    *tile = 0;
    if (listed(list, name)) return true;
    for (int t = 1; kn_product_tile_name(t, of_tile); t++) {
        snprintf(word, sizeof word, "%s:%s", name, of_tile);
        if (listed(list, word)) *tile = t;
    }
    return *tile != 0;
}

/* At the first thoroughness, each kernel runs one case; from the second on, kernels are chosen as in plans,
 * with one case per operator. */
enum { ONE_PER_KERNEL = 1, CHOSEN_KERNELS = 3 };

static int first_smallest(const kn_operator *row) {
    for (int i = 0; i < row->case_count; i++)
        if (row->cases[i].smallest) return i;
    return 0;
}

static bool is_wanted(const kn_operator *row, int number, int thoroughness) {
    if (thoroughness <= 0 || number == first_smallest(row)) return true;
    return thoroughness < CHOSEN_KERNELS && row->cases[number].smallest;
}

/* Whether each word of a list is the name of an operator. */
static bool all_known(const char *list) {
    for (const char *word = list; word && *word;) {
        size_t length = strcspn(word, ",");
        bool known = length == 0;
        for (int i = 0; i < kn_operator_table_count && !known; i++)
            known = strlen(kn_operator_table[i]->name) == length &&
                    !strncmp(kn_operator_table[i]->name, word, length);
        if (!known) return false;
        word += length + (word[length] == ',');
    }
    return true;
}

typedef struct verify_run {
    kn_context *context;
    kn_verify_params params;
    uint64_t seed;
    int passed, failed;
    kn_status first_failure;
} verify_run;

/* Counts and reports a result. */
static void take_result(verify_run *run, kn_verify_result *result, const kn_error *error) {
    if (result->status == KN_OK)
        run->passed++;
    else {
        result->message = error->text;
        if (run->failed++ == 0) run->first_failure = result->status;
    }
    if (run->params.report) run->params.report(run->params.user, result);
}

static kn_trial_types types_of(const verify_run *run) {
    return (kn_trial_types){.stored = kn_precision_type(run->params.precision),
                            .halves = {~0u, ~0u},
                            .tf32 = run->params.precision == KN_PRECISION_TF32};
}

static void verify_variant(verify_run *run, const kn_operator *row, int number, const char *variant, int tile,
                           bool blocked) {
    kn_error error = {.status = KN_OK};
    kn_verify_result result = {.size = sizeof result, .message = ""};
    char name[128];
    double start = kn_clock();
    snprintf(name, sizeof name, "%s#%d%s%s%s", row->name, number, variant ? " " : "", variant ? variant : "",
             blocked ? " in blocks" : "");
    result.name = name;
    /* Programs of cases that also run at low thoroughness are cached on disk; others are not. */
    const kn_trial_options options = {.variant = variant,
                                      .tile = tile,
                                      .blocked = blocked,
                                      .programs = is_wanted(row, number, 1) ? "file" : "unsaved",
                                      .types = types_of(run),
                                      .seed = run->seed};
    result.status = kn_trial_run(run->context, row, &row->cases[number], &options, &result.error, &error);
    result.seconds = kn_clock() - start;
    take_result(run, &result, &error);
}

/* Whether the device has the element types of a case. */
static bool has_element_types(const kn_context *context, const kn_case *test_case) {
    bool doubles = test_case->attributes && strstr(test_case->attributes, "float64");
    for (int i = 0; i < KN_TRIAL_INPUTS && test_case->inputs[i]; i++)
        doubles = doubles || !strncmp(test_case->inputs[i], "float64", 7);
    return !doubles || kn_context_capabilities(context)->double_precision;
}

/* Whether the device supports the element types of a case, and is fast enough for it. */
static bool suits(const kn_context *context, const kn_case *test_case) {
    return has_element_types(context, test_case) && !(test_case->large && kn_context_is_simulated(context));
}

/* A plain kernel is a fallback. If another variant accepts a case, the plain kernel runs only the smallest
 * cases, unless variants are named. */
static bool is_fallback(const verify_run *run, const kn_operator *row, int number,
                        const kn_variant *variant) {
    if (run->params.variants || strcmp(variant->name, "plain") != 0 || is_wanted(row, number, 1))
        return false;
    for (const kn_variant *other = row->variants; other < variant; other++)
        if (kn_trial_accepts(run->context, row, &row->cases[number], other, false, types_of(run)))
            return true;
    return false;
}

/* Whether the variant accepts the case, and the precision of this run affects it. */
static bool takes(const verify_run *run, const kn_operator *row, int number, const kn_variant *variant,
                  bool blocked) {
    const kn_halves halves = variant->promise.halves;
    const kn_case *test_case = &row->cases[number];
    const kn_trial_types types = types_of(run);
    if (!kn_trial_accepts(run->context, row, test_case, variant, blocked, types)) return false;
    if (types.tf32)
        return !kn_trial_accepts(run->context, row, test_case, variant, blocked, (kn_trial_types){0});
    return run->params.precision == KN_PRECISION_FLOAT32 || halves.inputs || halves.results;
}

/* Whether an earlier case checks this kernel in a run that needs only one. */
static bool is_checked_earlier(const verify_run *run, const kn_operator *row, int number,
                               const kn_variant *variant, bool blocked) {
    if (run->params.thoroughness != ONE_PER_KERNEL) return false;
    for (int i = 0; i < number; i++)
        if (is_wanted(row, i, ONE_PER_KERNEL) && suits(run->context, &row->cases[i]) &&
            takes(run, row, i, variant, blocked))
            return true;
    return false;
}

/* Runs a case with all variants that accept it on the device; pointwise nodes and rows that are replaced have
 * none. */
static void verify_case(verify_run *run, const kn_operator *row, int number) {
    if (!suits(run->context, &row->cases[number])) return;
    if (run->params.thoroughness >= CHOSEN_KERNELS) {
        verify_variant(run, row, number, NULL, 0, false);
        return;
    }
    if (row->class != KN_CLASS_KERNEL || kn_row_is_replaced(row)) {
        if (listed(run->params.variants, "pointwise")) verify_variant(run, row, number, NULL, 0, false);
        return;
    }
    for (int i = 0; i < row->variant_count; i++) {
        const kn_variant *variant = &row->variants[i];
        int tile;
        if (!lists_variant(run->params.variants, variant->name, &tile) ||
            is_fallback(run, row, number, variant))
            continue;
        if (!takes(run, row, number, variant, false)) continue;
        if (!is_checked_earlier(run, row, number, variant, false))
            verify_variant(run, row, number, variant->name, tile, false);
        if (takes(run, row, number, variant, true) && !is_checked_earlier(run, row, number, variant, true))
            verify_variant(run, row, number, variant->name, tile, true);
    }
}

static kn_status begin(verify_run *run, kn_context *context, const kn_verify_params *params) {
    kn_verify_params_init(&run->params);
    kn_status status = KN_PARAMS_TAKE(kn_verify_params, &run->params, params, NULL);
    run->context = context;
    run->seed = run->params.seed ? run->params.seed : 1;
    return status == KN_OK ? kn_context_status(context) : status;
}

static kn_status end(const verify_run *run, int *passed, int *failed) {
    if (passed) *passed = run->passed;
    if (failed) *failed = run->failed;
    return run->failed ? KN_ERROR_MISMATCH : KN_OK;
}

kn_status kn_verify(kn_context *context, const kn_verify_params *params, int *passed, int *failed) {
    verify_run run = {.passed = 0};
    kn_status status = begin(&run, context, params);
    if (status != KN_OK) return status;
    if (!all_known(run.params.operators)) return KN_ERROR_NOT_FOUND;
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        if (!listed(run.params.operators, row->name)) continue;
        if (run.params.begin && row->case_count) run.params.begin(run.params.user, row->name);
        for (int number = 0; number < row->case_count; number++)
            if (is_wanted(row, number, run.params.thoroughness)) verify_case(&run, row, number);
    }
    return end(&run, passed, failed);
}

kn_status kn_verify_case_at(kn_context *context, size_t position, const kn_verify_params *params) {
    verify_run run = {.passed = 0};
    int number = 0;
    const kn_operator *row = row_at(position, &number);
    if (!row) return KN_ERROR_NOT_FOUND;
    kn_status status = begin(&run, context, params);
    if (status != KN_OK) return status;
    if (is_wanted(row, number, run.params.thoroughness)) verify_case(&run, row, number);
    return end(&run, NULL, NULL);
}

/* ---- custom operators -------------------------------------------------------------------------- */

/* Splits "3,7; int32 7" at semicolons into `pieces`, stored in `buffers`; false if there is not enough
 * space. */
static bool split(const char *text, char buffers[KN_TRIAL_INPUTS][64], const char *pieces[KN_TRIAL_INPUTS]) {
    for (int i = 0; text; i++) {
        text += strspn(text, " ");
        size_t length = strcspn(text, ";");
        const char *next = text[length] ? text + length + 1 : NULL;
        while (length > 0 && text[length - 1] == ' ')
            length--;
        if (i == KN_TRIAL_INPUTS || length >= sizeof buffers[i]) return false;
        memcpy(buffers[i], text, length);
        buffers[i][length] = 0;
        pieces[i] = buffers[i];
        text = next;
    }
    return true;
}

static void verify_custom(verify_run *run, const kn_operator *custom, const kn_verify_case *given,
                          size_t number) {
    kn_error error = {.status = KN_OK};
    kn_verify_result result = {.size = sizeof result, .message = ""};
    char name[96], inputs[KN_TRIAL_INPUTS][64], ranges[KN_TRIAL_INPUTS][64];
    kn_case test_case = {.attributes = given->attributes, .no_gradient = given->no_gradient};
    const kn_trial_options options = {.seed = run->seed};
    double start = kn_clock();
    snprintf(name, sizeof name, "%s#%zu", custom->name, number);
    result.name = name;
    if (!given->inputs || !split(given->inputs, inputs, test_case.inputs) ||
        !split(given->ranges, ranges, test_case.ranges))
        result.status =
            kn_fail(&error, KN_ERROR_ARGUMENT,
                    "expected the shapes of at most %d inputs, separated by ';', and at most as many ranges",
                    KN_TRIAL_INPUTS);
    else if (custom->class == KN_CLASS_KERNEL && !custom->reference)
        result.status = kn_fail(&error, KN_ERROR_UNSUPPORTED, "there is no reference to compare with");
    else
        result.status = kn_trial_run(run->context, custom, &test_case, &options, &result.error, &error);
    result.seconds = kn_clock() - start;
    take_result(run, &result, &error);
}

kn_status kn_verify_operator(kn_context *context, const kn_operator *custom, const kn_verify_case *cases,
                             size_t count, const kn_verify_params *params, int *passed, int *failed) {
    verify_run run = {.passed = 0};
    kn_status status = begin(&run, context, params);
    if (status == KN_OK) status = kn_operator_status(custom);
    if (status == KN_OK && !cases) status = KN_ERROR_ARGUMENT;
    if (status != KN_OK) return status;
    for (size_t i = 0; i < count; i++)
        verify_custom(&run, custom, &cases[i], i);
    end(&run, passed, failed);
    return run.first_failure;
}
