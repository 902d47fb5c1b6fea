"""The whole of summary.json."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gradsync.config import Resolved
from gradsync.config.objects import name_of
from gradsync.config.task import ACCURACY, metric_name
from gradsync.config.window import parse_window
from gradsync.ledger.counted import cpu_percent, gpu_utilization, network, payload, without_core
from gradsync.ledger.staleness import of_worker, pushes, staleness, updates
from gradsync.ledger.summary.learned import (
    epoch_seconds,
    test_of_rank,
    test_of_run,
    tests_of_epochs,
    train_loss,
    train_metrics,
)
from gradsync.ledger.summary.timed import TimedRank, timed
from gradsync.ledger.timeline import timeline_of
from gradsync.record import SCHEMA, RankRecord, RunSummary
from gradsync.record.rows import PushRow
from gradsync.record.summaries import Clock, ClusterShape, Error, LostWorker, RankSummary


def summarize(
    config: Resolved,
    everyone: Sequence[RankRecord],
    error: Error | None,
    total_seconds: float,
    lost: Sequence[LostWorker] = (),
) -> RunSummary:
    """``everyone``: what each rank has written, servers last; ``lost``: workers that the others continued without."""
    ranks = everyone[: config.trainers]
    gone = {item.rank for item in lost}
    start = next((record.start for record in ranks if record.start), None)
    starts = [record.start for record in everyone if record.start]
    steps_per_epoch = start.get("steps_per_epoch") if start else None
    pushed = pushes(everyone)
    delays = [without_core(record) for record in ranks]
    in_window = timed(ranks, parse_window(config.window), gone, delays)
    finished = finish_seconds(ranks)
    learned = train_metrics(ranks)
    return RunSummary(
        schema=SCHEMA,
        status="failed" if error else "completed",
        error=error,
        lost=list(lost),
        world_size=config.workers,
        nodes=len({row["node"] for row in starts}),
        workers_per_node=config.workers_per_node,
        launcher=config.launcher,
        cluster=cluster(config, everyone),
        host=start.get("host") if start else None,
        strategy=name_of(config.strategy),
        server_count=config.servers,
        options=config.options,
        model=name_of(config.model),
        data=name_of(config.data),
        precision=config.precision,
        norm=config.norm,
        parameters=start["parameters"] if start else None,
        gradient_bytes=start["gradient_bytes"] if start else None,
        steps=max(len(record.steps) for record in ranks),
        steps_per_epoch=steps_per_epoch,
        batch_size=config.batch_size,
        threads=config.threads,
        accumulate=config.accumulate,
        transport=start["backend"] if start else None,
        lr=config.lr,
        lr_factor=config.lr_factor,
        weight_decay=config.weight_decay,
        buffers=start.get("buffers") if start else None,
        device=start["device"] if start else None,
        window=config.window,
        window_first=in_window.window_first,
        window_last=in_window.window_last,
        later=in_window.later,
        remarks=remarks(ranks),
        seconds_per_step=in_window.seconds_per_step,
        seconds_per_step_spread=in_window.seconds_per_step_spread,
        samples_per_second=in_window.samples_per_second,
        epoch_seconds=epoch_seconds(ranks, steps_per_epoch),
        read_seconds=max((record.start.get("read_seconds", 0.0) for record in ranks if record.start), default=None),
        total_seconds=total_seconds,
        train_loss=train_loss(ranks),
        train_accuracy=[value for value in learned.get(ACCURACY, []) if value is not None and 0 <= value <= 1],
        train_metrics=learned,
        metrics=list(map(metric_name, config.metric)),
        loss=config.loss,
        optimizer=config.optimizer,
        positions=start.get("positions") if start else None,
        test=test_of_run(ranks, gone),
        updates=updates(pushed),
        staleness=staleness(pushed),
        ledger=in_window.ledger,
        hidden_comm=in_window.hidden_comm,
        straggler=in_window.straggler,
        ranks=[
            rank_summary(rank, record, in_window.ranks[rank], finished[rank], pushed)
            for rank, record in enumerate(ranks)
        ],
        servers=[server_summary(rank, everyone[rank]) for rank in range(config.trainers, len(everyone))],
    )


def remarks(ranks: Sequence[RankRecord]) -> list[str]:
    """What the ranks say could not be seen: once, if it is so on all of them."""
    rows = [row for record in ranks for row in (record.start, record.end) if row]
    return list(dict.fromkeys(sentence for row in rows for sentence in row.get("remarks", [])))


def rank_summary(
    rank: int,
    record: RankRecord,
    in_window: TimedRank = TimedRank(None, None, None),  # noqa: B008 # it is frozen
    finished: float | None = None,
    pushed: Sequence[PushRow] = (),
) -> RankSummary:
    """``pushed``: the gradients as a server saw them."""
    start, end = record.start, record.end
    host = record.hosts[-1] if record.hosts else None
    dropped, mean_staleness = of_worker(rank, pushed)
    return RankSummary(
        rank=rank,
        role=start["role"] if start else None,
        node=start["node"] if start else None,
        steps=len(record.steps),
        seconds_per_step=in_window.seconds_per_step,
        parameters_sha256=end.get("parameters_sha256") if end else None,
        buffers_sha256=end.get("buffers_sha256") if end else None,
        test=test_of_rank(record),
        epochs=tests_of_epochs(record),
        finish_seconds=finished,
        dropped=dropped,
        staleness=mean_staleness,
        ledger=in_window.ledger,
        hidden_comm=in_window.hidden_comm,
        network=network(record),
        payload=payload(record),
        cpu_percent=cpu_percent(record),
        run_delay_percent=without_core(record),
        memory_bytes=host["memory_bytes"] if host else None,
        peak_memory_bytes=host["peak_memory_bytes"] if host else None,
        clock=[Clock(time=row["time"], offset=row["offset"], bound=row["bound"]) for row in record.clocks],
        gpu_peak_memory_bytes=host.get("gpu_peak_memory_bytes") if host else None,
        gpu_utilization=gpu_utilization(record),
    )


def server_summary(rank: int, record: RankRecord) -> RankSummary:
    found = rank_summary(rank, record)
    found.pushes = len(record.pushes)
    return found


def finish_seconds(ranks: Sequence[RankRecord]) -> list[float | None]:
    """When each rank ended its last step, in seconds from the first step of any rank. All on one clock."""
    clock = timeline_of(ranks)
    begins = [
        clock.shared(rank, row["begin"])
        for rank, record in enumerate(ranks)
        for row in record.steps[:1]
        if "begin" in row
    ]
    zero = min(begins, default=0.0)
    found: list[float | None] = []
    for rank, record in enumerate(ranks):
        last = record.steps[-1] if record.steps else None
        found.append(
            clock.shared(rank, last["begin"] + last["seconds"]) - zero
            if last is not None and "begin" in last
            else None
        )
    return found


def cluster(config: Resolved, everyone: Sequence[RankRecord]) -> ClusterShape | None:
    """The settings of the emulated nodes, and for how much of the time each was runnable but not scheduled."""
    if not config.is_emulated:
        return None
    delays: dict[str, list[float]] = defaultdict(list)
    for record in everyone:
        delay = without_core(record)
        if record.start and delay is not None:
            delays[record.start["node"]].append(delay)
    return ClusterShape(
        name=config.cluster,
        nodes=config.nodes,
        bandwidth=config.bandwidth,
        latency=config.latency,
        cpus=config.cpus,
        memory=config.memory,
        run_delay_percent={node: max(each) for node, each in delays.items()},
    )
