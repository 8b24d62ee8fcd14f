//! A child process of a background worker: started clean (own session, default signals, no
//! descriptors of PostgreSQL), tied to its parent's life, observed without blocking.
#![allow(unsafe_code)]

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a child has to end by itself once its lifetime pipe is closed.
const END_PATIENCE: Duration = Duration::from_millis(500);
/// A line of the log longer than this is passed on in parts.
const LOG_LINE_BYTES: usize = 4096;

/// The variables of the server's environment that a child is given: where the certificates of authorities
/// are (a file, a directory), for endpoints whose certificates an authority of one's own has signed.
const TRUST: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// What happened to the child since it was last looked at.
pub enum ChildEvent {
    Running,
    /// It was stopped by a signal, at this time.
    Stopped(Instant),
    /// It ended; how.
    Ended(String),
}

/// A running child. Its standard input is the lifetime pipe: when it closes, the child ends.
pub struct Child {
    pid: Pid,
    lifetime: Option<ChildStdin>,
    log: Option<ChildStderr>,
    pending: Vec<u8>,
    started: Instant,
    stopped_since: Option<Instant>,
    listening: bool,
}

impl Child {
    /// Starts a program with its arguments (`command[0]` is the program).
    pub fn spawn(command: &[String]) -> std::io::Result<Self> {
        let parent = std::process::id();
        let mut builder = Command::new(&command[0]);
        builder
            .args(&command[1..])
            .env_clear()
            // ONNX Runtime would otherwise queue events about this process for its makers.
            .env("ORT_DISABLE_TELEMETRY", "1")
            // Which authorities to trust besides the system's is set where the server is started.
            .envs(TRUST.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // SAFETY: the closure runs between fork and exec and makes only async-signal-safe calls.
        unsafe { builder.pre_exec(move || prepare_child(parent)) };
        let mut child = builder.spawn()?;
        let log = child.stderr.take();
        if let Some(log) = &log {
            rustix::fs::fcntl_setfl(log, OFlags::NONBLOCK)?;
        }
        Ok(Self {
            pid: Pid::from_child(&child),
            lifetime: child.stdin.take(),
            log,
            pending: Vec::new(),
            started: Instant::now(),
            stopped_since: None,
            listening: false,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// How long ago it was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether its socket accepts connections (once true, always true), found out by `connects`.
    pub fn is_listening(&mut self, connects: impl FnOnce() -> bool) -> bool {
        self.listening = self.listening || connects();
        self.listening
    }

    /// The descriptor of its log, while it is open.
    pub fn log_descriptor(&self) -> Option<RawFd> {
        self.log.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// When the child should be looked at even if nothing is heard: while it is not listening yet,
    /// and while it is stopped.
    pub fn next_look(&self) -> Option<Duration> {
        if self.stopped_since.is_some() || self.log.is_none() {
            Some(Duration::from_millis(200))
        } else if !self.listening {
            Some(Duration::from_millis(20))
        } else {
            None
        }
    }

    /// The lines it has written since the last call.
    pub fn read_log(&mut self) -> Vec<String> {
        let Some(log) = &mut self.log else { return Vec::new() };
        let mut buffer = [0u8; 4096];
        let is_open = loop {
            match log.read(&mut buffer) {
                Ok(0) => break false,
                Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        if !is_open {
            self.log = None;
            if !self.pending.is_empty() {
                self.pending.push(b'\n');
            }
        }
        let mut lines = Vec::new();
        loop {
            let end = self.pending.iter().position(|&byte| byte == b'\n');
            let taken = match end {
                Some(end) => end + 1,
                None if self.pending.len() >= LOG_LINE_BYTES => LOG_LINE_BYTES,
                None => break,
            };
            let line: Vec<u8> = self.pending.drain(..taken).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if !line.is_empty() {
                lines.push(line);
            }
        }
        lines
    }

    /// Looks at the child without waiting.
    pub fn poll(&mut self) -> ChildEvent {
        let changes = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        loop {
            match waitpid(Some(self.pid), changes) {
                Ok(Some((_, status))) if status.stopped() => {
                    self.stopped_since = Some(Instant::now());
                }
                Ok(Some((_, status))) if status.continued() => self.stopped_since = None,
                Ok(Some((_, status))) => {
                    let status = ExitStatus::from_raw(status.as_raw());
                    return ChildEvent::Ended(status.to_string());
                }
                Ok(None) => {
                    return self.stopped_since.map_or(ChildEvent::Running, ChildEvent::Stopped);
                }
                Err(Errno::INTR) => {}
                Err(_) => return ChildEvent::Ended("it was waited for elsewhere".into()),
            }
        }
    }

    /// Kills it; the end is seen by the next [`Child::poll`].
    pub fn kill(&self) {
        // It was not waited for yet, so no other process has its id.
        let _ = kill_process(self.pid, Signal::KILL);
    }

    /// Ends it: closes the lifetime pipe, gives it a moment, then kills it. Returns when it is gone.
    pub fn end(mut self) {
        drop(self.lifetime.take());
        let deadline = Instant::now() + END_PATIENCE;
        while !matches!(self.poll(), ChildEvent::Ended(_)) {
            if Instant::now() >= deadline {
                self.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs in the child before exec: nothing of PostgreSQL may leak into the program.
fn prepare_child(parent: u32) -> std::io::Result<()> {
    // SAFETY: async-signal-safe system calls on constants and locals.
    unsafe {
        libc::setsid();
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() as u32 != parent {
            return Err(std::io::Error::other("the parent is gone"));
        }
        // Close on exec, not at once: the pipe that reports a failing exec is among them.
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        // PostgreSQL must not be the one that the kernel ends when memory runs out.
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY);
        if file >= 0 {
            libc::write(file, c"500".as_ptr().cast(), 3);
            libc::close(file);
        }
    }
    Ok(())
}
