#include "ranks.h"

#include <stdlib.h>
#include <string.h>

#include "../run/sums.h"

#define EXPECT(condition) EXPECT_OF(c, condition)

void sum_and_gather(const kn_communicator *c, size_t count) {
    const size_t ranks = (size_t)c->ranks;
    float *data = sum_numbers(c->rank, count * ranks), *sums = sum_numbers(c->rank, count),
          *part = sum_numbers(0, count), *all = sum_numbers(0, count * ranks);
    EXPECT(kn_all_reduce(c, sums, count) == KN_OK);
    EXPECT(kn_reduce_scatter(c, data, part, count) == KN_OK);
    EXPECT(kn_all_gather(c, part, all, count * sizeof *part) == KN_OK);
    for (size_t i = 0; i < count * ranks; i++) {
        const float expected = sum_expected(c->ranks, i);
        EXPECT(memcmp(&all[i], &expected, sizeof expected) == 0);
        EXPECT(i >= count || memcmp(&sums[i], &expected, sizeof expected) == 0);
    }
    for (size_t i = 0; i < count; i++) {
        const float expected = sum_expected(c->ranks, (size_t)c->rank * count + i);
        EXPECT(memcmp(&part[i], &expected, sizeof expected) == 0);
    }
    EXPECT(sums[count] == 77 && part[count] == 77 && all[count * ranks] == 77);
    EXPECT(kn_broadcast_from(c, c->ranks - 1, data, count * sizeof *data) == KN_OK);
    for (size_t i = 0; i < count; i++)
        EXPECT(data[i] == sum_number(c->ranks - 1, i));
    free(data);
    free(sums);
    free(part);
    free(all);
}
