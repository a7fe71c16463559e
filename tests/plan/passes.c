#include "support.h"

#include "passes.h"

#include <string.h>

void passes_begin(pass_run *passes, kn_value *const *outputs, size_t count, bool training,
                  kn_status (*extend)(void *user, kn_graph *bound, kn_value **values, size_t count,
                                      kn_error *error),
                  void *user) {
    memset(passes, 0, sizeof *passes);
    passes->host = kn_host_defaults();
    kn_arena_init(&passes->arena, &passes->host);
    const kn_binding batch = {"batch", 6};
    const kn_bind_request request = {.bindings = &batch, .binding_count = 1, .training = training, .seed = 1};
    kn_status status = kn_graph_bind(outputs[0]->graph, outputs, count, &request, &passes->graph,
                                     passes->bound_outputs, &passes->error);
    if (status != KN_OK) fail_msg("%s", passes->error.text);
    if (extend && extend(user, passes->graph, passes->bound_outputs, count, &passes->error) != KN_OK)
        fail_msg("%s", passes->error.text);
    passes->request = (kn_plan_request){.arena = &passes->arena,
                                        .graph = passes->graph,
                                        .wanted = passes->bound_outputs,
                                        .wanted_count = count,
                                        .target = &passes->target,
                                        .switches = &passes->switches};
    kn_planner_init(&passes->planner, &passes->request, &passes->error);
    for (size_t i = 0; i < count; i++)
        passes->bound_outputs[i]->wanted = true;
    passes->target = (kn_target){.vector_width = 1,
                                 .vector_registers = 16,
                                 .compute_units = 4,
                                 .work_group_items = 256,
                                 .local_bytes = 32768,
                                 .alignment_bytes = 64,
                                 .largest_block_bytes = UINT64_MAX / 8};
}

void passes_switch(pass_run *passes, const char *switches) {
    if (kn_switches_parse(switches, &passes->switches, &passes->error) != KN_OK)
        fail_msg("%s", passes->error.text);
}

void passes_wide(pass_run *passes, int width, const char *switches) {
    passes->target.wide_vector = true;
    passes->target.vector_width = width;
    passes->target.vector_registers = width == 16 ? 32 : 16;
    passes_switch(passes, switches);
}

/* Runs a pass on a planner whose fields hold garbage, except those that its row names. */
static void run_checked(pass_run *passes, const kn_pass *pass) {
    kn_planner before = passes->planner;
    unsigned char garbage[sizeof before];
    memset(garbage, 0xA5, sizeof garbage);
    for (int i = 0; i < kn_pass_field_count; i++) {
        const kn_pass_field *field = &kn_pass_fields[i];
        if (!((pass->reads | pass->writes) & field->field))
            memcpy((char *)&passes->planner + field->offset, garbage, field->bytes);
    }
    if (pass->run(&passes->planner) != KN_OK) fail_msg("%s: %s", pass->name, passes->error.text);
    for (int i = 0; i < kn_pass_field_count; i++) {
        const kn_pass_field *field = &kn_pass_fields[i];
        char *place = (char *)&passes->planner + field->offset, *old = (char *)&before + field->offset;
        if (pass->writes & field->field) continue;
        const void *expected = pass->reads & field->field ? (void *)old : garbage;
        if (memcmp(place, expected, field->bytes))
            fail_msg("%s writes the field at byte %zu of the planner; its row of kn_passes does not say so",
                     pass->name, field->offset);
        memcpy(place, old, field->bytes);
    }
}

void passes_run(pass_run *passes, const char *last) {
    for (const char *name = ""; strcmp(name, last) != 0;) {
        name = kn_plan_pass_name(passes->done);
        if (!name) fail_msg("there is no pass '%s' to come", last);
        run_checked(passes, &kn_passes[passes->done++]);
    }
}

void passes_end(pass_run *passes) {
    kn_planner_finish(&passes->planner);
    kn_graph_destroy(&passes->graph);
    kn_arena_finish(&passes->arena);
}

int passes_count_nodes(const pass_run *passes, const char *operator_name) {
    int count = 0;
    for (size_t i = 0; i < passes->graph->node_count; i++)
        count += !operator_name || !strcmp(passes->graph->nodes[i]->op->name, operator_name);
    return count;
}

int passes_count_steps(const pass_run *passes, const char *file) {
    int count = 0;
    for (int i = 0; i < passes->planner.emitter.step_count; i++) {
        const kn_step *step = passes->planner.emitter.steps[i];
        count += !file || (step->kind == KN_STEP_KERNEL && !strcmp(step->file, file));
    }
    return count;
}

kn_group *passes_group_of(pass_run *passes, const char *operator_name) {
    for (int i = 0; i < passes->planner.group_count; i++) {
        kn_group *group = passes->planner.groups[i];
        if (group->anchor && !strcmp(group->anchor->op->name, operator_name)) return group;
        for (int m = 0; m < group->member_count; m++)
            if (!strcmp(group->members[m]->op->name, operator_name)) return group;
    }
    return NULL;
}
