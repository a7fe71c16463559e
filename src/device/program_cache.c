/* The disk cache of compiled programs: one file each in cache_folder/programs.
 *
 *     8 bytes    "koineprg"
 *     4 bytes    format version
 *     4 bytes    0; or 1: the driver caches the program, and the payload is empty
 *     8 bytes    length of the key
 *     8 bytes    length of the payload
 *     8 bytes    FNV-1a of the key, then of the payload
 *     key        device, driver, options and the whole source
 *     payload    the driver's binary
 *
 * Numbers are little-endian. The file's name is the key's hash; only the key inside identifies the program.
 * An invalid entry counts as missing: the program is compiled and the entry silently replaced. Files are
 * written under a temporary name and renamed, so readers never see a partial file. */
#include <string.h>

#include "device/device_private.h"

enum { FORMAT_VERSION = 2, HEADER_BYTES = 40 };
static const char magic[8] = {'k', 'o', 'i', 'n', 'e', 'p', 'r', 'g'};
static const uint64_t largest_entry = 1u << 30;

static void put_number(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_number(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

/* The key, everything that the binary depends on, and the path of its file. False without a cache folder or
 * memory. */
static bool entry_of(const kn_context *context, const kn_source *source, kn_text *key, kn_text *path) {
    kn_text_init(key, &context->host);
    kn_text_init(path, &context->host);
    if (!context->cache_folder) return false;
    char identity[1024];
    kn_found_identity(&context->found, identity, sizeof identity);
    kn_text_format(key, "koine program %d\n%s\n%s\n", (int)FORMAT_VERSION, identity, source->options);
    kn_text_add_bytes(key, source->text.data, source->text.length);
    kn_text_format(path, "%s/programs/%016llx.bin", context->cache_folder,
                   (unsigned long long)kn_hash_bytes(KN_HASH_START, key->data, key->length));
    return !kn_text_failed(key) && !kn_text_failed(path);
}

static uint64_t checksum(const void *key, size_t key_bytes, const void *payload, size_t payload_bytes) {
    return kn_hash_bytes(kn_hash_bytes(KN_HASH_START, key, key_bytes), payload, payload_bytes);
}

/* The payload of an intact file with this key; NULL otherwise. It is empty if the driver caches the program.
 */
static const uint8_t *payload_of(const uint8_t *file, uint64_t count, const kn_text *key,
                                 size_t *payload_bytes) {
    if (count < HEADER_BYTES || memcmp(file, magic, sizeof magic) != 0) return NULL;
    uint64_t version = get_number(file + 8, 4), empty = get_number(file + 12, 4),
             key_bytes = get_number(file + 16, 8), bytes = get_number(file + 24, 8),
             rest = count - HEADER_BYTES;
    if (version != FORMAT_VERSION || empty > 1 || (bytes == 0) != (empty == 1)) return NULL;
    if (key_bytes != key->length || key_bytes > rest || bytes != rest - key_bytes) return NULL;
    const uint8_t *payload = file + HEADER_BYTES + key_bytes;
    if (memcmp(file + HEADER_BYTES, key->data, key->length) != 0) return NULL;
    if (get_number(file + 32, 8) != checksum(key->data, key->length, payload, (size_t)bytes)) return NULL;
    *payload_bytes = (size_t)bytes;
    return payload;
}

cl_program kn_program_cache_load(kn_context *context, const kn_source *source, bool *kept) {
    kn_text key, path;
    uint8_t *file = NULL;
    uint64_t count = 0;
    cl_program program = NULL;
    if (entry_of(context, source, &key, &path) && kn_path_exists(path.data) &&
        kn_file_read(&context->host, path.data, largest_entry, &file, &count, NULL) == KN_OK) {
        size_t bytes = 0;
        const uint8_t *payload = payload_of(file, count, &key, &bytes);
        *kept = payload && bytes == 0 && !context->capabilities.shares_programs;
        if (payload && bytes > 0) {
            cl_int taken = CL_SUCCESS, code;
            program = clCreateProgramWithBinary(context->context, 1, &context->found.device, &bytes, &payload,
                                                &taken, &code);
            bool good =
                program && code == CL_SUCCESS && taken == CL_SUCCESS &&
                clBuildProgram(program, 1, &context->found.device, source->options, NULL, NULL) == CL_SUCCESS;
            if (program && !good) {
                clReleaseProgram(program);
                program = NULL;
            }
        }
        if (!program && !*kept)
            kn_log_write(&context->host, KN_LOG_DEBUG, "%s is invalid or outdated: recompiling", path.data);
    }
    kn_release(&context->host, file);
    kn_text_finish(&key);
    kn_text_finish(&path);
    return program;
}

bool kn_program_cache_has(const kn_context *context, const kn_source *source) {
    kn_text key, path;
    const bool has = entry_of(context, source, &key, &path) && kn_path_exists(path.data);
    kn_text_finish(&key);
    kn_text_finish(&path);
    return has;
}

kn_lock *kn_program_cache_lock(kn_context *context, const kn_source *source, double seconds, bool *held) {
    kn_text key, path;
    kn_lock *lock = NULL;
    *held = false;
    if (entry_of(context, source, &key, &path) &&
        kn_folder_make_for(&context->host, path.data, NULL) == KN_OK) {
        kn_text_add(&path, ".lock");
        if (!kn_text_failed(&path)) lock = kn_lock_take(&context->host, path.data, seconds, held);
    }
    kn_text_finish(&key);
    kn_text_finish(&path);
    return lock;
}

uint8_t *kn_program_binary(const kn_context *context, cl_program program, size_t front, size_t *bytes) {
    enum { DEVICES_MOST = 64 };
    cl_device_id devices[DEVICES_MOST];
    size_t sizes[DEVICES_MOST], size = 0;
    unsigned char *binaries[DEVICES_MOST] = {NULL};
    if (clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, &size) != CL_SUCCESS)
        return NULL;
    size_t count = size / sizeof devices[0], own = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS)
        return NULL;
    while (own < count && devices[own] != context->found.device)
        own++;
    if (own == count || sizes[own] == 0 || sizes[own] > largest_entry) return NULL;
    uint8_t *file = kn_allocate(&context->host, front + sizes[own], 1);
    if (!file) return NULL;
    binaries[own] = file + front;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof binaries[0], binaries, NULL) !=
        CL_SUCCESS) {
        kn_release(&context->host, file);
        return NULL;
    }
    *bytes = sizes[own];
    return file;
}

void kn_program_cache_store(kn_context *context, const kn_source *source, cl_program program) {
    kn_text key, path;
    uint8_t *file = NULL;
    size_t bytes = 0;
    if (entry_of(context, source, &key, &path) && key.length < largest_entry)
        file = context->capabilities.shares_programs
                   ? kn_program_binary(context, program, HEADER_BYTES + key.length, &bytes)
                   : kn_allocate(&context->host, HEADER_BYTES + key.length, 1);
    if (file) {
        memcpy(file, magic, sizeof magic);
        put_number(file + 8, FORMAT_VERSION, 4);
        put_number(file + 12, bytes == 0, 4);
        put_number(file + 16, key.length, 8);
        put_number(file + 24, bytes, 8);
        memcpy(file + HEADER_BYTES, key.data, key.length);
        put_number(file + 32, checksum(key.data, key.length, file + HEADER_BYTES + key.length, bytes), 8);
        kn_error error = {0};
        kn_status status = kn_folder_make_for(&context->host, path.data, &error);
        if (!status)
            status =
                kn_file_write(&context->host, path.data, file, HEADER_BYTES + key.length + bytes, &error);
        if (status) kn_context_keeps_nothing(context, error.text);
    }
    kn_release(&context->host, file);
    kn_text_finish(&key);
    kn_text_finish(&path);
}
