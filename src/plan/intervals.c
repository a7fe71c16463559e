/* Lifetimes into as little memory as can be found: the general part of the place pass, without values.
 *
 * Intervals are placed one after the other, each into the tightest gap among those that are alive at the same
 * time, or at the end of the block that must grow least. The order decides how well that goes: three are
 * tried (large first, early first, long-lived first), and then whoever sticks out at the end moves forward in
 * the best of them, to a place drawn at random, as long as there is hope and the work is small. The stream of
 * random numbers is always the same, so the result depends on the intervals alone. */
#include <stdlib.h>
#include <string.h>

#include "plan/gaps.h"
#include "plan/plan_private.h"

enum { WORK_LIMIT = 5 * 1000 * 1000, ROUNDS_MOST = 400 };

typedef struct fit_work {
    kn_interval *intervals;
    int count;
    uint64_t alignment, limit;
    int *order, *kept, *spare;
    kn_gaps gaps;   /* between those that have a place */
    int *roots;     /* of blocks: their trees */
    uint64_t *ends; /* of blocks */
    int block_count;
    /* The best so far. */
    int *best_blocks;
    uint64_t *best_offsets, best_total;
} fit_work;

static uint64_t room(const fit_work *fitting, const kn_interval *interval) {
    return kn_align_up(interval->bytes, fitting->alignment);
}

typedef struct offer {
    int block;
    uint64_t offset;
    uint64_t waste;  /* of a gap */
    uint64_t growth; /* of the block; 0: it lies within */
} offer;

static bool better(const offer *one, const offer *other) {
    if (other->block < 0) return true;
    if (one->growth != other->growth) return one->growth < other->growth;
    return one->waste < other->waste;
}

typedef struct block_search {
    int block;
    uint64_t need;
    offer *best;
} block_search;

static bool fits_exactly(const offer *best) {
    return best->block >= 0 && !best->growth && !best->waste;
}

static bool take_gap(void *user, uint64_t offset, uint64_t bytes) {
    const block_search *search = user;
    offer here = {search->block, offset, bytes - search->need, 0};
    if (better(&here, search->best)) *search->best = here;
    return !fits_exactly(search->best);
}

/* The best place in one block, if it is better than the best so far. */
static void look_in_block(fit_work *fitting, const kn_interval *interval, int block, offer *best) {
    uint64_t need = room(fitting, interval), end = fitting->ends[block];
    block_search own = {block, need, best};
    kn_gap_search search = {
        .first = interval->first, .last = interval->last, .need = need, .found = take_gap, .user = &own};
    kn_gaps_find(&fitting->gaps, fitting->roots[block], &search);
    uint64_t cursor = search.cursor;
    if (search.ended || cursor > fitting->limit || interval->bytes > fitting->limit - cursor) return;
    bool grows = cursor + need > end;
    offer here = {block, cursor, grows ? 0 : end - cursor - need, grows ? cursor + need - end : 0};
    if (better(&here, best)) *best = here;
}

static void put(fit_work *fitting, int number) {
    kn_interval *interval = &fitting->intervals[number];
    offer best = {.block = -1};
    for (int block = 0; block < fitting->block_count && !fits_exactly(&best); block++)
        look_in_block(fitting, interval, block, &best);
    if (best.block < 0) {
        best = (offer){.block = fitting->block_count, .offset = 0};
        fitting->roots[fitting->block_count] = 0;
        fitting->ends[fitting->block_count++] = 0;
    }
    interval->block = best.block;
    interval->offset = best.offset;
    uint64_t end = best.offset + room(fitting, interval);
    if (end > fitting->ends[best.block]) fitting->ends[best.block] = end;
    int *root = &fitting->roots[best.block];
    *root = kn_gaps_add(&fitting->gaps, *root, number, interval->first, interval->last, best.offset,
                        room(fitting, interval));
}

/* Places all in the current order and keeps the result if it is the best; answers its size. */
static uint64_t try_order(fit_work *fitting) {
    fitting->block_count = 0;
    for (int i = 0; i < fitting->count; i++)
        put(fitting, fitting->order[i]);
    uint64_t total = 0;
    for (int i = 0; i < fitting->block_count; i++)
        total += fitting->ends[i];
    if (total >= fitting->best_total) return total;
    fitting->best_total = total;
    for (int i = 0; i < fitting->count; i++) {
        fitting->best_blocks[i] = fitting->intervals[i].block;
        fitting->best_offsets[i] = fitting->intervals[i].offset;
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

/* Merge sort: equal ones stay in their order, on every system. */
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

/* Moves the interval that ends highest in the last block to the front of the order, or to a place on the way
 * there. */
static void move_highest(fit_work *fitting, uint64_t round) {
    int highest = 0, last = fitting->block_count - 1;
    for (int i = 0; i < fitting->count; i++) {
        const kn_interval *interval = &fitting->intervals[fitting->order[i]];
        if (interval->block == last && interval->offset + room(fitting, interval) == fitting->ends[last])
            highest = i;
    }
    if (highest == 0) highest = (int)kn_random_below(2, round, (uint32_t)fitting->count);
    int number = fitting->order[highest];
    int place = round % 2 && highest ? (int)kn_random_below(1, round, (uint32_t)highest) : 0;
    memmove(fitting->order + place + 1, fitting->order + place,
            (size_t)(highest - place) * sizeof *fitting->order);
    fitting->order[place] = number;
}

/* The order that gave the best result comes back where the last attempt was worse than it was before. */
static void search(fit_work *fitting, uint64_t bound) {
    static comes_first *const orders[] = {larger, earlier, longer};
    size_t bytes = (size_t)fitting->count * sizeof *fitting->order;
    int64_t work = (int64_t)fitting->count * fitting->count;
    int64_t rounds = work ? WORK_LIMIT / work : 0;
    if (rounds > ROUNDS_MOST) rounds = ROUNDS_MOST;
    fitting->best_total = UINT64_MAX;
    for (size_t k = 0; k < KN_COUNT_OF(orders); k++) {
        for (int i = 0; i < fitting->count; i++)
            fitting->order[i] = i;
        sort(fitting->intervals, fitting->order, fitting->spare, fitting->count, orders[k]);
        uint64_t reached = try_order(fitting);
        memcpy(fitting->kept, fitting->order, bytes);
        for (int64_t round = 0; round < rounds && fitting->best_total > bound; round++) {
            move_highest(fitting, (uint64_t)round);
            uint64_t total = try_order(fitting);
            if (total <= reached) {
                reached = total;
                memcpy(fitting->kept, fitting->order, bytes);
            } else {
                memcpy(fitting->order, fitting->kept, bytes);
                try_order(fitting); /* who sticks out there */
            }
        }
        if (fitting->best_total <= bound) return;
    }
}

/* ---- the bound --------------------------------------------------------------------------------------- */

typedef struct change {
    int step;
    bool ends; /* after the step; beginnings come before it */
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
    uint64_t alive = 0, most = 0;
    for (int i = 0; i < 2 * count; i++) {
        if (changes[i].ends)
            alive -= changes[i].bytes;
        else
            alive += changes[i].bytes;
        if (alive > most) most = alive;
    }
    kn_release(host, changes);
    return most;
}

/* ---- the way in --------------------------------------------------------------------------------------- */

static kn_status check(const kn_interval *intervals, int count, uint64_t alignment, uint64_t limit,
                       int *culprit, kn_error *error) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        *culprit = i;
        if (intervals[i].bytes > limit)
            return kn_fail(
                error, KN_ERROR_DEVICE_MEMORY,
                "%llu bytes are needed in one piece, where the device gives at most %llu; a smaller "
                "batch needs less",
                (unsigned long long)intervals[i].bytes, (unsigned long long)limit);
        /* Then no sum of offsets below overflows. */
        if (intervals[i].bytes > UINT64_MAX / 4 - alignment - sum)
            return kn_fail(error, KN_ERROR_DEVICE_MEMORY, "all values together are beyond 64 bits");
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
    fit_work fitting = {.intervals = intervals, .count = count, .alignment = alignment, .limit = limit};
    fitting.order = kn_allocate(host, places, sizeof *fitting.order);
    fitting.kept = kn_allocate(host, places, sizeof *fitting.kept);
    fitting.spare = kn_allocate(host, places, sizeof *fitting.spare);
    fitting.roots = kn_allocate(host, places, sizeof *fitting.roots);
    fitting.gaps = (kn_gaps){kn_allocate(host, places + 1, sizeof *fitting.gaps.branches), work};
    fitting.ends = kn_allocate(host, places, sizeof *fitting.ends);
    fitting.best_blocks = kn_allocate(host, places, sizeof *fitting.best_blocks);
    fitting.best_offsets = kn_allocate(host, places, sizeof *fitting.best_offsets);
    uint64_t *sizes = kn_arena_take(arena, places, sizeof *sizes);
    if (fitting.order && fitting.kept && fitting.spare && fitting.roots && fitting.gaps.branches &&
        fitting.ends && fitting.best_blocks && fitting.best_offsets && sizes) {
        search(&fitting, kn_intervals_bound(host, intervals, count, alignment));
        for (int i = 0; i < count; i++) {
            kn_interval *interval = &intervals[i];
            interval->block = fitting.best_blocks[i];
            interval->offset = fitting.best_offsets[i];
            uint64_t end = interval->offset + room(&fitting, interval);
            if (end > sizes[interval->block]) sizes[interval->block] = end < limit ? end : limit;
            if (interval->block >= *block_count) *block_count = interval->block + 1;
        }
        *block_bytes = sizes;
    } else {
        status = kn_fail_memory(error, places * (40 + sizeof *fitting.gaps.branches));
    }
    kn_release(host, fitting.order);
    kn_release(host, fitting.kept);
    kn_release(host, fitting.spare);
    kn_release(host, fitting.roots);
    kn_release(host, fitting.gaps.branches);
    kn_release(host, fitting.ends);
    kn_release(host, fitting.best_blocks);
    kn_release(host, fitting.best_offsets);
    return status;
}
