"""tools/gpu-lab/cycles without its simulator: what is missing is named, configurations and launches are written, answers
read. Where GPGPUSIM_ROOT and CUDA_INSTALL_PATH name a built GPGPU-Sim, a small kernel runs in it.

usage: gpu_lab_cycles.py GPU_LAB_FOLDER HOUSE_TESTS
"""
import os
import subprocess
import sys
import tempfile

FOLDER = os.path.abspath(sys.argv[1])
sys.path[:0] = [FOLDER, sys.argv[2]]
from lab import code, compilers, cycles, targets  # noqa: E402
from report import Skipped, run  # noqa: E402

SETTINGS = """
# comment
-gpgpu_n_clusters 46
-gpgpu_n_mem 16   # channels
-gpgpu_n_sub_partition_per_mchannel 2
-gpgpu_memory_partition_indexing 2
-gpgpu_kernel_launch_latency 5000
-gpgpu_shader_core_pipeline 1536:32
-gpgpu_shader_cta 32
-gpgpu_shader_registers 65536
-gpgpu_shmem_size 102400
-gpgpu_cache:dl1 S:4:128:256,L:T:m:L:L,A:384:48,16:0,32
-gpgpu_dram_timing_opt nbk=16:CCD=4
"""
PTX = """
.version 8.8
.target sm_86, texmode_independent
.address_size 64

.visible .entry scaled(
	.param .u64 .ptr .global .align 4 scaled_param_0,
	.param .u64 .ptr .global .align 4 scaled_param_1,
	.param .f32 scaled_param_2,
	.param .u32 scaled_param_3
)
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<11>;
	.reg .b64 	%rd<8>;
	ld.param.b64 	%rd1, [scaled_param_0];
	ld.param.b64 	%rd2, [scaled_param_1];
	ld.param.b32 	%r1, [scaled_param_2];
	ld.param.b32 	%r2, [scaled_param_3];
	mov.u32 	%r3, %ctaid.x;
	mov.u32 	%r4, %ntid.x;
	mov.u32 	%r5, %tid.x;
	mad.lo.s32 	%r6, %r3, %r4, %r5;
	setp.ge.s32 	%p1, %r6, %r2;
	@%p1 bra 	$L__BB0_2;
	mul.wide.s32 	%rd3, %r6, 4;
	add.s64 	%rd4, %rd1, %rd3;
	ld.global.b32 	%r7, [%rd4];
	mov.b32 	%r8, 0f00000000;
	mov.b32 	%r10, 2;
$L__BB0_1:
	add.rn.f32 	%r8, %r8, 0f3F000000;
	add.s32 	%r10, %r10, -1;
	setp.ne.b32 	%p2, %r10, 0;
	@%p2 bra 	$L__BB0_1;
	fma.rn.f32 	%r9, %r7, %r1, %r8;
	add.s64 	%rd5, %rd2, %rd3;
	st.global.b32 	[%rd5], %r9;
$L__BB0_2:
	ret;
}
"""
LAUNCH = {"kernel": "scaled", "label": "scale x", "program": "0", "global": [1024, 1, 1], "local": [64, 1, 1], "flops": 0,
          "arguments": [{"name": "x", "bytes": 4096}, {"name": "y", "bytes": 4096}, {"name": "a", "value": 2.5},
                        {"name": "count", "value": 1024}]}


def kernel_of(registers=16, local_bytes=0):
    return code.Kernel("k", [], registers, spilled=0, private_bytes=0, local_bytes=local_bytes, code_bytes=0)


def product(groups, local, rows, columns, depth, parts=1):
    tiles = {"rows": rows, "columns": columns, "depth": depth, "batches": 1, "tile": [64, 64, 8], "products": 1,
             "parts": parts, "part_depth": depth // parts}
    return {**LAUNCH, "kernel": "kn_matmul", "label": "matmul", "local": local, "tiles": tiles,
            "global": [part * size for part, size in zip(groups, local)]}


def expect(bad, what, found, expected):
    if found != expected:
        bad.append(f"{what}: found {found!r}, expected {expected!r}")


def settings_are_changed():
    bad, settings = [], cycles.settings_of(SETTINGS)
    expect(bad, "a setting", settings["gpgpu_n_mem"], "16")
    expect(bad, "the last one", settings["gpgpu_dram_timing_opt"], "nbk=16:CCD=4")
    one = cycles.settings_of(cycles.configuration(settings, 1, 24))
    for name, value in (("gpgpu_n_clusters", "3"), ("gpgpu_n_mem", "1"), ("gpgpu_memory_partition_indexing", "0"),
                        ("gpgpu_max_cta", "24"), ("gpgpu_kernel_launch_latency", "0"), ("gpgpu_shader_cta", "32"),
                        ("gpgpu_cache:dl1", "S:4:128:256,L:T:s:N:L,A:384:48,16:0,32")):
        expect(bad, name, one[name], value)
    many = cycles.settings_of(cycles.configuration(settings, 8, 24))
    expect(bad, "units of 8 channels", (many["gpgpu_n_clusters"], many["gpgpu_memory_partition_indexing"]), ("24", "2"))
    return bad


def work_groups_fill_units():
    bad, settings, target = [], cycles.settings_of(SETTINGS), targets.target(cycles.TARGET)
    for registers, local_bytes, items, groups in ((16, 0, 64, 24), (16, 0, 32, 32), (126, 0, 64, 8), (16, 30000, 64, 3),
                                                  (129, 0, 250, 1)):
        expect(bad, f"{registers} registers, {local_bytes} bytes, {items} items",
               cycles.resident(settings, kernel_of(registers, local_bytes), items), groups)
    # 784 work-groups are 18 for some of the 46 units, each of which holds 8; 24 of them run here.
    launch = product((392, 2, 1), [64, 1, 1], 128, 25088, 1152)
    wave = cycles.wave_of(target, settings, kernel_of(126), launch, 3)
    expect(bad, "a large launch", wave, cycles.Wave(on_unit=8, groups=24, first=380, waves=2.25))
    few = product((8, 8, 1), [64, 1, 1], 512, 512, 64)
    expect(bad, "few work-groups", cycles.wave_of(target, settings, kernel_of(126), few, 3),
           cycles.Wave(on_unit=2, groups=6, first=29, waves=1))
    expect(bad, "one", cycles.wave_of(target, settings, kernel_of(), product((1, 1, 1), [64, 1, 1], 64, 64, 64), 3),
           cycles.Wave(on_unit=1, groups=1, first=0, waves=1))
    return bad


def cycles_are_weighed():
    """Three work-groups on 3 units of 128 lanes, 64 x 64 x 64 multiply-adds each: 2048 cycles at the peak."""
    bad, target = [], targets.target(cycles.TARGET)
    launch = product((23, 1, 1), [64, 1, 1], 64, 64 * 23, 64)
    wave = cycles.Wave(on_unit=1, groups=3, first=10, waves=1)
    expect(bad, "at the peak, on half of the units", cycles.figures(target, launch, wave, 2048, 3), {"wave": 1, "launch": 2})
    return bad


def launches_are_chosen():
    bad, first, other = [], product((1, 1, 1), [64, 1, 1], 64, 64, 64), product((2, 1, 1), [64, 1, 1], 64, 128, 64)
    found = cycles.choose([first, LAUNCH, {**first, "label": "matmul again"}, other], "^kn_matmul")
    expect(bad, "chosen", found, [first, other])
    expect(bad, "by shape", cycles.choose([first, other], " 64x128x64$"), [other])
    return bad


def launches_are_written():
    bad, text = [], cycles.plain_ptx(PTX)
    for word in (".ptr", ".align", "texmode", "setp.ne.b"):
        if word in text:
            bad.append(f"{word} is left in the PTX")
    expect(bad, "parameters", cycles.parameters(text, "scaled"), ["u64", "u64", "f32", "u32"])
    lines = cycles.input_of("k.ptx", text, kernel_of(20, 512), LAUNCH, cycles.Wave(6, 16, 3, 1), fill=3).splitlines()
    expect(bad, "a launch", lines, ["ptx k.ptx", "kernel scaled 20 512", "launch 16 1 1 64 1 1", "first 3", "buffer 4096 3",
                                    "buffer 4096 3", "number 00002040", "number 00040000"])
    for number, kind, bytes_ in ((-1, "u32", "ffffffff"), (258, "u16", "0201"), (1, "f64", "000000000000f03f"),
                                 ("nan", "f32", "0000c07f"), (-2, "u64", "feffffffffffffff")):
        expect(bad, f"{number} as {kind}", cycles.bytes_of(number, kind), bytes_)
    for arguments, part in (([{"name": "x", "local": 4}], "local memory"), ([], "0 arguments")):
        try:
            list(cycles.argument_lines(arguments, ["u64"], 0))
            bad.append(f"{arguments} are taken")
        except compilers.Failure as failure:
            if part not in str(failure):
                bad.append(f"expected '{part}', found {failure}")
    return bad


def answers_are_read():
    bad = []
    expect(bad, "an answer", cycles.result_of('GPGPU-Sim: x\n\nsimulated {"cycles": 7, "instructions": 9, "ends": []}\n'),
           {"cycles": 7, "instructions": 9, "ends": []})
    for output, part in (('x\nsimulated {"error": "no kernel k"}\n', "no kernel k"), ("", "printed nothing"),
                         ("a\nk.ptx:12 Syntax error:\n\n", "k.ptx:12 Syntax error"), ("first\nlast\n", "last")):
        try:
            bad.append(f"{output!r} is {cycles.result_of(output)}")
        except compilers.Failure as failure:
            if part not in str(failure):
                bad.append(f"expected '{part}', found {failure}")
    return bad


def what_is_missing_is_named():
    bad = []
    environment = {name: value for name, value in os.environ.items() if name not in ("GPGPUSIM_ROOT", "CUDA_INSTALL_PATH")}
    with tempfile.TemporaryDirectory() as work:
        def command(*arguments):
            return subprocess.run([sys.executable, "-B", os.path.join(FOLDER, "cycles"), *arguments], capture_output=True,
                                  text=True, check=False, env=environment)

        def make(path):
            whole = os.path.join(work, path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "w", encoding="utf-8"):
                pass
        steps = [((), "--gpgpu-sim or GPGPUSIM_ROOT", []), (("--gpgpu-sim", work), "no libcuda/gpgpu_context.h", []),
                 (("--gpgpu-sim", work), cycles.CONFIGURATION, ["libcuda/gpgpu_context.h"]),
                 (("--gpgpu-sim", work), "is not built", [cycles.CONFIGURATION]),
                 (("--gpgpu-sim", work), "--cuda or CUDA_INSTALL_PATH", ["lib/gcc-1/cuda-11080/release/libcudart.so"]),
                 (("--gpgpu-sim", work, "--cuda", work), os.path.join(work, "include"), [])]
        for arguments, part, files in steps:
            for path in files:
                make(path)
            done = command(*arguments)
            if done.returncode != 77 or part not in done.stdout or "README.md" not in done.stdout:
                bad.append(f"{arguments}: expected '{part}', found {done}")
    done = command("--help")
    if done.returncode or "--gpgpu-sim" not in done.stdout:
        bad.append(f"--help: {done}")
    return bad


def a_kernel_runs():
    try:
        simulator = cycles.find(os.environ.get("GPGPUSIM_ROOT"), os.environ.get("CUDA_INSTALL_PATH"))
    except compilers.Missing as missing:
        raise Skipped(missing) from None
    bad = []
    with tempfile.TemporaryDirectory() as work:
        program = cycles.build(simulator, work)

        def simulated(**more):
            return cycles.simulate(program, simulator, 1, cycles.plain_ptx(PTX), kernel_of(), {**LAUNCH, **more},
                                   cycles.Wave(6, 16, 0, 1), fill=3)
        found = simulated()
        expect(bad, "the last numbers", found["ends"], [3.0, 8.5])
        if not 100 < found["cycles"] < 100000 or found["instructions"] < 16 * 1024:
            bad.append(f"{found}")
        try:
            bad.append(f"an absent kernel: {simulated(arguments=LAUNCH['arguments'][:3])}")
        except compilers.Failure as failure:
            if "4 parameters" not in str(failure):
                bad.append(f"a wrong launch: {failure}")
    return bad


cases = [settings_are_changed, work_groups_fill_units, cycles_are_weighed, launches_are_chosen, launches_are_written,
         answers_are_read, what_is_missing_is_named, a_kernel_runs]
run([(case.__name__.replace("_", " "), case) for case in cases])
