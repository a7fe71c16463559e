/* For mutants.py: lists which programs each operator case compiles, and runs cases with other kernels.
 *
 *     test-mutants list THOROUGHNESS FOLDER [SETTING…]
 *
 * compiles nothing and prints a line per case: setting, case, programs. FOLDER/PROGRAM.cl is the compiler's
 * input.
 *
 *     test-mutants run SETTING KERNELS CASE…
 *
 * runs cases with the kernels in a folder and prints a line per case: status, case, message. It ends after
 * the first that fails. Variants are used without their trials on the device: the cases have to notice a
 * mutant. */
#include <koine/verify.h>

#include "device_support.h"
#include "verify/verify_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wrapping.h"

/* The smallest cases with chosen kernels (which `operator-smoke` runs), and kernels for other devices. */
typedef struct setting {
    const char *name;
    kn_kernels kernels;
    int width;
    const char *matrix_unit;
    kn_precision precision;
} setting;
static const setting settings[] = {
    {"chosen", KN_KERNELS_PROBED},
    {"cpu", KN_KERNELS_CPU, 4},
    {"cpu-amx", KN_KERNELS_CPU, 16, "emulated-amx"},
    {"cpu-amx-bfloat16", KN_KERNELS_CPU, 16, "emulated-amx", KN_PRECISION_BFLOAT16},
    {"cpu-float16", KN_KERNELS_CPU, 8, NULL, KN_PRECISION_FLOAT16},
    {"gpu", KN_KERNELS_GPU},
    {"gpu-mma", KN_KERNELS_GPU, 0, "emulated-mma"},
    {"gpu-mma-bfloat16", KN_KERNELS_GPU, 0, "emulated-mma", KN_PRECISION_BFLOAT16},
    {"gpu-float16", KN_KERNELS_GPU, 0, NULL, KN_PRECISION_FLOAT16},
};
enum { SETTINGS = sizeof settings / sizeof *settings, CHOSEN = 3, WORD = 128 };

static const setting *current;
static const char *listing; /* the folder; NULL: the cases run */
static kn_text programs;    /* of the current case, when listing */
static bool failed;

static void write_program(kn_context *context, const kn_program_request *request) {
    kn_text text, options;
    kn_error error = {KN_OK};
    kn_text_init(&text, kn_context_host(context));
    kn_text_init(&options, kn_context_host(context));
    if (kn_program_write(context, request, &text, &options, &error) != KN_OK) {
        fprintf(stderr, "%s: %s\n", request->file, error.text);
        exit(1);
    }
    char name[32], path[4096];
    snprintf(name, sizeof name, "%016llx", (unsigned long long)kn_hash_text(KN_HASH_START, text.data));
    kn_text_format(&programs, " %s", name);
    snprintf(path, sizeof path, "%s/%s.cl", listing, name);
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text.data, file) < 0 || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    kn_text_finish(&text);
    kn_text_finish(&options);
}

/* ---- instead of the library's functions -------------------------------------------------------- */

WRAPPED(kn_status, kn_program_get_all,
        (kn_context * context, const kn_program_request *requests, size_t count, const kn_progress *progress,
         kn_program **got, size_t *position, kn_error *error)) {
    if (!listing) return __real_kn_program_get_all(context, requests, count, progress, got, position, error);
    for (size_t i = 0; i < count; i++)
        write_program(context, &requests[i]);
    *position = count;
    return kn_fail(error, KN_ERROR_CANCELLED, "only listed");
}

WRAPPED(kn_status, kn_trial_reference, (kn_trial * trial, double *results[], kn_error *error)) {
    if (!listing) return __real_kn_trial_reference(trial, results, error);
    for (int k = 0; k < trial->output_count; k++)
        results[k] = kn_allocate(trial->host, (size_t)kn_trial_result_elements(trial, k) + 1, sizeof(double));
    return KN_OK;
}

bool __wrap_kn_variant_is_right(void *device, const kn_node *node, const kn_variant *variant, int tile);
bool __wrap_kn_variant_is_right(void *device, const kn_node *node, const kn_variant *variant, int tile) {
    return true;
}

bool __wrap_kn_fusion_is_right(void *device, const kn_node *node, const kn_node *producer);
bool __wrap_kn_fusion_is_right(void *device, const kn_node *node, const kn_node *producer) {
    return true;
}

/* ---- cases ------------------------------------------------------------------------------------- */

static void report(void *user, const kn_verify_result *result) {
    if (listing && programs.length) printf("%s\t%s\t%s\n", current->name, result->name, programs.data + 1);
    if (listing)
        kn_text_clear(&programs);
    else if (!failed)
        printf("%s\t%s\t%s\n", kn_status_name(result->status), result->name, result->message);
    failed = failed || result->status != KN_OK;
    fflush(stdout);
}

static kn_context *open_setting(const setting *wanted, const char *kernels) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    current = wanted;
    params.debug = &debug;
    params.trust_claims = true;
    params.matrix_unit = wanted->matrix_unit;
    params.kernel_folder = kernels;
    if (kernels) params.cache_folder = NULL;
    debug.kernels = wanted->kernels;
    debug.vector_width = wanted->width;
    kn_context *context = kn_context_create(&params);
    if (kn_context_status(context) == KN_OK) return context;
    fprintf(stderr, "%s\n", kn_context_error(context));
    exit(kn_context_status(context) == KN_ERROR_NO_DEVICE ? 77 : 1);
}

static kn_verify_params params_of(const setting *wanted, int thoroughness) {
    kn_verify_params params;
    kn_verify_params_init(&params);
    params.precision = wanted->precision;
    params.thoroughness = wanted == settings ? CHOSEN : thoroughness;
    params.report = report;
    return params;
}

/* Whether a setting is among the words; without words all are. */
static bool is_named(const setting *wanted, int count, char **words) {
    for (int i = 0; i < count; i++)
        if (!strcmp(words[i], wanted->name)) return true;
    return count == 0;
}

static void list(int thoroughness, int count, char **words) {
    const kn_host host = kn_host_defaults();
    kn_text_init(&programs, &host);
    for (const setting *wanted = settings; wanted < settings + SETTINGS; wanted++) {
        if (!is_named(wanted, count, words)) continue;
        kn_context *context = open_setting(wanted, NULL);
        const kn_verify_params params = params_of(wanted, thoroughness);
        const kn_status status = kn_verify(context, &params, NULL, NULL);
        if (status != KN_ERROR_MISMATCH) fprintf(stderr, "%s: %s\n", wanted->name, kn_status_name(status));
        kn_context_destroy(&context);
    }
    kn_text_finish(&programs);
}

/* Runs "conv2d#3 tiled", as reported. */
static void run_case(kn_context *context, const char *name) {
    char row[WORD], variant[WORD];
    int number;
    const size_t count = kn_verify_case_count();
    const int words = sscanf(name, "%127[^#]#%d %127s", row, &number, variant);
    kn_verify_params params = params_of(current, 0);
    if (words == 3) params.variants = variant;
    for (size_t i = 0; i < count && words >= 2; i++)
        if (!strcmp(kn_verify_case_name_at(i), row) && number-- == 0) {
            kn_verify_case_at(context, i, &params);
            return;
        }
    fprintf(stderr, "%s is not a case\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    if (argc >= 4 && !strcmp(argv[1], "list")) {
        listing = argv[3];
        list(atoi(argv[2]), argc - 4, argv + 4);
        return 0;
    }
    if (argc < 5 || strcmp(argv[1], "run") != 0) return 2;
    for (const setting *wanted = settings; wanted < settings + SETTINGS; wanted++) {
        if (!is_named(wanted, 1, argv + 2)) continue;
        kn_context *context = open_setting(wanted, argv[3]);
        for (int i = 4; i < argc && !failed; i++)
            run_case(context, argv[i]);
        kn_context_destroy(&context);
        return 0;
    }
    return 2;
}
