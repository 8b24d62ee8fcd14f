//! Keeps signals away from threads that we start. A signal sent to a process is delivered to
//! any thread that does not block it, and PostgreSQL's handlers must run on its main thread.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// While it lives, the calling thread blocks every signal, and so does every thread it starts
/// (for that thread's whole life). Dropping it restores the mask, and signals that came in the
/// meantime are delivered then.
#[derive(Debug)]
pub struct SignalsBlocked {
    previous: libc::sigset_t,
    /// The mask belongs to one thread, so the guard must not move to another.
    not_send: PhantomData<*const ()>,
}

impl SignalsBlocked {
    /// Blocks all signals for the calling thread.
    ///
    /// # Errors
    /// What `pthread_sigmask` returned.
    pub fn new() -> io::Result<Self> {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut previous = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigfillset initialises `all` before it is read, and pthread_sigmask fills
        // `previous` when it succeeds, which is checked before it is read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            let code =
                libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), previous.as_mut_ptr());
            if code != 0 {
                return Err(io::Error::from_raw_os_error(code));
            }
            Ok(Self { previous: previous.assume_init(), not_send: PhantomData })
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: `previous` is the mask this thread had; setting it cannot fail with a valid
        // first argument.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.previous,
                std::ptr::null_mut(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: i32) -> bool {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: a null new mask only reads the present one into `mask`.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), mask.as_mut_ptr());
            libc::sigismember(mask.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn blocks_for_new_threads_and_restores_the_callers_mask() {
        assert!(!is_blocked(libc::SIGTERM));
        let guard = SignalsBlocked::new().unwrap();
        assert!(is_blocked(libc::SIGTERM));
        let thread = std::thread::spawn(|| is_blocked(libc::SIGTERM) && is_blocked(libc::SIGINT));
        drop(guard);
        assert!(!is_blocked(libc::SIGTERM));
        assert!(thread.join().unwrap());
    }
}
