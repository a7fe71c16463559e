/* Prints the memory of a plan by kind, the contents of scratch memory at its peak, and the measures taken to
 * save memory. */
#include <string.h>

#include "run/run_private.h"

static void add_bytes(kn_text *text, const char *what, uint64_t bytes, const char *more) {
    kn_text_format(text, "  %-10s%15llu bytes%s\n", what, (unsigned long long)bytes, more);
}

/* The bytes saved by storing states in 16 bits or in blocks. */
static uint64_t narrow_bytes(const kn_executable *executable) {
    uint64_t saved = 0;
    for (int i = 0; i < executable->state_count; i++)
        if (!executable->state_list[i]->part)
            saved += kn_state_outside_bytes(executable->state_list[i]) - executable->state_list[i]->bytes;
    return saved;
}

static void add_states(const kn_executable *executable, kn_text *text) {
    uint64_t saved = narrow_bytes(executable);
    kn_text more;
    kn_text_init(&more, &executable->host);
    if (saved) kn_text_format(&more, "  %llu less for weights in fewer bits", (unsigned long long)saved);
    add_bytes(text, "states", executable->info.state_bytes, saved ? more.data : "");
    if (kn_text_failed(&more)) text->failed = true;
    kn_text_finish(&more);
    static const struct {
        const char *name;
        kn_state_role role;
    } kinds[] = {{"weights", KN_STATE_PARAMETER},    {"moments", KN_STATE_OPTIMIZER},
                 {"statistics", KN_STATE_STATISTIC}, {"caches", KN_STATE_CACHE},
                 {"sums", KN_STATE_PASSING},         {"others", KN_STATE_CONTROL}};
    for (size_t k = 0; k < KN_COUNT_OF(kinds); k++) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < executable->plan.placement_count; i++) {
            const kn_placement *placement = &executable->plan.placements[i];
            if (placement->storage == KN_STORAGE_STATE && placement->root->id == (int)i &&
                placement->last >= 0 && placement->root->role == kinds[k].role)
                bytes += placement->bytes;
        }
        if (bytes) kn_text_format(text, "    %-12s%11llu bytes\n", kinds[k].name, (unsigned long long)bytes);
    }
}

static void add_totals(const kn_executable *executable, kn_text *text) {
    const kn_plan_info *info = &executable->info;
    kn_text more;
    kn_text_init(&more, &executable->host);
    kn_text_format(&more, "  in %d block%s; lower bound %llu bytes", executable->plan.block_count,
                   executable->plan.block_count == 1 ? "" : "s",
                   (unsigned long long)info->scratch_bound_bytes);
    kn_text_add(text, "memory\n");
    add_states(executable, text);
    add_bytes(text, "inputs", executable->input_total,
              "  two buffers each, one written while the other is read");
    add_bytes(text, "constants", executable->constant_bytes, "");
    add_bytes(text, "scratch", info->scratch_bytes, more.data);
    if (info->kept_bytes)
        add_bytes(text, "kept", info->kept_bytes, "  of scratch, for results of steps that run once");
    add_bytes(text, "peak", info->peak_bytes, "");
    if (info->host_bytes)
        add_bytes(text, "waiting", info->host_bytes, "  of host memory, for moments between updates");
    if (info->staging_bytes)
        add_bytes(text, "staging", info->staging_bytes, "  of host memory, for uploads during a run");
    if (info->exchange_bytes)
        add_bytes(text, "exchange", info->exchange_bytes, "  of host memory, for the other workers");
    if (kn_text_failed(&more)) text->failed = true;
    kn_text_finish(&more);
}

/* ---- the peak of scratch memory ------------------------------------------------------------------ */

enum { LARGEST = 8, KINDS = 3 };

/* The contents of scratch memory at a step. */
typedef struct contents {
    uint64_t kinds[KINDS]; /* activations, gradients, workspace */
    const kn_placement *largest[LARGEST];
    int count;
} contents;

static int kind_of(const kn_placement *placement) {
    if (!placement->root) return 2;
    return placement->root->producer && placement->root->producer->gradient ? 1 : 0;
}

static void add_content(contents *all, const kn_placement *placement) {
    int at = all->count < LARGEST ? all->count++ : LARGEST;
    all->kinds[kind_of(placement)] += placement->bytes;
    for (; at > 0 && all->largest[at - 1]->bytes < placement->bytes; at--)
        if (at < LARGEST) all->largest[at] = all->largest[at - 1];
    if (at < LARGEST) all->largest[at] = placement;
}

static bool live_at(const kn_placement *placement, int step) {
    return placement->storage == KN_STORAGE_SCRATCH && placement->bytes && placement->first >= 0 &&
           placement->first <= step && placement->last >= step;
}

static const kn_placement *placement_at(const kn_plan *plan, size_t i) {
    const kn_placement *placement =
        i < plan->placement_count ? &plan->placements[i] : &plan->scratches[i - plan->placement_count];
    const bool shares = i < plan->placement_count && placement->root->id != (int)i;
    return shares ? NULL : placement;
}

static contents contents_at(const kn_plan *plan, int step) {
    contents all = {.count = 0};
    for (size_t i = 0; i < plan->placement_count + (size_t)plan->scratch_count; i++) {
        const kn_placement *placement = placement_at(plan, i);
        if (placement && live_at(placement, step)) add_content(&all, placement);
    }
    return all;
}

/* The step at which most bytes are live; -1: no memory. */
static int peak_step(const kn_executable *executable) {
    const kn_plan *plan = &executable->plan;
    const int steps = plan->step_count;
    int best = -1;
    int64_t live = 0, most = 0;
    int64_t *change = kn_allocate(&executable->host, (size_t)steps + 2, sizeof *change);
    for (size_t i = 0; change && i < plan->placement_count + (size_t)plan->scratch_count; i++) {
        const kn_placement *placement = placement_at(plan, i);
        if (!placement || placement->storage != KN_STORAGE_SCRATCH || placement->first < 0) continue;
        change[placement->first] += (int64_t)placement->bytes;
        change[(placement->last < steps ? placement->last : steps) + 1] -= (int64_t)placement->bytes;
    }
    for (int s = 0; change && s < steps; s++) {
        live += change[s];
        if (live <= most) continue;
        most = live;
        best = s;
    }
    kn_release(&executable->host, change);
    return best;
}

/* The label of the first step that uses scratch memory. Memory that persists between runs is in use before
 * it. */
static const char *user_of(const kn_plan *plan, const kn_placement *scratch) {
    for (int s = scratch->first; s < plan->step_count; s++)
        for (int a = 0; a < plan->steps[s]->argument_count; a++) {
            const kn_argument *argument = &plan->steps[s]->arguments[a];
            if (argument->kind == KN_ARGUMENT_SCRATCH && argument->integer == scratch - plan->scratches)
                return plan->steps[s]->label;
        }
    return NULL;
}

static void add_peak(const kn_executable *executable, kn_text *text) {
    static const char *const kinds[KINDS] = {"activations", "gradients", "workspace"};
    const int step = peak_step(executable);
    if (step < 0) return;
    const contents all = contents_at(&executable->plan, step);
    const char *label = executable->plan.steps[step]->label;
    kn_text_format(text, "scratch at its peak, step %d  %s\n",
                   executable->positions ? executable->positions[step] : step, label ? label : "");
    for (int k = 0; k < KINDS; k++)
        if (all.kinds[k])
            kn_text_format(text, "  %-12s%13llu bytes\n", kinds[k], (unsigned long long)all.kinds[k]);
    for (int i = 0; i < all.count; i++) {
        const kn_placement *placement = all.largest[i];
        const kn_value *value = placement->root;
        kn_text_format(text, "    %-12s%11llu bytes  ", kinds[kind_of(placement)],
                       (unsigned long long)placement->bytes);
        if (value) {
            kn_text_format(text, "%s %s  ", value->producer->op->name, value->producer->name);
            kn_shape_text(executable->graph, &value->shape, text);
        } else {
            const char *user = user_of(&executable->plan, placement);
            kn_text_add(text, user ? user : "");
        }
        kn_text_add(text, "\n");
    }
}

/* ---- what was done ----------------------------------------------------------------------------------- */

static void add_measures(const kn_executable *executable, kn_text *text) {
    const kn_plan_info *info = &executable->info;
    kn_text_add(text, "measures to save memory, in this order\n");
    for (int i = 0; i < kn_memory_measure_count; i++)
        kn_text_format(text, "  %s%s\n", kn_memory_measures[i],
                       executable->economies & 1u << i ? ": done" : "");
    if (!info->recomputed) return;
    kn_text_format(text, "  %d group%s run%s twice, for ", info->recomputed, info->recomputed == 1 ? "" : "s",
                   info->recomputed == 1 ? "s" : "");
    kn_text_fixed(text, 100 * info->recomputed_flops / (info->flops - info->recomputed_flops), 1);
    kn_text_add(text, " % more FLOP\n");
}

void kn_print_memory(const kn_executable *executable, kn_text *text) {
    add_totals(executable, text);
    add_peak(executable, text);
    add_measures(executable, text);
}
