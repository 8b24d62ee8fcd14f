//! While tools answer, the memories of a request stay as they are: each request of a tool loop gets what the one
//! before got, byte for byte, so that the provider's cache knows the beginning of the prompt again. That ends when a
//! memory of it holds no longer, and with this process.

use crate::chat::extras::Extras;
use crate::chat::queries::Recalled;
use crate::db::memory::{Memory, MemoryError};
use crate::people::fair_table::{FairTable, Hash};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long it is kept without being used: no provider's cache keeps a prompt longer.
const KEPT: Duration = Duration::from_secs(3_600);
/// How often what is over is looked for.
const SWEPT: Duration = Duration::from_secs(60);
/// Bytes of all that is kept, and of one of it: what is longer is not kept.
const MOST_BYTES: usize = 64 << 20;
const LONGEST: usize = 1 << 20;
/// What the smallest counts: 16,384 of it are kept.
const LEAST_BYTES: usize = 4 << 10;

/// What is asked of memory.
pub struct Question<'a> {
    pub user_id: &'a str,
    /// The messages up to the user's last one, and what else the model reads up to there.
    pub chat: &'a Value,
    pub extras: &'a Extras,
    /// Whether the request goes on after the user's last message.
    pub goes_on: bool,
}

impl Question<'_> {
    /// The user, and what is the same in every request of a loop and in no other conversation of the user's.
    fn names(&self) -> (Hash, Hash) {
        let user = Sha256::digest(self.user_id);
        let extras = Sha256::digest(format!("{:?}", self.extras));
        let whole = Sha256::new().chain_update(user).chain_update(extras);
        (user.into(), whole.chain_update(self.chat.to_string()).finalize().into())
    }
}

/// What requests were told.
pub struct ToolLoops(Mutex<Kept>);

struct Kept {
    told: FairTable<Told>,
    swept: Instant,
}

struct Told {
    recalled: Recalled,
    used: Instant,
}

impl Default for ToolLoops {
    fn default() -> Self {
        Self(Mutex::new(Kept { told: FairTable::new(MOST_BYTES), swept: Instant::now() }))
    }
}

impl ToolLoops {
    /// What the requests before this one of a loop were told, if it still holds; else what is remembered now.
    /// `looking` is used when it is settled what a recall sees, and dropped if there is none.
    ///
    /// # Errors
    /// [`MemoryError`]; [`MemoryError::Late`] when patience ends.
    pub async fn recall(
        &self,
        memory: &Memory,
        question: &Question<'_>,
        looking: oneshot::Sender<()>,
    ) -> Result<Recalled, MemoryError> {
        let Question { user_id, chat, extras, goes_on } = *question;
        let (user, name) = question.names();
        if goes_on
            && let Some(told) = self.told(&name, Instant::now())
            && memory.state(user_id, &told).await? == told.state
        {
            return Ok(told);
        }
        let recalled = memory.augment(user_id, chat, extras, looking).await?;
        self.keep(user, name, recalled.clone(), Instant::now());
        Ok(recalled)
    }

    fn told(&self, name: &Hash, now: Instant) -> Option<Recalled> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = kept.told.get(name).filter(|told| told.is_kept(now))?;
        told.used = now;
        Some(told.recalled.clone())
    }

    fn keep(&self, user: Hash, name: Hash, recalled: Recalled, now: Instant) {
        let block = recalled.block.as_ref().map_or(0, String::len);
        let size = (block + recalled.hits.to_string().len()).max(LEAST_BYTES);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(kept.swept) >= SWEPT {
            kept.told.retain(|told| told.is_kept(now));
            kept.swept = now;
        }
        if size > LONGEST {
            kept.told.remove(&name);
            return;
        }
        kept.told.insert_sized(user, name, Told { recalled, used: now }, size);
    }
}

impl Told {
    fn is_kept(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < KEPT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn recalled(text: &str) -> Recalled {
        let block = Some(text.to_owned());
        Recalled { block, hits: json!([]), summary_of: None, state: String::new() }
    }

    #[test]
    fn whatever_decides_what_is_remembered_tells_loops_apart() {
        let names = |user_id: &str, chat: &Value, extras: &Extras| {
            Question { user_id, chat, extras, goes_on: true }.names().1
        };
        let (chat, extras) = (json!({"messages": ["a"]}), Extras::default());
        let name = names("ann", &chat, &extras);
        assert_eq!(name, names("ann", &chat.clone(), &extras.clone()));
        let other_session = Extras { session_id: "s".to_owned(), ..Extras::default() };
        let fewer = Extras { top_k: Some(1), ..Extras::default() };
        for other in [
            names("bob", &chat, &extras),
            names("ann", &json!({"messages": ["b"]}), &extras),
            names("ann", &chat, &other_session),
            names("ann", &chat, &fewer),
        ] {
            assert_ne!(name, other);
        }
    }

    #[test]
    fn it_is_kept_for_a_while_and_not_without_end() {
        let (loops, start) = (ToolLoops::default(), Instant::now());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let (ann, bob, first) = ([1; 32], [2; 32], [9; 32]);
        let text = |name: &Hash, now: Instant| loops.told(name, now).and_then(|told| told.block);
        let number = |number: u32| {
            let mut name = [0; 32];
            name[..4].copy_from_slice(&number.to_be_bytes());
            name
        };
        loops.keep(ann, first, recalled("first"), start);
        // What is used stays.
        assert_eq!(text(&first, after(3_000)).as_deref(), Some("first"));
        assert_eq!(text(&first, after(6_500)).as_deref(), Some("first"));
        assert_eq!(text(&first, after(10_100)), None);
        loops.keep(ann, first, recalled("second"), after(10_100));
        let long = "x".repeat(LONGEST - 2);
        for at in 0..100 {
            loops.keep(bob, number(at), recalled(&long), after(10_100));
        }
        let kept = (0..100).filter(|at| text(&number(*at), after(10_100)).is_some()).count();
        assert_eq!(kept, 63, "who has the most makes room");
        assert_eq!(text(&first, after(10_100)).as_deref(), Some("second"));
        // Where nothing is kept, nothing older may come back.
        loops.keep(ann, first, recalled(&"x".repeat(LONGEST)), after(10_100));
        assert_eq!(text(&first, after(10_100)), None);
        loops.keep(ann, first, recalled("third"), after(20_000));
        assert_eq!(text(&number(99), after(10_100)), None, "what is over is taken out");
    }
}
