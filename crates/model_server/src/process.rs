//! The server as a child process: it must never outlive its supervisor, and leaves nothing
//! behind that a successor could not clean up.
#![allow(unsafe_code)]

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{FromRawFd, RawFd};
use std::thread;

/// Asks the kernel to kill this process when its parent dies, then makes sure that it has not
/// died before.
///
/// * `parent`: process id of the supervisor, if known.
///
/// # Errors
/// The operating system's, or one that says that the parent is gone.
pub fn die_with_parent(parent: Option<u32>) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match parent {
        Some(parent) if parent != std::os::unix::process::parent_id() => {
            Err(io::Error::other(format!("the parent process {parent} is gone")))
        }
        _ => Ok(()),
    }
}

/// Keeps what this process holds out of core dumps, and out of reach of other processes of the same user
/// (ptrace, `/proc/PID/mem`, `/proc/PID/environ`): keys of endpoints pass through it, and texts. Root can
/// still look.
///
/// # Errors
/// The operating system's.
pub fn forbid_dumps() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Lets this process hold as many connections as its hard limit allows. PostgreSQL may have more
/// backends than the usual soft limit of 1024 files.
pub fn raise_open_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // A failure leaves the old limit, which is no error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Files made from now on are for this user only. Affects the whole process, so it is called
/// before any thread starts.
pub fn restrict_new_files() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Ends the process when the other end of the pipe `descriptor` closes, that is, when the
/// supervisor ends in whatever way.
///
/// * `at_end`: called just before the process ends.
///
/// # Errors
/// If `descriptor` is not open, or no thread can be started.
pub fn end_with_pipe(descriptor: RawFd, at_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // SAFETY: F_GETFD only asks whether the descriptor is open.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and by contract of the command line it is given to this function,
    // which is called once; nothing else in the process uses or closes it.
    let mut pipe = unsafe { File::from_raw_fd(descriptor) };
    thread::Builder::new().name("lifetime".to_owned()).spawn(move || {
        let mut byte = [0];
        loop {
            match pipe.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        at_end();
        exit_now(0);
    })?;
    Ok(())
}

/// Ends the process without exit handlers: those of ONNX Runtime would destroy what the model
/// threads still use.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit does not return and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Gives allocations of 4 MiB and more, as those for long sequences are, pages of their own, which return to the
/// system when they are freed. Otherwise glibc raises this limit to the largest block that was freed, and keeps such
/// blocks in its heap. Setting it would fix the size of the heap's free end at 128 KiB, so that is set as well. Call it
/// before other threads start.
pub fn map_large_allocations() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only changes settings of the allocator, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 8 << 20);
    }
}

/// Returns free heap memory to the system: loading a model leaves some 20 MB behind that glibc
/// would keep.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Resident memory of this process in bytes, 0 if the kernel does not say.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|value| value.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
