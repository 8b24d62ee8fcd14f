//! Every setting: its default, context and bounds, and that it does something.

mod catalog;
mod deviations;
mod effects;
mod endpoints;
mod ranking;
mod retired;
mod server;
mod table;
