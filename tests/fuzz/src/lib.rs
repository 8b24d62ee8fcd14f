//! What the fuzz targets check, one module a target: not only that nothing panics, but
//! what the parser promises (round trips, bounded output, the same again the second time).
//! `fuzz_targets/` holds the entry points of libFuzzer, `corpus/` where each begins. What a run finds
//! becomes a unit test beside the code that was wrong.

pub mod attached;
pub mod chat_messages;
pub mod chunks;
pub mod filter;
pub mod frames;
pub mod front_matter;
pub mod gateway_jwt;
pub mod gateway_request;
pub mod gateway_stream;
pub mod grounding;
pub mod http_answers;
pub mod llm_answer;
pub mod markdown;
pub mod memory_path;
pub mod secrets;
pub mod settings;
pub mod signature;
pub mod summary;
pub mod text;

// The gateway is a program, so its parsers are no library's: they are built here as they are.
#[allow(dead_code)]
#[path = "."]
mod chat {
    #[path = "../../../crates/gateway/src/chat/chat_form.rs"]
    pub mod chat_form;
    #[path = "../../../crates/gateway/src/chat/chat_request.rs"]
    pub mod chat_request;
    #[path = "../../../crates/gateway/src/chat/costs.rs"]
    pub mod costs;
    #[path = "../../../crates/gateway/src/chat/extras.rs"]
    pub mod extras;
    #[path = "../../../crates/gateway/src/chat/seen.rs"]
    pub mod seen;
    #[path = "../../../crates/gateway/src/chat/splice.rs"]
    pub mod splice;
    #[path = "../../../crates/gateway/src/chat/sse.rs"]
    pub mod sse;
    #[path = "../../../crates/gateway/src/chat/users_words.rs"]
    pub mod users_words;
}
#[allow(dead_code)]
#[path = "."]
mod people {
    #[path = "../../../crates/gateway/src/people/jwt.rs"]
    pub mod jwt;
}

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long an input is made when it is repeated: long enough that a loop over a loop shows.
const REPEATED_BYTES: usize = 32 * 1024;
/// What any input may cost, and what each byte of it may: three times what was measured, instrumented and beside other
/// work (facts that are compared with a turn: 1.1 s for 32 KiB, 2.2 s for 64 KiB). What is quadratic takes ten times as
/// long. It is the processor's time, so a busy machine makes no finding.
const BASE: Duration = Duration::from_millis(1_200);
const PER_BYTE: Duration = Duration::from_micros(60);

/// The text of an input. A first byte of 0 says that the rest is repeated until it is long, or of three
/// parts between bytes 3 the second; a byte 2 is the number of the repetition, so that no two are equal.
/// Of many such inputs only some are repeated, for each costs what a thousand others do. The first of a
/// process is, so that a finding that is run by itself is the same again.
pub fn text(data: &[u8]) -> String {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let long;
    let bytes = match data {
        [0, rest @ ..] if !rest.is_empty() && SEEN.fetch_add(1, Ordering::Relaxed) % 64 == 0 => {
            long = repeated(rest);
            &long[..]
        }
        _ => data,
    };
    String::from_utf8_lossy(bytes).into_owned()
}

fn repeated(input: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = input.splitn(3, |byte| *byte == 3).collect();
    let (before, unit, after) = match parts[..] {
        [before, unit, after] => (before, unit, after),
        _ => (&[][..], input, &[][..]),
    };
    let mut text = before.to_vec();
    for number in 0.. {
        let start = text.len();
        for byte in unit {
            match byte {
                2 => text.extend(number.to_string().bytes()),
                other => text.push(*other),
            }
        }
        if text.len() == start || text.len() >= REPEATED_BYTES {
            break;
        }
    }
    text.extend(after);
    text
}

/// Two texts: what is before the first line break, and what is behind it.
pub fn two_texts(data: &[u8]) -> (String, String) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let first = String::from_utf8_lossy(&data[..end]).into_owned();
    (first, text(data.get(end + 1..).unwrap_or_default()))
}

/// Runs a check of an input of so many bytes, and fails when that takes longer than a linear pass.
pub fn linear<T>(bytes: usize, check: impl FnOnce() -> T) -> T {
    let before = processor_time();
    let result = check();
    let taken = processor_time().saturating_sub(before);
    let allowed = BASE + PER_BYTE * u32::try_from(bytes).unwrap_or(u32::MAX);
    assert!(taken <= allowed, "{bytes} bytes took {taken:?}, more than {allowed:?}");
    result
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours, which the call only writes.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// An error names what is wrong and does not repeat a long input.
pub fn short(error: impl std::fmt::Display) {
    let message = error.to_string();
    assert!(message.chars().count() <= 1_000, "an error of {} bytes", message.len());
}
