//! What callers may use of the gateway's key: so many tokens of the language model a day. They are counted in
//! the database, which several gateways share: a guess before the upstream is asked, corrected by what the
//! upstream says that it took. So requests that are answered at the same time count, and a guess stays where
//! a gateway was killed.

use crate::chat::answer::Usage;
use crate::chat::costs::MOST_GUESSED;
use crate::db::memory::Memory;
use crate::gateway::{Gateway, Permit};
use crate::people::authentication::Person;
use crate::refusal::Refusal;
use axum::body::Body;
use futures_util::TryStreamExt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A text has about so many bytes for a token.
const BYTES_PER_TOKEN: usize = 4;
const SECONDS_PER_DAY: u64 = 86_400;

/// The limit.
pub struct Spending {
    memory: Memory,
    /// Tokens a day for each caller; `None` for any number.
    daily: Option<i64>,
}

/// A guess that was counted. What it is never settled with, it stays.
#[derive(Debug)]
pub struct Guess {
    caller: [u8; 32],
    /// Of the request.
    prompt: i64,
    /// Of the longest answer that it asks for.
    answer: i64,
}

impl Spending {
    /// 0 is no limit.
    pub fn new(memory: Memory, daily: u32) -> Self {
        Self { memory, daily: (daily > 0).then_some(i64::from(daily)) }
    }

    /// Whether there is one.
    pub fn is_limited(&self) -> bool {
        self.daily.is_some()
    }

    /// Counts a request of so many bytes, and the longest answer that it asks for, in tokens that are bounded;
    /// `None` without a limit.
    ///
    /// # Errors
    /// That the day's tokens are spent; or that they cannot be counted: a limit that ends with the database
    /// would be none.
    pub async fn begin(
        &self,
        person: &Person,
        bytes: usize,
        max_tokens: Option<u64>,
    ) -> Result<Option<Guess>, Refusal> {
        let Some(daily) = self.daily else { return Ok(None) };
        let answer = i64::try_from(max_tokens.unwrap_or(0)).unwrap_or(0);
        let guess = Guess { caller: person.caller, prompt: guessed(bytes), answer };
        match self.memory.spend(&person.caller, guess.tokens(), daily).await {
            Ok(Some(_)) => Ok(Some(guess)),
            Ok(None) => Err(Refusal::spent(until_midnight(SystemTime::now()))),
            Err(error) => Err(Refusal::no_memory(format!("spending cannot be counted: {error}"))),
        }
    }
}

impl Guess {
    /// Counts what it was in truth, in the background; the permit keeps the program until then.
    pub fn settle(self, gateway: &Arc<Gateway>, permit: &Permit, tokens: i64) {
        let (gateway, permit) = (Arc::clone(gateway), Arc::clone(permit));
        tokio::spawn(async move {
            let memory = &gateway.spending.memory;
            if let Err(error) = memory.settle(&self.caller, tokens.max(0), self.tokens()).await {
                gateway.missed("spend", &error);
            }
            drop(permit);
        });
    }

    /// What a call took of which the upstream said so much, whose answer said so many bytes. Of an answer that
    /// broke off it is not known how much more there was, and what was thought before it.
    pub fn took(&self, usage: Option<Usage>, said: usize, is_over: bool) -> i64 {
        let said = i64::try_from(said.div_ceil(BYTES_PER_TOKEN)).unwrap_or(i64::MAX / 2);
        let said = self.prompt + said;
        match usage {
            Some(usage) if is_over => usage.total(),
            None if is_over => said,
            _ => usage.map_or(0, Usage::total).max(self.tokens()).max(said),
        }
    }

    /// Counts an answer that goes on unread, when it ends or its client leaves.
    pub fn count(self, gateway: &Arc<Gateway>, permit: &Permit, body: Body) -> Body {
        let (gateway, permit) = (Arc::clone(gateway), Arc::clone(permit));
        let mut unread = Unread { guess: Some(self), gateway, permit, bytes: 0 };
        let pieces = body.into_data_stream();
        Body::from_stream(pieces.inspect_ok(move |piece| unread.pass(piece.len())))
    }

    fn tokens(&self) -> i64 {
        self.prompt + self.answer
    }
}

/// An answer that goes on unread.
struct Unread {
    guess: Option<Guess>,
    gateway: Arc<Gateway>,
    permit: Permit,
    bytes: usize,
}

impl Unread {
    fn pass(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if let Some(guess) = self.guess.take() {
            let took = guess.took(None, self.bytes, false);
            guess.settle(&self.gateway, &self.permit, took);
        }
    }
}

/// Tokens of so many bytes.
fn guessed(bytes: usize) -> i64 {
    let tokens = u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(MOST_GUESSED);
    i64::try_from(tokens.min(MOST_GUESSED)).unwrap_or(0)
}

/// Seconds until a day begins, in UTC.
fn until_midnight(now: SystemTime) -> u32 {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    u32::try_from(SECONDS_PER_DAY - seconds % SECONDS_PER_DAY).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn guesses_grow_with_what_is_sent_up_to_a_bound() {
        assert_eq!([0, 1, 4, 5].map(guessed), [0, 1, 1, 2]);
        assert_eq!(guessed(32 << 20), 128_000);
    }

    #[test]
    fn what_broke_off_counts_the_most_that_is_known_of_it() {
        let guess = Guess { caller: [0; 32], prompt: 10, answer: 5 };
        assert_eq!((guess.tokens(), guess.took(None, 8, true)), (15, 12));
        assert_eq!((guess.took(None, 8, false), guess.took(None, 80, false)), (15, 30));
        let usage = |completion| Some(Usage { prompt: 12, completion });
        assert_eq!(guess.took(usage(1), 80, true), 13, "the upstream knows");
        assert_eq!([1, 100].map(|told| guess.took(usage(told), 80, false)), [30, 112]);
    }

    #[test]
    fn a_day_ends_at_midnight() {
        let at = |seconds| until_midnight(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!([at(0), at(86_399), at(86_400), at(86_401)], [86_400, 1, 86_400, 86_399]);
    }
}
