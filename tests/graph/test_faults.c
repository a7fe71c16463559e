/* Each allocation fails once: the failure is reported, nothing leaks, nothing is read before it is written.
 */
#include "graph_tests.h"

#include <stdio.h>

/* Builds, binds and lowers a graph; returns the first failure. */
static kn_status whole_way(kn_allocator allocator) {
    kn_graph_params params;
    kn_graph_params_init(&params);
    params.allocator = allocator;
    kn_graph *graph = kn_graph_create(&params);
    if (!graph) return KN_ERROR_MEMORY;
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,(width+1)/2");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "5,4", NULL);
    kn_value *step = kn_state_add(graph, "step", &(kn_shape){.dtype = KN_UINT32}, KN_STATE_CONTROL, NULL);
    kn_value *running =
        kn_state_add(graph, "running", &(kn_shape){.dtype = KN_FLOAT32}, KN_STATE_STATISTIC, NULL);
    kn_scope_begin(graph, "block");
    kn_value *flat = kn_apply(graph, "reshape", &x, 1, "shape=-1,4");
    kn_value *y = kn_apply(graph, "matmul", (kn_value *[]){flat, w}, 2, "transpose=true");
    kn_value *scale = kn_apply(graph, "exp", (kn_value *[]){kn_scalar(graph, 0.5)}, 1, NULL);
    y = kn_apply(graph, "mul", (kn_value *[]){y, scale}, 2, NULL);
    y = kn_apply(graph, "dropout", (kn_value *[]){y, step}, 2, "rate=0.1");
    kn_value *normed = kn_apply(graph, "norm", (kn_value *[]){x, running}, 2, NULL);
    kn_assign(graph, running, kn_result(normed, 1));
    kn_scope_end(graph);
    kn_value *total = kn_apply(graph, "sum", &y, 1, NULL), *rest = kn_apply(graph, "sum", &normed, 1, NULL);
    kn_value *loss = kn_output(kn_apply(graph, "add", (kn_value *[]){total, rest}, 2, NULL), "loss");

    kn_graph *copy = NULL, *bound = NULL;
    kn_value *copied, *bound_loss, *gradient;
    kn_error error = {0};
    kn_binding bindings[] = {{"batch", 6}, {"width", 7}};
    kn_bind_request request = {.bindings = bindings, .binding_count = 2, .training = true};
    kn_status status = kn_graph_copy(graph, &loss, 1, &copy, &copied, &error);
    kn_graph_destroy(&graph);
    if (status == KN_OK) status = kn_graph_bind(copy, &copied, 1, &request, &bound, &bound_loss, &error);
    if (status == KN_OK) {
        kn_value *by = kn_graph_find(bound, "w");
        status = kn_graph_gradient(bound, bound_loss, &by, 1, &gradient, &error);
    }
    if (status == KN_OK) status = kn_graph_fold(bound, &error);
    if (status == KN_OK) {
        kn_host host = bound->host;
        kn_arena arena;
        kn_emitter emitter;
        kn_target target = {.work_group_items = 64};
        kn_text text;
        kn_text_init(&text, &host);
        kn_graph_print(bound, &text);
        if (kn_text_failed(&text)) status = kn_fail_memory(&error, 1);
        kn_text_finish(&text);
        kn_arena_init(&arena, &host);
        kn_emitter_init(&emitter, &arena, &host, &target, &error);
        kn_lowering lowering = {
            .target = &target, .node = bound->nodes[0], .emitter = &emitter, .error = &error};
        for (int i = 0; status == KN_OK && i < 12; i++) {
            kn_step *made = kn_step_begin(&lowering, "a.cl", "a");
            if (made) made->source = "";
            kn_step_define_number(made, "KN_A", 0.5);
            for (int j = 0; j < 20; j++)
                kn_step_int(made, NULL, j);
            kn_step_scratch(made, NULL, kn_emit_scratch(&lowering, 10));
            kn_step_size1(made, 64, 16);
            status = kn_step_end(made, &lowering);
        }
        if (status == KN_OK) status = kn_emit_copy(&lowering, gradient, gradient);
        kn_emitter_finish(&emitter);
        kn_arena_finish(&arena);
    }
    if (status != KN_OK && status != error.status)
        fail_msg("%s, but the text is: %s", kn_status_name(status), error.text);
    if (status != KN_OK && status != KN_ERROR_MEMORY) print_error("%s\n", error.text);
    kn_graph_destroy(&copy);
    kn_graph_destroy(&bound);
    return status;
}

TEST(test_every_allocation) {
    failing allocator = {0};
    assert_int_equal(whole_way(failing_allocator(&allocator)), KN_OK);
    assert_int_equal(allocator.live, 0);
    size_t calls = allocator.calls;
    assert_true(calls > 50);
    for (size_t i = 1; i <= calls; i++) {
        allocator = (failing){.fail_at = i};
        kn_status status = whole_way(failing_allocator(&allocator));
        /* A graph whose message or printed text could not be stored is still correct, so success is allowed
         * there. */
        if (status != KN_ERROR_MEMORY)
            fail_msg("allocation %zu of %zu: %s", i, calls, kn_status_name(status));
        if (allocator.live) fail_msg("allocation %zu: %zu blocks leak", i, allocator.live);
    }
}

/* A mistake is reported with its status or as out of memory, even if its message is cut or lost. */
TEST(test_mistakes_without_memory) {
    for (size_t i = 1;; i++) {
        failing allocator = {.fail_at = i};
        kn_graph_params params;
        kn_graph_params_init(&params);
        params.allocator = failing_allocator(&allocator);
        kn_graph *graph = kn_graph_create(&params);
        if (graph) {
            kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,10"),
                     *y = kn_input(graph, "y", KN_FLOAT32, "n,10");
            kn_apply(graph, "add", (kn_value *[]){x, y}, 2, NULL);
            kn_status status = kn_graph_status(graph);
            assert_true(status == KN_ERROR_SHAPE || status == KN_ERROR_MEMORY);
            assert_true(*kn_graph_error(graph) != '\0');
            kn_graph_destroy(&graph);
        }
        assert_int_equal(allocator.live, 0);
        if (allocator.calls < i) break;
    }
}

TEST(test_expressions_without_memory) {
    size_t failed = 0;
    for (size_t i = 1;; i++) {
        failing allocator = {.fail_at = i};
        kn_host host = {.allocator = failing_allocator(&allocator)};
        kn_arena arena;
        kn_expression *expression;
        kn_error error = {0};
        char text[600] = "x";
        for (int j = 0; j < 50; j++)
            strcat(text, " + (y*x)");
        kn_arena_init(&arena, &host);
        kn_status status = kn_expression_parse(&arena, text, &expression, &error);
        assert_int_equal(status, error.status);
        assert_true(status == KN_OK || status == KN_ERROR_MEMORY);
        if (status != KN_OK) failed++;
        kn_arena_finish(&arena);
        assert_int_equal(allocator.live, 0);
        if (allocator.calls < i) break;
    }
    assert_true(failed > 1);
}

TEST_FILE(test_faults, NULL, NULL)
