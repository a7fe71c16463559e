/* What the command knows of the processes that it was started with, and how it loads libkoine-mpi. With the
 * word `open`: opens the communicator and sums; run by mpi.py. */
#include "command/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                    "SLURM_STEP_NUM_TASKS"};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void launchers_are_known(void **state) {
    for (int i = 0; i < SIZES; i++)
        unsetenv(sizes[i]);
    const char *variable = "unset";
    setenv("SLURM_NTASKS", "8", 1); /* of a batch script, which no launcher has started */
    assert_int_equal(ranks_of_environment(&variable), 1);
    assert_null(variable);
    static const struct {
        const char *text;
        int ranks;
    } rows[] = {{"4", 4}, {"1", 1}, {"0", 1}, {"-3", 1}, {"", 1}, {"4x", 1}, {"99999999999999999999", 1}};
    for (int i = 0; i < SIZES; i++) {
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            setenv(sizes[i], rows[k].text, 1);
            assert_int_equal(ranks_of_environment(&variable), rows[k].ranks);
            assert_true(rows[k].ranks == 1 ? !variable : !strcmp(variable, sizes[i]));
        }
        setenv(sizes[i], "3", 1);
        assert_int_equal(ranks_of_environment(NULL), 3);
        unsetenv(sizes[i]);
    }
}

/* Prints `rank R of N: SUM`, or the reason of a failure. */
static int open_and_sum(void) {
    kn_communicator communicator = {.size = sizeof communicator};
    char error[1024];
    if (ranks_open(&communicator, error, sizeof error)) {
        printf("%s\n", error);
        return 1;
    }
    float number = (float)(communicator.rank + 1);
    kn_status status = kn_all_reduce(&communicator, &number, 1);
    printf("rank %d of %d: %g\n", communicator.rank, communicator.ranks, number);
    ranks_close(&communicator);
    return status != KN_OK;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "open")) return open_and_sum();
    const struct CMUnitTest tests[] = {cmocka_unit_test(launchers_are_known)};
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
