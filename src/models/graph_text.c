/* Graphs built through the API, as text, which their files contain instead of a model text.
 *
 *     koine graph 1
 *     input NAME TYPE (SHAPE)
 *     state NAME TYPE (SHAPE) ROLE INITIALIZER VALUE FROZEN STORED
 *     constant NAME TYPE (SHAPE) HEX
 *     pin DEVICE                                 of the nodes that follow; without DEVICE: none
 *     node OPERATOR NAME INPUTS RESULTS ATTRIBUTE=VALUE ...
 *     next STATE VALUE
 *     output NAME
 *
 * INPUTS and RESULTS are names separated by commas, * for an absent input. Names are preserved, because
 * initial values and random numbers depend on them. Custom operators have no text. */
#include <inttypes.h>
#include <string.h>

#include "models/models_private.h"

#define FIRST_LINE "koine graph 1"
#define ABSENT "*"

/* ---- writing ------------------------------------------------------------------------------------------- */

static void write_shape(const kn_value *value, kn_text *text) {
    kn_text_format(text, "%s %s (", value->name, kn_dtype_name(value->shape.dtype));
    for (int i = 0; i < value->shape.rank; i++) {
        if (i > 0) kn_text_add(text, ",");
        kn_dim_text(value->graph, value->shape.dims[i], text);
    }
    kn_text_add(text, ")");
}

static void write_constant(const kn_value *value, kn_text *text) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = value->data;
    kn_text_add(text, "constant ");
    write_shape(value, text);
    kn_text_add(text, " ");
    for (size_t i = 0; i < value->data_bytes; i++) {
        const char pair[] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        kn_text_add_bytes(text, pair, sizeof pair);
    }
    kn_text_add(text, "\n");
}

static void write_leaf(const kn_value *value, kn_text *text) {
    if (value->kind == KN_VALUE_INPUT) {
        kn_text_add(text, "input ");
        write_shape(value, text);
        kn_text_add(text, "\n");
    } else if (value->kind == KN_VALUE_STATE) {
        kn_text_add(text, "state ");
        write_shape(value, text);
        kn_text_format(text, " %d %d ", (int)value->role, (int)value->initializer.kind);
        kn_text_number(text, value->initializer.value);
        kn_text_format(text, " %d %s\n", value->frozen, kn_dtype_name(value->stored));
    } else if (value->kind == KN_VALUE_CONSTANT) {
        write_constant(value, text);
    }
}

static void write_choice(const kn_attribute *attribute, int64_t index, kn_text *text) {
    const char *word = attribute->list;
    for (; index > 0 && *word; index--) {
        word += strcspn(word, " ");
        word += strspn(word, " ");
    }
    kn_text_add_bytes(text, word, strcspn(word, " "));
}

/* In the form that kn_attributes_parse reads. */
static void write_attribute(const kn_graph *graph, const kn_attribute *attribute,
                            const kn_attribute_value *value, kn_text *text) {
    kn_text_format(text, " %s=", attribute->name);
    switch (attribute->kind) {
    case KN_ATTRIBUTE_INT:
    case KN_ATTRIBUTE_BOOL:
        kn_text_format(text, "%" PRId64, value->integer);
        break;
    case KN_ATTRIBUTE_FLOAT:
        kn_text_number(text, value->number);
        break;
    case KN_ATTRIBUTE_CHOICE:
        write_choice(attribute, value->integer, text);
        break;
    case KN_ATTRIBUTE_INTS:
    case KN_ATTRIBUTE_DIMS:
        for (int i = 0; i < value->count; i++) {
            if (i > 0) kn_text_add(text, ",");
            if (attribute->kind == KN_ATTRIBUTE_DIMS)
                kn_dim_text(graph, value->list[i], text);
            else
                kn_text_format(text, "%" PRId64, value->list[i]);
        }
        break;
    }
}

static void write_names(kn_value *const *values, int count, kn_text *text) {
    for (int i = 0; i < count; i++)
        kn_text_format(text, "%s%s", i ? "," : " ", values[i] ? values[i]->name : ABSENT);
    if (count == 0) kn_text_add(text, " -");
}

static void write_node(const kn_node *node, kn_text *text) {
    if (node->op->class == KN_CLASS_ASSIGN) {
        kn_text_format(text, "next %s %s\n", node->inputs[0]->name, node->inputs[1]->name);
        return;
    }
    const kn_attribute_value *attributes = node->given ? node->given : node->attributes;
    kn_text_format(text, "node %s %s", node->op->name, node->name);
    write_names(node->inputs, node->input_count, text);
    write_names(node->outputs, node->output_count, text);
    for (int i = 0; i < node->op->attribute_count; i++)
        write_attribute(node->outputs[0]->graph, &node->op->attributes[i], &attributes[i], text);
    kn_text_add(text, "\n");
}

static bool write_graph(const kn_graph *graph, kn_text *text) {
    const char *pin = NULL;
    kn_text_add(text, FIRST_LINE "\n");
    for (size_t i = 0; i < graph->value_count; i++)
        write_leaf(graph->values[i], text);
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i];
        const char *of_node = node->pin ? node->pin : "";
        if (node->derivative || kn_operator_find(node->op->name) != node->op || node->op->backward)
            return false;
        if (strcmp(of_node, pin ? pin : "")) kn_text_format(text, "pin %s\n", of_node);
        pin = of_node;
        write_node(node, text);
    }
    for (size_t i = 0; i < graph->output_count; i++)
        kn_text_format(text, "output %s\n", graph->outputs[i]->name);
    return !kn_text_failed(text);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

enum { MAX_WORDS = 8 + KN_MAX_ATTRIBUTES };

typedef struct graph_reading {
    kn_graph *graph;
    kn_arena arena;
    kn_error *error;
    int line;
    bool pinned;
    char *words[MAX_WORDS];
    int count;
    char *rest; /* of a node line: its attributes */
} graph_reading;

static bool wrong(graph_reading *in, const char *what, const char *word) {
    if (in->error->status == KN_OK)
        kn_fail(in->error, KN_ERROR_FORMAT, "graph text, line %d: found %s '%.60s'", in->line, what,
                word ? word : "");
    return false;
}

/* Copies an error of the graph. */
static bool built(graph_reading *in) {
    if (in->graph->error.status == KN_OK) return true;
    if (in->error->status == KN_OK)
        kn_fail(in->error, KN_ERROR_FORMAT, "graph text, line %d: %s", in->line, kn_graph_error(in->graph));
    return false;
}

static bool good_name(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-");
    return length > 0 && name[length] == '\0';
}

static bool read_whole(const char *word, int64_t most, int64_t *number) {
    const char *end;
    return kn_parse_int64(word, &end, number) && *end == '\0' && *number >= 0 && *number <= most;
}

/* NAME TYPE (SHAPE) at words 1 to 3. */
static bool read_shape(graph_reading *in, kn_shape *shape) {
    char *text = in->words[3];
    size_t length = strlen(text);
    if (!good_name(in->words[1])) return wrong(in, "a name", in->words[1]);
    if (!kn_dtype_parse(in->words[2], &shape->dtype)) return wrong(in, "the type", in->words[2]);
    if (length < 2 || text[0] != '(' || text[length - 1] != ')') return wrong(in, "the shape", text);
    text[length - 1] = '\0';
    return kn_shape_parse(in->graph, text + 1, shape, in->error) == KN_OK && built(in);
}

static bool read_state(graph_reading *in) {
    kn_shape shape = {0};
    kn_initializer initializer = {KN_INITIALIZER_FILL, 0};
    int64_t role, kind, frozen;
    const char *end;
    kn_dtype stored;
    if (in->count != 9) return wrong(in, "a wrong number of words after", in->words[0]);
    if (!read_shape(in, &shape)) return false;
    if (!read_whole(in->words[4], KN_STATE_CACHE, &role) ||
        !read_whole(in->words[5], KN_INITIALIZER_ORTHOGONAL, &kind) ||
        !kn_parse_double(in->words[6], &end, &initializer.value) || *end ||
        !read_whole(in->words[7], 1, &frozen) || !kn_dtype_parse(in->words[8], &stored))
        return wrong(in, "invalid numbers for the state", in->words[1]);
    initializer.kind = (kn_initializer_kind)kind;
    kn_value *state = kn_state_add(in->graph, in->words[1], &shape, (kn_state_role)role, &initializer);
    if (!built(in)) return false;
    if (frozen) kn_freeze(state);
    if (stored != shape.dtype) kn_store_as(state, stored);
    return built(in);
}

static int digit(char letter) {
    const char *all = "0123456789abcdef", *at = letter ? strchr(all, letter) : NULL;
    return at ? (int)(at - all) : -1;
}

static bool read_constant(graph_reading *in) {
    kn_shape shape = {0};
    const char *empty = "";
    if (in->count != 5 && in->count != 4) return wrong(in, "a wrong number of words after", in->words[0]);
    if (!read_shape(in, &shape)) return false;
    const char *hex = in->count == 5 ? in->words[4] : empty;
    const int64_t elements = kn_shape_elements(&shape);
    const size_t bytes = strlen(hex) / 2;
    if (elements < 0 || strlen(hex) % 2 || (uint64_t)elements != bytes / kn_dtype_bytes(shape.dtype) ||
        bytes % kn_dtype_bytes(shape.dtype))
        return wrong(in, "a number of elements that does not match the shape of", in->words[1]);
    uint8_t *data = kn_arena_take(&in->arena, bytes + 1, 1);
    if (!data) return kn_fail_memory(in->error, bytes), false;
    for (size_t i = 0; i < bytes; i++) {
        const int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) return wrong(in, "a digit that is not hexadecimal in", in->words[1]);
        data[i] = (uint8_t)(high << 4 | low);
    }
    kn_name(kn_constant_add(in->graph, &shape, data, bytes), in->words[1]);
    return built(in);
}

/* Splits "a,b,c"; returns the number of names, or -1. */
static int split_names(char *word, char **names, int most) {
    int count = 0;
    if (!strcmp(word, "-")) return 0;
    for (char *at = word; at; count++) {
        if (count == most) return -1;
        names[count] = at;
        at = strchr(at, ',');
        if (at) *at++ = '\0';
    }
    return count;
}

static bool read_node(graph_reading *in) {
    char *names[KN_MAX_INPUTS > KN_MAX_OUTPUTS ? KN_MAX_INPUTS : KN_MAX_OUTPUTS];
    kn_value *inputs[KN_MAX_INPUTS];
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
    if (in->count != 5) return wrong(in, "a wrong number of words after", in->words[0]);
    const kn_operator *row = kn_operator_find(in->words[1]);
    if (!row || row->backward || row->class == KN_CLASS_ASSIGN)
        return wrong(in, "the operator", in->words[1]);
    if (!good_name(in->words[2])) return wrong(in, "a name", in->words[2]);
    int count = split_names(in->words[3], names, KN_MAX_INPUTS);
    for (int i = 0; i < count; i++) {
        inputs[i] = strcmp(names[i], ABSENT) ? kn_graph_find(in->graph, names[i]) : NULL;
        if (!inputs[i] && strcmp(names[i], ABSENT)) return wrong(in, "no earlier value called", names[i]);
    }
    if (count < 0 || kn_attributes_parse(in->graph, row, in->rest, attributes, in->error) != KN_OK)
        return wrong(in, "too many inputs of", in->words[2]);
    kn_value *first = kn_node_add(in->graph, row, in->words[2], inputs, count, attributes);
    if (!built(in)) return false;
    count = split_names(in->words[4], names, KN_MAX_OUTPUTS);
    if (count != first->producer->output_count) return wrong(in, "a wrong number of results of", row->name);
    for (int i = 0; i < count; i++)
        if (strcmp(first->producer->outputs[i]->name, names[i]))
            kn_name(first->producer->outputs[i], names[i]);
    return built(in);
}

static bool read_next(graph_reading *in) {
    if (in->count != 3) return wrong(in, "a wrong number of words after", in->words[0]);
    kn_value *state = kn_graph_find(in->graph, in->words[1]), *value = kn_graph_find(in->graph, in->words[2]);
    if (!state || state->kind != KN_VALUE_STATE || state->assign || !value)
        return wrong(in, "no state that can be assigned", in->words[2]);
    kn_assign(in->graph, state, value);
    return built(in);
}

static void set_pin(graph_reading *in) {
    if (in->pinned) kn_pin_end(in->graph);
    in->pinned = in->count == 2;
    if (in->pinned) kn_pin_begin(in->graph, in->words[1]);
}

static bool read_line(graph_reading *in) {
    kn_shape shape = {0};
    const char *kind = in->words[0];
    if (!strcmp(kind, "state")) return read_state(in);
    if (!strcmp(kind, "constant")) return read_constant(in);
    if (!strcmp(kind, "node")) return read_node(in);
    if (!strcmp(kind, "next")) return read_next(in);
    if (!strcmp(kind, "pin") && in->count <= 2) return set_pin(in), built(in);
    if (!strcmp(kind, "input") && in->count == 4)
        return read_shape(in, &shape) && (kn_input_add(in->graph, in->words[1], &shape), built(in));
    if (strcmp(kind, "output") || in->count != 2) return wrong(in, "a line", kind);
    kn_value *value = kn_graph_find(in->graph, in->words[1]);
    if (!value) return wrong(in, "no value called", in->words[1]);
    kn_output(value, NULL);
    return built(in);
}

/* Splits a line at its spaces; in a node line, everything after the results is one word. */
static bool split_line(graph_reading *in, char *line) {
    const int most = !strncmp(line, "node ", 5) ? 5 : MAX_WORDS;
    in->rest = line + strlen(line);
    in->count = 0;
    for (char *at = line; at && *at;) {
        if (in->count == most) {
            in->rest = at;
            return most == 5;
        }
        in->words[in->count++] = at;
        at = strchr(at, ' ');
        if (at) *at++ = '\0';
    }
    return in->count > 0;
}

kn_graph *kn_graph_text_read(const kn_host *host, const char *text, kn_error *error) {
    kn_graph_params params = KN_GRAPH_DEFAULTS;
    params.allocator = host->allocator;
    params.log = host->log;
    graph_reading in = {.graph = kn_graph_create(&params), .error = error};
    kn_arena_init(&in.arena, host);
    char *line = kn_arena_text(&in.arena, text);
    bool fine = in.graph && line;
    if (!fine) kn_fail_memory(error, strlen(text));
    while (fine && *line) {
        char *end = strchr(line, '\n'), *next = end ? end + 1 : line + strlen(line);
        if (end) *end = '\0';
        in.line++;
        if (in.line == 1)
            fine = !strcmp(line, FIRST_LINE) || wrong(&in, "the version", line);
        else
            fine = (split_line(&in, line) || wrong(&in, "the line", line)) && read_line(&in);
        line = next;
    }
    if (fine && in.pinned) kn_pin_end(in.graph);
    if (fine && kn_graph_output_count(in.graph) == 0) fine = wrong(&in, "no output", "");
    kn_arena_finish(&in.arena);
    if (!fine) kn_graph_destroy(&in.graph);
    return in.graph;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

char *kn_graph_text_write(const kn_host *host, const kn_graph *graph) {
    kn_text text, again;
    kn_error error = {0};
    kn_text_init(&text, host);
    kn_text_init(&again, host);
    kn_graph *copy = write_graph(graph, &text) ? kn_graph_text_read(host, text.data, &error) : NULL;
    /* Fails if a copy that is read back differs: values renamed to the default names of other nodes cannot be
     * read in node order. */
    const bool same = copy && write_graph(copy, &again) && !strcmp(text.data, again.data);
    if (!same)
        kn_log_write(host, KN_LOG_WARNING, "files of this graph contain only its weights: %s",
                     error.text[0] ? error.text
                                   : "it has operators without a text form, such as custom ones");
    kn_graph_destroy(&copy);
    kn_text_finish(&again);
    if (same) return kn_text_take(&text);
    kn_text_finish(&text);
    return NULL;
}
