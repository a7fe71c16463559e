#include "support.h"

#include "passes.h"

#include <string.h>

void passes_begin(pass_run *passes, kn_value *const *outputs, size_t count, bool training,
                  kn_status (*extend)(void *user, kn_graph *bound, kn_value *const *values, size_t count,
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
    passes->making = (kn_making){.host = &passes->host,
                                 .arena = &passes->arena,
                                 .graph = passes->graph,
                                 .wanted = passes->bound_outputs,
                                 .wanted_count = count,
                                 .error = &passes->error};
    for (size_t i = 0; i < count; i++)
        passes->bound_outputs[i]->wanted = true;
    passes->making.target = (kn_target){.vector_width = 1,
                                        .vector_registers = 16,
                                        .compute_units = 4,
                                        .work_group_items = 256,
                                        .local_bytes = 32768};
}

void passes_wide(pass_run *passes, int width, const char *variants) {
    passes->making.target.wide_vector = true;
    passes->making.target.vector_width = width;
    passes->making.target.vector_registers = width == 16 ? 32 : 16;
    passes->making.variants = variants;
}

void passes_run(pass_run *passes, pass last, unsigned without) {
    kn_status (*const all[])(kn_making *) = {kn_pass_simplify, kn_pass_choose, kn_pass_fuse,  kn_pass_order,
                                             kn_pass_layout,   kn_pass_lower,  kn_pass_bucket};
    kn_emitter_init(&passes->making.emitter, &passes->arena, &passes->host, &passes->making.target,
                    &passes->error);
    for (int i = 0; i <= (int)last; i++)
        if (!(without >> i & 1) && all[i](&passes->making) != KN_OK)
            fail_msg("pass %d: %s", i, passes->error.text);
}

void passes_end(pass_run *passes) {
    kn_emitter_finish(&passes->making.emitter);
    kn_release(&passes->host, passes->making.groups);
    kn_release(&passes->host, passes->making.step_group);
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
    for (int i = 0; i < passes->making.emitter.step_count; i++) {
        const kn_step *step = passes->making.emitter.steps[i];
        count += !file || (step->kind == KN_STEP_KERNEL && !strcmp(step->file, file));
    }
    return count;
}

kn_group *passes_group_of(pass_run *passes, const char *operator_name) {
    for (int i = 0; i < passes->making.group_count; i++) {
        kn_group *group = passes->making.groups[i];
        if (group->anchor && !strcmp(group->anchor->op->name, operator_name)) return group;
        for (int m = 0; m < group->member_count; m++)
            if (!strcmp(group->members[m]->op->name, operator_name)) return group;
    }
    return NULL;
}
