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
use memory_agent_bench::report::progress;

/// Measures everything and writes `kpi.json` and `kpi.md`. False if a target is missed.
pub fn run(arguments: &Arguments) -> Result<bool> {
    // A window of 38,000 tokens has more turns than the default keeps; llm_scene lifts max_entries.
    let endpoint = Endpoint::start(&arguments.llm, &[]);
    let mut figures = Figures::new(crate::about(&endpoint)?);
    progress("a window of 50 turns");
    window::measure(&endpoint, &mut figures)?;
    progress("token budgets");
    budgets::measure(&endpoint, arguments.seed, &mut figures)?;
    progress("a cap over a long history");
    cap::measure(&endpoint, &mut figures)?;
    progress("latency of contexts");
    latency::measure(&endpoint, &mut figures)?;
    progress("a conversation that is compressed");
    compressed::measure(&endpoint, arguments.seed, &mut figures)?;
    figures.finish(&arguments.output)
}
