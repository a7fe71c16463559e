/* Gaps between tenants of a block (gaps.h). */
#include "plan/gaps.h"

/* Takes a branch's core, or a tenant that is one, behind what the core of `own` has already. */
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

/* What a branch knows, from what those below it know. Who lives less than half as long as another is not of
 * the core. */
static void sum_up(kn_gaps *gaps, kn_gap_branch *own) {
    const kn_gap_branch alone = {.first_least = own->first,
                                 .last_most = own->last,
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
    own->first_least = own->first;
    own->last_most = own->last;
    own->end = own->core_length = 0;
    for (size_t i = 0; i < KN_COUNT_OF(parts); i++) {
        if (!parts[i]) continue;
        if (parts[i]->first_least < own->first_least) own->first_least = parts[i]->first_least;
        if (parts[i]->last_most > own->last_most) own->last_most = parts[i]->last_most;
        if (parts[i]->end > own->end) own->end = parts[i]->end;
        if (parts[i]->core_length > own->core_length) own->core_length = parts[i]->core_length;
    }
    for (size_t i = 0; i < KN_COUNT_OF(parts); i++)
        if (parts[i] && parts[i]->core_length >= own->core_length / 2) add_core(own, parts[i], count++ == 0);
}

/* Of two tenants, who stands in front: of those at one offset, the earlier. */
static bool in_front(const kn_gap_branch *one, const kn_gap_branch *other) {
    return one->offset != other->offset ? one->offset < other->offset : one->first < other->first;
}

/* Cuts a tree in front of a tenant. */
static void cut(kn_gaps *gaps, int root, const kn_gap_branch *tenant, int *left, int *right) {
    if (!root) {
        *left = *right = 0;
        return;
    }
    kn_gap_branch *own = &gaps->branches[root];
    if (in_front(tenant, own)) {
        cut(gaps, own->left, tenant, left, &own->left);
        *right = root;
    } else {
        cut(gaps, own->right, tenant, &own->right, right);
        *left = root;
    }
    sum_up(gaps, own);
}

static int insert(kn_gaps *gaps, int root, int number) {
    kn_gap_branch *own = &gaps->branches[number], *above = &gaps->branches[root];
    if (root && above->weight >= own->weight) {
        int *side = in_front(own, above) ? &above->left : &above->right;
        *side = insert(gaps, *side, number);
        sum_up(gaps, above);
        return root;
    }
    cut(gaps, root, own, &own->left, &own->right);
    sum_up(gaps, own);
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

/* Whether there is no gap, up to the end of a branch's core, that is large enough. */
static bool is_dense(const kn_gap_branch *branch, const kn_gap_search *search) {
    if (branch->core_first > search->last || branch->core_last < search->first) return false;
    return branch->core_gap < search->need &&
           (branch->core_begin <= search->cursor || branch->core_begin - search->cursor < search->need);
}

void kn_gaps_find(kn_gaps *gaps, int root, kn_gap_search *search) {
    const kn_gap_branch *own = &gaps->branches[root];
    if (!root || search->ended || own->end <= search->cursor) return;
    ++*gaps->work;
    if (own->last_most < search->first || own->first_least > search->last) return;
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
