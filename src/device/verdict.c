/* Verdicts: measurements of a device and driver, as numbers under short keys, in one small text file per
 * device.
 *
 *     koine verdicts 1
 *     the device's identity
 *     key value
 *
 * Several programs may write concurrently: each reads the entries of the others before it replaces the
 * file. */
#include <stdlib.h>
#include <string.h>

#include "device/device_private.h"

static const char first_line[] = "koine verdicts 1";
static const uint64_t file_limit = 1u << 20;

static void keep(kn_verdicts *verdicts, const char *key, double value) {
    double *place = kn_map_get_text(&verdicts->values, key);
    if (!place) {
        place = kn_allocate(&verdicts->host, 1, sizeof *place);
        if (!place) return;
        if (!kn_map_put_text(&verdicts->values, key, place)) {
            kn_release(&verdicts->host, place);
            return;
        }
    }
    *place = value;
}

/* Returns the next line and advances *rest; NULL at the end. */
static char *next_line(char **rest) {
    if (!**rest) return NULL;
    char *line = *rest, *newline = strchr(line, '\n');
    if (newline) *newline = '\0';
    *rest = newline ? newline + 1 : line + strlen(line);
    return line;
}

/* Reads the file's entries that are not in memory. */
static void read_file(kn_verdicts *verdicts) {
    uint8_t *bytes = NULL;
    uint64_t count = 0;
    if (!verdicts->path ||
        kn_file_read(&verdicts->host, verdicts->path, file_limit, &bytes, &count, NULL) != KN_OK)
        return;
    char *rest = (char *)bytes, *line = next_line(&rest);
    bool ours = line && strcmp(line, first_line) == 0;
    line = ours ? next_line(&rest) : NULL;
    ours = line && strcmp(line, verdicts->identity) == 0;
    while (ours && (line = next_line(&rest)) != NULL) {
        char *space = strrchr(line, ' ');
        const char *end = NULL;
        double value;
        if (!space || space == line) continue;
        *space = '\0';
        if (!kn_parse_double(space + 1, &end, &value) || *end) continue;
        if (!kn_map_get_text(&verdicts->values, line)) keep(verdicts, line, value);
    }
    kn_release(&verdicts->host, bytes);
}

bool kn_verdicts_open(kn_verdicts *verdicts, const kn_host *host, const char *cache_folder,
                      const char *identity) {
    memset(verdicts, 0, sizeof *verdicts);
    verdicts->host = *host;
    kn_map_init(&verdicts->values, &verdicts->host);
    verdicts->identity = kn_copy_text(host, identity);
    if (!verdicts->identity) {
        kn_verdicts_close(verdicts);
        return false;
    }
    for (char *place = verdicts->identity; *place; place++)
        if (*place == '\n' || *place == '\r') *place = ' ';
    if (cache_folder && cache_folder[0]) {
        kn_text path;
        kn_text_init(&path, host);
        kn_text_format(&path, "%s/devices/%016llx.txt", cache_folder,
                       (unsigned long long)kn_hash_text(KN_HASH_START, verdicts->identity));
        verdicts->path = kn_text_take(&path);
        if (!verdicts->path) {
            kn_verdicts_close(verdicts);
            return false;
        }
        read_file(verdicts);
    }
    return true;
}

void kn_verdicts_close(kn_verdicts *verdicts) {
    if (!verdicts->values.host) return;
    size_t position = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&verdicts->values, &position)) != NULL;)
        kn_release(&verdicts->host, entry->value);
    kn_map_finish(&verdicts->values);
    kn_release(&verdicts->host, verdicts->identity);
    kn_release(&verdicts->host, verdicts->path);
    memset(verdicts, 0, sizeof *verdicts);
}

bool kn_verdicts_get(const kn_verdicts *verdicts, const char *key, double *value) {
    const double *place = kn_map_get_text(&verdicts->values, key);
    if (place) *value = *place;
    return place != NULL;
}

void kn_verdicts_put(kn_verdicts *verdicts, const char *key, double value) {
    keep(verdicts, key, value);
    if (!verdicts->path) return;
    read_file(verdicts);
    kn_text text;
    kn_text_init(&text, &verdicts->host);
    kn_text_format(&text, "%s\n%s\n", first_line, verdicts->identity);
    size_t position = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&verdicts->values, &position)) != NULL;) {
        kn_text_add(&text, entry->key);
        kn_text_add(&text, " ");
        kn_text_number(&text, *(const double *)entry->value);
        kn_text_add(&text, "\n");
    }
    char *slash = strrchr(verdicts->path, '/');
    *slash = '\0';
    kn_status status = kn_folder_make(&verdicts->host, verdicts->path, NULL);
    *slash = '/';
    if (!status && !kn_text_failed(&text))
        status = kn_file_write(&verdicts->host, verdicts->path, text.data, text.length, NULL);
    if (status)
        kn_log_write(&verdicts->host, KN_LOG_DEBUG, "the verdicts on a device could not be written to %s",
                     verdicts->path);
    kn_text_finish(&text);
}
