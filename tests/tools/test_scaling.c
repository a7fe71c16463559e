/* The arithmetic of koine bench --scaling, with given terms. */
#include "command/scaling.h"

#include "support.h"

/* 1 s of compute, of which 0.6 s are backward; 10 bytes in buckets of 4; 1 byte a second. */
static const scaling_terms terms = {.compute = 1,
                                    .backward = 0.6,
                                    .gradient_bytes = 10,
                                    .bucket_bytes = 4,
                                    .latency = 0.25,
                                    .message = 0.125,
                                    .bandwidth = 1,
                                    .add = 0.5};

static void near(double found, double expected) {
    assert_float_equal(found, expected, 1e-12);
}

TEST(an_exchange) {
    for (scaling_way way = 0; way < SCALING_WAYS; way++)
        near(scaling_exchange(&terms, way, 1, 8), 0);
    /* Each of 4 workers owns 2 of 8 bytes, receives, sends and adds 6, in 3 messages each way. */
    near(scaling_exchange(&terms, SCALING_SLICES, 4, 8), 2 * (0.25 + 2 * 0.125 + 6) + 6 * 0.5);
    /* 3 rounds each way, of 2 bytes. */
    near(scaling_exchange(&terms, SCALING_RING, 4, 8), 2 * 3 * (0.25 + 2) + 6 * 0.5);
    /* 2 levels up and down, each with all bytes; as many for 3, and 3 for 5. */
    near(scaling_exchange(&terms, SCALING_TREE, 4, 8), 4 * (0.25 + 8) + 2 * 8 * 0.5);
    near(scaling_exchange(&terms, SCALING_TREE, 3, 8), scaling_exchange(&terms, SCALING_TREE, 4, 8));
    near(scaling_exchange(&terms, SCALING_TREE, 5, 8), 6 * (0.25 + 8) + 3 * 8 * 0.5);
    /* Two ranks do the same in a ring and by slices. */
    near(scaling_exchange(&terms, SCALING_RING, 2, 8), scaling_exchange(&terms, SCALING_SLICES, 2, 8));
}

TEST(a_step) {
    scaling_terms fast = terms, late = terms;
    near(scaling_step(&terms, SCALING_SLICES, 1), 1);
    /* Slow exchanges begin when the first of 3 buckets is ready, at 0.6, and never wait: 4, 4 and 2 bytes. */
    const double four = 2 * (0.25 + 2) + 1, two = 2 * (0.25 + 1) + 0.5;
    near(scaling_step(&terms, SCALING_SLICES, 2), 0.6 + 2 * four + two);
    /* Fast ones are hidden, but for the last. */
    fast.latency = fast.message = fast.add = 0;
    fast.bandwidth = 1000;
    near(scaling_step(&fast, SCALING_SLICES, 2), 1 + 2 * 0.001);
    /* What goes from the device and back counts as well. */
    fast.transfer = 0.001;
    near(scaling_step(&fast, SCALING_SLICES, 2), 1 + 2 * 0.001 + 2 * 0.001);
    near(scaling_step(&fast, SCALING_SLICES, 1), 1);
    /* Without a backward pass to hide in, all exchanges follow it. */
    late.backward = 0;
    near(scaling_step(&late, SCALING_SLICES, 2), 1 + 2 * four + two);
    /* One bucket has all. */
    late.bucket_bytes = 16;
    near(scaling_step(&late, SCALING_SLICES, 2), 1 + 2 * (0.25 + 5) + 2.5);
}

TEST_FILE(main, NULL, NULL)
