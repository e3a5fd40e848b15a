//! Turns the block pairs of one write into as few RMA writes as the provider allows.

use kvpeer_fabric_sys::KVF_MAX_PIECES;

/// A contiguous range of our region, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// One RMA write: contiguous at the peer, gathered from up to four pieces here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes from the start of the peer's region.
    pub(crate) remote: u64,
    /// Bytes in all pieces.
    pub(crate) len: u64,
    pieces: [Piece; KVF_MAX_PIECES],
    count: u8,
}

impl Part {
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces[..self.count.into()]
    }

    fn new(remote: u64, piece: Piece) -> Self {
        let mut pieces = [Piece::default(); KVF_MAX_PIECES];
        pieces[0] = piece;
        Self { remote, len: piece.len, pieces, count: 1 }
    }

    /// Appends the piece if it continues this part at the peer and either continues the last piece here or
    /// finds room as a further one.
    fn extend(&mut self, remote: u64, piece: Piece, shape: Shape) -> bool {
        if remote != self.remote + self.len {
            return false;
        }
        let count = usize::from(self.count);
        if let Some(last) =
            self.pieces[..count].last_mut().filter(|last| last.offset + last.len == piece.offset)
        {
            last.len += piece.len;
        } else if count < shape.max_pieces.min(KVF_MAX_PIECES) {
            self.pieces[count] = piece;
            self.count += 1;
        } else {
            return false;
        }
        self.len += piece.len;
        true
    }
}

/// What limits a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes per block, more than 0.
    pub(crate) block_len: u64,
    /// Bytes per part, more than 0.
    pub(crate) max_part: u64,
    /// Local pieces per part, more than 0.
    pub(crate) max_pieces: usize,
}

/// Emits parts that together copy block `src[i]` here to block `dst[i]` at the peer, in that order, until `emit`
/// answers false. Only neighbours in the given order are merged. The caller has checked the indexes, so that no
/// offset overflows.
pub(crate) fn plan(src: &[u32], dst: &[u32], shape: Shape, mut emit: impl FnMut(Part) -> bool) {
    let mut open: Option<Part> = None;
    for (src, dst) in src.iter().zip(dst) {
        let (mut local, mut remote) = (u64::from(*src) * shape.block_len, u64::from(*dst) * shape.block_len);
        let end = local + shape.block_len;
        while local < end {
            let room = open.as_ref().map_or(shape.max_part, |part| shape.max_part - part.len);
            let len = (end - local).min(if room == 0 { shape.max_part } else { room });
            let piece = Piece { offset: local, len };
            if room > 0 && open.as_mut().is_some_and(|part| part.extend(remote, piece, shape)) {
                local += len;
                remote += len;
                continue;
            }
            if open.take().is_some_and(|part| !emit(part)) {
                return;
            }
            let len = (end - local).min(shape.max_part);
            open = Some(Part::new(remote, Piece { offset: local, len }));
            local += len;
            remote += len;
        }
    }
    if let Some(part) = open {
        emit(part);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPE: Shape = Shape { block_len: 10, max_part: 100, max_pieces: 4 };

    fn parts(src: &[u32], dst: &[u32], shape: Shape) -> Vec<Part> {
        let mut out = Vec::new();
        plan(src, dst, shape, |part| {
            out.push(part);
            true
        });
        out
    }

    /// (remote, [(offset, len)])
    fn brief(src: &[u32], dst: &[u32], shape: Shape) -> Vec<(u64, Vec<(u64, u64)>)> {
        let pieces = |part: &Part| part.pieces().iter().map(|p| (p.offset, p.len)).collect();
        parts(src, dst, shape).iter().map(|part| (part.remote, pieces(part))).collect()
    }

    #[test]
    fn neighbours_on_both_sides_become_one_piece() {
        assert_eq!(brief(&[3, 4, 5], &[7, 8, 9], SHAPE), [(70, vec![(30, 30)])]);
    }

    #[test]
    fn scattered_sources_of_one_target_run_are_gathered_up_to_the_limit() {
        let gathered = brief(&[9, 2, 7, 0, 5], &[1, 2, 3, 4, 5], SHAPE);
        assert_eq!(gathered, [(10, vec![(90, 10), (20, 10), (70, 10), (0, 10)]), (50, vec![(50, 10)])]);
        let single = Shape { max_pieces: 1, ..SHAPE };
        assert_eq!(brief(&[9, 2], &[1, 2], single), [(10, vec![(90, 10)]), (20, vec![(20, 10)])]);
    }

    #[test]
    fn a_gap_or_a_step_back_at_the_target_starts_a_new_part() {
        assert_eq!(brief(&[1, 2], &[1, 3], SHAPE), [(10, vec![(10, 10)]), (30, vec![(20, 10)])]);
        assert_eq!(brief(&[2, 1], &[2, 1], SHAPE), [(20, vec![(20, 10)]), (10, vec![(10, 10)])]);
    }

    #[test]
    fn long_runs_and_large_blocks_are_cut_at_the_limit() {
        let small = Shape { max_part: 25, ..SHAPE };
        assert_eq!(brief(&[0, 1, 2], &[4, 5, 6], small), [(40, vec![(0, 25)]), (65, vec![(25, 5)])]);
        let tiny = Shape { max_part: 4, ..SHAPE };
        assert_eq!(brief(&[1], &[0], tiny), [(0, vec![(10, 4)]), (4, vec![(14, 4)]), (8, vec![(18, 2)])]);
    }

    #[test]
    fn nothing_is_planned_for_nothing_and_emission_can_stop() {
        assert_eq!(parts(&[], &[], SHAPE), []);
        let mut seen = 0;
        plan(&[1, 3, 5], &[1, 3, 5], SHAPE, |_| {
            seen += 1;
            false
        });
        assert_eq!(seen, 1);
    }

    proptest! {
        #[test]
        fn parts_copy_exactly_the_pairs(
            pairs in prop::collection::vec((0u32..12, 0u32..12), 0..24),
            block_len in 1u64..6, max_part in 1u64..20, max_pieces in 1usize..5,
        ) {
            let (src, dst): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let shape = Shape { block_len, max_part, max_pieces };
            let parts = parts(&src, &dst, shape);
            let mut bytes = Vec::new();
            for part in &parts {
                prop_assert!(part.len <= max_part && part.pieces().len() <= max_pieces && part.len > 0);
                prop_assert_eq!(part.pieces().iter().map(|p| p.len).sum::<u64>(), part.len);
                let mut remote = part.remote;
                for piece in part.pieces() {
                    for offset in piece.offset..piece.offset + piece.len {
                        bytes.push((offset, remote));
                        remote += 1;
                    }
                }
            }
            let wanted: Vec<_> = src.iter().zip(&dst).flat_map(|(s, d)| {
                (0..block_len).map(move |i| (u64::from(*s) * block_len + i, u64::from(*d) * block_len + i))
            }).collect();
            prop_assert_eq!(bytes, wanted);
        }
    }
}
