/* kn_verify: the case table on a device. */
#include <stdio.h>
#include <string.h>

#include <koine/version.h>

#include "verify/verify_private.h"

void kn_verify_params_init(kn_verify_params *params) {
    if (params) *params = (kn_verify_params)KN_VERIFY_DEFAULTS;
}

int kn_verify_count(void) {
    int count = 0;
    for (int i = 0; i < kn_operator_table_count; i++)
        count += kn_operator_table[i]->case_count;
    return count;
}

static const kn_operator *row_at(int position, int *sample) {
    for (int i = 0; i < kn_operator_table_count; i++) {
        if (position >= 0 && position < kn_operator_table[i]->case_count) {
            *sample = position;
            return kn_operator_table[i];
        }
        position -= kn_operator_table[i]->case_count;
    }
    return NULL;
}

const char *kn_verify_name(int position) {
    int sample = 0;
    const kn_operator *row = row_at(position, &sample);
    return row ? row->name : NULL;
}

/* Whether `list`, words separated by commas, holds a word; an absent list holds all. */
static bool listed(const char *list, const char *word) {
    size_t length = strlen(word);
    if (!list || !*list) return true;
    for (const char *item = list; item; item = strchr(item, ',') ? strchr(item, ',') + 1 : NULL)
        if (!strncmp(item, word, length) && (item[length] == ',' || !item[length])) return true;
    return false;
}

static bool is_wanted(const kn_operator *row, int sample, int thoroughness) {
    if (thoroughness <= 0 || row->cases[sample].smallest) return true;
    bool has_smallest = false;
    for (int i = 0; i < row->case_count; i++)
        has_smallest = has_smallest || row->cases[i].smallest;
    return !has_smallest && sample == 0;
}

/* Whether each word of a list is an operator's. */
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
static void take_result(verify_run *verifying, kn_verify_result *result, const kn_error *error) {
    if (result->status == KN_OK)
        verifying->passed++;
    else {
        result->message = error->text;
        if (verifying->failed++ == 0) verifying->first_failure = result->status;
    }
    if (verifying->params.report) verifying->params.report(verifying->params.user, result);
}

static void verify_variant(verify_run *verifying, const kn_operator *row, int sample, const char *variant,
                           bool blocked) {
    kn_error error = {.status = KN_OK};
    kn_verify_result result = {.message = ""};
    char name[128];
    double start = kn_clock();
    snprintf(name, sizeof name, "%s#%d%s%s%s", row->name, sample, variant ? " " : "", variant ? variant : "",
             blocked ? " in blocks" : "");
    result.name = name;
    /* Shorter runs find the programs that they use in the cache. */
    result.status =
        kn_trial_run(verifying->context, row, &row->cases[sample], variant, blocked,
                     is_wanted(row, sample, 1) ? "file" : "unsaved", verifying->seed, &result.error, &error);
    result.seconds = kn_clock() - start;
    take_result(verifying, &result, &error);
}

/* 64-bit floats are tried where there are some. */
static bool has_types(const kn_context *context, const kn_case *sample) {
    bool doubles = sample->attributes && strstr(sample->attributes, "float64");
    for (int i = 0; i < KN_TRIAL_INPUTS && sample->inputs[i]; i++)
        doubles = doubles || !strncmp(sample->inputs[i], "float64", 7);
    return !doubles || kn_context_capabilities(context)->double_precision;
}

/* All variants of a case that the device takes; nodes without kernels of their own have one way. */
static void verify_case(verify_run *verifying, const kn_operator *row, int sample) {
    if (!has_types(verifying->context, &row->cases[sample])) return;
    if (row->class != KN_CLASS_KERNEL) {
        if (listed(verifying->params.variants, "pointwise"))
            verify_variant(verifying, row, sample, NULL, false);
        return;
    }
    for (int i = 0; i < row->variant_count; i++) {
        const kn_variant *variant = &row->variants[i];
        if (!listed(verifying->params.variants, variant->name)) continue;
        if (!kn_trial_accepts(verifying->context, row, &row->cases[sample], variant, false)) continue;
        if (variant->choice.doubtful &&
            !kn_device_judge.variant_is_right(verifying->context, row, variant, NULL))
            continue;
        verify_variant(verifying, row, sample, variant->name, false);
        if (kn_trial_accepts(verifying->context, row, &row->cases[sample], variant, true))
            verify_variant(verifying, row, sample, variant->name, true);
    }
}

static kn_status begin(verify_run *verifying, kn_context *context, const kn_verify_params *params) {
    kn_verify_params_init(&verifying->params);
    kn_status status = KN_PARAMS_TAKE(kn_verify_params, &verifying->params, params, NULL);
    verifying->context = context;
    verifying->seed = verifying->params.seed ? verifying->params.seed : 1;
    return status == KN_OK ? kn_context_status(context) : status;
}

static kn_status end(const verify_run *verifying, int *passed, int *failed) {
    if (passed) *passed = verifying->passed;
    if (failed) *failed = verifying->failed;
    return verifying->failed ? KN_ERROR_MISMATCH : KN_OK;
}

kn_status kn_verify(kn_context *context, const kn_verify_params *params, int *passed, int *failed) {
    verify_run verifying = {.passed = 0};
    kn_status status = begin(&verifying, context, params);
    if (status != KN_OK) return status;
    if (!all_known(verifying.params.operators)) return KN_ERROR_NOT_FOUND;
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        for (int sample = 0; listed(verifying.params.operators, row->name) && sample < row->case_count;
             sample++)
            if (is_wanted(row, sample, verifying.params.thoroughness)) verify_case(&verifying, row, sample);
    }
    return end(&verifying, passed, failed);
}

kn_status kn_verify_one(kn_context *context, int position, const kn_verify_params *params) {
    verify_run verifying = {.passed = 0};
    int sample = 0;
    const kn_operator *row = row_at(position, &sample);
    if (!row) return KN_ERROR_NOT_FOUND;
    kn_status status = begin(&verifying, context, params);
    if (status != KN_OK) return status;
    if (is_wanted(row, sample, verifying.params.thoroughness)) verify_case(&verifying, row, sample);
    return end(&verifying, NULL, NULL);
}

/* ---- callers' own operators -------------------------------------------------------------------------- */

/* "3,7; int32 7" in pieces, which lie in `room`; false where they do not fit. */
static bool split(const char *text, char room[KN_TRIAL_INPUTS][64], const char *pieces[KN_TRIAL_INPUTS]) {
    for (int i = 0; text; i++) {
        text += strspn(text, " ");
        size_t length = strcspn(text, ";");
        const char *next = text[length] ? text + length + 1 : NULL;
        while (length > 0 && text[length - 1] == ' ')
            length--;
        if (i == KN_TRIAL_INPUTS || length >= sizeof room[i]) return false;
        memcpy(room[i], text, length);
        room[i][length] = 0;
        pieces[i] = room[i];
        text = next;
    }
    return true;
}

static void verify_own(verify_run *verifying, const kn_operator *custom, const kn_verify_case *given,
                       size_t number) {
    kn_error error = {.status = KN_OK};
    kn_verify_result result = {.message = ""};
    char name[96], inputs[KN_TRIAL_INPUTS][64], ranges[KN_TRIAL_INPUTS][64];
    kn_case sample = {.attributes = given->attributes, .no_gradient = given->no_gradient};
    double start = kn_clock();
    snprintf(name, sizeof name, "%s#%zu", custom->name, number);
    result.name = name;
    if (!given->inputs || !split(given->inputs, inputs, sample.inputs) ||
        !split(given->ranges, ranges, sample.ranges))
        result.status =
            kn_fail(&error, KN_ERROR_ARGUMENT,
                    "a case has the shapes of at most %d inputs, separated by ';', and no more ranges",
                    KN_TRIAL_INPUTS);
    else if (custom->class == KN_CLASS_KERNEL && !custom->reference)
        result.status = kn_fail(&error, KN_ERROR_UNSUPPORTED, "it has no reference to be compared with");
    else
        result.status = kn_trial_run(verifying->context, custom, &sample, NULL, false, NULL, verifying->seed,
                                     &result.error, &error);
    result.seconds = kn_clock() - start;
    take_result(verifying, &result, &error);
}

kn_status kn_verify_operator(kn_context *context, const kn_operator *custom, const kn_verify_case *cases,
                             size_t count, const kn_verify_params *params, int *passed, int *failed) {
    verify_run verifying = {.passed = 0};
    kn_status status = begin(&verifying, context, params);
    if (status == KN_OK) status = kn_operator_status(custom);
    if (status == KN_OK && !cases) status = KN_ERROR_ARGUMENT;
    if (status != KN_OK) return status;
    for (size_t i = 0; i < count; i++)
        verify_own(&verifying, custom, &cases[i], i);
    end(&verifying, passed, failed);
    return verifying.first_failure;
}
