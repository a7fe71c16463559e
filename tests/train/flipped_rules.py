"""The trajectories detect an inverted sign in an optimizer's rule.

usage: flipped_rules.py TEST_GOLDEN_FLIPPED FOLDER first|all [PART PARTS]
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "house"))
from report import part_of, run  # noqa: E402

PROGRAM, FOLDER, MANY = sys.argv[1], sys.argv[2], sys.argv[3] == "all"
MOST = 40
# Trajectories of the small network that are about something else than the rule of an optimizer.
OTHERS = ["small_accumulated", "small_clip_value", "small_groups", "small_groups_sgd", "small_rmsprop"]
TRAJECTORIES = ["mlp_nesterov", "mlp_adam", "mlp_adamw"] + sorted(
    path.stem for path in pathlib.Path(FOLDER).glob("small_*.json") if path.stem not in OTHERS)

# Signs that invert the mean gradient of a rule that uses only its square: no result changes. Which ones
# they are depends on the order in which a compiler computes arguments.
SQUARED = {"small_rmsprop_centered": 2}


def outcome(name, sign):
    environment = {key: value for key, value in os.environ.items() if key != "KOINE_TEST_CASES"}
    result = subprocess.run([PROGRAM, FOLDER, name], env={**environment, "KOINE_TEST_FLIP": str(sign)},
                            capture_output=True, text=True)
    text = result.stdout + result.stderr
    return result.returncode, "turned round" in text, "PyTorch in float64 has" in text, text


def trajectory(name):
    complaints, squared = [], SQUARED.get(name, 0)
    for sign in range(MOST):
        code, turned, noticed, text = outcome(name, sign)
        if not turned:
            if sign == 0 or code not in (0, 77):
                complaints += [f"sign {sign}: nothing is turned round, status {code}", *text.splitlines()[-6:]]
            return complaints
        if not noticed and code == 0 and squared > 0:
            squared -= 1
        elif not noticed:
            complaints.append(f"sign {sign} of the rule: no test failed, status {code}")
        if not MANY:
            return complaints
    return complaints


if subprocess.run([PROGRAM, FOLDER, "none"], capture_output=True).returncode == 77:
    sys.exit(77)
OWN = part_of(TRAJECTORIES, *(sys.argv[4:6] or (0, 1)))
run([(name, lambda name=name: trajectory(name)) for name in OWN])
