/* Random graphs on the device under test.
 *
 *     test-random-graphs [--seed N] [--count N | --seconds N] [--kinds wide,many] [--first N] [--print]
 *     test-random-graphs --known FILE [--kinds wide,many]
 *
 * Draws graphs of 1 to 12 operators from seed N (default: another one in each run, which is printed), and
 * compares each with a reference in double precision, in one of the modes in turn. A wrong graph is reduced
 * and printed as a text model. --print writes the graphs and computes nothing. --known computes the graphs of
 * a file, each in every mode.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device_support.h"
#include "random_graph.h"

enum { OPERATORS = 12, MODES = 8 };

static struct {
    uint64_t seed;
    int first, count;
    double seconds;
    const char *kinds, *known;
    bool print;
} options = {.count = 100, .kinds = "wide,many"};

static void print_warning(void *user, kn_log_level level, const char *text) {
    print_message("%s\n", text);
}

static kn_context *open_kind(const char *kind) {
    kn_context_params params = device_params();
    params.log = (kn_logger){NULL, KN_LOG_WARNING, print_warning};
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = !strcmp(kind, "wide") ? 1 : 2;
    return device_open(&params);
}

static int make_modes(kn_context *contexts[2], graph_mode modes[MODES]) {
    static const char *const kinds[] = {"wide", "many"};
    int count = 0;
    for (int k = 0; k < 2; k++) {
        if (!strstr(options.kinds, kinds[k])) continue;
        contexts[k] = open_kind(kinds[k]);
        modes[count++] = (graph_mode){contexts[k], kinds[k], false, false, KN_PRECISION_FLOAT32};
        modes[count++] = (graph_mode){contexts[k], kinds[k], false, true, KN_PRECISION_FLOAT32};
        modes[count++] = (graph_mode){contexts[k], kinds[k], true, false, KN_PRECISION_FLOAT32};
        modes[count++] = (graph_mode){contexts[k], kinds[k], false, true, KN_PRECISION_BFLOAT16};
    }
    return count;
}

static void print_mode(const graph_mode *mode) {
    print_message("%s kernels, %s math, %s, %s: ", mode->kind, mode->fast ? "fast" : "exact",
                  mode->training ? "training" : "inference",
                  mode->precision == KN_PRECISION_FLOAT32 ? "float32" : "bfloat16");
}

static void print_wrong(random_graph *graph, const graph_mode *mode, uint64_t number, kn_error *error) {
    char text[GRAPH_TEXT];
    print_message("graph %llu of seed %llu is wrong, ", (unsigned long long)number,
                  (unsigned long long)options.seed);
    print_mode(mode);
    print_message("%s\n", error->text);
    graph_shrink(graph, mode, number, error);
    graph_write(graph, text);
    print_message("reduced: %s\n%s", error->text, text);
    for (int i = 0; i < graph->count; i++)
        if (graph->lines[i].bound) print_message("# v%d is below %d\n", i, graph->lines[i].bound);
}

static void random_graphs(void **state) {
    kn_context *contexts[2] = {NULL, NULL};
    graph_mode modes[MODES];
    const int mode_count = make_modes(contexts, modes);
    const double begin = kn_clock();
    int outcomes[3] = {0};
    uint64_t number = (uint64_t)options.first;
    for (int done = 0; options.seconds > 0 ? kn_clock() - begin < options.seconds : done < options.count;
         done++, number++) {
        random_graph graph;
        kn_error error = {0};
        char text[GRAPH_TEXT];
        const graph_mode *mode = &modes[number % (uint64_t)mode_count];
        graph_draw(&graph, options.seed + number, OPERATORS);
        if (options.print) {
            graph_write(&graph, text);
            print_message("# graph %llu\n%s", (unsigned long long)number, text);
            continue;
        }
        const graph_outcome outcome = graph_outcome_of(&graph, mode, number, &error);
        outcomes[outcome]++;
        if (outcome == GRAPH_WRONG) print_wrong(&graph, mode, number, &error);
        fflush(stdout);
    }
    print_message("seed %llu: %d graphs right, %d wrong, %d undefined, %.0f a minute\n",
                  (unsigned long long)options.seed, outcomes[GRAPH_RIGHT], outcomes[GRAPH_WRONG],
                  outcomes[GRAPH_UNDEFINED],
                  60 * (outcomes[0] + outcomes[1] + outcomes[2]) / (kn_clock() - begin + 1e-9));
    for (int k = 0; k < 2; k++)
        if (contexts[k]) device_close(&contexts[k]);
    assert_int_equal(outcomes[GRAPH_WRONG], 0);
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void known_graphs(void **state) {
    kn_context *contexts[2] = {NULL, NULL};
    graph_mode modes[MODES];
    const int mode_count = make_modes(contexts, modes);
    char *text = read_text(options.known);
    random_graph graph;
    int count = 0, wrong = 0;
    for (const char *at = text; (at = graph_read(&graph, at)); count++)
        for (int m = 0; m < mode_count; m++) {
            kn_error error = {0};
            char own[GRAPH_TEXT];
            graph_write(&graph, own);
            if (!graph_infer(&graph)) fail_msg("this graph is refused:\n%s", own);
            if (graph_check(&graph, &modes[m], 1, &error) == GRAPH_RIGHT) continue;
            print_mode(&modes[m]);
            print_message("%s\n%s", error.text, own);
            wrong++;
        }
    free(text);
    for (int k = 0; k < 2; k++)
        if (contexts[k]) device_close(&contexts[k]);
    assert_true(count > 0);
    assert_int_equal(wrong, 0);
}

int main(int count, char **words) {
    options.seed = (uint64_t)time(NULL);
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : "";
        if (!strcmp(words[i], "--print"))
            options.print = true;
        else if (!strcmp(words[i], "--seed"))
            options.seed = strtoull(value, NULL, 10), i++;
        else if (!strcmp(words[i], "--first"))
            options.first = atoi(value), i++;
        else if (!strcmp(words[i], "--count"))
            options.count = atoi(value), i++;
        else if (!strcmp(words[i], "--seconds"))
            options.seconds = atof(value), i++;
        else if (!strcmp(words[i], "--known"))
            options.known = value, i++;
        else if (!strcmp(words[i], "--kinds"))
            options.kinds = value, i++;
        else
            return fprintf(stderr, "unknown argument '%s'\n", words[i]), 2;
    }
    if (!device_is_there()) return 77;
    const struct CMUnitTest drawn[] = {cmocka_unit_test(random_graphs)};
    const struct CMUnitTest known[] = {cmocka_unit_test(known_graphs)};
    return options.known ? cmocka_run_group_tests(known, NULL, NULL)
                         : cmocka_run_group_tests(drawn, NULL, NULL);
}
