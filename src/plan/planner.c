/* The table of passes, which run over a graph in this order. */
#include <stddef.h>

#include "plan/plan_private.h"

/* Consumers are computed again after the layout pass, whose conversions also read and write values. */
const kn_pass kn_passes[] = {
    {"widen", kn_pass_widen, .reads = KN_FIELD_GRAPH, .writes = KN_FIELD_GRAPH},
    {"substitute", kn_pass_substitute, .reads = KN_FIELD_GRAPH, .writes = KN_FIELD_GRAPH},
    {"simplify", kn_pass_simplify, .reads = KN_FIELD_GRAPH, .writes = KN_FIELD_GRAPH},
    {"precision", kn_pass_precision, .reads = KN_FIELD_GRAPH, .writes = KN_FIELD_GRAPH},
    {"invariant", kn_pass_invariant, .reads = KN_FIELD_GRAPH, .writes = KN_FIELD_INVARIANT},
    {"choose", kn_pass_choose, .reads = KN_FIELD_GRAPH | KN_FIELD_INVARIANT, .writes = KN_FIELD_CHOSEN},
    {"consumers", kn_pass_consumers, .reads = KN_FIELD_GRAPH, .writes = KN_FIELD_CONSUMERS},
    {"fuse", kn_pass_fuse, .reads = KN_FIELD_GRAPH | KN_FIELD_CHOSEN | KN_FIELD_CONSUMERS,
     .writes = KN_FIELD_GRAPH | KN_FIELD_GROUPS},
    {"order", kn_pass_order, .reads = KN_FIELD_GRAPH | KN_FIELD_CONSUMERS | KN_FIELD_GROUPS,
     .writes = KN_FIELD_GROUPS},
    {"layout", kn_pass_layout, .reads = KN_FIELD_GRAPH | KN_FIELD_GROUPS,
     .writes = KN_FIELD_GRAPH | KN_FIELD_GROUPS | KN_FIELD_LAYOUTS},
    {"consumers of layouts", kn_pass_consumers, .reads = KN_FIELD_GRAPH, .writes = KN_FIELD_CONSUMERS},
    {"statistics", kn_pass_statistics,
     .reads = KN_FIELD_GRAPH | KN_FIELD_CONSUMERS | KN_FIELD_GROUPS | KN_FIELD_LAYOUTS,
     .writes = KN_FIELD_GROUPS},
    {"producers", kn_pass_producers, .reads = KN_FIELD_GRAPH | KN_FIELD_CONSUMERS | KN_FIELD_GROUPS,
     .writes = KN_FIELD_GROUPS},
    {"recompute", kn_pass_recompute,
     .reads = KN_FIELD_GRAPH | KN_FIELD_INVARIANT | KN_FIELD_CONSUMERS | KN_FIELD_GROUPS | KN_FIELD_LAYOUTS,
     .writes = KN_FIELD_GRAPH | KN_FIELD_INVARIANT | KN_FIELD_CONSUMERS | KN_FIELD_GROUPS | KN_FIELD_REPEATS},
    {"liveness", kn_pass_liveness, .reads = KN_FIELD_GRAPH | KN_FIELD_GROUPS, .writes = KN_FIELD_ALIASES},
    {"lower", kn_pass_lower,
     .reads = KN_FIELD_GRAPH | KN_FIELD_CONSUMERS | KN_FIELD_GROUPS | KN_FIELD_LAYOUTS | KN_FIELD_ALIASES,
     .writes = KN_FIELD_ALIASES | KN_FIELD_STEPS},
    {"pairs", kn_pass_pairs, .reads = KN_FIELD_ALIASES | KN_FIELD_STEPS, .writes = KN_FIELD_STEPS},
    {"joint", kn_pass_joint, .reads = KN_FIELD_ALIASES | KN_FIELD_STEPS, .writes = KN_FIELD_STEPS},
    {"sums", kn_pass_sums, .reads = KN_FIELD_INVARIANT | KN_FIELD_ALIASES | KN_FIELD_STEPS,
     .writes = KN_FIELD_STEPS},
    {"packs", kn_pass_packs, .reads = KN_FIELD_GRAPH | KN_FIELD_ALIASES | KN_FIELD_STEPS,
     .writes = KN_FIELD_STEPS},
    {"bucket", kn_pass_bucket, .reads = KN_FIELD_ALIASES | KN_FIELD_STEPS, .writes = KN_FIELD_STEPS},
    {"once", kn_pass_once, .reads = KN_FIELD_GRAPH | KN_FIELD_INVARIANT | KN_FIELD_ALIASES | KN_FIELD_STEPS,
     .writes = KN_FIELD_ONCE},
    {"share", kn_pass_share, .reads = KN_FIELD_STEPS | KN_FIELD_ONCE, .writes = KN_FIELD_STEPS},
    {"place", kn_pass_place, .reads = KN_FIELD_GRAPH | KN_FIELD_ALIASES | KN_FIELD_STEPS | KN_FIELD_ONCE,
     .writes = KN_FIELD_PLACES},
};
const int kn_plan_pass_count = (int)KN_COUNT_OF(kn_passes);

#define FIELD(bit, member)                                                                                   \
    { bit, offsetof(kn_planner, member), sizeof((kn_planner *)0)->member }
const kn_pass_field kn_pass_fields[] = {
    FIELD(KN_FIELD_INVARIANT, invariant),       FIELD(KN_FIELD_CHOSEN, chosen),
    FIELD(KN_FIELD_CONSUMERS, consumers),       FIELD(KN_FIELD_GROUPS, groups),
    FIELD(KN_FIELD_GROUPS, group_count),        FIELD(KN_FIELD_GROUPS, group_capacity),
    FIELD(KN_FIELD_GROUPS, group_of),           FIELD(KN_FIELD_GROUPS, group_of_count),
    FIELD(KN_FIELD_LAYOUTS, conversions),       FIELD(KN_FIELD_REPEATS, repeats),
    FIELD(KN_FIELD_ALIASES, aliases),           FIELD(KN_FIELD_ALIASES, last_read),
    FIELD(KN_FIELD_ALIASES, alias_count),       FIELD(KN_FIELD_STEPS, emitter),
    FIELD(KN_FIELD_STEPS, step_group),          FIELD(KN_FIELD_STEPS, step_group_count),
    FIELD(KN_FIELD_STEPS, step_group_capacity), FIELD(KN_FIELD_ONCE, once),
    FIELD(KN_FIELD_PLACES, placements),         FIELD(KN_FIELD_PLACES, placement_count),
    FIELD(KN_FIELD_PLACES, scratches),          FIELD(KN_FIELD_PLACES, block_bytes),
    FIELD(KN_FIELD_PLACES, block_count),        FIELD(KN_FIELD_PLACES, bound_bytes),
    FIELD(KN_FIELD_INVARIANT, keeps_widened),
};
const int kn_pass_field_count = (int)KN_COUNT_OF(kn_pass_fields);

const char *kn_plan_pass_name(size_t position) {
    return position < (size_t)kn_plan_pass_count ? kn_passes[position].name : NULL;
}

void kn_planner_init(kn_planner *planner, const kn_plan_request *request, kn_error *error) {
    *planner = (kn_planner){.request = request,
                            .host = request->arena->host,
                            .arena = request->arena,
                            .graph = request->graph,
                            .wanted = request->wanted,
                            .wanted_count = request->wanted_count,
                            .target = request->target,
                            .switches = request->switches,
                            .error = error};
    kn_emitter_init(&planner->emitter, planner->arena, planner->host, planner->target, error);
}

void kn_planner_finish(kn_planner *planner) {
    kn_release(planner->host, planner->groups);
    kn_release(planner->host, planner->step_group);
    kn_emitter_finish(&planner->emitter);
}

static kn_status take_plan(const kn_planner *planner, kn_plan *plan) {
    const kn_emitter *emitter = &planner->emitter;
    *plan = (kn_plan){
        .steps =
            kn_arena_copy(planner->arena, emitter->steps, (size_t)emitter->step_count, sizeof(kn_step *)),
        .once = planner->once,
        .step_count = emitter->step_count,
        .placements = planner->placements,
        .placement_count = planner->placement_count,
        .scratches = planner->scratches,
        .scratch_count = emitter->scratch_count,
        .block_bytes = planner->block_bytes,
        .block_count = planner->block_count,
        .bound_bytes = planner->bound_bytes,
        .conversions = planner->conversions,
        .repeats = planner->repeats,
        .why = planner->why,
        .work = planner->work,
    };
    return plan->steps ? KN_OK : kn_fail_memory(planner->error, (size_t)plan->step_count * sizeof(kn_step *));
}

kn_status kn_plan_make(const kn_plan_request *request, kn_plan *plan, kn_error *error) {
    kn_planner planner;
    kn_planner_init(&planner, request, error);
    kn_status status = KN_OK;
    for (int i = 0; i < kn_plan_pass_count && status == KN_OK; i++) {
        double start = kn_clock();
        status = kn_passes[i].run(&planner);
        if (status == KN_OK && kn_passes[i].run == kn_pass_choose && request->switches->why[0])
            status = kn_explain_choices(&planner);
        if (request->seconds) request->seconds[i] += kn_clock() - start;
    }
    if (status == KN_OK && planner.graph->error.status) status = kn_error_copy(error, &planner.graph->error);
    if (status == KN_OK) status = take_plan(&planner, plan);
    kn_planner_finish(&planner);
    return status;
}
