/* koine tune: the process that tries kernels, which may crash or hang it. Each line that it prints has a
 * word and tab-separated fields; tune_watch.c reads them:
 *
 *     shape KEY                             tuned next
 *     try KERNEL                            compiled, checked or timed next
 *     failed|wrong KERNEL MESSAGE
 *     done KERNEL MICROSECONDS UNTUNED      0: the untuned kernel does not work
 *     lost MESSAGE                          the shape cannot be tuned
 *     end                                   the last line */
#include <unistd.h>

#include "tune.h"

/* Ends this process if its parent has ended. */
static unsigned longest;

static void print_now(void) {
    fflush(stdout);
    alarm(longest);
}

static void report(void *user, kn_tuner_event event, const char *kernel, const char *message) {
    (void)user;
    if (event == KN_TUNER_EVENT_START)
        printf("try\t%s\n", kernel);
    else
        printf("%s\t%s\t%s\n", tune_word(event), kernel, message);
    print_now();
}

int tune_measure(tune_run *run, double seconds) {
    const double end = clock_now() + seconds;
    kn_tuner_params params = KN_TUNER_DEFAULTS;
    params.report = report;
    longest = 10 + (unsigned)(run->options->timeout < 3600 ? run->options->timeout : 3600);
    for (size_t i = 0; i < kn_tuner_shape_count(run->tuner); i++) {
        kn_tuner_shape shape = KN_TUNER_SHAPE_DEFAULTS;
        params.seconds = end - clock_now();
        if (!(params.seconds > 0)) break;
        if (kn_tuner_shape_at(run->tuner, i, &shape) != KN_OK || shape.tuned) continue;
        printf("shape\t%s\n", shape.key);
        print_now();
        kn_status status = kn_tuner_run(run->tuner, i, &params);
        if (status == KN_ERROR_CANCELLED) break;
        if (status == KN_OK) status = kn_tuner_shape_at(run->tuner, i, &shape);
        if (status == KN_OK && shape.tuned)
            printf("done\t%s\t%.3f\t%.3f\n", shape.kernel, shape.microseconds, shape.untuned_microseconds);
        else
            printf("lost\t%s\n", status == KN_OK ? "no kernel works" : kn_tuner_error(run->tuner));
        print_now();
    }
    puts("end");
    return EXIT_DONE;
}
