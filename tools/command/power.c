/* Finds and reads energy counters and sensors. For a CPU, and for a device that shares its memory, reads the
 * energy of the packages and their memory; for any other device, adds the device's own sensors. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "power.h"

/* The first line of a file without its newline; false with errno set if there is none. */
static bool read_line(const char *path, char *text, size_t room) {
    errno = 0;
    FILE *file = fopen(path, "r");
    bool fine = file && fgets(text, (int)room, file);
    if (file) fclose(file);
    if (!fine) return false;
    text[strcspn(text, "\n")] = 0;
    return true;
}

static bool read_number(const char *path, double *number) {
    char text[64], *end;
    if (!read_line(path, text, sizeof text)) return false;
    *number = strtod(text, &end);
    return end != text && isfinite(*number);
}

static void add_text(power_meter *meter, const char *text) {
    size_t used = strlen(meter->about);
    snprintf(meter->about + used, sizeof meter->about - used, "%s%s", used ? ", " : "", text);
}

/* A text that identifies a source: on some machines several drivers report the same package. */
static bool is_known(const power_meter *meter, const char *name) {
    const char *at = strstr(meter->about, name);
    size_t length = strlen(name);
    while (at && at[length] && at[length] != ',')
        at = strstr(at + 1, name);
    return at != NULL;
}

/* ---- powercap ------------------------------------------------------------------------------------------ */

/* Packages before their domains, and a driver's base name before its variants. */
static int in_order(const struct dirent **left, const struct dirent **right) {
    size_t a = strlen((*left)->d_name), b = strlen((*right)->d_name);
    return a != b ? (a > b) - (a < b) : strcmp((*left)->d_name, (*right)->d_name);
}

/* "intel-rapl:0" is a package, "intel-rapl:0:2" a domain in it. Domains are included in their package, except
 * for the memory. */
static void add_zone(power_meter *meter, const char *folder, const char *zone, char *denied, size_t room) {
    char path[600], name[64], parent[64] = "", label[150];
    double number;
    power_source *source = &meter->sources[meter->count];
    const char *first = strchr(zone, ':'), *second = first ? strchr(first + 1, ':') : NULL;
    snprintf(path, sizeof path, "%s/%s/name", folder, zone);
    if (!first || meter->count == POWER_SOURCES || !read_line(path, name, sizeof name)) return;
    if (second) {
        snprintf(path, sizeof path, "%s/%.*s/name", folder, (int)(second - zone), zone);
        if (strcmp(name, "dram") || !read_line(path, parent, sizeof parent)) return;
    } else if (!strcmp(name, "psys")) {
        return; /* the whole machine, including packages */
    }
    snprintf(label, sizeof label, "powercap %s%s%s", parent, second ? "/" : "", name);
    if (is_known(meter, label)) return;
    snprintf(source->path, sizeof source->path, "%s/%s/energy_uj", folder, zone);
    if (!read_number(source->path, &number)) {
        if (errno == EACCES || errno == EPERM) snprintf(denied, room, "%s", source->path);
        return;
    }
    snprintf(path, sizeof path, "%s/%s/max_energy_range_uj", folder, zone);
    source->range = read_number(path, &number) ? 1e-6 * number : 0;
    source->counts = true;
    meter->count++;
    add_text(meter, label);
}

static void find_zones(power_meter *meter, const char *root, char *denied, size_t room) {
    char folder[400];
    struct dirent **entries;
    snprintf(folder, sizeof folder, "%s/class/powercap", root);
    int count = scandir(folder, &entries, NULL, in_order);
    for (int i = 0; i < count; i++) {
        if (strlen(entries[i]->d_name) < 100) add_zone(meter, folder, entries[i]->d_name, denied, room);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

/* ---- hwmon --------------------------------------------------------------------------------------------- */

/* The first channel covers the whole chip. */
static void add_chip(power_meter *meter, const char *folder, const char *chip, bool display) {
    static const char *const files[] = {"energy1_input", "power1_average", "power1_input"};
    char path[600], name[64], text[64], label[100];
    double number;
    snprintf(path, sizeof path, "%s/%s/device/class", folder, chip);
    /* PCI class of display devices. */
    if ((read_line(path, text, sizeof text) && !strncmp(text, "0x03", 4)) != display) return;
    snprintf(path, sizeof path, "%s/%s/device/type", folder, chip);
    if (read_line(path, text, sizeof text)) return; /* a battery or a mains adapter */
    snprintf(path, sizeof path, "%s/%s/name", folder, chip);
    if (!read_line(path, name, sizeof name)) snprintf(name, sizeof name, "%.50s", chip);
    for (int i = 0; i < 3 && meter->count < POWER_SOURCES; i++) {
        power_source *source = &meter->sources[meter->count];
        snprintf(source->path, sizeof source->path, "%s/%s/%s", folder, chip, files[i]);
        if (!read_number(source->path, &number)) continue;
        source->counts = i == 0;
        source->range = 0;
        meter->count++;
        snprintf(label, sizeof label, "hwmon %s", name);
        add_text(meter, label);
        return;
    }
}

static void find_chips(power_meter *meter, const char *root, bool display) {
    char folder[400];
    struct dirent **entries;
    snprintf(folder, sizeof folder, "%s/class/hwmon", root);
    int count = scandir(folder, &entries, NULL, in_order);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] != '.' && strlen(name) < 100) add_chip(meter, folder, name, display);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

/* ---- the meter ------------------------------------------------------------------------------- */

bool power_find(power_meter *meter, const char *root, const char *program, const kn_device_info *device) {
    char denied[600] = "";
    bool apart = device->type != KN_DEVICE_CPU && !device->shares_memory;
    *meter = (power_meter){.command = program};
    if (program) {
        snprintf(meter->about, sizeof meter->about, "--power-command");
        return true;
    }
    find_zones(meter, root, denied, sizeof denied);
    int zones = meter->count;
    if (apart || !zones) find_chips(meter, root, apart);
    if (meter->count > (apart ? zones : 0)) return true;
    meter->count = 0;
    if (denied[0])
        snprintf(meter->about, sizeof meter->about,
                 "%.200s may not be read: as root it can, or after chmod a+r", denied);
    else if (apart)
        snprintf(meter->about, sizeof meter->about,
                 "no sensor of this device in %.100s/class/hwmon; --power-command names a program that "
                 "prints its watts",
                 root);
    else
        snprintf(meter->about, sizeof meter->about,
                 "nothing in %.100s/class/powercap and class/hwmon measures it; give a program that prints "
                 "watts with --power-command",
                 root);
    return false;
}

static void give_up(power_meter *meter, const char *what) {
    if (!meter->broken) snprintf(meter->about, sizeof meter->about, "%.290s", what);
    meter->broken = true;
}

static void read_counter(power_meter *meter, power_source *source, bool first) {
    char what[700];
    double number;
    if (!read_number(source->path, &number)) {
        snprintf(what, sizeof what, "%s cannot be read any more", source->path);
        give_up(meter, what);
        return;
    }
    number *= 1e-6;
    if (!first) source->joules += number - source->last + (number < source->last ? source->range : 0);
    source->last = number;
}

/* Watts, with or without the unit. */
static void ask_command(power_meter *meter) {
    char line[200] = "", what[600], *end = NULL;
    FILE *pipe = popen(meter->command, "r");
    bool read = pipe && fgets(line, sizeof line, pipe);
    int status = pipe ? pclose(pipe) : -1;
    line[strcspn(line, "\n")] = 0;
    double watts = strtod(line, &end);
    bool number = read && end != line && isfinite(watts) && watts >= 0;
    while (number && isspace((unsigned char)*end))
        end++;
    if (number && status == 0 && (!*end || !strcmp(end, "W"))) {
        meter->command_watts += watts;
        meter->command_reads++;
        return;
    }
    if (status)
        snprintf(what, sizeof what, "--power-command '%.150s' failed", meter->command);
    else
        snprintf(what, sizeof what, "--power-command '%.100s' printed '%.60s'; expected watts, such as 65.3",
                 meter->command, line);
    give_up(meter, what);
}

void power_begin(power_meter *meter) {
    for (int i = 0; i < meter->count; i++)
        if (meter->sources[i].counts) read_counter(meter, &meter->sources[i], true);
}

void power_sample(power_meter *meter) {
    if (meter->broken) return;
    if (meter->command) ask_command(meter);
    for (int i = 0; i < meter->count; i++) {
        power_source *source = &meter->sources[i];
        double number;
        if (source->counts) {
            read_counter(meter, source, false);
        } else if (read_number(source->path, &number)) {
            source->watts += 1e-6 * number;
            source->reads++;
        }
    }
}

double power_end(power_meter *meter, double seconds) {
    double joules = 0;
    for (int i = 0; i < meter->count; i++) {
        power_source *source = &meter->sources[i];
        if (source->counts) read_counter(meter, source, false);
        joules += source->counts  ? source->joules
                  : source->reads ? source->watts / source->reads * seconds
                                  : NAN;
    }
    if (meter->command)
        joules = meter->command_reads ? meter->command_watts / meter->command_reads * seconds : NAN;
    return meter->broken || !(joules > 0) ? NAN : joules;
}
