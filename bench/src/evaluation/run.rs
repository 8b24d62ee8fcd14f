//! All sessions of a run, some at a time.

use crate::arguments::Arguments;
use crate::endpoint::Endpoint;
use crate::session::{self, Played, Task};
use memory_agent_bench::Result;
use memory_agent_bench::report::progress;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const DATABASE: &str = "evaluation";

/// The sessions in the order of scenario, length and iteration.
pub fn run(endpoint: &Endpoint, arguments: &Arguments) -> Result<Vec<Played>> {
    drop(endpoint.database(DATABASE));
    let tasks: Vec<Task> = arguments
        .scenarios()
        .flat_map(|scenario| arguments.turns().iter().map(move |turns| (scenario, *turns)))
        .flat_map(|(scenario, turns)| {
            (0..arguments.iterations()).map(move |iteration| Task { scenario, turns, iteration })
        })
        .collect();
    if tasks.is_empty() {
        return Err(
            "--sessions needs a scenario whose facts are about the user: multi_fact_tracking"
                .into(),
        );
    }
    progress(format_args!("{} conversations", tasks.len()));

    let next = AtomicUsize::new(0);
    let played: Mutex<Vec<(usize, Played)>> = Mutex::default();
    let failure: Mutex<Option<String>> = Mutex::default();
    let stop = |error: String| {
        next.store(tasks.len(), Ordering::SeqCst);
        if let Ok(mut failure) = failure.lock() {
            failure.get_or_insert(error);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.max_concurrent.min(tasks.len()) {
            scope.spawn(|| {
                let mut client = endpoint.cluster.connect(DATABASE);
                while let Some((number, task)) = take(&next, &tasks) {
                    match session::play(&mut client, endpoint.stub.as_ref(), task, arguments) {
                        Ok(session) => {
                            tell(&session, arguments.verbose);
                            if let Ok(mut played) = played.lock() {
                                played.push((number, session));
                            }
                        }
                        Err(error) => stop(error.to_string()),
                    }
                }
            });
        }
    });
    if let Ok(Some(error)) = failure.into_inner() {
        return Err(error.into());
    }
    let mut played = played.into_inner().map_err(|_| "a session panicked")?;
    played.sort_by_key(|(number, _)| *number);
    Ok(played.into_iter().map(|(_, session)| session).collect())
}

fn take(next: &AtomicUsize, tasks: &[Task]) -> Option<(usize, Task)> {
    let number = next.fetch_add(1, Ordering::SeqCst);
    tasks.get(number).map(|task| (number, *task))
}

fn tell(session: &Played, verbose: bool) {
    let failed: Vec<_> = session.probes.iter().filter(|probe| !probe.passes()).collect();
    if verbose {
        progress(format_args!(
            "{}, {} turns, {}: {} facts, {} of {} probes pass",
            session.scenario,
            session.turns,
            session.iteration,
            session.facts,
            session.probes.len() - failed.len(),
            session.probes.len()
        ));
        for probe in failed {
            progress(format_args!("  failed: {probe:?}"));
        }
    }
}
