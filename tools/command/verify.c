/* koine verify: checks that a device computes correctly. */
#include <string.h>

#include "command.h"

typedef struct verify_run {
    const common_options *common;
    int done;
} verify_run;

static void report(void *user, const kn_verify_result *result) {
    verify_run *run = user;
    run->done++;
    if (run->common->json) {
        progress_clear();
        printf("{\"name\": ");
        json_text(stdout, result->name);
        printf(", \"right\": %s, \"error\": ", result->status == KN_OK ? "true" : "false");
        json_measure(stdout, result->error);
        printf(", \"seconds\": ");
        json_measure(stdout, result->seconds);
        printf(", \"message\": ");
        json_text(stdout, result->message);
        printf("}\n");
        fflush(stdout); /* the next case may crash the program */
    } else if (result->status != KN_OK) {
        progress_clear();
        printf("WRONG %s: %s\n", result->name, result->message);
    } else if (run->common->verbose) {
        progress_clear();
        printf("right %s, %.3f of the tolerance, %.3f s\n", result->name, result->error, result->seconds);
    } else
        progress_line("%d checked, now %s", run->done, result->name);
}

static void begin(void *user, const char *name) {
    progress_clear();
    printf(((verify_run *)user)->common->json ? "{\"operator\": \"%s\"}\n" : "checking %s\n", name);
    fflush(stdout);
}

/* The number of cases of each operator; cases of an operator are consecutive. */
static int print_counts(bool json) {
    int total = kn_verify_case_count(), operators = 0;
    for (int first = 0, next; first < total; first = next, operators++) {
        const char *name = kn_verify_case_name_at(first);
        for (next = first + 1; next < total && !strcmp(kn_verify_case_name_at(next), name);)
            next++;
        if (json)
            printf("{\"name\": \"%s\", \"cases\": %d}\n", name, next - first);
        else
            printf("%-26s %3d\n", name, next - first);
    }
    if (!json) printf("%d cases of %d operators\n", total, operators);
    return EXIT_DONE;
}

/* No wanted kernel supports the precision. koine report takes it from the JSON. */
static int fail_precision(const verify_run *run, const char *device) {
    const char *precision = run->common->precision;
    if (!run->common->json)
        return command_fail("%s has none of these kernels for %s; koine doctor names what its matrix unit "
                            "multiplies",
                            device, precision);
    printf("{\"precision\": \"%s\", \"available\": false}\n", precision);
    return EXIT_FAILED;
}

static int run(int count, char **arguments) {
    common_options common = {.device = NULL};
    kn_verify_params params;
    kn_verify_params_init(&params);
    verify_run state = {.common = &common};
    bool smoke = false, quick = false, counts = false, names = false;
    const option options[] = {
        HEADING("cases"),
        {"operators", OPTION_TEXT, "A,B", "only these operators", &params.operators},
        {"variants", OPTION_TEXT, "A,B", "only these kernels", &params.variants},
        {"quick", OPTION_FLAG, NULL, "only one case per operator and kernel", &quick},
        {"smoke", OPTION_FLAG, NULL, "only the smallest cases, for simulators and slow devices", &smoke},
        {"count", OPTION_FLAG, NULL, "print the number of cases of each operator", &counts},
        {"name-operators", OPTION_FLAG, NULL,
         "print the name of each operator before its cases, to find one that crashes", &names},
        {"precision", OPTION_TEXT, "TYPE", "only kernels that support this type: float16, bfloat16 or tf32",
         &common.precision},
        {"seed", OPTION_COUNT, "N", "random seed of the inputs (1)", &params.seed},
        HEADING("device"),
        KERNEL_OPTIONS(common),
        COMMON_OPTIONS(common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status, passed = 0, failed = 0;
    if (!options_read(&command_verify, options, count, arguments, words, &word_count, 0, &status))
        return status;
    if (counts) return print_counts(common.json);
    if ((status = kernel_options_check(&common)) != EXIT_DONE) return status;
    if ((status = math_options_check(&common)) != EXIT_DONE) return status;
    params.precision = common.arithmetic.precision;
    params.thoroughness = smoke ? 2 : quick ? 1 : 0;
    params.user = &state;
    params.report = report;
    if (names) params.begin = begin;
    kn_context *context = context_open(&common);
    if (!context) return EXIT_FAILED;
    kn_status result = kn_verify(context, &params, &passed, &failed);
    progress_clear();
    const char *device = kn_context_device(context)->name;
    status = failed ? EXIT_FAILED : EXIT_DONE;
    if (result == KN_OK && passed + failed == 0 && params.precision)
        status = fail_precision(&state, device);
    else if (result == KN_ERROR_NOT_FOUND || passed + failed == 0)
        status =
            command_fail("no operator or kernel has that name; koine verify --count lists the operators");
    else if (result != KN_OK && result != KN_ERROR_MISMATCH)
        status = command_fail("%s", kn_status_message(result));
    else if (common.json)
        command_info("%s: %d right, %d wrong", device, passed, failed);
    else
        printf("%s: %d right, %d wrong\n", device, passed, failed);
    kn_context_destroy(&context);
    return status;
}

const command command_verify = {
    "verify",
    "check every operator on a device",
    "[--operators A,B] [--OPTION …]",
    "operators variants quick smoke count precision device verbose",
    "koine verify --operators relu,softmax\n"
    "koine verify --operators softmax --quick --verbose\n"
    "koine verify --count",
    "Runs every operator, forward and gradients, with all kernels that the device supports, and compares "
    "the\n"
    "results with a reference in double precision. Without options this takes minutes on a fast device.\n"
    "Attach the output when you report wrong results.",
    run};
