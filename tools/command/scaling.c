/* See scaling.h. */
#include "scaling.h"

#include <math.h>

const char *const scaling_names[SCALING_WAYS] = {"slices", "ring", "tree"};

double scaling_exchange(const scaling_terms *terms, scaling_way way, int ranks, double bytes) {
    if (ranks < 2) return 0;
    const double others = ranks - 1, part = others / ranks * bytes, levels = ceil(log2(ranks));
    switch (way) {
    case SCALING_SLICES:
        return 2 * (terms->latency + (others - 1) * terms->message + part / terms->bandwidth) +
               part * terms->add;
    case SCALING_RING:
        return 2 * (others * terms->latency + part / terms->bandwidth) + part * terms->add;
    case SCALING_TREE:
        return levels * (2 * (terms->latency + bytes / terms->bandwidth) + bytes * terms->add);
    case SCALING_WAYS:
        break;
    }
    return NAN;
}

double scaling_step(const scaling_terms *terms, scaling_way way, int ranks) {
    const double buckets = fmax(1, ceil(terms->gradient_bytes / terms->bucket_bytes));
    const double forward = (1 - terms->backward) * terms->compute,
                 last = terms->gradient_bytes - (buckets - 1) * terms->bucket_bytes;
    double end = 0;
    for (double b = 1; b <= buckets; b++) {
        const double ready = forward + b / buckets * terms->backward * terms->compute;
        const double bytes = b < buckets ? terms->bucket_bytes : last;
        end = fmax(end, ready);
        if (ranks > 1) end += bytes * terms->transfer + scaling_exchange(terms, way, ranks, bytes);
    }
    return end;
}
