"""What the study's measurements say: medians of ratios within a round, with bootstrap intervals."""

import json
import math
import random
import statistics

NEVER_SLOWER = 0.98  # of regular decoding
NEAR_BEST = 0.97  # of the best fixed length
_MIN_ROUNDS = 4  # for an interval
OVER_BASS = 1.15  # Algorithm 1, geometric mean of the cells whose best length is above 0
_PRUNE = {1: 0.75, 2: 0.9}  # rounds: of the best fixed length; with more rounds as with the most of these


def read_results(lines, is_total=False):
    """{cell: {round: {policy: tokens/s}}}; the last line of a run counts. Of steps that decode alone, or of all steps
    (lines that do not say that are left out)."""
    speed = "total_tokens_per_s" if is_total else "tokens_per_s"
    results = {}
    for line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:  # the program was killed while it wrote
            continue
        if speed in row:
            results.setdefault(row["cell"], {}).setdefault(row["round"], {})[row["policy"]] = row[speed]
    return results


def length_of(policy):
    """Of a fixed length, regular decoding included; None for other policies."""
    if policy == "off":
        return 0
    return int(policy.removeprefix("fixed:")) if policy.startswith("fixed:") else None


def ratios(rounds, policy, reference):
    """policy over reference, of the rounds that have both."""
    return [speeds[policy] / speeds[reference] for speeds in rounds.values() if policy in speeds and reference in speeds]


def bootstrap(values, statistic=statistics.median, n=2000, level=0.95, seed=1):
    """The statistic, and the ends of its interval: None where there are too few values to say."""
    if len(values) < _MIN_ROUNDS:
        return (statistic(values) if values else None), None, None
    generator = random.Random(seed)
    drawn = sorted(statistic(generator.choices(values, k=len(values))) for _ in range(n))
    tail = (1 - level) / 2
    return statistic(values), drawn[int(tail * n)], drawn[min(int((1 - tail) * n), n - 1)]


def best_fixed(rounds):
    """The fixed length (a policy's name) of the highest median ratio to regular decoding, of those that were measured in
    most of these rounds; None without rounds."""
    found = {}
    for policy in {policy for speeds in rounds.values() for policy in speeds if length_of(policy) is not None}:
        of_policy = ratios(rounds, policy, "off")
        if 2 * len(of_policy) >= len(rounds):
            found[policy] = statistics.median(of_policy)
    return max(found, key=lambda policy: (found[policy], -length_of(policy)), default=None)


def against_best_fixed(rounds, policy):
    """Ratios of the policy to the best fixed length: chosen on one half of the rounds, judged on the other, and the
    other way round. A length that is chosen and judged on the same rounds looks better than it is."""
    halves = [{number: speeds for i, (number, speeds) in enumerate(sorted(rounds.items())) if i % 2 == half}
              for half in (0, 1)]
    found = []
    for chosen_on, judged_on in (halves, halves[::-1]):
        best = best_fixed(chosen_on)
        if best is not None:
            found += ratios(judged_on, policy, best)
    return found


def pruned(rounds, policies):
    """The policies that are worth another round: fixed lengths far behind the best one will not become it."""
    best = best_fixed(rounds)
    if best is None:
        return list(policies)
    best_ratio = statistics.median(ratios(rounds, best, "off"))

    def is_behind(policy):
        found = ratios(rounds, policy, "off")
        return bool(found) and statistics.median(found) < _PRUNE[min(len(found), max(_PRUNE))] * best_ratio

    return [policy for policy in policies if policy == "off" or length_of(policy) is None or not is_behind(policy)]


def cell_summary(rounds, policy):
    """A row of the study's table."""
    ratio, low, high = bootstrap(ratios(rounds, policy, "off"))
    near, near_low, near_high = bootstrap(against_best_fixed(rounds, policy))
    over_bass = bootstrap(ratios(rounds, policy, "bass"))
    best = best_fixed(rounds)
    return {"policy": policy, "rounds": len(ratios(rounds, policy, "off")), "regular": (ratio, low, high),
            "best_fixed": best, "to_best_fixed": (near, near_low, near_high), "to_bass": over_bass,
            "is_slower": high is not None and high < NEVER_SLOWER,
            "is_far_from_best": near_high is not None and near_high < NEAR_BEST}


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def over_bass(results, policy=None):
    """Geometric mean over the cells whose best length is above 0 of the policy's speed over Algorithm 1's, with an
    interval (of rounds, drawn anew in each cell); None without such cells. Without a policy, of each cell's best fixed
    length, chosen on the rounds that judge it: more than a policy that picks one length could reach."""
    cells = [found for rounds in results.values() if length_of(best := best_fixed(rounds) or "off") != 0
             and (found := ratios(rounds, policy or best, "bass"))]
    if not cells:
        return None, None, None
    generator = random.Random(1)
    drawn = sorted(geometric_mean([statistics.median(generator.choices(found, k=len(found))) for found in cells])
                   for _ in range(1000))
    few = min(map(len, cells)) < _MIN_ROUNDS
    return geometric_mean([statistics.median(found) for found in cells]), *((None, None) if few else (drawn[25], drawn[974]))
