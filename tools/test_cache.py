#!/usr/bin/env python3
"""Removes from the cache of the tests what was not used for a month, and beyond a size what was not used for longest.

usage: test_cache.py FOLDER [--now]

FOLDER has what OpenCL drivers compiled for tests (tools/common.sh makes it), with names that are hashes of the content. It
is looked through once a day, or with --now. KOINE_TEST_CACHE_GIB is the size, 4 unless it is set.
"""
import os
import shutil
import sys
import time

MAX_DAYS, MAX_TEMPORARY_DAYS, DAY = 30, 1, 86400


def size_and_use(path):
    """The bytes of a file or of those in a folder, and the last time that any of them was used."""
    names = [path]
    for folder, _, files in os.walk(path):
        names += [os.path.join(folder, name) for name in files]
    size = used = 0
    for name in names:
        try:
            found = os.lstat(name)
        except OSError:
            continue  # another process has removed it
        if os.path.isdir(name):
            continue  # listing it has just changed its time of access; PoCL touches the file `last_accessed`
        size += found.st_size
        used = max(used, found.st_mtime, found.st_atime)
    return size, used


def listed(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))] if os.path.isdir(folder) else []


def entries(root):
    """The path of each compiled program: a file of Koine's, or a folder of PoCL's."""
    for kind in ("", "unoptimized"):
        yield from listed(os.path.join(root, kind, "koine/programs"))
        for place in listed(os.path.join(root, kind, "pocl/kcache")):
            if os.path.isdir(place) and not os.path.basename(place).startswith("temp"):
                yield from listed(place)
            else:
                yield place


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        try:
            os.remove(path)
        except OSError:
            pass


def prune(root, most_bytes):
    now, kept, total = time.time(), [], 0
    for path in entries(root):
        size, used = size_and_use(path)
        days = MAX_TEMPORARY_DAYS if os.path.basename(path).startswith("temp") else MAX_DAYS
        if used and now - used > days * DAY:
            remove(path)
        else:
            kept.append((used, size, path))
            total += size
    for _, size, path in sorted(kept):
        if total <= most_bytes:
            break
        remove(path)
        total -= size


def main(root, *options):
    stamp = os.path.join(root, "pruned")
    if os.path.exists(stamp) and time.time() - os.stat(stamp).st_mtime < DAY and "--now" not in options:
        return
    with open(stamp, "w", encoding="utf-8"):
        pass
    prune(root, float(os.environ.get("KOINE_TEST_CACHE_GIB") or 4) * 2**30)


if __name__ == "__main__":
    main(*sys.argv[1:])
