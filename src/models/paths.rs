//! Where the installed files are: model folders, the model server's program, the ONNX Runtime
//! library, and the server's socket. Settings override; empty settings mean what `make install` did.
#![allow(unsafe_code)]

use crate::settings::Models;
use pgrx::pg_sys;
use std::ffi::{CStr, c_char};
use std::path::PathBuf;

/// The model server's socket, relative to the data directory, which is every backend's working
/// directory. Base backups leave this folder out.
pub const SOCKET: &str = "pg_stat_tmp/memory_agent.sock";

/// The directory that holds one folder per model.
pub fn model_directory() -> PathBuf {
    chosen(&Models::current().model_dir, || share_directory().join("memory_agent/models"))
}

/// The directories with a folder of phrases for each language: that of the setting, if there is one, before the
/// installed one.
pub fn languages() -> impl Iterator<Item = PathBuf> {
    let own = Models::current().language_dir;
    let own = (!own.is_empty()).then(|| PathBuf::from(own));
    own.into_iter().chain([share_directory().join("memory_agent/languages")])
}

/// The model server's program.
pub fn model_server() -> PathBuf {
    chosen(&Models::current().model_server_path, || {
        library_directory().join("memory_agent/memory_agent_model_server")
    })
}

/// The ONNX Runtime library.
pub fn onnxruntime() -> PathBuf {
    chosen(&Models::current().onnxruntime_path, || {
        library_directory().join("memory_agent/libonnxruntime.so")
    })
}

/// A message as the calling role may see it: where files of the server are is for those who may read
/// the settings that say so.
pub fn without_secret_places(message: &str) -> String {
    // SAFETY: reads backend state and catalogs. The outer user is the caller, also while a statement
    // of ours runs as the owner.
    let may_see = unsafe {
        let user = pg_sys::GetOuterUserId();
        pg_sys::superuser_arg(user)
            || pg_sys::has_privs_of_role(user, pg_sys::Oid::from(pg_sys::ROLE_PG_READ_ALL_SETTINGS))
    };
    if may_see {
        return message.to_owned();
    }
    let mut shown = message.to_owned();
    for place in [model_directory(), model_server(), onnxruntime()] {
        let place = place.to_string_lossy().into_owned();
        if place.len() > 1 {
            shown = shown.replace(&format!("{place}/"), "").replace(&place, "");
        }
    }
    shown
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
