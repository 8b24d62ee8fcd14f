//! The sessions of one graph, shared by the threads that run it.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::engine::onnx::{OnnxSession, Output, Runtime, SessionOptions};
use crate::engine::tokenizer::TokenSequence;

/// The sessions of one graph. A session must not run twice at the same time: the authors of
/// `ort` found ONNX Runtime not to be thread-safe there. So every concurrent run needs its own.
#[derive(Debug)]
pub(crate) struct SessionPool {
    runtime: Runtime,
    options: SessionOptions,
    state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Debug)]
struct PoolState {
    idle: Vec<OnnxSession>,
    /// Sessions that may still be created: one more than there are at first, for a run that is urgent while all are
    /// in use, and those in place of ones lost to a panic.
    missing: usize,
}

impl SessionPool {
    /// Loads `count` sessions, in parallel. One more is loaded when it is first wanted.
    ///
    /// # Errors
    /// The reasons as text; see [`OnnxSession::load`].
    pub fn new(
        runtime: &Runtime,
        options: SessionOptions,
        count: usize,
    ) -> Result<Self, Vec<String>> {
        let idle = std::thread::scope(|scope| {
            let loaders: Vec<_> =
                (1..count).map(|_| scope.spawn(|| OnnxSession::load(runtime, &options))).collect();
            let mut idle = vec![OnnxSession::load(runtime, &options)?];
            for loader in loaders {
                idle.push(loader.join().map_err(|_| vec!["loading panicked".to_owned()])??);
            }
            Ok::<_, Vec<String>>(idle)
        })?;
        Ok(Self {
            runtime: runtime.clone(),
            options,
            state: Mutex::new(PoolState { idle, missing: 1 }),
            returned: Condvar::new(),
        })
    }

    /// Takes a session, waiting for one if all are in use.
    pub fn take(&self) -> Result<Lease<'_>, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(session) = state.idle.pop() {
                return Ok(Lease { pool: self, session: Some(session) });
            }
            if state.missing > 0 {
                let session = OnnxSession::load(&self.runtime, &self.options)
                    .map_err(|reasons| reasons.join("; "))?;
                state.missing -= 1;
                return Ok(Lease { pool: self, session: Some(session) });
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A session in use; dropping it returns it.
#[derive(Debug)]
pub(crate) struct Lease<'pool> {
    pool: &'pool SessionPool,
    session: Option<OnnxSession>,
}

impl Lease<'_> {
    /// The names of what the graph returns.
    pub fn outputs(&self) -> Vec<String> {
        self.session.iter().flat_map(OnnxSession::outputs).map(str::to_owned).collect()
    }

    /// See [`OnnxSession::run`].
    pub fn run<T>(
        &mut self,
        batch: &[&TokenSequence],
        pad: u32,
        output: usize,
        read: impl FnOnce(Output<'_>) -> T,
    ) -> Result<T, String> {
        match &mut self.session {
            Some(session) => session.run(batch, pad, output, read),
            None => Err("the session is gone".to_owned()),
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        match self.session.take() {
            // What a panic left behind is not trusted.
            Some(session) if !std::thread::panicking() => state.idle.push(session),
            _ => state.missing += 1,
        }
        self.pool.returned.notify_one();
    }
}
