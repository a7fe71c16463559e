"""Communicators among threads: what each rank gets, and how a group ends.

usage: communicators.py HOUSE_FOLDER
"""
from concurrent.futures import ThreadPoolExecutor

from package import case, expect, expect_equal, raises, run, script

import numpy as np  # noqa: E402

import koine  # noqa: E402


def of_all(ranks, work):
    """What each rank's work returns, or raises."""
    def guarded(end):
        try:
            return work(end)
        except koine.KoineError as error:
            return error
    with koine.Group(ranks) as group, ThreadPoolExecutor(ranks) as threads:
        return list(threads.map(guarded, [group[rank] for rank in range(ranks)]))


@case
def ranks_exchange_arrays():
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)

    def work(end):
        mine = x * (end.rank + 1)
        end.barrier()
        results = (end.all_reduce(mine), end.reduce_scatter(mine), end.all_gather(np.int64([end.rank, 7])),
                   end.broadcast(np.float64(end.rank), source=2))
        expect((mine == x * (end.rank + 1)).all(), "an argument was changed")
        return results
    for rank, (sums, part, gathered, number) in enumerate(of_all(3, work)):
        expect((sums == 6 * x).all() and (part == 6 * x[rank]).all())
        expect_equal(gathered.tolist(), [[0, 7], [1, 7], [2, 7]])
        expect_equal(float(number), 2.0)


@case
def a_group_ends_with_a_reason():
    def work(end):
        if end.rank:
            return end.barrier()
        return end.abort("no more data")
    for error in of_all(3, work)[1:]:
        expect(isinstance(error, koine.CancelledError), repr(error))
        expect("no more data" in str(error), str(error))


@case
def workers_train_one_model():
    """To the bits of one worker, with the same shards."""
    points = np.random.default_rng(1).random((22, 3), np.float32)
    targets = points.sum(1, keepdims=True)

    def work(end):
        graph = koine.Graph()
        x, y = graph.input("x", "batch,3"), graph.input("y", "batch,1")
        with koine.Context() as context:
            trainer = koine.Trainer(x.linear(4).tanh().linear(1).mse(y), context, seed=3, communicator=end, shards=4)
            own = trainer.part(22)
            losses = [trainer.step(count=22, x=points[own], y=targets[own]) for _ in range(4)]
            trainer.close()
        return own.stop - own.start, losses
    (rows, alone), = of_all(1, work)
    two = of_all(2, work)
    expect_equal((rows, [part for part, _ in two]), (22, [12, 10]))
    expect(all(losses == alone for _, losses in two), f"{alone} and {two}")


@case
def workers_keep_parts_of_the_moments():
    """The first worker collects the states that a single worker has, also if gradients are sent in 16 bits."""
    points = np.random.default_rng(2).random((16, 3), np.float32)

    def work(end):
        graph = koine.Graph()
        x = graph.input("x", "batch,3")
        with koine.Context() as context:
            trainer = koine.Trainer(x.linear(4).tanh().linear(1).mean(), context, seed=3, communicator=end, shards=4,
                                    shard_optimizer=True, gradient_dtype="bfloat16")
            own = trainer.part(16)
            for _ in range(3):
                trainer.step(count=16, x=points[own])
            refused = None
            try:
                moment = next(name for name in trainer.states if name.endswith(".moment1"))
                trainer.states[moment]
            except koine.UnsupportedError as error:
                refused = str(error)
            trainer.collect()
            found = {} if end.rank else {name: trainer.states[name].copy() for name in trainer.states}
            trainer.close()
        return found, refused
    ((alone, refused),) = of_all(1, work)
    expect(refused is None and any(name.endswith(".moment2") for name in alone), f"{refused}, {list(alone)}")
    (first, told), _ = of_all(2, work)
    expect("kn_trainer_collect" in told, told)
    expect_equal(list(first), list(alone))
    expect(all((first[name] == alone[name]).all() for name in alone), "two workers have different moments than one")


@case
def workers_make_steps_alone():
    """They differ within a round, and are equal after it; collect() ends it early."""
    points = np.random.default_rng(2).random((16, 3), np.float32)

    def work(end):
        graph = koine.Graph()
        x = graph.input("x", "batch,3")
        with koine.Context() as context:
            trainer = koine.Trainer(x.linear(4).tanh().linear(1).mean(), context, optimizer="sgd", seed=3, communicator=end,
                                    sync_every=2, outer_rate=1, outer_momentum=0.5)
            weights = []
            for step in range(3):
                trainer.step(count=16, x=points[trainer.part(16)])
                weights.append((trainer.steps_alone, trainer.states["linear1.weight"].tobytes()))
            trainer.collect()
            weights.append((trainer.steps_alone, trainer.states["linear1.weight"].tobytes()))
            trainer.close()
        return weights
    one, other = of_all(2, work)
    expect_equal([apart for apart, _ in one], [1, 0, 1, 0])
    expect_equal([left == right for left, right in zip(one, other)], [False, True, False, True])


@case
def mpi_is_opened():
    """Here without mpirun: one process."""
    from koine import _library
    if not _library.mpi():
        with raises(koine.UnsupportedError, "-Dmpi=enabled"):
            koine.Communicator.mpi()
        return
    print(script("""if True:
        import koine, numpy as np
        with koine.Communicator.mpi() as end:
            assert (end.rank, end.ranks) == (0, 1), (end.rank, end.ranks)
            assert end.all_reduce([2.0, 3.0]).tolist() == [2.0, 3.0]
        try:
            koine.Communicator.mpi()
        except koine.UnsupportedError as error:
            assert "cannot be initialized again" in str(error), error
    """), end="")
    print(script("""if True:
        import koine
        from concurrent.futures import ThreadPoolExecutor
        with koine.Group(3) as group, koine.MPIGroup(group) as workers, ThreadPoolExecutor(3) as threads:
            assert len(workers) == 3 and [end.rank for end in workers] == [0, 1, 2]
            sums = threads.map(lambda end: end.all_reduce([end.rank + 1.0]).tolist(), list(workers))
            assert list(sums) == [[6.0]] * 3
    """), end="")


@case
def mistakes_are_named():
    with raises(koine.ArgumentError, "a group of 0 ranks"):
        koine.Group(0)
    with koine.Group(2) as group:
        expect_equal((len(group), group[1].rank, group[1].ranks), (2, 1, 2))
        with raises(IndexError, "no rank 2 among 2"):
            group[2]
        with raises(koine.ShapeError, "expected 2 parts"):
            group[0].reduce_scatter(np.ones(3))
        with raises(koine.ArgumentError):
            group[0].broadcast(np.ones(3), source=2)
        end = group[0]
    with raises(koine.ClosedError, "Group is closed"):
        group[0]
    expect_equal(end.ranks, 2)  # it keeps the group


run()
