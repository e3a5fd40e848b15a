//! Recorded sessions: an operation, then what vLLM did.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::item::{Item, Items};
use crate::msgpack::unpack_bytes;

/// One operation and what came of it.
pub(crate) struct Step {
    pub(crate) op: Value,
    pub(crate) result: Value,
}

pub(crate) fn sessions() -> Vec<(String, Vec<Step>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors/sessions");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), read(path))).collect()
}

fn read(path: &PathBuf) -> Vec<Step> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps = lines.chunks(2).map(|pair| Step { op: pair[0].clone(), result: pair[1]["result"].clone() });
    steps.collect()
}

impl Step {
    pub(crate) fn name(&self) -> &str {
        self.op["op"].as_str().unwrap()
    }

    /// Why vLLM's session is over, if it is.
    pub(crate) fn death(&self) -> Option<&str> {
        self.result["death"].as_str()
    }

    /// What vLLM did in this step.
    pub(crate) fn items(&self) -> Items {
        let mut items = Items::default();
        for msg in self.result["sent"].as_array().unwrap() {
            items.extend(Item::sent(msg));
        }
        for call in self.result["calls"].as_array().unwrap() {
            match call[0].as_str().unwrap() {
                "add_remote_peer" => items.push(Item::Register),
                "write_blocks" => items.extend(Item::write(&numbers(&call[2]), &numbers(&call[3]))),
                _ => {}
            }
        }
        let ret = &self.result["ret"];
        match self.name() {
            "poll" => {
                for load in ret["loads"].as_array().into_iter().flatten() {
                    items.push(Item::Load { job: load[0].as_u64().unwrap(), ok: load[2].as_bool().unwrap() });
                }
                for store in ret["stores"].as_array().into_iter().flatten() {
                    items.push(Item::Store {
                        job: store[0].as_u64().unwrap(),
                        ok: store[1].as_bool().unwrap(),
                    });
                }
            }
            "close" => {
                let list = |name: &str| ret[name].as_array().cloned().unwrap_or_default();
                for job in list("failed_jobs") {
                    items.push(Item::Load { job: job.as_u64().unwrap(), ok: false });
                }
                for job in list("failed_stores") {
                    items.push(Item::Store { job: job.as_u64().unwrap(), ok: false });
                }
            }
            "register_lookup" if self.result["err"].is_null() => items.push(Item::Answer {
                request: self.op["kv_request_id"].as_str().unwrap().to_owned(),
                key: unpack_bytes(&self.op["key"]),
                held: ret.as_bool(),
            }),
            _ => {}
        }
        items
    }

    /// The pins that vLLM's cache made: keys, blocks and job.
    pub(crate) fn pins(&self) -> Vec<(Vec<Vec<u8>>, u64)> {
        let calls = self.result["parent"].as_array().unwrap();
        let pins = calls.iter().filter(|call| call[0] == "create_store_job");
        pins.map(|call| {
            let keys = call[1].as_array().unwrap().iter().map(unpack_bytes).collect();
            (keys, call[3].as_u64().unwrap())
        })
        .collect()
    }

    /// The request of each of these pins, where vLLM's first look at a lookup says so.
    pub(crate) fn pin_requests(&self) -> Vec<(u64, String)> {
        let mut request = None;
        let mut pins = Vec::new();
        for call in self.result["parent"].as_array().unwrap() {
            match call[0].as_str().unwrap() {
                // "p2p:p:1:r0:lu1"
                "on_new_request" => request = call[1].as_str().unwrap().rsplit(':').nth(1).map(str::to_owned),
                "create_store_job" => {
                    pins.extend(request.clone().map(|request| (call[3].as_u64().unwrap(), request)));
                }
                _ => {}
            }
        }
        pins
    }

    /// Seconds on vLLM's clock.
    pub(crate) fn now(&self) -> f64 {
        self.result["now"].as_f64().unwrap()
    }

    /// The WRITEs that vLLM posted: their number, and what they copy.
    pub(crate) fn writes(&self) -> Vec<(u64, Vec<Item>)> {
        let calls = self.result["calls"].as_array().unwrap();
        let posted = calls.iter().filter(|call| call[0] == "write_blocks" && !call[1].is_null());
        posted
            .map(|call| (call[1].as_u64().unwrap(), Item::write(&numbers(&call[2]), &numbers(&call[3]))))
            .collect()
    }
}

pub(crate) fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as u32).collect()
}
