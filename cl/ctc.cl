/* Connectionist temporal classification: how likely a sequence of labels is, given the logarithms of the classes'
 * probabilities at each time, over all ways to stretch it and to put blanks between.
 *
 * A group walks along one sample. Its states are blank, label, blank, … blank: 2 * labels + 1 of them, `states` at most.
 * Everything is kept as logarithms. Many threads share the states of a time; where few do the work a group has one.
 *
 * Defines, with their defaults:
 *   KN_T float        type of the numbers
 *   KN_ITEMS 64       work-items of a group
 *   KN_INDEX int      type of offsets; long for values above 2^31 elements
 *
 * x is (samples,times,classes), labels (samples,most), alphas (samples,times,states) with states = 2 * most + 1.
 *
 * kn_ctc(x, labels, times_of, labels_of, losses, alphas, times, classes, most, blank)
 *   losses (samples) is minus the logarithm of the likelihood: infinite for what cannot be, NaN for lengths and labels
 *   that do not exist. alphas is -INFINITY beyond the sample's own times and states.
 * kn_ctc_gradient(x, labels, times_of, labels_of, alphas, losses, dlosses, dx, betas, chains, …)
 *   betas is scratch (samples,3,states), chains (samples,states). Each class is summed by one work-item, in order. An
 *   infinite loss has no gradient. */
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_ITEMS
#define KN_ITEMS 64
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif

#define KN_SIZES int times, int classes, int most, int blank
#define KN_SAMPLE                                                                                            \
    const int item = get_local_id(0), sample = get_group_id(0), states = 2 * most + 1;                       \
    const int own_times = times_of[sample], own_labels = labels_of[sample];                                  \
    const int own_states = 2 * own_labels + 1;                                                               \
    const bool lengths = own_times >= 0 && own_times <= times && own_labels >= 0 && own_labels <= most;      \
    x += (KN_INDEX)sample * times * classes;                                                                 \
    labels += (KN_INDEX)sample * most;                                                                       \
    alphas += (KN_INDEX)sample * times * states;

/* The class of a state. */
#define KN_CLASS(state) ((state) % 2 ? labels[(state) / 2] : blank)

/* The logarithm of exp(a) + exp(b) + exp(c); NaN stays. */
KN_T kn_log_sum(KN_T a, KN_T b, KN_T c) {
    KN_T most = a;
    most = b > most ? b : most;
    most = c > most ? c : most;
    most = most == -INFINITY ? (KN_T)0 : most;
    return most + log(exp(a - most) + exp(b - most) + exp(c - most));
}

KN_T kn_of_class(global const KN_T *x, int class, int classes) {
    return class >= 0 && class < classes ? x[class] : (KN_T)NAN;
}

/* A state may be reached past the blank before it, from a label that is another. */
bool kn_skips(global const int *labels, int state) {
    return state % 2 && state > 1 && labels[state / 2] != labels[state / 2 - 1];
}

kernel __attribute__((reqd_work_group_size(KN_ITEMS, 1, 1))) void
kn_ctc(global const KN_T *restrict x, global const int *restrict labels, global const int *restrict times_of,
       global const int *restrict labels_of, global KN_T *restrict losses, global KN_T *alphas, KN_SIZES) {
    KN_SAMPLE
    const int used = lengths ? own_times : 0;
    for (int time = 0; time < times; time++) {
        global const KN_T *before = alphas + (KN_INDEX)(time - 1) * states;
        for (int s = item; s < states; s += KN_ITEMS) {
            KN_T sum = -INFINITY;
            if (time < used && s < own_states) {
                if (time == 0)
                    sum = s < 2 ? (KN_T)0 : (KN_T)-INFINITY;
                else
                    sum = kn_log_sum(before[s], s > 0 ? before[s - 1] : (KN_T)-INFINITY,
                                     kn_skips(labels, s) ? before[s - 2] : (KN_T)-INFINITY);
                sum += kn_of_class(x + (KN_INDEX)time * classes, KN_CLASS(s), classes);
            }
            alphas[(KN_INDEX)time * states + s] = sum;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    if (item > 0) return;
    KN_T likelihood = own_labels == 0 ? (KN_T)0 : (KN_T)-INFINITY;
    if (used > 0) {
        global const KN_T *last = alphas + (KN_INDEX)(used - 1) * states;
        likelihood = kn_log_sum(last[own_states - 1], own_labels ? last[own_states - 2] : (KN_T)-INFINITY, -INFINITY);
    }
    losses[sample] = lengths ? -likelihood : (KN_T)NAN;
}

/* chains[s]: 1 + the next state of the class of s, or 1 + own_states; negative where another stands before it. */
void kn_chain(global const int *labels, global int *chains, int item, int own_states, int blank) {
    for (int s = item; s < own_states; s += KN_ITEMS) {
        const int class = KN_CLASS(s);
        int next = s + 1, first = 1;
        while (next < own_states && KN_CLASS(next) != class)
            next++;
        for (int other = 0; other < s; other++)
            if (KN_CLASS(other) == class) first = -1;
        chains[s] = first * (next + 1);
    }
}

kernel __attribute__((reqd_work_group_size(KN_ITEMS, 1, 1))) void
kn_ctc_gradient(global const KN_T *restrict x, global const int *labels, global const int *restrict times_of,
                global const int *restrict labels_of, global const KN_T *restrict alphas,
                global const KN_T *restrict losses, global const KN_T *restrict dlosses, global KN_T *restrict dx,
                global KN_T *betas, global int *chains, KN_SIZES) {
    KN_SAMPLE
    const KN_T loss = losses[sample], slope = dlosses[sample];
    const bool finite = loss - loss == 0;
    betas += (KN_INDEX)sample * 3 * states;
    chains += (KN_INDEX)sample * states;
    dx += (KN_INDEX)sample * times * classes;
    for (int time = 0; time < times; time++)
        for (int c = item; c < classes; c += KN_ITEMS)
            dx[(KN_INDEX)time * classes + c] = loss != loss ? loss : (KN_T)0;
    if (!finite) return;
    global KN_T *shares = betas + 2 * states;
    kn_chain(labels, chains, item, own_states, blank);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int time = own_times - 1; time >= 0; time--) {
        global KN_T *here = betas + time % 2 * states;
        global const KN_T *behind = betas + (time + 1) % 2 * states;
        for (int s = item; s < own_states; s += KN_ITEMS) {
            const KN_T own = x[(KN_INDEX)time * classes + KN_CLASS(s)], alpha = alphas[(KN_INDEX)time * states + s];
            KN_T sum;
            if (time == own_times - 1)
                sum = s + 2 >= own_states ? (KN_T)0 : (KN_T)-INFINITY;
            else
                sum = kn_log_sum(behind[s], s + 1 < own_states ? behind[s + 1] : (KN_T)-INFINITY,
                                 s + 2 < own_states && kn_skips(labels, s + 2) ? behind[s + 2] : (KN_T)-INFINITY);
            here[s] = sum + own;
            shares[s] = alpha == -INFINITY ? (KN_T)0 : exp(alpha + sum + loss);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int s = item; s < own_states; s += KN_ITEMS) {
            if (chains[s] < 0) continue;
            KN_T sum = 0;
            for (int other = s; other < own_states; other = abs(chains[other]) - 1)
                sum += shares[other];
            dx[(KN_INDEX)time * classes + KN_CLASS(s)] = -slope * sum;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
