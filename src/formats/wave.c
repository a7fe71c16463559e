/* Sound in WAV files: RIFF chunks, of which "fmt " describes the samples and "data" holds them. */
#include <string.h>

#include "formats/formats_private.h"

enum {
    HEAD = 12,
    CHUNK_HEAD = 8,
    FORMAT_MIN = 16,
    EXTENDED = 0xfffe,
    EXTENDED_LEAST = 40,
    MAX_CHANNELS = 64
};

static kn_status read_format(const char *name, const uint8_t *bytes, uint64_t count, kn_wave *wave,
                             kn_error *error) {
    if (count < FORMAT_MIN)
        return kn_fail(error, KN_ERROR_FORMAT, "%s: a format chunk of %llu bytes; expected at least %d", name,
                       (unsigned long long)count, FORMAT_MIN);
    unsigned tag = (unsigned)kn_little_uint(bytes, 2);
    if (tag == EXTENDED && count >= EXTENDED_LEAST) tag = (unsigned)kn_little_uint(bytes + 24, 2);
    wave->channels = (int)kn_little_uint(bytes + 2, 2);
    wave->rate = (uint32_t)kn_little_uint(bytes + 4, 4);
    wave->bytes_each = (int)kn_little_uint(bytes + 14, 2) / 8;
    wave->real = tag == 3;
    const unsigned bits = (unsigned)kn_little_uint(bytes + 14, 2),
                   frame = (unsigned)kn_little_uint(bytes + 12, 2);
    bool whole = tag == 1 && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
    if (!whole && !(tag == 3 && (bits == 32 || bits == 64)))
        return kn_fail(
            error, KN_ERROR_UNSUPPORTED,
            "%s: samples of format %u with %u bits; expected PCM of 8, 16, 24 or 32 bits, or floats", name,
            tag, bits);
    if (wave->channels < 1 || wave->channels > MAX_CHANNELS || wave->rate < 1 || wave->rate > 10000000)
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: found %d channels with %lu samples per second, which is out of range", name,
                       wave->channels, (unsigned long)wave->rate);
    if (frame != (unsigned)(wave->channels * wave->bytes_each))
        return kn_fail(error, KN_ERROR_FORMAT, "%s: %u bytes for %d samples of %u bits", name, frame,
                       wave->channels, bits);
    return KN_OK;
}

kn_status kn_wave_read(const char *name, const uint8_t *bytes, uint64_t count, kn_wave *wave,
                       kn_error *error) {
    kn_wave read = {.channels = 0};
    *wave = read;
    if (count < HEAD || memcmp(bytes, "RIFF", 4) != 0 || memcmp(bytes + 8, "WAVE", 4) != 0)
        return kn_fail(error, KN_ERROR_FORMAT, "%s: not a WAV file (it begins with other bytes)", name);
    for (uint64_t at = HEAD; count - at >= CHUNK_HEAD;) {
        const uint8_t *piece = bytes + at;
        uint64_t there = count - at - CHUNK_HEAD, size = kn_little_uint(piece + 4, 4);
        if (memcmp(piece, "data", 4) == 0) {
            if (read.channels == 0)
                return kn_fail(error, KN_ERROR_FORMAT,
                               "%s: the data chunk at byte %llu precedes the format chunk", name,
                               (unsigned long long)at);
            /* A streaming writer does not know the final length. */
            if (size == 0 || size == UINT32_MAX) size = there;
            if (size > there)
                return kn_fail(error, KN_ERROR_FORMAT,
                               "%s: %llu bytes of sound are declared, but %llu are present", name,
                               (unsigned long long)size, (unsigned long long)there);
            read.bytes = piece + CHUNK_HEAD;
            read.frames = size / ((uint64_t)read.channels * (uint64_t)read.bytes_each);
            *wave = read;
            return KN_OK;
        }
        if (size > there)
            return kn_fail(error, KN_ERROR_FORMAT,
                           "%s: a chunk of %llu bytes at byte %llu, but %llu are present", name,
                           (unsigned long long)size, (unsigned long long)at, (unsigned long long)there);
        if (memcmp(piece, "fmt ", 4) == 0) {
            kn_status status = read_format(name, piece + CHUNK_HEAD, size, &read, error);
            if (status != KN_OK) return status;
        }
        size += size % 2; /* chunks begin at even offsets */
        if (size > there) break;
        at += CHUNK_HEAD + size;
    }
    return kn_fail(error, KN_ERROR_FORMAT, "%s: has no data chunk", name);
}

static float number_at(const kn_wave *wave, const uint8_t *from) {
    const uint64_t bits = kn_little_uint(from, wave->bytes_each);
    if (wave->real)
        return wave->bytes_each == 8 ? (float)kn_double_of_bits(bits) : kn_float_of_bits((uint32_t)bits);
    if (wave->bytes_each == 1) return ((float)bits - 128) / 128; /* 8-bit samples are unsigned */
    const int shift = 64 - 8 * wave->bytes_each;
    return (float)((double)(int64_t)(bits << shift) * 0x1p-63);
}

float kn_wave_at(const kn_wave *wave, uint64_t frame) {
    const uint8_t *from = wave->bytes + frame * (uint64_t)wave->channels * (uint64_t)wave->bytes_each;
    float sum = 0;
    for (int c = 0; c < wave->channels; c++)
        sum += number_at(wave, from + c * wave->bytes_each);
    return sum / (float)wave->channels;
}
