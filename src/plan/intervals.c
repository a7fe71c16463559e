/* Assigns memory to intervals (lifetimes), searching for a small total: the part of the place pass that is
 * independent of values.
 *
 * Intervals are placed one after another, each into the tightest gap between intervals that are live at the
 * same time, or at the end of the block that must grow least. The total depends on the order. Three orders
 * are tried: largest first, earliest first, longest-lived first. Each is then improved by moving the interval
 * that ends highest forward to a random position, until the lower bound or the work limit is reached. The
 * random sequence is fixed, so the result depends only on the intervals. */
#include <stdlib.h>
#include <string.h>

#include "plan/gaps.h"
#include "plan/plan_private.h"

enum { WORK_LIMIT = 5 * 1000 * 1000, MAX_ROUNDS = 400 };

typedef struct placement_search {
    kn_interval *intervals;
    int count;
    uint64_t alignment, limit;
    int *order, *kept, *spare;
    kn_gaps gaps;   /* between the intervals placed so far */
    int *roots;     /* by block: the root of its tree in `gaps` */
    uint64_t *ends; /* by block */
    int block_count;
    /* The best result so far. */
    int *best_blocks;
    uint64_t *best_offsets, best_total;
} placement_search;

static uint64_t aligned_bytes(const placement_search *search, const kn_interval *interval) {
    return kn_align_up(interval->bytes, search->alignment);
}

typedef struct candidate {
    int block;
    uint64_t offset;
    uint64_t waste;  /* unused bytes of the gap */
    uint64_t growth; /* growth of the block; 0: the interval fits inside */
} candidate;

static bool is_better(const candidate *one, const candidate *other) {
    if (other->block < 0) return true;
    if (one->growth != other->growth) return one->growth < other->growth;
    return one->waste < other->waste;
}

typedef struct block_search {
    int block;
    uint64_t need;
    candidate *best;
} block_search;

static bool fits_exactly(const candidate *best) {
    return best->block >= 0 && !best->growth && !best->waste;
}

static bool take_gap(void *user, uint64_t offset, uint64_t bytes) {
    const block_search *in_block = user;
    candidate here = {in_block->block, offset, bytes - in_block->need, 0};
    if (is_better(&here, in_block->best)) *in_block->best = here;
    return !fits_exactly(in_block->best);
}

/* Updates *best with the best position in one block. */
static void search_block(placement_search *search, const kn_interval *interval, int block, candidate *best) {
    uint64_t need = aligned_bytes(search, interval), end = search->ends[block];
    block_search in_block = {block, need, best};
    kn_gap_search gaps = {
        .first = interval->first, .last = interval->last, .need = need, .found = take_gap, .user = &in_block};
    kn_gaps_find(&search->gaps, search->roots[block], &gaps);
    uint64_t cursor = gaps.cursor;
    if (gaps.ended || cursor > search->limit || interval->bytes > search->limit - cursor) return;
    bool grows = cursor + need > end;
    candidate here = {block, cursor, grows ? 0 : end - cursor - need, grows ? cursor + need - end : 0};
    if (is_better(&here, best)) *best = here;
}

static void place_interval(placement_search *search, int number) {
    kn_interval *interval = &search->intervals[number];
    candidate best = {.block = -1};
    for (int block = 0; block < search->block_count && !fits_exactly(&best); block++)
        search_block(search, interval, block, &best);
    if (best.block < 0) {
        best = (candidate){.block = search->block_count, .offset = 0};
        search->roots[search->block_count] = 0;
        search->ends[search->block_count++] = 0;
    }
    interval->block = best.block;
    interval->offset = best.offset;
    uint64_t end = best.offset + aligned_bytes(search, interval);
    if (end > search->ends[best.block]) search->ends[best.block] = end;
    int *root = &search->roots[best.block];
    *root = kn_gaps_add(&search->gaps, *root, number, interval->first, interval->last, best.offset,
                        aligned_bytes(search, interval));
}

/* Places all intervals in the current order and keeps the result if it is the best; returns its size. */
static uint64_t try_order(placement_search *search) {
    search->block_count = 0;
    for (int i = 0; i < search->count; i++)
        place_interval(search, search->order[i]);
    uint64_t total = 0;
    for (int i = 0; i < search->block_count; i++)
        total += search->ends[i];
    if (total >= search->best_total) return total;
    search->best_total = total;
    for (int i = 0; i < search->count; i++) {
        search->best_blocks[i] = search->intervals[i].block;
        search->best_offsets[i] = search->intervals[i].offset;
    }
    return total;
}

typedef bool comes_first(const kn_interval *left, const kn_interval *right);
static bool larger(const kn_interval *left, const kn_interval *right) {
    return left->bytes > right->bytes;
}
static bool earlier(const kn_interval *left, const kn_interval *right) {
    return left->first != right->first ? left->first < right->first : left->bytes > right->bytes;
}
static bool longer(const kn_interval *left, const kn_interval *right) {
    int one = left->last - left->first, other = right->last - right->first;
    return one != other ? one > other : left->bytes > right->bytes;
}

/* Merge sort: stable, so the same on every system. */
static void sort(const kn_interval *intervals, int *order, int *spare, int count, comes_first *first) {
    if (count < 2) return;
    int half = count / 2, left = 0, right = half;
    sort(intervals, order, spare, half, first);
    sort(intervals, order + half, spare, count - half, first);
    for (int i = 0; i < count; i++) {
        bool take_right =
            left >= half || (right < count && first(&intervals[order[right]], &intervals[order[left]]));
        spare[i] = order[take_right ? right++ : left++];
    }
    memcpy(order, spare, (size_t)count * sizeof *order);
}

/* Moves the interval that ends highest in the last block: to the front of the order in even iterations, to a
 * random earlier position in odd ones. */
static void move_highest(placement_search *search, uint64_t round) {
    int highest = 0, last = search->block_count - 1;
    for (int i = 0; i < search->count; i++) {
        const kn_interval *interval = &search->intervals[search->order[i]];
        if (interval->block == last &&
            interval->offset + aligned_bytes(search, interval) == search->ends[last])
            highest = i;
    }
    if (highest == 0) highest = (int)kn_random_below(2, round, (uint32_t)search->count);
    int number = search->order[highest];
    int place = round % 2 && highest ? (int)kn_random_below(1, round, (uint32_t)highest) : 0;
    memmove(search->order + place + 1, search->order + place,
            (size_t)(highest - place) * sizeof *search->order);
    search->order[place] = number;
}

/* Improves each order by random moves; undoes moves that increase the total. */
static void try_orders(placement_search *search, uint64_t bound) {
    static comes_first *const orders[] = {larger, earlier, longer};
    size_t bytes = (size_t)search->count * sizeof *search->order;
    int64_t work = (int64_t)search->count * search->count;
    int64_t rounds = work ? WORK_LIMIT / work : 0;
    if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
    search->best_total = UINT64_MAX;
    for (size_t k = 0; k < KN_COUNT_OF(orders); k++) {
        for (int i = 0; i < search->count; i++)
            search->order[i] = i;
        sort(search->intervals, search->order, search->spare, search->count, orders[k]);
        uint64_t reached = try_order(search);
        memcpy(search->kept, search->order, bytes);
        for (int64_t round = 0; round < rounds && search->best_total > bound; round++) {
            move_highest(search, (uint64_t)round);
            uint64_t total = try_order(search);
            if (total <= reached) {
                reached = total;
                memcpy(search->kept, search->order, bytes);
            } else {
                memcpy(search->order, search->kept, bytes);
                try_order(search); /* move_highest needs its placement */
            }
        }
        if (search->best_total <= bound) return;
    }
}

/* ---- the bound --------------------------------------------------------------------------------------- */

typedef struct change {
    int step;
    bool ends; /* ends take effect after the step, starts before it */
    uint64_t bytes;
} change;

static int compare_changes(const void *left, const void *right) {
    const change *one = left, *other = right;
    int64_t a = 2 * (int64_t)one->step + one->ends, b = 2 * (int64_t)other->step + other->ends;
    return a < b ? -1 : a > b;
}

uint64_t kn_intervals_bound(const kn_host *host, const kn_interval *intervals, int count,
                            uint64_t alignment) {
    change *changes = kn_allocate(host, 2 * (size_t)count, sizeof *changes);
    if (!changes) return 0;
    for (int i = 0; i < count; i++) {
        uint64_t bytes = kn_align_up(intervals[i].bytes, alignment);
        changes[2 * i] = (change){intervals[i].first, false, bytes};
        changes[2 * i + 1] = (change){intervals[i].last, true, bytes};
    }
    qsort(changes, 2 * (size_t)count, sizeof *changes, compare_changes);
    uint64_t live = 0, most = 0;
    for (int i = 0; i < 2 * count; i++) {
        if (changes[i].ends)
            live -= changes[i].bytes;
        else
            live += changes[i].bytes;
        if (live > most) most = live;
    }
    kn_release(host, changes);
    return most;
}

/* ---- entry ------------------------------------------------------------------------------------- */

static kn_status check(const kn_interval *intervals, int count, uint64_t alignment, uint64_t limit,
                       int *culprit, kn_error *error) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        *culprit = i;
        if (intervals[i].bytes > limit)
            return kn_fail(error, KN_ERROR_DEVICE_MEMORY,
                           "%llu bytes are needed in one allocation, but the device allows at most %llu; use "
                           "a smaller batch",
                           (unsigned long long)intervals[i].bytes, (unsigned long long)limit);
        /* Sums of offsets must not overflow. */
        if (intervals[i].bytes > UINT64_MAX / 4 - alignment - sum)
            return kn_fail(error, KN_ERROR_DEVICE_MEMORY, "the total size of all values exceeds 64 bits");
        sum += kn_align_up(intervals[i].bytes, alignment);
    }
    *culprit = -1;
    return KN_OK;
}

kn_status kn_intervals_place(kn_arena *arena, kn_interval *intervals, int count, uint64_t alignment,
                             uint64_t limit, uint64_t **block_bytes, int *block_count, int *culprit,
                             uint64_t *work, kn_error *error) {
    *block_bytes = NULL;
    *block_count = 0;
    kn_status status = check(intervals, count, alignment, limit, culprit, error);
    if (status != KN_OK || count == 0) return status;
    const kn_host *host = arena->host;
    size_t places = (size_t)count;
    placement_search search = {
        .intervals = intervals, .count = count, .alignment = alignment, .limit = limit};
    search.order = kn_allocate(host, places, sizeof *search.order);
    search.kept = kn_allocate(host, places, sizeof *search.kept);
    search.spare = kn_allocate(host, places, sizeof *search.spare);
    search.roots = kn_allocate(host, places, sizeof *search.roots);
    search.gaps = (kn_gaps){kn_allocate(host, places + 1, sizeof *search.gaps.branches), work};
    search.ends = kn_allocate(host, places, sizeof *search.ends);
    search.best_blocks = kn_allocate(host, places, sizeof *search.best_blocks);
    search.best_offsets = kn_allocate(host, places, sizeof *search.best_offsets);
    uint64_t *sizes = kn_arena_take(arena, places, sizeof *sizes);
    if (search.order && search.kept && search.spare && search.roots && search.gaps.branches && search.ends &&
        search.best_blocks && search.best_offsets && sizes) {
        try_orders(&search, kn_intervals_bound(host, intervals, count, alignment));
        for (int i = 0; i < count; i++) {
            kn_interval *interval = &intervals[i];
            interval->block = search.best_blocks[i];
            interval->offset = search.best_offsets[i];
            uint64_t end = interval->offset + aligned_bytes(&search, interval);
            if (end > sizes[interval->block]) sizes[interval->block] = end < limit ? end : limit;
            if (interval->block >= *block_count) *block_count = interval->block + 1;
        }
        *block_bytes = sizes;
    } else {
        status = kn_fail_memory(error, places * (40 + sizeof *search.gaps.branches));
    }
    kn_release(host, search.order);
    kn_release(host, search.kept);
    kn_release(host, search.spare);
    kn_release(host, search.roots);
    kn_release(host, search.gaps.branches);
    kn_release(host, search.ends);
    kn_release(host, search.best_blocks);
    kn_release(host, search.best_offsets);
    return status;
}
