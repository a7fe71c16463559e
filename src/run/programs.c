/* The programs of a plan's steps: one per combination of kernel and prelude, without the other kernels of the
 * file. Each kernel takes time to compile, and plans that use different kernels of a file can still share the
 * programs of kernels that both use. */
#include <string.h>

#include "run/run_private.h"

typedef struct program_listing {
    kn_step_programs *list;
    kn_map known;        /* from file, newline, prelude, source to index + 1 in the requests */
    bool whole, passing; /* with all kernels of the file; not stored on disk */
} program_listing;

/* Writes the prelude, and the macros that select one kernel (cl/common/wanted.cl) and whether its loops are
 * unrolled; the source of a custom kernel is compiled as a whole. */
static void write_prelude(kn_context *context, const kn_step *step, bool whole, kn_text *text) {
    kn_text_add(text, step->prelude);
    if (step->source) return;
    if (text->length && text->data[text->length - 1] != '\n') kn_text_add(text, "\n");
    if (kn_groups_rolled(context, step->file)) kn_text_add(text, "#define KN_ROLLED\n");
    if (whole) return;
    kn_text_format(text, "#define KN_ONLY\n#define KN_ONLY_%s 1\n", step->kernel);
}

static bool find_program(program_listing *listing, const kn_step *step, const kn_text *prelude, kn_text *key,
                         int *program) {
    kn_text_add(key, step->file);
    kn_text_add(key, "\n");
    kn_text_add(key, prelude->data);
    if (step->source) kn_text_add(key, step->source);
    if (kn_text_failed(prelude) || kn_text_failed(key)) return false;
    uintptr_t known = (uintptr_t)kn_map_get(&listing->known, key->data, key->length);
    if (!known) {
        const char *kept = kn_arena_text(&listing->list->arena, prelude->data);
        if (!kept) return false;
        listing->list->requests[listing->list->count++] = (kn_program_request){
            .file = step->file, .prelude = kept, .source = step->source, .passing = listing->passing};
        known = listing->list->count;
        if (!kn_map_put(&listing->known, key->data, key->length, (void *)known)) return false; // NOLINT
    }
    *program = (int)known - 1;
    return true;
}

static bool gather(program_listing *listing, const kn_executable *executable) {
    const kn_host *host = &executable->host;
    const kn_plan *plan = &executable->plan;
    kn_text prelude, key;
    kn_text_init(&prelude, host);
    kn_text_init(&key, host);
    bool good = true;
    for (int i = 0; i < plan->step_count && good; i++) {
        listing->list->program_of[i] = -1;
        if (plan->steps[i]->kind != KN_STEP_KERNEL) continue;
        kn_text_clear(&prelude);
        kn_text_clear(&key);
        write_prelude(executable->context, plan->steps[i], listing->whole, &prelude);
        good = find_program(listing, plan->steps[i], &prelude, &key, &listing->list->program_of[i]);
    }
    kn_text_finish(&prelude);
    kn_text_finish(&key);
    return good;
}

kn_status kn_step_programs_list(const kn_executable *executable, kn_programs programs, kn_step_programs *list,
                                kn_error *error) {
    const kn_host *host = &executable->host;
    size_t steps = (size_t)executable->plan.step_count;
    program_listing listing = {.list = list,
                               .passing = programs == KN_PROGRAMS_UNSAVED,
                               .whole = programs == KN_PROGRAMS_UNSAVED || programs == KN_PROGRAMS_FILE};
    kn_arena_init(&list->arena, host);
    kn_map_init(&listing.known, host);
    list->requests = kn_allocate(host, steps + 1, sizeof *list->requests);
    list->program_of = kn_allocate(host, steps + 1, sizeof *list->program_of);
    bool good = list->requests && list->program_of && gather(&listing, executable);
    kn_map_finish(&listing.known);
    if (good) return KN_OK;
    kn_step_programs_finish(list, host);
    return kn_fail_memory(error, steps * sizeof *list->requests);
}

void kn_step_programs_finish(kn_step_programs *list, const kn_host *host) {
    kn_release(host, list->requests);
    kn_release(host, list->program_of);
    kn_arena_finish(&list->arena);
    *list = (kn_step_programs){.count = 0};
}
