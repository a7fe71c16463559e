/* koine report: checks the operators in a few processes at a time, each of which checks a main operator or
 * several others. One that ends its process, or hangs, costs only itself: another process continues with the
 * rest. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "report.h"

/* Processes in all, if none ends early, and for main operators; at a time; and other operators that are worth
 * a process. */
enum { MAX_PROCESSES = 10, MAX_MAIN = 12, AT_A_TIME = 4, MIN_OPERATORS = 4 };

/* What one thread runs; its stages follow each other in `all`. */
typedef struct operator_group {
    report_run *run;
    report_stage **stages; /* those that are left; the first one runs */
    int count;
    bool stage_wrong, any_wrong; /* a wrong result of this stage, of this process */
    bool unavailable;            /* the device has nothing to check for this stage */
    bool failed;                 /* no further process can run */
} operator_group;

typedef struct operator_crew {
    operator_group groups[MAX_MAIN];
    int count, next;
    bool failed; /* one of the groups */
    pthread_mutex_t mutex;
} operator_crew;

static double group_until(void *user) {
    const operator_group *group = user;
    const double most = group->stages[0]->begin + report_most_seconds(group->run, group->stages[0]->name);
    return most < group->run->until ? most : group->run->until;
}

/* Begins the first of the stages that are left. */
static void begin_stage(operator_group *group) {
    group->stage_wrong = group->unavailable = false;
    group->failed = !report_file_begin(group->run, group->stages[0]) || group->failed;
    report_progress(group->run, group->stages[0]);
}

static void finish_stage(operator_group *group, report_end end, int signal) {
    report_file_end(group->run, group->stages[0], end, signal);
    group->stages++;
    group->count--;
}

static void take_line(void *user, bool errors, const char *line) {
    operator_group *group = user;
    char name[REPORT_STAGE_BYTES];
    if (errors || sscanf(line, "{\"operator\": \"%100[^\"]", name) != 1) {
        if (!errors && strstr(line, "\"right\": false")) group->stage_wrong = group->any_wrong = true;
        group->unavailable = group->unavailable || report_says_unavailable(errors, line);
        report_file_line(group->run, group->stages[0], errors, line);
        return;
    }
    while (group->count > 1 && strcmp(name, group->stages[0]->operator_name) != 0) {
        finish_stage(group, group->stage_wrong ? REPORT_FAILED : REPORT_DONE, 0);
        begin_stage(group);
    }
}

/* Runs a process for the stages that are left. The one at which it ends is finished too. */
static void run_process(operator_group *group) {
    const follow_reader reader = {group, take_line, group_until};
    char words[REPORT_COMMAND_BYTES];
    int result = 0, code = 0;
    size_t used = (size_t)snprintf(words, sizeof words, "%s", group->stages[0]->name);
    for (int i = 1; i < group->count && used < sizeof words; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, ",%s", group->stages[i]->operator_name);
    if (used < sizeof words) snprintf(words + used, sizeof words - used, " --name-operators");
    group->any_wrong = false;
    begin_stage(group);
    if (group->failed) return;
    const follow_end end = report_follow(group->run, words, &reader, &result, &code);
    report_end ended = report_end_after(end, result);
    /* The process has one exit status for all its operators. */
    if (ended == REPORT_FAILED && group->count == 1 && group->any_wrong)
        ended = group->stage_wrong ? REPORT_FAILED : REPORT_DONE;
    else if (ended == REPORT_FAILED && group->unavailable)
        ended = REPORT_UNAVAILABLE;
    else if (ended == REPORT_DONE && group->count > 1)
        ended = REPORT_FAILED; /* a driver ended the process with status 0 */
    else if (ended == REPORT_STOPPED && group_until(group) == group->run->until)
        ended = REPORT_LEFT_OUT;
    group->failed = group->failed || code || end == FOLLOW_LOST;
    if (!code) finish_stage(group, ended, ended == REPORT_CRASHED ? WTERMSIG(result) : 0);
}

static void *run_groups(void *user) {
    operator_crew *crew = user;
    for (;;) {
        pthread_mutex_lock(&crew->mutex);
        operator_group *group =
            crew->next < crew->count && !crew->failed ? &crew->groups[crew->next++] : NULL;
        pthread_mutex_unlock(&crew->mutex);
        if (!group) return NULL;
        while (group->count && !group->failed && !interrupted() && clock_now() < group->run->until)
            run_process(group);
        pthread_mutex_lock(&crew->mutex);
        crew->failed = crew->failed || group->failed;
        pthread_mutex_unlock(&crew->mutex);
    }
}

bool report_operators(report_run *run, bool main) {
    report_stage *stages[REPORT_MAX_STAGES];
    operator_crew crew = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[AT_A_TIME];
    int count = 0, running = 0;
    for (int i = 0; i < run->count; i++) {
        report_stage *stage = &run->stages[i];
        if (stage->operator_name && stage->main_operator == main && report_is_open(stage->end) &&
            stage->end != REPORT_UNCLEAR)
            stages[count++] = stage;
    }
    int each = main ? 1 : (count + MAX_PROCESSES - 1) / MAX_PROCESSES;
    if (each < MIN_OPERATORS && !main) each = MIN_OPERATORS;
    for (int i = 0; i < count; i += each)
        crew.groups[crew.count++] =
            (operator_group){.run = run, .stages = stages + i, .count = i + each < count ? each : count - i};
    while (running < AT_A_TIME && running < crew.count &&
           pthread_create(&threads[running], NULL, run_groups, &crew) == 0)
        running++;
    if (!running) run_groups(&crew);
    for (int i = 0; i < running; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&crew.mutex);
    return !crew.failed;
}
