//! The rows of `memory_status()` about background work: launcher, workers, the LLM, the queue, and what
//! was not extracted.

use crate::jobs::prelude::*;
use crate::jobs::run::{launcher, slots};
use crate::memory::scope::endpoints::{self as llm_endpoints, Chosen};
use crate::memory::status::{StatusRow, row};
use crate::pg::locked_file;
use crate::pg::preload::is_preloaded;
use crate::settings::{Extraction, Inference, Models, Sessions, Workers, audit_keys, providers};
use crate::store::{
    llm::{
        endpoints, llm_calls,
        llm_probes::{self, Tested},
    },
    rows::counts,
    schema,
};
use memory_agent_core::facts::reconcile::probe;
use memory_agent_core::facts::statement_probe;
use memory_agent_model_server::protocol::{BreakerState, EndpointStatus, ServerStatus};

/// All rows, in the order of a job's way. Only administrators see what an endpoint said: it may quote
/// what it was sent.
pub fn rows(spi: &Spi, server: Option<&ServerStatus>) -> PgResult<Vec<StatusRow>> {
    let jobs = counts::queue(spi)?;
    let mut rows = vec![launcher_row()];
    rows.extend(workers(&jobs));
    rows.extend(llms(spi, server)?);
    rows.push(extraction(spi)?);
    if schema::has_0_3() {
        rows.push(replacements(spi)?);
    }
    rows.push(queue(&jobs));
    rows.push(history(spi)?);
    Ok(rows)
}

fn launcher_row() -> StatusRow {
    if !Workers::current().worker {
        return row("launcher", "off", "memory_agent.worker is off", None);
    }
    if let Some(state) = launcher::read() {
        let detail =
            format!("pid {}, databases with the extension: {}", state.pid, state.databases);
        return row("launcher", "running", detail, None);
    }
    if is_preloaded() {
        return row(
            "launcher",
            "not running",
            "",
            "On a standby that is right. Else see the server log, and check max_worker_processes.",
        );
    }
    row(
        "launcher",
        "on demand",
        "the next call that queues a job starts it",
        "Add memory_agent to shared_preload_libraries, so that jobs also run after a restart of the server.",
    )
}

#[allow(unsafe_code)]
fn workers(jobs: &counts::Queue) -> Vec<StatusRow> {
    // SAFETY: set for the life of the session.
    let database = unsafe { pg_sys::MyDatabaseId };
    let last = slots::last(database, 0);
    let live = slots::at_work_in(database);
    if live.is_empty() {
        let error = last.and_then(|state| state.last_error);
        let detail = error.map_or_else(String::new, |error| format!("last error {}", told(&error)));
        return vec![row("worker", "not running", detail, missing_worker(jobs))];
    }
    live.into_iter()
        .map(|(slot, state)| {
            let error = state
                .last_error
                .as_ref()
                .map_or_else(String::new, |error| format!(", last error {}", told(error)));
            let detail = format!(
                "slot {slot}, pid {}, for {} s, {}{error}",
                state.pid,
                locked_file::unix_time().saturating_sub(state.since),
                state.activity
            );
            if state.activity.contains(slots::RESTING) {
                row("worker", "resting", detail, END_RESTORE)
            } else {
                row("worker", "running", detail, None)
            }
        })
        .collect()
}

/// What to do about a session that calls itself pg_restore and restores nothing.
const END_RESTORE: &str = "Jobs go on when that session has ended. If it restores nothing, have it use another \
    application_name, or end it with pg_terminate_backend.";

/// What helps where no worker runs and one is wanted.
fn missing_worker(jobs: &counts::Queue) -> Option<&'static str> {
    match launcher::read() {
        _ if !Workers::current().worker => None,
        Some(state) => state.lacks_slots.then_some(launcher::SHORTAGE_HINT),
        None if is_preloaded() => None,
        None => jobs.pending.is_some().then_some(
            "Jobs wait for the next call that queues one. If that starts no worker, raise max_worker_processes.",
        ),
    }
}

/// An error without its text, which may quote a user's content: that is in memory_jobs.
fn told((_, at): &(String, u64)) -> String {
    format!("{} s ago, see memory_jobs", locked_file::unix_time().saturating_sub(*at))
}

/// A row for the LLM of the settings, and one for each endpoint that agents ask instead.
fn llms(spi: &Spi, server: Option<&ServerStatus>) -> PgResult<Vec<StatusRow>> {
    let named = endpoints::asked(spi)?;
    let mut rows = match providers::missing_llm() {
        Some(providers::NO_LLM) if !named.is_empty() => vec![row(
            "llm",
            "none",
            "agents without an endpoint of their own have none: memory_agent.llm_base_url is empty",
            None,
        )],
        _ => vec![llm(spi, "llm", Chosen::of_settings(), server)?],
    };
    for endpoint in named {
        let component = format!("llm {}", endpoint.name);
        rows.push(llm(spi, &component, Chosen::of_row(endpoint), server)?);
    }
    Ok(rows)
}

fn llm(
    spi: &Spi,
    component: &str,
    chosen: Chosen,
    server: Option<&ServerStatus>,
) -> PgResult<StatusRow> {
    if chosen.name().is_none() && providers::missing_llm() == Some(providers::NO_LLM) {
        return Ok(row(
            component,
            "none",
            "no facts are extracted: memory_agent.llm_base_url is empty",
            "Set memory_agent.llm_base_url and memory_agent.llm_model in postgresql.conf, and reload.",
        ));
    }
    if Models::current().inference == Inference::Backend {
        return Ok(row(
            component,
            "unreachable",
            "LLMs are called by the model server, and memory_agent.inference is 'backend'",
            "Set memory_agent.inference to 'server'.",
        ));
    }
    let endpoint = match chosen.endpoint() {
        Ok(endpoint) => endpoint,
        Err(reason) => {
            let hint = match chosen.name() {
                None => "The server's operating system user must be able to read the file.",
                Some(_) => "See docs/worker.md, \"Several endpoints\".",
            };
            return Ok(row(component, "misconfigured", reason, hint));
        }
    };
    let (limit, setting) = chosen.daily_tokens();
    if limit > 0 {
        let used = llm_calls::tokens_today(spi, chosen.name())?;
        if used >= limit {
            let detail = format!("{used} of {limit} tokens of today are used");
            let hint = format!("Jobs continue tomorrow (UTC), or when {setting} is raised.");
            return Ok(row(component, "limited", detail, hint.as_str()));
        }
    }
    let known = server.and_then(|server| {
        server.endpoints.iter().find(|known| {
            known.model == endpoint.model && same_url(&known.base_url, &endpoint.base_url)
        })
    });
    Ok(match known {
        None => row(component, "configured", endpoint.model, None),
        Some(known) => endpoint_row(component, &endpoint.model, known),
    })
}

fn same_url(left: &str, right: &str) -> bool {
    left.trim_end_matches('/') == right.trim_end_matches('/')
}

/// What an endpoint means by a status. Its own words may quote what a user said.
fn meaning(failure: &str) -> &'static str {
    match failure {
        "http 401" | "http 403" => " (it refuses the key)",
        "http 404" => " (it does not know the model or the path)",
        "http 429" => " (too many requests)",
        _ => "",
    }
}

fn endpoint_row(component: &str, model: &str, endpoint: &EndpointStatus) -> StatusRow {
    let error = endpoint
        .last_error
        .as_ref()
        .map_or_else(String::new, |error| format!(", last failure: {error}{}", meaning(error)));
    let detail = format!(
        "{model}, {} calls, {} in flight, answers as {}{error}",
        endpoint.calls, endpoint.in_flight, endpoint.answer_mode
    );
    match endpoint.breaker {
        BreakerState::Closed if endpoint.retry_in_ms > 0 => row(
            component,
            "paused",
            format!("{detail}; continues in {} s", endpoint.retry_in_ms.div_ceil(1000)),
            "The endpoint asked for the pause (Retry-After).",
        ),
        BreakerState::Closed => row(component, "reachable", detail, None),
        BreakerState::Open => row(
            component,
            "unavailable",
            format!(
                "{detail}; {} failures, circuit breaker open, next try in {} s",
                endpoint.failures,
                endpoint.retry_in_ms.div_ceil(1000)
            ),
            "Jobs wait and lose nothing. memory_jobs.last_error has the endpoint's own words. Check the endpoint and \
             its key; no restart is needed.",
        ),
        BreakerState::HalfOpen => row(
            component,
            "unavailable",
            format!("{detail}; circuit breaker half open, the next call decides"),
            None,
        ),
    }
}

fn extraction(spi: &Spi) -> PgResult<StatusRow> {
    let turns = counts::unextracted(spi)?;
    let has_llm = llm_endpoints::all_missing(spi)?.is_none();
    let state = match Sessions::current().extraction {
        _ if !has_llm => "off",
        Extraction::Turn => "turn",
        Extraction::Episode => "episode",
        Extraction::Off => "off",
    };
    let detail = format!(
        "{} user turns wait for extraction, {} were stored without extraction; \
         {} episodes run or wait until facts are made of them{}",
        turns.waiting,
        turns.skipped,
        turns.episodes,
        results(spi, Tested::Statements, statement_probe::MESSAGES)?
    );
    let hint = (turns.skipped.is_some() && has_llm)
        .then_some("SELECT memory_backfill() queues what was stored without extraction.");
    Ok(row("extraction", state, detail, hint))
}

/// What probes found out.
fn results(spi: &Spi, tested: Tested, all: u32) -> PgResult<String> {
    let results = llm_probes::all(spi, tested)?;
    let told =
        results.iter().map(|(model, right)| format!("; probe of {model}: {right} of {all} right"));
    Ok(told.collect())
}

fn replacements(spi: &Spi) -> PgResult<StatusRow> {
    let has_passed = match Chosen::of_settings().endpoint() {
        Ok(endpoint) => llm_probes::passed(spi, &endpoint, Tested::Choices)?.unwrap_or(false),
        Err(_) => false,
    };
    let state = if has_passed { "believed" } else { "doubted" };
    let (doubted, held) = counts::doubted(spi)?;
    let probes = results(spi, Tested::Choices, probe::CHOICES)?;
    let detail = format!("{doubted} facts were doubted, of which {held} still are{probes}");
    Ok(row("replacements", state, detail, None))
}

fn queue(queue: &counts::Queue) -> StatusRow {
    let oldest =
        queue.oldest_seconds.map_or(String::new(), |seconds| format!(", oldest {seconds:.0} s"));
    let detail = format!(
        "{} pending, {} running, {} dead{oldest}",
        queue.pending, queue.running, queue.dead
    );
    let state = if queue.pending.is_some() || queue.running.is_some() {
        "waiting"
    } else if queue.dead.is_some() {
        "dead jobs"
    } else {
        "empty"
    };
    let hint = queue
        .dead
        .is_some()
        .then_some("See last_error in memory_jobs; memory_retry(id) runs a dead job again.");
    row("queue", state, detail, hint)
}

/// Seconds after which rows of history that are not sealed are reported.
const PATIENCE: f64 = 300.0;

fn history(spi: &Spi) -> PgResult<StatusRow> {
    if !schema::has_0_2() {
        let hint = "Run ALTER EXTENSION memory_agent UPDATE.";
        return Ok(row("history", "not sealed", "the tables are those of 0.1.0", hint));
    }
    let (rows, oldest) = counts::unsealed(spi)?;
    let detail = format!("{rows} rows are not sealed yet");
    if let Err(error) = audit_keys::key() {
        let detail = format!("{detail}: {}", error.message());
        let hint = "Nothing is sealed until the key can be read: by the server's operating system user, in the first line.";
        return Ok(row("history", "stopped", detail, hint));
    }
    Ok(if rows.is_none() {
        row("history", "sealed", "", None)
    } else if oldest < PATIENCE {
        row("history", "waiting", detail, None)
    } else {
        let hint = "A worker seals them: see the rows launcher and worker.";
        row("history", "waiting", detail, hint)
    })
}
