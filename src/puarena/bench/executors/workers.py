"""Fleets side by side: worker processes on a CPU, streams on a GPU.

On a CPU, small matrix products gain little from a second thread and lose much to it on a busy machine; two processes
with a fleet and a thread each use two cores fully. On a GPU one process keeps several fleets in flight, a stream each.
Either way the results come back to the one process that writes.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import queue
import signal
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing.managers import SyncManager
from typing import Any, TypeAlias

import pandas as pd
import torch

from puarena.bench.executors.orphan import end_with_parent
from puarena.bench.plan import FleetSpec
from puarena.errors import UserError

Work: TypeAlias = Generator[int, None, pd.DataFrame]  # yields run-steps done so far, returns the rows for the store
Trainer: TypeAlias = Callable[[FleetSpec], Work]
News: TypeAlias = Callable[[FleetSpec, int], None]
Ended: TypeAlias = tuple[FleetSpec, pd.DataFrame | Exception]

SMALL = 50_000  # run-steps below which starting processes costs more than it brings
STREAMS = 10  # fleets in flight on a GPU, of those that do not fill it on their own
_state: dict[str, Any] = {}


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_workers(workers: int | None, fleets: list[FleetSpec], device: str) -> int:
    """How many fleets to train side by side: what was asked for, else what pays on this device."""
    if workers is not None:
        if workers < 1:
            raise UserError(f"the number of workers is {workers}; give 1 or more")
        return workers
    if device == "cuda":
        return 1 if any(stack.fills_gpu for stack in fleets) else STREAMS
    small = sum(fleet.steps for fleet in fleets) < SMALL
    return 1 if small else max(1, min(available_cores(), len(fleets)))


def one_by_one(fleets: list[FleetSpec], trainer: Trainer, on_news: News) -> Iterator[Ended]:
    """Train fleets one after the other in this process."""
    for stack in fleets:
        work = trainer(stack)
        try:
            while True:
                on_news(stack, next(work))
        except StopIteration as end:
            yield stack, end.value
        except Exception as error:
            traceback.clear_frames(error.__traceback__)
            yield stack, error


def on_streams(fleets: list[FleetSpec], trainer: Trainer, on_news: News, at_once: int) -> Iterator[Ended]:
    """Train fleets on a GPU, ``at_once`` in flight; one that does not fit in memory is halved and tried again."""
    waiting = deque(_longest_first(fleets))
    streams = [torch.cuda.Stream() for _ in range(at_once)]  # memory is kept per stream: a few, used again and again
    flying: deque[tuple[FleetSpec, torch.cuda.Stream, Work]] = deque()
    while waiting or flying:
        while waiting and len(flying) < at_once:
            stack = waiting.popleft()
            flying.append((stack, streams.pop(), trainer(stack)))
        stack, stream, work = flying.popleft()
        ended: pd.DataFrame | Exception
        try:
            with torch.cuda.stream(stream):
                on_news(stack, next(work))
            flying.append((stack, stream, work))
            continue
        except StopIteration as end:
            ended = end.value
        except Exception as error:
            work.close()
            traceback.clear_frames(error.__traceback__)  # an error that is kept would keep the fleet in memory
            ended = error
        del work
        streams.append(stream)
        gc.collect()  # a fleet refers to itself
        torch.cuda.empty_cache()  # what a fleet's graphs held is given back only here
        if isinstance(ended, torch.cuda.OutOfMemoryError) and (len(stack.runs) > 1 or flying):
            at_once = max(1, at_once // 2)
            half = (len(stack.runs) + 1) // 2
            waiting.extendleft(FleetSpec(part) for part in (stack.runs[:half], stack.runs[half:]) if part)
        else:
            yield stack, ended


def in_processes(
    fleets: list[FleetSpec], make_trainer: Callable[[], Trainer], on_news: News, workers: int
) -> Iterator[Ended]:
    """Train fleets in ``workers`` processes, the longest first; ``make_trainer`` is called once in each."""
    context = multiprocessing.get_context("spawn")
    known = {stack.fleet_id: stack for stack in fleets}
    server = SyncManager(ctx=context)
    server.start(end_with_parent)
    with server as manager:
        news = manager.Queue()
        pool = ProcessPoolExecutor(workers, context, _start, (make_trainer, news))
        try:
            pending = {pool.submit(_train, stack): stack for stack in _longest_first(fleets)}
            while pending:
                finished, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                with contextlib.suppress(queue.Empty):
                    while True:
                        fleet_id, done = news.get_nowait()
                        on_news(known[fleet_id], done)
                for future in finished:
                    error = future.exception()
                    if error is not None and not isinstance(error, Exception):
                        raise error
                    yield pending.pop(future), future.result() if error is None else error
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start(make_trainer: Callable[[], Trainer], news: Any) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides what an interrupt means
    torch.set_num_threads(1)
    _state.update(trainer=make_trainer(), news=news)


def _train(stack: FleetSpec) -> pd.DataFrame:
    work = _state["trainer"](stack)
    try:
        while True:
            _state["news"].put((stack.fleet_id, next(work)))
    except StopIteration as end:
        frame: pd.DataFrame = end.value
        return frame


def _longest_first(fleets: list[FleetSpec]) -> list[FleetSpec]:
    return sorted(fleets, key=lambda stack: -stack.steps)
