/* Reduces a wrong graph: fewer lines, then smaller inputs. */
#include <stdio.h>
#include <string.h>

#include "random_graph.h"

/* Lines that no output needs are dropped. */
static void drop_unused(random_graph *graph, const bool outputs[GRAPH_LINES]) {
    bool needed[GRAPH_LINES] = {false};
    int place[GRAPH_LINES], count = 0;
    for (int i = graph->count - 1; i >= 0; i--) {
        needed[i] = needed[i] || outputs[i];
        for (int a = 0; needed[i] && a < graph->lines[i].argument_count; a++)
            needed[graph->lines[i].arguments[a]] = true;
    }
    for (int i = 0; i < graph->count; i++) {
        place[i] = count;
        if (!needed[i]) continue;
        graph_line line = graph->lines[i];
        for (int a = 0; a < line.argument_count; a++)
            line.arguments[a] = place[line.arguments[a]];
        graph->lines[count++] = line;
    }
    graph->count = count;
}

static void find_outputs(const random_graph *graph, bool outputs[GRAPH_LINES]) {
    bool read[GRAPH_LINES] = {false};
    for (int i = 0; i < graph->count; i++)
        for (int a = 0; a < graph->lines[i].argument_count; a++)
            read[graph->lines[i].arguments[a]] = true;
    for (int i = 0; i < graph->count; i++)
        outputs[i] = graph->lines[i].kind[0] && (!read[i] || graph->lines[i].wanted);
}

static bool is_still_wrong(random_graph *trial, const graph_mode *mode, uint64_t data, kn_error *error) {
    kn_error found = {0};
    if (!trial->count || !graph_infer(trial) || graph_outcome_of(trial, mode, data, &found) != GRAPH_WRONG)
        return false;
    *error = found;
    return true;
}

/* Makes line `at` the only output. */
static bool try_output(random_graph *graph, int at, const graph_mode *mode, uint64_t data, kn_error *error) {
    random_graph trial = *graph;
    bool outputs[GRAPH_LINES] = {false};
    outputs[at] = true;
    drop_unused(&trial, outputs);
    for (int i = 0; i < trial.count; i++)
        trial.lines[i].wanted = false;
    if (trial.count == graph->count || !is_still_wrong(&trial, mode, data, error)) return false;
    *graph = trial;
    return true;
}

/* Makes line `at` an input, or lets its readers read one of its arguments. */
static bool try_without(random_graph *graph, int at, int argument, const graph_mode *mode, uint64_t data,
                        kn_error *error) {
    random_graph trial = *graph;
    bool outputs[GRAPH_LINES];
    find_outputs(&trial, outputs);
    graph_line *line = &trial.lines[at];
    if (argument < 0) {
        const kn_dtype dtype = line->dtype;
        size_t used = 0;
        line->argument_count = 0;
        line->kind[0] = 0;
        for (int d = 0; d < line->rank; d++)
            used += (size_t)snprintf(line->words + used, sizeof line->words - used, "%s%lld", d ? "x" : "",
                                     (long long)line->dims[d]);
        snprintf(line->words + used, sizeof line->words - used, "%s %s", line->rank ? "" : "scalar",
                 kn_dtype_name(dtype));
        if (outputs[at]) return false;
    } else {
        for (int i = at + 1; i < trial.count; i++)
            for (int a = 0; a < trial.lines[i].argument_count; a++)
                if (trial.lines[i].arguments[a] == at)
                    trial.lines[i].arguments[a] = line->arguments[argument];
        outputs[line->arguments[argument]] |= outputs[at] && trial.lines[line->arguments[argument]].kind[0];
        outputs[at] = false;
    }
    drop_unused(&trial, outputs);
    if (!is_still_wrong(&trial, mode, data, error)) return false;
    *graph = trial;
    return true;
}

void graph_shrink(random_graph *graph, const graph_mode *mode, uint64_t data, kn_error *error) {
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (int i = graph->count - 1; i >= 0; i--)
            if (i < graph->count && graph->lines[i].kind[0])
                smaller |= try_output(graph, i, mode, data, error);
        for (int i = graph->count - 1; i >= 0; i--)
            for (int argument = -1;
                 i < graph->count && graph->lines[i].kind[0] && argument < graph->lines[i].argument_count;
                 argument++)
                smaller |= try_without(graph, i, argument, mode, data, error);
    }
}
