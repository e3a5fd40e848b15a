//! Commands without a peer.

use serde_json::json;

use crate::support::{Dir, KV, Server, TOKENS, read, run};

#[test]
fn the_real_prompt_has_these_keys() {
    let keys = run(["keys", "--tokens", TOKENS]);
    assert_eq!(keys.code, 0, "{}", keys.err);
    // Computed with Python's hashlib from the description in `keys.rs`.
    let expected = "\
# kvpeer keys 1
# names tokens
142a93332216decfacfcb5163fe9f79bb223772de208e06048c81ded532e5af600000000
d036ea820e1a22fc8d35d94e9fb6ded0c3840b12f82c377258e515ea463b5fbe00000000
25490b0655177c787878ecf89174a1fb1efb05fcdf0207cc1240518d07c1e3fd00000000
7df87ce221eed2e5cdfd5f5cca4d31986c5fe22a40aae9b391cc888f1681e9f600000000
79ddf3a375bd7d7b7abed2b35e4fecccf8acd6a6252c82d69ee23f35d9359ce100000000
";
    assert_eq!(keys.out, expected);
}

#[test]
fn serve_names_the_blocks_of_a_dump_in_the_same_way() {
    let dir = Dir::new();
    let path = dir.path("keys");
    Server::start(KV, &["--write-keys", &path, "--hash-seed", "s", "--group", "3"]).stop();
    let keys = run(["keys", "--tokens", TOKENS, "--block-len", "368640", "--hash-seed", "s", "--group", "3"]);
    assert_eq!(String::from_utf8(read(path)).expect("text"), keys.out);
}

#[test]
fn info_lists_providers_limits_and_timers() {
    let info = run(["info", "--json"]);
    assert_eq!(info.code, 0, "{}", info.err);
    let info = info.json();
    assert_eq!(info["kvpeer"], env!("CARGO_PKG_VERSION"));
    assert_eq!(info["protocol"], json!({ "min": 1, "max": 1 }));
    let tcp = |it: &&serde_json::Value| it["name"].as_str().is_some_and(|name| name.starts_with("tcp"));
    let tcp = info["providers"].as_array().expect("a list").iter().find(tcp).expect("tcp");
    assert_eq!((&tcp["usable"], &tcp["fences"]), (&json!(true), &json!(true)));
    assert_eq!((&info["limits"]["peers"], &info["timers_ms"]["heartbeat"]), (&json!(128), &json!(2000)));

    let text = run(["info"]);
    assert!(text.out.contains("heartbeat") && text.out.contains("libfabric"), "{}", text.out);
}

#[test]
fn help_explains_the_exit_codes() {
    for command in [&[][..], &["serve"], &["fetch"], &["keys"], &["info"], &["demo"]] {
        let help = run([command, &["--help"]].concat());
        assert_eq!(help.code, 0);
        assert!(help.out.contains("the peer does not hold all blocks"), "{}", help.out);
    }
    assert!(!run(["--help"]).out.contains("demo-node"), "that is the demo's own business");
}
