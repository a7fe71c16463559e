/* The machine's energy measurements: counters of Linux's powercap, sensors of hwmon, or a command. */
#ifndef KOINE_COMMAND_POWER_H
#define KOINE_COMMAND_POWER_H

#include "command.h"

enum { POWER_SOURCES = 32 };

typedef struct power_source {
    char path[600];
    bool counts;   /* accumulating microjoules, otherwise microwatts */
    double range;  /* counter range in joules, at which it wraps around; 0: never */
    double last;   /* the last value of a counter */
    double joules; /* joules of a counter since the meter started */
    double watts;  /* otherwise: the sum of the readings */
    int reads;
} power_source;

typedef struct power_meter {
    power_source sources[POWER_SOURCES];
    int count;
    const char *command; /* replaces the sources: a command that prints watts; NULL: none */
    double command_watts;
    int command_reads;
    char about[300]; /* the sources, or the reason why there are none */
    bool broken;     /* a reading failed; `about` has the reason */
} power_meter;

/* Finds the energy sources of a device, below root ("/sys"), or uses the command. false: there are none, with
 * the reason in `about`. */
bool power_find(power_meter *meter, const char *root, const char *program, const kn_device_info *device);
/* Starts the measurement; earlier readings do not count. */
void power_begin(power_meter *meter);
/* Called repeatedly during the measurement: reads sensors, the command, and counters before they wrap
 * around. */
void power_sample(power_meter *meter);
/* Joules for this many seconds; NaN if a source could not be read. */
double power_end(power_meter *meter, double seconds);

#endif
