//! Whatever both sides say, nothing panics, and little is kept.

use kvpeer_wire::strategies as native;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::strategies;

/// Who speaks next.
#[derive(Clone, Debug)]
enum Word {
    Vllm(strategies::Parts),
    Core(native::Parts),
}

/// Few names, so that words meet.
fn word() -> impl Strategy<Value = Word> {
    let vllm = (strategies::parts(), 0..3u8, 0..3u64).prop_map(|(mut parts, name, seq)| {
        parts.request = request(&format!("q{name}")).into();
        parts.peer_id = PeerName::new(PEER).unwrap().into();
        parts.long[0] = seq;
        Word::Vllm(parts)
    });
    let core = (native::parts(), 0..3u8, 0..4u64, 0..4u64).prop_map(|(mut parts, name, round, lookup)| {
        parts.request = request(&format!("q{name}")).into();
        parts.long[0] = round;
        parts.long[1] = lookup;
        Word::Core(parts)
    });
    prop_oneof![vllm, core]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_conversation(words in vec(word(), 0..60)) {
        let mut story = Story::up_with(Terms { probed_rounds: 8, ..Terms::default() });
        for word in &words {
            match word {
                Word::Vllm(parts) => {
                    let read = story.hear(&payload(&parts.message()));
                    prop_assert!(read.is_ok(), "{read:?}");
                }
                Word::Core(parts) => {
                    let sent = story.core(&parts.msg());
                    if !sent.payload.is_empty() {
                        let read = Message::decode(&sent.payload, &Limits::DEFAULT);
                        prop_assert!(matches!(read, Ok(wire::Decoded::Message(_))), "{read:?}");
                    }
                }
            }
        }
        // 3 requests of 3 rounds under three names each, 60 lookups of either side at most.
        prop_assert!(story.kept() <= 200, "{}", story.kept());
    }

    #[test]
    fn any_bytes(payloads in vec(vec(any::<u8>(), 0..80), 0..20)) {
        let mut story = Story::up();
        for payload in payloads {
            let _ = story.hear(&payload);
        }
        prop_assert_eq!(story.kept(), 0);
    }
}
