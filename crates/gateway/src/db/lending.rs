//! Connections to the database, lent for one transaction each. Of the places in the pool, users have most, what
//! waits for a language model has a few of its own, and one at least is left for what is about no user: tokens,
//! spending, health. Each user has at most half of what users have. A transaction whose caller waits no more
//! is cancelled, and has its place until it is over.

use crate::db::database::{self, Cancelling};
use crate::db::memory_error::{MemoryError, unreachable};
use crate::people::shares::Shares;
use deadpool_postgres::{Client, Object, Pool};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Of so many places, one is for what waits for a language model.
const PLACES_PER_MODEL: usize = 4;
/// A request to cancel finds nothing to cancel between two statements, so it is repeated: first after this, then
/// after twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Beyond what a statement may take, a server that says nothing is waited for so long.
const SILENCE: Duration = Duration::from_secs(5);

/// Who asks for a connection.
#[derive(Clone, Copy, Debug)]
pub enum Borrower<'a> {
    /// The gateway itself.
    Gateway,
    User(&'a str),
    /// A user whose statement waits for a language model.
    WithModel(&'a str),
}

impl<'a> Borrower<'a> {
    /// Of a statement about a user's memory; about no user's where `user_id` is empty.
    pub fn of(user_id: &'a str) -> Self {
        if user_id.is_empty() { Self::Gateway } else { Self::User(user_id) }
    }

    pub fn user_id(self) -> &'a str {
        match self {
            Self::Gateway => "",
            Self::User(user_id) | Self::WithModel(user_id) => user_id,
        }
    }
}

/// The pool.
pub struct Lender {
    pool: Pool,
    cancelling: Cancelling,
    /// Where the database is.
    address: String,
    of_users: Lane,
    with_model: Lane,
}

/// Places that are for one kind of statements, with a share for each user.
struct Lane {
    places: Arc<Semaphore>,
    shares: Shares,
}

impl Lane {
    fn new(places: usize) -> Self {
        let places = places.max(1);
        Self { places: Arc::new(Semaphore::new(places)), shares: Shares::new(places.div_ceil(2)) }
    }

    /// Waits for a place. The semaphores are never closed.
    async fn enter(&self, user_id: &str) -> Vec<OwnedSemaphorePermit> {
        let share = self.shares.of(user_id).acquire_owned().await;
        let place = Arc::clone(&self.places).acquire_owned().await;
        share.into_iter().chain(place).collect()
    }
}

impl Lender {
    /// # Errors
    /// What is wrong with the connection string, or with the pool.
    pub fn new(database: &str, connections: usize, patience: Duration) -> Result<Self, String> {
        let (manager, cancelling, address) = database::manager(database, patience)?;
        let pool = Pool::builder(manager).max_size(connections).build();
        let with_model = (connections / PLACES_PER_MODEL).max(1);
        Ok(Self {
            pool: pool.map_err(|error| format!("the pool: {error}"))?,
            cancelling,
            address,
            of_users: Lane::new(connections.saturating_sub(with_model + 1)),
            with_model: Lane::new(with_model),
        })
    }

    /// Connections that are open, and how many of them are idle.
    pub fn connections(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size, status.available)
    }

    /// Waits for a connection, for a transaction that may take so long.
    ///
    /// # Errors
    /// No connection is available.
    pub async fn lend(
        &self,
        borrower: Borrower<'_>,
        patience: Duration,
    ) -> Result<Lent, MemoryError> {
        let places = match borrower {
            Borrower::Gateway => Vec::new(),
            Borrower::User(user_id) => self.of_users.enter(user_id).await,
            Borrower::WithModel(user_id) => self.with_model.enter(user_id).await,
        };
        let object = self.pool.get().await.map_err(|error| unreachable(&error, &self.address))?;
        let (object, cancelling) = (Some(object), self.cancelling.clone());
        Ok(Lent { object, places, cancelling, patience })
    }
}

/// A connection that goes back to the pool when its transaction is over. Where that is not waited for, the
/// transaction is cancelled.
pub struct Lent {
    object: Option<Object>,
    places: Vec<OwnedSemaphorePermit>,
    cancelling: Cancelling,
    patience: Duration,
}

impl Lent {
    /// The connection; `None` once it was given back.
    pub fn client(&self) -> Option<&Client> {
        self.object.as_ref()
    }

    pub fn give_back(mut self) {
        drop(self.object.take());
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(object), Ok(runtime)) = (self.object.take(), Handle::try_current()) else {
            return;
        };
        let (places, cancelling) = (std::mem::take(&mut self.places), self.cancelling.clone());
        let longest = self.patience + SILENCE;
        runtime.spawn(async move {
            // What answers this has nothing left to do.
            let over = object.batch_execute("ROLLBACK");
            let cancel = async {
                let mut pause = FIRST_PAUSE;
                loop {
                    // The next one may get through.
                    let _ = timeout(SILENCE, cancelling.cancel(object.cancel_token())).await;
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            };
            tokio::select! {
                biased;
                _ = over => {}
                () = cancel => {}
                () = sleep(longest) => {}
            }
            // A request to cancel may still be on its way, and must not meet another statement.
            drop(Object::take(object));
            drop(places);
        });
    }
}
