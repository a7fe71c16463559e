/* What kernels for few work-items share that walk contiguous rows with vectors.
 *
 *   KN_WIDTH     8  lanes of a vector: 4, 8 or 16
 *   KN_T     float  type of the arrays        KN_A  float  type of the computation */
#ifndef KN_WIDTH
#define KN_WIDTH 8
#endif
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A float
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif

#define KN_PASTE_(a, b) a##b
#define KN_PASTE(a, b) KN_PASTE_(a, b)
typedef KN_PASTE(KN_A, KN_WIDTH) kn_vector;
#define KN_LOAD(p) KN_PASTE(KN_PASTE(convert_, KN_A), KN_WIDTH)(KN_PASTE(vload, KN_WIDTH)(0, p))
#define KN_STORE(v, p) KN_PASTE(vstore, KN_WIDTH)(KN_PASTE(KN_PASTE(convert_, KN_T), KN_WIDTH)(v), 0, p)
#define KN_STORE_LANES(v, lanes) KN_PASTE(vstore, KN_WIDTH)(v, 0, lanes)

/* NaN wins over any number. */
#define KN_MORE(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))

static KN_A kn_sum_of_lanes(const kn_vector vector) {
    KN_A lanes[KN_WIDTH], sum = 0;
    KN_STORE_LANES(vector, lanes);
    for (int i = 0; i < KN_WIDTH; i++)
        sum += lanes[i];
    return sum;
}

static KN_A kn_row_max(global const KN_T *x, const KN_INDEX count) {
    KN_A most = -INFINITY;
    KN_INDEX i = 0;
    if (count >= KN_WIDTH) {
        KN_A lanes[KN_WIDTH];
        kn_vector most_of_lanes = (kn_vector)(-INFINITY);
        for (; i + KN_WIDTH <= count; i += KN_WIDTH) {
            const kn_vector v = KN_LOAD(x + i);
            most_of_lanes = KN_MORE(most_of_lanes, v);
        }
        KN_STORE_LANES(most_of_lanes, lanes);
        for (int j = 0; j < KN_WIDTH; j++)
            most = KN_MORE(most, lanes[j]);
    }
    for (; i < count; i++) {
        const KN_A v = (KN_A)x[i];
        most = KN_MORE(most, v);
    }
    return most;
}

/* The sum of exp(x - most). */
static KN_A kn_row_sum_exp(global const KN_T *x, const KN_INDEX count, const KN_A most) {
    KN_A sum = 0;
    KN_INDEX i = 0;
    if (count >= KN_WIDTH) {
        kn_vector sums = (kn_vector)(0);
        for (; i + KN_WIDTH <= count; i += KN_WIDTH)
            sums += exp(KN_LOAD(x + i) - most);
        sum = kn_sum_of_lanes(sums);
    }
    for (; i < count; i++)
        sum += exp((KN_A)x[i] - most);
    return sum;
}
