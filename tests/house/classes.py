"""Each test is in one class, fast, slow or nightly, by which tools/check and .ci/run choose.

usage: classes.py BUILD_FOLDER
"""
import json
import os
import sys

from report import run

CLASSES = {"fast", "slow", "nightly"}


def one_class_each():
    with open(os.path.join(sys.argv[1], "meson-info/intro-tests.json"), encoding="utf-8") as file:
        tests = json.load(file)
    complaints = [] if tests else ["there are no tests"]
    for test in tests:
        names = {suite.split(":")[-1] for suite in test["suite"]}
        if len(names & CLASSES) != 1:
            complaints.append(f"{test['name']}: {sorted(names)} has not one of {sorted(CLASSES)}")
    return complaints


run([("one class each", one_class_each)])
