//! Blocks from one process to another.

use std::num::NonZeroUsize;
use std::path::Path;

use kvpeer_cli::layout::Blocks;
use rustix::process::Signal;
use serde_json::json;

use crate::support::{Dir, KV, Running, Server, TOKENS, read, run};

/// The committed dump's blocks, one after the other.
fn kv_blocks() -> Vec<u8> {
    let blocks = Blocks::of_kv_dump(Path::new(KV), NonZeroUsize::new(16).expect("not zero")).expect("a dump");
    let mut all = Vec::new();
    let mut block = vec![0; usize::try_from(blocks.block_len()).expect("a length")];
    for index in 0..blocks.num_blocks() {
        blocks.read(index, &mut block).expect("a block");
        all.extend_from_slice(&block);
    }
    all
}

#[test]
fn a_prompt_is_fetched_by_its_tokens() {
    let (dir, server) = (Dir::new(), Server::start(KV, &[]));
    let out = dir.path("out");
    let fetched = run([
        "fetch",
        "--peer",
        &server.address,
        "--tokens",
        TOKENS,
        "--block-len",
        &server.block_len,
        "--out",
        &out,
        "--json",
    ]);
    assert_eq!(fetched.code, 0, "{}", fetched.err);
    let result = fetched.json();
    assert_eq!(
        (&result["fetch"], &result["fetched"], &result["missing"]),
        (&json!("ok"), &json!(5), &json!([]))
    );
    assert!(read(&out) == kv_blocks());
    assert_eq!(dir.names(), ["out"]);
    let stopped = server.stop();
    assert_eq!(stopped.code, 0, "{}", stopped.err);
    let last = stopped.out.lines().last().expect("a line");
    assert!(last.contains(r#""event":"stopped""#) && last.contains(r#""fetched":1"#), "{last}");
}

#[test]
fn any_file_is_fetched_by_its_keys_and_checked() {
    let dir = Dir::new();
    // Not a whole number of blocks, and with two equal ones.
    let content: Vec<u8> = (0..10_000_u32).map(|at| (at % 4096 / 16) as u8).collect();
    let file = dir.write("file.bin", &content);
    let (keys, out) = (dir.path("keys"), dir.path("out"));
    let server = Server::start(&file, &["--block-len", "4K", "--write-keys", &keys]);
    let fetched = run(["fetch", "--peer", &server.address, "--keys", &keys, "--out", &out, "--json"]);
    assert_eq!(fetched.code, 0, "{}", fetched.err);
    assert_eq!((&fetched.json()["checked"], &fetched.json()["blocks"]), (&json!(true), &json!(3)));
    assert!(read(&out) == content, "the copy is the file, byte for byte");
}

#[test]
fn more_than_the_region_holds_comes_in_portions() {
    let dir = Dir::new();
    // 72 MiB: five portions, of which three are under way at a time.
    let content: Vec<u8> =
        (0..18_u32 << 20).flat_map(|word| word.wrapping_mul(0x9E37_79B9).to_le_bytes()).collect();
    let file = dir.write("large.bin", &content);
    let (keys, out) = (dir.path("keys"), dir.path("out"));
    let server = Server::start(&file, &["--write-keys", &keys]);
    let fetched = run(["fetch", "--peer", &server.address, "--keys", &keys, "--out", &out, "--json"]);
    assert_eq!(fetched.code, 0, "{}", fetched.err);
    assert_eq!(fetched.json()["fetched"], 72);
    assert!(read(&out) == content);
}

#[test]
fn a_decoder_takes_what_is_stored_for_its_request() {
    let (dir, server) = (Dir::new(), Server::start(KV, &["--pd", "req-1"]));
    let out = dir.path("out");
    let args = ["fetch", "--peer", &server.address, "--tokens", TOKENS, "--block-len", &server.block_len];
    let fetched = run([&args[..], &["--out", &out, "--pd", "req-1", "--json"]].concat());
    assert_eq!(fetched.code, 0, "{}", fetched.err);
    assert!(read(&out) == kv_blocks());
    let stopped = server.stop();
    let delivered = r#"{"event":"store_finished","request":"req-1","outcome":"delivered"}"#;
    assert!(stopped.out.contains(delivered), "{}", stopped.out);
}

#[test]
fn what_nobody_stores_is_waited_for_and_then_missing() {
    let (dir, server) = (Dir::new(), Server::start(KV, &[]));
    let args = ["fetch", "--peer", &server.address, "--tokens", TOKENS, "--block-len", &server.block_len];
    let more = ["--out", &dir.path("out"), "--pd", "nobody", "--supply-timeout", "0.2", "--json"];
    let fetched = run([&args[..], &more].concat());
    assert_eq!(fetched.code, 3, "{}", fetched.err);
    assert_eq!((&fetched.json()["fetch"], &fetched.json()["exit"]), (&json!("failed"), &json!(3)));
    assert!(fetched.err.contains("not stored in time"), "{}", fetched.err);
    assert_eq!(dir.names(), [""; 0], "no half of a file");
}

#[test]
fn blocks_that_are_not_held_are_named() {
    let (dir, server) = (Dir::new(), Server::start(KV, &[]));
    // The same prompt up to token 40: two full blocks.
    let ids: serde_json::Value = serde_json::from_slice(&read(TOKENS)).expect("JSON");
    let mut ids: Vec<u64> = serde_json::from_value(ids["prompt_ids"].clone()).expect("ids");
    ids[40] += 1;
    let (tokens, out) = (dir.write("tokens", format!("{ids:?}")), dir.path("out"));
    let args = ["fetch", "--peer", &server.address, "--tokens", &tokens, "--block-len", &server.block_len];
    let fetched = run([&args[..], &["--out", &out, "--json"]].concat());
    assert_eq!(fetched.code, 3);
    assert_eq!(
        (&fetched.json()["fetch"], &fetched.json()["missing"]),
        (&json!("missing"), &json!([2, 3, 4]))
    );
    assert_eq!(fetched.err, format!("kvpeer: {}: 3 blocks are not held there\n", server.address));
    let written = read(&out);
    let (held, rest) = written.split_at(2 * 368_640);
    assert!(*held == kv_blocks()[..2 * 368_640] && rest.iter().all(|byte| *byte == 0));
    // And for people.
    let fetched = run([&args[..], &["--out", &out]].concat());
    assert!(fetched.out.contains("missing        3: 2, 3, 4\n"), "{}", fetched.out);
}

#[test]
fn a_peer_that_does_not_fit_says_why() {
    let (dir, server) = (Dir::new(), Server::start(KV, &["--fingerprint", "model=a"]));
    let out = dir.path("out");
    let fetch = |block_len: &str, more: &[&str]| {
        let args =
            ["fetch", "--peer", &server.address, "--tokens", TOKENS, "--block-len", block_len, "--out", &out];
        run([&args[..], more].concat())
    };
    for (fetched, advice) in [
        (fetch("4096", &["--fingerprint", "model=a"]), "--block-len"),
        (fetch(&server.block_len, &["--fingerprint", "model=b"]), "--fingerprint"),
        (fetch(&server.block_len, &["--fingerprint", "model=a", "--hash-seed", "x"]), "--hash-seed"),
        (fetch(&server.block_len, &["--fingerprint", "model=a", "--peer-id", "another:1"]), "--peer-id"),
    ] {
        assert_eq!(fetched.code, 4, "{}", fetched.err);
        assert!(fetched.err.contains(advice), "{} does not say {advice}", fetched.err);
        assert_eq!(fetched.err.lines().count(), 1, "{}", fetched.err);
    }
    // The same, with what fits: the server has lost nothing.
    let fetched = fetch(&server.block_len, &["--fingerprint", "model=a"]);
    assert_eq!(fetched.code, 0, "{}", fetched.err);
}

#[test]
fn a_peer_that_is_not_there_cannot_be_reached() {
    let dir = Dir::new();
    let server = Server::start(KV, &[]);
    let (address, block_len) = (server.address.clone(), server.block_len.clone());
    server.stop();
    for pd in [&[][..], &["--pd", "req"]] {
        let args = ["fetch", "--peer", &address, "--tokens", TOKENS, "--block-len", &block_len];
        let more = ["--out", &dir.path("out"), "--connect-timeout", "0.3"];
        let fetched = run([&args[..], &more, pd].concat());
        assert_eq!(fetched.code, 4, "{}", fetched.err);
        assert!(fetched.err.contains("cannot be reached"), "{}", fetched.err);
        assert_eq!(dir.names(), [""; 0]);
    }
}

#[test]
fn an_interrupted_fetch_leaves_no_half_of_a_file() {
    let (dir, server) = (Dir::new(), Server::start(KV, &[]));
    let args = ["fetch", "--peer", &server.address, "--tokens", TOKENS, "--block-len", &server.block_len];
    let fetch = Running::start([&args[..], &["--out", &dir.path("out"), "--pd", "nobody"]].concat());
    let mut server = server;
    // It is connected, so it waits for blocks that nobody stores.
    let up = server.running.json_line();
    assert_eq!(up["event"], "peer_up", "{up}");
    fetch.signal(Signal::INT);
    let ended = fetch.end();
    assert_eq!((ended.code, ended.err.as_str()), (130, "kvpeer: interrupted\n"));
    assert_eq!(dir.names(), [""; 0]);
    // The server was told goodbye.
    let down = server.running.json_line();
    assert!(down["reason"].as_str().is_some_and(|why| why.contains("it shuts down")), "{down}");
}

#[test]
fn serve_says_what_it_serves() {
    let dir = Dir::new();
    let keys = dir.path("keys");
    let mut serve = Running::start([
        "serve",
        KV,
        "--listen",
        "127.0.0.1:0",
        "--write-keys",
        &keys,
        "--pd",
        "a",
        "--pd",
        "b",
    ]);
    let mut said = Vec::new();
    while said.last().is_none_or(|line: &String| !line.contains("listening on")) {
        said.push(serve.line());
    }
    let said = said.join("\n");
    for part in
        [KV, "blocks        5", "block length  368640", "80 (16 in a block)", "a, b", &keys, "127.0.0.1:"]
    {
        assert!(said.contains(part), "no {part} in:\n{said}");
    }
    serve.signal(Signal::TERM);
    let ended = serve.end();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.contains("sessions     0"), "{}", ended.out);
}
