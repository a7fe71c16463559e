/* Shrinks a node: finds a small node with the same operator, types, variant and programs, which serves as the
 * trial of the node's variant, so that the trial compiles nothing that the node without an epilogue does not
 * need. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "verify/verify_private.h"

enum {
    FEW_FLOPS = 1000000, /* target: takes the reference milliseconds */
    FEW_ELEMENTS = 1 << 17,
    TOO_MANY = 50,       /* times the target: too large for a trial, */
    TOO_MANY_FAST = 200, /* unless sums must be long */
    LONG_SUM = 1 << 14,  /* products: the error of longer sums is about the same */
    LEAST = 8,           /* sizes up to this are not changed */
    MAX_FACTOR = 8,
    MAX_PROGRAMS = 32,
    MAX_TRIES = 200
};

kn_status kn_node_programs(kn_context *context, const kn_node *node, const kn_variant *variant, int tile,
                           uint64_t *programs, kn_error *error) {
    kn_target target;
    kn_arena arena;
    kn_emitter emitter;
    uint64_t seen[MAX_PROGRAMS];
    int count = 0;
    kn_target_of(context, &target);
    kn_arena_init(&arena, kn_context_host(context));
    kn_emitter_init(&emitter, &arena, kn_context_host(context), &target, error);
    kn_lowering lowering = {.target = &target,
                            .node = node,
                            .emitter = &emitter,
                            .result = node->outputs[0],
                            .tile = tile,
                            .error = error};
    kn_status status = kn_variant_lower(variant, &lowering);
    *programs = 0;
    for (int s = 0; s < emitter.step_count && status == KN_OK; s++) {
        const kn_step *step = emitter.steps[s];
        uint64_t hash = KN_HASH_START;
        if (step->kind == KN_STEP_PRODUCT) {
            hash = kn_hash_text(hash, "library");
        } else if (step->kind == KN_STEP_KERNEL) {
            hash = kn_hash_text(kn_hash_text(hash, step->file), step->kernel);
            hash = kn_hash_text(kn_hash_text(hash, step->language ? step->language : ""), step->prelude);
        } else {
            continue;
        }
        int known = 0;
        while (known < count && seen[known] != hash)
            known++;
        if (known < count || count == MAX_PROGRAMS) continue;
        seen[count++] = hash;
        *programs += hash; /* independent of the order */
    }
    kn_emitter_finish(&emitter);
    kn_arena_finish(&arena);
    return status;
}

kn_node *kn_node_spec_add(const kn_node_spec *spec, kn_graph *graph, kn_value *inputs[KN_TRIAL_INPUTS]) {
    for (int i = 0; i < spec->input_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        if (spec->given[i] && !inputs[i]) inputs[i] = kn_input_add(graph, name, &spec->shapes[i]);
    }
    kn_value *result = kn_node_add(graph, spec->row, "trial", inputs, spec->input_count, spec->attributes);
    if (kn_value_failed(result)) return NULL;
    result->producer->accumulate = spec->accumulate;
    result->producer->tf32 = spec->types.tf32;
    return result->producer;
}

void kn_node_spec_store(const kn_node_spec *spec, const kn_node *node) {
    if (!kn_is_half(spec->types.stored)) return;
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && spec->types.halves.inputs >> i & 1)
            node->inputs[i]->shape.dtype = spec->types.stored;
    for (int k = 0; k < node->output_count; k++)
        if (spec->types.halves.results >> k & 1) node->outputs[k]->shape.dtype = spec->types.stored;
}

typedef struct search {
    kn_context *context;
    const kn_variant *variant;
    int tile;
    kn_target target;
    uint64_t programs; /* of the original node */
    double flops, elements;
    double trial_sum, least_sum; /* of the node: kn_node_trial_sum; what a fitting node needs */
    int tries;
} search;

static double sum_of(const kn_node *node, double flops) {
    double results = 0;
    for (int i = 0; i < node->output_count; i++)
        results += (double)kn_shape_elements(&node->outputs[i]->shape);
    return results > 0 ? flops / 2 / results : 0;
}

double kn_node_trial_sum(const kn_node *node) {
    kn_cost cost;
    kn_node_cost(node, &cost);
    const double sum = fmin(sum_of(node, cost.flops), LONG_SUM);
    return sum >= 1 ? exp2(floor(log2(sum))) : 0;
}

/* Whether a node has the same programs; counts its work. */
static bool fits(search *on, const kn_node_spec *spec) {
    const kn_host *host = kn_context_host(on->context);
    kn_graph_params params = {.size = sizeof params, .allocator = host->allocator};
    kn_graph *graph = kn_graph_create(&params);
    kn_value *inputs[KN_TRIAL_INPUTS] = {NULL};
    kn_node *node = graph ? kn_node_spec_add(spec, graph, inputs) : NULL;
    if (node) kn_node_spec_store(spec, node);
    kn_error error = {.status = KN_OK};
    uint64_t programs = 0;
    on->tries++;
    bool same = node && !(node->op->wrong && node->op->wrong(node)) &&
                (!on->variant->choice.accepts || on->variant->choice.accepts(&on->target, node)) &&
                kn_node_programs(on->context, node, on->variant, on->tile, &programs, &error) == KN_OK &&
                programs == on->programs && graph->error.status == KN_OK;
    if (same) {
        kn_cost cost;
        kn_node_cost(node, &cost);
        on->flops = cost.flops;
        on->trial_sum = kn_node_trial_sum(node);
        same = on->trial_sum >= on->least_sum;
        on->elements = 0;
        for (int i = 0; i < node->input_count; i++)
            if (node->inputs[i]) on->elements += (double)kn_shape_elements(&node->inputs[i]->shape);
        for (int i = 0; i < node->output_count; i++)
            on->elements += (double)kn_shape_elements(&node->outputs[i]->shape);
    }
    kn_graph_destroy(&graph);
    return same;
}

static bool is_small(const search *on, double times) {
    return on->flops <= times * FEW_FLOPS && on->elements <= times * FEW_ELEMENTS;
}

/* The next smaller size to try: slightly above a power of two, so that tiles have edges, and a multiple of
 * four if `size` is, since kernels then read four elements at a time. At least LEAST - 3. */
static int64_t smaller(int64_t size) {
    int64_t edge = size % 4 ? 5 : 4, next = size % 4 ? LEAST - 3 : LEAST;
    for (int64_t power = 4; power + edge < size; power *= 2)
        next = power + edge;
    return next;
}

/* Which sizes change with a size. */
typedef enum relation {
    EQUAL,
    NEAR, /* also sizes that differ by a few, like the sides of a convolution: the difference stays */
    MULTIPLES,
    RELATIONS
} relation;

static int64_t mapped(int64_t number, int64_t size, int64_t less, relation related) {
    if (number == size) return less;
    if (related == NEAR && number > LEAST && number - size >= -LEAST && number - size < LEAST)
        return number - size + less > 0 ? number - size + less : number;
    bool multiple = related == MULTIPLES && number > 0 && number % size == 0 && number / size <= MAX_FACTOR;
    return multiple ? number / size * less : number;
}

static void map_sizes(kn_node_spec *spec, int64_t size, int64_t less, relation related) {
    for (int i = 0; i < spec->input_count; i++)
        for (int d = 0; spec->given[i] && d < spec->shapes[i].rank; d++)
            spec->shapes[i].dims[d] = mapped(spec->shapes[i].dims[d], size, less, related);
    for (int a = 0; a < spec->row->attribute_count; a++) {
        kn_attribute_value *value = &spec->attributes[a];
        value->integer = mapped(value->integer, size, less, EQUAL);
        for (int i = 0; i < value->count; i++)
            value->list[i] = mapped(value->list[i], size, less, related);
    }
}

/* The largest size below `limit`; 0: none. */
static int64_t largest_size(const kn_node_spec *spec, int64_t limit) {
    int64_t largest = 0;
    for (int i = 0; i < spec->input_count; i++)
        for (int d = 0; spec->given[i] && d < spec->shapes[i].rank; d++)
            if (spec->shapes[i].dims[d] > largest && spec->shapes[i].dims[d] < limit)
                largest = spec->shapes[i].dims[d];
    return largest;
}

/* Makes the largest possible size smaller; false: none can be. */
static bool shrink(search *on, kn_node_spec *spec) {
    for (int64_t size = INT64_MAX; (size = largest_size(spec, size)) > LEAST;)
        for (relation related = EQUAL; related < RELATIONS && on->tries < MAX_TRIES; related++) {
            kn_node_spec next = *spec;
            map_sizes(&next, size, smaller(size), related);
            if (!fits(on, &next)) continue;
            *spec = next;
            return true;
        }
    return false;
}

void kn_node_spec_of(const kn_node *node, kn_node_spec *spec) {
    *spec = (kn_node_spec){.row = node->op,
                           .input_count = node->input_count,
                           .accumulate = node->accumulate,
                           .types.tf32 = node->tf32};
    for (int i = 0; i < node->input_count && i < KN_TRIAL_INPUTS; i++) {
        spec->given[i] = node->inputs[i] != NULL;
        if (spec->given[i]) spec->shapes[i] = node->inputs[i]->shape;
        /* Not chosen by the plan: some rows read 16-bit weights, and copies move any type. */
        const kn_dtype type = spec->shapes[i].dtype;
        if (!kn_is_half(type) || node->op->halves >> i & 1 || node->op->moves) continue;
        spec->shapes[i].dtype = KN_FLOAT32;
        spec->types.halves.inputs |= 1u << i;
        spec->types.stored = type;
    }
    for (int k = 0; k < node->output_count && !node->op->moves; k++)
        if (kn_is_half(node->outputs[k]->shape.dtype)) {
            spec->types.halves.results |= 1u << k;
            spec->types.stored = node->outputs[k]->shape.dtype;
        }
    memcpy(spec->attributes, node->attributes, (size_t)node->op->attribute_count * sizeof *spec->attributes);
}

bool kn_node_spec_shrink(kn_context *context, const kn_variant *variant, int tile, uint64_t programs,
                         kn_node_spec *spec) {
    const bool fast = variant->choice.fast;
    search on = {.context = context, .variant = variant, .tile = tile, .programs = programs};
    if (spec->input_count > KN_TRIAL_INPUTS) return false;
    kn_target_of(context, &on.target);
    if (!fits(&on, spec)) return false;
    if (fast) on.least_sum = on.trial_sum;
    while (!is_small(&on, 1) && shrink(&on, spec))
        continue;
    return is_small(&on, fast ? TOO_MANY_FAST : TOO_MANY);
}
