"""Processes of MPI, started by its mpirun."""
import shlex

from report import Skipped

# More processes than processors, also as root; in Open MPI's words of 4 and of 5. All of them are on this machine: with other
# interfaces Open MPI 5 prints that none leads from a sandbox to itself.
MPI_VARIABLES = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
                 "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                 "OMPI_MCA_btl_tcp_if_include": "lo"}


def need(launcher):
    if not launcher:
        raise Skipped("there is no mpirun of this MPI: openmpi-bin on Debian and Ubuntu, or mpich")


def by_rank(first, second, rank=0):
    """The command of a rank, and that of the others. (With `first : second` mpirun of Open MPI 5.0.7 ends by SIGSEGV.)"""
    return ["sh", "-c", f"case ${{OMPI_COMM_WORLD_RANK-$PMI_RANK}} in {rank}) exec {shlex.join(first)} ;;"
                        f" *) exec {shlex.join(second)} ;; esac"]
