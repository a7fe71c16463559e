/* Rows of a table, picked by number, and the gradient of the table.
 *
 *   KN_T     float  type of the table        KN_A  float  type of sums
 *   KN_INDEX   int  type of indices
 *   KN_WIDTH     0  0: many threads; lanes of a vector (4, 8, 16): few work-items
 *   KN_ITEMS    64  work-items of a group, with many threads
 *
 *   kn_embedding(table, numbers, y, count, rows, columns, share)        y(i) = row numbers(i) of the table
 *   kn_embedding_gradient(dy, numbers, dtable, count, rows, columns, share)
 *     each row of the table adds up its occurrences in their order, so that bits never depend on the dealing
 * table is (rows,columns), numbers (count), y (count,columns). A number that is no row gives NaN, and no gradient.
 * Few: work-item i has `share` rows of the result. Many: a work-item has an element of y, or `share` rows of
 * one column of the table; the groups' second number counts the shares. */
#include "common/wanted.cl"
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A float
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_WIDTH
#define KN_WIDTH 0
#endif

#if KN_WIDTH == 0

#ifndef KN_ITEMS
#define KN_ITEMS 64
#endif
#define KN_WORK_GROUP __attribute__((reqd_work_group_size(KN_ITEMS, 1, 1)))

#if KN_WANTED(kn_embedding)
KN_WORK_GROUP kernel void kn_embedding(global const KN_T *restrict table, global const int *restrict numbers,
                                       global KN_T *restrict y, const KN_INDEX count, const KN_INDEX rows,
                                       const KN_INDEX columns, const KN_INDEX share) {
    const KN_INDEX at = get_global_id(0);
    if (at >= count * columns) return;
    const KN_INDEX number = numbers[at / columns];
    y[at] = number >= 0 && number < rows ? table[number * columns + at % columns] : (KN_T)NAN;
}
#endif

#if KN_WANTED(kn_embedding_gradient)
KN_WORK_GROUP kernel void kn_embedding_gradient(global const KN_T *restrict dy,
                                                global const int *restrict numbers,
                                                global KN_T *restrict dtable, const KN_INDEX count,
                                                const KN_INDEX rows, const KN_INDEX columns,
                                                const KN_INDEX share) {
    const KN_INDEX column = get_global_id(0);
    const KN_INDEX first = (KN_INDEX)get_group_id(1) * share, end = min(first + share, rows);
    if (column >= columns) return;
    for (KN_INDEX row = first; row < end; row++)
        dtable[row * columns + column] = 0;
    for (KN_INDEX i = 0; i < count; i++) {
        const KN_INDEX number = numbers[i];
        if (number < first || number >= end) continue;
        global KN_T *sum = dtable + number * columns + column;
        *sum = (KN_T)((KN_A)*sum + (KN_A)dy[i * columns + column]);
    }
}
#endif

#else

#include "common/wide_rows.cl"

#if KN_WANTED(kn_embedding)
KN_ALONE kernel void kn_embedding(global const KN_T *restrict table, global const int *restrict numbers,
                                  global KN_T *restrict y, const KN_INDEX count, const KN_INDEX rows,
                                  const KN_INDEX columns, const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, end = min(first + share, count);
    for (KN_INDEX i = first; i < end; i++) {
        const KN_INDEX number = numbers[i];
        const bool known = number >= 0 && number < rows;
        global const KN_T *from = table + (known ? number : 0) * columns;
        global KN_T *to = y + i * columns;
        KN_INDEX column = 0;
        if (!known)
            for (; column < columns; column++)
                to[column] = (KN_T)NAN;
        for (; column + KN_WIDTH <= columns; column += KN_WIDTH)
            KN_STORE(KN_LOAD(from + column), to + column);
        for (; column < columns; column++)
            to[column] = from[column];
    }
}
#endif

#if KN_WANTED(kn_embedding_gradient)
KN_ALONE kernel void kn_embedding_gradient(global const KN_T *restrict dy, global const int *restrict numbers,
                                           global KN_T *restrict dtable, const KN_INDEX count,
                                           const KN_INDEX rows, const KN_INDEX columns,
                                           const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, end = min(first + share, rows);
    for (KN_INDEX at = first * columns; at < end * columns; at++)
        dtable[at] = 0;
    for (KN_INDEX i = 0; i < count; i++) {
        const KN_INDEX number = numbers[i];
        if (number < first || number >= end) continue;
        global const KN_T *from = dy + i * columns;
        global KN_T *to = dtable + number * columns;
        KN_INDEX column = 0;
        for (; column + KN_WIDTH <= columns; column += KN_WIDTH)
            KN_STORE(KN_LOAD(to + column) + KN_LOAD(from + column), to + column);
        for (; column < columns; column++)
            to[column] = (KN_T)((KN_A)to[column] + (KN_A)from[column]);
    }
}
#endif

#endif
