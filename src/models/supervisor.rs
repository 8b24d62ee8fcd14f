//! The background worker that runs the model server: starts it, restarts it with back-off, passes
//! its log on, replaces it when settings change or when it is stopped, and ends it on the way out.
//! It has no database connection and runs from the moment the data is consistent, so on standbys too.
//!
//! A crash of a background worker restarts the whole cluster; a crash of this worker's child costs
//! a retry. That is why the models are not in here.

use super::interface::Failure;
use super::{paths, socket};
use crate::models::supervisor_state::{self, State};
use crate::pg::latch;
use crate::pg::preload::is_preloaded;
use crate::pg::prelude::*;
use crate::pg::process::{Child, ChildEvent};
use crate::settings::{Models, Recall, providers};
use pgrx::bgworkers::{
    BackgroundWorker, BackgroundWorkerBuilder, BgWorkerStartTime, SignalWakeFlags,
};
use std::time::{Duration, Instant};

/// First and longest pause before a failing server is started again.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// Longest pause for a server that had come as far as listening, for so many failures in a row.
const SHORT_BACK_OFF: Duration = Duration::from_millis(500);
const PATIENT_FAILURES: u32 = 20;
/// A server that ran for so long was healthy: the next failure is a first one.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
/// A server that does not listen after so long has failed.
const LISTEN_PATIENCE: Duration = Duration::from_secs(5);
/// A server that leaves a status request unanswered for so long is replaced.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// A server stopped (SIGSTOP) for so long is replaced.
const STOPPED_PATIENCE: Duration = Duration::from_secs(1);

fn builder() -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new("memory_agent model supervisor")
        .set_type("memory_agent model supervisor")
        .set_library("memory_agent")
        .set_function("memory_agent_supervisor_main")
        .enable_shmem_access(None)
        .set_start_time(BgWorkerStartTime::ConsistentState)
        .set_restart_time(Some(Duration::from_secs(1)))
}

/// Registers the worker with the postmaster; only while shared libraries are preloaded.
pub fn register() {
    builder().load();
}

/// What came of asking for a supervisor.
pub enum Start {
    /// A server is starting and worth waiting for.
    Starting,
    /// There is one, or the postmaster starts it.
    Running,
    /// All slots for background workers are taken: perhaps by others who ask for the same.
    NoSlot(Failure),
}

/// Makes sure that a supervisor runs.
pub fn ensure_started() -> Result<Start, Failure> {
    if is_binary_upgrade() {
        return Err(Failure::unavailable("no model server is started during pg_upgrade"));
    }
    match supervisor_state::read() {
        Some(State::Starting) => Ok(Start::Starting),
        Some(State::Running(_)) => Ok(Start::Running),
        Some(State::Failing(reason)) => {
            Err(Failure::unavailable(format!("the model server does not start: {reason}")))
        }
        // The postmaster starts it by itself; it takes a moment after the server's start.
        None if is_preloaded() => Ok(Start::Running),
        None => match builder().load_dynamic() {
            Ok(_) => Ok(Start::Starting),
            // Another backend was quicker and took the last slot for the same purpose.
            Err(_) if supervisor_state::read().is_some() => Ok(Start::Starting),
            Err(_) => Ok(Start::NoSlot(Failure {
                hint: "Raise max_worker_processes, or add memory_agent to shared_preload_libraries.",
                ..Failure::unavailable(
                    "the model server cannot be started: no background worker slot is free",
                )
            })),
        },
    }
}

/// Whether this server is pg_upgrade's.
#[allow(unsafe_code)]
fn is_binary_upgrade() -> bool {
    // SAFETY: a flag that is set when the server starts.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Entry point of the worker.
#[allow(unsafe_code)]
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn memory_agent_supervisor_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(
        SignalWakeFlags::SIGTERM | SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGCHLD,
    );
    hear_of_stopped_children();
    // A SIGHUP that came before the handler was there is lost: read the files once more.
    reload_settings();
    match supervisor_state::Lock::take() {
        Ok(Some(lock)) => Supervisor::new(lock).run(),
        // Another supervisor is at work; this one is not needed.
        // SAFETY: the regular way out of a background worker; 0 means: do not start it again.
        Ok(None) => unsafe { pg_sys::proc_exit(0) },
        Err(error) => log!("memory_agent: the model supervisor cannot lock its state: {error}"),
    }
    // SAFETY: as above; 1 means: start it again, unless the server is shutting down.
    unsafe { pg_sys::proc_exit(1) };
}

/// PostgreSQL installs its SIGCHLD handlers so that a child that is stopped, not ended, says nothing.
#[allow(unsafe_code)]
fn hear_of_stopped_children() {
    // SAFETY: reads the present action and puts it back with one flag less.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action);
        action.sa_flags &= !libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut());
    }
}

#[allow(unsafe_code)]
fn reload_settings() {
    // SAFETY: called from the worker's main loop, outside of any transaction.
    unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
}

/// What the server is started with, with the models that the settings ask for, or with all that they name: a change
/// of those means a new server.
fn command_line(with_all: bool) -> Vec<String> {
    let mut arguments = vec![
        paths::model_server().to_string_lossy().into_owned(),
        "--socket".into(),
        paths::SOCKET.into(),
        "--onnxruntime".into(),
        paths::onnxruntime().to_string_lossy().into_owned(),
        "--threads".into(),
        threads().to_string(),
        "--parent".into(),
        std::process::id().to_string(),
    ];
    let settings = Models::current();
    // What the settings switch off is loaded when a session asks for it all the same.
    let is_needed = [!providers::is_embedder_remote(), Recall::current().rerank];
    for (name, is_needed) in [settings.embedding_model, settings.rerank_model].iter().zip(is_needed)
    {
        if (with_all || is_needed) && !name.is_empty() {
            arguments.push("--preload".into());
            arguments.push(paths::model_directory().join(name).to_string_lossy().into_owned());
        }
    }
    arguments
}

/// Whether the model server's socket accepts connections.
fn listens() -> bool {
    socket::connect_now().is_ok()
}

/// `memory_agent.inference_threads`, with 0 resolved.
pub fn threads() -> usize {
    match Models::current().inference_threads {
        0 => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4)),
        threads => threads,
    }
}

struct Supervisor {
    lock: supervisor_state::Lock,
    child: Option<Child>,
    /// What the server was started for.
    command: Vec<String>,
    back_off: Duration,
    start_at: Instant,
    last_message: String,
    last_check: Option<Instant>,
    /// Failures in a row.
    failures: u32,
}

impl Supervisor {
    fn new(lock: supervisor_state::Lock) -> Self {
        Self {
            lock,
            child: None,
            command: command_line(true),
            back_off: FIRST_BACK_OFF,
            start_at: Instant::now(),
            last_message: String::new(),
            last_check: None,
            failures: 0,
        }
    }

    fn run(&mut self) {
        while !BackgroundWorker::sigterm_received() {
            if BackgroundWorker::sighup_received() {
                reload_settings();
                self.replace_if_changed();
                self.replace_if_mute();
            }
            // Consumes the flag; the child is looked at in every turn anyway.
            let _ = BackgroundWorker::sigchld_received();
            self.look_at_child();
            if self.child.is_none() && Instant::now() >= self.start_at {
                self.start();
            }
            self.wait();
        }
        if let Some(child) = self.child.take() {
            child.end();
        }
        self.lock.write(&State::Starting);
    }

    fn start(&mut self) {
        self.last_message.clear();
        if self.back_off == FIRST_BACK_OFF {
            self.lock.write(&State::Starting);
        }
        match Child::spawn(&command_line(false)) {
            Ok(child) => self.child = Some(child),
            Err(error) => self.failed(format!("cannot run \"{}\": {error}", self.command[0])),
        }
    }

    fn failed(&mut self, reason: String) {
        let is_first = self.back_off <= FIRST_BACK_OFF;
        self.lock.write(&if is_first { State::Starting } else { State::Failing(reason.clone()) });
        log!(
            "memory_agent: model server failed, next start in {} ms: {reason}",
            self.back_off.as_millis()
        );
        self.start_at = Instant::now() + self.back_off;
        self.back_off = (self.back_off * 2).min(LONGEST_BACK_OFF);
    }

    fn look_at_child(&mut self) {
        let Some(child) = &mut self.child else { return };
        for line in child.read_log() {
            log!("memory_agent: model server: {line}");
            self.last_message = line;
        }
        match child.poll() {
            ChildEvent::Running => {
                if child.is_listening(listens) {
                    if child.age() >= HEALTHY_AFTER {
                        self.back_off = FIRST_BACK_OFF;
                    }
                    self.lock.write(&State::Running(std::process::id() as i32));
                } else if child.age() >= LISTEN_PATIENCE {
                    self.last_message = "it did not open its socket".into();
                    child.kill();
                }
            }
            ChildEvent::Stopped(since) => {
                if since.elapsed() >= STOPPED_PATIENCE {
                    log!("memory_agent: model server is stopped, it is replaced");
                    child.kill();
                }
            }
            ChildEvent::Ended(how) => {
                let healthy = child.age() >= HEALTHY_AFTER;
                let listened = child.is_listening(|| false);
                for line in child.read_log() {
                    log!("memory_agent: model server: {line}");
                    self.last_message = line;
                }
                self.child = None;
                self.failures = if healthy { 0 } else { self.failures + 1 };
                if healthy {
                    self.back_off = FIRST_BACK_OFF;
                } else if listened && self.failures <= PATIENT_FAILURES {
                    // It worked and was ended, by the kernel or by hand: be back soon.
                    self.back_off = self.back_off.min(SHORT_BACK_OFF);
                }
                let reason = if self.last_message.is_empty() {
                    how
                } else {
                    format!("{how}; its last message: {}", self.last_message)
                };
                self.failed(reason);
            }
        }
    }

    fn replace_if_changed(&mut self) {
        let command = command_line(true);
        if command != self.command {
            self.command = command;
            if let Some(child) = self.child.take() {
                log!("memory_agent: settings changed, the model server is restarted");
                child.end();
            }
            self.back_off = FIRST_BACK_OFF;
            self.start_at = Instant::now();
        }
    }

    /// Kills a server that should answer and does not; the next look starts a new one. Asked for by a
    /// process that could not reach it, and by every reload.
    fn replace_if_mute(&mut self) {
        let Some(child) = &mut self.child else { return };
        if !child.is_listening(listens)
            || self.last_check.is_some_and(|at| at.elapsed() < ANSWER_PATIENCE)
        {
            return;
        }
        self.last_check = Some(Instant::now());
        let answers = || {
            socket::status_within(ANSWER_PATIENCE).is_some_and(|status| status.pid == child.pid())
        };
        // Once more: a pause of the whole machine ends the first wait, whatever the server does. And answers of
        // LLMs that are on their way are lost with it.
        if !answers() && !answers() {
            log!("memory_agent: the model server does not answer, it is replaced");
            child.kill();
            self.back_off = FIRST_BACK_OFF;
        }
    }

    /// Sleeps until a signal, a line of the child's log, or the next thing that is due.
    fn wait(&self) {
        let due = match &self.child {
            None => Some(self.start_at.saturating_duration_since(Instant::now())),
            Some(child) => child.next_look(),
        };
        let descriptor = self.child.as_ref().and_then(Child::log_descriptor);
        latch::wait(due, descriptor.map(|descriptor| (descriptor, pg_sys::WL_SOCKET_READABLE)));
    }
}
