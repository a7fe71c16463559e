/* libFuzzer's entry point for images and archives of images. The decoding libraries are the system's. */
#include <stdlib.h>
#include <string.h>

#include "../fuzz_file.h"

#include <koine/images.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { MAX_PIXELS = 1 << 20, MAX_BYTES = 1 << 22 };

static void *resize(void *user, void *memory, size_t bytes) {
    if (bytes) return realloc(memory, bytes);
    free(memory);
    return NULL;
}

static bool wants(void *user, const char *name) {
    return name[0] != '\0';
}

static kn_status take(void *user, const char *name, void *bytes, size_t count) {
    uint8_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum ^= ((uint8_t *)bytes)[i];
    if (count > MAX_BYTES || !name[0]) abort();
    free(bytes);
    return sum == 77 ? KN_ERROR_CANCELLED : KN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const kn_allocator allocator = {NULL, resize};
    char message[256];
    for (int channels = 1; channels <= 3; channels += 2) {
        kn_image_reader reader = kn_images_reader();
        kn_image image = {.size = sizeof image, .channels = channels};
        message[0] = '\0';
        kn_status status =
            reader.read(reader.user, &allocator, bytes, count, MAX_PIXELS, &image, message, sizeof message);
        if (status != KN_OK && (image.pixels || (message[0] == '\0' && status != KN_ERROR_ARGUMENT))) abort();
        if (status == KN_OK && image.width * image.height > MAX_PIXELS) abort();
        uint8_t sum = 0;
        for (int64_t i = 0; status == KN_OK && i < image.width * image.height * channels; i++)
            sum ^= image.pixels[i];
        (void)sum;
        if (status == KN_OK) free(image.pixels);
    }
    const char *path = fuzz_file(bytes, count);
    const kn_archive_visitor visitor = {NULL, wants, take};
    kn_archive_reader archives = kn_images_archives();
    if (!path) return 0;
    message[0] = '\0';
    kn_status status =
        archives.read(archives.user, &allocator, path, MAX_BYTES, &visitor, message, sizeof message);
    if (status != KN_OK && status != KN_ERROR_CANCELLED && message[0] == '\0') abort();
    return 0;
}
