/* Event files for TensorBoard: scalars, histograms and images over the steps of a training run.
 *
 *     kn_events *events = kn_events_open("runs/one", NULL);
 *     if (kn_events_scalar(events, "train/loss", step, value) != KN_OK)
 *         fprintf(stderr, "%s\n", kn_events_error(events));
 *     kn_events_destroy(&events);
 *
 * Thread-safety: a handle belongs to one thread at a time. */
#ifndef KOINE_EVENTS_H
#define KOINE_EVENTS_H

#include <koine/host.h>
#include <koine/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_events kn_events;

/* Starts a new file in a folder, which is created if missing. Files of earlier runs stay; TensorBoard reads
 * them together. allocator NULL: the C library's. Returns NULL only when out of memory, otherwise a handle
 * that may carry an error, which all calls on it return. */
KN_API KN_NODISCARD kn_events *kn_events_open(const char *folder, const kn_allocator *allocator);
KN_API void kn_events_destroy(kn_events **events);
/* KN_OK as long as every write succeeded. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_events_status(const kn_events *events);
KN_API const char *kn_events_error(const kn_events *events);
/* "runs/one/events.out.tfevents...."; "" for a failed handle. */
KN_API const char *kn_events_path(const kn_events *events);

/* Each call writes one record, which is in the file when the call returns. Tags are names such as
 * "train/loss". */
KN_API kn_status kn_events_scalar(kn_events *events, const char *tag, uint64_t step, double value);
/* The distribution of the numbers: 30 buckets of equal width from the lowest to the highest. Non-finite
 * numbers are skipped. */
KN_API kn_status kn_events_histogram(kn_events *events, const char *tag, uint64_t step, const float *numbers,
                                     size_t count);
/* pixels is (height,width,channels), with 1 (grey) or 3 (RGB) channels and at most 16384 pixels per side. */
KN_API kn_status kn_events_image(kn_events *events, const char *tag, uint64_t step, int width, int height,
                                 int channels, const uint8_t *pixels);

#ifdef __cplusplus
}
#endif
#endif
