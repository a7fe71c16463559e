/* The library's kernels in a folder of a test's, with something changed. */
#ifndef KN_CHANGED_KERNELS_H
#define KN_CHANGED_KERNELS_H

/* FOLDER/NAME for all below `source`, as links; folders are folders. */
void link_kernels(const char *source, const char *folder);
/* In place of the link, the file with `from`, where it first stands, changed to `to`. */
void change_kernel(const char *folder, const char *name, const char *from, const char *to);

#endif
