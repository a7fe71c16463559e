/* Rows put into an array, and taken from it, from a place on that is told at run time.
 *
 *   KN_T     float  type of the elements
 *   KN_INDEX   int  type of indices
 *
 * x is (batches,most,columns), rows (batches,count,columns); the place in a batch is starts[batch * starts_row].
 *   kn_put_rows(x, rows, starts, y, elements, most, count, columns, starts_row, clear, blank)
 *     y = x with the rows in place of its own; the others become 0 with `clear`, and those put are 0 with `blank`. y
 *     may be x: what stays is not written then.
 *   kn_take_rows(x, starts, y, elements, most, count, columns, starts_row)
 *     y (batches,count,columns); 0 where x has no such row
 * One item per element of y. */
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif

kernel void kn_put_rows(global const KN_T *x, global const KN_T *rows, global const int *starts, global KN_T *y,
                        const KN_INDEX elements, const KN_INDEX most, const KN_INDEX count,
                        const KN_INDEX columns, const int starts_row, const int clear, const int blank) {
    const KN_INDEX item = get_global_id(0);
    if (item >= elements) return;
    const KN_INDEX row = item / columns, column = item - row * columns, batch = row / most;
    const long from = (long)(row - batch * most) - starts[batch * starts_row];
    if (from >= 0 && from < count)
        y[item] = blank ? (KN_T)0 : rows[(batch * count + (KN_INDEX)from) * columns + column];
    else if (clear)
        y[item] = (KN_T)0;
    else if (y != x)
        y[item] = x[item];
}

kernel void kn_take_rows(global const KN_T *x, global const int *starts, global KN_T *y, const KN_INDEX elements,
                         const KN_INDEX most, const KN_INDEX count, const KN_INDEX columns, const int starts_row) {
    const KN_INDEX item = get_global_id(0);
    if (item >= elements) return;
    const KN_INDEX row = item / columns, column = item - row * columns, batch = row / count;
    const long from = (long)(row - batch * count) + starts[batch * starts_row];
    y[item] = from >= 0 && from < most ? x[(batch * most + (KN_INDEX)from) * columns + column] : (KN_T)0;
}
