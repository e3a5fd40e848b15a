"""Make vLLM 0.33.0's kv_offload/tiering/p2p importable without torch or vllm.

`import vllm_stubs` first, then import the real modules. Real code used:
 $KVPEER_VLLM_CACHE/ref/vllm/v1/kv_offload/** (unmodified) and a few more files of the wheel:
 vllm/distributed/nixl_utils.py, vllm/v1/metrics/cache_hit_source.py, vllm/v1/kv_hints/*. Stubbed: vllm, vllm.envs, vllm.logger, vllm.platforms,
 vllm.v1.core.kv_cache_utils.get_none_hash_seed, canonical_mapping, torch.
Log level from $P2P_LOG (default CRITICAL = silent).
"""
import logging  # noqa: E402
import os
import sys
import types

os.environ.setdefault("NIXL_LOG_LEVEL", "WARN")   # NIXL logs to stdout
HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("KVPEER_VLLM_CACHE", os.path.expanduser("~/.cache/kvpeer-vllm"))
REF = os.environ.get("VLLM_REF", os.path.join(HOME, "ref"))
EXTRA = REF


def _pkg(name, paths):
    m = types.ModuleType(name)
    m.__path__ = [p for p in paths if os.path.isdir(p)]
    sys.modules[name] = m
    if "." in name:
        parent, child = name.rsplit(".", 1)
        setattr(sys.modules[parent], child, m)
    return m


def _mod(name, **attrs):
    m = types.ModuleType(name)
    m.__dict__.update(attrs)
    sys.modules[name] = m
    parent, child = name.rsplit(".", 1)
    if parent in sys.modules:
        setattr(sys.modules[parent], child, m)
    return m


LEVEL = getattr(logging, os.environ.get("P2P_LOG", "CRITICAL"))
logging.basicConfig(level=LEVEL, stream=sys.stderr, format="%(levelname)s %(message)s")


class _Logger(logging.getLoggerClass()):
    def info_once(self, msg, *a, **k):
        self.info(msg, *a)

    def warning_once(self, msg, *a, **k):
        self.warning(msg, *a)


def init_logger(name):
    logging.setLoggerClass(_Logger)
    try:
        lg = logging.getLogger("stub." + name)
    finally:
        logging.setLoggerClass(logging.Logger)
    lg.setLevel(LEVEL)
    return lg


def install():
    if "vllm" in sys.modules:
        return
    _pkg("vllm", [f"{EXTRA}/vllm", f"{REF}/vllm"])
    _pkg("vllm.v1", [f"{EXTRA}/vllm/v1", f"{REF}/vllm/v1"])
    _pkg("vllm.v1.metrics", [f"{EXTRA}/vllm/v1/metrics"])
    _pkg("vllm.v1.core", [])
    _pkg("vllm.distributed", [f"{EXTRA}/vllm/distributed"])
    # defaults of vllm 0.33.0 envs.py
    _mod("vllm.envs",
         VLLM_P2P_SIDE_CHANNEL_HOST=os.environ.get("VLLM_P2P_SIDE_CHANNEL_HOST", "localhost"),
         VLLM_P2P_SIDE_CHANNEL_PORT=int(os.environ.get("VLLM_P2P_SIDE_CHANNEL_PORT", "5710")),
         VLLM_P2P_MAX_PEERS=int(os.environ.get("VLLM_P2P_MAX_PEERS", "128")),
         VLLM_P2P_HANDSHAKE_TIMEOUT_S=int(os.environ.get("VLLM_P2P_HANDSHAKE_TIMEOUT_S", "30")),
         VLLM_P2P_IDLE_TIMEOUT_S=int(os.environ.get("VLLM_P2P_IDLE_TIMEOUT_S", "300")))
    _mod("vllm.logger", init_logger=init_logger)

    class _Plat:
        @staticmethod
        def is_rocm():
            return False
    _mod("vllm.platforms", current_platform=_Plat())
    _mod("vllm.v1.core.kv_cache_utils",
         get_none_hash_seed=lambda: os.environ.get("PYTHONHASHSEED", "vllm-none-hash"))
    for p in ("vllm.distributed.kv_transfer", "vllm.distributed.kv_transfer.kv_connector",
              "vllm.distributed.kv_transfer.kv_connector.v1",
              "vllm.distributed.kv_transfer.kv_connector.v1.offloading"):
        _pkg(p, [])
    _mod("vllm.distributed.kv_transfer.kv_connector.v1.offloading.canonical_mapping",
         canonical_format_id=lambda layout: str(layout))
    if "torch" not in sys.modules:
        t = types.ModuleType("torch")
        t.Tensor = type("Tensor", (), {})
        sys.modules["torch"] = t


install()


def make_spec(model_name="kvpeer-interop", block_tokens=16):
    """Object with what P2PSecondaryTierManager/FileMapper read from an OffloadingSpec."""
    from vllm.v1.kv_offload import config as c
    cfg = c.OffloadingConfig(
        groups=(c.OffloadingGroupConfig(tokens_per_block=block_tokens, layer_names=("l0",), group_id=0),),
        worker_kv_bytes_per_block=0, enable_kv_cache_events=False, extra_config={},
        engine_id="e", model=c.OffloadingModelConfig(name=model_name, dtype="float16"),
        cache=c.OffloadingCacheConfig(tokens_per_hash=block_tokens, blocks_per_chunk=1),
        parallel=c.OffloadingParallelConfig(
            rank=0, world_size=1, tp_size=1, pp_size=1, pcp_size=1, dcp_size=1,
            data_parallel_index=0, data_parallel_size=1, data_parallel_rank_local=None,
            is_parallelism_agnostic=True))
    return types.SimpleNamespace(config=cfg, extra_config={}, blocks_per_chunk=1)
