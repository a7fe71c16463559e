/* What the machine tells of its energy: counters of Linux's powercap, sensors of hwmon, or a command. */
#ifndef KOINE_COMMAND_POWER_H
#define KOINE_COMMAND_POWER_H

#include "command.h"

enum { POWER_SOURCES = 32 };

typedef struct power_source {
    char path[600];
    bool counts;   /* microjoules that add up, otherwise microwatts */
    double range;  /* of a counter, in joules: where it begins again; 0: it does not */
    double last;   /* of a counter */
    double joules; /* of a counter, since the meter began */
    double watts;  /* otherwise: the sum of what was read */
    int reads;
} power_source;

typedef struct power_meter {
    power_source sources[POWER_SOURCES];
    int count;
    const char *command; /* in the place of sources: what prints watts; NULL: none */
    double command_watts;
    int command_reads;
    char about[300]; /* which sources these are; where there are none, why */
    bool broken;     /* something could not be read; `about` says what */
} power_meter;

/* Finds what tells the energy of a device, below root ("/sys"), or by the command. false: nothing does, and
 * `about` says why. */
bool power_find(power_meter *meter, const char *root, const char *program, const kn_device_info *device);
/* Begins: what was counted before does not count. */
void power_begin(power_meter *meter);
/* Once in a while during the work: sensors and the command are asked, counters kept from running over. */
void power_sample(power_meter *meter);
/* Joules of so many seconds of work; NaN where something was not told. */
double power_end(power_meter *meter, double seconds);

#endif
