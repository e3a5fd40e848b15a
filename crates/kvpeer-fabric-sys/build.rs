//! Finds the system's libfabric and compiles the shim against its headers.

use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    let library = match pkg_config::Config::new()
        .env_metadata(false)
        .atleast_version("1.17")
        .probe("libfabric")
    {
        Ok(library) => library,
        Err(cause) => {
            // Of pkg-config's own words only the line that says it found a wrong version.
            let told = cause.to_string();
            let found = told.lines().find(|line| line.contains("but version of libfabric"));
            let found = found.map_or("none was found", str::trim);
            println!(
                "cargo::error=kvpeer's RMA data plane needs the headers of libfabric >= 1.17 ({found}). Install \
                 them with `apt-get install libfabric-dev pkg-config`, or build kvpeer without this plane: \
                 `cargo build --package kvpeer --no-default-features`."
            );
            return ExitCode::FAILURE;
        }
    };
    cc::Build::new()
        .file("shim/kvf.c")
        .includes(&library.include_paths)
        .std("gnu11")
        .warnings(true)
        // libfabric's own inline functions leave arguments unused.
        .flag_if_supported("-Wno-unused-parameter")
        .compile("kvf");
    ExitCode::SUCCESS
}
