/* The kernels of cl/, embedded in the library; tools/embed.c generates the table during the build. */
#ifndef KN_DEVICE_EMBEDDED_H
#define KN_DEVICE_EMBEDDED_H

typedef struct kn_embedded_file {
    const char *name;           /* the path below cl/, such as "matmul/tiled.cl" */
    const unsigned char *bytes; /* followed by a zero byte, so that it is a C string */
    unsigned long size;         /* without that zero byte */
    unsigned long long hash;    /* FNV-1a, 64 bits, of the bytes */
} kn_embedded_file;

/* Sorted by name. An entry with a NULL name marks the end. */
extern const kn_embedded_file kn_embedded_files[];
extern const unsigned long kn_embedded_file_count;

#endif
