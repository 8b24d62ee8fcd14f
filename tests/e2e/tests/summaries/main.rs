//! Summaries and compression: what sessions of every length are condensed to, what the LLM is asked for
//! that, what leaves the window, and that nothing is lost or done twice whatever fails meanwhile. The
//! LLM is a stub that writes summaries of the length it is asked for.

mod added;
mod archived;
mod compress;
mod condenser;
mod faults;
mod functions;
mod growing;
mod levels;
mod meanwhile;
mod settings;
mod talk;

#[path = "../worker/scene.rs"]
#[allow(dead_code, reason = "the suite `worker` uses the rest")]
mod scene;
