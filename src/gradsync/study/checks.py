"""What a strategy must do, one by one, from what its ranks have recorded: the rows of a certificate."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.figures.catalogue import of_certificate
from gradsync.record.certificate import Certificate, Check
from gradsync.record.rows import ConformanceRow, LoopTried

MOST_APART = 0.1  # of the closed form: headers and acknowledgements of small messages take their share
SMALL = 4_000  # bytes per step that are never counted as a mistake: the headers of some fifty messages

END = "runs to its end"
START, BITS, DISTANCE = "same start", "same bits on all ranks", "distance from one process"
BYTES, STATE, HOOKS = "bytes against its closed form", "state saved and restored", "hooks removed"
MOST_NAMED = 3
LARGEST_ROUNDING = 2.0**-11.5  # half the digits of float32: what tries the loops is not autocast


def checks(certificate: Certificate, rows: Sequence[ConformanceRow], rounding: float, lossy: bool) -> list[Check]:
    """``rows``: one of every rank, or none: of servers only the model is known. ``lossy``: meant to differ."""
    of_model = [bits(certificate, lossy), distance(certificate, rounding)]
    if not rows:
        return of_model
    of_training = [start(rows), *of_model]
    return [
        *of_training,
        *(wire(rows), state(rows, rounding), hooks(rows)),
        *loops(rows, min(rounding, LARGEST_ROUNDING), lossy, of_training),
    ]


def start(rows: Sequence[ConformanceRow]) -> Check:
    several = len({row["start_sha256"] for row in rows})
    found = "every rank starts as rank 0 does" if several == 1 else f"attach leaves {several} different models"
    return Check(name=START, holds=several == 1, found=found)


def bits(certificate: Certificate, lossy: bool) -> Check:
    same = bool(certificate.same_bits)
    found = "every rank ends with the same parameters" if same else "the ranks end with different parameters"
    return Check(name=BITS, holds=same or lossy, found=found + (", by design" if lossy and not same else ""))


def distance(certificate: Certificate, rounding: float) -> Check:
    """Of what is not meant to be equal, the distance is told but not judged."""
    if certificate.distance is None:
        return Check(name=DISTANCE, holds=False, found="the parameters are NaN or infinite")
    holds, found = judged(certificate.distance, rounding, certificate.verdict == "approximate by design")
    return Check(name=DISTANCE, holds=holds, found=found)


def judged(distance: float, rounding: float, by_design: bool) -> tuple[bool | None, str]:
    text, limit = map(of_certificate.DISTANCE.text, (distance, rounding))
    if by_design:
        return None, f"{text}, approximate by design"
    if distance <= rounding:
        return True, text
    return False, f"{text}: rounding alone is below {limit}"


def wire(rows: Sequence[ConformanceRow]) -> Check:
    if any(row["closed_form"] is None for row in rows):
        return Check(name=BYTES, holds=None, found="gradient_traffic declares none")
    if len(rows) == 1:
        return Check(name=BYTES, holds=None, found="one process sends nothing")
    if any(row["wire_bytes"] is None for row in rows):
        return Check(name=BYTES, holds=None, found="nothing counts the bytes of this transport")
    off, rank, way, counted, closed = max(far_off(rank, row) for rank, row in enumerate(rows))
    found = f"rank {rank} {way} {counted:,.0f} bytes a step, in closed form {closed:,.0f}"
    return Check(name=BYTES, holds=off <= 0, found=found)


def far_off(rank: int, row: ConformanceRow) -> tuple[float, int, str, float, float]:
    """By how many bytes a rank is off beyond what is expected of headers, and where."""
    assert row["wire_bytes"]
    assert row["closed_form"]
    ways = list(zip(("sent", "received"), row["wire_bytes"], row["closed_form"], strict=True))
    off = [abs(counted - closed) - MOST_APART * closed - SMALL for _, counted, closed in ways]
    return max((far, rank, *way) for far, way in zip(off, ways, strict=True))


def state(rows: Sequence[ConformanceRow], rounding: float) -> Check:
    if why := next((row["resumed_error"] for row in rows if row["resumed_error"]), ""):
        return Check(name=STATE, holds=False, found=why)
    apart = [row["resumed_distance"] for row in rows]
    largest = None if None in apart else max(each for each in apart if each is not None)
    if largest is not None and largest <= rounding:
        return Check(name=STATE, holds=True, found="training goes on as without a break")
    far = (
        "is NaN or infinite"
        if largest is None
        else f"is {of_certificate.DISTANCE.text(largest)} from one without a break"
    )
    return Check(name=STATE, holds=False, found=f"a resumed training {far}: state_dict leaves something out")


def hooks(rows: Sequence[ConformanceRow]) -> Check:
    stacked = [name for row in rows for name in row["hooks_stacked"]]
    left = [name for row in rows for name in row["hooks_left"]]
    if stacked:
        return Check(name=HOOKS, holds=False, found=f"attaching twice adds more: {named(stacked)}")
    if left:
        return Check(name=HOOKS, holds=False, found=f"detach leaves {named(left)}")
    if sent := max(row["messages_after"] for row in rows):
        return Check(name=HOOKS, holds=False, found=f"after detach, {sent} messages were still sent")
    return Check(name=HOOKS, holds=True, found="none is left, and attaching twice adds none")


def loops(rows: Sequence[ConformanceRow], rounding: float, lossy: bool, of_training: Sequence[Check]) -> list[Check]:
    """What breaks ordinary training breaks every loop, and what breaks the first, plain loop breaks the others."""
    broken = next((check.name for check in of_training if check.holds is False), "")
    found: list[Check] = []
    for tried in zip(*(row["loops"] for row in rows), strict=True):
        found.append(of_loop(tried, rounding, lossy, broken))
        if found[0].holds is False:
            broken = found[0].name
    return found


def of_loop(tried: Sequence[LoopTried], rounding: float, lossy: bool, broken: str) -> Check:
    """One way of writing a loop, as all ranks have found it."""

    def check(holds: bool | None, found: str) -> Check:
        return Check(name=tried[0]["name"], holds=holds, found=found, in_loop=True)

    if why := next((each["left_out"] for each in tried if each["left_out"]), ""):
        return check(None, why)
    if broken:
        return check(None, f'not judged, as "{broken}" does not hold')
    if error := next((each["error"] for each in tried if each["error"]), ""):
        return check(False, error)
    apart = [each["distance"] for each in tried]
    if None in apart:
        return check(False, "the parameters are NaN or infinite")
    largest = max(each for each in apart if each is not None)
    return check(*judged(largest, rounding, lossy))


def named(places: Sequence[str]) -> str:
    names = list(dict.fromkeys(places))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
