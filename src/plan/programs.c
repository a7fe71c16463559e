/* The programs of a plan's steps: for each kernel with its prelude one that holds no other kernel of the file. Each
 * kernel costs time to compile, and so plans that launch other kernels of a file share what they have in common. */
#include <string.h>

#include "plan/run_private.h"

typedef struct gathering {
    const kn_host *host;
    kn_arena arena; /* the preludes */
    kn_map known;   /* from file, newline, prelude, source to position + 1 in requests */
    kn_program_request *requests;
    kn_program **programs;
    size_t count;
    bool whole, passing; /* with all kernels of the file; not for the disk */
    int *program_of;     /* by step; -1 without one */
} gathering;

/* The prelude, and what cl/common/wanted.cl reads; sources that are no files of cl/ are whole. */
static void write_prelude(const kn_step *step, bool whole, kn_text *text) {
    kn_text_add(text, step->prelude);
    if (whole || step->source) return;
    if (text->length && text->data[text->length - 1] != '\n') kn_text_add(text, "\n");
    kn_text_format(text, "#define KN_ONLY\n#define KN_ONLY_%s 1\n", step->kernel);
}

static bool find_program(gathering *work, const kn_step *step, const kn_text *prelude, kn_text *key,
                         int *program) {
    kn_text_add(key, step->file);
    kn_text_add(key, "\n");
    kn_text_add(key, prelude->data);
    if (step->source) kn_text_add(key, step->source);
    if (kn_text_failed(prelude) || kn_text_failed(key)) return false;
    uintptr_t known = (uintptr_t)kn_map_get(&work->known, key->data, key->length);
    if (!known) {
        const char *kept = kn_arena_text(&work->arena, prelude->data);
        if (!kept) return false;
        work->requests[work->count++] = (kn_program_request){
            .file = step->file, .prelude = kept, .source = step->source, .passing = work->passing};
        known = work->count;
        if (!kn_map_put(&work->known, key->data, key->length, (void *)known)) return false; // NOLINT
    }
    *program = (int)known - 1;
    return true;
}

static bool gather(gathering *work, const kn_emitter *emitter) {
    kn_text prelude, key;
    kn_text_init(&prelude, work->host);
    kn_text_init(&key, work->host);
    bool good = true;
    for (int i = 0; i < emitter->step_count && good; i++) {
        work->program_of[i] = -1;
        if (emitter->steps[i]->kind != KN_STEP_KERNEL) continue;
        kn_text_clear(&prelude);
        kn_text_clear(&key);
        write_prelude(emitter->steps[i], work->whole, &prelude);
        good = find_program(work, emitter->steps[i], &prelude, &key, &work->program_of[i]);
    }
    kn_text_finish(&prelude);
    kn_text_finish(&key);
    return good;
}

kn_status kn_plan_programs(kn_plan *plan, const kn_emitter *emitter, const kn_session_params *params,
                           kn_program **program_of, kn_error *error) {
    const kn_host *host = &plan->host;
    size_t steps = (size_t)emitter->step_count;
    gathering work = {.host = host, .passing = kn_is_forced(params->variants, "kernels", "passing")};
    work.whole = work.passing || kn_is_forced(params->variants, "kernels", "all");
    kn_arena_init(&work.arena, host);
    kn_map_init(&work.known, host);
    work.requests = kn_allocate(host, steps + 1, sizeof *work.requests);
    work.programs = kn_allocate(host, steps + 1, sizeof(kn_program *));
    work.program_of = kn_allocate(host, steps + 1, sizeof *work.program_of);
    kn_status status = KN_OK;
    if (!work.requests || !work.programs || !work.program_of ||
        !gather(&work, emitter))
        status = kn_fail_memory(error, steps * sizeof *work.requests);
    if (status == KN_OK)
        status = kn_program_get_all(plan->context, work.requests, work.count, &params->progress, work.programs,
                                    error);
    for (size_t i = 0; i < steps && status == KN_OK; i++)
        program_of[i] = work.program_of[i] < 0 ? NULL : work.programs[work.program_of[i]];
    plan->info.kernels = (int)work.count;
    kn_release(host, work.requests);
    kn_release(host, work.programs);
    kn_release(host, work.program_of);
    kn_map_finish(&work.known);
    kn_arena_finish(&work.arena);
    return status;
}
