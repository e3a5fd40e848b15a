//! Wrong options and files: one line that says what to do, and no more than that.

use crate::support::{Dir, KV, Outcome, TOKENS, run};

fn refused(outcome: &Outcome, code: i32, because: &str) {
    assert_eq!(outcome.code, code, "{}", outcome.err);
    assert_eq!(outcome.err.lines().count(), 1, "one line: {}", outcome.err);
    assert!(outcome.err.starts_with("kvpeer: "), "{}", outcome.err);
    assert!(outcome.err.contains(because), "no `{because}` in: {}", outcome.err);
    assert_eq!(outcome.out, "");
}

#[test]
fn options() {
    let dir = Dir::new();
    let out = dir.path("out");
    let fetch = |more: &[&str]| run([&["fetch", "--out", &out][..], more].concat());
    let here = ["--peer", "127.0.0.1:5710"];
    let tokens = ["--tokens", TOKENS];
    refused(&run([] as [&str; 0]), 2, "");
    refused(&run(["sevre"]), 2, "unrecognized subcommand 'sevre'");
    refused(&run(["serve"]), 2, "<FILE>");
    refused(&run(["serve", KV, "--speed", "9"]), 2, "--speed");
    refused(&run(["serve", KV, "--block-tokens", "0"]), 2, "--block-tokens");
    refused(&run(["serve", KV, "--block-len", "4 apples"]), 2, "K, M or G");
    refused(&run(["serve", KV, "--fingerprint", "model"]), 2, "NAME=VALUE");
    refused(&run(["serve", KV, "--pd", ""]), 2, "--pd");
    refused(&fetch(&here), 2, "--tokens");
    refused(&fetch(&[&here[..], &tokens].concat()), 2, "--block-len");
    refused(&fetch(&[&here[..], &tokens, &["--keys", "k"]].concat()), 2, "cannot be used with");
    refused(&fetch(&[&here[..], &tokens, &["--block-len", "0"]].concat()), 2, "at least one byte");
    refused(&fetch(&[&here[..], &tokens, &["--block-len", "1", "--pd", ""]].concat()), 2, "request");
    refused(&run(["demo", "--kv", KV, "--tokens", TOKENS, "--region-mib", "0"]), 2, "--region-mib");
}

#[test]
fn addresses() {
    let dir = Dir::new();
    let out = dir.path("out");
    let fetch =
        |peer: &str| run(["fetch", "--peer", peer, "--tokens", TOKENS, "--block-len", "1", "--out", &out]);
    refused(&fetch("127.0.0.1"), 2, "HOST:PORT");
    refused(&fetch("127.0.0.1:0"), 2, "port 0");
    refused(&fetch("::1:5710"), 2, "in brackets");
    refused(&fetch("10.9.8.7:5710"), 2, "add --listen");
    let serve = |listen: &[&str]| run([&["serve", KV][..], listen].concat());
    refused(&serve(&["--listen", "here"]), 2, "--listen");
    refused(&serve(&["--listen", "0.0.0.0:0"]), 2, "add --advertise");
    refused(&serve(&["--listen", "0.0.0.0:0", "--advertise", "node-a:1"]), 2, "add --fabric-bind");
    refused(&serve(&["--listen", "127.0.0.1:0", "--advertise", "0.0.0.0:1"]), 2, "cannot be used");
}

// HS-14. The address is none of this host's (it is for documentation), so nothing is opened beyond loopback here.
#[test]
fn beyond_loopback_it_warns_that_nobody_is_authenticated() {
    let serve = run(["serve", KV, "--listen", "192.0.2.1:5710"]);
    assert_eq!(serve.code, 6, "{}", serve.err);
    let (warning, error) = serve.err.split_once('\n').expect("a warning and an error");
    assert!(warning.contains("beyond loopback") && warning.contains("not authenticated"), "{warning}");
    assert!(error.starts_with("kvpeer: "), "{error}");
    // Without the option it listens on loopback, and has nothing to warn of.
    let dir = Dir::new();
    let nobody =
        ["--peer", "127.0.0.1:1", "--connect-timeout", "0.1", "--tokens", TOKENS, "--block-len", "1"];
    let fetch = run([&["fetch", "--out", &dir.path("out")][..], &nobody].concat());
    refused(&fetch, 4, "cannot be reached");
}

#[test]
fn an_address_that_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    refused(&run(["serve", KV, "--listen", &address]), 6, "choose a free port");
}

#[test]
fn providers() {
    let serve = |name: &str| run(["serve", KV, "--listen", "127.0.0.1:0", "--provider", name]);
    refused(&serve("net"), 2, "success would be a lie");
    refused(&serve("udp"), 2, "a hundredth");
    refused(&serve("sockets"), 2, "deprecated");
    refused(&serve("carrier-pigeon"), 2, "unknown libfabric provider");
    let demo = run(["demo", "--kv", KV, "--tokens", TOKENS, "--provider", "shm"]);
    refused(&demo, 2, "cannot fence");
}

#[test]
fn files() {
    let dir = Dir::new();
    let serve = |file: &str| run(["serve", file, "--listen", "127.0.0.1:0"]);
    refused(&serve(&dir.path("nowhere")), 2, "cannot be read");
    refused(&serve(&dir.path("")), 2, "not a regular file");
    refused(&serve(&dir.write("empty", "")), 2, "the file is empty");
    refused(
        &serve(&dir.write("text.safetensors", "hello world, this is text")),
        2,
        "no valid safetensors file",
    );
    refused(&run(["serve", KV, "--block-tokens", "128"]), 2, "use a smaller --block-tokens");
    refused(&run(["serve", KV, "--write-keys", &dir.path("no/keys")]), 2, "cannot be written");

    let out = dir.path("out");
    let fetch = |wanted: &str, file: &str| {
        run(["fetch", "--peer", "127.0.0.1:5710", wanted, file, "--block-len", "4096", "--out", &out])
    };
    refused(&fetch("--tokens", &dir.path("nowhere")), 2, "cannot be read");
    refused(&fetch("--tokens", &dir.write("prose", "Water boils")), 2, "no token ids");
    refused(&fetch("--tokens", &dir.write("few", "1 2 3")), 2, "3 tokens do not fill one block of 16");
    refused(&fetch("--keys", KV), 2, "cannot be read");
    refused(&fetch("--keys", TOKENS), 2, "no key list");
    refused(&fetch("--keys", &dir.write("short", "# kvpeer keys 1\nabcd\n")), 2, "line 2: a key has 72");
    let listed = format!("# kvpeer keys 1\n# block-len 512\n{}\n", "0".repeat(72));
    refused(&fetch("--keys", &dir.write("listed", listed)), 2, "blocks of 512 bytes");
    let tokens = ["fetch", "--peer", "127.0.0.1:5710", "--tokens", TOKENS, "--block-len", "4096"];
    refused(&run([&tokens[..], &["--out", &dir.path("no/out")]].concat()), 2, "cannot be written");
    refused(&run([&tokens[..], &["--out", &dir.path("")]].concat()), 2, "is a directory");
}

#[test]
fn the_demos_files() {
    let dir = Dir::new();
    let demo = |kv: &str, tokens: &str| run(["demo", "--kv", kv, "--tokens", tokens]);
    let other = dir.write("other", format!("{:?}", [7; 80]));
    refused(&demo(KV, &other), 2, "not the tokens whose cache");
    refused(&demo(TOKENS, TOKENS), 2, "no valid safetensors file");
}
