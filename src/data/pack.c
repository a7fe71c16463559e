/* Distributes texts over rows. */
#include "data/tokens.h"

enum { NONE = UINT32_MAX };

typedef struct packing {
    kn_row_plan *plan;
    uint32_t *texts, *next_text; /* by size: the first text; by text: the next one of its size */
    uint32_t *rows, *next_row;   /* by free positions: the first row; by row: the next one */
    uint32_t length;
} packing;

/* The fullest row with room for `size` positions, taken from its list; a new one if there is none. */
static uint32_t take_row(packing *p, uint32_t size, uint32_t *room) {
    for (*room = size; *room < p->length; ++*room) {
        const uint32_t row = p->rows[*room];
        if (row == NONE) continue;
        p->rows[*room] = p->next_row[row];
        return row;
    }
    return (uint32_t)p->plan->rows++;
}

static void place(packing *p) {
    for (uint32_t size = p->length; size > 0; size--)
        for (uint32_t text = p->texts[size], room; text != NONE; text = p->next_text[text]) {
            const uint32_t row = take_row(p, size, &room);
            p->plan->row_of[text] = row;
            p->next_row[row] = p->rows[room - size];
            p->rows[room - size] = row;
        }
}

kn_status kn_row_plan_make(kn_row_plan *plan, const kn_host *host, const uint32_t *sizes, size_t count,
                           uint64_t length, kn_error *error) {
    *plan = (kn_row_plan){.rows = 0};
    if (count >= NONE || length >= NONE)
        return kn_fail(error, KN_ERROR_ARGUMENT, "%zu samples are too many", count);
    plan->row_of = kn_allocate(host, count + 1, sizeof *plan->row_of);
    if (!plan->row_of) return kn_fail_memory_for(error, "the rows", count, sizeof *plan->row_of);
    if (!length) {
        for (; plan->rows < count; plan->rows++)
            plan->row_of[plan->rows] = (uint32_t)plan->rows;
        return KN_OK;
    }
    const size_t lists = (size_t)length + 1;
    packing p = {.plan = plan, .length = (uint32_t)length};
    uint32_t *memory = kn_allocate(host, 2 * lists + 2 * count, sizeof *memory);
    if (!memory) return kn_fail_memory_for(error, "the rows", lists + count, 2 * sizeof *memory);
    p.texts = memory;
    p.rows = memory + lists;
    p.next_text = memory + 2 * lists;
    p.next_row = p.next_text + count;
    for (size_t i = 0; i < 2 * lists; i++)
        memory[i] = NONE;
    for (size_t i = count; i-- > 0;) {
        p.next_text[i] = p.texts[sizes[i]];
        p.texts[sizes[i]] = (uint32_t)i;
    }
    place(&p);
    kn_release(host, memory);
    return KN_OK;
}
