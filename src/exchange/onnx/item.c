/* Items, which names of the file refer to, as values of the graph or as numbers known during the build; and
 * what builders read from a node. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <math.h>

/* ---- values -------------------------------------------------------------------------------------------- */

kn_dim kn_dim_of(kn_graph *graph, int64_t number) {
    if (number >= 0) return number;
    return kn_dim_subtract(graph, 0, number == INT64_MIN ? INT64_MAX : -number);
}

static bool all_numbers(const kn_import *import, const kn_item *item, int64_t *numbers) {
    for (int i = 0; i < item->count; i++)
        if (!kn_dim_constant(import->graph, item->sizes[i], &numbers[i])) return false;
    return true;
}

/* The value of a symbol when the model runs, int64 (1), computed as a sum of that many ones. */
static kn_value *symbol_value(kn_import *import, kn_dim dim) {
    kn_value *one = kn_import_scalar(import, KN_INT32, 1);
    kn_value *ones = kn_import_broadcast(import, one, &dim, 1);
    return kn_cast(kn_sum(ones, "0", true), KN_INT64);
}

static kn_value *sizes_value(kn_import *import, const kn_item *item) {
    int64_t *numbers = kn_arena_take(import->arena, (size_t)item->count + 1, sizeof *numbers);
    kn_value *parts[KN_MAX_INPUTS];
    if (!numbers) return kn_graph_fail(import->graph, KN_ERROR_MEMORY, "out of host memory");
    if (all_numbers(import, item, numbers)) {
        kn_value *whole = kn_import_constant(import, KN_INT64, numbers, item->shape, item->rank);
        return kn_import_cast(whole, item->dtype);
    }
    if (item->count > KN_MAX_INPUTS)
        return kn_graph_fail(import->graph, KN_ERROR_UNSUPPORTED,
                             "a tensor contains more than %d dynamic sizes", KN_MAX_INPUTS);
    for (int i = 0; i < item->count; i++) {
        int64_t number;
        if (kn_dim_constant(import->graph, item->sizes[i], &number))
            parts[i] = kn_import_reshape(import, kn_import_scalar(import, KN_INT64, (double)number),
                                         (kn_dim[]){1}, 1);
        else
            parts[i] = symbol_value(import, item->sizes[i]);
    }
    kn_value *joined = item->count == 1 ? parts[0] : kn_concat(parts, (size_t)item->count, 0);
    return kn_import_cast(kn_import_reshape(import, joined, item->shape, item->rank), item->dtype);
}

/* Whether an initializer can be a state: its elements are finite floating-point numbers, and no operator
 * needs to know them. */
static bool is_state(const kn_import *import, const kn_item *item) {
    const kn_onnx_tensor *tensor = item->tensor;
    if (!item->initializer || !kn_dtype_is_float(item->dtype) || tensor->count < 1 ||
        kn_map_has(&import->constants, &tensor, sizeof tensor))
        return false;
    return kn_onnx_tensor_finite(tensor);
}

/* Whether an initializer is trainable; in a branch or body, whether it has an axis. */
static bool is_trainable(const kn_import *import, const kn_item *item) {
    const kn_trainability *decided = kn_import_trainability(kn_imported_of(import->model), item->tensor);
    return (decided ? decided->yes : item->tensor->rank > 0) && is_state(import, item);
}

static kn_value *keep_state(kn_import *import, kn_value *value, const kn_onnx_tensor *tensor) {
    void *states = import->states;
    size_t before = import->state_capacity;
    if (import->state_count == before) {
        size_t more = before ? 2 * before : 64;
        states = kn_arena_take(import->arena, more, sizeof *import->states);
        if (!states) return kn_graph_fail(import->graph, KN_ERROR_MEMORY, "out of host memory");
        if (before) memcpy(states, import->states, before * sizeof *import->states);
        import->state_capacity = more;
        import->states = states;
    }
    import->states[import->state_count++] = (kn_import_state){value, tensor};
    return value;
}

/* Unpacks integers of 4 or 2 bits, which the device stores packed and unpacks in each run. */
static kn_value *unpacked(kn_import *import, const kn_item *item) {
    const kn_onnx_tensor *tensor = item->tensor;
    int64_t bytes = (int64_t)tensor->byte_count, each = 8 / item->bits;
    kn_value *packed = kn_import_constant(import, KN_UINT8, tensor->bytes, &bytes, 1);
    kn_value *numbers = kn_unpack_bits(packed, item->bits);
    if (item->dtype == KN_INT8) { /* sign extension */
        kn_value *sign = kn_import_scalar(import, KN_INT8, 1 << (item->bits - 1));
        numbers = kn_sub(kn_bit_xor(kn_cast(numbers, KN_INT8), sign), sign);
    }
    if ((int64_t)tensor->count != bytes * each)
        numbers = kn_import_slice(import, numbers, 0, 0, (int64_t)tensor->count, 1);
    return kn_import_reshape(import, numbers, tensor->shape, (int)tensor->rank);
}

kn_value *kn_item_statistic(kn_import *import, kn_item *item) {
    kn_value *value = item->value;
    if (value) return value->kind == KN_VALUE_STATE && value->role == KN_STATE_STATISTIC ? value : NULL;
    if (!item->tensor || item->sizes || item->tensor->rank != 1 || !is_state(import, item)) return NULL;
    const kn_onnx_tensor *tensor = item->tensor;
    const char *name = kn_import_weight_name(import, tensor, &value);
    if (value) return value->role == KN_STATE_STATISTIC ? item->value = value : NULL;
    const kn_initializer start = {KN_INITIALIZER_FILL, 0};
    const kn_shape shape = {
        .dtype = kn_is_half(item->dtype) ? KN_FLOAT32 : item->dtype, .rank = 1, .dims = {tensor->shape[0]}};
    value = name ? kn_state_add(import->graph, name, &shape, KN_STATE_STATISTIC, &start) : NULL;
    if (kn_value_failed(value)) return NULL;
    return item->value = keep_state(import, value, tensor);
}

static kn_value *tensor_value(kn_import *import, kn_item *item) {
    const kn_onnx_tensor *tensor = item->tensor;
    const kn_host *host = &import->model->host;
    kn_graph *graph = import->graph;
    kn_array array = {.rank = 0};
    kn_error error = {0};
    kn_value *value = NULL;
    if (tensor->rank > KN_MAX_RANK)
        return kn_graph_fail(graph, KN_ERROR_UNSUPPORTED,
                             "'%.100s' has %zu dimensions; at most %d are supported", tensor->name,
                             tensor->rank, KN_MAX_RANK);
    const char *shape = kn_import_list(import, tensor->shape, (int)tensor->rank);
    kn_dtype computed = kn_is_half(item->dtype) ? KN_FLOAT32 : item->dtype;
    if (is_trainable(import, item)) {
        const kn_initializer start = {KN_INITIALIZER_FILL, 0};
        const char *name = kn_import_weight_name(import, tensor, &value);
        if (value) return value; /* from an earlier iteration of a loop */
        value = kn_parameter(graph, name ? name : "", computed, shape, &start);
        if (computed != item->dtype) kn_store_as(value, item->dtype);
        return kn_value_failed(value) ? value : keep_state(import, value, tensor);
    }
    if (item->bits && tensor->count > KN_IMPORT_SIZES) return unpacked(import, item);
    if (kn_onnx_tensor_array(host, tensor, &array, &error) != KN_OK)
        return kn_graph_fail(graph, error.status, "%s", error.text);
    value = kn_constant(graph, item->dtype, shape, array.bytes, (size_t)array.byte_count);
    if (computed != item->dtype && !kn_value_failed(value)) {
        kn_shape as = value->shape;
        float *numbers = kn_allocate(host, (size_t)array.count + 1, sizeof *numbers);
        as.dtype = computed;
        for (uint64_t i = 0; numbers && i < array.count; i++)
            numbers[i] = (float)kn_array_number(&array, i);
        value = numbers ? kn_constant_add(graph, &as, numbers, (size_t)array.count * sizeof *numbers)
                        : kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory");
        kn_release(host, numbers);
    }
    kn_array_finish(host, &array);
    return value;
}

kn_value *kn_item_value(kn_import *import, kn_item *item) {
    if (item->sequence)
        return kn_graph_fail(import->graph, KN_ERROR_UNSUPPORTED, "'%.100s' is a sequence; expected a tensor",
                             item->name);
    if (!item->value && item->sizes) item->value = sizes_value(import, item);
    if (!item->value && item->tensor) item->value = tensor_value(import, item);
    if (!item->value)
        return kn_graph_fail(import->graph, KN_ERROR_UNSUPPORTED,
                             "'%.100s' is an output that Koine does not compute", item->name);
    if (kn_is_half(item->value->shape.dtype)) item->value = kn_cast(item->value, KN_FLOAT32);
    return item->value;
}

kn_shape kn_item_shape(kn_import *import, kn_item *item) {
    kn_shape shape = {.dtype = item->dtype};
    if (!item->value && item->sizes) {
        shape.rank = item->rank;
        memcpy(shape.dims, item->shape, sizeof shape.dims);
    } else if (!item->value && item->tensor && item->tensor->rank <= KN_MAX_RANK) {
        shape.rank = (int)item->tensor->rank;
        for (int i = 0; i < shape.rank; i++)
            shape.dims[i] = item->tensor->shape[i];
    } else {
        shape = kn_item_value(import, item)->shape;
        shape.dtype = item->dtype;
    }
    return shape;
}

kn_shape kn_import_input_shape(kn_import_call *call, int i) {
    if (kn_import_has(call, i)) return kn_item_shape(call->import, call->inputs[i]);
    kn_import_fail(call, KN_ERROR_FORMAT, "input %d is missing", i);
    return (kn_shape){.rank = 0};
}

kn_value *kn_import_in(kn_import_call *call, int i) {
    return kn_import_has(call, i) ? kn_item_value(call->import, call->inputs[i])
                                  : kn_import_reject(call, KN_ERROR_FORMAT, "input %d is missing", i);
}

kn_value *kn_import_optional(kn_import_call *call, int i) {
    return kn_import_has(call, i) ? kn_item_value(call->import, call->inputs[i]) : NULL;
}

kn_value *kn_import_input_scalar(kn_import_call *call, int i) {
    kn_value *value = kn_import_optional(call, i);
    return value && value->shape.rank == 1 && value->shape.dims[0] == 1
               ? kn_import_reshape(call->import, value, NULL, 0)
               : value;
}

int kn_import_bits(const kn_import_call *call, int i) {
    return kn_import_has(call, i) ? call->inputs[i]->bits : 0;
}

bool kn_item_type(kn_onnx_type type, kn_dtype *dtype, int *bits) {
    int each = kn_onnx_type_bits(type);
    bool fits = kn_onnx_type_to(type, dtype);
    *bits = fits && each < 8 && !kn_is_small_float(*dtype) ? each : 0;
    return fits;
}

kn_dtype kn_import_dtype(const kn_import_call *call, int i) {
    return kn_import_has(call, i) ? call->inputs[i]->dtype : KN_FLOAT32;
}

kn_status kn_import_put_as(kn_import_call *call, int i, kn_value *value, kn_dtype dtype) {
    if (!value) return kn_import_no_memory(call->import);
    if (i < call->output_count) {
        call->outputs[i].value = value;
        call->outputs[i].dtype = dtype;
    }
    return kn_import_status(call);
}

kn_status kn_import_put(kn_import_call *call, int i, kn_value *value) {
    if (!value) return kn_import_no_memory(call->import);
    kn_dtype dtype = value->shape.dtype;
    for (int j = 0; dtype == KN_FLOAT32 && j < call->input_count; j++)
        if (call->inputs[j] && kn_is_half(call->inputs[j]->dtype)) dtype = call->inputs[j]->dtype;
    return kn_import_put_as(call, i, value, dtype);
}

/* ---- known numbers ------------------------------------------------------------------------------------- */

/* Ends this build of the graph: in the next one, another value is a constant. */
static void build_again(kn_import *import) {
    import->again = true;
    kn_graph_fail(import->graph, KN_ERROR_UNSUPPORTED, "the value of an input or initializer must be known");
}

/* Marks the inputs with given arrays and the initializers that a value depends on, so that they are constants
 * in the next build. */
static void want_leaf(kn_import *import, const kn_value *value) {
    for (const kn_import_scope *scope = import->scope; scope && value->kind == KN_VALUE_INPUT;
         scope = scope->outer) {
        size_t position = 0;
        for (const kn_map_entry *entry; (entry = kn_map_next(&scope->items, &position)) != NULL;) {
            const kn_item *item = entry->value;
            if (!item->wanted || *item->wanted) continue;
            const kn_value *made = item->value;
            if (made && made->kind == KN_VALUE_RESULT)
                made = made->producer->inputs[0]; /* the float32 copy of a 16-bit float */
            if (made != value) continue;
            if (item->given && item->given->data) {
                *item->wanted = true;
                build_again(import);
            } else {
                import->lacks = true;
            }
        }
    }
    for (size_t i = 0; i < import->state_count && value->kind == KN_VALUE_STATE; i++) {
        const kn_onnx_tensor *tensor = import->states[i].tensor;
        if (import->states[i].value == value && tensor->count <= KN_IMPORT_KNOWN &&
            !kn_map_has(&import->constants, &tensor, sizeof tensor) &&
            kn_map_put(&import->constants, &tensor, sizeof tensor, import))
            build_again(import);
    }
}

/* Whether an item is in the file's graph, and not in a function, a branch or a body. */
static bool is_outermost(const kn_import *import, const kn_item *item) {
    const kn_import_scope *scope = import->scope;
    while (scope->outer)
        scope = scope->outer;
    return item->name && kn_map_get_text(&scope->items, item->name) == item;
}

static void want_leaves(kn_import *import, const kn_value *value) {
    const kn_graph *graph = import->graph;
    if (import->probing) {
        import->spared = true;
        return;
    }
    bool *needed = kn_allocate(&import->model->host, graph->node_count + 1, sizeof *needed);
    if (!needed) return;
    if (value->producer)
        needed[value->producer->id] = true;
    else
        want_leaf(import, value);
    for (size_t i = graph->node_count; i-- > 0;) {
        const kn_node *node = graph->nodes[i];
        for (int j = 0; needed[i] && j < node->input_count; j++) {
            if (!node->inputs[j]) continue;
            if (node->inputs[j]->producer)
                needed[node->inputs[j]->producer->id] = true;
            else
                want_leaf(import, node->inputs[j]);
        }
    }
    kn_release(&import->model->host, needed);
}

static void info_of(const kn_value *value, kn_tensor_info *info) {
    *info = (kn_tensor_info){.dtype = value->shape.dtype, .rank = value->shape.rank};
    for (int i = 0; i < info->rank; i++)
        info->shape[i] = value->shape.dims[i];
}

/* Computes the value on the host if it depends on constants only. */
static bool folded(kn_import *import, kn_value *value, kn_tensor_info *info, const void **data) {
    kn_graph *bound = NULL;
    kn_value *result = NULL;
    kn_error error = {0};
    const kn_bind_request request = {.bindings = NULL};
    if (kn_graph_bind(import->graph, &value, 1, &request, &bound, &result, &error) != KN_OK) return false;
    bool known = result->kind == KN_VALUE_CONSTANT;
    if (known) {
        info_of(result, info);
        *data = kn_arena_copy(import->arena, result->data, result->data_bytes + 1, 1);
        known = *data || (kn_import_no_memory(import), false);
    }
    kn_graph_destroy(&bound);
    return known;
}

static bool known_tensor(kn_import *import, const kn_item *item, kn_tensor_info *info, const void **data) {
    kn_array array;
    kn_error error = {0};
    if (item->tensor->count > KN_IMPORT_KNOWN ||
        kn_onnx_tensor_array(&import->model->host, item->tensor, &array, &error) != KN_OK)
        return false;
    *info = (kn_tensor_info){.dtype = array.type, .rank = array.rank};
    memcpy(info->shape, array.shape, sizeof info->shape);
    void *copy = kn_arena_take(import->arena, (size_t)array.byte_count + 8, 1);
    if (copy && array.byte_count) memcpy(copy, array.bytes, (size_t)array.byte_count);
    *data = copy;
    kn_array_finish(&import->model->host, &array);
    if (!copy) kn_import_no_memory(import);
    return copy;
}

bool kn_item_known(kn_import *import, kn_item *item, kn_tensor_info *info, const void **data) {
    if (item->sequence || kn_graph_status(import->graph) != KN_OK) return false;
    if (item->tensor) return known_tensor(import, item, info, data);
    if (item->sizes) {
        int64_t *numbers = kn_arena_take(import->arena, (size_t)item->count + 1, sizeof *numbers);
        if (!numbers) return kn_import_no_memory(import), false;
        *info = (kn_tensor_info){.dtype = KN_INT64, .rank = item->rank};
        memcpy(info->shape, item->shape, sizeof info->shape);
        *data = numbers;
        return all_numbers(import, item, numbers);
    }
    kn_value *value = item->value;
    if (kn_value_failed(value)) return false;
    int64_t elements = kn_shape_elements(&value->shape);
    if (elements < 0 || elements > KN_IMPORT_KNOWN) return false;
    if (value->kind == KN_VALUE_CONSTANT) {
        info_of(value, info);
        *data = value->data;
        return true;
    }
    if (value->kind == KN_VALUE_RESULT && folded(import, value, info, data)) return true;
    want_leaves(import, value);
    if (import->lacks && is_outermost(import, item)) {
        import->missing = item->name;
        import->missing_loop = false;
    }
    return false;
}

bool kn_item_sized(kn_import *import, kn_item *item) {
    kn_tensor_info info;
    const void *data;
    uint64_t elements = 0;
    if (!item) return false;
    if (item->sizes) return true;
    if (item->sequence || kn_dtype_is_float(item->dtype) || kn_is_small_float(item->dtype) ||
        item->dtype == KN_UINT64)
        return false;
    if (item->tensor && item->tensor->count > KN_IMPORT_SIZES) return false;
    if (!kn_item_known(import, item, &info, &data)) return false;
    if (!kn_tensor_elements(&info, &elements) || elements > KN_IMPORT_SIZES) return false;
    kn_dim *sizes = kn_arena_take(import->arena, (size_t)elements + 1, sizeof *sizes);
    if (!sizes) return kn_import_no_memory(import), false;
    for (int64_t i = 0; i < (int64_t)elements; i++) {
        int64_t number = info.dtype == KN_INT64 ? ((const int64_t *)data)[i]
                                                : (int64_t)kn_element_get(info.dtype, data, i);
        sizes[i] = kn_dim_of(import->graph, number);
    }
    item->sizes = sizes;
    item->count = (int)elements;
    item->rank = info.rank;
    memcpy(item->shape, info.shape, sizeof item->shape);
    return true;
}

/* Reads the integer in a floating-point constant of one element that is not trained. */
static bool whole_constant(kn_import *import, kn_item *item, int64_t *number) {
    kn_tensor_info info;
    const void *data;
    uint64_t elements = 0;
    const bool constant = item->tensor || (item->value && item->value->kind == KN_VALUE_CONSTANT);
    const kn_trainability *decided =
        item->initializer ? kn_import_trainability(kn_imported_of(import->model), item->tensor) : NULL;
    if (!kn_dtype_is_float(item->dtype) || !constant || (decided && decided->yes) ||
        !kn_item_known(import, item, &info, &data) || !kn_tensor_elements(&info, &elements) || elements != 1)
        return false;
    double found = kn_element_get(info.dtype, data, 0);
    *number = fabs(found) < (1 << 24) ? (int64_t)found : 0;
    return found == (double)*number;
}

kn_item *kn_item_integers(kn_import *import, kn_item *item) {
    int64_t number;
    if (!item || kn_item_sized(import, item)) return item;
    if (item->sequence || !whole_constant(import, item, &number)) return NULL;
    kn_item *copy = kn_arena_copy(import->arena, item, 1, sizeof *item);
    kn_dim *sizes = kn_arena_take(import->arena, 1, sizeof *sizes);
    if (!copy || !sizes) return NULL;
    const kn_shape shape = kn_item_shape(import, item);
    *sizes = kn_dim_of(import->graph, number);
    copy->sizes = sizes;
    copy->count = 1;
    copy->rank = shape.rank;
    memcpy(copy->shape, shape.dims, sizeof copy->shape);
    return copy;
}

static kn_status fail_unknown(kn_import_call *call, int i) {
    if (!kn_import_has(call, i)) return kn_import_fail(call, KN_ERROR_FORMAT, "input %d is missing", i);
    return kn_import_fail(
        call, KN_ERROR_UNSUPPORTED,
        "the values of '%.100s' must be constant, since shapes or control flow depend on them",
        call->node->inputs[i]);
}

kn_status kn_import_dims(kn_import_call *call, int i, kn_dim *dims, int most, int *count) {
    kn_item *item = kn_import_has(call, i) ? call->inputs[i] : NULL;
    if (count) *count = 0;
    if (!kn_item_sized(call->import, item)) return fail_unknown(call, i);
    if (count ? item->count > most : item->count != most)
        return kn_import_fail(call, KN_ERROR_FORMAT, "'%.100s' has %d numbers; expected %s%d", item->name,
                              item->count, count ? "at most " : "", most);
    for (int k = 0; k < item->count; k++)
        dims[k] = item->sizes[k];
    if (count) *count = item->count;
    return kn_import_status(call);
}

kn_status kn_import_integers(kn_import_call *call, int i, int64_t *numbers, int most, int *count) {
    int found = most;
    if (count) *count = 0;
    if (kn_import_dims(call, i, numbers, most, count ? &found : NULL) != KN_OK) return kn_import_status(call);
    for (int k = 0; k < found; k++)
        if (!kn_dim_constant(call->graph, numbers[k], &numbers[k]))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "'%.100s' depends on dynamic sizes; expected a constant",
                                  call->inputs[i]->name);
    if (count) *count = found;
    return kn_import_status(call);
}

kn_status kn_import_numbers(kn_import_call *call, int i, double *numbers, int most, int *count) {
    kn_tensor_info info;
    const void *data;
    uint64_t elements = 0;
    if (count) *count = 0;
    if (!kn_import_has(call, i) || !kn_item_known(call->import, call->inputs[i], &info, &data))
        return fail_unknown(call, i);
    kn_tensor_elements(&info, &elements);
    if (count ? elements > (uint64_t)most : elements != (uint64_t)most)
        return kn_import_fail(call, KN_ERROR_FORMAT, "'%.100s' has %" PRIu64 " numbers; expected %s%d",
                              call->inputs[i]->name, elements, count ? "at most " : "", most);
    for (int64_t k = 0; k < (int64_t)elements; k++)
        numbers[k] = kn_element_get(info.dtype, data, k);
    if (count) *count = (int)elements;
    return kn_import_status(call);
}

kn_status kn_import_known(kn_import_call *call, int i, kn_tensor_info *info, const void **data) {
    if (kn_import_has(call, i) && kn_item_known(call->import, call->inputs[i], info, data)) return KN_OK;
    return kn_import_status(call) == KN_OK ? fail_unknown(call, i) : kn_import_status(call);
}

int64_t kn_import_input_integer(kn_import_call *call, int i, int64_t usual) {
    if (kn_import_has(call, i)) kn_import_integers(call, i, &usual, 1, NULL);
    return usual;
}

double kn_import_input_number(kn_import_call *call, int i, double usual) {
    if (kn_import_has(call, i)) kn_import_numbers(call, i, &usual, 1, NULL);
    return usual;
}

/* ---- attributes ---------------------------------------------------------------------------------------- */

/* In a function, an attribute may refer to an attribute of the calling node, or to its default. */
static const kn_onnx_attribute *follow(const kn_import *import, const kn_onnx_attribute *attribute) {
    const kn_import_scope *scope = import->scope;
    while (attribute && *attribute->reference) {
        while (scope && !scope->definition)
            scope = scope->outer;
        if (!scope) return NULL;
        const kn_onnx_attribute *found = kn_onnx_find_attribute(scope->call->node, attribute->reference);
        for (size_t i = 0; !found && i < scope->definition->attribute_count; i++)
            if (!strcmp(scope->definition->attributes[i].name, attribute->reference))
                found = &scope->definition->attributes[i];
        scope = scope->outer;
        attribute = found;
    }
    return attribute;
}

const kn_onnx_attribute *kn_import_attribute(const kn_import_call *call, const char *name) {
    return follow(call->import, kn_onnx_find_attribute(call->node, name));
}

/* The attribute of that kind; NULL if it is not given or, after a failure, of a different kind. */
static const kn_onnx_attribute *attribute_of(const kn_import_call *call, const char *name,
                                             kn_onnx_attribute_kind kind) {
    const kn_onnx_attribute *found = kn_import_attribute(call, name);
    if (!found || found->kind == kind) return found;
    kn_import_fail(call, KN_ERROR_FORMAT, "attribute '%s' is %s; expected %s", name,
                   kn_onnx_attribute_kind_name(found->kind), kn_onnx_attribute_kind_name(kind));
    return NULL;
}

int64_t kn_import_int(const kn_import_call *call, const char *name, int64_t usual) {
    const kn_onnx_attribute *found = attribute_of(call, name, KN_ONNX_ATTRIBUTE_INT);
    return found ? found->ints[0] : usual;
}

double kn_import_float(const kn_import_call *call, const char *name, double usual) {
    const kn_onnx_attribute *found = attribute_of(call, name, KN_ONNX_ATTRIBUTE_FLOAT);
    return found ? (double)found->floats[0] : usual;
}

const char *kn_import_string(const kn_import_call *call, const char *name, const char *usual) {
    const kn_onnx_attribute *found = attribute_of(call, name, KN_ONNX_ATTRIBUTE_STRING);
    if (!found) return usual;
    const char *text = kn_arena_format(call->import->arena, "%.*s",
                                       (int)(found->strings[0].count < 4096 ? found->strings[0].count : 4096),
                                       found->strings[0].bytes ? found->strings[0].bytes : "");
    return text ? text : usual;
}

int kn_import_ints(kn_import_call *call, const char *name, int64_t *numbers, int most) {
    const kn_onnx_attribute *found = kn_import_attribute(call, name);
    if (found && found->kind != KN_ONNX_ATTRIBUTE_INT)
        found = attribute_of(call, name, KN_ONNX_ATTRIBUTE_INTS);
    if (!found) return -1;
    if (found->count > (size_t)most) {
        kn_import_fail(call, KN_ERROR_UNSUPPORTED, "attribute '%s' has %zu numbers; at most %d are supported",
                       name, found->count, most);
        return -1;
    }
    if (found->count) memcpy(numbers, found->ints, found->count * sizeof *numbers);
    return (int)found->count;
}

/* ---- for builders -------------------------------------------------------------------------------------- */

int kn_import_axis(const kn_import_call *call, int64_t number, int rank) {
    if (number >= -rank && number < rank) return (int)(number < 0 ? number + rank : number);
    kn_import_fail(call, KN_ERROR_SHAPE, "axis %" PRId64 " is out of range for rank %d", number, rank);
    return 0;
}

kn_value *kn_import_scalar(kn_import *import, kn_dtype dtype, double number) {
    uint64_t element = 0;
    const kn_shape scalar = {.dtype = dtype};
    kn_element_set(dtype, &element, 0, number);
    return kn_constant_add(import->graph, &scalar, &element, kn_dtype_bytes(dtype));
}

kn_value *kn_import_constant(kn_import *import, kn_dtype dtype, const void *data, const int64_t *dims,
                             int rank) {
    size_t bytes = kn_dtype_bytes(dtype);
    for (int i = 0; i < rank; i++)
        bytes *= (size_t)dims[i];
    return kn_constant(import->graph, dtype, kn_import_list(import, dims, rank), data, bytes);
}

kn_value *kn_import_reshape(kn_import *import, kn_value *x, const kn_dim *dims, int rank) {
    if (kn_value_failed(x)) return x;
    bool same = rank == x->shape.rank;
    for (int i = 0; same && i < rank; i++)
        same = dims[i] == x->shape.dims[i];
    return same ? x : kn_reshape(x, kn_import_dims_text(import, dims, rank));
}

/* Moves an axis of x to position `to`. */
static kn_value *with_axis_at(kn_import *import, kn_value *x, int from, int to) {
    int64_t order[KN_MAX_RANK];
    if (kn_value_failed(x) || x->shape.rank < 3) return x;
    for (int i = 0, at = 0; i < x->shape.rank; i++)
        order[i] = i == to ? from : (at += at == from, at++);
    return kn_transpose(x, kn_import_list(import, order, x->shape.rank));
}

kn_value *kn_import_channels_second(kn_import *import, kn_value *x) {
    return kn_value_failed(x) ? x : with_axis_at(import, x, x->shape.rank - 1, 1);
}

kn_value *kn_import_channels_last(kn_import *import, kn_value *x) {
    return kn_value_failed(x) ? x : with_axis_at(import, x, 1, x->shape.rank - 1);
}

kn_value *kn_import_broadcast(kn_import *import, kn_value *x, const kn_dim *dims, int rank) {
    return kn_broadcast(x, kn_import_dims_text(import, dims, rank));
}

kn_value *kn_import_cast(kn_value *x, kn_dtype dtype) {
    return kn_value_failed(x) || x->shape.dtype == dtype ? x : kn_cast(x, dtype);
}

kn_value *kn_import_slice(kn_import *import, kn_value *x, int axis, int64_t begin, int64_t end,
                          int64_t step) {
    if (kn_value_failed(x)) return x;
    const char *text = kn_arena_format(
        import->arena, "axis=%d begin=%" PRId64 " end=%" PRId64 " step=%" PRId64, axis, begin, end, step);
    return text ? kn_apply(import->graph, "slice", &x, 1, text)
                : kn_graph_fail(import->graph, KN_ERROR_MEMORY, "out of host memory");
}

kn_value *kn_import_range(kn_import *import, kn_dim count) {
    kn_value *ones = kn_import_broadcast(import, kn_import_scalar(import, KN_INT32, 1), &count, 1);
    return kn_cumulative_sum(ones, 0, true, false);
}
