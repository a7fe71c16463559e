/* Steps: the parts of a correct step, and the steps that are refused. */
#include <stdio.h>

#include "graph_tests.h"

typedef struct bench {
    kn_host host;
    kn_arena arena;
    kn_target target;
    kn_error error;
    kn_emitter emitter;
    kn_graph *graph;
    kn_value *x, *y;
    kn_lowering lowering;
} bench;

static bench *bench_make(const char *shape) {
    bench *made = test_calloc(1, sizeof *made);
    made->host = kn_host_defaults();
    made->target = (kn_target){.vector_width = 8, .work_group_items = 256, .local_bytes = 32768};
    kn_arena_init(&made->arena, &made->host);
    kn_emitter_init(&made->emitter, &made->arena, &made->host, &made->target, &made->error);
    made->graph = graph_make();
    made->x = kn_input(made->graph, "x", KN_FLOAT32, shape);
    made->y = apply1(made->x, "exp", NULL);
    made->lowering = (kn_lowering){.target = &made->target,
                                   .node = made->y->producer,
                                   .emitter = &made->emitter,
                                   .result = made->y,
                                   .error = &made->error};
    return made;
}

/* A kernel with its source, whose signature is unknown. */
static kn_step *begin_own(bench *b) {
    kn_step *step = kn_step_begin(&b->lowering, "exp.cl", "kn_exp");
    if (step) step->source = "";
    return step;
}

static void bench_release(bench *b) {
    kn_emitter_finish(&b->emitter);
    kn_arena_finish(&b->arena);
    kn_graph_destroy(&b->graph);
    test_free(b);
}

TEST(test_kernel) {
    bench *b = bench_make("5,7");
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    int scratch = kn_emit_scratch(&b->lowering, 100);
    assert_int_equal(kn_emit_scratch(&b->lowering, 200), scratch + 1);
    kn_step *step = begin_own(b);
    kn_step_define(step, "KN_ROWS", "%d", 4);
    kn_step_define(step, "KN_EMPTY", "%s", "");
    kn_step_define_type(step, "KN_T", KN_BFLOAT16);
    kn_step_define_number(step, "KN_SCALE", -0.5);
    kn_step_define(step, "KN_LONG", "%s", long_text);
    kn_step_read(step, NULL, b->x);
    kn_step_write(step, NULL, b->y);
    kn_step_update(step, NULL, b->y);
    kn_step_read(step, NULL, NULL);
    kn_step_scratch(step, NULL, scratch);
    kn_step_int(step, NULL, -3);
    kn_step_index(step, NULL, 35);
    kn_step_float(step, NULL, 0.25);
    kn_step_uint(step, NULL, 4000000000u);
    kn_step_local(step, NULL, 1024);
    for (int i = 0; i < 30; i++)
        kn_step_int(step, NULL, i);
    kn_step_size2(step, 5, 64, 4, 8);
    assert_int_equal(kn_step_end(step, &b->lowering), KN_OK);
    assert_int_equal(b->emitter.step_count, 1);
    assert_ptr_equal(b->emitter.steps[0], step);
    assert_string_equal(step->label, "exp exp1");
    assert_string_equal(step->file, "exp.cl");
    assert_string_equal(step->kernel, "kn_exp");
    const char *start = "#define KN_INDEX int\n#define KN_ROWS 4\n#define KN_EMPTY \n#define KN_T ushort\n"
                        "#define KN_SCALE (-0.5f)\n#define KN_LONG xxx";
    assert_memory_equal(step->prelude, start, strlen(start));
    assert_int_equal(step->prelude[strlen(step->prelude) - 1], '\n');
    assert_int_equal(step->argument_count, 40);
    const kn_argument *arguments = step->arguments;
    assert_true(arguments[0].value == b->x && arguments[0].reads && !arguments[0].writes);
    assert_true(arguments[1].value == b->y && !arguments[1].reads && arguments[1].writes);
    assert_true(arguments[2].reads && arguments[2].writes);
    assert_true(arguments[3].kind == KN_ARGUMENT_VALUE && !arguments[3].value);
    assert_true(arguments[4].kind == KN_ARGUMENT_SCRATCH && arguments[4].integer == scratch);
    assert_true(arguments[5].kind == KN_ARGUMENT_INT && arguments[5].integer == -3);
    assert_true(arguments[6].kind == KN_ARGUMENT_INDEX && arguments[6].integer == 35);
    assert_true(arguments[7].kind == KN_ARGUMENT_FLOAT && arguments[7].number == 0.25);
    assert_true(arguments[8].kind == KN_ARGUMENT_UINT && arguments[8].integer == 4000000000);
    assert_true(arguments[9].kind == KN_ARGUMENT_LOCAL && arguments[9].integer == 1024);
    assert_int_equal(arguments[39].integer, 29);
    assert_int_equal(step->dimensions, 2);
    assert_true(step->global[0] == 8 && step->global[1] == 64 && step->global[2] == 1);
    assert_true(step->local[0] == 4 && step->local[1] == 8 && step->local[2] == 1);
    assert_true(b->emitter.scratch_bytes[0] == 100 && b->emitter.scratch_bytes[1] == 200);
    bench_release(b);
}

TEST(test_others) {
    bench *b = bench_make("5,7");
    assert_int_equal(kn_emit_copy(&b->lowering, b->x, b->y), KN_OK);
    assert_int_equal(kn_emit_fill_zero(&b->lowering, b->y), KN_OK);
    assert_int_equal(b->emitter.step_count, 2);
    const kn_step *copy = b->emitter.steps[0], *fill = b->emitter.steps[1];
    assert_int_equal(copy->kind, KN_STEP_COPY);
    assert_true(copy->arguments[0].value == b->x && copy->arguments[0].reads);
    assert_true(copy->arguments[1].value == b->y && copy->arguments[1].writes);
    assert_int_equal(fill->kind, KN_STEP_FILL);
    assert_int_equal(fill->argument_count, 1);
    const char *const types[] = {"float", "double", "half",   "ushort", "char",  "short", "int",
                                 "long",  "uchar",  "ushort", "uint",   "ulong", "uchar"};
    for (int i = 0; i <= KN_BOOL; i++)
        assert_string_equal(kn_opencl_type((kn_dtype)i), types[i]);
    bench_release(b);
    /* A step without work-items is dropped. */
    b = bench_make("0,7");
    assert_int_equal(kn_emit_copy(&b->lowering, b->x, b->y), KN_OK);
    assert_int_equal(kn_emit_fill_zero(&b->lowering, b->y), KN_OK);
    kn_step *step = begin_own(b);
    kn_step_size3(step, (size_t[]){4, 0, 4}, (size_t[]){4, 1, 1});
    assert_int_equal(kn_step_end(step, &b->lowering), KN_OK);
    assert_int_equal(b->emitter.step_count, 0);
    bench_release(b);
}

TEST(test_wide_indices) {
    bench *b = bench_make("65536,32767");
    for (int wide = 0; wide < 2; wide++) {
        b->target.wide_indices = wide;
        kn_step *step = begin_own(b);
        kn_step_read(step, NULL, b->x);
        kn_step_size1(step, 64, 0);
        kn_status status = kn_step_end(step, &b->lowering);
        if (wide) {
            assert_int_equal(status, KN_OK);
            assert_string_equal(step->prelude, "#define KN_INDEX long\n");
            continue;
        }
        assert_int_equal(status, KN_ERROR_UNSUPPORTED);
        assert_words(b->error.text, "exp exp1: 'x' has 2147418112 elements");
        assert_words(b->error.text, "smaller batch");
    }
    /* Copies have no indices. */
    b->target.wide_indices = false;
    assert_int_equal(kn_emit_copy(&b->lowering, b->x, b->y), KN_OK);
    bench_release(b);
    b = bench_make("65536,32750");
    kn_step *step = begin_own(b);
    kn_step_read(step, NULL, b->x);
    kn_step_size1(step, 64, 0);
    assert_int_equal(kn_step_end(step, &b->lowering), KN_OK);
    bench_release(b);
}

typedef void break_step(kn_step *step);
static void large_int(kn_step *step) {
    kn_step_int(step, NULL, INT64_C(2147483648));
}
static void large_index(kn_step *step) {
    kn_step_index(step, NULL, INT64_C(-2147483649));
}
static void large_group(kn_step *step) {
    kn_step_size2(step, 64, 64, 32, 16);
}
static void large_local(kn_step *step) {
    kn_step_local(step, NULL, 32769);
}
static void no_scratch(kn_step *step) {
    kn_step_scratch(step, NULL, -1);
}
static void long_arguments(kn_step *step) {
    for (int i = 0; i < 127; i++)
        kn_step_read(step, NULL, NULL);
    kn_step_present(step);
    kn_step_int(step, NULL, 1);
    assert_int_equal(kn_step_argument_bytes(step), KN_ARGUMENT_BYTES);
    kn_step_float(step, NULL, 1);
}
static void many_lines(kn_step *step) {
    kn_step_define(step, "KN_A", "%s", "1\n2");
}
static void half_local(kn_step *step) {
    kn_step_size2(step, 64, 64, 16, 0);
}
static void huge_global(kn_step *step) {
    kn_step_size1(step, SIZE_MAX, 16);
}
static void no_size(kn_step *step) {
    step->dimensions = 0;
}

TEST(test_mistakes) {
    const struct {
        break_step *make;
        kn_status status;
        const char *word;
    } cases[] = {
        {large_int, KN_ERROR_UNSUPPORTED, "32 bits"},
        {large_index, KN_ERROR_UNSUPPORTED, "32 bits"},
        {large_group, KN_ERROR_UNSUPPORTED, "512 work-items"},
        {large_local, KN_ERROR_UNSUPPORTED, "32769 bytes"},
        {long_arguments, KN_ERROR_UNSUPPORTED, "1028 bytes of arguments"},
        {no_scratch, KN_ERROR_MEMORY, "memory"},
        {many_lines, KN_ERROR_INTERNAL, "single line"},
        {half_local, KN_ERROR_INTERNAL, "all local sizes or none"},
        {huge_global, KN_ERROR_UNSUPPORTED, "work-items"},
        {no_size, KN_ERROR_INTERNAL, "no global size"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        bench *b = bench_make("5");
        kn_step *step = begin_own(b);
        kn_step_size1(step, 64, 16);
        cases[i].make(step);
        assert_int_equal(kn_step_end(step, &b->lowering), cases[i].status);
        assert_words(b->error.text, cases[i].word);
        assert_words(b->error.text, "exp exp1");
        assert_int_equal(b->emitter.step_count, 0);
        bench_release(b);
    }
}

TEST(test_epilogue) {
    bench *b = bench_make("5,7");
    kn_epilogue epilogue = {
        .macro = "KN_EPILOGUE", .operand = "e", .prelude = "#define KN_EPILOGUE\n", .operand_count = 2};
    epilogue.operands[0].value = b->x;
    epilogue.operands[0].strides[2] = 7;
    epilogue.operands[1].value = b->y;
    kn_step *step = begin_own(b);
    kn_step_write(step, NULL, b->y);
    kn_step_epilogue(step, &b->lowering); /* there is none */
    assert_int_equal(step->argument_count, 1);
    b->lowering.epilogue = &epilogue;
    kn_step_epilogue(step, &b->lowering);
    kn_step_size1(step, 64, 16);
    assert_int_equal(kn_step_end(step, &b->lowering), KN_OK);
    assert_int_equal(step->argument_count, 9);
    assert_ptr_equal(step->arguments[1].value, b->x);
    assert_true(step->arguments[4].kind == KN_ARGUMENT_INDEX && step->arguments[4].integer == 7);
    assert_ptr_equal(step->arguments[5].value, b->y);
    assert_string_equal(
        step->prelude,
        "#define KN_INDEX int\n"
        "#define KN_EPILOGUE_PARAMETERS "
        ", global const float *restrict e0, const KN_INDEX e0_outer, const KN_INDEX e0_middle, "
        "const KN_INDEX e0_inner, global const float *restrict e1, const KN_INDEX e1_outer, "
        "const KN_INDEX e1_middle, const KN_INDEX e1_inner\n"
        "#define KN_EPILOGUE_ARGUMENTS , e0, e0_outer, e0_middle, e0_inner, e1, e1_outer, "
        "e1_middle, e1_inner\n"
        "#define KN_EPILOGUE\n");
    bench_release(b);
}

/* Emits a step with arguments as in signatures: "p:x i:rows g" is memory, an int, and an operand of an
 * epilogue; h is an operand of a producer. */
static kn_status give(bench *b, const char *file, const char *kernel, const char *words) {
    static char names[64][32];
    kn_step *step = kn_step_begin(&b->lowering, file, kernel);
    for (int i = 0; *words; i++) {
        size_t length = strcspn(words, " ");
        const char *name = length > 2 ? names[i] : NULL;
        snprintf(names[i], sizeof names[i], "%.*s", (int)length - 2, words + 2);
        switch (*words) {
        case 'p':
            kn_step_read(step, name, b->x);
            break;
        case 'i':
            kn_step_int(step, name, 1);
            break;
        case 'x':
            kn_step_index(step, name, 1);
            break;
        case 'u':
            kn_step_uint(step, name, 1);
            break;
        case 'f':
            kn_step_float(step, name, 1);
            break;
        case 'l':
            kn_step_local(step, name, 4);
            break;
        default:
            kn_step_generate(step, *words == 'g' ? "KN_EPILOGUE" : "KN_PRODUCER");
            kn_step_read(step, kn_step_name(step, "%c0", *words == 'g' ? 'e' : 'b'), b->x);
            kn_step_generated(step, "restrict");
        }
        words += length + (words[length] == ' ');
    }
    kn_step_size1(step, 64, 16);
    return kn_step_end(step, &b->lowering);
}

TEST(test_arguments) {
    static const char sum[] = "common/sum_parts.cl", rotary[] = "attention/rotary.cl",
                      strided[] = "shape/strided.cl";
    static const struct {
        const char *file, *kernel, *words, *problem; /* NULL: there is no problem */
    } cases[] = {
        {sum, "kn_sum_parts", "p:partials p:result x:elements i:parts x:middle_size x:inner_size", NULL},
        {sum, "kn_sum_parts", "x:inner_size x:middle_size p:result g i:parts x:elements p:partials", NULL},
        {sum, "kn_sum_parts", "p:partials p:result x:elements i:parts x:middle_size x:inner_size g g", NULL},
        {sum, "kn_sum_parts", "p:partials p:result x:elements i:part x:middle_size x:inner_size",
         "the kernel kn_sum_parts of common/sum_parts.cl needs int 'parts', which is not set"},
        {sum, "kn_sum_parts", "p:partials p:result x:elements x:parts x:middle_size x:inner_size",
         "the kernel kn_sum_parts of common/sum_parts.cl needs int 'parts', which is set as KN_INDEX"},
        {sum, "kn_sum_parts", "p:partials p: x:elements i:parts x:middle_size x:inner_size",
         "needs memory 'result', which is not set"},
        {sum, "kn_sum_parts", "p:partials p:result x:elements i:parts x:middle_size x:inner_size i:parts",
         "has no parameter for int 'parts'"},
        {sum, "kn_sum_parts", "p:partials p:result x:elements i:parts x:middle_size",
         "needs KN_INDEX 'inner_size', which is not set"},
        {sum, "kn_sum_parts", "p:partials p:result x:elements i:parts x:middle_size x:inner_size i:more",
         "has no parameter for int 'more'"},
        {sum, "kn_sum_parts", "p:partials p:result x:elements i:parts x:middle_size x:inner_size h",
         "has no parameter for memory 'b0'"},
        {"matmul/tiled.cl", "kn_sum_parts",
         "p:partials p:result x:elements i:parts x:middle_size x:inner_size", NULL},
        {sum, "kn_sum_part", "p:partials", "kernel kn_sum_part not found"},
        /* A macro with two definitions, one of which is empty. */
        {rotary, "kn_rotary",
         "p:x p:y x:items x:length x:heads x:pairs i:interleaved i:inverse f:base f:divisor", NULL},
        {rotary, "kn_rotary",
         "p:x p:y x:items x:length x:heads x:pairs i:interleaved i:inverse f:base f:divisor p:starts "
         "i:starts_row",
         NULL},
        {rotary, "kn_rotary",
         "p:x p:y x:items x:length x:heads x:pairs i:interleaved i:inverse f:base f:divisor p:starts",
         "needs int 'starts_row', which is not set"},
        {rotary, "kn_rotary",
         "p:x p:y x:items x:length x:heads x:pairs i:interleaved i:inverse i:base f:divisor",
         "needs float 'base', which is set as int"},
        /* A macro that takes a number, used once or several times. */
        {strided, "kn_strided",
         "p:in p:out x:in_offset x:out_offset x:count x:size# x:in_stride# x:out_stride#", NULL},
        {strided, "kn_strided",
         "p:in p:out x:in_offset x:out_offset x:count x:size0 x:in_stride0 x:out_stride0 x:size1 "
         "x:in_stride1 x:out_stride1",
         NULL},
        {strided, "kn_strided",
         "p:in p:out x:in_offset x:out_offset x:count x:size# x:size# x:out_stride# x:in_stride#",
         "needs KN_INDEX 'in_stride#', which is not set"},
        {"reduce/reduce.cl", "kn_reduce",
         "p:in p:out x:outputs x:count x:part x:divisor x:kept# x:kept_stride# x:kept#",
         "needs KN_INDEX 'kept_stride1', which is not set"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        bench *b = bench_make("5");
        kn_status status = give(b, cases[i].file, cases[i].kernel, cases[i].words);
        if (status != (cases[i].problem ? KN_ERROR_INTERNAL : KN_OK))
            fail_msg("%s(%s): %s", cases[i].kernel, cases[i].words, b->error.text);
        if (cases[i].problem) assert_words(b->error.text, cases[i].problem);
        bench_release(b);
    }
}

/* Arguments by name: explicit numbers, facts, and the values that the row names. */
TEST(test_by_name) {
    bench *b = bench_make("5,7");
    static const kn_operator named = {.name = "named", .input_names = {"x"}, .output_names = {"y"}};
    kn_node node = *b->y->producer;
    kn_lowering lowering = b->lowering;
    node.op = &named;
    lowering.node = &node;
    kn_step *step = kn_step_begin(&lowering, "reduce/softmax.cl", "kn_softmax");
    KN_STEP_SET(step, {"chunk", 3}, {"inner", 1});
    /* x is memory, columns no parameter, and inner is already set. */
    KN_STEP_BIND(step, {"x", 8}, {"rows", 5}, {"inner", 9}, {"count", 7}, {"columns", 8});
    kn_step_bind_values(step, &lowering);
    kn_step_size1(step, 64, 16);
    assert_int_equal(kn_step_end(step, &lowering), KN_OK);
    static const char *const names[] = {"x", "y", "rows", "count", "inner", "chunk"};
    static const int64_t expected[] = {0, 0, 5, 7, 1, 3};
    assert_int_equal(step->argument_count, 6);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(step->arguments[i].name, names[i]);
        assert_int_equal(step->arguments[i].kind, i < 2 ? KN_ARGUMENT_VALUE : KN_ARGUMENT_INDEX);
        assert_int_equal(step->arguments[i].integer, expected[i]);
    }
    assert_true(step->arguments[0].value == b->x && step->arguments[0].reads && !step->arguments[0].writes);
    assert_true(step->arguments[1].value == b->y && !step->arguments[1].reads && step->arguments[1].writes);
    static const struct {
        const char *file, *kernel;
        kn_number number;
        const char *problem;
    } wrong[] = {{"reduce/softmax.cl",
                  "kn_softmax",
                  {"row", 5},
                  "kn_softmax of reduce/softmax.cl takes no integer 'row'"},
                 {"reduce/softmax.cl", "kn_softmax", {"x", 5}, "takes no integer 'x'"},
                 {"reduce/softmax.cl", "kn_softmax", {"rows", INT64_C(1) << 31}, "does not fit in 32 bits"},
                 {"gather/gather.cl", "kn_gather", {"missing", -1}, "does not fit in 32 bits"},
                 {"gather/gather.cl", "kn_gather", {"missing", INT64_C(1) << 32}, "does not fit in 32 bits"}};
    for (size_t i = 0; i < KN_COUNT_OF(wrong); i++) {
        step = kn_step_begin(&lowering, wrong[i].file, wrong[i].kernel);
        KN_STEP_SET(step, wrong[i].number);
        kn_step_size1(step, 64, 16);
        assert_true(kn_step_end(step, &lowering) != KN_OK);
        assert_words(b->error.text, wrong[i].problem);
    }
    /* A parameter in a macro with two definitions exists only if the host decides so. */
    step = kn_step_begin(&lowering, "attention/rotary.cl", "kn_rotary");
    KN_STEP_BIND(step, {"starts_row", 1}, {"inverse", 1});
    assert_int_equal(step->argument_count, 1);
    KN_STEP_SET(step, {"starts_row", 1});
    assert_int_equal(step->argument_count, 2);
    bench_release(b);
}

TEST_FILE(test_step, NULL, NULL)
