/* Gaps between the intervals of a block (gaps.h). */
#include "plan/gaps.h"

/* Appends the core of a subtree to the core of `own`, whose offsets are lower. */
static void add_core(kn_gap_branch *own, const kn_gap_branch *part, bool first) {
    if (first) {
        own->core_first = part->core_first;
        own->core_last = part->core_last;
        own->core_begin = part->core_begin;
        own->core_end = part->core_end;
        own->core_gap = part->core_gap;
        return;
    }
    if (part->core_begin > own->core_end && part->core_begin - own->core_end > own->core_gap)
        own->core_gap = part->core_begin - own->core_end;
    if (part->core_gap > own->core_gap) own->core_gap = part->core_gap;
    if (part->core_end > own->core_end) own->core_end = part->core_end;
    if (part->core_first > own->core_first) own->core_first = part->core_first;
    if (part->core_last < own->core_last) own->core_last = part->core_last;
}

/* Computes the fields of a subtree from its interval and its children. Intervals that live less than half as
 * long as the longest-lived are not in the core. */
static void summarize(kn_gaps *gaps, kn_gap_branch *own) {
    const kn_gap_branch alone = {.first_min = own->first,
                                 .last_max = own->last,
                                 .end = own->offset + own->bytes,
                                 .core_first = own->first,
                                 .core_last = own->last,
                                 .core_length = own->last - own->first + 1,
                                 .core_begin = own->offset,
                                 .core_end = own->offset + own->bytes};
    const kn_gap_branch *const parts[] = {own->left ? &gaps->branches[own->left] : NULL, &alone,
                                          own->right ? &gaps->branches[own->right] : NULL};
    int count = 0;
    ++*gaps->work;
    own->first_min = own->first;
    own->last_max = own->last;
    own->end = own->core_length = 0;
    for (size_t i = 0; i < KN_COUNT_OF(parts); i++) {
        if (!parts[i]) continue;
        if (parts[i]->first_min < own->first_min) own->first_min = parts[i]->first_min;
        if (parts[i]->last_max > own->last_max) own->last_max = parts[i]->last_max;
        if (parts[i]->end > own->end) own->end = parts[i]->end;
        if (parts[i]->core_length > own->core_length) own->core_length = parts[i]->core_length;
    }
    for (size_t i = 0; i < KN_COUNT_OF(parts); i++)
        if (parts[i] && parts[i]->core_length >= own->core_length / 2) add_core(own, parts[i], count++ == 0);
}

/* Whether `one` comes before `other` in the tree: by offset, then by first step. */
static bool comes_before(const kn_gap_branch *one, const kn_gap_branch *other) {
    return one->offset != other->offset ? one->offset < other->offset : one->first < other->first;
}

/* Splits a tree into the intervals before a given interval and those after it. */
static void split(kn_gaps *gaps, int root, const kn_gap_branch *interval, int *left, int *right) {
    if (!root) {
        *left = *right = 0;
        return;
    }
    kn_gap_branch *own = &gaps->branches[root];
    if (comes_before(interval, own)) {
        split(gaps, own->left, interval, left, &own->left);
        *right = root;
    } else {
        split(gaps, own->right, interval, &own->right, right);
        *left = root;
    }
    summarize(gaps, own);
}

static int insert(kn_gaps *gaps, int root, int number) {
    kn_gap_branch *own = &gaps->branches[number], *above = &gaps->branches[root];
    if (root && above->weight >= own->weight) {
        int *side = comes_before(own, above) ? &above->left : &above->right;
        *side = insert(gaps, *side, number);
        summarize(gaps, above);
        return root;
    }
    split(gaps, root, own, &own->left, &own->right);
    summarize(gaps, own);
    return number;
}

int kn_gaps_add(kn_gaps *gaps, int root, int number, int first, int last, uint64_t offset, uint64_t bytes) {
    gaps->branches[number + 1] =
        (kn_gap_branch){.weight = (uint32_t)(kn_hash_number(0, (uint64_t)number) >> 32),
                        .first = first,
                        .last = last,
                        .offset = offset,
                        .bytes = bytes};
    return insert(gaps, root, number + 1);
}

/* Whether no gap up to the end of a subtree's core is large enough. */
static bool is_dense(const kn_gap_branch *branch, const kn_gap_search *search) {
    if (branch->core_first > search->last || branch->core_last < search->first) return false;
    return branch->core_gap < search->need &&
           (branch->core_begin <= search->cursor || branch->core_begin - search->cursor < search->need);
}

void kn_gaps_find(kn_gaps *gaps, int root, kn_gap_search *search) {
    const kn_gap_branch *own = &gaps->branches[root];
    if (!root || search->ended || own->end <= search->cursor) return;
    ++*gaps->work;
    if (own->last_max < search->first || own->first_min > search->last) return;
    if (is_dense(own, search) && own->core_end > search->cursor) search->cursor = own->core_end;
    kn_gaps_find(gaps, own->left, search);
    uint64_t end = own->offset + own->bytes;
    if (own->first <= search->last && own->last >= search->first && end > search->cursor && !search->ended) {
        if (own->offset > search->cursor && own->offset - search->cursor >= search->need)
            search->ended = !search->found(search->user, search->cursor, own->offset - search->cursor);
        search->cursor = end;
    }
    kn_gaps_find(gaps, own->right, search);
}
