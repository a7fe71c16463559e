/* Advice to the system about memory pages. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/base.h"

#include <stdint.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 2 << 20 };

void kn_advise_large_pages(void *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    const uintptr_t first = (uintptr_t)memory,
                    first_page = (first + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    const size_t skipped = (size_t)(first_page - first);
    if (bytes <= skipped || bytes - skipped < LARGE_PAGE) return;
    (void)madvise((void *)first_page, (bytes - skipped) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)bytes;
#endif
}
