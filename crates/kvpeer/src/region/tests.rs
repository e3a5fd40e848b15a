use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn own_memory_is_zeroed_and_page_aligned() {
    let region = Region::new(3, 5000).unwrap();
    assert_eq!(region.len(), 15_000);
    assert_eq!(region.base().addr().get() % 4096, 0);
    let mut block = vec![1; 5000];
    for idx in 0..3 {
        region.read_block(idx, &mut block).unwrap();
        assert_eq!(block, vec![0; 5000]);
    }
}

#[test]
fn blocks_of_every_length_and_alignment_keep_to_themselves() {
    for block_len in [1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65] {
        let region = Region::new(4, block_len as u64).unwrap();
        for idx in 0..4 {
            region.write_block(idx, &pattern(block_len, idx as u8)).unwrap();
        }
        region.write_block(1, &pattern(block_len, 99)).unwrap();
        for (idx, seed) in [(0, 0), (1, 99), (2, 2), (3, 3)] {
            let mut out = vec![0; block_len];
            region.read_block(idx, &mut out).unwrap();
            assert_eq!(out, pattern(block_len, seed), "block {idx} of {block_len} bytes");
        }
    }
}

#[test]
fn wrong_blocks_and_buffers_are_refused() {
    let region = Region::new(2, 16).unwrap();
    let out_of_range = BlockError::OutOfRange { block: 2, num_blocks: 2 };
    assert_eq!(region.read_block(2, &mut [0; 16]), Err(out_of_range));
    assert_eq!(region.write_block(2, &[0; 16]), Err(out_of_range));
    assert_eq!(region.write_block(0, &[0; 15]), Err(BlockError::Length { len: 15, block_len: 16 }));
    assert_eq!(region.block_ptr(2), None);
}

#[test]
fn impossible_regions_are_refused() {
    assert!(matches!(Region::new(0, 8), Err(RegionError::Empty)));
    assert!(matches!(Region::new(8, 0), Err(RegionError::Empty)));
    assert!(matches!(Region::new(u32::MAX, u64::MAX), Err(RegionError::TooLarge { .. })));
    assert!(matches!(Region::new(2, 1 << 62), Err(RegionError::TooLarge { .. })));
    // Fits the address space's arithmetic, not the machine.
    assert!(matches!(Region::new(1, 1 << 62), Err(RegionError::Map { .. })));
}

#[test]
fn foreign_memory_is_given_back_when_its_last_user_is_gone() {
    struct Owner {
        memory: Vec<u64>,
        freed: Arc<AtomicBool>,
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            self.freed.store(true, Ordering::SeqCst);
        }
    }

    let freed = Arc::new(AtomicBool::new(false));
    let mut owner = Owner { memory: vec![0; 8], freed: Arc::clone(&freed) };
    // One byte in: blocks that are nowhere aligned.
    let base = NonNull::new(owner.memory.as_mut_ptr().cast::<u8>().wrapping_add(1)).unwrap();
    // SAFETY: `owner` keeps the vector and is dropped with the region; nobody else touches it.
    let region = unsafe { Region::from_raw(base, 3, 21, owner) }.unwrap();
    let user = Arc::clone(&region);
    region.write_block(2, &pattern(21, 5)).unwrap();
    drop(region);
    assert!(!freed.load(Ordering::SeqCst));
    let mut out = [0; 21];
    user.read_block(2, &mut out).unwrap();
    assert_eq!(out.to_vec(), pattern(21, 5));
    drop(user);
    assert!(freed.load(Ordering::SeqCst));
}

#[test]
fn racing_copies_are_torn_at_worst() {
    let region = Region::new(1, 4099).unwrap();
    let writer = {
        let region = Arc::clone(&region);
        thread::spawn(move || {
            for round in 0..200u8 {
                region.write_block(0, &[round; 4099]).unwrap();
            }
        })
    };
    let mut out = [0; 4099];
    while !writer.is_finished() {
        region.read_block(0, &mut out).unwrap();
        assert!(out.iter().all(|byte| *byte < 200));
    }
    writer.join().unwrap();
    region.read_block(0, &mut out).unwrap();
    assert_eq!(out, [199; 4099]);
}
