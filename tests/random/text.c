/* The text form of a graph: written, read, and given types and shapes by building it. */
#include <stdio.h>
#include <string.h>

#include "random_graph.h"

void graph_write(const random_graph *graph, char text[GRAPH_TEXT]) {
    bool read[GRAPH_LINES] = {false};
    for (int i = 0; i < graph->count; i++)
        for (int a = 0; a < graph->lines[i].argument_count; a++)
            read[graph->lines[i].arguments[a]] = true;
    int used = snprintf(text, GRAPH_TEXT, "koine 1\nmodel random\n");
    for (int i = 0; i < graph->count; i++) {
        const graph_line *line = &graph->lines[i];
        if (!line->kind[0]) {
            used +=
                snprintf(text + used, (size_t)(GRAPH_TEXT - used), "input v%d %s batch=no\n", i, line->words);
            continue;
        }
        used += snprintf(text + used, (size_t)(GRAPH_TEXT - used), "v%d = %s", i, line->kind);
        for (int a = 0; a < line->argument_count; a++)
            used += snprintf(text + used, (size_t)(GRAPH_TEXT - used), " @v%d", line->arguments[a]);
        used += snprintf(text + used, (size_t)(GRAPH_TEXT - used), "%s%s\n", line->words[0] ? " " : "",
                         line->words);
    }
    used += snprintf(text + used, (size_t)(GRAPH_TEXT - used), "output");
    for (int i = 0; i < graph->count; i++)
        if (graph->lines[i].kind[0] && (!read[i] || graph->lines[i].wanted))
            used += snprintf(text + used, (size_t)(GRAPH_TEXT - used), " v%d", i);
    snprintf(text + used, (size_t)(GRAPH_TEXT - used), "\n");
}

/* Reads "v3 = add @v1 @v2 axis=1". */
static void read_operator(graph_line *line, const char *text, int length) {
    int used = 0, argument;
    *line = (graph_line){.rank = 0};
    if (sscanf(text, "v%*d = %31s%n", line->kind, &used) != 1) return;
    for (int more = 0;
         line->argument_count < LINE_ARGUMENTS && sscanf(text + used, " @v%d%n", &argument, &more) == 1;
         used += more)
        line->arguments[line->argument_count++] = argument;
    if (used < length && text[used] == ' ') used++;
    snprintf(line->words, sizeof line->words, "%.*s", length - used, text + used);
}

const char *graph_read(random_graph *graph, const char *text) {
    const char *begin = strstr(text, "koine 1\n");
    *graph = (random_graph){.count = 0};
    if (!begin) return NULL;
    begin += strlen("koine 1\n");
    const char *end = strstr(begin, "koine 1\n");
    if (!end) end = begin + strlen(begin);
    for (const char *at = begin; at < end; at += strcspn(at, "\n") + 1) {
        const int length = (int)strcspn(at, "\n");
        int number = 0, bound = 0, used = 0;
        if (sscanf(at, "# v%d is below %d", &number, &bound) == 2 && number >= 0 && number < graph->count) {
            graph->lines[number].bound = bound;
        } else if (graph->count < GRAPH_LINES && sscanf(at, "input v%d %n", &number, &used) == 1) {
            graph_line *line = &graph->lines[graph->count++];
            const char *last = strstr(at, " batch=no");
            *line = (graph_line){.rank = 0};
            snprintf(line->words, sizeof line->words, "%.*s", (int)(last - at) - used, at + used);
        } else if (graph->count < GRAPH_LINES && at[0] == 'v') {
            read_operator(&graph->lines[graph->count++], at, length);
        } else if (!strncmp(at, "output", 6)) {
            for (const char *word = strstr(at, " v"); word && word < at + length;
                 word = strstr(word + 1, " v"))
                if (sscanf(word, " v%d", &number) == 1 && number < graph->count)
                    graph->lines[number].wanted = true;
        }
    }
    return end;
}

bool graph_infer(random_graph *graph) {
    char text[GRAPH_TEXT];
    graph_write(graph, text);
    kn_model *model = kn_model_parse(text, NULL);
    bool good = kn_model_status(model) == KN_OK;
    for (int i = 0; i < graph->count && good; i++) {
        graph_line *line = &graph->lines[i];
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        const kn_value *value = kn_graph_find(kn_model_graph(model), name);
        good = value && !kn_value_failed(value);
        if (!good) break;
        line->dtype = kn_value_dtype(value);
        line->rank = kn_value_rank(value);
        for (int d = 0; d < line->rank; d++)
            line->dims[d] = kn_value_dimension(value, d);
    }
    kn_model_destroy(&model);
    return good;
}
