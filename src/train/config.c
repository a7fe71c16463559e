/* The settings of a trainer by name. One table of the fields of kn_trainer_params has what is said about
 * each: its range, the optimizers or schedules that read it, and its name, help and text outside C. Checks,
 * the options of koine train, the settings saved with a model and Python read it; the defaults are those of
 * KN_TRAINER_DEFAULTS. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "train/optimizer.h"
#include "train/trainer_private.h"

/* ---- words ------------------------------------------------------------------------------------------- */

static const char *optimizer_word(int number) {
    return kn_optimizer_name((kn_optimizer)number);
}

static const char *moments_word(int number) {
    return kn_moments_name((kn_moments)number);
}

static const char *schedule_word(int number) {
    static const char *const names[] = {
        [KN_SCHEDULE_CONSTANT] = "constant",       [KN_SCHEDULE_STEP] = "step",
        [KN_SCHEDULE_COSINE] = "cosine",           [KN_SCHEDULE_MULTI_STEP] = "multi-step",
        [KN_SCHEDULE_EXPONENTIAL] = "exponential", [KN_SCHEDULE_COSINE_RESTARTS] = "cosine-restarts",
        [KN_SCHEDULE_ONE_CYCLE] = "one-cycle",     [KN_SCHEDULE_POLYNOMIAL] = "polynomial",
        [KN_SCHEDULE_PLATEAU] = "plateau"};
    return (unsigned)number < KN_COUNT_OF(names) ? names[number] : NULL;
}

/* The types in which gradients are sent. */
static const char *gradient_word(int number) {
    return number == KN_FLOAT32 || kn_is_half((kn_dtype)number) ? kn_dtype_name((kn_dtype)number) : NULL;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

typedef enum kind { FLAG, COUNT, NUMBER, WORD } kind; /* bool, uint64_t, double, an enum */

typedef struct config_row {
    const char *name; /* of the field */
    size_t offset;
    kind kind;
    const char *option, *argument, *help; /* as in kn_trainer_setting */
    kn_setting_group group;
    double least, below;      /* for a count or number: minimum, and exclusive maximum; below 0: none */
    bool positive;            /* 0 is excluded */
    const char *(*word)(int); /* for a word: the word of a number; NULL if there is none */
    bool by_optimizer;        /* used by the optimizers that read it (rules.c) */
    unsigned schedules;       /* bit mask of the schedules that use it; 0: all */
    bool by_rounds;           /* used with sync_every */
    bool same_result;         /* results do not depend on it */
} config_row;

#define ROW(field, of_kind) .name = #field, .offset = offsetof(kn_trainer_params, field), .kind = of_kind
#define OF(schedule) (1u << KN_SCHEDULE_##schedule)
enum {
    STEPS = OF(STEP) | OF(EXPONENTIAL),
    ENDS = OF(COSINE) | OF(ONE_CYCLE) | OF(POLYNOMIAL),
    MAX_WORD = 64
};

/* In the order of the help. */
static const config_row rows[] = {
    {ROW(optimizer, WORD), "optimizer", "NAME", "update rule", .word = optimizer_word},
    {ROW(learning_rate, NUMBER), "lr", "RATE", "learning rate"},
    {ROW(momentum, NUMBER), "momentum", "M", "momentum", .below = 1, .by_optimizer = true},
    {ROW(dampening, NUMBER), "dampening", "D", "dampening of the momentum", .by_optimizer = true},
    {ROW(nesterov, FLAG), "nesterov", NULL, "use Nesterov momentum", .by_optimizer = true},
    {ROW(amsgrad, FLAG), "amsgrad", NULL, "divide by the largest mean square so far", .by_optimizer = true},
    {ROW(centered, FLAG), "centered", NULL, "divide by the standard deviation of the gradients",
     .by_optimizer = true},
    {ROW(beta1, NUMBER), "beta1", "B", "decay rate of the mean gradient", .below = 1, .by_optimizer = true},
    {ROW(beta2, NUMBER), "beta2", "B", "decay rate of the mean squared gradient", .below = 1,
     .by_optimizer = true},
    {ROW(epsilon, NUMBER), "epsilon", "E", "term added to denominators", .by_optimizer = true},
    {ROW(rate_decay, NUMBER), "lr-decay", "D", "divide the rate by 1 + D * updates", .by_optimizer = true},
    {ROW(accumulator, NUMBER), "accumulator", "A", "initial sum of squared gradients", .by_optimizer = true},
    {ROW(moments, WORD), "optimizer-dtype", "TYPE",
     "store the optimizer state as float32, bfloat16 or 8bit (float32)", .word = moments_word},
    {ROW(variable_momentum, FLAG), .help = "momentum and betas may change between steps"},
    {ROW(offload_optimizer, FLAG), "offload-optimizer", NULL,
     "keep the optimizer state in host memory between updates: less device memory, more time, the same bits",
     .same_result = true},
    {ROW(weight_decay, NUMBER), "weight-decay", "W", "weight decay"},
    {ROW(decay_matrices_only, FLAG), "decay-matrices", NULL,
     "no weight decay for biases and other parameters of rank 1"},
    {ROW(clip_norm, NUMBER), "clip", "NORM", "clip the norm of all gradients together (0: off)"},
    {ROW(clip_value, NUMBER), "clip-value", "V", "clip each element of a gradient to [-V, V] (0: off)"},
    {ROW(accumulate, COUNT), "accumulate", "N", "update once per N batches, with their mean gradient",
     .least = 1},
    {ROW(average, NUMBER), "ema", "D",
     "evaluate and save a moving average of the weights with this decay, such as 0.999 (0: off)", .below = 1},
    {ROW(schedule, WORD), "schedule", "NAME", "see above (cosine if the end is known, else constant)",
     .group = KN_SETTING_GROUP_SCHEDULE, .word = schedule_word},
    {ROW(warmup_steps, COUNT), "warmup", "N", "updates of linear warm-up (0)",
     .group = KN_SETTING_GROUP_SCHEDULE},
    {ROW(total_steps, COUNT), .help = "the last update", .group = KN_SETTING_GROUP_SCHEDULE,
     .schedules = ENDS},
    {ROW(final_fraction, NUMBER), "lr-end", "F", "final rate as a fraction of the initial one",
     .group = KN_SETTING_GROUP_SCHEDULE,
     .schedules = OF(COSINE) | OF(COSINE_RESTARTS) | OF(POLYNOMIAL) | OF(PLATEAU)},
    {ROW(step_every, COUNT), "step-every", "N", "updates between reductions",
     .group = KN_SETTING_GROUP_SCHEDULE, .schedules = STEPS},
    {ROW(step_factor, NUMBER), "step-factor", "F", "factor of each reduction",
     .group = KN_SETTING_GROUP_SCHEDULE, .schedules = STEPS | OF(MULTI_STEP) | OF(PLATEAU)},
    {ROW(restart_every, COUNT), "restart-every", "N", "updates of the first cosine",
     .group = KN_SETTING_GROUP_SCHEDULE, .least = 1, .schedules = OF(COSINE_RESTARTS)},
    {ROW(restart_factor, NUMBER), "restart-factor", "F", "length of each cosine relative to the previous one",
     .group = KN_SETTING_GROUP_SCHEDULE, .least = 1, .schedules = OF(COSINE_RESTARTS)},
    {ROW(cycle_rise, NUMBER), "cycle-rise", "F", "fraction of the cycle in which the rate rises",
     .group = KN_SETTING_GROUP_SCHEDULE, .below = 1, .schedules = OF(ONE_CYCLE)},
    {ROW(cycle_divisor, NUMBER), "cycle-divisor", "D", "peak rate divided by the initial rate",
     .group = KN_SETTING_GROUP_SCHEDULE, .positive = true, .schedules = OF(ONE_CYCLE)},
    {ROW(cycle_final_divisor, NUMBER), "cycle-final-divisor", "D", "initial rate divided by the final rate",
     .group = KN_SETTING_GROUP_SCHEDULE, .positive = true, .schedules = OF(ONE_CYCLE)},
    {ROW(power, NUMBER), "power", "P", "exponent of polynomial", .group = KN_SETTING_GROUP_SCHEDULE,
     .schedules = OF(POLYNOMIAL)},
    {ROW(plateau_patience, COUNT), "plateau-patience", "N",
     "epochs without a lower validation loss before a reduction", .group = KN_SETTING_GROUP_SCHEDULE,
     .schedules = OF(PLATEAU)},
    {ROW(plateau_cooldown, COUNT), "plateau-cooldown", "N",
     "epochs after a reduction that are not counted (0)", .group = KN_SETTING_GROUP_SCHEDULE,
     .schedules = OF(PLATEAU)},
    {ROW(plateau_threshold, NUMBER), "plateau-threshold", "F", "minimum relative decrease of the loss",
     .group = KN_SETTING_GROUP_SCHEDULE, .below = 1, .schedules = OF(PLATEAU)},
    {ROW(shard_optimizer, FLAG), "shard-optimizer", NULL,
     "split the optimizer state and its updates among the devices: less memory, the same bits",
     .group = KN_SETTING_GROUP_WORKERS, .same_result = true},
    {ROW(gradient_dtype, WORD), "gradient-type", "TYPE",
     "exchange gradients as float32, bfloat16 or float16 (float32)", .group = KN_SETTING_GROUP_WORKERS,
     .word = gradient_word},
    {ROW(sync_batch_norm, FLAG), "sync-batch-norm", NULL,
     "batch statistics over all devices or processes, each with one shard: 2, 4, 8 … of them",
     .group = KN_SETTING_GROUP_WORKERS},
    {ROW(sync_every, COUNT), "sync-every", "N",
     "for slow links: average the weights after every N local steps, a multiple of --accumulate (0: add "
     "gradients in each step)",
     .group = KN_SETTING_GROUP_WORKERS},
    {ROW(outer_rate, NUMBER), "outer-rate", "R", "with --sync-every: learning rate of the averaged change",
     .group = KN_SETTING_GROUP_WORKERS, .by_rounds = true},
    {ROW(outer_momentum, NUMBER), "outer-momentum", "M",
     "with --sync-every: Nesterov momentum of that change", .group = KN_SETTING_GROUP_WORKERS, .below = 1,
     .by_rounds = true},
};

static const config_row *row_of(const char *name) {
    for (size_t i = 0; name && i < KN_COUNT_OF(rows); i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

static bool uses(const kn_trainer_params *params, const config_row *row) {
    if (row->by_optimizer) return kn_optimizer_reads(params->optimizer, row->name);
    if (row->schedules) return schedule_word(params->schedule) && row->schedules >> params->schedule & 1;
    return !row->by_rounds || params->sync_every;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

/* "a number of at least 0 and below 1", or the words: "float32, bfloat16 or 8bit" */
static void write_expected(const config_row *row, char *text, size_t room) {
    size_t used = 0;
    const char *held = NULL; /* the last word is written with "or" */
    text[0] = '\0';
    if (row->kind == FLAG) snprintf(text, room, "yes or no");
    if (row->kind == COUNT || row->kind == NUMBER)
        used = (size_t)snprintf(text, room, "%s %s %g", row->kind == COUNT ? "an integer" : "a number",
                                row->positive ? "above" : "of at least", row->least);
    if (row->below && used < room) snprintf(text + used, room - used, " and below %g", row->below);
    for (int i = 0; row->word && i < MAX_WORD && used < room; i++) {
        const char *word = row->word(i);
        if (!word) continue;
        if (held) used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", held);
        held = word;
    }
    if (held && used < room) snprintf(text + used, room - used, " or %s", held);
}

static bool in_range(const config_row *row, double number) {
    return (row->positive ? number > row->least : number >= row->least) &&
           (row->below ? number < row->below : !isinf(number));
}

static bool is_right(const kn_trainer_params *params, const config_row *row) {
    const void *field = (const char *)params + row->offset;
    if (row->kind == COUNT) return in_range(row, (double)*(const uint64_t *)field);
    if (row->kind == NUMBER) return in_range(row, *(const double *)field);
    return !row->word || row->word(*(const int *)field);
}

kn_status kn_trainer_check_settings(const kn_trainer_params *params, kn_error *error) {
    char text[64], expected[200];
    for (size_t i = 0; i < KN_COUNT_OF(rows); i++) {
        /* What is not used may have the 0 of a struct of zeros. */
        const bool bears_zero = rows[i].least == 0 && !rows[i].positive;
        if ((!bears_zero && !uses(params, &rows[i])) || is_right(params, &rows[i])) continue;
        write_expected(&rows[i], expected, sizeof expected);
        kn_trainer_params_get(params, rows[i].name, text, sizeof text);
        return kn_fail(error, KN_ERROR_ARGUMENT, "%s is %s; expected %s", rows[i].name, text, expected);
    }
    return KN_OK;
}

/* ---- text ---------------------------------------------------------------------------------------------- */

bool kn_trainer_setting_at(size_t position, kn_trainer_setting *setting) {
    if (position >= KN_COUNT_OF(rows)) return false;
    const config_row *row = &rows[position];
    const kn_trainer_setting own = {.size = sizeof own,
                                    .name = row->name,
                                    .option = row->option,
                                    .argument = row->argument,
                                    .help = row->help,
                                    .group = row->group,
                                    .is_count = row->kind == COUNT,
                                    .same_result = row->same_result,
                                    .owner = row->by_optimizer ? "optimizer"
                                             : row->schedules  ? "schedule"
                                             : row->by_rounds  ? "sync_every"
                                                               : NULL};
    return KN_RESULT_GIVE(kn_trainer_setting, setting, &own) == KN_OK;
}

const char *kn_trainer_setting_word_at(const char *name, size_t position) {
    const config_row *row = row_of(name);
    for (int i = 0; row && row->word && i < MAX_WORD; i++)
        if (row->word(i) && !position--) return row->word(i);
    return NULL;
}

bool kn_trainer_params_use(const kn_trainer_params *params, const char *name) {
    const config_row *row = row_of(name);
    return params && row && uses(params, row);
}

static bool read_word(const config_row *row, const char *text, int *number) {
    for (*number = 0; *number < MAX_WORD; ++*number) {
        const char *word = row->word(*number);
        if (word && !strcmp(word, text)) return true;
    }
    return false;
}

static bool read_text(kn_trainer_params *params, const config_row *row, const char *text) {
    void *field = (char *)params + row->offset;
    const char *end = text;
    const bool yes = !strcmp(text, "yes");
    int64_t count = 0;
    double number = 0;
    int word = 0;
    switch (row->kind) {
    case FLAG:
        if (yes || !strcmp(text, "no")) *(bool *)field = yes;
        return yes || !strcmp(text, "no");
    case COUNT:
        if (!kn_parse_int64(text, &end, &count) || *end || count < 0 || !in_range(row, (double)count))
            return false;
        *(uint64_t *)field = (uint64_t)count;
        return true;
    case NUMBER:
        if (!kn_parse_double(text, &end, &number) || *end || !in_range(row, number)) return false;
        *(double *)field = number;
        return true;
    case WORD:
        break;
    }
    if (!read_word(row, text, &word)) return false;
    memcpy(field, &word, sizeof word);
    if (row->word == optimizer_word) kn_trainer_params_choose(params, (kn_optimizer)word);
    return true;
}

kn_status kn_trainer_params_set(kn_trainer_params *params, const char *name, const char *text, char *message,
                                size_t size) {
    const config_row *row = row_of(name);
    char expected[200];
    if (message && size) message[0] = '\0';
    if (!params || !text || !row) return KN_ERROR_ARGUMENT;
    if (read_text(params, row, text)) return KN_OK;
    write_expected(row, expected, sizeof expected);
    if (message) snprintf(message, size, "is '%s'; expected %s", text, expected);
    return KN_ERROR_ARGUMENT;
}

/* The shortest text that reads back as the same number. */
static void write_number(double number, char *text, size_t room) {
    const kn_host host = kn_host_defaults();
    kn_text own;
    kn_text_init(&own, &host);
    kn_text_number(&own, number);
    snprintf(text, room, "%s", own.data);
    kn_text_finish(&own);
}

kn_status kn_trainer_params_get(const kn_trainer_params *params, const char *name, char *text, size_t room) {
    const config_row *row = row_of(name);
    if (!params || !row || !text) return KN_ERROR_ARGUMENT;
    const void *field = (const char *)params + row->offset;
    if (row->kind == FLAG) snprintf(text, room, *(const bool *)field ? "yes" : "no");
    if (row->kind == COUNT) snprintf(text, room, "%llu", (unsigned long long)*(const uint64_t *)field);
    if (row->kind == NUMBER) write_number(*(const double *)field, text, room);
    if (row->kind != WORD) return KN_OK;
    const char *word = row->word(*(const int *)field);
    if (word)
        snprintf(text, room, "%s", word);
    else
        snprintf(text, room, "%d", *(const int *)field);
    return KN_OK;
}
