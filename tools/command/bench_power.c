/* koine bench --power: runs steps while a thread measures their power, and computes their cost from
 * --price. */
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "bench.h"
#include "power.h"

static const double sample_seconds = 0.1;

typedef struct watch {
    power_meter meter;
    pthread_mutex_t lock;
    pthread_cond_t ending;
    bool end;
} watch;

/* Takes at least one sample, however short the run is. */
static void *watch_power(void *user) {
    watch *self = user;
    pthread_mutex_lock(&self->lock);
    do {
        struct timespec until;
        power_sample(&self->meter);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(1e9 * sample_seconds);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!self->end) pthread_cond_timedwait(&self->ending, &self->lock, &until);
    } while (!self->end);
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* Runs steps for at least this many seconds; returns their number and the elapsed time. 0: a step failed. */
static int run_steps(bool (*step)(void *user), void *user, double seconds, double *taken) {
    double begin = clock_now();
    int count = 0;
    do {
        if (!step(user)) return 0;
        count++;
    } while ((*taken = clock_now() - begin) < seconds);
    return count;
}

bool bench_power_measure(bench_power *power, const kn_device_info *device, bool (*step)(void *user),
                         void *user, double seconds, int64_t batch) {
    static watch own;
    pthread_t thread;
    double taken = 0;
    power->watts = power->per_joule = NAN;
    if (!power->wanted) return true;
    if (!power_find(&own.meter, power->root, power->command, device)) {
        command_warn("the power cannot be measured: %s", own.meter.about);
        return true;
    }
    own.end = false;
    pthread_mutex_init(&own.lock, NULL);
    pthread_cond_init(&own.ending, NULL);
    progress_now("measuring the power");
    power_begin(&own.meter);
    bool watched = pthread_create(&thread, NULL, watch_power, &own) == 0;
    int steps = run_steps(step, user, seconds, &taken);
    /* Waits for the lock that the thread holds while its command runs; the steps have finished by then. */
    if (watched) {
        pthread_mutex_lock(&own.lock);
        own.end = true;
        pthread_cond_signal(&own.ending);
        pthread_mutex_unlock(&own.lock);
        pthread_join(thread, NULL);
    }
    double joules = power_end(&own.meter, taken);
    pthread_cond_destroy(&own.ending);
    pthread_mutex_destroy(&own.lock);
    if (!steps) return false;
    if (own.meter.broken) command_warn("the power cannot be measured: %s", own.meter.about);
    snprintf(power->about, sizeof power->about, "%s", own.meter.about);
    power->watts = joules / taken;
    power->per_joule = (double)steps * (double)batch / joules;
    return true;
}

/* Per hour, the unit of --price. */
static double per_money(const bench_power *power, double per_s) {
    return power->price > 0 ? 3600 * per_s / power->price : NAN;
}

void bench_power_text(const bench_power *power, double per_s) {
    if (isfinite(power->watts))
        printf("  %.4g W by %s: %.4g samples per joule\n", power->watts, power->about, power->per_joule);
    if (power->price > 0)
        printf("  %.4g samples per unit of money, at %g per hour\n", per_money(power, per_s), power->price);
}

void bench_power_json(const bench_power *power, double per_s) {
    if (!power->wanted && !(power->price > 0)) return;
    printf(", \"watts\": ");
    json_measure(stdout, power->watts);
    printf(", \"power_source\": ");
    if (isfinite(power->watts))
        json_text(stdout, power->about);
    else
        printf("null");
    printf(", \"samples_per_joule\": ");
    json_measure(stdout, power->per_joule);
    printf(", \"samples_per_money\": ");
    json_measure(stdout, per_money(power, per_s));
}
