/* The share pass: steps that run once and prepare the same data, such as the packed weights of each step of
 * an unrolled loop, write it to the same scratch memory. */
#include <string.h>

#include "plan/plan_private.h"

/* The only scratch memory that a step accesses, if it writes it, no other step does, and it writes nothing
 * else; -1 otherwise. */
static int prepared_scratch(const kn_step *step, const int *writers) {
    int scratch = -1;
    if (step->kind != KN_STEP_KERNEL || step->given || step->sum_count) return -1;
    for (int a = 0; a < step->argument_count; a++) {
        const kn_argument *argument = &step->arguments[a];
        if (argument->kind == KN_ARGUMENT_VALUE && argument->writes) return -1;
        if (argument->kind != KN_ARGUMENT_SCRATCH) continue;
        if (scratch >= 0 || !argument->writes || writers[argument->integer] != 1) return -1;
        scratch = (int)argument->integer;
    }
    return scratch;
}

static void add_text(kn_text *key, const char *text) {
    if (text) kn_text_add(key, text);
    kn_text_add_bytes(key, "", 1);
}

/* Everything that determines what a step writes to its scratch memory of this size. */
static void describe(const kn_step *step, uint64_t bytes, kn_text *key) {
    key->length = 0;
    add_text(key, step->file);
    add_text(key, step->source);
    add_text(key, step->kernel);
    add_text(key, step->language);
    add_text(key, step->prelude);
    kn_text_add_bytes(key, (const char *)&bytes, sizeof bytes);
    kn_text_add_bytes(key, (const char *)step->global, sizeof step->global);
    kn_text_add_bytes(key, (const char *)step->local, sizeof step->local);
    for (int a = 0; a < step->argument_count; a++) {
        const kn_argument *argument = &step->arguments[a];
        const int64_t integer = argument->kind == KN_ARGUMENT_SCRATCH ? 0 : argument->integer;
        kn_text_add_bytes(key, (const char *)&argument->kind, sizeof argument->kind);
        kn_text_add_bytes(key, (const char *)&argument->value, sizeof(kn_value *));
        kn_text_add_bytes(key, (const char *)&integer, sizeof integer);
        kn_text_add_bytes(key, (const char *)&argument->number, sizeof argument->number);
        kn_text_add_bytes(key, (const char *)&argument->dtype, sizeof argument->dtype);
    }
}

static void count_writers(const kn_emitter *emitter, int *writers) {
    for (int s = 0; s < emitter->step_count; s++)
        for (int a = 0; a < emitter->steps[s]->argument_count; a++) {
            const kn_argument *argument = &emitter->steps[s]->arguments[a];
            if (argument->kind == KN_ARGUMENT_SCRATCH && argument->writes) writers[argument->integer]++;
        }
}

/* Sets `same` of each scratch memory to the first one that gets the same data. */
static kn_status find_same(kn_planner *planner, const int *writers, int *same) {
    const kn_emitter *emitter = &planner->emitter;
    bool failed = false;
    kn_map found;
    kn_text key;
    kn_map_init(&found, planner->host);
    kn_text_init(&key, planner->host);
    for (int s = 0; s < emitter->step_count && !failed; s++) {
        const int scratch = planner->once[s] ? prepared_scratch(emitter->steps[s], writers) : -1;
        planner->work++;
        if (scratch < 0) continue;
        describe(emitter->steps[s], emitter->scratch_bytes[scratch], &key);
        failed = kn_text_failed(&key);
        const int *first = failed ? NULL : kn_map_get(&found, key.data, key.length);
        if (first)
            same[scratch] = *first;
        else
            failed = failed || !kn_map_put(&found, key.data, key.length, &same[scratch]);
    }
    kn_text_finish(&key);
    kn_map_finish(&found);
    return failed ? kn_fail_memory(planner->error, (size_t)emitter->step_count) : KN_OK;
}

kn_status kn_pass_share(kn_planner *planner) {
    kn_emitter *emitter = &planner->emitter;
    const size_t count = (size_t)emitter->scratch_count;
    if (!planner->request->keeps || count == 0) return KN_OK;
    int *writers = kn_arena_take(planner->arena, count, sizeof *writers),
        *same = kn_arena_take(planner->arena, count, sizeof *same);
    if (!writers || !same) return kn_fail_memory(planner->error, count * sizeof *same);
    for (size_t i = 0; i < count; i++)
        writers[i] = 0, same[i] = (int)i;
    count_writers(emitter, writers);
    kn_status status = find_same(planner, writers, same);
    if (status != KN_OK) return status;
    for (int s = 0; s < emitter->step_count; s++)
        for (int a = 0; a < emitter->steps[s]->argument_count; a++) {
            kn_argument *argument = &emitter->steps[s]->arguments[a];
            if (argument->kind == KN_ARGUMENT_SCRATCH) argument->integer = same[argument->integer];
        }
    return KN_OK;
}
