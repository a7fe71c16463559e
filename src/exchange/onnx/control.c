/* Branches, loops, sequences and optionals, all of which are resolved while the graph is built, except loops
 * that end on a computed condition: their parts are built separately (kn_file_part), and their results are
 * inputs. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_ITERATIONS = KN_MAX_INPUTS * KN_MAX_INPUTS };

static const kn_onnx_graph *body_of(kn_import_call *call, const char *name) {
    const kn_onnx_attribute *found = kn_import_attribute(call, name);
    if (found && found->kind == KN_ONNX_ATTRIBUTE_GRAPH && found->count == 1) return &found->graphs[0];
    kn_import_fail(call, KN_ERROR_FORMAT, "attribute '%s' is missing or not a graph", name);
    return NULL;
}

/* Copies the results of a body to the outputs of the node, which keep their names. */
static void take_outputs(kn_import_call *call, const kn_item *made, int count) {
    for (int i = 0; i < count && i < call->output_count; i++) {
        const char *name = call->outputs[i].name;
        call->outputs[i] = made[i];
        call->outputs[i].name = name;
    }
}

static kn_status if_branch(kn_import_call *call) {
    double condition = 0;
    if (kn_import_numbers(call, 0, &condition, 1, NULL) != KN_OK) return kn_import_status(call);
    const kn_onnx_graph *body = body_of(call, condition != 0 ? "then_branch" : "else_branch");
    size_t count = (size_t)call->output_count;
    kn_item *made = kn_arena_take(call->import->arena, count + 1, sizeof *made);
    if (!made) return kn_import_no_memory(call->import);
    if (!body || kn_import_subgraph(call, body, NULL, 0, made, count) != KN_OK) return kn_import_status(call);
    take_outputs(call, made, call->output_count);
    return kn_import_status(call);
}

/* A scalar that is known while the graph is built. */
static void set_known(kn_import_call *call, kn_dtype dtype, int64_t number, kn_item *item) {
    kn_dim *sizes = kn_arena_take(call->import->arena, 1, sizeof *sizes);
    if (sizes) sizes[0] = kn_dim_of(call->graph, number);
    *item = (kn_item){.dtype = dtype, .sizes = sizes, .count = 1};
    if (!sizes) kn_import_no_memory(call->import);
}

/* A condition: 1 or 0; -1 if it is computed, and after a failure. */
static int condition_of(kn_import_call *call, kn_item *item) {
    kn_tensor_info info;
    const void *data;
    if (kn_item_known(call->import, item, &info, &data)) return kn_element_get(info.dtype, data, 0) != 0;
    return -1;
}

/* Leaves a loop of the file's graph to kn_runner, which runs it. */
static kn_status defer_loop(kn_import_call *call, const char *why) {
    kn_import *import = call->import;
    if (kn_import_status(call) != KN_OK) return kn_import_status(call);
    if (import->scope->outer)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "%s, which is only supported outside of functions, branches and loops", why);
    for (int i = call->output_count; i-- > 0;)
        if (*call->node->outputs[i]) import->missing = call->node->outputs[i];
    import->lacks = import->missing_loop = true;
    return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                          "%s, which must be run before the rest of the graph can be built", why);
}

/* Takes the results of the loop if the caller gave them; the loop is not built then. */
static bool take_results(kn_import_call *call) {
    bool taken = false;
    for (int i = 0; i < call->output_count && !call->import->scope->outer; i++) {
        const kn_model_given *given = kn_import_given(call->import, call->node->outputs[i]);
        if (!given) continue;
        call->outputs[i].dtype = given->info.dtype; /* kn_import_take_given makes the value */
        taken = true;
    }
    return taken;
}

/* Whether the loop has the part that the model computes. */
static bool has_part(const kn_import_call *call) {
    const kn_model *model = call->import->model;
    if (model->part != KN_PART_BEFORE_LOOP && model->part != KN_PART_ITERATION) return false;
    for (int i = 0; i < call->output_count && !call->import->scope->outer; i++)
        if (!strcmp(call->node->outputs[i], model->only)) return true;
    return false;
}

static kn_status describe_loop(kn_import_call *call, const kn_onnx_graph *body, int variables) {
    kn_arena *arena = call->import->arena;
    kn_loop *loop = kn_arena_take(arena, 1, sizeof *loop);
    const char **names = kn_arena_take(arena, body->input_count, sizeof *names);
    if (!loop || !names) return kn_import_no_memory(call->import);
    for (size_t i = 0; i < body->input_count; i++)
        names[i] = body->inputs[i].name;
    *loop = (kn_loop){.has_count = kn_import_has(call, 0),
                      .has_condition = kn_import_has(call, 1),
                      .variables = variables,
                      .scans = call->output_count - variables,
                      .names = names,
                      .outputs = call->node->outputs};
    call->import->model->loop = loop;
    return KN_OK;
}

/* Adds the value of a name in the file's graph to the outputs, once, if the graph computes it. */
static void add_read(kn_import_call *call, kn_map *added, const char *name) {
    kn_import *import = call->import;
    kn_item *item = *name ? kn_import_item(import, name) : NULL;
    if (!item || item->sequence || item->text || item->sizes || !item->value ||
        item->value->kind != KN_VALUE_RESULT || kn_map_has(added, name, strlen(name)))
        return;
    if (!kn_map_put_text(added, name, item))
        kn_import_no_memory(import);
    else
        kn_import_add_result(import, name, item);
}

/* Adds the values of the file's graph that a body reads. ONNX does not allow a body to reuse their names. */
static void add_reads(kn_import_call *call, kn_map *added, const kn_onnx_graph *body) {
    for (size_t i = 0; i < body->node_count; i++) {
        const kn_onnx_node *node = &body->nodes[i];
        for (size_t j = 0; j < node->input_count; j++)
            add_read(call, added, node->inputs[j]);
        for (size_t j = 0; j < node->attribute_count; j++)
            for (size_t k = 0; k < node->attributes[j].count; k++)
                if (node->attributes[j].kind == KN_ONNX_ATTRIBUTE_GRAPH)
                    add_reads(call, added, &node->attributes[j].graphs[k]);
    }
    for (size_t i = 0; i < body->output_count; i++)
        add_read(call, added, body->outputs[i].name);
}

/* KN_PART_BEFORE_LOOP. */
static kn_status build_before(kn_import_call *call, const kn_onnx_graph *body) {
    kn_map added;
    kn_map_init(&added, &call->import->model->host);
    for (int i = 0; i < call->input_count && kn_import_status(call) == KN_OK; i++) {
        if (!call->inputs[i]) continue;
        if (call->inputs[i]->sequence || call->inputs[i]->text)
            kn_import_fail(
                call, KN_ERROR_UNSUPPORTED,
                "variable %d of a loop that ends on a computed condition is not a tensor of numbers", i - 2);
        kn_import_add_result(call->import, body->inputs[i].name, call->inputs[i]);
    }
    add_reads(call, &added, body);
    kn_map_finish(&added);
    return kn_import_status(call);
}

/* KN_PART_ITERATION. `inputs` and `made` have room for the body's. */
static kn_status build_iteration(kn_import_call *call, const kn_onnx_graph *body, kn_item *inputs,
                                 kn_item *made) {
    kn_import *import = call->import;
    for (size_t i = 0; i < body->input_count && kn_import_status(call) == KN_OK; i++) {
        const kn_model_given *given = kn_import_given(import, body->inputs[i].name);
        if (i == 1)
            set_known(call, KN_BOOL, 1, &inputs[1]);
        else if (given)
            kn_import_take_array(import, given, &inputs[i]);
        else
            kn_import_fail(call, KN_ERROR_ARGUMENT, "the array for '%.100s' is missing",
                           body->inputs[i].name);
    }
    kn_import_subgraph(call, body, inputs, body->input_count, made, body->output_count);
    for (size_t i = 0; i < body->output_count && kn_import_status(call) == KN_OK; i++)
        kn_import_add_result(import, body->outputs[i].name, &made[i]);
    return kn_import_status(call);
}

/* Stacks up to MAX_ITERATIONS values along a new axis: KN_MAX_INPUTS at a time, then the stacks. */
static kn_value *stack_iterations(kn_value *const *values, size_t count, int axis) {
    kn_value *parts[KN_MAX_INPUTS];
    size_t made = 0;
    for (size_t at = 0; at < count; at += KN_MAX_INPUTS)
        parts[made++] = kn_stack(values + at, count - at < KN_MAX_INPUTS ? count - at : KN_MAX_INPUTS, axis);
    return made == 1 ? parts[0] : kn_concat(parts, made, axis);
}

/* Unrolls a loop whose conditions are known; scan outputs are stacked along a new first axis. */
static kn_status loop(kn_import_call *call) {
    const kn_onnx_graph *body = body_of(call, "body");
    int carried = call->input_count > 2 ? call->input_count - 2 : 0, scans = call->output_count - carried;
    int64_t iterations = INT64_MAX;
    if (!body) return kn_import_status(call);
    if (scans < 0 || body->output_count != (size_t)call->output_count + 1 ||
        body->input_count != (size_t)carried + 2)
        return kn_import_fail(call, KN_ERROR_FORMAT,
                              "the body has %zu inputs and %zu outputs; expected %d and %d",
                              body->input_count, body->output_count, carried + 2, call->output_count + 1);
    if (take_results(call)) return KN_OK;
    size_t positions = body->input_count + body->output_count;
    kn_item *inputs = kn_arena_take(call->import->arena, 2 * positions + 2, sizeof *inputs);
    if (!inputs) return kn_import_no_memory(call->import);
    kn_item *made = inputs + body->input_count;
    for (int i = 0; i < carried; i++)
        if (!call->inputs[2 + i])
            return kn_import_fail(call, KN_ERROR_FORMAT,
                                  "the initial value of loop-carried variable %d is missing", i);
    if (has_part(call)) {
        if (describe_loop(call, body, carried) != KN_OK) return kn_import_status(call);
        return call->import->model->part == KN_PART_ITERATION ? build_iteration(call, body, inputs, made)
                                                              : build_before(call, body);
    }
    iterations = kn_import_input_integer(call, 0, iterations);
    int running = kn_import_has(call, 1) ? condition_of(call, call->inputs[1]) : 1;
    const size_t most = (size_t)(iterations > MAX_ITERATIONS ? MAX_ITERATIONS
                                 : iterations > 0            ? iterations
                                                             : 0);
    if (scans > KN_MAX_INPUTS)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "has %d scan outputs; at most %d are supported",
                              scans, KN_MAX_INPUTS);
    kn_value **stacked = kn_arena_take(call->import->arena, (size_t)scans * most + 1, sizeof *stacked);
    if (!stacked) return kn_import_no_memory(call->import);
    kn_dtype types[KN_MAX_INPUTS];
    for (int i = 0; i < carried; i++)
        inputs[2 + i] = *call->inputs[2 + i];
    int64_t iteration = 0;
    for (; running > 0 && iteration < iterations; iteration++) {
        if (iteration == MAX_ITERATIONS) return defer_loop(call, "the loop has too many iterations");
        set_known(call, KN_INT64, iteration, &inputs[0]);
        set_known(call, KN_BOOL, 1, &inputs[1]);
        if (kn_import_subgraph(call, body, inputs, body->input_count, made, body->output_count) != KN_OK)
            return kn_import_status(call);
        running = condition_of(call, &made[0]);
        for (int i = 0; i < carried; i++)
            inputs[2 + i] = made[1 + i];
        for (int i = 0; i < scans; i++) {
            types[i] = made[1 + carried + i].dtype;
            stacked[(size_t)i * most + (size_t)iteration] =
                kn_item_value(call->import, &made[1 + carried + i]);
        }
    }
    if (running < 0) return defer_loop(call, "the loop ends on a computed condition");
    if (kn_import_status(call) != KN_OK) return kn_import_status(call);
    take_outputs(call, inputs + 2, carried);
    for (int i = 0; i < scans; i++) {
        if (!iteration)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "has scan outputs but runs no iteration");
        kn_import_put_as(call, carried + i,
                         stack_iterations(&stacked[(size_t)i * most], (size_t)iteration, 0), types[i]);
    }
    return kn_import_status(call);
}

/* Reads the axis and direction of scan input or output i. */
static int read_scan_axis(kn_import_call *call, const char *side, int i, int rank, bool *backwards) {
    int64_t axes[KN_MAX_INPUTS], directions[KN_MAX_INPUTS];
    char name[40];
    snprintf(name, sizeof name, "scan_%s_axes", side);
    const int given = kn_import_ints(call, name, axes, KN_MAX_INPUTS);
    snprintf(name, sizeof name, "scan_%s_directions", side);
    *backwards = i < kn_import_ints(call, name, directions, KN_MAX_INPUTS) && directions[i] == 1;
    return kn_import_axis(call, i < given ? axes[i] : 0, rank);
}

/* Since opset 9: inputs are states, then scan inputs; the body returns states, then scan outputs. */
static kn_status scan(kn_import_call *call) {
    const kn_onnx_graph *body = body_of(call, "body");
    int walked = (int)kn_import_int(call, "num_scan_inputs", 0), states = call->input_count - walked;
    int stacks = call->output_count - states;
    kn_value *sources[KN_MAX_INPUTS], **stacked;
    int axes[KN_MAX_INPUTS];
    bool backwards[KN_MAX_INPUTS];
    int64_t iterations = -1;
    if (!body) return kn_import_status(call);
    if (call->opset < 9)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "Scan of opset 8 is not supported; expected opset 9 or newer");
    if (walked < 1 || walked > KN_MAX_INPUTS || states < 0 || stacks < 0 || stacks > KN_MAX_INPUTS ||
        body->input_count != (size_t)call->input_count || body->output_count != (size_t)call->output_count)
        return kn_import_fail(call, KN_ERROR_FORMAT,
                              "the body has %zu inputs and %zu outputs, which do not match the node",
                              body->input_count, body->output_count);
    kn_item *inputs = kn_arena_take(call->import->arena, (size_t)call->input_count + 1, sizeof *inputs);
    kn_item *made = kn_arena_take(call->import->arena, (size_t)call->output_count + 1, sizeof *made);
    if (!inputs || !made) return kn_import_no_memory(call->import);
    for (int i = 0; i < call->input_count; i++) {
        if (!call->inputs[i]) return kn_import_fail(call, KN_ERROR_FORMAT, "an input is missing");
        inputs[i] = *call->inputs[i];
        if (i < states) continue;
        int k = i - states;
        sources[k] = kn_import_in(call, i);
        axes[k] = read_scan_axis(call, "input", k, sources[k]->shape.rank, &backwards[k]);
        kn_dim length = sources[k]->shape.dims[axes[k]];
        if (!kn_dim_known(length) || length < 1 || length > MAX_ITERATIONS ||
            (iterations >= 0 && length != iterations))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "expected scanned axes of the same fixed size, at most %d", MAX_ITERATIONS);
        iterations = length;
    }
    const size_t most = (size_t)iterations;
    stacked = kn_arena_take(call->import->arena, (size_t)stacks * most + 1, sizeof *stacked);
    if (!stacked) return kn_import_no_memory(call->import);
    for (int64_t iteration = 0; iteration < iterations; iteration++) {
        for (int k = 0; k < walked; k++) {
            int64_t at = backwards[k] ? iterations - 1 - iteration : iteration;
            const char *axis = kn_import_list(call->import, (int64_t[]){axes[k]}, 1);
            inputs[states + k] = (kn_item){.dtype = kn_import_dtype(call, states + k)};
            inputs[states + k].value = kn_squeeze(kn_slice(sources[k], axes[k], at, at + 1), axis);
        }
        if (kn_import_subgraph(call, body, inputs, body->input_count, made, body->output_count) != KN_OK)
            return kn_import_status(call);
        for (int i = 0; i < states; i++)
            inputs[i] = made[i];
        for (int i = 0; i < stacks; i++)
            stacked[(size_t)i * most + (size_t)iteration] = kn_item_value(call->import, &made[states + i]);
    }
    if (kn_import_status(call) != KN_OK) return kn_import_status(call);
    take_outputs(call, inputs, states);
    for (int i = 0; i < stacks; i++) {
        kn_value **parts = &stacked[(size_t)i * most];
        bool reversed;
        const int axis = read_scan_axis(call, "output", i, parts[0]->shape.rank + 1, &reversed);
        kn_value *y = stack_iterations(parts, most, axis);
        if (reversed) y = kn_flip(y, kn_import_list(call->import, (int64_t[]){axis}, 1));
        kn_import_put_as(call, states + i, y, made[states + i].dtype);
    }
    return kn_import_status(call);
}

/* ---- sequences ----------------------------------------------------------------------------------------- */

static kn_status make_sequence(kn_import_call *call, kn_item *const *parts, size_t count, kn_dtype dtype) {
    kn_item *item = &call->outputs[0];
    item->elements = kn_arena_take(call->import->arena, count + 1, sizeof *item->elements);
    if (!item->elements) return kn_import_no_memory(call->import);
    for (size_t i = 0; i < count; i++)
        item->elements[i] = parts[i];
    item->element_count = count;
    item->sequence = true;
    item->dtype = dtype;
    return kn_import_status(call);
}

static kn_status sequence_construct(kn_import_call *call) {
    for (int i = 0; i < call->input_count; i++)
        if (!call->inputs[i]) return kn_import_fail(call, KN_ERROR_FORMAT, "an input is missing");
    return make_sequence(call, call->inputs, (size_t)call->input_count, kn_import_dtype(call, 0));
}

/* Input 0, a sequence; NULL after a failure. */
static kn_item *take_sequence(kn_import_call *call) {
    if (kn_import_has(call, 0) && call->inputs[0]->sequence) return call->inputs[0];
    kn_import_fail(call, KN_ERROR_FORMAT, "input 0 is not a sequence");
    return NULL;
}

/* A sequence and a position in it, from input `i`, by default the last, or for `more` the position after it.
 */
static kn_item *take_position(kn_import_call *call, int i, bool more, size_t *position) {
    kn_item *sequence = take_sequence(call);
    if (!sequence) return NULL;
    const int64_t count = (int64_t)sequence->element_count;
    int64_t number = kn_import_input_integer(call, i, more ? count : count - 1);
    if (number < 0 && kn_import_has(call, i)) number += count;
    *position = (size_t)number;
    if (number < 0 || number > count - !more)
        kn_import_fail(call, KN_ERROR_ARGUMENT,
                       "position %" PRId64 " is out of range for a sequence of length %" PRId64, number,
                       count);
    return kn_import_status(call) == KN_OK ? sequence : NULL;
}

static kn_status sequence_at(kn_import_call *call) {
    size_t position;
    const kn_item *sequence = take_position(call, 1, false, &position);
    if (sequence) take_outputs(call, sequence->elements[position], 1);
    return kn_import_status(call);
}

static kn_status sequence_insert(kn_import_call *call) {
    size_t position;
    const kn_item *sequence = take_position(call, 2, true, &position);
    if (!sequence) return kn_import_status(call);
    if (!kn_import_has(call, 1)) return kn_import_fail(call, KN_ERROR_FORMAT, "input 1 is missing");
    kn_item **parts = kn_arena_take(call->import->arena, sequence->element_count + 1, sizeof *parts);
    if (!parts) return kn_import_no_memory(call->import);
    for (size_t i = 0; i <= sequence->element_count; i++)
        parts[i] = i == position ? call->inputs[1] : sequence->elements[i < position ? i : i - 1];
    return make_sequence(call, parts, sequence->element_count + 1, sequence->dtype);
}

static kn_status sequence_erase(kn_import_call *call) {
    size_t position, count = 0;
    const kn_item *sequence = take_position(call, 1, false, &position);
    if (!sequence) return kn_import_status(call);
    kn_item **parts = kn_arena_take(call->import->arena, sequence->element_count + 1, sizeof *parts);
    if (!parts) return kn_import_no_memory(call->import);
    for (size_t i = 0; i < sequence->element_count; i++)
        if (i != position) parts[count++] = sequence->elements[i];
    return make_sequence(call, parts, count, sequence->dtype);
}

static kn_status sequence_length(kn_import_call *call) {
    const kn_item *sequence = take_sequence(call);
    if (sequence) set_known(call, KN_INT64, (int64_t)sequence->element_count, &call->outputs[0]);
    return kn_import_status(call);
}

static kn_status split_to_sequence(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t sizes[KN_MAX_INPUTS];
    kn_value *values[KN_MAX_INPUTS];
    kn_item *parts[KN_MAX_INPUTS];
    int axis, count = 0;
    bool given = kn_import_has(call, 1), keep = given || kn_import_int(call, "keepdims", 1) != 0;
    axis = kn_import_axis(call, kn_import_int(call, "axis", 0), x->shape.rank);
    int64_t size = x->shape.dims[axis];
    if (given) kn_import_integers(call, 1, sizes, KN_MAX_INPUTS, &count);
    bool alike = !given || kn_value_rank(call->inputs[1]->value) == 0;
    if (alike && (!given || count == 1) && (!given || call->inputs[1]->rank == 0)) {
        int64_t part_size = given ? sizes[0] : 1;
        if (!kn_dim_known(size) || part_size < 1 || (size + part_size - 1) / part_size > KN_MAX_INPUTS)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "cannot split an axis of dynamic size, or into more than %d tensors",
                                  KN_MAX_INPUTS);
        for (count = 0; count * part_size < size; count++)
            sizes[count] = (count + 1) * part_size <= size ? part_size : size - count * part_size;
    }
    if (kn_split(x, axis, sizes, (size_t)count, values) != KN_OK) return kn_import_status(call);
    for (int i = 0; i < count; i++) {
        parts[i] = kn_arena_take(call->import->arena, 1, sizeof **parts);
        if (!parts[i]) return kn_import_no_memory(call->import);
        kn_value *part =
            keep ? values[i] : kn_squeeze(values[i], kn_import_list(call->import, (int64_t[]){axis}, 1));
        *parts[i] =
            (kn_item){.name = call->outputs[0].name, .dtype = kn_import_dtype(call, 0), .value = part};
    }
    return make_sequence(call, parts, (size_t)count, kn_import_dtype(call, 0));
}

static kn_status concat_from_sequence(kn_import_call *call) {
    const kn_item *sequence = take_sequence(call);
    kn_value *values[KN_MAX_INPUTS];
    if (!sequence) return kn_import_status(call);
    const size_t count = sequence->element_count;
    if (!count || count > KN_MAX_INPUTS)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the sequence has %zu elements; expected 1 to %d",
                              count, KN_MAX_INPUTS);
    for (size_t i = 0; i < count; i++)
        values[i] = kn_item_value(call->import, sequence->elements[i]);
    const bool fresh = kn_import_int(call, "new_axis", 0) != 0;
    const int axis = kn_import_axis(call, kn_import_int(call, "axis", 0), values[0]->shape.rank + fresh);
    return kn_import_put_as(call, 0, fresh ? kn_stack(values, count, axis) : kn_concat(values, count, axis),
                            sequence->dtype);
}

static kn_status sequence_empty(kn_import_call *call) {
    kn_dtype dtype = KN_FLOAT32;
    kn_onnx_type_to((kn_onnx_type)kn_import_int(call, "dtype", 1), &dtype);
    return make_sequence(call, NULL, 0, dtype);
}

static kn_status optional(kn_import_call *call) {
    return make_sequence(call, call->inputs, kn_import_has(call, 0), kn_import_dtype(call, 0));
}

static kn_status optional_get(kn_import_call *call) {
    if (!kn_import_has(call, 0)) return kn_import_fail(call, KN_ERROR_FORMAT, "input 0 is missing");
    const kn_item *item = call->inputs[0];
    if (item->sequence && item->element_count == 1) item = item->elements[0];
    take_outputs(call, item, 1);
    return kn_import_status(call);
}

static kn_status optional_has(kn_import_call *call) {
    const bool has = kn_import_has(call, 0) && (!call->inputs[0]->sequence || call->inputs[0]->element_count);
    set_known(call, KN_BOOL, has, &call->outputs[0]);
    return kn_import_status(call);
}

/* Applies a body to each element of input 0; of other inputs that are sequences, to the element at that
 * position. */
static kn_status sequence_map(kn_import_call *call) {
    const kn_onnx_graph *body = body_of(call, "body");
    const kn_item *sequence = body ? take_sequence(call) : NULL;
    if (!sequence) return kn_import_status(call);
    kn_arena *arena = call->import->arena;
    const size_t count = sequence->element_count, inputs = (size_t)call->input_count,
                 outputs = (size_t)call->output_count;
    kn_item *given = kn_arena_take(arena, inputs + 1, sizeof *given);
    kn_item *made = kn_arena_take(arena, count * outputs + 1, sizeof *made);
    if (!given || !made) return kn_import_no_memory(call->import);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < inputs; k++) {
            const kn_item *input = call->inputs[k];
            if (!input || (input->sequence && input->element_count != count))
                return kn_import_fail(call, KN_ERROR_FORMAT, "input %zu is missing, or has another length",
                                      k);
            given[k] = input->sequence ? *input->elements[i] : *input;
        }
        if (kn_import_subgraph(call, body, given, inputs, made + i * outputs, outputs) != KN_OK)
            return kn_import_status(call);
    }
    for (size_t k = 0; k < outputs; k++) {
        kn_item *item = &call->outputs[k];
        item->sequence = true;
        item->element_count = count;
        item->dtype = count ? made[k].dtype : sequence->dtype;
        item->elements = kn_arena_take(arena, count + 1, sizeof *item->elements);
        if (!item->elements) return kn_import_no_memory(call->import);
        for (size_t i = 0; i < count; i++)
            item->elements[i] = &made[i * outputs + k];
    }
    return kn_import_status(call);
}

const kn_import_row kn_import_control[] = {
    {.type = "If", .build = if_branch},
    {.type = "Loop", .build = loop},
    {.type = "Scan", .build = scan},
    {.type = "SequenceConstruct", .build = sequence_construct},
    {.type = "SequenceAt", .build = sequence_at},
    {.type = "SequenceInsert", .build = sequence_insert},
    {.type = "SequenceErase", .build = sequence_erase},
    {.type = "SequenceLength", .build = sequence_length},
    {.type = "SplitToSequence", .build = split_to_sequence},
    {.type = "SequenceMap", .build = sequence_map},
    {.type = "ConcatFromSequence", .build = concat_from_sequence},
    {.type = "SequenceEmpty", .build = sequence_empty},
    {.type = "Optional", .build = optional},
    {.type = "OptionalGetElement", .build = optional_get},
    {.type = "OptionalHasElement", .build = optional_has},
};
const int kn_import_control_count = (int)KN_COUNT_OF(kn_import_control);
