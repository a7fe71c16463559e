/* Valid texts with thousands of random changes: readers refuse them with a message or accept them. */
#include "graph_tests.h"

enum { ROUNDS = 20000, ROOM = 400 };

static const char *const samples[] = {
    "batch,1,28,(n+1)/2",
    "2*batch*n-3*(n/4)+1,batch/(n-1),-batch*batch+7",
    "count=-7 rate=1e-3 keep=false axes=2,0,-1 shape=batch,(n+1)*2,-1,28 mode=valid",
    "x > 0 ? x : slope * x",
    "0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * pow(x, 3))))",
    "max(min(x, 6), -x) + sigmoid(-y) / softplus(x) - isnan(z) * !(x <= y && y != 2 || z >= 1e-3)",
};

static uint32_t below(uint64_t *position, uint32_t bound) {
    return kn_random_below(99, (*position)++, bound);
}

/* One change: a character, a range removed, doubled, or copied from elsewhere. */
static void change(uint64_t *position, char *text) {
    static const char letters[] = "0123456789+-*/(),.=<>!&|?: xyzebatchn_~$\n9";
    size_t length = strlen(text), at = below(position, (uint32_t)length + 1);
    size_t piece = 1 + below(position, 12);
    const char *other = samples[below(position, (uint32_t)KN_COUNT_OF(samples))];
    if (piece > length - at) piece = length - at;
    switch (below(position, 4)) {
    case 0:
        if (at < length) text[at] = letters[below(position, sizeof letters - 1)];
        break;
    case 1:
        memmove(text + at, text + at + piece, length - at - piece + 1);
        break;
    case 2:
        if (length + piece + 1 >= ROOM) break;
        memmove(text + at + piece, text + at, length - at + 1);
        break;
    default: {
        size_t start = below(position, (uint32_t)strlen(other)), taken = 1 + below(position, 12);
        if (taken > strlen(other) - start) taken = strlen(other) - start;
        if (length + taken + 1 >= ROOM) break;
        memmove(text + at + taken, text + at, length - at + 1);
        memcpy(text + at, other + start, taken);
        break;
    }
    }
}

TEST(test_changed_texts) {
    uint64_t position = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char text[ROOM];
        strcpy(text, samples[round % (int)KN_COUNT_OF(samples)]);
        for (uint32_t changes = 1 + below(&position, 6); changes > 0; changes--)
            change(&position, text);
        const char *wrong = read_texts(text);
        if (wrong) fail_msg("%s: %s", wrong, text);
    }
}

TEST_FILE(test_mutations, NULL, NULL)
