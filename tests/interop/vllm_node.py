#!/usr/bin/env python3
"""A node of vLLM 0.33.0 that takes orders: its own sessions, ZeroMQ and NIXL transports, driven by its own manager.

    vllm_node.py PORT BLOCKS BLOCK_LEN [MODEL]     ends when stdin does; $PYTHONHASHSEED is its hash seed

One JSON object a line on stdin, one answer a line on stdout: the orders of the example `interop_node` of kvpeer-vllm.
Another MODEL is another configuration digest.
"""
import vllm_stubs  # noqa: F401  (must be first)
import json
import mmap
import os
import select
import sys
import time

import numpy as np

from vllm.v1.kv_offload.base import (LookupResult, OffloadKey, ReqContext,
                                     RequestOffloadingContext, ScheduleEndContext)
from vllm.v1.kv_offload.tiering.base import ParentManager, TransferJob
from vllm.v1.kv_offload.tiering.p2p.manager import P2PSecondaryTierManager

SCHED_END = ScheduleEndContext(new_req_ids=(), preempted_req_ids=())
PATIENCE = 45       # longer than vLLM's own: 30 s for a fetch, 10 s for the ack of its abort


def key_of(i):
    return OffloadKey((b"kvpeer-block-%d" % i).ljust(36, b"\0"))


def content(i, block_len):
    j = np.arange(block_len, dtype=np.uint64)
    return ((131 * i + 7 * j + (j >> np.uint64(8))) & np.uint64(255)).astype(np.uint8)


class Node(ParentManager):
    def __init__(self, port, blocks, block_len, model):
        self.mm = mmap.mmap(-1, block_len * blocks)
        self.block_len = block_len
        self.region = np.frombuffer(self.mm, dtype=np.uint8).reshape(blocks, block_len)
        self.table, self.next_job, self.results, self.loads, self.open = {}, 1, {}, set(), {}
        self.mgr = P2PSecondaryTierManager(
            vllm_stubs.make_spec(model), memoryview(self.mm).cast("B", (blocks, block_len)),
            host="127.0.0.1", port=port, num_threads=2)

    # What vLLM's manager asks its engine.
    def on_new_request(self, ctx):
        return RequestOffloadingContext()

    def lookup(self, key, ctx):
        return LookupResult.HIT if key in self.table else LookupResult.MISS

    def create_store_job(self, keys, ctx):
        return self.job(keys, [self.table[k] for k in keys], False, ctx)

    def on_request_finished(self, ctx):
        pass

    def job(self, keys, blocks, is_promotion, ctx):
        job_id, self.next_job = self.next_job, self.next_job + 1
        return TransferJob(job_id=job_id, keys=list(keys), chunk_ids=np.array(blocks, dtype=np.int64),
                           is_promotion=is_promotion, req_context=ctx)

    def step(self):
        for r in self.mgr.get_finished_jobs():
            if r.job_id in self.loads:
                self.results[r.job_id] = r.success
        self.mgr.serve_external_requests(self)
        self.mgr.on_schedule_end(SCHED_END)
        time.sleep(0.0005)

    def until(self, done):
        end = time.monotonic() + PATIENCE
        while not done() and time.monotonic() < end:
            self.step()
        return done()

    # Orders.
    def hold(self, first, last):
        for i in range(first, last):
            self.region[i] = content(i, self.block_len)
            self.table[key_of(i)] = i
        return dict(event="held", blocks=len(self.table))

    def store(self, request):
        ctx = ReqContext(req_id=request, kv_transfer_params={"remote_decoder": {"kv_request_id": request}})
        self.mgr.on_new_request(ctx)
        self.mgr.submit_store(self.create_store_job(list(self.table), ctx))
        return dict(event="stored")

    def await_fetch(self, request):
        def asked():
            states = [s._server._requests.get(request) for s in self.mgr._sessions.values()]
            return any(r.demand_received for st in states if st for r in st.outbound.values())
        return dict(event="asked" if self.until(asked) else "not asked")

    def fetch(self, peer, request, first, last, into, pd=False, abort=False, again=False, keep=False,
              refused=False):
        host, port = peer.rsplit(":", 1)
        kind = "remote_prefiller" if pd else "remote_kv_source"
        if again:
            ctx = self.open[request]
        else:
            ctx = ReqContext(req_id=request, kv_transfer_params={
                kind: dict(kv_request_id=request, remote_host=host, remote_port=int(port))})
            self.mgr.on_new_request(ctx)
        wanted = range(first, last)
        states = {}

        def ask():
            for i in wanted:
                if states.get(i) not in (LookupResult.HIT, LookupResult.MISS):
                    states[i] = self.mgr.lookup(key_of(i), ctx)
            return all(s in (LookupResult.HIT, LookupResult.MISS) for s in states.values())
        if not pd:
            self.until(ask)
        hits = [i for i in wanted if pd or states[i] is LookupResult.HIT]
        answer = dict(event="fetched", hits=len(hits), ok=None, bytes=None)
        finished = False
        if hits:
            self.region[into:into + len(hits)] = 0
            job = self.job([key_of(i) for i in hits], range(into, into + len(hits)), True, ctx)
            self.loads.add(job.job_id)
            self.mgr.submit_load(job)
            if abort:
                self.until(lambda: self.region[into].any())
                self.mgr.on_request_finished(ctx)
                finished = True
            self.until(lambda: job.job_id in self.results)
            answer["ok"] = self.results.get(job.job_id)
            answer["bytes"] = bool(answer["ok"]) and all(
                np.array_equal(self.region[into + n], content(i, self.block_len)) for n, i in enumerate(hits))
        if keep:
            self.open[request] = ctx
        elif not finished:
            self.mgr.on_request_finished(ctx)
            self.step()
        return answer


def main():
    port, blocks, block_len = map(int, sys.argv[1:4])
    node = Node(port, blocks, block_len, (sys.argv[4:] or ["kvpeer-interop"])[0])
    print(json.dumps(dict(event="ready", fingerprint=node.mgr._data.config_fingerprint,
                          hash_seed=node.mgr._get_hash_seed())), flush=True)
    waiting = b""
    while True:
        if select.select([0], [], [], 0)[0]:
            got = os.read(0, 65536)
            if not got:
                break
            *lines, waiting = (waiting + got).split(b"\n")
            for line in lines:
                order = json.loads(line)
                print(json.dumps(getattr(node, order.pop("do"))(**order)), flush=True)
        node.step()
    node.mgr.shutdown()
    sys.stdout.flush()
    os._exit(0)      # nixl-cu12 1.5.1's UCX plugin crashes at an orderly exit


if __name__ == "__main__":
    main()
