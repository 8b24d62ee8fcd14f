//! Whose turn it is: of each kind of job, users are served one after the other.

use crate::pg::background_transaction::{Aborted, transaction};
use crate::store::jobs::JobKind;
use crate::store::queue::{self, Job};

/// The users who were served last.
#[derive(Default)]
pub struct Turns {
    last: Vec<(JobKind, String)>,
}

impl Turns {
    /// Claims the next job of a kind, another user's if one has any.
    pub fn claim(&mut self, slot: u32, kind: JobKind) -> Result<Option<Job>, Aborted> {
        let position = self.last.iter().position(|(known, _)| *known == kind);
        let after = position.map_or("", |position| self.last[position].1.as_str());
        let claimed = transaction(|spi| queue::claim(spi, slot, kind, after))?;
        if let Some(job) = &claimed {
            match position {
                Some(position) => self.last[position].1.clone_from(&job.user_id),
                None => self.last.push((kind, job.user_id.clone())),
            }
        }
        Ok(claimed)
    }
}
