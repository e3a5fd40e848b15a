//! The `kvpeer` program.

fn main() -> std::process::ExitCode {
    kvpeer_cli::main()
}
