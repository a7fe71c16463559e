/* Reads JPEG with libjpeg. Errors return through setjmp; warnings, such as a truncated file, are also errors:
 * a half-grey image would silently degrade training. */
#include "images/images.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* A progressive file may request any number of passes over all of its pixels. */
enum { MAX_SCANS = 100 };

typedef struct work {
    struct jpeg_error_mgr errors; /* must be first: libjpeg passes its address back */
    jmp_buf back;
    struct jpeg_decompress_struct decoder;
    struct jpeg_progress_mgr progress;
    char text[JMSG_LENGTH_MAX];
} work;

static void on_error(j_common_ptr decoder) {
    work *self = (work *)(void *)decoder->err;
    decoder->err->format_message(decoder, self->text);
    longjmp(self->back, 1);
}

static void on_message(j_common_ptr decoder, int level) {
    /* Extraneous bytes are harmless. */
    if (level < 0 && decoder->err->msg_code != JWRN_EXTRANEOUS_DATA) on_error(decoder);
}

static void on_output(j_common_ptr decoder) {
    (void)decoder;
}

static void on_progress(j_common_ptr decoder) {
    work *self = (work *)(void *)decoder->err;
    if (self->decoder.input_scan_number <= MAX_SCANS) return;
    snprintf(self->text, sizeof self->text, "has more than %d passes over its pixels", MAX_SCANS);
    longjmp(self->back, 1);
}

/* Contains everything that may return through setjmp; *self and *image belong to the caller, so that their
 * values are defined afterwards. */
static kn_status decode(work *self, const kn_allocator *allocator, const void *bytes, size_t count,
                        uint64_t max_pixels, kn_image *image, char *message, size_t size) {
    struct jpeg_decompress_struct *decoder = &self->decoder;
    if (setjmp(self->back)) {
        snprintf(message, size, "not an intact JPEG: %s", self->text);
        return KN_ERROR_FORMAT;
    }
    jpeg_create_decompress(decoder);
    decoder->progress = &self->progress;
    jpeg_mem_src(decoder, bytes, (unsigned long)count);
    jpeg_read_header(decoder, TRUE);
    kn_image_stored(image, decoder->num_components == 1 ? 1 : 3);
    decoder->out_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    kn_status status = kn_image_take(allocator, decoder->image_width, decoder->image_height, max_pixels,
                                     image, message, size);
    if (status != KN_OK) return status;
    jpeg_start_decompress(decoder);
    while (decoder->output_scanline < decoder->output_height) {
        JSAMPROW row = image->pixels +
                       (size_t)decoder->output_scanline * decoder->output_width * (size_t)image->channels;
        jpeg_read_scanlines(decoder, &row, 1);
    }
    jpeg_finish_decompress(decoder);
    return KN_OK;
}

kn_status kn_read_jpeg(const kn_allocator *allocator, const void *bytes, size_t count, uint64_t max_pixels,
                       kn_image *image, char *message, size_t size) {
    work self;
    memset(&self, 0, sizeof self);
    self.decoder.err = jpeg_std_error(&self.errors);
    self.errors.error_exit = on_error;
    self.errors.emit_message = on_message;
    self.errors.output_message = on_output;
    self.progress.progress_monitor = on_progress;
    kn_status status = decode(&self, allocator, bytes, count, max_pixels, image, message, size);
    jpeg_destroy_decompress(&self.decoder);
    if (status != KN_OK && image->pixels) {
        allocator->resize(allocator->user, image->pixels, 0);
        image->pixels = NULL;
    }
    return status;
}
