/* A golden trajectory by processes of MPI, run by golden_ranks.py: rank 0 first trains alone with the same
 * shards, and all must find its bits.
 *     test-golden-ranks FOLDER NAME */
#include <koine/mpi.h>

#include <stdio.h>
#include <string.h>

#include "golden_work.h"

enum { SHARDS = 4 };

/* What each rank has found; rank 0 reports which differ from its own result without other ranks. */
static int compare(const kn_communicator *all, const golden_work *alone, const golden_work *own) {
    struct {
        double losses[GOLDEN_MOST_STEPS];
        uint64_t bits;
    } found[8], mine;
    memcpy(mine.losses, own->losses, sizeof mine.losses);
    mine.bits = own->bits;
    if (all->ranks > 8 || kn_all_gather(all, &mine, found, sizeof mine)) return 1;
    int different = 0;
    for (int r = 0; r < all->ranks && all->rank == 0; r++) {
        const bool same =
            found[r].bits == alone->bits && !memcmp(found[r].losses, alone->losses, sizeof alone->losses);
        if (!same) printf("rank %d of %d finds different bits than one process\n", r, all->ranks);
        different += !same;
    }
    return different != 0;
}

static int train(const kn_communicator *all, const char *folder, const char *name) {
    golden file;
    golden_open(&file, folder, name);
    golden_work alone = {.file = &file, .setup = {.shards = SHARDS}};
    golden_work own = {.file = &file, .setup = {.shards = SHARDS, .communicator = all}};
    if (all->rank == 0) golden_work_do(&alone);
    int status = alone.status != KN_OK;
    if (status) printf("rank 0 alone: %s\n", alone.error);
    if (status) all->abort(all->user, alone.error);
    golden_work_do(&own);
    if (own.status != KN_OK) printf("rank %d of %d: %s\n", all->rank, all->ranks, own.error);
    status = status || own.status != KN_OK || compare(all, &alone, &own);
    golden_close(&file);
    return status;
}

int main(int argc, char **argv) {
    kn_communicator all = {.size = sizeof all};
    char error[512] = "";
    if (argc != 3) return 1;
    if (!device_is_there()) return 77;
    if (kn_mpi_create(&all, error, sizeof error)) return puts(error), 1;
    const int status = train(&all, argv[1], argv[2]);
    if (all.rank == 0 && !status) printf("%d ranks find the same bits\n", all.ranks);
    kn_mpi_destroy(&all);
    return status;
}
