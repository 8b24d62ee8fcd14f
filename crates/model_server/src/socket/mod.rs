//! The socket: who connects, and what is read and answered there.

pub(crate) mod budget;
pub(crate) mod connection;
pub(crate) mod listener;
pub mod server;
