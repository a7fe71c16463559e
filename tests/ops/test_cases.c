/* The operator cases: every row of the operator table, on the selected device, against its reference in
 * double precision, results and gradients, with a pattern around every value in the device's memory.
 *
 *     test-operator-cases [SHARD SHARDS [KERNELS [one | each | all | chosen | VARIANTS [TYPE]]]]
 *
 * runs the cases of each SHARDS-th operator, from number SHARD on: cases of one operator share programs. With
 * `one`, one case for each operator and kernel; with `chosen`, one case for each operator, with the kernels
 * that are chosen for it; with `each`, each SHARDS-th case. KERNELS is which set of them: `probed`, as suits
 * the device, `wide` or `threads`; VARIANTS are only those. TYPE: float16 or bfloat16, in which inputs and
 * results are stored; `either`: every second case in bfloat16, the others in float16, and the other way round
 * with KERNELS `threads`. KOINE_TEST_SEED draws other inputs; a failure names the seed that it had. Where not
 * all cases run, those of an operator are one test.
 */
#include "device/device_private.h"
#include "device_support.h"

#include <koine/verify.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SMALLEST_CASES: of kn_verify_params.thoroughness; all that this device's kernels take, unlike 1. */
enum { NAME_BYTES = 64, SMALLEST_CASES = 2 };

typedef struct one_case {
    int position;
    kn_precision precision; /* of kn_verify_params */
    char name[NAME_BYTES];
} one_case;

static kn_context *context;
static uint64_t seed = 1;
static int kind;             /* of kn_context_params */
static const char *variants; /* of kn_verify_params */
static int thoroughness;     /* of kn_verify_params */

/* A program that calls a function that common/builtins.cl lacks is compiled twice at each start, and some
 * compilers print errors. */
static void expect_short_headers(void) {
    for (size_t i = 0; context->short_header && i < context->programs.used; i++) {
        const kn_map_entry *entry = &context->programs.entries[i];
        const kn_program *program = entry->removed ? NULL : entry->value;
        if (program && program->full_header && !strstr(entry->key, "// language: "))
            fail_msg("%.*s calls a function that is missing in common/builtins.cl", 1000, (char *)entry->key);
    }
}

static void run_case(void **state) {
    let_crashes_end_the_program();
    const one_case *wanted = *state;
    verify_outcome seen = {.right = 0};
    kn_verify_params params;
    kn_verify_params_init(&params);
    params.seed = seed;
    params.user = &seen;
    params.report = take_verify_result;
    params.variants = variants;
    params.precision = wanted->precision;
    params.thoroughness = thoroughness;
    params.operators = wanted->name;
    kn_status status = thoroughness ? kn_verify(context, &params, NULL, NULL)
                                    : kn_verify_case_at(context, wanted->position, &params);
    if (status != KN_OK || seen.failures[0])
        fail_msg("%s (KOINE_TEST_SEED=%llu)%s", kn_status_name(status), (unsigned long long)seed,
                 seen.failures);
    expect_short_headers();
    if (!seen.right) skip_because("a type, size or variant that this device does not have");
}

static int open_device(void **state) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = kind;
    context = device_open(&params);
    return 0;
}

static int close_device(void **state) {
    device_close(&context);
    return 0;
}

/* "matmul#3": the operator and the index of its case; "matmul" if its cases are one test. */
static void name_case(one_case *named, int position) {
    int number = 0;
    named->position = position;
    snprintf(named->name, sizeof named->name, "%s", kn_verify_case_name_at(position));
    if (thoroughness) return;
    while (number < position &&
           !strcmp(kn_verify_case_name_at(position - number - 1), kn_verify_case_name_at(position)))
        number++;
    snprintf(named->name, sizeof named->name, "%s#%d", kn_verify_case_name_at(position), number);
}

/* The number of cases of each operator. */
static void print_counts(int total) {
    for (int first = 0, next; first < total; first = next) {
        for (next = first + 1;
             next < total && !strcmp(kn_verify_case_name_at(next), kn_verify_case_name_at(first));)
            next++;
        print_message("%s%s %d", first ? ", " : "cases: ", kn_verify_case_name_at(first), next - first);
    }
    print_message("; %d in all\n", total);
}

int main(int argc, char **argv) {
    int shard = 0, shards = 1;
    if (argc >= 3) {
        shard = atoi(argv[1]);
        shards = atoi(argv[2]);
    }
    if (argc >= 4) kind = !strcmp(argv[3], "wide") ? 1 : !strcmp(argv[3], "threads") ? 2 : 0;
    const bool each = argc >= 5 && !strcmp(argv[4], "each");
    const bool one = argc >= 5 && !strcmp(argv[4], "one"), chosen = argc >= 5 && !strcmp(argv[4], "chosen");
    thoroughness = test_cases_wanted() == TEST_ALL ? 0 : SMALLEST_CASES;
    if (one) thoroughness = SMALLEST_CASES;
    if (chosen) thoroughness = 3;
    if (argc >= 5 && !each && !one && !chosen && strcmp(argv[4], "all") != 0) variants = argv[4];
    kn_precision precision = KN_PRECISION_FLOAT32;
    const bool either = argc >= 6 && !strcmp(argv[5], "either");
    if (argc >= 6 && !either && !kn_precision_parse(argv[5], &precision)) return 1;
    const char *given = getenv("KOINE_TEST_SEED");
    if (given && *given) seed = strtoull(given, NULL, 0);
    if (shards < 1 || shard < 0 || shard >= shards || !seed) {
        print_error("the shard or KOINE_TEST_SEED makes no sense\n");
        return 1;
    }
    if (!device_is_there()) return 77;
    int total = kn_verify_case_count(), count = 0;
    one_case *cases = calloc((size_t)total + 1, sizeof *cases);
    struct CMUnitTest *tests = calloc((size_t)total + 1, sizeof *tests);
    if (!cases || !tests) return 1;
    if (shard == 0) print_counts(total);
    for (int position = 0, number = 0; position < total; position++) {
        const bool next =
            !position || strcmp(kn_verify_case_name_at(position - 1), kn_verify_case_name_at(position)) != 0;
        number += position && (each || next);
        if (number % shards != shard || (thoroughness && !next)) continue;
        name_case(&cases[count], position);
        if (either)
            precision =
                (position + (kind == KN_KERNELS_GPU)) % 2 ? KN_PRECISION_FLOAT16 : KN_PRECISION_BFLOAT16;
        cases[count].precision = precision;
        tests[count] = (struct CMUnitTest){
            .name = cases[count].name, .test_func = run_case, .initial_state = &cases[count]};
        count++;
    }
    int failed = _cmocka_run_group_tests("operator cases", tests, (size_t)count, open_device, close_device);
    free(tests);
    free(cases);
    return failed != 0 || count == 0;
}
