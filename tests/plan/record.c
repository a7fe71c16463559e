/* Records the plans of many networks and operator cases for target files, to show that a change of the
 * library changes no plan. tools/plan-record runs it.
 *
 *     record TARGET…             a line per plan: name, exact hash, loose hash, number of steps
 *     record --show PLAN TARGET… the text of one plan
 *     record --full TARGET…      every network with each precision and math; otherwise they take turns
 *     record --onnx FILE TARGET… also plans ONNX files; may be repeated
 *
 * The exact hash covers all of a plan's text. The loose hash ignores the names and the order of kernel
 * arguments and the order of defines. Sources of kernels have separate lines at the end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <koine/model.h>
#include <koine/train.h>

#include "models/models.h"
#include "run/session_private.h"
#include "train/trainer_private.h"
#include "verify/verify_private.h"

enum { MAX_TARGETS = 32, MAX_FILES = 256, MAX_SOURCES = 512, MAX_ONNX = 64, BATCH = 32, OPEN_SIZE = 64 };

typedef struct source {
    char file[96];
    uint64_t hash;
} source;

typedef struct recording {
    const char *show; /* NULL: all */
    bool full, found;
    kn_context *contexts[MAX_TARGETS];
    char names[MAX_TARGETS][64];
    int target_count;
    const char *onnx[MAX_ONNX];
    int onnx_count;
    source sources[MAX_SOURCES];
    int source_count;
    kn_host host;
} recording;

static uint64_t hash_of(const char *text) {
    return kn_hash_text(KN_HASH_START, text);
}

/* ---- the text of a plan ----------------------------------------------------------------------------- */

typedef struct plan_text {
    kn_text text;
    uint64_t loose;
} plan_text;

static void note_source(recording *all, kn_context *context, const char *file) {
    for (int i = 0; i < all->source_count; i++)
        if (!strcmp(all->sources[i].file, file)) return;
    kn_text text, options;
    kn_error error = {.status = KN_OK};
    kn_text_init(&text, &all->host);
    kn_text_init(&options, &all->host);
    const kn_program_request request = {.file = file, .prelude = ""};
    if (all->source_count < MAX_SOURCES &&
        kn_program_write(context, &request, &text, &options, &error) == KN_OK) {
        source *noted = &all->sources[all->source_count++];
        snprintf(noted->file, sizeof noted->file, "%s", file);
        noted->hash = hash_of(text.data);
    }
    kn_text_finish(&options);
    kn_text_finish(&text);
}

static void add_placement(const kn_placement *placement, const kn_value *value, kn_text *text) {
    kn_text_format(text, " in %d/%d/%" PRIu64 "/%d", (int)placement->storage, placement->block,
                   placement->offset, placement->slot);
    if (placement->root && placement->root != value) kn_text_format(text, " of %s", placement->root->name);
}

/* Everything about an argument except its name. */
static void add_argument(const kn_executable *part, const kn_argument *argument, kn_text *text) {
    /* Fixed numbers, so that a new kind changes no record. */
    static const int numbers[] = {
        [KN_ARGUMENT_VALUE] = 0, [KN_ARGUMENT_SCRATCH] = 1, [KN_ARGUMENT_INT] = 2,
        [KN_ARGUMENT_INDEX] = 3, [KN_ARGUMENT_FLOAT] = 4,   [KN_ARGUMENT_UINT] = 5,
        [KN_ARGUMENT_LOCAL] = 6, [KN_ARGUMENT_PRESENT] = 7, [KN_ARGUMENT_NUMBER] = 8};
    kn_text_format(text, "%d %d%d ", numbers[argument->kind], argument->reads, argument->writes);
    if (argument->kind == KN_ARGUMENT_SCRATCH) {
        const kn_placement *scratch = &part->plan.scratches[argument->integer];
        kn_text_format(text, "scratch of %" PRIu64, scratch->bytes);
        add_placement(scratch, NULL, text);
    } else if (argument->kind == KN_ARGUMENT_VALUE && argument->value) {
        const kn_value *value = argument->value;
        kn_text_format(text, "%s ", value->name ? value->name : "");
        kn_shape_text(part->graph, &value->shape, text);
        kn_text_add(text, value->layout == KN_LAYOUT_BLOCKED ? " blocked" : " plain");
        add_placement(kn_executable_placement(part, value), value, text);
    } else if (argument->kind == KN_ARGUMENT_FLOAT || argument->kind == KN_ARGUMENT_NUMBER) {
        kn_text_format(text, "%a", argument->number);
    } else if (argument->kind != KN_ARGUMENT_VALUE) {
        kn_text_format(text, "%" PRId64, argument->integer);
    }
}

static void add_loosely(plan_text *plan, size_t from) {
    if (!plan->text.failed) plan->loose += hash_of(plan->text.data + from);
}

static void add_prelude(plan_text *plan, const char *prelude) {
    for (const char *line = prelude; line && *line;) {
        const size_t length = strcspn(line, "\n"), from = plan->text.length;
        kn_text_add(&plan->text, "    | ");
        kn_text_add_bytes(&plan->text, line, length);
        kn_text_add(&plan->text, "\n");
        add_loosely(plan, from);
        line += length + (line[length] == '\n');
    }
}

static void add_step(recording *all, const kn_executable *part, int position, plan_text *plan) {
    const kn_ready_step *ready = &part->steps[position];
    const kn_step *step = ready->step;
    const kn_step_tiles *tiles = &step->tiles;
    kn_text *text = &plan->text;
    size_t from = text->length;
    kn_text_format(text, "%d %d %s", position, (int)step->kind, step->label ? step->label : "");
    if (step->kind == KN_STEP_KERNEL) {
        if (!step->source) note_source(all, part->context, step->file);
        kn_text_format(text, " %s:%s", step->file, step->kernel);
        if (step->language) kn_text_format(text, " %s", step->language);
        if (step->source) kn_text_format(text, " source %016" PRIx64, hash_of(step->source));
    }
    kn_text_add(text, "\n    launch");
    for (int d = 0; d < 3; d++)
        kn_text_format(text, " %zu/%zu/%zu", step->global[d], step->local[d], step->cut[d]);
    kn_text_format(text, " once %d bytes %" PRIu64 " cost %a %a", ready->once, ready->bytes,
                   ready->cost.flops, ready->cost.bytes);
    if (ready->source) kn_text_format(text, " from %s", ready->source->name);
    if (ready->target) kn_text_format(text, " to %s", ready->target->name);
    if (tiles->tile_rows)
        kn_text_format(text,
                       " tiles %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " / %d %d %d / %d %" PRId64
                       " %" PRId64 " %d%d%d",
                       tiles->rows, tiles->columns, tiles->depth, tiles->batches, tiles->tile_rows,
                       tiles->tile_columns, tiles->tile_depth, tiles->products, tiles->parts,
                       tiles->part_depth, tiles->matrix, tiles->split, tiles->integers);
    if (step->tuned) kn_text_format(text, " tuned %s", step->tuned);
    kn_text_add(text, "\n");
    add_loosely(plan, from);
    add_prelude(plan, step->prelude);
    for (int a = 0; a < step->argument_count; a++) {
        const char *name = step->arguments[a].name;
        kn_text_format(text, "    %s ", name ? name : "-");
        from = text->length;
        add_argument(part, &step->arguments[a], text);
        kn_text_add(text, "\n");
        add_loosely(plan, from);
    }
}

static void write_plan(recording *all, const kn_executable *executable, plan_text *plan) {
    for (int p = 0; p < executable->part_count; p++) {
        const kn_executable *part = executable->parts[p];
        for (int i = 0; i < part->plan.step_count; i++)
            add_step(all, part, i, plan);
        const size_t from = plan->text.length;
        const kn_plan_info *info = &part->info;
        kn_text_format(&plan->text,
                       "memory %" PRIu64 " states %" PRIu64 " scratch %" PRIu64 " kept %" PRIu64
                       " kernels %d conversions %d recomputed %d\n",
                       info->peak_bytes, info->state_bytes, info->scratch_bytes, info->kept_bytes,
                       info->kernels, info->conversions, info->recomputed);
        add_loosely(plan, from);
    }
}

static bool is_wanted(const recording *all, const char *name) {
    return !all->show || !strcmp(all->show, name);
}

/* Prints a plan; `session` has compiled it, or failed with *status. */
static void record(recording *all, const char *name, kn_status status, const kn_session *session,
                   const char *problem) {
    plan_text plan = {.loose = 0};
    kn_text_init(&plan.text, &all->host);
    int steps = 0;
    if (status == KN_OK) {
        write_plan(all, session->current, &plan);
        steps = session->current->total.steps;
    } else {
        kn_text_format(&plan.text, "%s\n", problem);
        add_loosely(&plan, 0);
    }
    if (kn_text_failed(&plan.text)) {
        fprintf(stderr, "record: out of memory\n");
        exit(2);
    }
    if (all->show)
        fputs(plan.text.data, stdout);
    else
        printf("%s\t%016" PRIx64 "\t%016" PRIx64 "\t%d\n", name, hash_of(plan.text.data), plan.loose, steps);
    all->found = true;
    kn_text_finish(&plan.text);
}

/* ---- networks --------------------------------------------------------------------------------------- */

typedef struct arithmetic {
    kn_precision precision;
    bool fast;
} arithmetic;

enum { ARITHMETIC_COUNT = 8 };
static arithmetic arithmetic_at(int number) {
    static const kn_precision precisions[] = {KN_PRECISION_FLOAT32, KN_PRECISION_BFLOAT16, KN_PRECISION_TF32,
                                              KN_PRECISION_FLOAT16};
    return (arithmetic){precisions[number / 2 % 4], number % 2 == 0};
}

static kn_session_params params_of(arithmetic with) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.precision = with.precision;
    params.fast_math = with.fast;
    params.switches = "programs=none";
    return params;
}

static void infer(recording *all, const char *name, kn_context *context, const kn_model *model,
                  arithmetic with) {
    const size_t count = kn_model_output_count(model);
    kn_value **outputs = calloc(count + 1, sizeof *outputs);
    kn_session_params params = params_of(with);
    params.memory_bytes = UINT64_MAX;
    for (size_t i = 0; outputs && i < count; i++)
        outputs[i] = kn_model_output_at(model, i);
    kn_session *session = kn_session_create(context, outputs, count, &params);
    kn_status status = kn_session_status(session);
    if (status == KN_OK) {
        status = kn_session_bind(session, "batch", BATCH);
        if (status == KN_ERROR_NOT_FOUND) status = KN_OK;
    }
    const char *size;
    bool first;
    for (size_t i = 0; status == KN_OK && (size = kn_model_open_size_at(model, i, &first)); i++)
        status = kn_session_bind(session, size, first ? BATCH : OPEN_SIZE);
    if (status == KN_OK) status = kn_session_compile(session, NULL, 0);
    record(all, name, status, session, kn_session_error(session));
    kn_session_destroy(&session);
    free(outputs);
}

static void train(recording *all, const char *name, kn_context *context, kn_model *model, arithmetic with) {
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, NULL, &loss) != KN_OK) return;
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_ADAM);
    const kn_session_params session = params_of(with);
    params.session = &session;
    kn_trainer *trainer = kn_trainer_create(context, loss.value, &params);
    kn_status status = kn_trainer_status(trainer);
    if (status == KN_OK) status = kn_trainer_compile(trainer, BATCH);
    record(all, name, status, status == KN_OK ? trainer->session : NULL, kn_trainer_error(trainer));
    kn_trainer_destroy(&trainer);
}

static void record_model(recording *all, const char *path, const char *label, bool training, int turn) {
    for (int t = 0; t < all->target_count; t++)
        for (int a = 0; a < ARITHMETIC_COUNT; a++) {
            char name[256];
            if (!all->full && a != (turn + t + training) % ARITHMETIC_COUNT) continue;
            const arithmetic with = arithmetic_at(a);
            snprintf(name, sizeof name, "%s %s %s %s %s", label, training ? "train" : "infer", all->names[t],
                     kn_precision_name(with.precision), with.fast ? "fast" : "exact");
            if (!is_wanted(all, name)) continue;
            kn_model *model = kn_model_open(path, NULL);
            if (kn_model_status(model) != KN_OK)
                record(all, name, kn_model_status(model), NULL, kn_model_error(model));
            else if (training)
                train(all, name, all->contexts[t], model, with);
            else
                infer(all, name, all->contexts[t], model, with);
            kn_model_destroy(&model);
        }
}

static void record_models(recording *all) {
    for (size_t i = 0; i < kn_zoo_count(); i++)
        for (int training = 0; training < 2; training++)
            record_model(all, kn_zoo_name_at(i), kn_zoo_name_at(i), training, (int)i);
    for (int i = 0; i < all->onnx_count; i++) {
        const char *slash = strrchr(all->onnx[i], '/');
        record_model(all, all->onnx[i], slash ? slash + 1 : all->onnx[i], false, i);
    }
}

/* ---- cases ------------------------------------------------------------------------------------------ */

static void record_trial(recording *all, const char *name, kn_context *context, kn_trial *trial,
                         const char *switches, bool fast) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.training = trial->test_case->training;
    params.fast_math = fast;
    params.switches = switches;
    kn_session *session = kn_session_create(context, trial->outputs, (size_t)trial->output_count, &params);
    kn_status status = kn_session_status(session);
    if (status == KN_OK) status = kn_session_compile(session, NULL, 0);
    record(all, name, status, session, kn_session_error(session));
    kn_session_destroy(&session);
}

/* A case as planned, and with each variant forced. */
static void record_case(recording *all, const kn_operator *row, int number) {
    static const kn_dtype types[] = {KN_FLOAT32, KN_BFLOAT16, KN_FLOAT32};
    kn_trial trial;
    kn_error error = {.status = KN_OK};
    kn_status status =
        kn_trial_make(&trial, &all->host, row, &row->cases[number], NULL, (kn_trial_types){0}, 1, &error);
    for (int t = 0; t < all->target_count && status == KN_OK; t++)
        for (int v = -1; v < row->variant_count; v++)
            for (int p = 0; p < 3; p++) {
                char name[256], switches[256], more[KN_MORE_SWITCHES];
                const char *variant = v < 0 ? "chosen" : row->variants[v].name;
                if (!all->full && p != (number + t + v + 1) % 3) continue;
                const bool fast = !all->full ? (number + t) % 2 : v < 0;
                snprintf(name, sizeof name, "%s#%d %s %s %s %s", row->name, number, variant, all->names[t],
                         p == 1   ? "bfloat16"
                         : p == 2 ? "tf32"
                                  : "float32",
                         fast ? "fast" : "exact");
                if (!is_wanted(all, name)) continue;
                kn_switches_of(0, (kn_trial_types){types[p], {~0u, ~0u}, p == 2}, more);
                snprintf(switches, sizeof switches, "programs=none%s", more);
                if (v >= 0)
                    snprintf(switches, sizeof switches, "programs=none,%s=%s%s", row->name, variant, more);
                record_trial(all, name, all->contexts[t], &trial, switches, fast);
            }
    kn_trial_finish(&trial);
}

static void record_cases(recording *all) {
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        for (int number = 0; number < row->case_count; number++)
            if (!row->cases[number].large) record_case(all, row, number);
    }
}

/* ---- the command line ------------------------------------------------------------------------------- */

static bool open_target(recording *all, const char *path) {
    const char *slash = strrchr(path, '/');
    kn_context_params params;
    kn_context_params_init(&params);
    params.target = path;
    params.cache_folder = "/nowhere"; /* described devices use none */
    kn_context *context = kn_context_create(&params);
    if (kn_context_status(context) != KN_OK || all->target_count == MAX_TARGETS) {
        fprintf(stderr, "record: %s: %s\n", path, kn_context_error(context));
        return false;
    }
    char *name = all->names[all->target_count];
    snprintf(name, sizeof all->names[0], "%s", slash ? slash + 1 : path);
    name[strcspn(name, ".")] = '\0';
    all->contexts[all->target_count++] = context;
    return true;
}

int main(int count, char **words) {
    static recording all;
    all.host = kn_host_defaults();
    for (int i = 1; i < count; i++) {
        if (!strcmp(words[i], "--show") && i + 1 < count)
            all.show = words[++i];
        else if (!strcmp(words[i], "--full"))
            all.full = true;
        else if (!strcmp(words[i], "--onnx") && i + 1 < count && all.onnx_count < MAX_ONNX)
            all.onnx[all.onnx_count++] = words[++i];
        else if (!open_target(&all, words[i]))
            return 2;
    }
    record_models(&all);
    record_cases(&all);
    for (int i = 0; i < all.source_count && !all.show; i++)
        printf("source %s\t%016" PRIx64 "\t\t0\n", all.sources[i].file, all.sources[i].hash);
    for (int t = 0; t < all.target_count; t++)
        kn_context_destroy(&all.contexts[t]);
    if (all.show && !all.found) {
        fprintf(stderr, "record: there is no plan '%s'\n", all.show);
        return 1;
    }
    return 0;
}
