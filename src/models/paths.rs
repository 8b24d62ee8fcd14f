//! Where the installed files are: model folders, the model server's program, the ONNX Runtime
//! library, and the server's socket. Settings override; empty settings mean what `make install` did.
#![allow(unsafe_code)]

use crate::guc;
use pgrx::pg_sys;
use std::ffi::{CStr, c_char};
use std::path::PathBuf;

/// The model server's socket, relative to the data directory, which is every backend's working
/// directory. Base backups leave this folder out.
pub const SOCKET: &str = "pg_stat_tmp/memory_agent.sock";

/// The directory that holds one folder per model.
pub fn model_directory() -> PathBuf {
    chosen(&guc::model_dir(), || share_directory().join("memory_agent/models"))
}

/// The model server's program.
pub fn model_server() -> PathBuf {
    chosen(&guc::model_server_path(), || {
        library_directory().join("memory_agent/memory_agent_model_server")
    })
}

/// The ONNX Runtime library.
pub fn onnxruntime() -> PathBuf {
    chosen(&guc::onnxruntime_path(), || library_directory().join("memory_agent/libonnxruntime.so"))
}

fn chosen(setting: &str, installed: impl FnOnce() -> PathBuf) -> PathBuf {
    if setting.is_empty() { installed() } else { PathBuf::from(setting) }
}

fn share_directory() -> PathBuf {
    let mut path = [0 as c_char; pg_sys::MAXPGPATH as usize];
    // SAFETY: my_exec_path is a NUL-terminated array of the server; the buffer has MAXPGPATH bytes.
    unsafe {
        pg_sys::get_share_path((&raw const pg_sys::my_exec_path).cast(), path.as_mut_ptr());
        PathBuf::from(CStr::from_ptr(path.as_ptr()).to_string_lossy().into_owned())
    }
}

fn library_directory() -> PathBuf {
    // SAFETY: pkglib_path is a NUL-terminated array set when the server starts.
    let path = unsafe { CStr::from_ptr((&raw const pg_sys::pkglib_path).cast()) };
    PathBuf::from(path.to_string_lossy().into_owned())
}
