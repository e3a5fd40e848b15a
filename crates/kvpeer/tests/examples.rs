//! The examples do what they say.

#[path = "../examples/own_io.rs"]
mod own_io;
#[path = "../examples/own_thread.rs"]
mod own_thread;
#[path = "../examples/scheduler_tick.rs"]
mod scheduler_tick;
#[cfg(feature = "tokio")]
#[path = "../examples/tokio_jobs.rs"]
mod tokio_jobs;

#[test]
fn own_thread() {
    own_thread::main().unwrap();
}

#[test]
fn scheduler_tick() {
    scheduler_tick::main().unwrap();
}

#[test]
fn own_io() {
    own_io::main().unwrap();
}

#[cfg(feature = "tokio")]
#[test]
fn tokio_jobs() {
    tokio_jobs::main().unwrap();
}
