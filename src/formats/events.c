/* Event files: records (a length, its checksum, the bytes, their checksum), each with a protocol buffer
 * Event. The field numbers are those of TensorFlow's event.proto and summary.proto. */
#include <koine/events.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "formats/formats_private.h"
#include "formats/wire.h"

enum { BUCKETS = 30 };

struct kn_events {
    kn_host host;
    kn_error error; /* set permanently by the first failure */
    FILE *file;
    char *path;
};

/* ---- protocol buffers ------------------------------------------------------------------------------- */

static void add_varint(kn_text *text, uint64_t number) {
    uint8_t bytes[KN_WIRE_VARINT_BYTES];
    kn_text_add_bytes(text, (const char *)bytes, kn_wire_put_varint(bytes, number));
}

static void add_little(kn_text *text, uint64_t bits, int count) {
    char bytes[8];
    kn_little_put(bytes, bits, count);
    kn_text_add_bytes(text, bytes, (size_t)count);
}

static void add_count(kn_text *text, unsigned field, uint64_t number) {
    add_varint(text, field << 3);
    add_varint(text, number);
}

static void add_double(kn_text *text, unsigned field, double number) {
    add_varint(text, field << 3 | 1);
    add_little(text, kn_bits_of_double(number), 8);
}

static void add_float(kn_text *text, unsigned field, float number) {
    add_varint(text, field << 3 | 5);
    add_little(text, kn_bits_of_float(number), 4);
}

static void add_bytes(kn_text *text, unsigned field, const char *bytes, size_t count) {
    add_varint(text, field << 3 | 2);
    add_varint(text, count);
    kn_text_add_bytes(text, bytes, count);
}

static void add_doubles(kn_text *text, unsigned field, const double *numbers, size_t count) {
    add_varint(text, field << 3 | 2);
    add_varint(text, 8 * count);
    for (size_t i = 0; i < count; i++)
        add_little(text, kn_bits_of_double(numbers[i]), 8);
}

/* ---- records ---------------------------------------------------------------------------------------- */

/* The masked CRC-32C of these files: rotated, with a constant added. */
static uint32_t masked_sum(const void *bytes, size_t count) {
    /* The table for half a byte. */
    static const uint32_t halves[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const uint8_t *byte = bytes;
    uint32_t sum = 0xffffffff;
    for (size_t i = 0; i < count; i++) {
        sum = halves[(sum ^ byte[i]) & 15] ^ sum >> 4;
        sum = halves[(sum ^ byte[i] >> 4) & 15] ^ sum >> 4;
    }
    sum = ~sum;
    return (sum >> 15 | sum << 17) + 0xa282ead8;
}

static kn_status write_record(kn_events *events, const kn_text *record) {
    uint8_t front[12], end[4];
    kn_little_put(front, record->length, 8);
    kn_little_put(front + 8, masked_sum(front, 8), 4);
    kn_little_put(end, masked_sum(record->data, record->length), 4);
    bool written = fwrite(front, 1, 12, events->file) == 12 &&
                   fwrite(record->data, 1, record->length, events->file) == record->length &&
                   fwrite(end, 1, 4, events->file) == 4 && fflush(events->file) == 0;
    if (written) return KN_OK;
    char reason[128];
    if (strerror_r(errno, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "system error %d", errno);
    return kn_fail(&events->error, KN_ERROR_FILE, "cannot write \"%s\": %s", events->path, reason);
}

/* Writes an event with `piece` as field number `field`. Releases the piece. */
static kn_status write_event(kn_events *events, uint64_t step, unsigned field, kn_text *piece) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    kn_text event;
    kn_text_init(&event, &events->host);
    add_double(&event, 1, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    if (step) add_count(&event, 2, step);
    add_bytes(&event, field, piece->data, piece->length);
    kn_status status = events->error.status;
    if (status == KN_OK && (kn_text_failed(piece) || kn_text_failed(&event)))
        status = kn_fail_memory(&events->error, piece->length);
    if (status == KN_OK) status = write_record(events, &event);
    kn_text_finish(&event);
    kn_text_finish(piece);
    return status;
}

/* Writes an event with a summary of one value. Releases the value. */
static kn_status write_value(kn_events *events, const char *tag, uint64_t step, unsigned field,
                             kn_text *kind) {
    kn_text value, summary;
    kn_text_init(&value, &events->host);
    kn_text_init(&summary, &events->host);
    add_bytes(&value, 1, tag, strlen(tag));
    if (field)
        add_bytes(&value, field, kind->data, kind->length);
    else
        kn_text_add_bytes(&value, kind->data, kind->length);
    add_bytes(&summary, 1, value.data, value.length);
    if (kn_text_failed(kind) || kn_text_failed(&value)) kn_fail_memory(&events->error, kind->length);
    kn_text_finish(&value);
    kn_text_finish(kind);
    return write_event(events, step, 5, &summary);
}

/* ---- files ------------------------------------------------------------------------------------------ */

static kn_status begin_file(kn_events *events, const char *folder) {
    kn_arena arena;
    kn_arena_init(&arena, &events->host);
    kn_status status = kn_folder_make(&events->host, folder, &events->error);
    /* Names sort by time; a second file in the same second by the same process gets the next number. */
    const char *path = NULL;
    for (int turn = 0; status == KN_OK && (!path || kn_path_exists(path)); turn++) {
        const char *name = kn_arena_format(&arena, "events.out.tfevents.%010lld.koine.%ld.%d",
                                           (long long)time(NULL), (long)getpid(), turn);
        path = name ? kn_path_join(&arena, folder, name) : NULL;
        if (!path) status = kn_fail_memory(&events->error, strlen(folder));
    }
    if (status == KN_OK && !(events->path = kn_copy_text(&events->host, path)))
        status = kn_fail_memory(&events->error, strlen(path));
    if (status == KN_OK) events->file = fopen(path, "wbe");
    if (status == KN_OK && !events->file)
        status = kn_fail(&events->error, KN_ERROR_FILE,
                         "cannot create \"%s\": is the folder writable and is there space on the disk?",
                         events->path);
    kn_arena_finish(&arena);
    return status;
}

kn_events *kn_events_open(const char *folder, const kn_allocator *allocator) {
    kn_host host = kn_host_with(allocator);
    kn_events *events = kn_allocate(&host, 1, sizeof *events);
    if (!events) return NULL;
    events->host = host;
    if (!folder || !*folder) {
        kn_fail(&events->error, KN_ERROR_ARGUMENT, "the folder of the event files is NULL or empty");
    } else if (begin_file(events, folder) == KN_OK) {
        kn_text version;
        kn_text_init(&version, &events->host);
        kn_text_add(&version, "brain.Event:2");
        write_event(events, 0, 3, &version);
    }
    return events;
}

void kn_events_destroy(kn_events **events) {
    if (!events || !*events) return;
    kn_host host = (*events)->host;
    if ((*events)->file) fclose((*events)->file);
    kn_release(&host, (*events)->path);
    kn_release(&host, *events);
    *events = NULL;
}

kn_status kn_events_status(const kn_events *events) {
    return events ? events->error.status : KN_ERROR_MEMORY;
}

const char *kn_events_error(const kn_events *events) {
    return events ? events->error.text : "out of host memory";
}

const char *kn_events_path(const kn_events *events) {
    return events && events->file ? events->path : "";
}

/* ---- values ----------------------------------------------------------------------------------------- */

/* Whether a value can be written. */
static kn_status begin(kn_events *events, const char *tag, const void *data) {
    if (!events) return KN_ERROR_MEMORY;
    /* an invalid call leaves the file usable */
    if (events->error.status == KN_OK && (!tag || !*tag || !data)) return KN_ERROR_ARGUMENT;
    return events->error.status;
}

kn_status kn_events_scalar(kn_events *events, const char *tag, uint64_t step, double value) {
    kn_status status = begin(events, tag, &value);
    if (status != KN_OK) return status;
    kn_text kind;
    kn_text_init(&kind, &events->host);
    add_float(&kind, 2, (float)value);
    return write_value(events, tag, step, 0, &kind);
}

kn_status kn_events_histogram(kn_events *events, const char *tag, uint64_t step, const float *numbers,
                              size_t count) {
    kn_status status = begin(events, tag, count ? (const void *)numbers : "");
    if (status != KN_OK) return status;
    double least = INFINITY, most = -INFINITY, sum = 0, squares = 0, finite = 0;
    double limits[BUCKETS], buckets[BUCKETS] = {0};
    for (size_t i = 0; i < count; i++) {
        double number = numbers[i];
        if (!isfinite(number)) continue;
        if (number < least) least = number;
        if (number > most) most = number;
        sum += number;
        squares += number * number;
        finite++;
    }
    if (!(finite > 0)) least = most = 0;
    double width = (most - least) / BUCKETS;
    if (!(width > 0)) width = 1e-6 + fabs(most) * 1e-6;
    for (int i = 0; i < BUCKETS; i++)
        limits[i] = least + width * (i + 1);
    if (limits[BUCKETS - 1] < most) limits[BUCKETS - 1] = most;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(numbers[i])) continue;
        double bucket = (numbers[i] - least) / width;
        buckets[bucket < BUCKETS ? (int)bucket : BUCKETS - 1]++;
    }
    kn_text kind;
    kn_text_init(&kind, &events->host);
    add_double(&kind, 1, least);
    add_double(&kind, 2, most);
    add_double(&kind, 3, finite);
    add_double(&kind, 4, sum);
    add_double(&kind, 5, squares);
    add_doubles(&kind, 6, limits, BUCKETS);
    add_doubles(&kind, 7, buckets, BUCKETS);
    return write_value(events, tag, step, 5, &kind);
}

kn_status kn_events_image(kn_events *events, const char *tag, uint64_t step, int width, int height,
                          int channels, const uint8_t *pixels) {
    kn_status status = begin(events, tag, pixels);
    if (status != KN_OK) return status;
    kn_text png, kind;
    kn_error mistake = {0};
    kn_text_init(&png, &events->host);
    status = kn_png_write(&png, width, height, channels, pixels, &mistake);
    if (status != KN_OK) {
        kn_text_finish(&png);
        return status;
    }
    kn_text_init(&kind, &events->host);
    add_count(&kind, 1, (uint64_t)height);
    add_count(&kind, 2, (uint64_t)width);
    add_count(&kind, 3, (uint64_t)channels);
    add_bytes(&kind, 4, png.data, png.length);
    kn_text_finish(&png);
    return write_value(events, tag, step, 4, &kind);
}
