/* Sound in WAV files. */
#include "formats_tests.h"

#include <math.h>
#include <string.h>

/* A file as a list of chunks. */
typedef struct wave_bytes {
    uint8_t bytes[400];
    size_t count;
} wave_bytes;

static void put(wave_bytes *file, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        file->bytes[file->count++] = (uint8_t)(value >> (8 * i));
}

static void put_text(wave_bytes *file, const char *text) {
    memcpy(file->bytes + file->count, text, strlen(text));
    file->count += strlen(text);
}

/* Everything before the samples; tag 0xfffe: the extended form with subformat `inner`. */
static wave_bytes begin(int tag, int inner, int channels, int bits, uint32_t sound) {
    wave_bytes file = {.count = 0};
    put_text(&file, "RIFF");
    put(&file, 36 + sound, 4);
    put_text(&file, "WAVEfmt ");
    put(&file, tag == 0xfffe ? 40 : 16, 4);
    put(&file, (uint64_t)tag, 2);
    put(&file, (uint64_t)channels, 2);
    put(&file, 8000, 4);
    put(&file, (uint64_t)(8000 * channels * bits / 8), 4);
    put(&file, (uint64_t)(channels * bits / 8), 2);
    put(&file, (uint64_t)bits, 2);
    if (tag == 0xfffe) {
        put(&file, 22, 2);
        put(&file, (uint64_t)bits, 2);
        put(&file, 4, 4);
        put(&file, (uint64_t)inner, 2);
        for (int i = 0; i < 14; i++)
            put(&file, 0, 1);
    }
    put_text(&file, "data");
    put(&file, sound, 4);
    return file;
}

static kn_wave read_fine(const wave_bytes *file) {
    kn_wave wave;
    kn_error error = {0};
    assert_fine(kn_wave_read("a.wav", file->bytes, file->count, &wave, &error), &error);
    return wave;
}

/* Integers: the largest, the smallest, a half and zero. */
TEST(integers_are_read) {
    for (int bytes = 1; bytes <= 4; bytes++)
        for (int extended = 0; extended < 2; extended++) {
            const int64_t one = INT64_C(1) << (8 * bytes - 1), above = bytes == 1 ? one : 0;
            const int64_t values[] = {one - 1, -one, one / 2, 0};
            wave_bytes file = begin(extended ? 0xfffe : 1, 1, 1, bytes * 8, (uint32_t)bytes * 4);
            for (int i = 0; i < 4; i++)
                put(&file, (uint64_t)(values[i] + above), bytes);
            kn_wave wave = read_fine(&file);
            assert_int_equal(wave.rate, 8000);
            assert_int_equal(wave.frames, 4);
            for (uint64_t i = 0; i < 4; i++)
                assert_true(kn_wave_at(&wave, i) == (float)((double)values[i] / (double)one));
        }
}

TEST(floats_are_read) {
    const float small[] = {0.25f, -1.5f, INFINITY};
    const double large[] = {0.25, -1.5, (double)INFINITY};
    for (int bytes = 4; bytes <= 8; bytes += 4) {
        wave_bytes file = begin(3, 0, 1, bytes * 8, (uint32_t)bytes * 3);
        for (int i = 0; i < 3; i++) {
            uint64_t bits = 0;
            uint32_t half;
            memcpy(&half, &small[i], sizeof half);
            memcpy(&bits, &large[i], sizeof bits);
            put(&file, bytes == 4 ? half : bits, bytes);
        }
        kn_wave wave = read_fine(&file);
        assert_int_equal(wave.frames, 3);
        for (uint64_t i = 0; i < 3; i++)
            assert_true(kn_wave_at(&wave, i) == small[i]);
    }
}

TEST(channels_become_their_mean) {
    wave_bytes file = begin(1, 0, 3, 16, 14); /* two frames, and two bytes of a third */
    static const int values[] = {16384, 8192, 0, -16384, -32768, 0, 77};
    for (int i = 0; i < 7; i++)
        put(&file, (uint64_t)(int64_t)values[i], 2);
    kn_wave wave = read_fine(&file);
    assert_int_equal(wave.frames, 2);
    assert_true(kn_wave_at(&wave, 0) == 0.25f && kn_wave_at(&wave, 1) == -0.5f);
}

/* Other chunks may precede the sound, with odd lengths too; and the length of the sound may be unknown. */
TEST(other_chunks_are_skipped) {
    for (int unknown = 0; unknown < 3; unknown++) {
        wave_bytes file = begin(1, 0, 1, 8, 0);
        file.count -= 8;
        put_text(&file, "LIST");
        put(&file, 3, 4);
        put_text(&file, "abc.data");
        put(&file, unknown == 0 ? 2 : unknown == 1 ? 0 : UINT32_MAX, 4);
        put(&file, 192, 1);
        put(&file, 64, 1);
        kn_wave wave = read_fine(&file);
        assert_int_equal(wave.frames, 2);
        assert_true(kn_wave_at(&wave, 0) == 0.5f && kn_wave_at(&wave, 1) == -0.5f);
    }
}

TEST(faults_are_named) {
    wave_bytes file = begin(1, 0, 1, 16, 4);
    put(&file, 0, 4);
    const struct {
        size_t at;
        int value, bytes;
        kn_status status;
        const char *part;
    } cases[] = {
        {0, 'r', 1, KN_ERROR_FORMAT, "not a WAV file"},
        {8, 'w', 1, KN_ERROR_FORMAT, "not a WAV file"},
        {12, 'F', 1, KN_ERROR_FORMAT, "the data chunk at byte 36 precedes the format"},
        {16, 15, 4, KN_ERROR_FORMAT, "a format chunk of 15 bytes"},
        {16, 1000, 4, KN_ERROR_FORMAT, "a chunk of 1000 bytes at byte 12"},
        {20, 2, 2, KN_ERROR_UNSUPPORTED, "format 2 with 16 bits"},
        {20, 0xfffe, 2, KN_ERROR_UNSUPPORTED, "65534"},
        {22, 0, 2, KN_ERROR_FORMAT, "0 channels"},
        {22, 65, 2, KN_ERROR_FORMAT, "65 channels"},
        {24, 0, 4, KN_ERROR_FORMAT, "0 samples per second"},
        {32, 4, 2, KN_ERROR_FORMAT, "4 bytes for 1 samples of 16 bits"},
        {34, 12, 2, KN_ERROR_UNSUPPORTED, "12 bits"},
        {36, 'D', 1, KN_ERROR_FORMAT, "has no data chunk"},
        {40, 5, 4, KN_ERROR_FORMAT, "5 bytes of sound are declared, but 4 are present"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_error error = {0};
        kn_wave wave;
        wave_bytes broken = file;
        broken.count = cases[i].at;
        put(&broken, (uint64_t)cases[i].value, cases[i].bytes);
        broken.count = file.count;
        assert_refused(kn_wave_read("a.wav", broken.bytes, broken.count, &wave, &error), &error,
                       cases[i].status, cases[i].part);
        assert_int_equal(wave.frames, 0);
    }
    for (size_t count = 0; count < file.count; count++) {
        kn_error error = {0};
        kn_wave wave;
        assert_refused(kn_wave_read("a.wav", file.bytes, count, &wave, &error), &error, KN_ERROR_FORMAT,
                       "a.wav: ");
    }
}

TEST_FILE(test_wave, NULL, NULL)
