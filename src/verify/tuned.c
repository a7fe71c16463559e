/* Tuned choices: the key of a node, and the choice that a plan gets for it. */
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "verify/verify_private.h"

/* Appends to a key; stops if the key is too long. */
static void add(char *key, size_t *used, const char *format, ...) KN_PRINTF(3, 4);
static void add(char *key, size_t *used, const char *format, ...) {
    va_list arguments;
    if (*used >= KN_TUNED_KEY) return;
    va_start(arguments, format);
    *used += (size_t)vsnprintf(key + *used, KN_TUNED_KEY - *used, format, arguments);
    va_end(arguments);
}

static void add_shape(char *key, size_t *used, const kn_shape *shape) {
    add(key, used, "/%s:", kn_dtype_name(shape->dtype));
    for (int d = 0; d < shape->rank; d++)
        add(key, used, "%s%lld", d ? "," : "", (long long)shape->dims[d]);
}

static void add_attribute(char *key, size_t *used, const kn_attribute *attribute,
                          const kn_attribute_value *value) {
    add(key, used, "/%s=", attribute->name);
    if (attribute->kind == KN_ATTRIBUTE_FLOAT)
        add(key, used, "%016llx", (unsigned long long)kn_bits_of_double(value->number));
    else if (!value->count)
        add(key, used, "%lld", (long long)value->integer);
    for (int i = 0; i < value->count; i++)
        add(key, used, "%s%lld", i ? "," : "", (long long)value->list[i]);
}

bool kn_tuned_key(kn_context *context, const kn_node_spec *node, bool kept, bool fast,
                  char key[KN_TUNED_KEY]) {
    if (node->row->custom || node->row->random || node->input_count > KN_TRIAL_INPUTS) return false;
    size_t used = kn_verdict_name(context, node->row->name, key, KN_TUNED_KEY);
    add(key, &used, "/%s%s%s", kn_context_capabilities(context)->wide_vector ? "wide" : "many",
        fast ? ",fast" : ",exact", kept ? ",kept" : "");
    for (int i = 0; i < node->input_count; i++)
        if (node->given[i])
            add_shape(key, &used, &node->shapes[i]);
        else
            add(key, &used, "/-");
    char more[KN_MORE_SWITCHES];
    kn_switches_of(0, node->types, more);
    add(key, &used, "%s", more);
    for (int i = 0; i < node->row->attribute_count; i++)
        add_attribute(key, &used, &node->row->attributes[i], &node->attributes[i]);
    return used < KN_TUNED_KEY;
}

/* ---- names of kernels: "tiled", or "tiled:64x64x8/8x8" ------------------------------------------- */

const kn_variant *kn_tuned_variant(const kn_operator *row, const char *name, int *tile) {
    const char *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    char of_tile[KN_TILE_NAME];
    *tile = 0;
    for (int t = 1; colon && !*tile; t++) {
        if (!kn_product_tile_name(t, of_tile)) return NULL;
        if (!strcmp(of_tile, colon + 1)) *tile = t;
    }
    for (int i = 0; i < row->variant_count; i++)
        if (strlen(row->variants[i].name) == length && !strncmp(row->variants[i].name, name, length))
            return &row->variants[i];
    return NULL;
}

/* ---- queries of plans ------------------------------------------------------------------------------ */

const kn_variant *kn_tuned_choice(void *device, const kn_tuning *tuning, int *tile) {
    kn_context *context = device;
    kn_node_spec node;
    kn_tuned entry;
    char key[KN_TUNED_KEY];
    if (kn_context_is_described(context) || !kn_tuned_any(context) || tuning->node->op->variant_count < 2)
        return NULL;
    kn_node_spec_of(tuning->node, &node);
    if (!kn_tuned_key(context, &node, tuning->kept, tuning->target->fast_math, key) ||
        !kn_tuned_get(context, key, &entry))
        return NULL;
    const kn_variant *variant = kn_tuned_variant(tuning->node->op, entry.kernel, tile);
    if (!variant) kn_tuned_ignore(context, key);
    return variant;
}
