//! Token counts are those of the reference, and cost no more than time linear in the text.

use std::time::{Duration, Instant};

use memory_agent_model_server::engine::cl100k;
use memory_agent_model_server::engine::encoding::count;
use memory_agent_model_server::protocol::Encoding;
use proptest::prelude::*;

fn reference(text: &str) -> u32 {
    tiktoken_rs::cl100k_base_singleton().count_ordinary(text) as u32
}

fn later_reference(text: &str) -> u32 {
    tiktoken_rs::o200k_base_singleton().count_ordinary(text) as u32
}

proptest! {
    #[test]
    fn any_text_counts_as_in_the_reference(text in any::<String>()) {
        prop_assert_eq!(cl100k::count(&text), reference(&text));
        prop_assert_eq!(count(Encoding::Cl100k, &text), reference(&text));
        prop_assert_eq!(count(Encoding::O200k, &text), later_reference(&text));
    }

    #[test]
    fn text_like_in_conversations_counts_as_in_the_reference(
        parts in prop::collection::vec(
            prop_oneof![
                "[a-zA-Z]{1,12}", "[0-9]{1,9}", " {1,5}", "[\\r\\n\\t ]{1,4}", "'(s|t|re|LL|VE)",
                "[.,;:!?(){}<>|_=-]{1,4}", "[à-ÿ]{1,4}", "[ぁ-ん一-龥]{1,4}", "[😀-😏]{1,2}",
                "<\\|endoftext\\|>",
            ],
            0..40,
        )
    ) {
        let text = parts.concat();
        prop_assert_eq!(cl100k::count(&text), reference(&text));
        prop_assert_eq!(count(Encoding::O200k, &text), later_reference(&text));
    }
}

#[test]
fn known_counts() {
    assert_eq!(cl100k::count(""), 0);
    assert_eq!(cl100k::count("hello world"), 2);
    assert_eq!(cl100k::count("<|endoftext|>"), 7);
    let hindi = "मुझे चाय पसंद है";
    assert_eq!((count(Encoding::Cl100k, hindi), count(Encoding::O200k, hindi)), (17, 6));
}

#[test]
fn a_megabyte_without_a_word_border_takes_no_longer_than_prose() {
    let random: String = (0..1_000_000_u64)
        .scan(1_u64, |state, _| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            Some(char::from(b'a' + (*state >> 40) as u8 % 26))
        })
        .collect();
    cl100k::warm_up();
    for text in ["a".repeat(1_000_000), " ".repeat(1_000_000), "\n".repeat(1_000_000), random] {
        let started = Instant::now();
        assert!(cl100k::count(&text) > 0 && count(Encoding::O200k, &text) > 0);
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
