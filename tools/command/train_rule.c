/* The optimizer options of koine train: meanings and valid combinations. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

static const char *const schedules[] = {"constant",   "step",        "cosine",
                                        "multi-step", "exponential", "cosine-restarts",
                                        "one-cycle",  "polynomial",  "plateau"};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

#define OF(rule) (1u << (rule))

/* Appends to a text. */
static void add(char *text, size_t room, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, room - used, format, arguments);
    va_end(arguments);
}

/* "sgd or rmsprop" */
static const char *list_of(unsigned which, const char *const *words, int count, const char *last, char *text,
                           size_t room) {
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (!(which >> i & 1)) continue;
        if (text[0]) add(text, room, "%s", which >> i >> 1 ? ", " : last);
        add(text, room, "%s", words[i]);
    }
    return text;
}

/* ---- options of the optimizers ------------------------------------------------------------------------- */

enum { OWNERS_TOLD = 4 }; /* the help lists the optimizers of an option up to this number */
/* An option of train_rule and the field of kn_trainer_params that it sets. */
typedef struct rule_field {
    const char *option, *field, *about;
    size_t given, target;
    bool flag, of_all; /* a bool, not a double; all optimizers have it */
} rule_field;
#define FIELD(name, own, theirs)                                                                             \
    name, #theirs, .given = offsetof(train_rule, own), .target = offsetof(kn_trainer_params, theirs)
static const rule_field fields[RULE_FIELDS] = {
    [RULE_LR] = {FIELD("lr", rate, learning_rate), .about = "learning rate", .of_all = true},
    [RULE_MOMENTUM] = {FIELD("momentum", momentum, momentum), .about = "momentum"},
    [RULE_DAMPENING] = {FIELD("dampening", dampening, dampening), .about = "dampening of the momentum"},
    [RULE_NESTEROV] = {FIELD("nesterov", nesterov, nesterov), .about = "use Nesterov momentum", .flag = true},
    [RULE_AMSGRAD] = {FIELD("amsgrad", amsgrad, amsgrad), .about = "divide by the largest mean square so far",
                      .flag = true},
    [RULE_CENTERED] = {FIELD("centered", centered, centered),
                       .about = "divide by the standard deviation of the gradients", .flag = true},
    [RULE_BETA1] = {FIELD("beta1", beta1, beta1), .about = "decay rate of the mean gradient"},
    [RULE_BETA2] = {FIELD("beta2", beta2, beta2), .about = "decay rate of the mean squared gradient"},
    [RULE_EPSILON] = {FIELD("epsilon", epsilon, epsilon), .about = "term added to denominators"},
    [RULE_LR_DECAY] = {FIELD("lr-decay", rate_decay, rate_decay),
                       .about = "divide the rate by 1 + D * updates"},
    [RULE_ACCUMULATOR] = {FIELD("accumulator", accumulator, accumulator),
                          .about = "initial sum of squared gradients"},
    [RULE_WEIGHT_DECAY] = {FIELD("weight-decay", decay, weight_decay), .about = "weight decay",
                           .of_all = true},
};

/* The optimizers that have an option, as a bit mask. */
static unsigned owners_of(const rule_field *row) {
    unsigned owners = 0;
    for (size_t i = 0; i < kn_optimizer_count(); i++)
        if (row->of_all || kn_optimizer_reads((kn_optimizer)i, row->field)) owners |= OF(i);
    return owners;
}

static double usual_of(const rule_field *row, int optimizer) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, (kn_optimizer)optimizer);
    return *(const double *)((const char *)&params + row->target);
}

/* " (0.001; sgd, rmsprop 0.01; adadelta 1)": the default of Adam or of all optimizers, then the other
 * defaults. */
static void write_usual(const rule_field *row, unsigned owners, char *text, size_t room) {
    const char *words[OPTIMIZERS_MOST];
    const int count = optimizer_list(words);
    const bool adam = owners & OF(KN_OPTIMIZER_ADAM);
    char list[RULE_HELP_BYTES];
    unsigned left = owners;
    for (int turn = 0; left; turn++) {
        int first = KN_OPTIMIZER_ADAM;
        if (turn || !adam)
            for (first = 0; !(left >> first & 1);)
                first++;
        const double number = usual_of(row, first);
        unsigned alike = 0;
        for (int i = 0; i < count; i++)
            if ((left >> i & 1) && usual_of(row, i) == number) alike |= OF(i);
        left &= ~alike;
        add(text, room, turn ? "; " : " (");
        if (turn || (!adam && left))
            add(text, room, "%s ", list_of(alike, words, count, ", ", list, sizeof list));
        add(text, room, "%.9g", number);
    }
    add(text, room, ")");
}

static void write_help(const rule_field *row, char *text, size_t room) {
    const char *words[OPTIMIZERS_MOST];
    const int count = optimizer_list(words);
    const unsigned owners = owners_of(row);
    char list[RULE_HELP_BYTES];
    int owner_count = 0;
    for (int i = 0; i < count; i++)
        owner_count += owners >> i & 1;
    text[0] = '\0';
    if (owner_count <= OWNERS_TOLD)
        add(text, room, "%s: ", list_of(owners, words, count, ", ", list, sizeof list));
    add(text, room, "%s", row->about);
    if (!row->flag) write_usual(row, owners, text, room);
}

void train_rule_init(train_rule *rule) {
    *rule = (train_rule){.optimizer = "adam",
                         .rate = NAN,
                         .momentum = NAN,
                         .dampening = NAN,
                         .beta1 = NAN,
                         .beta2 = NAN,
                         .epsilon = NAN,
                         .rate_decay = NAN,
                         .accumulator = NAN,
                         .decay = NAN,
                         .final_share = NAN,
                         .step_factor = NAN,
                         .restart_factor = NAN,
                         .cycle_rise = NAN,
                         .cycle_divisor = NAN,
                         .power = NAN,
                         .threshold = NAN,
                         .accumulate = 1,
                         .step_every = UINT64_MAX,
                         .restart_every = UINT64_MAX,
                         .plateau_patience = UINT64_MAX,
                         .plateau_cooldown = UINT64_MAX};
    const char *words[OPTIMIZERS_MOST];
    const int count = optimizer_list(words);
    list_of(OF(count) - 1, words, count, " or ", rule->names, sizeof rule->names);
    add(rule->names, sizeof rule->names, " (%s)", rule->optimizer);
    for (int i = 0; i < RULE_FIELDS; i++)
        write_help(&fields[i], rule->help[i], sizeof rule->help[i]);
}

/* ---- options of specific optimizers or schedules -------------------------------------------------- */

/* An option, and its optimizers or schedules. */
typedef struct belonging {
    const char *name;
    bool given;
    unsigned to;
} belonging;

static int check_belonging(const belonging *rows, const char *of, int chosen, const char *const *words,
                           int count) {
    char text[120];
    for (; rows->name; rows++)
        if (rows->given && !(rows->to >> chosen & 1))
            return command_misuse("--%s applies to --%s %s, but it is %s", rows->name, of,
                                  list_of(rows->to, words, count, " or ", text, sizeof text), words[chosen]);
    return EXIT_DONE;
}

static int check_optimizer(const train_rule *rule, int chosen) {
    const char *words[OPTIMIZERS_MOST];
    const int count = optimizer_list(words);
    belonging rows[RULE_FIELDS + 1] = {{.name = NULL}};
    for (int i = 0; i < RULE_FIELDS; i++) {
        const void *given = (const char *)rule + fields[i].given;
        rows[i] = (belonging){fields[i].option,
                              fields[i].flag ? *(const bool *)given : !isnan(*(const double *)given),
                              owners_of(&fields[i])};
    }
    int status = check_belonging(rows, "optimizer", chosen, words, count);
    if (status != EXIT_DONE || !rule->nesterov) return status;
    if (rule->momentum == 0)
        return command_misuse("--nesterov looks ahead along the momentum, and --momentum is 0");
    if (rule->dampening > 0)
        return command_misuse("--nesterov takes the whole gradient: leave --dampening out");
    return EXIT_DONE;
}

static int check_schedule(const train_rule *rule, bool end_known) {
    if (!rule->schedule && end_known) return EXIT_DONE;
    int chosen = rule->schedule ? option_choice("schedule", rule->schedule, schedules, SCHEDULES)
                                : KN_SCHEDULE_CONSTANT;
    if (chosen < 0) return EXIT_USAGE;
    const unsigned ends = OF(KN_SCHEDULE_COSINE) | OF(KN_SCHEDULE_ONE_CYCLE) | OF(KN_SCHEDULE_POLYNOMIAL),
                   steps = OF(KN_SCHEDULE_STEP) | OF(KN_SCHEDULE_EXPONENTIAL);
    const belonging rows[] = {
        {"lr-end", !isnan(rule->final_share),
         OF(KN_SCHEDULE_COSINE) | OF(KN_SCHEDULE_COSINE_RESTARTS) | OF(KN_SCHEDULE_POLYNOMIAL) |
             OF(KN_SCHEDULE_PLATEAU)},
        {"step-every", rule->step_every != UINT64_MAX, steps},
        {"step-factor", !isnan(rule->step_factor),
         steps | OF(KN_SCHEDULE_MULTI_STEP) | OF(KN_SCHEDULE_PLATEAU)},
        {"milestones", rule->milestones != NULL, OF(KN_SCHEDULE_MULTI_STEP)},
        {"restart-every", rule->restart_every != UINT64_MAX, OF(KN_SCHEDULE_COSINE_RESTARTS)},
        {"restart-factor", !isnan(rule->restart_factor), OF(KN_SCHEDULE_COSINE_RESTARTS)},
        {"cycle-rise", !isnan(rule->cycle_rise), OF(KN_SCHEDULE_ONE_CYCLE)},
        {"cycle-divisor", !isnan(rule->cycle_divisor), OF(KN_SCHEDULE_ONE_CYCLE)},
        {"power", !isnan(rule->power), OF(KN_SCHEDULE_POLYNOMIAL)},
        {"plateau-patience", rule->plateau_patience != UINT64_MAX, OF(KN_SCHEDULE_PLATEAU)},
        {"plateau-cooldown", rule->plateau_cooldown != UINT64_MAX, OF(KN_SCHEDULE_PLATEAU)},
        {"plateau-threshold", !isnan(rule->threshold), OF(KN_SCHEDULE_PLATEAU)},
        {.name = NULL},
    };
    int status = check_belonging(rows, "schedule", chosen, schedules, SCHEDULES);
    if (status != EXIT_DONE) return status;
    if (chosen == KN_SCHEDULE_STEP && (rule->step_every == UINT64_MAX || !rule->step_every))
        return command_misuse("--schedule step and --step-every N need each other");
    if (chosen == KN_SCHEDULE_EXPONENTIAL && (rule->step_every == UINT64_MAX || !rule->step_every))
        return command_misuse("--schedule exponential needs --step-every N, over which the rate falls by "
                              "--step-factor");
    if (chosen == KN_SCHEDULE_MULTI_STEP && !rule->milestones)
        return command_misuse("--schedule multi-step needs --milestones, such as --milestones 3000,6000");
    if (chosen == KN_SCHEDULE_COSINE_RESTARTS && (rule->restart_every == UINT64_MAX || !rule->restart_every))
        return command_misuse("--schedule cosine-restarts needs --restart-every N");
    if ((ends >> chosen & 1) && !end_known)
        return command_misuse("--schedule %s needs to know its end: give --epochs or --steps as well",
                              schedules[chosen]);
    return EXIT_DONE;
}

/* ---- numbers and lists ------------------------------------------------------------------------------ */

static int check_numbers(const train_rule *rule) {
    /* minimum, and exclusive maximum */
    const struct {
        const char *name;
        double number, least, below;
    } rows[] = {
        {"lr", rule->rate, 0, INFINITY},
        {"momentum", rule->momentum, 0, 1},
        {"dampening", rule->dampening, 0, INFINITY},
        {"beta1", rule->beta1, 0, 1},
        {"beta2", rule->beta2, 0, 1},
        {"epsilon", rule->epsilon, 0, INFINITY},
        {"lr-decay", rule->rate_decay, 0, INFINITY},
        {"accumulator", rule->accumulator, 0, INFINITY},
        {"weight-decay", rule->decay, 0, INFINITY},
        {"clip", rule->clip, 0, INFINITY},
        {"clip-value", rule->clip_value, 0, INFINITY},
        {"ema", rule->average, 0, 1},
        {"lr-end", rule->final_share, 0, INFINITY},
        {"step-factor", rule->step_factor, 0, INFINITY},
        {"restart-factor", rule->restart_factor, 1, INFINITY},
        {"cycle-rise", rule->cycle_rise, 0, 1},
        {"cycle-divisor", rule->cycle_divisor, 1, INFINITY},
        {"power", rule->power, 0, INFINITY},
        {"plateau-threshold", rule->threshold, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (isnan(rows[i].number) || (rows[i].number >= rows[i].least && rows[i].number < rows[i].below))
            continue;
        if (isinf(rows[i].below))
            return command_misuse("--%s is %g; expected a number of at least %g", rows[i].name,
                                  rows[i].number, rows[i].least);
        return command_misuse("--%s is %g; expected a number of at least %g and below %g", rows[i].name,
                              rows[i].number, rows[i].least, rows[i].below);
    }
    if (!rule->accumulate || rule->accumulate > INT32_MAX)
        return command_misuse("--accumulate is %llu; expected 1 to %d", (unsigned long long)rule->accumulate,
                              INT32_MAX);
    return EXIT_DONE;
}

static int read_milestones(train_rule *rule) {
    const char *at = rule->milestones;
    while (at) {
        char *end;
        errno = 0;
        unsigned long long number = strtoull(at, &end, 10);
        bool good = end != at && *at >= '0' && *at <= '9' && !errno && (*end == ',' || !*end) &&
                    (!rule->milestone_count || number > rule->milestone_list[rule->milestone_count - 1]);
        if (!good || rule->milestone_count == RULE_MILESTONES)
            return command_misuse(
                "--milestones is '%s'; expected at most %d ascending integers separated by commas",
                rule->milestones, RULE_MILESTONES);
        rule->milestone_list[rule->milestone_count++] = number;
        at = *end ? end + 1 : NULL;
    }
    return EXIT_DONE;
}

/* "lr=0.1", "decay=0" or "frozen" */
static bool read_group_word(const char *word, kn_parameter_group *group) {
    char *end;
    bool rate = !strncmp(word, "lr=", 3), decay = !strncmp(word, "decay=", 6);
    if (!strcmp(word, "frozen")) return group->frozen = true;
    if (!rate && !decay) return false;
    const char *digits = strchr(word, '=') + 1;
    double number = strtod(digits, &end);
    if (end == digits || *end || !(number >= 0) || isinf(number)) return false;
    *(rate ? &group->rate_factor : &group->weight_decay) = number;
    return true;
}

/* Splits a copy of the text in place. */
static int read_groups(train_rule *rule) {
    if (!rule->groups) return EXIT_DONE;
    int length = snprintf(rule->group_text, sizeof rule->group_text, "%s", rule->groups);
    bool good = length >= 0 && (size_t)length < sizeof rule->group_text;
    char *at = rule->group_text;
    while (good && at) {
        char *next = strchr(at, ';'), *words = strchr(at, ':');
        if (next) *next++ = '\0';
        good = words && words != at && (!next || words < next) && rule->group_count < RULE_GROUPS;
        if (!good) break;
        *words++ = '\0';
        kn_parameter_group *group = &rule->group_list[rule->group_count++];
        *group = (kn_parameter_group)KN_PARAMETER_GROUP_DEFAULTS;
        group->pattern = at;
        while (good && words) {
            char *comma = strchr(words, ',');
            if (comma) *comma++ = '\0';
            good = read_group_word(words, group);
            words = comma;
        }
        at = next;
    }
    if (good) return EXIT_DONE;
    return command_misuse(
        "--groups is '%s'; expected PATTERN:WORDS, the next after a ';', at most %d of them, with "
        "words such as lr=0.1 (a factor), decay=0 or frozen and commas between them",
        rule->groups, RULE_GROUPS);
}

/* After the groups, because the last match wins. */
static int read_freeze(train_rule *rule) {
    if (!rule->freeze) return EXIT_DONE;
    int length = snprintf(rule->freeze_text, sizeof rule->freeze_text, "%s", rule->freeze);
    bool good = length >= 0 && (size_t)length < sizeof rule->freeze_text;
    for (char *at = rule->freeze_text, *next; good && at; at = next) {
        if ((next = strchr(at, ','))) *next++ = '\0';
        good = *at && rule->group_count < RULE_GROUPS;
        if (!good) break;
        kn_parameter_group *group = &rule->group_list[rule->group_count++];
        *group = (kn_parameter_group)KN_PARAMETER_GROUP_DEFAULTS;
        group->pattern = at;
        group->frozen = true;
    }
    if (good) return EXIT_DONE;
    return command_misuse(
        "--freeze is '%s'; expected names of parameters such as conv1.*, with commas between them, "
        "and together with --groups at most %d",
        rule->freeze, RULE_GROUPS);
}

int train_rule_check(train_rule *rule, bool end_known) {
    int chosen = optimizer_choice(rule->optimizer);
    if (chosen < 0 || moments_choice(rule->moments) < 0) return EXIT_USAGE;
    int status = check_numbers(rule);
    if (status == EXIT_DONE) status = check_optimizer(rule, chosen);
    if (status == EXIT_DONE) status = check_schedule(rule, end_known);
    if (status == EXIT_DONE) status = read_milestones(rule);
    if (status == EXIT_DONE) status = read_groups(rule);
    return status == EXIT_DONE ? read_freeze(rule) : status;
}

/* ---- trainer parameters -------------------------------------------------------------------------------- */

static void take(double given, double *target) {
    if (!isnan(given)) *target = given;
}
static void take_count(uint64_t given, uint64_t *target) {
    if (given != UINT64_MAX) *target = given;
}

void train_rule_apply(const train_rule *rule, uint64_t total_steps, kn_trainer_params *params) {
    /* If the total is known, the rate decays towards it. */
    const char *schedule = rule->schedule ? rule->schedule : total_steps ? "cosine" : "constant";
    kn_trainer_params_choose(params, (kn_optimizer)optimizer_choice(rule->optimizer));
    for (int i = 0; i < RULE_FIELDS; i++) {
        const void *given = (const char *)rule + fields[i].given;
        void *target = (char *)params + fields[i].target;
        if (fields[i].flag)
            *(bool *)target = *(const bool *)given;
        else
            take(*(const double *)given, target);
    }
    params->moments = (kn_moments)moments_choice(rule->moments);
    params->offload_optimizer = rule->host_moments;
    params->decay_matrices_only = rule->decay_matrices;
    params->groups = rule->group_count ? rule->group_list : NULL;
    params->group_count = rule->group_count;
    params->clip_norm = rule->clip;
    params->clip_value = rule->clip_value;
    params->accumulate = rule->accumulate;
    params->average = rule->average;
    params->schedule = (kn_schedule)option_choice("schedule", schedule, schedules, SCHEDULES);
    params->warmup_steps = rule->warmup;
    params->total_steps = total_steps;
    take(rule->final_share, &params->final_fraction);
    take_count(rule->step_every, &params->step_every);
    take(rule->step_factor, &params->step_factor);
    params->milestones = rule->milestone_list;
    params->milestone_count = rule->milestone_count;
    take_count(rule->restart_every, &params->restart_every);
    take(rule->restart_factor, &params->restart_factor);
    take(rule->cycle_rise, &params->cycle_rise);
    take(rule->cycle_divisor, &params->cycle_divisor);
    take(rule->power, &params->power);
    take_count(rule->plateau_patience, &params->plateau_patience);
    take_count(rule->plateau_cooldown, &params->plateau_cooldown);
    take(rule->threshold, &params->plateau_threshold);
}
