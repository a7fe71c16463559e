/* The library's kernels in a folder of a test, with modifications. */
#ifndef KN_CHANGED_KERNELS_H
#define KN_CHANGED_KERNELS_H

/* Creates FOLDER/NAME for each file below `source`, as links; folders are folders. */
void link_kernels(const char *source, const char *folder);
/* Replaces the link by the file, with the first `from` in it replaced by `to`. */
void change_kernel(const char *folder, const char *name, const char *from, const char *to);

#endif
