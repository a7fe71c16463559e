/* Low-rank adapters (LoRA, Hu et al. 2021): the result y of a linear layer becomes y + s (x A^T) B^T with new
 * parameters A (rank,inputs) and B (units,rank); all other parameters are frozen. */
#include <math.h>
#include <string.h>

#include "models/models_private.h"

enum { RANK_MOST = 65536 };

KN_DEFINE_INIT(kn_adapter_params, KN_ADAPTER_DEFAULTS)

/* ---- linear layers ------------------------------------------------------------------------------------- */

/* A product of rows with a matrix of the model's parameters. */
static bool is_linear(const kn_node *node) {
    if (strcmp(node->op->name, "matmul") != 0 || node->derivative) return false;
    if (kn_attribute_of(node, "transpose_a")->integer) return false;
    const kn_value *weight = node->inputs[1];
    return weight->kind == KN_VALUE_STATE && weight->role == KN_STATE_PARAMETER &&
           weight->shape.dtype == KN_FLOAT32 && weight->shape.rank == 2 && node->inputs[0]->shape.rank >= 2 &&
           kn_shape_elements(&weight->shape) > 0;
}

/* The product of a layer with a bias is called "LAYER.product". */
static const char *layer_name(kn_model *model, const kn_node *node) {
    static const char ending[] = ".product";
    const size_t length = strlen(node->name), own = sizeof ending - 1;
    const bool ends = length > own && !strcmp(node->name + length - own, ending);
    return kn_arena_format(&model->arena, "%.*s", (int)(ends ? length - own : length), node->name);
}

/* Marks, by id, the outputs and the values from which only pointwise nodes and views make them. In the
 * model's arena; NULL: out of memory. */
static const bool *mark_last(kn_model *model) {
    bool *last = kn_arena_take(&model->arena, model->graph->value_count + 1, sizeof *last);
    if (!last) {
        kn_model_no_memory(model);
        return NULL;
    }
    for (int i = 0; i < model->output_count; i++)
        last[model->outputs[i]->id] = true;
    for (size_t i = model->graph->node_count; i-- > 0;) {
        const kn_node *node = model->graph->nodes[i];
        const bool passes = node->op->class == KN_CLASS_POINTWISE || node->op->class == KN_CLASS_VIEW;
        for (int k = 0; k < node->input_count && passes && node->output_count; k++)
            if (node->inputs[k] && last[node->outputs[0]->id]) last[node->inputs[k]->id] = true;
    }
    return last;
}

/* ---- targets ------------------------------------------------------------------------------------------- */

/* The words of `targets`, of which each must match a layer. */
typedef struct target_list {
    char *text; /* the words, each terminated */
    const char **words;
    bool *used;
    size_t count;
    bool all;
} target_list;

static bool read_targets(kn_model *model, const char *targets, target_list *list) {
    const size_t length = strlen(targets);
    list->text = kn_arena_text(&model->arena, targets);
    list->words = kn_arena_take(&model->arena, length / 2 + 1, sizeof *list->words);
    list->used = kn_arena_take(&model->arena, length / 2 + 1, sizeof *list->used);
    if (!list->text || !list->words || !list->used) return kn_model_no_memory(model);
    for (char *at = list->text; *at;) {
        at += strspn(at, ", ");
        const size_t own = strcspn(at, ", ");
        if (!own) break;
        list->words[list->count++] = at;
        at += own;
        if (*at) *at++ = '\0';
    }
    list->all = list->count == 1 && !strcmp(list->words[0], "all");
    return list->count > 0 || kn_fail(&model->error, KN_ERROR_ARGUMENT,
                                      "kn_model_adapt: no targets; expected \"all\", or names of linear "
                                      "layers, such as \"attn_q,attn_v\"") == KN_OK;
}

/* Whether a word is the layer's name or its last components, so that "attn_q" matches blk0.attn_q. */
static bool word_fits(const char *word, const char *layer) {
    for (const char *at = layer; at; at = strchr(at, '.') ? strchr(at, '.') + 1 : NULL)
        if (kn_pattern_fits(word, at)) return true;
    return false;
}

static bool by_words(void *user, const char *layer, bool last) {
    target_list *list = user;
    bool found = list->all && !last;
    for (size_t i = 0; i < list->count && !list->all; i++)
        if (word_fits(list->words[i], layer)) found = list->used[i] = true;
    return found;
}

/* ---- building ------------------------------------------------------------------------------------------ */

typedef struct adapting {
    kn_model *model;
    kn_adapter *adapter;
    kn_value **instead; /* by id of a value before: the value that its readers get; NULL: unchanged */
    size_t *first; /* by id of a node before: its adapter's first node, after those of the nodes before */
    size_t values, nodes;
} adapting;

static kn_value *add_parameter(kn_model *model, const char *layer, const char *name, int64_t rows,
                               int64_t columns, const kn_initializer *initializer) {
    const kn_shape shape = {.dtype = KN_FLOAT32, .rank = 2, .dims = {rows, columns}};
    const char *path = kn_arena_format(&model->arena, "%s.%s", layer, name);
    if (!path)
        return kn_graph_fail(model->graph, KN_ERROR_MEMORY, "out of memory for the name of a parameter");
    return kn_state_add(model->graph, path, &shape, KN_STATE_PARAMETER, initializer);
}

/* The sum is "y.adapted"; that of an output has the output's name, under which it is fetched. */
static bool name_sum(kn_model *model, kn_value *y, kn_value *sum) {
    bool output = false;
    for (int i = 0; i < model->output_count; i++)
        output = output || model->outputs[i] == y;
    const char *before = y->name;
    const char *name = kn_arena_format(&model->arena, output ? "%s.frozen" : "%s.adapted", before);
    if (!name) return kn_model_no_memory(model);
    kn_name(output ? y : sum, name);
    if (output) kn_name(sum, before);
    return true;
}

/* Appends the nodes of one adapter. */
static bool add_adapter(adapting *a, const kn_node *node, const char *layer) {
    kn_model *model = a->model;
    kn_adapter *adapter = a->adapter;
    const kn_value *weight = node->inputs[1];
    const bool rows = kn_attribute_of(node, "transpose_b")->integer;
    const kn_initializer zeros = {KN_INITIALIZER_FILL, 0};
    kn_adapted *made = &adapter->layers[adapter->layer_count];
    *made = (kn_adapted){.layer = layer,
                         .inputs = weight->shape.dims[rows ? 1 : 0],
                         .units = weight->shape.dims[rows ? 0 : 1]};
    kn_pin_begin(model->graph, node->pin);
    made->a = add_parameter(model, layer, "lora_a", adapter->rank, made->inputs, NULL);
    made->b = add_parameter(model, layer, "lora_b", made->units, adapter->rank, &zeros);
    kn_value *x = node->inputs[0], *y = node->outputs[0];
    if (a->instead[x->id]) x = a->instead[x->id];
    if (adapter->dropout > 0) x = kn_dropout(x, adapter->dropout);
    kn_value *low = kn_matmul(x, made->a, false, true);
    if (adapter->scale != 1) low = kn_mul(low, kn_scalar(model->graph, adapter->scale));
    kn_value *sum = kn_add(y, kn_matmul(low, made->b, false, true));
    kn_pin_end(model->graph);
    if (!name_sum(model, y, sum)) return false;
    if (kn_graph_status(model->graph) != KN_OK) {
        kn_fail(&model->error, kn_graph_status(model->graph), "layer '%s': %s", layer,
                kn_graph_error(model->graph));
        return false;
    }
    a->instead[y->id] = sum;
    adapter->layer_count++;
    return true;
}

/* Gives the readers of adapted values the sums. Only nodes and outputs that were there before are changed. */
static void replace_readers(adapting *a) {
    kn_graph *graph = a->model->graph;
    for (size_t i = 0; i < a->nodes; i++)
        for (int k = 0; k < graph->nodes[i]->input_count; k++) {
            kn_value **input = &graph->nodes[i]->inputs[k];
            if (*input && a->instead[(*input)->id]) *input = a->instead[(*input)->id];
        }
    for (size_t i = 0; i < graph->output_count; i++)
        if (a->instead[graph->outputs[i]->id]) graph->outputs[i] = a->instead[graph->outputs[i]->id];
    for (int i = 0; i < a->model->output_count; i++) {
        kn_value **output = &a->model->outputs[i];
        if (a->instead[(*output)->id]) *output = a->instead[(*output)->id];
    }
}

/* Moves the nodes of each adapter after its layer's, since nodes come after the nodes they read. */
static bool sort_nodes(adapting *a) {
    kn_model *model = a->model;
    kn_graph *graph = model->graph;
    kn_node **sorted = kn_allocate(&model->host, graph->node_count, sizeof(kn_node *));
    size_t *place = kn_allocate(&model->host, a->nodes + 1, sizeof *place), count = 0;
    for (size_t i = 0; i < a->nodes && sorted && place; i++) {
        place[i] = count;
        sorted[count++] = graph->nodes[i];
        for (size_t k = a->first[i]; k < a->first[i + 1]; k++)
            sorted[count++] = graph->nodes[k];
    }
    const bool fine = sorted && place;
    if (fine) {
        place[a->nodes] = count;
        memcpy(graph->nodes, sorted, count * sizeof(kn_node *));
        for (size_t i = 0; i < count; i++)
            graph->nodes[i]->id = (int)i;
        for (size_t i = 0; model->text && i < model->text->made_count; i++) {
            model->text->made[i].first = place[model->text->made[i].first];
            model->text->made[i].end = place[model->text->made[i].end];
        }
    }
    kn_release(&model->host, sorted);
    kn_release(&model->host, place);
    return fine || kn_model_no_memory(model);
}

static bool add_adapters(adapting *a, const bool *last, kn_adapter_wanted wanted, void *user) {
    kn_graph *graph = a->model->graph;
    for (size_t i = 0; i < a->nodes; i++) {
        const kn_node *node = graph->nodes[i];
        a->first[i] = graph->node_count;
        if (!is_linear(node)) continue;
        const char *layer = layer_name(a->model, node);
        if (!layer) return kn_model_no_memory(a->model);
        if (wanted(user, layer, last[node->outputs[0]->id]) && !add_adapter(a, node, layer)) return false;
    }
    a->first[a->nodes] = graph->node_count;
    return true;
}

static void freeze_others(const kn_model *model, size_t values) {
    for (size_t i = 0; i < values; i++)
        if (model->graph->values[i]->role == KN_STATE_PARAMETER &&
            model->graph->values[i]->kind == KN_VALUE_STATE)
            model->graph->values[i]->frozen = true;
}

static bool build(kn_model *model, kn_adapter *adapter, kn_adapter_wanted wanted, void *user) {
    const kn_graph *graph = model->graph;
    adapting a = {
        .model = model, .adapter = adapter, .values = graph->value_count, .nodes = graph->node_count};
    const bool *last = mark_last(model);
    a.instead = kn_allocate(&model->host, a.values + 1, sizeof(kn_value *));
    a.first = kn_allocate(&model->host, a.nodes + 1, sizeof *a.first);
    adapter->layers = kn_arena_take(&model->arena, a.nodes + 1, sizeof *adapter->layers);
    bool fine = (last && a.instead && a.first && adapter->layers) || kn_model_no_memory(model);
    fine = fine && add_adapters(&a, last, wanted, user);
    if (fine && adapter->layer_count) {
        replace_readers(&a);
        freeze_others(model, a.values);
        fine = sort_nodes(&a);
    }
    kn_release(&model->host, a.instead);
    kn_release(&model->host, a.first);
    return fine;
}

/* ---- rows of q and k ----------------------------------------------------------------------------- */

const char *kn_model_row_order(const kn_model *model) {
    const kn_graph *graph = model->graph;
    if (!kn_graph_find(graph, "token_embd.weight")) return "";
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i];
        const bool rotates = !strcmp(node->op->name, "rotary") && !node->derivative;
        if (rotates && kn_attribute_of(node, "interleaved")->integer) return " order=alternating";
    }
    return " order=halves";
}

/* ---- the public function ------------------------------------------------------------------------------- */

static bool check_params(kn_model *model, const kn_adapter_params *params) {
    kn_error *error = &model->error;
    if (params->rank < 1 || params->rank > RANK_MOST)
        kn_fail(error, KN_ERROR_ARGUMENT, "adapter: rank %lld; expected 1 to %d", (long long)params->rank,
                RANK_MOST);
    else if (!(params->alpha > 0 && isfinite(params->alpha)))
        kn_fail(error, KN_ERROR_ARGUMENT, "adapter: alpha %g; expected a number above 0", params->alpha);
    else if (!(params->dropout >= 0 && params->dropout < 1))
        kn_fail(error, KN_ERROR_ARGUMENT, "adapter: dropout %g; expected a number of at least 0 and below 1",
                params->dropout);
    else if (model->adapter)
        kn_fail(error, KN_ERROR_ARGUMENT, "model '%s' already has an adapter", model->name);
    else if (model->loss_added)
        kn_fail(error, KN_ERROR_ARGUMENT, "model '%s' already has a loss; expected the adapter before it",
                model->name);
    return error->status == KN_OK;
}

double kn_adapter_scale(const kn_adapter_params *params) {
    const double rank = (double)params->rank;
    return params->alpha / (params->rank_stabilized ? sqrt(rank) : rank);
}

bool kn_model_adapt_where(kn_model *model, const kn_adapter_params *params, kn_adapter_wanted wanted,
                          void *user) {
    if (!check_params(model, params)) return false;
    kn_adapter *adapter = kn_arena_take(&model->arena, 1, sizeof *adapter);
    if (!adapter) return kn_model_no_memory(model);
    *adapter = (kn_adapter){.rank = params->rank,
                            .alpha = params->alpha,
                            .scale = kn_adapter_scale(params),
                            .dropout = params->dropout,
                            .rank_stabilized = params->rank_stabilized};
    if (!build(model, adapter, wanted, user)) return false;
    if (!adapter->layer_count) return true;
    model->adapter = adapter;
    model->weight_count = 0;
    return kn_model_list_weights(model);
}

/* Names a few linear layers, for messages. */
static const char *some_layers(kn_model *model) {
    kn_text text;
    size_t count = 0;
    kn_text_init(&text, &model->host);
    for (size_t i = 0; i < model->graph->node_count && count < 8; i++) {
        const char *layer =
            is_linear(model->graph->nodes[i]) ? layer_name(model, model->graph->nodes[i]) : NULL;
        if (layer) kn_text_format(&text, "%s%s", count++ ? ", " : "", layer);
    }
    const char *list = kn_arena_text(&model->arena, kn_text_failed(&text) || !count ? "none" : text.data);
    kn_text_finish(&text);
    return list ? list : "";
}

static kn_status adapt(kn_model *model, const kn_adapter_params *params) {
    target_list list = {.count = 0};
    kn_adapter_params given = KN_ADAPTER_DEFAULTS;
    kn_error_clear(&model->error);
    if (KN_PARAMS_TAKE(kn_adapter_params, &given, params, &model->error) != KN_OK) return model->error.status;
    if (kn_model_need_bound(model, "kn_model_adapt") != KN_OK) return model->error.status;
    if (!check_params(model, &given) || !read_targets(model, given.targets ? given.targets : "all", &list))
        return model->error.status;
    const bool *last = mark_last(model);
    size_t found = 0;
    for (size_t i = 0; i < model->graph->node_count && last; i++) {
        const kn_node *node = model->graph->nodes[i];
        const char *layer = is_linear(node) ? layer_name(model, node) : NULL;
        found += layer && by_words(&list, layer, last[node->outputs[0]->id]);
    }
    if (!last) return model->error.status;
    for (size_t i = 0; i < list.count; i++)
        if (list.all ? !found : !list.used[i])
            return kn_fail(&model->error, KN_ERROR_NOT_FOUND,
                           "target '%.100s' matches no linear layer of model '%s'; its linear layers begin "
                           "with %s",
                           list.words[i], model->name, some_layers(model));
    kn_model_adapt_where(model, &given, by_words, &list);
    return model->error.status;
}

kn_status kn_model_adapt(kn_model *model, const kn_adapter_params *params) {
    if (!model) return KN_ERROR_ARGUMENT;
    if (model->status != KN_OK) return model->status;
    return adapt(model, params);
}

bool kn_model_adapter(const kn_model *model, kn_adapter_params *params) {
    if (!model || model->status != KN_OK || !model->adapter || !params) return false;
    kn_adapter_params found = KN_ADAPTER_DEFAULTS;
    found.rank = model->adapter->rank;
    found.alpha = model->adapter->alpha;
    found.dropout = model->adapter->dropout;
    found.rank_stabilized = model->adapter->rank_stabilized;
    return KN_RESULT_GIVE(kn_adapter_params, params, &found) == KN_OK;
}
