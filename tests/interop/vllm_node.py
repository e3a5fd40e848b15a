#!/usr/bin/env python3
"""A node of vLLM 0.33.0: its own sessions and its own ZeroMQ transport, driven by its own manager.

The data plane moves nothing: any metadata is accepted, each WRITE is printed and is done at the next poll. What is
tested with it is the control plane.

    vllm_node.py serve PORT FIRST LAST [PD_ID]       holds the keys FIRST..LAST, until stdin closes
    vllm_node.py fetch PORT PEER FIRST LAST [PD_ID]  asks PEER for them and fetches what it holds

Every line on stdout is JSON.
"""
import vllm_stubs  # noqa: F401  (must be first)
import json
import mmap
import os
import select
import sys
import time
from concurrent.futures import Future

import numpy as np

from vllm.v1.kv_offload.base import (LookupResult, OffloadKey, ReqContext,
                                     RequestOffloadingContext, ScheduleEndContext)
from vllm.v1.kv_offload.tiering.base import ParentManager, TransferJob
from vllm.v1.kv_offload.tiering.p2p import manager as m
from vllm.v1.kv_offload.tiering.p2p.data.base import DataTransport, PollResult

BLOCK_LEN, NUM_BLOCKS = 4096, 256
SCHED_END = ScheduleEndContext(new_req_ids=(), preempted_req_ids=())


def say(**what):
    print(json.dumps(what), flush=True)


def key_of(i):
    return OffloadKey(b"kvpeer-block-%d" % i + b"\0" * (23 - len(str(i))))


class Paper(DataTransport):
    """WRITEs that are said, not done."""

    def __init__(self, name, view, config_fields=None, backends=None, num_threads=0):
        super().__init__(view, config_fields)
        self._remote_dlists, self.n, self.live = {}, 0, {}

    def get_agent_metadata(self):
        return b"paper"

    def add_remote_peer(self, peer_id, agent_metadata, base_addr, num_blocks, block_len):
        self._remote_dlists[peer_id] = num_blocks
        say(event="registered", peer=peer_id, metadata=agent_metadata.decode(), blocks=num_blocks)

    def remove_remote_peer(self, peer_id):
        self._remote_dlists.pop(peer_id, None)

    def write_blocks(self, peer_id, local, remote):
        if peer_id not in self._remote_dlists:
            return None
        self.n += 1
        self.live[self.n] = peer_id
        say(event="write", src=[int(x) for x in local], dst=[int(x) for x in remote])
        return self.n

    def poll(self, peer_id=None):
        done = [t for t, p in self.live.items() if peer_id in (None, p)]
        for t in done:
            del self.live[t]
        return PollResult(done, ())

    def cancel(self, ids, mode="immediate"):
        for t in ids:
            self.live.pop(t, None)
        return []

    def close(self):
        pass


m.NixlTransport = Paper


class Node(ParentManager):
    def __init__(self, port, held):
        self.mm = mmap.mmap(-1, BLOCK_LEN * NUM_BLOCKS)
        self.table = {key_of(i): i for i in held}
        self.next_job, self.results, self.loads = 1, {}, set()
        self.mgr = m.P2PSecondaryTierManager(
            vllm_stubs.make_spec(), memoryview(self.mm).cast("B", (NUM_BLOCKS, BLOCK_LEN)),
            host="127.0.0.1", port=port, num_threads=1)

    def on_new_request(self, ctx):
        return RequestOffloadingContext()

    def lookup(self, key, ctx):
        return LookupResult.HIT if key in self.table else LookupResult.MISS

    def job(self, keys, chunk_ids, is_promotion, ctx):
        jid, self.next_job = self.next_job, self.next_job + 1
        ids = np.array(chunk_ids, dtype=np.int64)
        return TransferJob(job_id=jid, keys=list(keys), chunk_ids=ids, is_promotion=is_promotion, req_context=ctx)

    def create_store_job(self, keys, ctx):
        return self.job(keys, [self.table[k] for k in keys], False, ctx)

    def on_request_finished(self, ctx):
        pass

    def step(self):
        for r in self.mgr.get_finished_jobs():
            if r.job_id in self.loads:
                self.results[r.job_id] = r.success
            else:
                say(event="stored", ok=r.success)
        self.mgr.serve_external_requests(self)
        self.mgr.on_schedule_end(SCHED_END)

    def offer(self, rid):
        ctx = ReqContext(req_id=rid, kv_transfer_params={"remote_decoder": {"kv_request_id": rid}})
        self.mgr.on_new_request(ctx)
        self.mgr.submit_store(self.create_store_job(list(self.table), ctx))

    def fetch(self, peer, wanted, pd_id):
        host, port = peer.rsplit(":", 1)
        rid = pd_id or "vllm-%d" % os.getpid()
        kind = "remote_prefiller" if pd_id else "remote_kv_source"
        ctx = ReqContext(req_id=rid, kv_transfer_params={
            kind: dict(kv_request_id=rid, remote_host=host, remote_port=int(port))})
        self.mgr.on_new_request(ctx)
        hits, todo, end = [], [key_of(i) for i in wanted], time.monotonic() + 30
        if pd_id:
            hits, todo = todo, []
        while todo and time.monotonic() < end:
            answers = {k: self.mgr.lookup(k, ctx) for k in todo}
            hits += [k for k in todo if answers[k] is LookupResult.HIT]
            todo = [k for k in todo if answers[k] is LookupResult.RETRY]
            self.step()
            time.sleep(0.001)
        ok = None
        if hits:
            job = self.job(hits, range(100, 100 + len(hits)), True, ctx)
            self.loads.add(job.job_id)
            self.mgr.submit_load(job)
            while job.job_id not in self.results and time.monotonic() < end:
                self.step()
                time.sleep(0.001)
            ok = self.results.get(job.job_id)
        self.mgr.on_request_finished(ctx)
        self.step()
        say(event="fetched", hits=len(hits), unresolved=len(todo), ok=ok)


def main():
    cmd, port, *rest = sys.argv[1:]
    held = range(int(rest[0]), int(rest[1])) if cmd == "serve" else range(0)
    node = Node(int(port), held)
    if cmd == "serve":
        if len(rest) > 2:
            node.offer(rest[2])
        say(event="ready", id=node.mgr._local_id, fingerprint=node.mgr._data.config_fingerprint,
            hash_seed=node.mgr._get_hash_seed())
        while not (select.select([sys.stdin], [], [], 0)[0] and not os.read(0, 4096)):
            node.step()
            time.sleep(0.001)
    else:
        peer, first, last, *pd = rest
        node.fetch(peer, range(int(first), int(last)), pd[0] if pd else None)
    node.mgr.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
