#!/usr/bin/env python3
"""vLLM 0.33.0's own nodes and kvpeer's, on the control plane, both ways. No block moves: WRITEs are printed.

    smoke.py PAPER_NODE     the example `paper_node` of kvpeer-vllm; run setup.sh first

Ends with `interop smoke ok: ...`.
"""
import json
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("KVPEER_VLLM_CACHE", os.path.expanduser("~/.cache/kvpeer-vllm"))
PYTHON = os.path.join(HOME, "venv/bin/python")
SEED = "vllm-none-hash"
PAIRS = [(i, 100 + i) for i in range(64)]


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def vllm(*args):
    return [PYTHON, os.path.join(HERE, "vllm_node.py"), *map(str, args)]


class Server:
    """A process that serves until its stdin closes. Dies with this one."""

    def __init__(self, command):
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self.p.stdout.readline()
        assert "ready" in self.ready, self.ready

    def end(self):
        self.p.stdin.close()
        lines = self.p.stdout.read().splitlines()
        self.p.wait(30)
        return lines


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=90).stdout.splitlines()


def kvpeer_writes(lines):
    runs = [line[6:].replace("] [", "]|[").split("|") for line in lines if line.startswith("write ")]
    return sorted(p for src, dst in runs for p in zip(json.loads(src), json.loads(dst)))


def vllm_writes(lines):
    writes = [w for w in map(json.loads, lines) if w["event"] == "write"]
    return sorted(p for w in writes for p in zip(w["src"], w["dst"]))


def kvpeer_fetches(paper):
    """From a vLLM producer: 64 of 80 keys by lookup, then 64 by prefill/decode; then with another seed."""
    serving = port()
    server = Server(vllm("serve", serving, 0, 64, "pd-1"))
    digest = json.loads(server.ready)["fingerprint"]
    peer = "127.0.0.1:%d" % serving

    def fetch(seed, *args):
        return run([paper, "fetch", "127.0.0.1:%d" % port(), seed, digest, peer, *map(str, args)])
    for what in [(0, 80), (0, 64, "pd-1")]:
        lines = fetch(SEED, *what)
        assert "fetched 64 hits: Loaded Reusable" in lines, lines
    refused = fetch("another seed", 0, 64, "pd-2")
    assert any("RejectedByUs(HashSeed)" in line for line in refused), refused
    lines = server.end()
    assert vllm_writes(lines) == sorted(PAIRS * 2), lines
    assert [json.loads(x)["ok"] for x in lines if "stored" in x] == [True, True], lines
    return digest


def vllm_fetches(paper, digest):
    """From a kvpeer producer, the same."""
    peer = "127.0.0.1:%d" % port()
    server = Server([paper, "serve", peer, SEED, digest, "0", "64", "pd-1"])
    for what in [(0, 80), (0, 64, "pd-1")]:
        fetched = [json.loads(line) for line in run(vllm("fetch", port(), peer, *what))][-1]
        assert fetched == dict(event="fetched", hits=64, unresolved=0, ok=True), fetched
    lines = server.end()
    assert kvpeer_writes(lines) == sorted(PAIRS * 2), lines
    assert sum("Delivered" in line for line in lines) == 2, lines


def main():
    paper, = sys.argv[1:]
    digest = kvpeer_fetches(paper)
    vllm_fetches(paper, digest)
    print("interop smoke ok: vLLM 0.33.0 and kvpeer, lookups and prefill/decode, both ways, %d blocks named" % 256)


if __name__ == "__main__":
    main()
