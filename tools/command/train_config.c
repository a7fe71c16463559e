/* The configuration of koine train: options made from the table of the trainer's settings (koine/train.h),
 * and lists of milestones and parameter groups. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

/* ---- settings as options ------------------------------------------------------------------------------- */

int setting_take(kn_trainer_params *params, const char *word, const char *name, const char *text) {
    char message[300];
    if (kn_trainer_params_set(params, name, text, message, sizeof message) == KN_OK) return EXIT_DONE;
    return command_misuse("--%s %s", word, message);
}

/* Appends to a text. */
static void add(char *text, size_t room, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, room - used, format, arguments);
    va_end(arguments);
}

/* Appends the words of the optimizers or schedules in a bit mask: "sgd or rmsprop". */
static void add_words(char *text, size_t room, const char *name, unsigned which, const char *last) {
    const char *word;
    for (size_t i = 0, count = 0; (word = kn_trainer_setting_word_at(name, i)); i++)
        if (which >> i & 1) add(text, room, "%s%s", !count++ ? "" : which >> i >> 1 ? ", " : last, word);
}

/* The words of a setting's owner with which it is used, as a bit mask. */
static unsigned users_of(const kn_trainer_setting *setting) {
    kn_trainer_params params = KN_TRAINER_DEFAULTS;
    const char *word;
    unsigned users = 0;
    for (size_t i = 0; (word = kn_trainer_setting_word_at(setting->owner, i)); i++) {
        kn_trainer_params_set(&params, setting->owner, word, NULL, 0);
        if (kn_trainer_params_use(&params, setting->name)) users |= 1u << i;
    }
    return users;
}

/* The setting's usual value with an optimizer. */
static const char *usual(const kn_trainer_setting *setting, size_t optimizer, char text[CONFIG_NUMBER]) {
    kn_trainer_params params = KN_TRAINER_DEFAULTS;
    kn_trainer_params_choose(&params, (kn_optimizer)optimizer);
    kn_trainer_params_get(&params, setting->name, text, CONFIG_NUMBER);
    return text;
}

/* " (0.001; sgd, rmsprop 0.01; adadelta 1)": the default of Adam or of all optimizers, then other defaults.
 */
static void add_usual(const kn_trainer_setting *setting, unsigned users, char *text, size_t room) {
    const bool adam = users >> KN_OPTIMIZER_ADAM & 1;
    char value[CONFIG_NUMBER], other[CONFIG_NUMBER];
    for (int turn = 0; users; turn++) {
        size_t first = KN_OPTIMIZER_ADAM;
        unsigned alike = 0;
        if (turn || !adam)
            for (first = 0; !(users >> first & 1);)
                first++;
        usual(setting, first, value);
        for (size_t i = 0; i < kn_optimizer_count(); i++)
            if ((users >> i & 1) && !strcmp(usual(setting, i, other), value)) alike |= 1u << i;
        users &= ~alike;
        add(text, room, turn ? "; " : " (");
        if (turn || (!adam && users)) {
            add_words(text, room, "optimizer", alike, ", ");
            add(text, room, " ");
        }
        add(text, room, "%s", value);
    }
    add(text, room, ")");
}

enum { USERS_TOLD = 4 }; /* the help lists the optimizers of an option up to this number */
/* The setting's help with its optimizers and defaults, unless it ends with the default itself. */
static void write_help(const kn_trainer_setting *setting, char *text, size_t room) {
    const bool chosen = setting->owner && !strcmp(setting->owner, "optimizer");
    const unsigned all = (1u << kn_optimizer_count()) - 1, users = chosen ? users_of(setting) : all;
    int count = 0;
    for (unsigned left = users; left; left &= left - 1)
        count++;
    text[0] = '\0';
    if (count <= USERS_TOLD) {
        add_words(text, room, "optimizer", users, ", ");
        add(text, room, ": ");
    }
    if (!strcmp(setting->name, "optimizer")) {
        const kn_trainer_params params = KN_TRAINER_DEFAULTS;
        add_words(text, room, "optimizer", all, " or ");
        add(text, room, " (%s)", kn_optimizer_name(params.optimizer));
        return;
    }
    add(text, room, "%s", setting->help);
    const bool required = setting->is_count && setting->owner;
    if (!setting->argument || path_ends(text, ")", false)) return;
    char value[CONFIG_NUMBER];
    if (required && !strcmp(usual(setting, 0, value), "0")) return;
    add_usual(setting, users, text, room);
}

size_t config_rows(train_config *config, kn_setting_group group, option *rows) {
    kn_trainer_setting setting = KN_TRAINER_SETTING_DEFAULTS;
    size_t count = 0;
    for (size_t i = 0; kn_trainer_setting_at(i, &setting) && i < CONFIG_SETTINGS; i++) {
        if (setting.group != group || !setting.option) continue;
        char *help = config->help[i];
        write_help(&setting, help, sizeof config->help[i]);
        rows[count++] = setting.argument
                            ? (option){setting.option, OPTION_TEXT, setting.argument, help, &config->texts[i]}
                            : (option){setting.option, OPTION_FLAG, NULL, help, &config->flags[i]};
    }
    return count;
}

bool config_gives(const train_config *config, const char *name) {
    kn_trainer_setting setting = KN_TRAINER_SETTING_DEFAULTS;
    for (size_t i = 0; kn_trainer_setting_at(i, &setting) && i < CONFIG_SETTINGS; i++)
        if (!strcmp(setting.name, name)) return config->texts[i] || config->flags[i];
    return false;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

/* Reports a setting that the chosen optimizer or schedule does not use. */
static int check_used(const kn_trainer_params *params, const kn_trainer_setting *setting) {
    char words[200] = "", chosen[CONFIG_NUMBER] = "";
    if (kn_trainer_params_use(params, setting->name)) return EXIT_DONE;
    if (!kn_trainer_setting_word_at(setting->owner, 0))
        return command_misuse("--%s needs --sync-every", setting->option);
    add_words(words, sizeof words, setting->owner, users_of(setting), " or ");
    kn_trainer_params_get(params, setting->owner, chosen, sizeof chosen);
    return command_misuse("--%s applies to --%s %s, but it is %s", setting->option, setting->owner, words,
                          chosen);
}

/* Sets the parameters from the options, and checks that the optimizer and the schedule use them. */
static int take_settings(train_config *config) {
    kn_trainer_setting setting = KN_TRAINER_SETTING_DEFAULTS;
    kn_trainer_params *params = &config->params;
    int status = EXIT_DONE;
    kn_trainer_params_init(params);
    for (size_t i = 0; status == EXIT_DONE && kn_trainer_setting_at(i, &setting); i++)
        if (config->texts[i] || config->flags[i])
            status = setting_take(params, setting.option, setting.name,
                                  config->texts[i] ? config->texts[i] : "yes");
    if (config->cosine) params->schedule = KN_SCHEDULE_COSINE;
    for (size_t i = 0; status == EXIT_DONE && kn_trainer_setting_at(i, &setting); i++)
        if (config->texts[i] || config->flags[i]) status = check_used(params, &setting);
    return status;
}

static int check_schedule(const train_config *config, bool end_known) {
    const kn_schedule schedule = config->params.schedule;
    if ((schedule == KN_SCHEDULE_STEP || schedule == KN_SCHEDULE_EXPONENTIAL) && !config->params.step_every)
        return command_misuse(
            "--schedule %s needs --step-every N%s", kn_trainer_setting_word_at("schedule", schedule),
            schedule == KN_SCHEDULE_STEP ? "" : ", over which the rate falls by --step-factor");
    if (schedule == KN_SCHEDULE_MULTI_STEP && !config->milestones)
        return command_misuse("--schedule multi-step needs --milestones, such as --milestones 3000,6000");
    if (schedule != KN_SCHEDULE_MULTI_STEP && config->milestones)
        return command_misuse("--milestones applies to --schedule multi-step, but it is %s",
                              kn_trainer_setting_word_at("schedule", schedule));
    if (schedule == KN_SCHEDULE_COSINE_RESTARTS && !config_gives(config, "restart_every"))
        return command_misuse("--schedule cosine-restarts needs --restart-every N");
    if (kn_trainer_params_use(&config->params, "total_steps") && !end_known)
        return command_misuse("--schedule %s needs to know its end: give --epochs or --steps as well",
                              kn_trainer_setting_word_at("schedule", schedule));
    return EXIT_DONE;
}

/* ---- lists --------------------------------------------------------------------------------------------- */

static int read_milestones(train_config *config) {
    const char *at = config->milestones;
    while (at) {
        char *end;
        errno = 0;
        unsigned long long number = strtoull(at, &end, 10);
        bool good =
            end != at && *at >= '0' && *at <= '9' && !errno && (*end == ',' || !*end) &&
            (!config->milestone_count || number > config->milestone_list[config->milestone_count - 1]);
        if (!good || config->milestone_count == CONFIG_MILESTONES)
            return command_misuse(
                "--milestones is '%s'; expected at most %d ascending integers separated by commas",
                config->milestones, CONFIG_MILESTONES);
        config->milestone_list[config->milestone_count++] = number;
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
static int read_groups(train_config *config) {
    if (!config->groups) return EXIT_DONE;
    int length = snprintf(config->group_text, sizeof config->group_text, "%s", config->groups);
    bool good = length >= 0 && (size_t)length < sizeof config->group_text;
    char *at = config->group_text;
    while (good && at) {
        char *next = strchr(at, ';'), *words = strchr(at, ':');
        if (next) *next++ = '\0';
        good = words && words != at && (!next || words < next) && config->group_count < CONFIG_GROUPS;
        if (!good) break;
        *words++ = '\0';
        kn_parameter_group *group = &config->group_list[config->group_count++];
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
        config->groups, CONFIG_GROUPS);
}

/* After the groups, because the last match wins. */
static int read_freeze(train_config *config) {
    if (!config->freeze) return EXIT_DONE;
    int length = snprintf(config->freeze_text, sizeof config->freeze_text, "%s", config->freeze);
    bool good = length >= 0 && (size_t)length < sizeof config->freeze_text;
    for (char *at = config->freeze_text, *next; good && at; at = next) {
        if ((next = strchr(at, ','))) *next++ = '\0';
        good = *at && config->group_count < CONFIG_GROUPS;
        if (!good) break;
        kn_parameter_group *group = &config->group_list[config->group_count++];
        *group = (kn_parameter_group)KN_PARAMETER_GROUP_DEFAULTS;
        group->pattern = at;
        group->frozen = true;
    }
    if (good) return EXIT_DONE;
    return command_misuse(
        "--freeze is '%s'; expected names of parameters such as conv1.*, with commas between them, "
        "and together with --groups at most %d",
        config->freeze, CONFIG_GROUPS);
}

int config_check(train_config *config, bool end_known) {
    char message[600];
    config->cosine = end_known && !config->constant && !config_gives(config, "schedule");
    int status = take_settings(config);
    if (status == EXIT_DONE) status = check_schedule(config, end_known);
    if (status == EXIT_DONE) status = read_milestones(config);
    if (status == EXIT_DONE) status = read_groups(config);
    if (status == EXIT_DONE) status = read_freeze(config);
    config->params.milestones = config->milestone_list;
    config->params.milestone_count = config->milestone_count;
    config->params.groups = config->group_count ? config->group_list : NULL;
    config->params.group_count = config->group_count;
    if (status == EXIT_DONE && kn_trainer_params_check(&config->params, message, sizeof message) != KN_OK)
        return command_misuse("%s", message);
    return status;
}
