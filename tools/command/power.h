/* The machine's energy measurements: counters of Linux's powercap, sensors of hwmon, or a command. */
#ifndef KOINE_COMMAND_POWER_H
#define KOINE_COMMAND_POWER_H

#include "command.h"

enum { POWER_SOURCES = 32 };

typedef struct power_source {
    char path[600];
    bool counts;   /* accumulating microjoules, otherwise microwatts */
    double range;  /* of a counter, in joules: where it wraps around; 0: never */
    double last;   /* of a counter */
    double joules; /* of a counter, since the meter started */
    double watts;  /* otherwise: the sum of the readings */
    int reads;
} power_source;

typedef struct power_meter {
    power_source sources[POWER_SOURCES];
    int count;
    const char *command; /* replaces the sources: a command that prints watts; NULL: none */
    double command_watts;
    int command_reads;
    char about[300]; /* the sources; if there are none, why */
    bool broken;     /* a reading failed; `about` says which */
} power_meter;

/* Finds the energy sources of a device, below root ("/sys"), or by the command. false: there are none, and
 * `about` says why. */
bool power_find(power_meter *meter, const char *root, const char *program, const kn_device_info *device);
/* Starts: earlier readings do not count. */
void power_begin(power_meter *meter);
/* Called repeatedly during the work: reads sensors and the command, and counters before they wrap around. */
void power_sample(power_meter *meter);
/* Joules for this many seconds of work; NaN if something could not be read. */
double power_end(power_meter *meter, double seconds);

#endif
