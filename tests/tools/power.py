"""koine bench --power and --price: counters, sensors and commands that are made up.

usage: power.py KOINE HOUSE_TESTS
"""
import os
import threading

from koine import case, chosen_device, expect, koine, run_cases, write, TINY

KEYS = ["watts", "power_source", "samples_per_joule", "samples_per_money"]
DEVICE = chosen_device()
# A device with dedicated memory needs a dedicated sensor.
APART = DEVICE["type"] != "CPU" and not DEVICE["shares_memory"]


def put(folder, path, text):
    """A file below the folder, whole or not at all."""
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
    os.replace(path + ".new", path)


def bench(folder, *more, **needs):
    write(folder, "tiny.koine", TINY)
    result = koine("bench", "tiny.koine", "--mode", "infer", "--batch", "8", "--seconds", "0.3", "--json", *more,
                   folder=folder).needs(0, **needs)
    found = result.objects()[0]
    expect(list(found)[-len(KEYS):] == KEYS, f"found {found}")
    return found


def money_is_right(found, price):
    expect(abs(found["samples_per_money"] * price / (3600 * found["per_s"]) - 1) < 1e-4, f"found {found}")


@case
def a_price_alone(folder):
    found = bench(folder, "--price", "0.5", err="")
    expect([found[key] for key in KEYS[:3]] == [None, None, None], f"found {found}")
    money_is_right(found, 0.5)
    koine("bench-gemm", "--size", "16", "--seconds", "0", "--price", "2").needs(
        0, out="samples per unit of money, at 2 per hour", err="")


@case
def nothing_that_tells_it(folder):
    found = bench(folder, "--power", "--power-root", folder, err="koine: the power cannot be measured: no")
    expect([found[key] for key in KEYS] == [None] * 4, f"found {found}")


@case
def a_command(folder):
    found = bench(folder, "--power-command", "echo 40.0 W", "--price", "3", err="")
    expect(found["watts"] == 40 and found["power_source"] == "--power-command", f"found {found}")
    expect(found["samples_per_joule"] > 0, f"found {found}")
    money_is_right(found, 3)
    for command, complaint in (("echo many", "printed 'many'; expected watts"), ("echo 4 2", "printed '4 2'"),
                               ("echo 7; exit 3", "failed"), ("true", "printed ''")):
        found = bench(folder, "--power-command", command, err=("the power cannot be measured: --power-command", complaint))
        expect(found["watts"] is None and found["samples_per_joule"] is None, f"found {found}")
    koine("bench-gemm", "--size", "16", "--seconds", "0", "--power-command", "echo 12.5").needs(
        0, out="12.5 W by --power-command: ", err="")


def zone(folder, zone_name, name, microjoules, span=None):
    put(folder, f"class/powercap/{zone_name}/name", name)
    put(folder, f"class/powercap/{zone_name}/energy_uj", microjoules)
    if span:
        put(folder, f"class/powercap/{zone_name}/max_energy_range_uj", span)


class Ticking:
    """A counter that advances by a fifth of a joule, at most fifty times per second, and wraps after ten joules."""

    def __init__(self, folder, path):
        self.folder, self.path, self.ended = folder, path, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        ticks = 0
        while not self.ended.wait(0.02):
            ticks += 1
            put(self.folder, self.path, ticks * 200000 % 10000000)

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


@case
def counters_of_packages(folder):
    zone(folder, "intel-rapl:0", "package-0", 0, 10000000)
    zone(folder, "intel-rapl:0:0", "core", 0)
    zone(folder, "intel-rapl:0:1", "dram", 5)
    zone(folder, "intel-rapl:1", "psys", 5)
    zone(folder, "intel-rapl-mmio:0", "package-0", 5)
    if APART:
        put(folder, "class/hwmon/hwmon0/device/class", "0x030000")
        put(folder, "class/hwmon/hwmon0/energy1_input", 0)
    with Ticking(folder, "class/powercap/intel-rapl:0/energy_uj"):
        found = bench(folder, "--power", "--power-root", folder, "--seconds", "2", err="")
    # It never ticks faster, and slower on a busy machine. Without the ten joules of each turn next to nothing is left.
    expect(0.5 < found["watts"] < 11, f"found {found}")
    expect(found["power_source"].startswith("powercap package-0, powercap package-0/dram"), f"found {found}")
    expect("core" not in found["power_source"] and "psys" not in found["power_source"], f"found {found}")


@case
def sensors_where_there_are_no_counters(folder):
    put(folder, "class/hwmon/hwmon0/name", "cooler")
    put(folder, "class/hwmon/hwmon0/temp1_input", 40000)
    put(folder, "class/hwmon/hwmon1/name", "battery")
    put(folder, "class/hwmon/hwmon1/device/type", "Battery")
    put(folder, "class/hwmon/hwmon1/power1_input", 9000000)
    put(folder, "class/hwmon/hwmon2/name", "meter")
    put(folder, "class/hwmon/hwmon2/power1_average", 55500000)
    put(folder, "class/hwmon/hwmon3/name", "card")
    put(folder, "class/hwmon/hwmon3/device/class", "0x030200")
    put(folder, "class/hwmon/hwmon3/power1_input", 120000000)
    found = bench(folder, "--power", "--power-root", folder, err="")
    expect((found["watts"], found["power_source"]) == ((120, "hwmon card") if APART else (55.5, "hwmon meter")),
           f"found {found}")


@case
def a_counter_that_root_alone_may_read(folder):
    zone(folder, "intel-rapl:0", "package-0", 7)
    path = os.path.join(folder, "class/powercap/intel-rapl:0/energy_uj")
    os.chmod(path, 0)
    if os.access(path, os.R_OK):  # root can always read it
        bench(folder, "--power", "--power-root", folder)
        return
    found = bench(folder, "--power", "--power-root", folder, err="may not be read")
    expect(found["watts"] is None, f"found {found}")


run_cases()
