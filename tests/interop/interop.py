#!/usr/bin/env python3
"""vLLM 0.33.0's own nodes and kvpeer's, both ways, on loopback: every byte that is fetched is compared.

    interop.py INTEROP_NODE KVPEER [--short]

INTEROP_NODE is the example of kvpeer-vllm, KVPEER the program with its feature `vllm`; run setup.sh first.
Ends with `interop ok: ...`.
"""
import glob
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("KVPEER_VLLM_CACHE", os.path.expanduser("~/.cache/kvpeer-vllm"))
PYTHON = os.path.join(HOME, "venv/bin/python")
SEED = "vllm-none-hash"
HELD, BLOCKS = 64, 192          # blocks 0..63 of a producer hold keys; a consumer takes blocks from 64 on
SMALL, LARGE = 4096, 1 << 20
QUIET = {"UCX_LOG_LEVEL": "fatal", "UCX_LOG_FILE": "stderr", "NIXL_LOG_LEVEL": "FATAL"}


def library():
    found = glob.glob(os.path.join(HOME, "venv/lib/python3*/site-packages/.nixl_*.mesonpy.libs/libnixl_capi.so"))
    assert found, "no libnixl_capi.so under %s: run setup.sh" % HOME
    return found[0]


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Process:
    """A node that takes orders. Dies with this script."""

    def __init__(self, command, env):
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  stderr=None if os.environ.get("INTEROP_LOG") else subprocess.DEVNULL,
                                  env={**os.environ, **QUIET, **env})
        self.ready = self.answer()

    def answer(self):
        line = self.p.stdout.readline()
        assert line, "%s has ended: %s" % (self.p.args[0], self.p.wait())
        return json.loads(line)

    def __call__(self, do, **order):
        self.tell(do, **order)
        return self.answer()

    def tell(self, do, **order):
        self.p.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self.p.stdin.flush()

    def end(self):
        self.p.stdin.close()
        assert self.p.wait(60) == 0, (self.p.args, self.p.returncode)

    def kill(self):
        self.p.send_signal(signal.SIGKILL)
        self.p.wait()


class Vllm(Process):
    name = "vLLM"

    def __init__(self, block_len=SMALL, seed=None, model="kvpeer-interop", at=None):
        self.at = at or port()
        self.id = "127.0.0.1:%d" % self.at
        env = {"PYTHONHASHSEED": seed} if seed else {}
        script = os.path.join(HERE, "vllm_node.py")
        super().__init__([PYTHON, script, str(self.at), str(BLOCKS), str(block_len), model], env)


class Kvpeer(Process):
    name = "kvpeer"
    node = digest = None

    def __init__(self, block_len=SMALL, seed=SEED, digest=None, at=None):
        self.id = "127.0.0.1:%d" % (at or port())
        digest = self.digest if digest is None else digest
        super().__init__([self.node, self.id, seed, digest, str(BLOCKS), str(block_len), library()], {})


def fetched(answer, hits):
    assert (answer.get("hits"), answer.get("ok"), answer.get("bytes")) == (hits, True, True), answer


def both_ways(scenario):
    for producer, consumer in ((Vllm, Kvpeer), (Kvpeer, Vllm)):
        scenario(producer, consumer)
        print("%s, from %s to %s: ok" % (scenario.__name__, producer.name, consumer.name), flush=True)


def symmetric(producer, consumer):
    """Hits, misses, several rounds of one request."""
    p, c = producer(), consumer()
    p("hold", first=0, last=HELD)
    fetched(c("fetch", peer=p.id, request="r1", first=0, last=80, into=HELD), HELD)
    none = c("fetch", peer=p.id, request="r2", first=1000, last=1010, into=HELD)
    assert (none["hits"], none["ok"]) == (0, None), none
    for n in range(4):
        fetched(c("fetch", peer=p.id, request="r3", first=16 * n, last=16 * n + 16, into=HELD, again=n > 0, keep=n < 3), 16)
    c.end(), p.end()


def prefill_decode(producer, consumer):
    """The stores first, then the fetch; and the other way round."""
    p, c = producer(), consumer()
    p("hold", first=0, last=HELD)
    p("store", request="pd-1")
    fetched(c("fetch", peer=p.id, request="pd-1", first=0, last=HELD, into=HELD, pd=True), HELD)
    c.tell("fetch", peer=p.id, request="pd-2", first=0, last=HELD, into=HELD, pd=True)
    assert p("await_fetch", request="pd-2") == {"event": "asked"}
    p("store", request="pd-2")
    fetched(c.answer(), HELD)
    c.end(), p.end()


def abort(producer, consumer):
    """In mid-transfer; then the same blocks are used again, for other content, and nothing late lands in them."""
    p, c = producer(block_len=LARGE), consumer(block_len=LARGE)
    p("hold", first=0, last=HELD)
    ended = 0
    for n in range(3):
        answer = c("fetch", peer=p.id, request="a-%d" % n, first=0, last=HELD - 1, into=HELD, abort=True)
        # It may have been done before the abort came: then its bytes are right.
        assert answer["ok"] in (True, False) and (not answer["ok"] or answer["bytes"]), answer
        ended += not answer["ok"]
        fetched(c("fetch", peer=p.id, request="b-%d" % n, first=1, last=HELD, into=HELD), HELD - 1)
    c.end(), p.end()
    assert ended, "no abort came in mid-transfer"


def gone_and_back(producer, consumer):
    """An orderly end of the producer, then a kill in mid-transfer; each time another one takes its place."""
    p, c = producer(block_len=LARGE), consumer(block_len=LARGE)
    at = int(p.id.split(":")[1])
    p("hold", first=0, last=HELD)
    fetched(c("fetch", peer=p.id, request="g-0", first=0, last=HELD, into=HELD), HELD)
    p.end()
    p = producer(block_len=LARGE, at=at)
    p("hold", first=0, last=HELD)
    found_again(c, p, "g-1")
    killer = threading.Timer(0.01, p.kill)
    c.tell("fetch", peer=p.id, request="g-2", first=0, last=HELD, into=HELD)
    killer.start()
    answer = c.answer()
    killer.join()
    assert answer["ok"] in (None, False) or answer["bytes"], answer
    p = producer(block_len=LARGE, at=at)
    p("hold", first=0, last=HELD)
    found_again(c, p, "g-3")
    c.end(), p.end()


def found_again(c, p, request):
    """A consumer that has lost its peer may need a few tries until it dials again."""
    for n in range(40):
        answer = c("fetch", peer=p.id, request="%s-%d" % (request, n), first=0, last=HELD, into=HELD)
        if answer.get("ok"):
            return fetched(answer, HELD)
        threading.Event().wait(0.5)
    raise AssertionError("never again: %s" % answer)


def incompatible(producer, consumer):
    """Another block length, hash seed or configuration: nothing is exchanged, and kvpeer says why."""
    others = {Vllm: [dict(block_len=2 * SMALL), dict(seed="7"), dict(model="another model")],
              Kvpeer: [dict(block_len=2 * SMALL), dict(seed="7"), dict(digest="0123456789abcdef")]}
    for other, why in zip(others[producer], ("BlockLen", "HashSeed", "Fingerprint")):
        p, c = producer(**other), consumer()
        p("hold", first=0, last=4)
        answer = c("fetch", peer=p.id, request="i", first=0, last=4, into=HELD, refused=True)
        assert answer.get("hits", 0) == 0 and not answer.get("ok"), answer
        if consumer is Kvpeer:
            assert why in (answer.get("why") or ""), (why, answer)
        p.kill(), c.kill()


def random_fetches(producer, consumer, count):
    """Any ranges, any places, lookups and prefill/decode mixed."""
    rng = random.Random("%s %d" % (producer.name, count))
    p, c = producer(), consumer()
    p("hold", first=0, last=HELD)
    for n in range(count):
        first = rng.randrange(HELD)
        last = rng.randrange(first + 1, HELD + 1)
        into = rng.randrange(HELD, BLOCKS - HELD)
        request, pd = "x-%d" % n, rng.random() < 0.3
        if pd:
            p("store", request=request)
        beyond = 0 if pd else rng.randrange(5) if last == HELD else 0
        answer = c("fetch", peer=p.id, request=request, first=first, last=last + beyond, into=into, pd=pd)
        fetched(answer, last - first)
    c.end(), p.end()


def program(kvpeer):
    """The program's own serve and fetch: a kvpeer among vLLM nodes is used like any other."""
    with tempfile.TemporaryDirectory() as folder:
        out, keys = os.path.join(folder, "out"), os.path.join(folder, "keys")
        p = Vllm()
        p("hold", first=0, last=HELD)
        names = [(b"kvpeer-block-%d" % i).ljust(36, b"\0").hex() for i in range(HELD)]
        with open(keys, "w") as f:
            f.write("# kvpeer keys 1\n# block-len %d\n# names tokens\n%s\n" % (SMALL, "\n".join(names)))
        among = ["--vllm", "--vllm-digest", Kvpeer.digest, "--nixl", library()]
        subprocess.run([kvpeer, "fetch", "--peer", p.id, "--keys", keys, "--out", out, *among],
                       check=True, stdout=subprocess.DEVNULL)
        expected = b"".join(bytes((131 * i + 7 * j + (j >> 8)) & 255 for j in range(SMALL)) for i in range(HELD))
        with open(out, "rb") as f:
            assert f.read() == expected
        p.end()
        # A file of that content, served by its own keys to another kvpeer, and it must not mind the vLLM in between.
        serve = subprocess.Popen([kvpeer, "serve", out, "--block-len", str(SMALL), "--write-keys", keys, "--listen",
                                  "127.0.0.1:%d" % port(), "--json", *among], stdout=subprocess.PIPE, text=True)
        try:
            address = json.loads(serve.stdout.readline())["address"]
            again = os.path.join(folder, "again")
            subprocess.run([kvpeer, "fetch", "--peer", address, "--keys", keys, "--out", again, *among],
                           check=True, stdout=subprocess.DEVNULL)
            with open(again, "rb") as f:
                assert f.read() == expected
        finally:
            serve.send_signal(signal.SIGINT)
            assert serve.wait(60) == 0, serve.returncode


def main():
    Kvpeer.node, kvpeer, *options = sys.argv[1:]
    short = "--short" in options
    probe = Vllm()
    Kvpeer.digest = probe.ready["fingerprint"]
    assert probe.ready["hash_seed"] == SEED
    probe.end()
    count = 10 if short else 100

    def random_ones(producer, consumer):
        random_fetches(producer, consumer, count)
    scenarios = [symmetric, prefill_decode, random_ones, abort] + ([] if short else [incompatible, gone_and_back])
    program(kvpeer)
    for scenario in scenarios:
        both_ways(scenario)
    print("interop ok: vLLM 0.33.0 and kvpeer, both ways, bytes verified: %d scenarios, %d random fetches%s"
          % (2 * len(scenarios) + 1, 2 * count, " (short)" if short else ""))


if __name__ == "__main__":
    main()
