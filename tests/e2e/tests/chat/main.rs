//! memory_augment and memory_chat: what the LLM is sent, what is stored, what comes back, and that
//! nothing of it depends on the LLM being well.

mod augment;
mod bodies;
mod budgets;
mod cancel;
mod converse;
mod earlier;
mod echo;
mod endpoint;
mod failures;
mod gate;
mod injections;
mod never_over;
mod options;
mod outages;
mod passages;
#[path = "../common/random.rs"]
#[allow(dead_code, reason = "shared with suites that use other parts")]
mod random;
mod scene;
mod spent;
mod stored;
#[path = "../common/supervisor.rs"]
#[allow(dead_code, reason = "shared with suites that use other parts")]
mod supervisor;
mod tls;
