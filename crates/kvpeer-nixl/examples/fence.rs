//! What closes the door to a peer's WRITE with NIXL and UCX? Two processes on one machine find out.
//!
//! `fence LIBRARY TRANSPORTS MODE`: a child writes 256 MiB into this process' region, in one WRITE. Once the first
//! MiB has landed, MODE happens, the region gets a new owner (9s), and two seconds later the new owner's bytes that
//! were overwritten are counted. Modes: `close` (our right), `kill` (the writer), `both` (kill, then close), `none`.

use std::error::Error;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvpeer::Region;
use kvpeer::plane::{DataFact, DataPlane};
use kvpeer_core::{Epoch, XferId};
use kvpeer_nixl::{NixlConfig, NixlData, Transports};
use kvpeer_wire::RegionInfo;

const BLOCKS: u32 = 256;
const BLOCK_LEN: u64 = 1 << 20;
const EPOCH: Epoch = Epoch(1);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [library, transports, mode, child @ ..] = args.as_slice() else {
        return Err("see the source".into());
    };
    let region = Region::new(BLOCKS, BLOCK_LEN)?;
    let list = if transports == "tcp" { Transports::Tcp } else { Transports::Ucx(transports.clone()) };
    let config = NixlConfig { library: library.clone(), transports: list };
    let mut plane = NixlData::open(&config, &region)?;
    plane.open_right(EPOCH);
    let DataFact::RightOpened { metadata, .. } = next(&mut plane)? else { return Err("no right".into()) };
    match child {
        [base, metadata] => write(&mut plane, &region, base.parse()?, &unhex(metadata)?),
        _ => watch(&mut plane, &region, [library, transports, mode], &hex(&metadata?)),
    }
}

fn write(plane: &mut NixlData, region: &Region, base: u64, metadata: &[u8]) -> Result<(), Box<dyn Error>> {
    for block in 0..BLOCKS {
        region.write_block(block, &[1; BLOCK_LEN as usize])?;
    }
    let theirs = RegionInfo { base_addr: base, num_blocks: BLOCKS, block_len: BLOCK_LEN };
    plane.register(EPOCH, theirs, metadata);
    eprintln!("writer: {:?}", next(plane)?);
    let blocks: Vec<u32> = (0..BLOCKS).collect();
    let started = Instant::now();
    plane.write(XferId { epoch: EPOCH, seq: 1 }, &blocks, &blocks);
    eprintln!("writer: {:?} after {} ms", next(plane)?, started.elapsed().as_millis());
    Ok(())
}

fn watch(
    plane: &mut NixlData,
    region: &Arc<Region>,
    again: [&String; 3],
    metadata: &str,
) -> Result<(), Box<dyn Error>> {
    let [_, _, mode] = again;
    let base = plane.base_addr().to_string();
    let mut writer = Command::new(std::env::current_exe()?);
    let mut writer = writer.args(again).args([&base, metadata]).stdin(Stdio::null()).spawn()?;
    let mut block = vec![0; usize::try_from(BLOCK_LEN)?];
    while block.first() != Some(&1) {
        region.read_block(1, &mut block)?;
    }
    if matches!(mode.as_str(), "kill" | "both") {
        writer.kill()?;
        writer.wait()?;
    }
    if matches!(mode.as_str(), "close" | "both") {
        let started = Instant::now();
        plane.close_right(EPOCH);
        println!("{:?} after {} ms", next(plane)?, started.elapsed().as_millis());
    }
    let mut landed = 0;
    for at in 0..BLOCKS {
        region.read_block(at, &mut block)?;
        landed += block.iter().filter(|byte| **byte == 1).count();
        region.write_block(at, &[9; BLOCK_LEN as usize])?;
    }
    std::thread::sleep(Duration::from_secs(2));
    let mut overwritten = 0;
    for at in 0..BLOCKS {
        region.read_block(at, &mut block)?;
        overwritten += block.iter().filter(|byte| **byte != 9).count();
    }
    println!("{mode}: {landed} bytes had landed; {overwritten} bytes of the new owner overwritten");
    let _ = writer.kill();
    writer.wait()?;
    Ok(())
}

fn next(plane: &mut NixlData) -> Result<DataFact, Box<dyn Error>> {
    let end = Instant::now() + Duration::from_secs(30);
    let mut facts = Vec::new();
    while facts.is_empty() {
        plane.progress(1, &mut facts);
        if Instant::now() > end {
            return Err("nothing is reported".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(facts.remove(0))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}
