/* Programs: files with their includes, messages of the compiler, several at once, several threads. */
#include "device/embedded.h"
#include "device_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void put(const char *folder, const char *name, const char *text) {
    char path[512];
    kn_host host = kn_host_defaults();
    assert_int_equal(
        kn_file_write(&host, test_path(path, sizeof path, folder, name), text, strlen(text), NULL), KN_OK);
}

/* A context whose kernels are read from a new folder. */
static kn_context *folder_context(char **folder) {
    *folder = test_folder_make();
    kn_context_params params = test_params();
    params.kernel_folder = *folder;
    params.trust_claims = true; /* the probes' kernels are not in that folder */
    params.device = "0";        /* neither are the measuring kernels */
    return open_context(&params);
}

static void finish_folder(kn_context *context, char *folder) {
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

static kn_status get(kn_context *context, const char *file, const char *prelude, kn_program **program,
                     kn_error *error) {
    kn_program_request request = {.file = file, .prelude = prelude};
    return kn_program_get(context, &request, program, error);
}

static void expect_failure(kn_context *context, const char *file, const char *prelude, kn_status status,
                           const char *part) {
    kn_program *program = NULL;
    kn_error error = {0};
    assert_int_equal(get(context, file, prelude, &program, &error), status);
    assert_null(program);
    if (!strstr(error.text, part)) fail_msg("\"%s\" does not speak of \"%s\"", error.text, part);
}

TEST(a_program_is_compiled_once) {
    kn_context *context = open_context(NULL);
    kn_program *first = NULL, *second = NULL, *other = NULL;
    kn_error error = {0};
    wrapped_reset();
    assert_int_equal(get(context, "probe/matmul.cl", "", &first, &error), KN_OK);
    assert_int_equal(get(context, "probe/matmul.cl", NULL, &second, &error), KN_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(wrapped_calls.sources, 1);
    assert_int_equal(strncmp(wrapped_calls.options, "-cl-std=CL1.2", strlen("-cl-std=CL1.2")), 0);
    assert_int_equal(get(context, "probe/matmul.cl", "#define OTHER 1", &other, &error), KN_OK);
    assert_ptr_not_equal(first, other);
    assert_int_equal(wrapped_calls.sources, 2);
    kn_context_counts counts = {.size = sizeof counts};
    kn_context_get_counts(context, &counts);
    assert_true(counts.programs_built >= 2 && counts.programs_loaded == 0 && counts.compile_seconds > 0);
    kn_context_destroy(&context);
}

TEST(includes_are_read_once) {
    char *folder;
    kn_context *context = folder_context(&folder);
    char path[512];
    mkdir(test_path(path, sizeof path, folder, "common"), 0700);
    put(folder, "common/value.cl",
        "#include \"common/base.cl\"\nint value(void);\nint value(void) { return BASE + ADD; }\n");
    put(folder, "common/base.cl",
        "#include \"common/value.cl\"\n  #  include  \"main.cl\"\nconstant int base = 40;\n#define BASE "
        "base\n");
    put(folder, "main.cl",
        "#include \"common/value.cl\"\n#include \"common/base.cl\" /* again */\n"
        "kernel void answer(global int *y) { y[0] = value(); }"); /* no newline at the end */
    kn_program *program = NULL;
    kn_kernel *kernel = NULL;
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    if (get(context, "main.cl", "#define ADD 2", &program, &error)) fail_msg("%s", error.text);
    assert_int_equal(kn_kernel_create(context, program, "answer", &kernel, &error), KN_OK);
    assert_int_equal(kn_buffer_create(context, 4, &buffer, &error), KN_OK);
    assert_int_equal(kn_kernel_set_buffer(kernel, 0, buffer, &error), KN_OK);
    kn_launch launch = {.dimensions = 1, .global = {1, 1, 1}, .local = {1, 1, 1}};
    kn_event none = {NULL};
    cl_int got = 0;
    assert_int_equal(kn_kernel_launch(context, kernel, &launch, "answer", &error), KN_OK);
    assert_int_equal(kn_queue_read(context, KN_QUEUE_COMPUTE, buffer, 0, &got, 4, true, none, NULL, &error),
                     KN_OK);
    assert_int_equal(got, 42);
    kn_kernel_destroy(&kernel);
    kn_buffer_destroy(&buffer);
    finish_folder(context, folder);
}

TEST(wrong_files_are_named) {
    char *folder;
    kn_context *context = folder_context(&folder);
    put(folder, "lost.cl", "kernel void k(global int *y) { y[0] = 1; }\n\n#include \"nowhere.cl\"\n");
    expect_failure(context, "lost.cl", "", KN_ERROR_FILE, "lost.cl line 3");
    expect_failure(context, "lost.cl", "", KN_ERROR_FILE, "nowhere.cl");
    expect_failure(context, "missing.cl", "", KN_ERROR_FILE, "missing.cl");
    static const char *const outside[] = {"../lost.cl", "/etc/hosts", "", "a/../../b.cl", "a\\b.cl"};
    for (size_t i = 0; i < KN_COUNT_OF(outside); i++)
        expect_failure(context, outside[i], "", KN_ERROR_ARGUMENT, outside[i]);
    put(folder, "escape.cl", "#include \"../../secret.cl\"\n");
    expect_failure(context, "escape.cl", "", KN_ERROR_ARGUMENT, "../../secret.cl");
    for (int i = 0; i < 20; i++) {
        char name[32], text[64];
        snprintf(name, sizeof name, "deep%d.cl", i);
        snprintf(text, sizeof text, "#include \"deep%d.cl\"\n", i + 1);
        put(folder, name, text);
    }
    expect_failure(context, "deep0.cl", "", KN_ERROR_FORMAT, "files deep");
    finish_folder(context, folder);
    context = open_context(NULL);
    expect_failure(context, "probe/matmull.cl", "", KN_ERROR_NOT_FOUND, "did you mean \"probe/matmul.cl\"");
    kn_context_destroy(&context);
}

TEST(the_compilers_message_is_shown) {
    char *folder;
    kn_context *context = folder_context(&folder);
    put(folder, "part.cl",
        "/* a comment */\nint helper(int x);\nint helper(int x) { return x + mistake_here; }\n");
    put(folder, "whole.cl", "#include \"part.cl\"\nkernel void k(global int *y) { y[0] = helper(1); }\n");
    expect_failure(context, "whole.cl", "", KN_ERROR_COMPILE, "whole.cl");
    expect_failure(context, "whole.cl", "", KN_ERROR_COMPILE, "mistake_here");
    expect_failure(context, "whole.cl", "#define mistake_here )\n", KN_ERROR_COMPILE, "whole.cl");
    /* The mistake can be corrected, and other programs are not affected. */
    kn_program *program = NULL;
    kn_error error = {0};
    assert_int_equal(get(context, "whole.cl", "#define mistake_here 2\n", &program, &error), KN_OK);
    put(folder, "part.cl", "int helper(int x);\nint helper(int x) { return x; }\n");
    assert_int_equal(get(context, "whole.cl", "", &program, &error), KN_OK);
    finish_folder(context, folder);
}

/* A skipped #include adds lines that the compiler counts, and a number that it does not read. */
TEST(lines_keep_their_numbers) {
    char *folder;
    kn_context *context = folder_context(&folder);
    kn_source source;
    kn_error error = {0};
    put(folder, "part.cl", "/* one\n * two\n * three */\n");
    put(folder, "skip.cl", "#if 0\n#include \"part.cl\"\n  # else\nint a;\n#endif\nint b;\n#if 0\n#endif\n");
    if (kn_source_file(context, "skip.cl", "", false, &source, &error)) fail_msg("%s", error.text);
    assert_string_equal(source.text.data,
                        "#line 1 \"skip.cl\"\n#if 0\n#line 1 \"part.cl\"\n/* one\n * two\n * three */\n"
                        "#line 3 \"skip.cl\"\n  # else\n#line 4 \"skip.cl\"\nint a;\n#endif\n"
                        "#line 6 \"skip.cl\"\nint b;\n#if 0\n#endif\n#line 9 \"skip.cl\"\n");
    kn_source_finish(&source);
    finish_folder(context, folder);
}

/* Every kernel file compiles with the defaults of its macros. If a device's compiler accepts
 * common/builtins.cl, each file compiles with it, except for a function of a newer language. */
TEST(each_file_compiles_alone) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    kn_context *context = open_context(NULL);
    const kn_capabilities *device = kn_context_capabilities(context);
    int compiled = 0;
    for (unsigned long i = 0; i < kn_embedded_file_count; i++) {
        const char *name = kn_embedded_files[i].name, *prelude = "";
        kn_program *program = NULL;
        kn_error error = {0};
        if (!strcmp(name, "probe/double.cl") && !device->double_precision) continue;
        if (!strcmp(name, "probe/dot.cl") && !device->integer_dot) continue;
        if (!strcmp(name, "probe/dot.cl")) prelude = "// language: CL3.0\n";
        if (!strcmp(name, "common/builtins.cl") && !context->short_header) continue;
        if (get(context, name, prelude, &program, &error)) fail_msg("%s: %s", name, error.text);
        if (program->full_header && strcmp(name, "probe/dot.cl") != 0)
            fail_msg("%s calls a function that is missing in common/builtins.cl", name);
        compiled++;
    }
    assert_true(compiled > 30 && compiled + 3 >= (int)kn_embedded_file_count);
    kn_context_destroy(&context);
}

/* Kernels for wide vectors that take float64 find vectors of doubles in common/builtins.cl, of every width.
 */
TEST(vectors_of_doubles_need_no_whole_header) {
    static const char *const files[] = {"reduce/softmax.cl", "reduce/reduce.cl"};
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    kn_context *context = open_context(NULL);
    const bool doubles = kn_context_capabilities(context)->double_precision;
    for (size_t f = 0; f < KN_COUNT_OF(files) && doubles; f++)
        for (int width = 4; width <= 16; width *= 2) {
            kn_program *program = NULL;
            kn_error error = {0};
            char prelude[128];
            snprintf(prelude, sizeof prelude,
                     "#define KN_T double\n#define KN_A double\n#define KN_R double\n#define KN_WIDTH %d\n",
                     width);
            if (get(context, files[f], prelude, &program, &error)) fail_msg("%s: %s", files[f], error.text);
            if (program->full_header && context->short_header)
                fail_msg("%s, width %d, calls a function that is missing in common/builtins.cl", files[f],
                         width);
        }
    kn_context_destroy(&context);
    if (!doubles) skip_because("the device has no float64");
}

/* Functions that the short list of builtins lacks come from the compiler's header. */
TEST(a_missing_function_is_found_in_the_whole_header) {
    char *folder, path[512];
    kn_context *context = folder_context(&folder);
    kn_program *program = NULL;
    kn_error error = {0};
    mkdir(test_path(path, sizeof path, folder, "common"), 0700);
    put(folder, "common/builtins.cl", "#define SHORT 1\n");
    put(folder, "main.cl",
        "#ifdef SHORT\n#error no such function\n#endif\nkernel void k(global float *y) { y[0] = exp(y[1]); "
        "}\n");
    put(folder, "short.cl",
        "#ifndef SHORT\n#error no such header\n#endif\nkernel void k(global float *y) { y[0] = y[1]; }\n");
    context->short_header = true;
    if (get(context, "main.cl", "", &program, &error)) fail_msg("%s", error.text);
    assert_true(program->full_header);
    if (get(context, "short.cl", "", &program, &error)) fail_msg("%s", error.text);
    assert_false(program->full_header);
    context->short_header = false;
    expect_failure(context, "short.cl", "#define OTHER 1\n", KN_ERROR_COMPILE, "no such header");
    finish_folder(context, folder);
}

static void put_embedded(const char *folder, const char *name, const char *more) {
    char text[1 << 15];
    for (unsigned long i = 0; i < kn_embedded_file_count; i++) {
        if (strcmp(kn_embedded_files[i].name, name) != 0) continue;
        snprintf(text, sizeof text, "%s%s", (const char *)kn_embedded_files[i].bytes, more);
        put(folder, name, text);
        return;
    }
    fail_msg("%s is not embedded", name);
}

/* Where claims are trusted, too: the header is not something that the driver claims. */
TEST(a_short_header_that_computes_wrongly_is_not_used) {
    kn_context *usual = open_context(NULL);
    for (int wrong = 0; wrong < 2; wrong++) {
        char *folder = test_folder_make(), path[512];
        kn_context_params params = test_params();
        mkdir(test_path(path, sizeof path, folder, "common"), 0700);
        mkdir(test_path(path, sizeof path, folder, "probe"), 0700);
        put_embedded(folder, "probe/compiler.cl", "");
        put_embedded(folder, "common/builtins.cl", wrong ? "\n#define floor(x) ceil(x)\n" : "");
        params.kernel_folder = folder;
        params.cache_folder = NULL;
        params.trust_claims = true;
        params.device = "0"; /* the kernel that measures is not in that folder */
        kn_context *context = open_context(&params);
        assert_int_equal(context->short_header, usual->short_header && !wrong);
        finish_folder(context, folder);
    }
    kn_context_destroy(&usual);
}

/* KN_ONLY keeps the named kernels only. */
TEST(only_named_kernels_are_compiled) {
    kn_context *context = open_context(NULL);
    kn_program *program = NULL;
    kn_kernel *kernel = NULL;
    kn_error error = {0};
    if (get(context, "shape/strided.cl", "#define KN_ONLY\n#define KN_ONLY_kn_strided 1\n", &program, &error))
        fail_msg("%s", error.text);
    if (kn_kernel_create(context, program, "kn_strided", &kernel, &error)) fail_msg("%s", error.text);
    kn_kernel_destroy(&kernel);
    assert_int_not_equal(kn_kernel_create(context, program, "kn_strided_rows", &kernel, NULL), KN_OK);
    assert_null(kernel);
    kn_context_destroy(&context);
}

TEST(a_language_can_be_asked_for) {
    kn_context *context = open_context(NULL);
    kn_program *program = NULL;
    kn_error error = {0};
    static const struct {
        const char *line, *options;
        int version;
    } cases[] = {{"// language: CL2.0\n", "-cl-std=CL2.0 -w", 200},
                 {"// language: CL3.0\n", "-cl-std=CL3.0 -w", 300}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        char text[128];
        snprintf(text, sizeof text, "%skernel void k(global int *y) { y[0] = 1; }\n", cases[i].line);
        wrapped_reset();
        kn_status direct = kn_program_get_source(context, "newer.cl", text, &program, &error);
        if (kn_device_speaks(&context->host, &context->found, cases[i].version)) {
            if (direct) fail_msg("%s", error.text);
            assert_string_equal(wrapped_calls.options, cases[i].options);
            assert_int_equal(get(context, "probe/matmul.cl", cases[i].line, &program, &error), KN_OK);
            assert_string_equal(wrapped_calls.options, cases[i].options);
        } else {
            assert_int_equal(direct, KN_ERROR_UNSUPPORTED);
            assert_non_null(strstr(error.text, "newer.cl"));
            assert_int_equal(get(context, "probe/matmul.cl", cases[i].line, &program, &error),
                             KN_ERROR_UNSUPPORTED);
            assert_int_equal(wrapped_calls.builds, 0);
        }
    }
    assert_true(kn_device_speaks(&context->host, &context->found, 120));
    assert_false(kn_device_speaks(&context->host, &context->found, 990));
    /* Anything else in the first line is a comment. */
    wrapped_reset();
    assert_int_equal(kn_program_get_source(context, "odd \"name\"\n",
                                           "// language: CLx\nkernel void k(global int *y) { y[0] = 1; }\n",
                                           &program, &error),
                     KN_OK);
    assert_string_equal(wrapped_calls.options, "-cl-std=CL1.2 -w");
    kn_context_destroy(&context);
}

TEST(warnings_are_shown_where_they_must_be) {
    kn_context *context = open_context(NULL);
    kn_program *program = NULL;
    kn_error error = {0};
    wrapped_reset();
    wrapped_calls.shows_warnings = true;
    kn_status status = kn_program_get_source(
        context, "loud.cl", "kernel void k(global int *y) { y[0] = 1; }\n", &program, &error);
    if (status) fail_msg("%s", error.text);
    assert_string_equal(wrapped_calls.options, "-cl-std=CL1.2");
    assert_int_equal(wrapped_calls.builds, 2);
    wrapped_reset();
    kn_context_destroy(&context);
}

/* ---- threads --------------------------------------------------------------------------- */

enum { THREADS = 4 };

typedef struct request_of {
    kn_context *context;
    const char *source;
    kn_program *program;
    kn_status status;
    kn_error error;
} request_of;

static void ask(void *argument) {
    request_of *request = argument;
    request->status = kn_program_get_source(request->context, "shared.cl", request->source, &request->program,
                                            &request->error);
}

static void ask_all(kn_context *context, const char *source, request_of requests[THREADS]) {
    const kn_host *host = kn_context_host(context);
    kn_thread *threads[THREADS];
    memset(requests, 0, THREADS * sizeof requests[0]);
    for (int i = 0; i < THREADS; i++) {
        requests[i].context = context;
        requests[i].source = source;
        assert_non_null(threads[i] = kn_thread_start(host, ask, &requests[i]));
    }
    for (int i = 0; i < THREADS; i++)
        kn_thread_join(host, &threads[i]);
}

TEST(threads_share_one_compilation) {
    kn_context *context = open_context(NULL);
    request_of requests[THREADS];
    for (int round = 0; round < 3; round++) {
        char source[128];
        snprintf(source, sizeof source, "kernel void k(global int *y) { y[0] = %d; }\n", round);
        wrapped_reset();
        ask_all(context, source, requests);
        assert_int_equal(wrapped_calls.sources, 1);
        assert_int_equal(wrapped_calls.builds, 1);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(requests[i].status, KN_OK);
            assert_non_null(requests[i].program);
            assert_ptr_equal(requests[i].program, requests[0].program);
        }
    }
    ask_all(context, "kernel void k(global int *y) { y[0] = unknown; }\n", requests);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(requests[i].status, KN_ERROR_COMPILE);
        assert_null(requests[i].program);
        assert_non_null(strstr(requests[i].error.text, "unknown"));
    }
    kn_context_destroy(&context);
}

typedef struct seen {
    uint64_t last, total;
    int compiled, reports; /* before, and after */
} seen;

static void note_progress(void *user, const char *label, uint64_t done, uint64_t total) {
    seen *progress = user;
    assert_true(label && label[0]);
    if (!total) {
        progress->compiled++;
        return;
    }
    progress->reports++;
    progress->last = done;
    progress->total = total;
}

TEST(many_are_compiled_at_once) {
    enum { MANY = 5 };
    seen progress = {0};
    kn_context_params params = test_params();
    params.compile_progress = (kn_progress){&progress, note_progress};
    kn_context *context = open_context(&params);
    kn_program_request requests[MANY];
    kn_program *programs[MANY];
    kn_error error = {0};
    char preludes[MANY][32];
    for (int i = 0; i < MANY; i++) {
        snprintf(preludes[i], sizeof preludes[i], "#define NUMBER %d\n", i % 4); /* one is requested twice */
        requests[i] = (kn_program_request){.file = "probe/matmul.cl", .prelude = preludes[i]};
    }
    wrapped_reset();
    progress = (seen){.compiled = 0};
    if (kn_program_get_all(context, requests, MANY, NULL, programs, NULL, &error)) fail_msg("%s", error.text);
    assert_int_equal(wrapped_calls.sources, 4);
    assert_int_equal(progress.compiled, 4);
    assert_int_equal(progress.reports, MANY);
    assert_int_equal(progress.last, MANY);
    assert_int_equal(progress.total, MANY);
    assert_ptr_equal(programs[0], programs[4]);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_ptr_not_equal(programs[i], programs[j]);
    /* A measurement may have decided whether threads help: not on a busy machine, nor with one processor. */
    double gain = 1.0;
    bool measured = kn_verdict_get(context, "compile_threads_gain", &gain);
    assert_true(gain >= 0.9 && gain <= kn_processor_count() + 0.5);
    if (kn_processor_count() < 2 || context->found.simulated) assert_false(measured);
    for (int known = 0; known < 2; known++) {
        kn_verdict_put(context, "compile_threads_gain", known ? 2.0 : 0.5);
        for (int i = 0; i < 4; i++)
            snprintf(preludes[i], sizeof preludes[i], "#define ROUND %d\n", 10 * known + i);
        if (kn_program_get_all(context, requests, 4, NULL, programs, NULL, &error))
            fail_msg("%s", error.text);
        assert_ptr_not_equal(programs[0], programs[3]);
    }
    assert_int_equal(kn_program_get_all(context, requests, 0, NULL, programs, NULL, &error), KN_OK);
    /* The error names the one that fails. */
    requests[2].prelude = "#error stop here\n";
    assert_int_equal(kn_program_get_all(context, requests, MANY, NULL, programs, NULL, &error),
                     KN_ERROR_COMPILE);
    assert_non_null(strstr(error.text, "stop here"));
    kn_context_destroy(&context);
}

TEST_FILE(test_programs, NULL, NULL)
