//! What the user said, on its way into memory: a chat waits for it as long as it may, and it is stored all the same.

use crate::chat::turn::{Stored, Turn};
use crate::db::memory::MemoryError;
use crate::gateway::{Gateway, Permit};
use std::sync::Arc;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A turn on its way into memory.
#[derive(Default)]
pub struct Said {
    turn: Option<Turn>,
    storing: Option<JoinHandle<Result<Stored, MemoryError>>>,
    pub stored: Option<Stored>,
}

impl Said {
    /// Stores a turn in a task, and waits for it as long as `patience` says. Who waits may give up, and it is
    /// stored all the same; until then `permit` keeps the program.
    pub async fn store(
        turn: Turn,
        gateway: &Arc<Gateway>,
        permit: &Permit,
    ) -> (Self, Result<(), MemoryError>) {
        let task = (Arc::clone(gateway), Arc::clone(permit), turn.clone());
        let mut storing = tokio::spawn(async move {
            let (gateway, _permit, turn) = task;
            gateway.memory.store(&turn).await
        });
        let mut said = Self { turn: Some(turn), ..Self::default() };
        match tokio::time::timeout(gateway.patience, &mut storing).await {
            Ok(Ok(Ok(stored))) => said.stored = Some(stored),
            Ok(Ok(Err(error))) => return (said, Err(error)),
            Ok(Err(_)) => return (said, Err(MemoryError::Unexpected)),
            Err(_) => {
                said.storing = Some(storing);
                return (said, Err(MemoryError::Late));
            }
        }
        (said, Ok(()))
    }

    /// The id of the turn, once it is stored.
    pub fn id(&self) -> Option<Uuid> {
        self.stored.as_ref().map(|stored| stored.id)
    }

    /// Waits until it is stored, however long that takes, and tries once more if it was not: should the
    /// database have been gone for a moment, it may be there again.
    pub async fn settle(&mut self, gateway: &Gateway) -> Result<(), MemoryError> {
        if let Some(storing) = self.storing.take()
            && let Ok(Ok(stored)) = storing.await
        {
            self.stored = Some(stored);
        }
        if self.stored.is_none()
            && let Some(turn) = self.turn.take()
        {
            self.stored = Some(gateway.memory.store(&turn).await?);
        }
        Ok(())
    }

    /// Forgets it, as the upstream refused it, unless it was there before; the client is not told. Waits as long as a
    /// chat may, so that the client that sends it again has it stored again.
    pub async fn take_back(
        &mut self,
        gateway: &Arc<Gateway>,
        permit: &Permit,
    ) -> Result<(), MemoryError> {
        let (gateway, permit) = (Arc::clone(gateway), Arc::clone(permit));
        let (patience, mut said) = (gateway.patience, std::mem::take(self));
        let forgetting = tokio::spawn(async move {
            let (user_id, _permit) = (said.turn.as_ref().map(|turn| turn.user_id.clone()), permit);
            if let Some(storing) = said.storing.take()
                && let Ok(Ok(stored)) = storing.await
            {
                said.stored = Some(stored);
            }
            match (said.stored.filter(|stored| stored.is_new), user_id) {
                (Some(stored), Some(user_id)) => {
                    gateway.memory.undo(&stored, &user_id, "the upstream refused it").await
                }
                _ => Ok(()),
            }
        });
        let forgotten = tokio::time::timeout(patience, forgetting).await;
        forgotten.unwrap_or(Ok(Err(MemoryError::Late))).unwrap_or(Err(MemoryError::Unexpected))
    }
}
