"""tools/gpu-lab without its compilers: listings are read, loops weighed, launches timed; of figures made up here.

usage: gpu_lab.py GPU_LAB_FOLDER HOUSE_TESTS
"""
import glob
import os
import subprocess
import sys

FOLDER = os.path.abspath(sys.argv[1])
sys.path[:0] = [FOLDER, sys.argv[2]]
from lab import amd, code, compilers, intel, model, nvidia, predict, targets  # noqa: E402
import report  # noqa: E402

# The same loop in three listings: a work-item loads a number, puts it into local memory, waits, fetches eight, and does
# four multiply-adds.
NVIDIA = """
\t.section .text.other,"ax",@progbits
.text.other:
        /*0000*/                   FFMA R0, R0, R0, R0 ;
\t.section .text.k,"ax",@progbits
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0020*/                   LDG.E R19, desc[UR6][R12.64] ;
        /*0030*/                   IADD3 R12, P1, R12, 0x40, RZ ;
        /*0040*/                   STS [R2+UR4], R19 ;
        /*0050*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0060*/                   LDS.128 R4, [UR4] ;
        /*0070*/                   LDS.128 R8, [UR4+0x10] ;
        /*0080*/                   FFMA R3, R4.reuse, R8.reuse, R3 ;
        /*0090*/                   FFMA2 R16, R4.reuse, R8.reuse, R15 ;
        /*00a0*/                   FFMA R8, R4, R8, R17 ;
        /*00b0*/               @P0 BRA `(.L_x_1) ;
.L_x_0:
        /*00c0*/                   STG.E.64 desc[UR6][R2.64], R5 ;
        /*00d0*/                   EXIT ;
        /*00e0*/                   NOP;
\t.section .text.last,"ax",@progbits
"""
AMD = """
\t.text
k:                                      ; @k
\ts_load_b32 s4, s[0:1], 0x10
\ts_cbranch_scc1 .LBB0_5
.LBB0_4:                                ; =>This Inner Loop Header: Depth=1
\tglobal_load_b32 v9, v[2:3], off
\tv_add_co_u32 v2, vcc_lo, v2, 64
\tds_store_b32 v4, v9
\ts_barrier
\tds_load_b128 v[9:12], v1
\tds_load_2addr_b64 v[13:16], v1 offset1:1
\tv_fmac_f32_e32 v8, v9, v13
\tv_dual_fmac_f32 v7, v13, v9 :: v_dual_fmac_f32 v8, v11, v15
\tv_dual_fmac_f32 v7, v13, v9 :: v_dual_mov_b32 v8, v11
\ts_cbranch_scc1 .LBB0_4
.LBB0_5:
\tglobal_store_b64 v[0:1], v[2:3], off
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel k
"""
INTEL = """//.kernel k
        mov (32|M0)              r4.0<1>:d     r1.0<1;1,0>:uw                   {$0.dst}
(W&f1.0) jmpi                                _0_009                                                  // $4
_0_010:
        load.ugm.d32.a64 (32|M0)  r14:2         [r10:4]            {I@1,$2} // ex_desc:0x0; desc:0x8200580
        add (32|M0)              r8.0<1>:d     r2.7<0;1,0>:d     r4.0<1;1,0>:d    {I@1}
        store.slm.d32.a32 (32|M0)  [r6:2]       r14:2              {$1} // ex_desc:0x0; desc:0x4000504
(W)     send.gtwy (1|M0)         null     r17  null:0  0x0            0x02000004           {$3} // signal barrier
(W)     sync.bar                 null                                                          // $24
(W)     load.slm.d32x8t.a32 (1|M0)  r18:1       [r17:1]            {A@1,$4} // ex_desc:0x0; desc:0x210C500
        mad (32|M0)              r17.1<1>:f    r17.8<0;0>:f      r18.4<0;0>:f      r18.0<0>:f       {$4.dst}
        mad (32|M0)              r17.2<1>:f    r17.8<0;0>:f      r18.4<0;0>:f      r18.0<0>:f       {$4.dst}
        mad (32|M0)              r17.3<1>:f    r17.8<0;0>:f      r18.4<0;0>:f      r18.0<0>:f       {$4.dst}
        mad (32|M0)              r17.4<1>:f    r17.8<0;0>:f      r18.4<0;0>:f      r18.0<0>:f       {$4.dst}
(W)     mad (1|M0)               r127.0<1>:ud  r127.2<0;0>:ud    r127.0<0;0>:uw    0x40:uw
(W&f0.0) jmpi                                _0_010                                                  // $45
_0_009:
        store.ugm.d64.a64 (32|M0)  [r22:4]      r26:2              {A@1,$6} // ex_desc:0x0; desc:0x8000584
"""


def check(bad, what, found, expected):
    if found != expected:
        bad.append(f"{what}: found {found}, expected {expected}")


def kernel_of(instructions, **more):
    fields = {"registers": 64, "spilled": 0, "private_bytes": 0, "local_bytes": 8192, "code_bytes": 0, "wave": 32}
    return code.Kernel("k", instructions, **{**fields, **more})


def listings_are_read():
    bad = []
    listings = {"nvidia": nvidia.parse(NVIDIA, "k")[0], "amd": amd.parse(AMD, "k"), "intel": intel.parse(INTEL)}
    check(bad, "bytes of NVIDIA's code", nvidia.parse(NVIDIA, "k")[1], 0xe0)
    for maker, instructions in listings.items():
        loops = code.Loops(instructions)
        check(bad, f"{maker}: loops", len(loops.loops), 1)
        tally = loops.own(loops.loops[0])
        amount = {kind: tally.amount[kind] for kind in ("fma", "load", "put", "fetch")}
        check(bad, f"{maker}: amounts", amount, {"fma": 4, "load": 4, "put": 4, "fetch": 32})
        check(bad, f"{maker}: barriers", tally.count["barrier"], 1)
        check(bad, f"{maker}: waits", loops.waits(loops.loops[0]), [0])
        stores = [(one.kind, one.amount) for one in instructions if one.kind == "store"]
        check(bad, f"{maker}: stores", stores, [("store", 8)])
    # A wave multiplies 16 x 16 x 16 or 16 x 8 x 16, or 8 x 16 x 16 in 16 lanes: what is each lane's part.
    check(bad, "mma", nvidia.kind_of("HMMA.16816.F32.BF16"), ("matrix", 64))
    check(bad, "wmma", amd.kind_of("v_wmma_f32_16x16x16_bf16", ""), ("matrix", 128))
    check(bad, "mfma", amd.kind_of("v_mfma_f32_16x16x16_f16", ""), ("matrix", 64))
    check(bad, "dpas", intel.kind_of("dpas.8x8", "", 16), ("matrix", 128))
    check(bad, "a block for 16 work-items", intel.kind_of("load.slm.d32x64t.a32", "", 16), ("fetch", 16))
    check(bad, "of a kernel that is not there", nvidia.parse(NVIDIA, "absent"), ([], 0))
    return bad


def made(*kinds, jumps=()):
    """Instructions of these kinds, with jumps (from, to)."""
    amounts = {"fma": 1, "load": 4, "put": 4, "fetch": 4, "store": 4}
    instructions = [code.Instruction(kind, kind, amounts.get(kind, 0)) for kind in kinds]
    for position, target in jumps:
        instructions[position].target = target
    return instructions


def loops_inside_count_as_often_as_the_tile_says():
    bad = []
    # An outer loop with a loop that fills local memory (2 instructions and a jump), and one of 8 multiply-adds.
    body = ["other", "load", "put", "other", "barrier", *["fma"] * 8, "other", "barrier", "other", "store"]
    kernel = kernel_of(made(*body, jumps=((3, 1), (13, 5), (15, 0))))
    piece = code.slice_of(kernel, 64, 6)  # 8 rounds of the one, 6 of the other
    check(bad, "multiply-adds", piece.tally.amount["fma"], 64)
    check(bad, "bytes put", piece.tally.amount["put"], 24)
    check(bad, "bytes loaded", piece.tally.amount["load"], 24)
    check(bad, "waits", piece.waits, [(6, 0)])
    check(bad, "instructions", piece.tally.total, 4 + 6 * 3 + 8 * 9)
    check(bad, "outside", piece.outside, 1)
    check(bad, "slices of a round", piece.slices, 1)
    unrolled = kernel_of(made("barrier", *["fma"] * 64, "other", jumps=((65, 0),)))
    check(bad, "slices of an unrolled round", code.slice_of(unrolled, 32, 1).slices, 2)
    both = kernel_of([code.Instruction("matrix", "matrix", 64), *made("barrier", *["fma"] * 30, "other")])
    both.instructions[-1].target = 0
    check(bad, "slices with other multiply-adds", code.slice_of(both, 32, 1).slices, 2)
    single = kernel_of(made("load", "put", *["fma"] * 8, "other", "other", jumps=((10, 2), (11, 0))))
    check(bad, "a round of a single wave, without barriers", code.slice_of(single, 64, 1).tally.amount["put"], 4)
    few = kernel_of(made(*["fma"] * 8, "other", jumps=((8, 0),)))
    check(bad, "few multiply-adds without a barrier", code.slice_of(few, 8, 1), None)
    check(bad, "no loop", code.slice_of(kernel_of(made("fma", "store")), 8, 1), None)
    stream = code.stream_of(kernel_of(made("other", "load", "fma", "other", "store", jumps=((3, 1),))))
    check(bad, "a stream", (stream.straight, stream.round.count["load"], stream.round.total), (2, 1, 3))
    check(bad, "a mix", code.mix_of(kernel), {"fma": 89, "other": 11})
    return bad


def loads_ahead_are_hidden():
    bad = []
    for order, expected in ((["load", "put", "barrier", *["fma"] * 8], 0),
                            (["load", *["fma"] * 8, "put", "barrier"], 1),
                            (["put", "barrier", "load", *["fma"] * 8], 1),
                            (["load", "fma", "fma", "put", "barrier", *["fma"] * 6], 0.25),
                            (["load", "fma", "load", "fma", "put", "barrier", *["fma"] * 6], 0.125)):
        piece = code.slice_of(kernel_of(made(*order, "other", jumps=((len(order), 0),))), 8, 1)
        check(bad, order, piece.waits, [(1, expected)])
    # The same around a loop of multiply-adds.
    for order, expected in ((["load", "put", "barrier", *["fma"] * 8, "other"], 0),
                            (["load", "other", "barrier", *["fma"] * 8, "other", "put"], 1)):
        jumps = ((11, 3), (len(order), 0))
        check(bad, order, code.slice_of(kernel_of(made(*order, "other", jumps=jumps)), 64, 1).waits, [(1, expected)])
    # Without local memory the multiply-adds need what was loaded.
    piece = code.slice_of(kernel_of(made("load", *["fma"] * 24, "other", jumps=((25, 0),))), 24, 0)
    check(bad, "no local memory", piece.waits, [(1, 0)])
    return bad


def target_of(word):
    return targets.target(word)


def targets_are_as_published():
    bad = []
    for word, lanes, units in (("sm_90", 128, 132), ("gfx1100", 128, 96), ("gfx942", 128, 304), ("gfx906", 64, 60),
                               ("dg2", 128, 32), ("bmg", 128, 20), ("sm_75", 64, 68)):
        target = target_of(word)
        check(bad, f"{word}: units", target.units, units)
        if not abs(target.lanes - lanes) < 0.01 * lanes:
            bad.append(f"{word}: {target.lanes} lanes, expected {lanes}")
    for path in glob.glob(os.path.join(FOLDER, "targets", "*.target")):
        facts = targets.read_facts(path)
        if "peak_gflops" not in facts or "bandwidth_gbytes" not in facts:
            bad.append(f"{path} states no peak or no bandwidth")
    try:
        targets.target("sm_9")
        bad.append("sm_9 is taken for a target")
    except ValueError as error:
        if "sm_9'" not in str(error) or "sm_90" not in str(error):
            bad.append(f"says {error}")
    return bad


def occupancy_is_limited():
    bad = []
    for word, items, fields, groups in (("sm_90", 128, {"registers": 64, "local_bytes": 8192}, 8),   # by registers
                                        ("sm_90", 128, {"registers": 32, "local_bytes": 65536}, 3),  # by local memory
                                        ("sm_90", 32, {"registers": 16, "local_bytes": 0}, 32),      # by work-groups
                                        ("gfx1100", 128, {"registers": 96, "local_bytes": 16384}, 4),
                                        ("gfx1100", 128, {"registers": 192, "local_bytes": 0}, 4),
                                        ("gfx942", 256, {"registers": 128, "local_bytes": 0}, 4),
                                        ("bmg", 128, {"registers": 128, "wave": 16}, 8),
                                        ("bmg", 128, {"registers": 256, "wave": 16}, 4)):
        found, waves = model.occupancy(target_of(word), kernel_of([], **fields), items)
        check(bad, f"{word} {items} {fields}", found, groups)
        check(bad, f"{word}: waves", waves, groups * model.waves_of(target_of(word), kernel_of([], **fields), items))
    return bad


def launch(groups, items=128, tiles=None, **more):
    return {"global": [groups * items, 1, 1], "local": [items, 1, 1], "flops": 0, "arguments": [], **more,
            **({"tiles": tiles} if tiles else {})}


def products_are_timed():
    """A kernel with only multiply-adds nearly reaches the peak if it fills the device."""
    bad, target = [], target_of("sm_90")
    kernel = kernel_of(made("barrier", *["fma"] * 512, "other", jumps=((513, 0),)), registers=32)
    piece = code.slice_of(kernel, 512, 0)
    for groups, least, most in ((132 * 16 * 4, 0.8, 1.0), (33, 0.1, 0.25), (1, 0, 0.01)):
        tiles = {"rows": 64, "columns": 64 * groups, "depth": 1600, "batches": 1, "tile": [64, 64, 16], "products": 1,
                 "parts": 1, "part_depth": 1600}
        time = model.product_time(target, kernel, piece, launch(groups, tiles=tiles))
        share = time.flops / time.seconds / target.flops
        if not least <= share <= most:
            bad.append(f"{groups} work-groups reach {share:.3f}, expected {least} to {most}")
        check(bad, "bound", time.bound, "issue" if groups > 132 * 16 else "few work-groups")
        if not time.ideal <= time.seconds:
            bad.append(f"faster than ideal: {time}")
    return bad


def others_are_timed():
    """A kernel that reads much is bound by memory, one of a single work-group by latency."""
    bad, target = [], target_of("gfx942")
    kernel = kernel_of(made("load", "load", "load", "load", "fma", "store"), registers=16, local_bytes=0)
    for groups, size, bound in ((1 << 18, 4 << 26, "memory"), (1, 4 << 20, "few bytes in flight")):
        arguments = [{"name": "x", "bytes": size, "reads": True, "writes": False}]
        time = model.other_time(target, kernel, code.stream_of(kernel), launch(groups, arguments=arguments))
        check(bad, f"{groups} work-groups", time.bound, bound)
        check(bad, "ideal", time.ideal, size / (0.9 * target.bandwidth))
        check(bad, "flops", time.flops, 0)
    # A load of four numbers counts as four loads of one: the rounds of the loop are as many.
    arguments, times = [{"name": "x", "bytes": 4 << 20, "reads": True, "writes": False}], []
    for loads in (["load"] * 8, ["load4"] * 2 + ["other"] * 6):
        listing = made(*[word.rstrip("4") for word in loads], "other", jumps=((8, 0),))
        for word, instruction in zip(loads, listing):
            instruction.amount = 16 if word == "load4" else instruction.amount
        one = kernel_of(listing, registers=16, local_bytes=0)
        times.append(model.other_time(target, one, code.stream_of(one), launch(16, arguments=arguments)).seconds)
    check(bad, "time with vectors", times[1], times[0])
    return bad


def steps_are_added_up():
    bad, target = [], target_of("sm_90")
    fast, slow, other = (predict.Program(kernel_of([]), 64, [{}] * count, times) for count, times in (
        (1, [model.Time(1e-3, 1e-3, 1e-3 * target.flops, "lanes")]),
        (2, [model.Time(2e-3, 1e-3, 0.5e-3 * target.flops, "issue"), model.Time(1e-3, 0, 0, "issue")]),
        (3, [model.Time(1e-3, 0.5e-3, 0, "memory")])))
    slow.kernel = kernel_of([], spilled=24)
    slow.kernel.name = "slow"
    line = predict.Step("net", 4, target, [fast, slow, other], []).line({"a": "1"})
    check(bad, "the line", [line[key] for key in ("model", "target", "products_share", "step_share", "launches", "spills",
                                                  "worst_kernel", "worst_share")],
          ["net", "sm_90", 0.375, 0.5, 6, 24, "slow", 0.1667])
    return bad


def the_command_explains_itself():
    bad = []

    def ran(*arguments):
        return subprocess.run([sys.executable, "-B", os.path.join(FOLDER, "run"), *arguments], capture_output=True, text=True,
                              env={**os.environ, "KOINE_GPU_LAB": "/nowhere"}, check=False)
    found = ran("--help")
    for word in ("--models", "--targets", "--json", "gfx1100", "--any-version"):
        if word not in found.stdout:
            bad.append(f"--help lacks {word}")
    found = ran("--no-fetch", "--koine", "/bin/true")
    if found.returncode != 77 or "skipped: the compilers are not in /nowhere" not in found.stdout:
        bad.append(f"without compilers: {found}")
    found = ran("--targets", "gfx9", "--koine", "/bin/true")
    if found.returncode != 1 or "'gfx9' is not a target" not in found.stderr:
        bad.append(f"a wrong target: {found}")
    return bad


def pins_are_whole():
    bad = []
    for name, (version, digest) in {**compilers.OWN, **compilers.UNSTABLE}.items():
        if not version or len(digest) != 64:
            bad.append(f"{name} is not pinned")
    return bad


report.run([(function.__name__.replace("_", " "), function) for function in (
    listings_are_read, loops_inside_count_as_often_as_the_tile_says, loads_ahead_are_hidden, targets_are_as_published, occupancy_is_limited,
    products_are_timed, others_are_timed, steps_are_added_up, the_command_explains_itself, pins_are_whole)])
