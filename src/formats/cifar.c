/* CIFAR's binary files: consecutive records of one or two labels and (3,32,32) bytes. */
#include "formats/formats.h"

kn_status kn_cifar_read(const char *name, const uint8_t *bytes, uint64_t count, int classes, kn_cifar *file,
                        kn_error *error) {
    /* CIFAR-100 records begin with the label of one of twenty superclasses. */
    const size_t labels = classes == KN_CIFAR_FINE ? 2 : 1, record = labels + KN_CIFAR_PIXELS;
    *file = (kn_cifar){.record_bytes = record, .label_at = labels - 1, .pixels_at = labels};
    if (count == 0 || count % record != 0)
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: %llu bytes; expected records of %zu bytes each (CIFAR-%d, binary version)", name,
                       (unsigned long long)count, record, classes);
    for (uint64_t at = labels - 1; at < count; at += record)
        if (bytes[at] >= classes)
            return kn_fail(error, KN_ERROR_FORMAT, "%s: byte %llu: class %d; expected 0 to %d", name,
                           (unsigned long long)at, bytes[at], classes - 1);
    file->count = count / record;
    return KN_OK;
}
