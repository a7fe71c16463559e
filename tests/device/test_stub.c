/* Discovery, selection and probing with a driver with faults (stub_icd.c), the only one that is found. */
#include "device/device_private.h"
#include "command/doctor.h"
#include "support.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char messages[8192];

static void remember(void *user, kn_log_level level, const char *message) {
    size_t used = strlen(messages);
    snprintf(messages + used, sizeof messages - used, "%s\n", message);
}

static kn_interrupt interrupt;

static kn_context_params stub_params(const char *device, const char *folder) {
    kn_context_params params;
    kn_context_params_init(&params);
    params.device = device;
    params.cache_folder = folder;
    params.log = (kn_logger){NULL, KN_LOG_INFO, remember};
    params.interrupt = &interrupt;
    messages[0] = '\0';
    return params;
}

static kn_context *open_stub(const char *device, const char *folder) {
    kn_context_params params = stub_params(device, folder);
    kn_context *context = kn_context_create(&params);
    assert_non_null(context);
    if (kn_context_status(context)) fail_msg("%s", kn_context_error(context));
    return context;
}

static const kn_device_info *entry_of(const kn_device_list *list, const char *platform, const char *name) {
    for (size_t i = 0; i < kn_device_list_count(list); i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        if (strcmp(info->platform, platform) == 0 && strcmp(info->name, name) == 0) return info;
    }
    fail_msg("no entry %s / %s", platform, name);
    return NULL;
}

static void unusable_devices_are_explained(void **state) {
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    assert_non_null(list);
    static const struct {
        const char *platform, *name;
        int index, platform_index, device_index;
        const char *problem;
    } expected[] = {
        {"Stub Empty", "", -1, 0, -1, "shows no device"},
        {"Stub Old", "Stub Modern", 0, 1, 0, "supports less than OpenCL 1.2 (platform: OpenCL 1.1"},
        {"Stub Main", "Stub Antique", 1, 2, 0, "less than OpenCL 1.2"},
        {"Stub Main", "Stub Mute", 2, 2, 1, "no compiler"},
        {"Stub Main", "Stub Away", 3, 2, 2, "reports it as unavailable"},
        {"Stub Main", "Stub Liar", 5, 2, 4, ""},
        {"Stub Main", "Stub Honest", 6, 2, 5, ""},
        {"Stub Main", "Stub Broken", 4, 2, 3, ""},
        {"Stub Main", "Stub Pocket", 8, 2, 7,
         "embedded profile without 64-bit integers (cles_khr_int64), rounding to nearest, infinities and "
         "NaN, "
         "1024 bytes of kernel arguments, which Koine needs"},
        {"Stub Main", "Stub Tablet", 9, 2, 8, ""},
    };
    for (size_t i = 0; i < KN_COUNT_OF(expected); i++) {
        const kn_device_info *info = entry_of(list, expected[i].platform, expected[i].name);
        assert_int_equal(info->index, expected[i].index);
        assert_int_equal(info->platform_index, expected[i].platform_index);
        assert_int_equal(info->device_index, expected[i].device_index);
        assert_int_equal(info->usable, expected[i].problem[0] == '\0');
        assert_int_equal(info->embedded, expected[i].index >= 8);
        if (!strstr(info->problem, expected[i].problem))
            fail_msg("%s: \"%s\" does not speak of \"%s\"", info->name, info->problem, expected[i].problem);
    }
    assert_string_equal(entry_of(list, "Stub Main", "Stub Liar")->vendor,
                        "Koine's tests"); /* blanks are cut */
    kn_device_list_destroy(&list);
}

/* Like the driver of Debian 11 on unknown processors. */
static void a_device_that_compiles_nothing_is_refused(void **state) {
    static const char *const names[] = {"Stub Tablet", "Stub Honest"}; /* a processor, a GPU */
    for (size_t i = 0; i < KN_COUNT_OF(names); i++) {
        kn_context_params params = stub_params(names[i], NULL);
        setenv("STUB_COMPILES_NOTHING", "1", 1);
        kn_context *context = kn_context_create(&params);
        unsetenv("STUB_COMPILES_NOTHING");
        assert_non_null(context);
        assert_int_equal(kn_context_status(context), KN_ERROR_COMPILE);
        const char *error = kn_context_error(context);
        if (!strstr(error, names[i]) ||
            !strstr(error, "not compile even the simplest kernel: install a newer driver") ||
            !strstr(error, "unknown type name") || !strstr(error, "intel-opencl-rt") != (i > 0))
            fail_msg("%s", error);
        assert_string_equal(messages, ""); /* no warnings about single features */
        kn_context_destroy(&context);
    }
}

static void unusable_devices_are_refused_with_their_reason(void **state) {
    static const char *const cases[][2] = {{"0", "less than OpenCL 1.2"},
                                           {"antique", "less than OpenCL 1.2"},
                                           {"2:1", "no compiler"},
                                           {"Stub Away", "reports it as unavailable"},
                                           {"empty", "no device"},
                                           {"pocket", "embedded profile without 64-bit integers"},
                                           {"cpus", "no OpenCL device matches \"cpus\""},
                                           {"80", "5: Stub Liar (gpu, Stub Main); 6: Stub Honest"}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_context_params params = stub_params(cases[i][0], NULL);
        kn_context *context = kn_context_create(&params);
        assert_int_equal(kn_context_status(context), KN_ERROR_NO_DEVICE);
        if (!strstr(kn_context_error(context), cases[i][1]))
            fail_msg("\"%s\" does not speak of \"%s\"", kn_context_error(context), cases[i][1]);
        kn_context_destroy(&context);
    }
}

/* All claim doubles; one computes them wrongly and one does not compile them. */
static void claims_are_accepted_after_a_probe(void **state) {
    static const struct {
        const char *name;
        bool right;
        const char *message;
    } cases[] = {
        {"Stub Liar", false, "Stub Liar claims double, which is not used: a probe kernel gave wrong"},
        {"Stub Honest", true, ""},
        {"Stub Broken", false, "unknown type name 'double'"}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_context *context = open_stub(cases[i].name, NULL);
        const kn_capabilities *capabilities = kn_context_capabilities(context);
        assert_true(capabilities->double_claimed);
        assert_int_equal(capabilities->double_precision, cases[i].right);
        assert_false(capabilities->integer_dot_claimed); /* another extension's name begins with it */
        assert_int_equal(capabilities->alignment_bytes, 256);
        assert_false(capabilities->wide_vector);
        assert_int_equal(capabilities->vector_width, 1);
        assert_non_null(strstr(messages, cases[i].message));
        if (cases[i].right) assert_string_equal(messages, "");
        kn_context_destroy(&context);
    }
    /* With trust_claims the claim is accepted. */
    kn_context_params params = stub_params("Stub Liar", NULL);
    params.trust_claims = true;
    kn_context *context = kn_context_create(&params);
    assert_true(kn_context_capabilities(context)->double_precision);
    kn_context_destroy(&context);
}

static void verdicts_are_kept_per_device_and_driver(void **state) {
    char *folder = test_folder_make();
    kn_context *context = open_stub("Stub Liar", folder);
    assert_non_null(strstr(messages, "claims double"));
    kn_context_destroy(&context);
    context = open_stub("Stub Liar", folder);
    assert_false(kn_context_capabilities(context)->double_precision);
    assert_string_equal(messages, ""); /* known: not tried again */
    kn_context_destroy(&context);
    context = open_stub("Stub Honest", folder);
    assert_true(kn_context_capabilities(context)->double_precision);
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

/* Wide-vector kernels have long loops: a device that gets those wrong does not use these kernels, even on
 * request. */
static void wide_vectors_need_long_loops(void **state) {
    char *folder = test_folder_make();
    for (int turn = 0; turn < 3; turn++) { /* the second time it is remembered; the third it is trusted */
        for (int honest = 0; honest < 2; honest++) {
            kn_context_params params = stub_params(honest ? "Stub Honest" : "Stub Liar", folder);
            kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
            params.debug = &debug;
            debug.kernels = KN_KERNELS_CPU;
            debug.vector_width = 8;
            params.trust_claims = turn == 2;
            kn_context *context = kn_context_create(&params);
            if (kn_context_status(context)) fail_msg("%s", kn_context_error(context));
            bool wide = honest || turn == 2;
            kn_context_counts counts = {.size = sizeof counts};
            assert_int_equal(kn_context_get_counts(context, &counts), KN_OK);
            assert_int_equal(counts.variants_refused, !wide);
            assert_int_equal(kn_context_capabilities(context)->wide_vector, wide);
            assert_int_equal(kn_context_capabilities(context)->vector_width, wide ? 8 : 1);
            assert_int_equal(strstr(messages, "variant wide is not used on Stub Liar: long loops") != NULL,
                             !wide);
            kn_context_destroy(&context);
        }
    }
    test_folder_remove(folder);
}

/* A driver that recompiles to return a binary is measured once, and never asked again. */
static void slow_binaries_are_left_to_the_driver(void **state) {
    char *folder = test_folder_make();
    for (int turn = 0; turn < 2; turn++) {
        kn_context *slow = open_stub("Stub Twice", folder), *quick = open_stub("Stub Broken", folder);
        double seconds = 0;
        assert_false(slow->capabilities.shares_programs);
        assert_true(quick->capabilities.shares_programs);
        assert_true(kn_verdict_get(slow, "binary_seconds", &seconds) && seconds > 0.04);
        kn_context_destroy(&slow);
        kn_context_destroy(&quick);
    }
    /* Without a cache no binary is requested. */
    kn_context *context = open_stub("Stub Twice", NULL);
    assert_false(context->capabilities.shares_programs);
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

/* The largest number of accumulators per work-item whose variables need no private memory decides; the answer
 * is stored. */
static void registers_are_asked_of_the_compiler(void **state) {
    static const struct {
        const char *name;
        int registers;
    } devices[] = {{"Stub Liar", 256},   {"Stub Honest", 128}, {"Stub Twice", 64},
                   {"Stub Broken", 256}, {"Stub Watch", 128},  {"Stub Drawing", 128}};
    for (int i = 0; i < (int)KN_COUNT_OF(devices); i++) {
        char *folder = test_folder_make();
        kn_context *context = open_stub(devices[i].name, folder);
        assert_int_equal(kn_context_item_registers(context), devices[i].registers);
        uint64_t built = context->counts.programs_built;
        assert_int_equal(kn_context_item_registers(context), devices[i].registers);
        kn_context_destroy(&context);
        assert_true(built > 0);
        context = open_stub(devices[i].name, folder);
        built = context->counts.programs_built;
        setenv("STUB_DIES", "build KN_ITEM_N", 1);
        assert_int_equal(kn_context_item_registers(context), devices[i].registers);
        unsetenv("STUB_DIES");
        assert_int_equal(context->counts.programs_built, built);
        assert_int_equal(context->register_option != NULL, i == 3); /* on the second start too */
        kn_context_destroy(&context);
        test_folder_remove(folder);
    }
    kn_context *context = open_stub("Stub Tablet", NULL); /* a CPU is not asked */
    assert_int_equal(kn_context_item_registers(context), 128);
    kn_context_destroy(&context);
}

/* A claimed unit is used after it has computed correctly. The answer is stored. */
static void matrix_units_are_tried(void **state) {
    static const struct {
        const char *name, *message;
        kn_matrix_unit unit;
    } devices[] = {
        {"Stub Honest", "", KN_MATRIX_UNIT_MMA},
        {"Stub Liar", "claims matrix unit mma, which is not used for float16: a probe kernel gave wrong",
         KN_MATRIX_UNIT_NONE},
        {"Stub Broken", "claims matrix unit mma, which is not used for float16: ", KN_MATRIX_UNIT_NONE},
        {"Stub Twice", "", KN_MATRIX_UNIT_NONE},
        /* Their compilers would fail on mma. */
        {"Stub Turing", "", KN_MATRIX_UNIT_MMA8},
        {"Stub Volta", "", KN_MATRIX_UNIT_NONE}};
    for (size_t i = 0; i < KN_COUNT_OF(devices); i++) {
        char *folder = test_folder_make();
        for (int turn = 0; turn < 2; turn++) {
            kn_context *context = open_stub(devices[i].name, folder);
            const uint64_t built = context->counts.programs_built;
            messages[0] = '\0';
            assert_int_equal(kn_context_matrix_unit(context, KN_PRECISION_FLOAT16), devices[i].unit);
            if (turn == 0) {
                assert_non_null(strstr(messages, devices[i].message));
                if (!devices[i].message[0]) assert_string_equal(messages, "");
            }
            assert_int_equal(kn_context_matrix_unit(context, KN_PRECISION_FLOAT16), devices[i].unit);
            if (turn == 1) assert_int_equal(context->counts.programs_built, built);
            assert_int_equal(kn_context_matrix_unit(context, KN_PRECISION_FLOAT32), KN_MATRIX_UNIT_NONE);
            const kn_matrix_unit others =
                devices[i].unit == KN_MATRIX_UNIT_MMA8 ? KN_MATRIX_UNIT_NONE : devices[i].unit;
            if (turn == 0)
                for (kn_precision other = KN_PRECISION_BFLOAT16; other <= KN_PRECISION_TF32; other++)
                    assert_int_equal(kn_context_matrix_unit(context, other), others);
            assert_int_equal(kn_context_matrix_unit_for(context, KN_INT8), others);
            assert_int_equal(kn_context_matrix_unit_for(context, KN_UINT8), KN_MATRIX_UNIT_NONE);
            kn_context_destroy(&context);
        }
        test_folder_remove(folder);
    }
    kn_context_params params = stub_params("Stub Honest", NULL);
    params.matrix_unit = "wmma"; /* no other unit is tried */
    kn_context *context = kn_context_create(&params);
    assert_int_equal(kn_context_matrix_unit(context, KN_PRECISION_BFLOAT16), KN_MATRIX_UNIT_NONE);
    kn_context_destroy(&context);
    params.matrix_unit = "emulated-mfma";
    context = kn_context_create(&params);
    assert_int_equal(kn_context_matrix_unit(context, KN_PRECISION_BFLOAT16), KN_MATRIX_UNIT_MFMA);
    assert_int_equal(kn_context_matrix_unit(context, KN_PRECISION_TF32), KN_MATRIX_UNIT_NONE);
    assert_true(kn_context_emulates_matrix_unit(context));
    kn_context_destroy(&context);
    params.matrix_unit = "emulated-none";
    context = kn_context_create(&params);
    assert_int_equal(kn_context_status(context), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_context_error(context), "'emulated-none'; expected none, mma, "));
    kn_context_destroy(&context);
}

/* What koine doctor prints about them. */
static void the_doctor_names_what_units_multiply(void **state) {
    static const struct {
        const char *device, *unit, *text;
    } cases[] = {{"Stub Honest", NULL,
                  ", and multiplies float16, bfloat16, tf32 and 8-bit integers by the matrix unit mma"},
                 {"Stub Honest", "emulated-mfma",
                  ", and multiplies float16, bfloat16 and 8-bit integers by the matrix unit mfma"},
                 {"Stub Honest", "none", ""},
                 {"Stub Liar", NULL, ""},
                 {"Stub Twice", NULL, ""}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_context_params params = stub_params(cases[i].device, NULL);
        char text[DOCTOR_UNITS];
        params.matrix_unit = cases[i].unit;
        kn_context *context = kn_context_create(&params);
        doctor_units(context, text);
        assert_string_equal(text, cases[i].text);
        kn_context_destroy(&context);
    }
}

/* ---- a driver that ends the process --------------------------------------------------------- */

static void open_and_close(void *params) {
    kn_context *context = kn_context_create(params);
    kn_context_matrix_unit(context, KN_PRECISION_BFLOAT16);
    kn_context_destroy(&context);
}

/* The only key of a device that some process died of, and the seconds until it may be tried again. */
static void read_death(kn_context *context, char key[96], double *seconds) {
    size_t position = 0;
    int deaths = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&context->verdicts.values, &position)) != NULL;) {
        if (strncmp(entry->key, "died/", 5) != 0) continue;
        snprintf(key, 96, "%s", (const char *)entry->key);
        *seconds = *(const double *)entry->value - (double)time(NULL);
        deaths++;
    }
    assert_int_equal(deaths, 1);
}

enum { GPUS = 13 }; /* that the driver shows and that can be used */

/* The second start avoids what killed the first process, reports it, and tries again later: a death while a
 * kernel runs counts more than one while it is compiled. */
static void what_ends_the_process_is_asked_once(void **state) {
    static const struct {
        const char *dies, *device, *name;
    } cases[] = {
        {"build kn_probe_double", "Stub Honest", "probe_double"},
        {"launch kn_probe_double", "Stub Honest", "probe_double"},
        {"build kn_probe_loops", "Stub Honest", "probe_loops"},
        {"launch kn_probe_loops", "Stub Honest", "probe_loops"},
        {"build KN_FRAGMENT 1", "Stub Honest", "matrix_unit/bfloat16"},
        {"launch kn_probe_matrix", "Stub Honest", "matrix_unit/bfloat16"},
        {"build KN_BUILTIN_PURE", "Stub Honest", "short_header"},
        {"launch kn_probe_matmul", "gpu", "matmul_gflops"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        char *folder = test_folder_make(), text[256], key[96] = "";
        const bool measured = strcmp(cases[i].device, "gpu") == 0,
                   ran = strncmp(cases[i].dies, "launch", 6) == 0;
        double seconds = 0;
        setenv("STUB_DIES", cases[i].dies, 1);
        kn_context_params params = stub_params(cases[i].device, folder);
        kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
        params.debug = &debug;
        debug.kernels = strstr(cases[i].name, "loops") ? 1 : 0;
        for (int death = 1; death <= 2; death++) {
            const int hours = death == 1 ? (ran ? 24 : 1) : ran ? 720 : 24;
            /* Several devices may be measured, one of which the next start leaves out. */
            int starts = 0;
            while (test_aborts(open_and_close, &params))
                starts++;
            assert_int_equal(starts, death == 1 && measured ? GPUS : 1);
            messages[0] = '\0';
            kn_context *context = kn_context_create(&params);
            if (kn_context_status(context)) fail_msg("%s: %s", cases[i].dies, kn_context_error(context));
            snprintf(text, sizeof text,
                     "%s: %s is not used for another %d hour%s: ", kn_context_device(context)->name,
                     cases[i].name, hours, hours == 1 ? "" : "s");
            if (!strstr(messages, text)) fail_msg("\"%s\" does not say: %s", messages, text);
            if (!measured)
                assert_int_equal(kn_context_capabilities(context)->double_precision,
                                 strcmp(cases[i].name, "probe_double") != 0);
            assert_false(kn_context_capabilities(context)->wide_vector);
            read_death(context, key, &seconds);
            assert_true(seconds > 3600 * (hours - 0.1) && seconds <= 3600 * hours);
            kn_verdict_put(context, key, (double)time(NULL) - 1); /* the wait is over */
            kn_context_destroy(&context);
        }
        unsetenv("STUB_DIES"); /* a better driver */
        kn_context *context = open_stub("Stub Honest", folder);
        assert_true(kn_context_capabilities(context)->double_precision);
        assert_int_equal(strstr(messages, "is not used") != NULL, measured);
        kn_context_destroy(&context);
        test_folder_remove(folder);
    }
}

/* A message names the operator and the kernel of a refusal (verify/verdicts.c). */
static void refused_kernels_are_named(void **state) {
    char *folder = test_folder_make();
    kn_context *context = open_stub("Stub Honest", folder);
    kn_verdict_put(context, "died/refused/relu/wide/plain/7/1", (double)time(NULL) + 3000);
    kn_context_destroy(&context);
    messages[0] = '\0';
    context = open_stub("Stub Honest", folder);
    if (!strstr(messages, "Stub Honest: relu/wide is not used for another 1 hour: "))
        fail_msg("%s", messages);
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

/* A mark counts when its process has ended, however, and not before; of two keys the newer one counts. */
static void marks_of_running_processes_do_not_count(void **state) {
    char *folder = test_folder_make(), byte = 0;
    int ready[2], status;
    double value;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        kn_context *context = open_stub("Stub Honest", folder);
        kn_attempt outer, inner, done;
        kn_attempt_begin(context, &outer, "outer");
        kn_attempt_begin(context, &done, "done");
        kn_attempt_end(context, &done);
        kn_attempt_begin(context, &inner, "inner");
        if (write(ready[1], &byte, 1) != 1) _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int ended = 0; ended < 2; ended++) {
        if (ended) {
            assert_int_equal(kill(child, SIGKILL), 0);
            assert_int_equal(waitpid(child, &status, 0), child);
        }
        kn_context *context = open_stub("Stub Honest", folder);
        assert_int_equal(kn_verdict_get(context, "inner", &value), ended);
        assert_int_equal(kn_verdict_expect(context, "inner", 1, &value), ended);
        if (ended) assert_true(value == 0);
        assert_false(kn_verdict_get(context, "outer", &value));
        assert_false(kn_verdict_get(context, "done", &value));
        kn_context_destroy(&context);
    }
    /* Results from other sources are trusted. */
    kn_context *context = open_stub("Stub Honest", folder);
    assert_non_null(strstr(messages, "inner is not used"));
    assert_int_equal(kn_context_clear_avoided(context), 1);
    assert_false(kn_verdict_get(context, "inner", &value));
    assert_int_equal(kn_context_clear_avoided(context), 0);
    kn_context_destroy(&context);
    context = open_stub("Stub Honest", folder);
    assert_string_equal(messages, "");
    kn_verdict_put(context, "inner", 5);
    assert_true(kn_verdict_get(context, "inner", &value) && value == 5);
    kn_context_destroy(&context);
    context = open_stub("Stub Honest", folder);
    assert_string_equal(messages, "");
    kn_context_destroy(&context);
    /* A process that ends while it tries nothing, that its user ends, or that precompiles leaves no mark. */
    for (int way = 0; way < 4; way++) {
        child = fork();
        if (child == 0) {
            kn_attempt attempt;
            kn_context_params params = stub_params("Stub Honest", folder);
            params.precompile = way == 3;
            context = kn_context_create(&params);
            kn_attempt_begin(context, &attempt, "tried");
            if (way == 1) kn_attempt_phase(context, true);
            if (way < 2) kn_interrupt_clear(&interrupt);
            if (way == 2) kn_attempt_end(context, &attempt);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        context = open_stub("Stub Honest", folder);
        assert_false(kn_verdict_get(context, "tried", &value));
        kn_context_destroy(&context);
    }
    /* Without a folder, and in one that takes no files, attempts are not noted. */
    context = open_stub("Stub Honest", NULL);
    kn_attempt attempt;
    kn_attempt_begin(context, &attempt, "tried");
    kn_attempt_end(context, &attempt);
    kn_context_destroy(&context);
    close(ready[0]);
    test_folder_remove(folder);
}

/* Drivers of CPUs compile a kernel when it first runs: the user may end a program while it does. */
static void cpus_have_more_time_before_a_kernel_hangs(void **state) {
    static const char *const devices[] = {"Stub Honest", "Stub Tablet"}; /* a GPU and a CPU */
    for (int cpu = 0; cpu < 2; cpu++) {
        char *folder = test_folder_make();
        int status;
        double value;
        pid_t child = fork();
        if (child == 0) {
            kn_attempt attempt;
            kn_context *context = open_stub(devices[cpu], folder);
            kn_attempt_begin(context, &attempt, "late");
            kn_attempt_phase(context, true);
            for (size_t i = 0; i < sizeof interrupt.marks / sizeof *interrupt.marks; i++)
                if (interrupt.marks[i]) interrupt.marks[i] -= (int64_t)30 << 32; /* 30 seconds pass */
            kn_interrupt_clear(&interrupt);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        kn_context *context = open_stub(devices[cpu], folder);
        assert_int_equal(kn_verdict_get(context, "late", &value), !cpu);
        kn_context_destroy(&context);
        test_folder_remove(folder);
    }
}

static void expect_chosen(const char *wanted, const char *folder, const char *name, bool measured) {
    kn_context *context = open_stub(wanted, folder);
    assert_string_equal(kn_context_device(context)->name, name);
    assert_int_equal(strstr(messages, "GFLOP/s") != NULL, measured);
    kn_context_destroy(&context);
}

/* The speed that was measured of a device, or that is now stored of it. */
static double stored_speed(const char *device, const char *folder, double stored) {
    kn_context *context = open_stub(device, folder);
    double speed = -1;
    if (stored > 0) kn_verdict_put(context, "matmul_gflops", stored);
    assert_true(kn_verdict_get(context, "matmul_gflops", &speed));
    kn_context_destroy(&context);
    return speed;
}

/* Stub Broken and Stub Tablet give wrong products. */
static void the_fastest_that_is_right_is_chosen(void **state) {
    char *folder = test_folder_make();
    kn_context *context = open_stub(NULL, folder);
    char chosen[128];
    snprintf(chosen, sizeof chosen, "%s", kn_context_device(context)->name);
    assert_non_null(strstr(messages, "GFLOP/s"));
    kn_context_destroy(&context);
    double speed = stored_speed(chosen, folder, 0);
    assert_true(speed > 0);
    static const char *const others[] = {"Stub Liar", "Stub Honest", "Stub Twice"};
    for (int i = 0; i < 3; i++)
        assert_true(stored_speed(others[i], folder, 0) <= speed);
    assert_true(stored_speed("Stub Broken", folder, 0) == 0 && stored_speed("Stub Tablet", folder, 0) == 0);
    /* The stored measurement decides, not the order; nothing is measured again. */
    stored_speed("Stub Twice", folder, 1e6);
    expect_chosen(NULL, folder, "Stub Twice", false);
    stored_speed("Stub Honest", folder, 1e7);
    static const char *const wanted[] = {NULL, "", "gpu", "stub"};
    for (int i = 0; i < 4; i++)
        expect_chosen(wanted[i], folder, "Stub Honest", false);
    expect_chosen("2:5", folder, "Stub Honest", false);
    /* The only one of its kind: nothing to compare. */
    expect_chosen("accelerator", NULL, "Stub Broken", false);
    expect_chosen("HONEST", NULL, "Stub Honest", false);
    expect_chosen("tenderness", NULL, "Stub Honest", false); /* as part of its version */
    test_folder_remove(folder);
}

static void shared_memory_is_used_unless_it_is_slow(void **state) {
    static const struct {
        const char *name;
        bool shares;
    } cases[] = {{"Stub Phone", true}, {"Stub Superchip", false}, {"Stub Honest", false}};
    char *folder = test_folder_make();
    for (int i = 0; i < 2 * 3; i++) {
        kn_context *context = open_stub(cases[i % 3].name, folder);
        double gain = 0;
        assert_int_equal(kn_context_capabilities(context)->shares_memory, cases[i % 3].shares);
        /* What the driver claims remains known, and only claims are doubted. */
        assert_int_equal(kn_context_device(context)->shares_memory, i % 3 < 2);
        assert_int_equal(strstr(messages, "times slower than plain blocks") != NULL, i % 3 == 1);
        assert_int_equal(kn_verdict_get(context, "plain_memory_gain", &gain), i % 3 < 2);
        /* The second start takes what is stored. */
        if (i % 3 == 0) kn_verdict_put(context, "plain_memory_gain", 1);
        if (i == 4) assert_true(gain == 8);
        if (i == 1) kn_verdict_put(context, "plain_memory_gain", 8);
        kn_context_destroy(&context);
    }
    test_folder_remove(folder);
}

/* Another start measures again, but not those of the next hour. */
static void a_failed_measurement_of_memory_is_repeated_later(void **state) {
    static const struct {
        bool repeats;
        double next_seconds_ago; /* as if it had failed so long before the next start */
    } starts[] = {{true, 60}, {false, 7200}, {true, -7200}, {true, 0}};
    char *folder = test_folder_make();
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        kn_context *context = open_stub("Stub Watch", folder);
        double gain = 0, failed = 0;
        assert_true(kn_context_capabilities(context)->shares_memory);
        assert_false(kn_verdict_get(context, "plain_memory_gain", &gain));
        assert_true(kn_verdict_get(context, "plain_memory_failed", &failed));
        assert_int_equal(fabs(failed - (double)time(NULL)) < 30, starts[i].repeats);
        kn_verdict_put(context, "plain_memory_failed", (double)time(NULL) - starts[i].next_seconds_ago);
        kn_context_destroy(&context);
    }
    test_folder_remove(folder);
}

static void of_two_drivers_the_one_with_the_matrix_unit_is_used(void **state) {
    char *folder = test_folder_make();
    /* The driver without the unit is the faster one. */
    stored_speed("Stub Card One (open)", folder, 1e6);
    kn_context *context = open_stub("card one", folder);
    assert_string_equal(kn_context_device(context)->name, "Stub Card One");
    assert_non_null(strstr(messages, "of its drivers Stub Main and Stub Open, Stub Main is used: it has the "
                                     "matrix unit mma"));
    kn_context_destroy(&context);
    /* The next start opens only that driver. */
    setenv("STUB_DIES", "open Stub Card One (open)", 1);
    context = open_stub("card one", folder);
    unsetenv("STUB_DIES");
    assert_string_equal(kn_context_device(context)->name, "Stub Card One");
    assert_non_null(strstr(messages, "Stub Main is used: it has the matrix unit mma"));
    kn_context_destroy(&context);
    /* Without units, the speed decides. */
    stored_speed("Stub Card Two (open)", folder, 1e6);
    context = open_stub("card two", folder);
    assert_string_equal(kn_context_device(context)->name, "Stub Card Two (open)");
    assert_non_null(strstr(messages, "Stub Open is used: it was faster in a matrix product"));
    kn_context_destroy(&context);
    /* Another GPU is not a driver of this one, even if it has a unit. */
    stored_speed("Stub Card Two (open)", folder, 1e7);
    expect_chosen("stub card", folder, "Stub Card Two (open)", false);
    test_folder_remove(folder);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unusable_devices_are_explained),
        cmocka_unit_test(a_device_that_compiles_nothing_is_refused),
        cmocka_unit_test(unusable_devices_are_refused_with_their_reason),
        cmocka_unit_test(claims_are_accepted_after_a_probe),
        cmocka_unit_test(verdicts_are_kept_per_device_and_driver),
        cmocka_unit_test(wide_vectors_need_long_loops),
        cmocka_unit_test(slow_binaries_are_left_to_the_driver),
        cmocka_unit_test(registers_are_asked_of_the_compiler),
        cmocka_unit_test(matrix_units_are_tried),
        cmocka_unit_test(the_doctor_names_what_units_multiply),
        cmocka_unit_test(what_ends_the_process_is_asked_once),
        cmocka_unit_test(refused_kernels_are_named),
        cmocka_unit_test(marks_of_running_processes_do_not_count),
        cmocka_unit_test(cpus_have_more_time_before_a_kernel_hangs),
        cmocka_unit_test(the_fastest_that_is_right_is_chosen),
        cmocka_unit_test(shared_memory_is_used_unless_it_is_slow),
        cmocka_unit_test(a_failed_measurement_of_memory_is_repeated_later),
        cmocka_unit_test(of_two_drivers_the_one_with_the_matrix_unit_is_used),
    };
    if (count != 2) {
        fprintf(stderr, "the driver's path is the one argument\n");
        return 2;
    }
    /* Every loader accepts a folder of .icd files. */
    char folder[] = "/tmp/koine-icd-XXXXXX", path[64];
    if (!mkdtemp(folder)) return 2;
    snprintf(path, sizeof path, "%s/stub.icd", folder);
    FILE *file = fopen(path, "w");
    if (!file) return 2;
    fprintf(file, "%s\n", arguments[1]);
    fclose(file);
    setenv("OCL_ICD_VENDORS", folder, 1);
    unsetenv("OCL_ICD_FILENAMES");
    setenv("OCL_ICD_PLATFORM_SORT", "none", 1); /* in the driver's order */
    int failed = cmocka_run_group_tests_name("device: a driver with faults", tests, NULL, NULL);
    remove(path);
    remove(folder);
    return failed;
}
