//! What a context window costs and holds: the targets of the sliding-window design, measured through
//! SQL on made-up conversations. Each part has a database of its own.

mod budgets;
mod cap;
mod compressed;
mod figures;
mod latency;
mod talk;
mod window;

use crate::arguments::Arguments;
use crate::endpoint::Endpoint;
use figures::Figures;
use memory_agent_bench::Result;

/// Measures everything and writes `kpi.json` and `kpi.md`. False if a target is missed, or a part could
/// not be measured: the others are then.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let endpoint = Endpoint::start(&arguments.llm(), &[]);
    let mut figures = Figures::new(crate::about(&endpoint)?);
    let seed = arguments.seed;
    figures.part("a window of 50 turns", |figures| window::measure(&endpoint, figures));
    figures.part("token budgets", |figures| budgets::measure(&endpoint, seed, figures));
    figures.part("a cap over a long history", |figures| cap::measure(&endpoint, figures));
    figures.part("latency of contexts", |figures| latency::measure(&endpoint, figures));
    figures
        .part("a compressed conversation", |figures| compressed::measure(&endpoint, seed, figures));
    figures.finish(&arguments.output)
}
