/* Event files byte by byte: records, checksums, fields; and PNG images, decoded again. */
#include "formats_tests.h"

#include <koine/events.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "formats/formats_private.h"
#include "formats/wire.h"

/* CRC-32C bit by bit, as defined, with the mask of the format. */
static uint32_t masked(const uint8_t *bytes, size_t count) {
    uint32_t sum = 0xffffffff;
    for (size_t i = 0; i < count; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum & 1 ? 0x82f63b78 ^ sum >> 1 : sum >> 1;
    }
    sum = ~sum;
    return (sum >> 15 | sum << 17) + 0xa282ead8;
}

static uint32_t little(const uint8_t *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* The field with that number in a message; the test fails if there is none. */
static kn_wire_field field_of(kn_wire message, uint32_t number) {
    kn_error error = {0};
    kn_status status = KN_OK;
    kn_wire_input input = {.name = "event", .kind = "event", .start = message.at, .error = &error};
    kn_wire_field field;
    while (kn_wire_next(&input, &message, &field, &status))
        if (field.number == number) return field;
    fail_msg("no field %u", number);
    return field;
}

static double as_double(uint64_t bits) {
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static float as_float(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float number;
    memcpy(&number, &low, sizeof number);
    return number;
}

/* Checks the framing of the record at *at and moves past it. */
static kn_wire next_record(const uint8_t *bytes, uint64_t count, uint64_t *at) {
    assert_true(count - *at >= 16);
    uint32_t length = little(bytes + *at);
    assert_int_equal(little(bytes + *at + 4), 0);
    assert_int_equal(little(bytes + *at + 8), masked(bytes + *at, 8));
    assert_true(count - *at - 16 >= length);
    kn_wire record = {bytes + *at + 12, bytes + *at + 12 + length};
    assert_int_equal(little(record.end), masked(record.at, length));
    *at += 16 + length;
    return record;
}

/* The only value in the summary of an event of that step. */
static kn_wire value_of(kn_wire event, uint64_t step, const char *tag) {
    assert_true(as_double(field_of(event, 1).value) > 1e9); /* seconds since 1970 */
    assert_int_equal(field_of(event, 2).value, step);
    kn_wire value = field_of(field_of(event, 5).bytes, 1).bytes, name = field_of(value, 1).bytes;
    assert_int_equal(name.end - name.at, strlen(tag));
    assert_memory_equal(name.at, tag, strlen(tag));
    return value;
}

static double double_at(kn_wire bytes, int position) {
    return as_double(kn_little_uint(bytes.at + 8 * position, 8));
}

static void check_histogram(kn_wire histogram) {
    const double wanted[] = {-1, 2, 4, 1.5, 5.25};
    for (uint32_t i = 0; i < 5; i++)
        assert_true(as_double(field_of(histogram, i + 1).value) == wanted[i]);
    kn_wire limits = field_of(histogram, 6).bytes, buckets = field_of(histogram, 7).bytes;
    assert_int_equal(limits.end - limits.at, 30 * 8);
    assert_int_equal(buckets.end - buckets.at, 30 * 8);
    double sum = 0;
    for (int i = 0; i < 30; i++)
        sum += double_at(buckets, i);
    assert_true(sum == 4 && double_at(buckets, 0) == 1 && double_at(buckets, 29) == 1);
    assert_true(fabs(double_at(limits, 0) + 0.9) < 1e-12 && double_at(limits, 29) >= 2);
}

static void check_png(kn_wire png, const uint8_t *pixels, size_t row, size_t rows) {
    assert_memory_equal(png.at, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\3\x08\2\0\0\0", 29);
    const uint8_t *data = png.at + 33;
    uint32_t count = (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
    uint8_t unpacked[100];
    uLongf length = sizeof unpacked;
    assert_memory_equal(data + 4, "IDAT", 4);
    assert_int_equal(uncompress(unpacked, &length, data + 8, count), Z_OK);
    assert_int_equal(length, (row + 1) * rows);
    for (size_t y = 0; y < rows; y++) {
        assert_int_equal(unpacked[y * (row + 1)], 0);
        assert_memory_equal(unpacked + y * (row + 1) + 1, pixels + y * row, row);
    }
    assert_memory_equal(data + count + 12, "\0\0\0\0IEND\xae\x42\x60\x82", 12);
    assert_true(data + count + 24 == png.end);
}

TEST(all_kinds) {
    static const float numbers[] = {-1, 0.5, NAN, 0, 2, INFINITY};
    uint8_t pixels[18], *bytes;
    char *folder = test_folder_make(), path[4096];
    kn_host host = kn_host_defaults();
    kn_error error = {0};
    uint64_t count, at = 0;
    for (int i = 0; i < 18; i++)
        pixels[i] = (uint8_t)(i * 14);
    kn_events *events = kn_events_open(test_path(path, sizeof path, folder, "runs/one"), NULL);
    assert_int_equal(kn_events_scalar(events, "train/loss", 300, 0.25), KN_OK);
    assert_int_equal(kn_events_histogram(events, "weights", 5, numbers, 6), KN_OK);
    assert_int_equal(kn_events_image(events, "picture", 7, 2, 3, 3, pixels), KN_OK);
    assert_int_equal(kn_events_histogram(events, "nothing", 1, NULL, 0), KN_OK);
    /* Mistakes write nothing, and later events are correct. */
    assert_int_equal(kn_events_image(events, "picture", 7, 2, 3, 2, pixels), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_events_image(events, "picture", 7, 0, 3, 1, pixels), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_events_scalar(events, "", 7, 1), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_events_scalar(events, "end", 1, NAN), KN_OK);
    assert_fine(kn_file_read(&host, kn_events_path(events), 1 << 20, &bytes, &count, &error), &error);

    kn_wire event = next_record(bytes, count, &at), version = field_of(event, 3).bytes;
    assert_memory_equal(version.at, "brain.Event:2", 13);
    kn_wire value = value_of(next_record(bytes, count, &at), 300, "train/loss");
    assert_true(as_float(field_of(value, 2).value) == 0.25f);
    check_histogram(field_of(value_of(next_record(bytes, count, &at), 5, "weights"), 5).bytes);
    kn_wire image = field_of(value_of(next_record(bytes, count, &at), 7, "picture"), 4).bytes;
    assert_int_equal(field_of(image, 1).value, 3); /* height, then width */
    assert_int_equal(field_of(image, 2).value, 2);
    assert_int_equal(field_of(image, 3).value, 3);
    check_png(field_of(image, 4).bytes, pixels, 6, 3);
    assert_true(
        as_double(
            field_of(field_of(value_of(next_record(bytes, count, &at), 1, "nothing"), 5).bytes, 3).value) ==
        0);
    assert_true(isnan(as_float(field_of(value_of(next_record(bytes, count, &at), 1, "end"), 2).value)));
    assert_int_equal(at, count);

    /* A second file in the same second gets another name. */
    kn_events *second = kn_events_open(path, NULL);
    assert_int_equal(kn_events_status(second), KN_OK);
    assert_string_not_equal(kn_events_path(events), kn_events_path(second));
    kn_events_destroy(&second);
    kn_events_destroy(&events);
    kn_release(&host, bytes);
    test_folder_remove(folder);
}

TEST(folders_and_disks) {
    kn_events *events = kn_events_open("/proc/nowhere", NULL);
    assert_int_not_equal(kn_events_status(events), KN_OK);
    assert_true(strlen(kn_events_error(events)) > 10);
    assert_int_not_equal(kn_events_scalar(events, "x", 1, 1), KN_OK);
    kn_events_destroy(&events);
}

TEST_FILE(test_events, NULL, NULL)
