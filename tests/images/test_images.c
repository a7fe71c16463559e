/* Image files: decoded as they were encoded, and refused if they are damaged or too large. */
#include "support.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <koine/images.h>

#ifdef KN_HAVE_JPEG
#include <jpeglib.h>
#endif
#ifdef KN_HAVE_PNG
#include <png.h>
#endif

enum { WIDTH = 24, HEIGHT = 16, PIXELS = WIDTH * HEIGHT };

static failing memory;
static kn_allocator allocator;

static kn_status read_bytes(const uint8_t *bytes, size_t count, int channels, uint64_t most, kn_image *image,
                            char message[300]) {
    kn_image_reader reader = kn_images_reader();
    *image = (kn_image){.size = sizeof *image, .channels = channels};
    message[0] = 0;
    return reader.read(reader.user, &allocator, bytes, count, most, image, message, 300);
}

#if defined(KN_HAVE_JPEG) || defined(KN_HAVE_PNG)
/* Smooth colours: (HEIGHT,WIDTH,3). */
static void paint(uint8_t pixels[PIXELS * 3]) {
    for (int i = 0; i < PIXELS; i++) {
        pixels[3 * i] = (uint8_t)(i % WIDTH * 10);
        pixels[3 * i + 1] = (uint8_t)(i / WIDTH * 15);
        pixels[3 * i + 2] = 128;
    }
}

/* Colours differ by `most` at most, greys from the usual weighted mean by 2 more. */
static void expect_picture(const uint8_t *bytes, size_t count, int most) {
    uint8_t painted[PIXELS * 3];
    char message[300];
    paint(painted);
    for (int channels = 1; channels <= 3; channels += 2) {
        kn_image image;
        if (read_bytes(bytes, count, channels, PIXELS, &image, message) != KN_OK) fail_msg("%s", message);
        assert_int_equal(image.width, WIDTH);
        assert_int_equal(image.height, HEIGHT);
        assert_int_equal(image.channels, channels);
        for (int i = 0; i < PIXELS; i++) {
            const uint8_t *own = painted + 3 * i;
            int grey = (299 * own[0] + 587 * own[1] + 114 * own[2]) / 1000;
            if (channels == 1)
                assert_in_range(abs(image.pixels[i] - grey), 0, most + 2);
            else
                for (int c = 0; c < 3; c++)
                    assert_in_range(abs(image.pixels[3 * i + c] - own[c]), 0, most);
        }
        allocator.resize(allocator.user, image.pixels, 0);
    }
    assert_int_equal(memory.live, 0);
}

/* Truncated, too large or changed files are refused, or decoded differently; nothing leaks. */
static void expect_care(const uint8_t *bytes, size_t count, const char *name) {
    kn_image image;
    char message[300];
    for (size_t length = 8; length<count; length += count> 400 ? 7 : 1) {
        kn_status status = read_bytes(bytes, length, 3, PIXELS, &image, message);
        /* The last bytes of a file may not matter. */
        if (status == KN_OK && length + 16 < count)
            fail_msg("%s: read from %zu of %zu bytes", name, length, count);
        if (status == KN_OK) allocator.resize(allocator.user, image.pixels, 0);
        if (status != KN_OK) assert_true(message[0] && !image.pixels);
    }
    assert_int_equal(read_bytes(bytes, count, 3, PIXELS - 1, &image, message), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(message, "24 by 16 pixels"));
    uint8_t *altered = malloc(count);
    assert_non_null(altered);
    for (size_t i = 0; i < count; i++) {
        memcpy(altered, bytes, count);
        altered[i] ^= (uint8_t)(1u << (i % 8));
        if (read_bytes(altered, count, 3, 100 * PIXELS, &image, message) == KN_OK)
            allocator.resize(allocator.user, image.pixels, 0);
    }
    free(altered);
    assert_int_equal(memory.live, 0);
}
#endif

#ifdef KN_HAVE_JPEG
static unsigned char *write_jpeg(unsigned long *count, bool progressive) {
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    uint8_t pixels[PIXELS * 3];
    paint(pixels);
    encoder.err = jpeg_std_error(&errors);
    jpeg_create_compress(&encoder);
    jpeg_mem_dest(&encoder, &bytes, count);
    encoder.image_width = WIDTH;
    encoder.image_height = HEIGHT;
    encoder.input_components = 3;
    encoder.in_color_space = JCS_RGB;
    jpeg_set_defaults(&encoder);
    jpeg_set_quality(&encoder, 98, TRUE);
    if (progressive) jpeg_simple_progression(&encoder);
    jpeg_start_compress(&encoder, TRUE);
    for (int y = 0; y < HEIGHT; y++) {
        JSAMPROW row = pixels + y * WIDTH * 3;
        jpeg_write_scanlines(&encoder, &row, 1);
    }
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    return bytes;
}
#endif

static void jpeg_files(void **state) {
#ifdef KN_HAVE_JPEG
    for (int progressive = 0; progressive < 2; progressive++) {
        unsigned long count = 0;
        unsigned char *bytes = write_jpeg(&count, progressive);
        expect_picture(bytes, count, 12);
        expect_care(bytes, count, "JPEG");
        free(bytes);
    }
#else
    static const uint8_t bytes[] = {0xff, 0xd8, 0xff, 0xe0, 0, 16};
    kn_image image;
    char message[300];
    assert_int_equal(read_bytes(bytes, sizeof bytes, 3, 100, &image, message), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(message, "libjpeg-dev"));
#endif
}

static void png_files(void **state) {
#ifdef KN_HAVE_PNG
    uint8_t pixels[PIXELS * 3];
    paint(pixels);
    png_image file;
    memset(&file, 0, sizeof file);
    file.version = PNG_IMAGE_VERSION;
    file.width = WIDTH;
    file.height = HEIGHT;
    file.format = PNG_FORMAT_RGB;
    png_alloc_size_t count = 0;
    assert_true(png_image_write_to_memory(&file, NULL, &count, 0, pixels, 0, NULL));
    uint8_t *bytes = malloc(count);
    assert_non_null(bytes);
    assert_true(png_image_write_to_memory(&file, bytes, &count, 0, pixels, 0, NULL));
    expect_picture(bytes, count, 0);
    expect_care(bytes, count, "PNG");
    free(bytes);
#else
    static const uint8_t bytes[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0};
    kn_image image;
    char message[300];
    assert_int_equal(read_bytes(bytes, sizeof bytes, 3, 100, &image, message), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(message, "libpng-dev"));
#endif
}

static void what_is_no_picture(void **state) {
    kn_image image;
    char message[300];
    assert_int_equal(read_bytes((const uint8_t *)"GIF89a..........", 16, 3, 100, &image, message),
                     KN_ERROR_FORMAT);
    assert_non_null(strstr(message, "neither JPEG nor PNG"));
    assert_int_equal(read_bytes((const uint8_t *)"", 0, 3, 100, &image, message), KN_ERROR_FORMAT);
    assert_int_equal(read_bytes((const uint8_t *)"..", 2, 2, 100, &image, message), KN_ERROR_ARGUMENT);
    assert_int_equal(read_bytes(NULL, 0, 3, 100, &image, message), KN_ERROR_ARGUMENT);
    assert_int_equal(memory.live, 0);
}

int main(void) {
    allocator = failing_allocator(&memory);
    const struct CMUnitTest tests[] = {cmocka_unit_test(jpeg_files), cmocka_unit_test(png_files),
                                       cmocka_unit_test(what_is_no_picture)};
    return cmocka_run_group_tests_name("images", tests, NULL, NULL);
}
