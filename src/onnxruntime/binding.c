/* Bindings: the inputs and outputs of runs, by name. */
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

typedef struct bound {
    char **names;
    OrtValue **values; /* NULL: made by each run */
    bool *made;        /* whether the value is the result of a run, and not the program's */
    size_t count;
} bound;

struct OrtIoBinding {
    OrtSession *session;
    bound inputs, outputs;
};

static void clear(bound *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->names[i]);
        ort_ReleaseValue(list->values[i]);
    }
    free(list->names);
    free(list->values);
    free(list->made);
    *list = (bound){.count = 0};
}

/* Binds a name, or binds it again. */
static OrtStatus *bind(bound *list, const char *name, const OrtValue *value) {
    size_t at = 0;
    while (at < list->count && strcmp(list->names[at], name))
        at++;
    if (at == list->count) {
        char **names = realloc(list->names, (at + 1) * sizeof *names);
        if (names) list->names = names;
        OrtValue **values = realloc(list->values, (at + 1) * sizeof(OrtValue *));
        if (values) list->values = values;
        bool *made = realloc(list->made, (at + 1) * sizeof *made);
        if (made) list->made = made;
        if (!names || !values || !made || !(names[at] = ort_copy_text(name))) return ort_no_memory();
        values[at] = NULL;
        list->count++;
    }
    ort_ReleaseValue(list->values[at]);
    list->values[at] = value ? ort_value_hold(value) : NULL;
    list->made[at] = false;
    return NULL;
}

static OrtStatus *need_input(const OrtSession *session, const char *name) {
    for (size_t i = 0; i < session->input_count; i++)
        if (!strcmp(session->inputs[i].name, name)) return NULL;
    return ort_fail(ORT_FAIL, "Failed to find input name in the mapping: %s", name);
}

OrtStatus *ort_CreateIoBinding(OrtSession *session, OrtIoBinding **out) {
    ORT_NEED(session);
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (!*out) return ort_no_memory();
    (*out)->session = session;
    return NULL;
}

void ort_ReleaseIoBinding(OrtIoBinding *binding) {
    if (!binding) return;
    clear(&binding->inputs);
    clear(&binding->outputs);
    free(binding);
}

OrtStatus *ort_BindInput(OrtIoBinding *binding, const char *name, const OrtValue *value) {
    ORT_NEED(binding);
    ORT_NEED(name);
    ORT_NEED(value);
    OrtStatus *status = need_input(binding->session, name);
    return status ? status : bind(&binding->inputs, name, value);
}

OrtStatus *ort_BindOutput(OrtIoBinding *binding, const char *name, const OrtValue *value) {
    ORT_NEED(binding);
    ORT_NEED(name);
    ORT_NEED(value);
    return bind(&binding->outputs, name, value);
}

/* Results are in the host's memory, the only one of this library. As in the original, a run checks the names
 * of outputs. */
OrtStatus *ort_BindOutputToDevice(OrtIoBinding *binding, const char *name, const OrtMemoryInfo *info) {
    ORT_NEED(binding);
    ORT_NEED(name);
    ORT_NEED(info);
    return bind(&binding->outputs, name, NULL);
}

void ort_ClearBoundInputs(OrtIoBinding *binding) {
    if (binding) clear(&binding->inputs);
}

void ort_ClearBoundOutputs(OrtIoBinding *binding) {
    if (binding) clear(&binding->outputs);
}

ORT_ACCEPTED(SynchronizeBoundInputs, binding, OrtIoBinding *binding)
ORT_ACCEPTED(SynchronizeBoundOutputs, binding, OrtIoBinding *binding)

/* Values that an earlier run made are released first: the program may hold them, so they are not written
 * again. */
OrtStatus *ort_RunWithBinding(OrtSession *session, const OrtRunOptions *options,
                              const OrtIoBinding *binding) {
    ORT_NEED(session);
    ORT_NEED(binding);
    const bound *in = &binding->inputs, *out = &binding->outputs;
    OrtValue **values = calloc(out->count + 1, sizeof(OrtValue *));
    if (!values) return ort_no_memory();
    for (size_t i = 0; i < out->count; i++)
        values[i] = out->made[i] ? NULL : out->values[i];
    OrtStatus *status = out->count ? ort_Run(session, options, (const char *const *)in->names,
                                             (const OrtValue *const *)in->values, in->count,
                                             (const char *const *)out->names, out->count, values)
                                   : ort_fail(ORT_INVALID_ARGUMENT, "no output is bound");
    for (size_t i = 0; !status && i < out->count; i++) {
        if (values[i] == out->values[i]) continue;
        ort_ReleaseValue(out->values[i]);
        out->values[i] = values[i];
        out->made[i] = true;
    }
    free(values);
    return status;
}

/* The names, one after the other without terminators, with the length of each. */
OrtStatus *ort_GetBoundOutputNames(const OrtIoBinding *binding, OrtAllocator *allocator, char **names,
                                   size_t **lengths, size_t *count) {
    ORT_NEED(binding);
    ORT_NEED(allocator);
    ORT_NEED(names);
    ORT_NEED(lengths);
    ORT_NEED(count);
    const bound *list = &binding->outputs;
    size_t bytes = 0, at = 0;
    *names = NULL;
    *lengths = NULL;
    *count = 0;
    if (!list->count) return NULL;
    for (size_t i = 0; i < list->count; i++)
        bytes += strlen(list->names[i]);
    char *text = allocator->Alloc(allocator, bytes + 1);
    size_t *sizes = allocator->Alloc(allocator, list->count * sizeof *sizes);
    if (!text || !sizes) {
        if (text) allocator->Free(allocator, text);
        if (sizes) allocator->Free(allocator, sizes);
        return ort_no_memory();
    }
    for (size_t i = 0; i < list->count; at += sizes[i++]) {
        sizes[i] = strlen(list->names[i]);
        memcpy(text + at, list->names[i], sizes[i]);
    }
    *names = text;
    *lengths = sizes;
    *count = list->count;
    return NULL;
}

OrtStatus *ort_GetBoundOutputValues(const OrtIoBinding *binding, OrtAllocator *allocator, OrtValue ***values,
                                    size_t *count) {
    ORT_NEED(binding);
    ORT_NEED(allocator);
    ORT_NEED(values);
    ORT_NEED(count);
    const bound *list = &binding->outputs;
    *values = NULL;
    *count = 0;
    if (!list->count) return NULL;
    for (size_t i = 0; i < list->count; i++)
        if (!list->values[i]) return ort_fail(ORT_FAIL, "output '%s' has no value yet", list->names[i]);
    OrtValue **held = allocator->Alloc(allocator, list->count * sizeof(OrtValue *));
    if (!held) return ort_no_memory();
    for (size_t i = 0; i < list->count; i++)
        held[i] = ort_value_hold(list->values[i]);
    *values = held;
    *count = list->count;
    return NULL;
}
